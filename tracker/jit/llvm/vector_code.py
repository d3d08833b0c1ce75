"""Vector instructions for the scalar instructions of a loop's body, as LLVM IR text.

`VectorCode.add_body` takes a body line by line. An instruction is one of three kinds. *Uniform*: no
operand differs between lanes; it is computed once, before the loop. *Linear*: an integer or address
that grows by a constant from lane to lane; only that of lane 0 is computed. *Varying*: becomes an
instruction on vectors. `LeaveScalar` is raised for what has no vector form here.

Invariant: lanes compute what iterations of the scalar loop compute, by the same operations; only
sums and products that carry `reassoc`, and operations without rounding, are reordered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set

from tracker.support.structs import record

SIZES = {"double": 8, "float": 4, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "i1": 1, "ptr": 8}
SIZES |= {"[2 x double]": 16, "[2 x float]": 8}  # complex numbers
_SUFFIXES = {"double": "f64", "float": "f32"}  # of intrinsics; others are as the type
_MAX_INTERLEAVED = 4  # elements between lanes of stores
MAX_STRIDE = 4  # elements; lanes farther apart are gathered, where that pays
_WORK_PER_GATHER = 12  # instructions for which a gather pays

_TYPE = r"(?:double|float|ptr|i\d+)"
_BINARY = re.compile(rf"((?:[a-z]+ )*?)({_TYPE}) ([^,]+), (.+)")
_UNARY = re.compile(rf"((?:[a-z]+ )*?)({_TYPE}) (\S+)")
_COMPARE = re.compile(rf"(\w+) ({_TYPE}) ([^,]+), (.+)")
_SELECT = re.compile(rf"i1 ([^,]+), ({_TYPE}) ([^,]+), {_TYPE} (.+)")
_CAST = re.compile(rf"({_TYPE}) (\S+) to ({_TYPE})")
LOAD = re.compile(rf"({_TYPE}), ptr (%[\w.]+|@[\w.]+)(?:, align (\d+))?(.*)")
_ADDRESS = re.compile(rf"(inbounds )?({_TYPE}|\[2 x \w+\]), ptr (%[\w.]+|@[\w.]+), i64 (\S+)")
_CALL = re.compile(rf"((?:[a-z]+ )*?)({_TYPE}) @([\w.]+)\((.*)\)")
STORE = re.compile(rf"({_TYPE}) (\S+), ptr (%[\w.]+)(?:, align (\d+))?")

NAME = re.compile(r"%[\w.]+")
_RETURN = re.compile(rf"  ret ({_TYPE}) (\S+)")
_PURE_CALL = re.compile(r"@llvm\.|@vm\.| asm ")
_BINARY_WORDS = frozenset(
    "fadd fsub fmul fdiv add sub mul and or xor shl lshr ashr sdiv udiv srem urem".split()  # noqa: SIM905
)
_CAST_WORDS = frozenset(
    "bitcast fpext fptrunc sitofp uitofp fptosi fptoui sext zext trunc".split()  # noqa: SIM905
)
_DIVISIONS = frozenset({"sdiv", "udiv", "srem", "urem"})
# of instructions that neither read nor write memory, and may be computed where none is needed
PURE_WORDS = (_BINARY_WORDS - _DIVISIONS) | _CAST_WORDS
PURE_WORDS |= {"getelementptr", "fneg", "fcmp", "icmp", "select"}
# of accumulations, and the number that changes nothing
_IDENTITIES = {"fadd": "-0.0", "fmul": "1.0", "add": "0", "mul": "1"}
_IDENTITIES |= {"or": "0", "xor": "0", "and": "-1"}
_IDEMPOTENT = frozenset({"or", "and", "llvm.maximum", "llvm.minimum"})


class LeaveScalar(Exception):
    """A loop, or a function, has no vector form that is written here."""


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    """The match of all of a text; where there is none, the loop is left as it is."""
    match = pattern.fullmatch(text)
    if match is None:
        raise LeaveScalar
    return match


class VectorModule:
    """What the functions of a module share: scalar functions, declarations."""

    def __init__(self, scalar_functions: Mapping[str, str]) -> None:
        self.scalar_functions = scalar_functions
        self.alone: Set[str] = frozenset()  # parameters of the function that alias no other
        self.intrinsics: set[str] = set()

    def scalar_function(self, name: str) -> tuple[dict[str, str], list[str], tuple[str, str]]:
        """A straight-line function: the types of its parameters, its lines, and what it returns."""
        text = self.scalar_functions.get(name, "")
        head, *body = text.rstrip("\n}").split("\n")
        match = re.fullmatch(rf"define internal {_TYPE} @[\w.]+\((.*)\) alwaysinline \{{", head)
        last = _RETURN.fullmatch(body.pop()) if body else None
        if match is None or last is None:
            raise LeaveScalar
        types = (parameter.split() for parameter in match[1].split(", "))
        return {parameter: type for type, parameter in types}, body, (last[1], last[2])

    def declarations(self, text: str) -> list[str]:
        return [f"{line}\n" for line in sorted(self.intrinsics) if line not in text]


_Form = tuple[dict[str, int], int]  # an integer, or the offset of an address: a sum of multiples


def _sum(a: _Form, b: _Form, factor: int = 1) -> _Form:
    """a + factor * b."""
    terms = dict(a[0])
    for atom, count in b[0].items():
        terms[atom] = terms.get(atom, 0) + factor * count
    return {atom: count for atom, count in terms.items() if count}, a[1] + factor * b[1]


@record(frozen=True)
class _LaneAccess:
    """Where an iteration reads or writes, from the start of a parameter, in bytes."""

    place: _Form
    step: int
    size: int
    writes: bool


@record(frozen=True)
class _StridedStore:
    """A store of lanes that are not consecutive."""

    type: str
    value: str
    pointer: str
    align: str


@record()
class LaneAccumulator:
    """A cell that every iteration updates: the operation, and the type."""

    type: str
    operation: str
    combine: Callable[[str, str, str], str]  # type, a, b -> instruction
    identity: str

    @property
    def is_idempotent(self) -> bool:
        """Whether a value may be combined twice."""
        return self.operation in _IDEMPOTENT


class VectorCode:
    """Instructions on vectors for scalar ones, in order. `before`: what is computed once."""

    def __init__(
        self,
        lanes: int,
        module: VectorModule,
        *,
        cells: Set[str],
        tag: str,
        counter: str,
        max_stride: int,
    ) -> None:
        self.lanes = lanes
        self.counter = counter
        self.max_stride = max_stride
        self.module = module
        self.cells = cells
        self.tag = tag
        self.before: list[str] = []
        self.lines: list[str] = []
        self.varying: set[str] = set()
        self.linear = {counter: 1}  # name -> step; of addresses, in bytes
        self.wide_names = {counter: f"%first{tag}"}
        self.splats: dict[tuple[str, str], str] = {}
        self.roots: dict[str, str] = {}  # address -> parameter
        self.written: set[str] = set()  # addresses
        self.forms: dict[str, _Form] = {}
        self.accesses: dict[str, list[_LaneAccess]] = {}  # by parameter
        self.accumulators: dict[str, LaneAccumulator] = {}
        self.pending: dict[str, str] = {}  # loaded accumulator -> cell
        self.spent: set[str] = set()  # values of accumulators: no lane has them
        self.private: dict[str, tuple[str, str]] = {}  # cell -> type, value of this iteration
        self.private_loads: dict[str, tuple[str, str]] = {}
        self.hoisted: set[str] = set()  # lines
        self.loads: dict[tuple[str, str, str], str] = {}  # since the last store
        self.strided: list[_StridedStore] = []
        self.gathers = 0
        self.names = 0

    def vector(self, type: str) -> str:
        return f"<{self.lanes} x {type}>"

    def fresh(self, instruction: str, before: bool = False) -> str:
        self.names += 1
        name = f"%w{self.tag}.{self.names}"
        (self.before if before else self.lines).append(f"  {name} = {instruction}")
        return name

    # Operands

    def is_uniform(self, atom: str) -> bool:
        """Whether no lane has a value of its own."""
        return self.is_scalar(atom) and atom not in self.linear

    def is_scalar(self, atom: str) -> bool:
        """Whether an atom is known as a scalar, that of lane 0 if lanes differ."""
        others = (self.varying, self.pending, self.spent, self.private_loads)
        return not any(atom in names for names in others)

    def operand(self, type: str, atom: str) -> str:
        """An operand as a vector."""
        if atom in self.pending or atom in self.spent:
            raise LeaveScalar
        if atom in self.private_loads:
            return self.operand(*self.private_loads[atom])
        if atom in self.varying:
            return self.wide_names[atom]
        if atom in self.linear:
            return self.spread(type, atom)
        if not atom.startswith("%"):
            return f"splat ({type} {atom})"
        name = self.splats.get((type, atom))
        if name is None:
            name = self.splats[type, atom] = self.splat(type, atom, before=True)
        return name

    def typed(self, type: str, atom: str) -> str:
        """An operand as a vector, with its type."""
        return f"{self.vector(type)} {self.operand(type, atom)}"

    def _scalar_or_vector(self, type: str, atom: str) -> str:
        """An operand with its type: as it is, if no lane has a value of its own."""
        return f"{type} {atom}" if self.is_uniform(atom) else self.typed(type, atom)

    def splat(self, type: str, atom: str, before: bool) -> str:
        vector, zeros = self.vector(type), f"<{self.lanes} x i32> zeroinitializer"
        one = self.fresh(f"insertelement {vector} poison, {type} {atom}, i64 0", before)
        return self.fresh(f"shufflevector {vector} {one}, {vector} poison, {zeros}", before)

    def spread(self, type: str, atom: str) -> str:
        """A linear integer or address in all lanes."""
        known = self.splats.get(("linear", atom))
        if known is None:
            steps = ", ".join(f"i64 {self.linear[atom] * lane}" for lane in range(self.lanes))
            first, places = self.wide_names[atom], f"{self.vector('i64')} <{steps}>"
            if type == "ptr":
                known = self.fresh(f"getelementptr i8, ptr {first}, {places}")
            else:
                first = self.splat("i64", first, before=False)
                known = self.fresh(f"add {places}, {first}")
            self.splats["linear", atom] = known
        return known

    # Instructions

    def add_body(self, body: Sequence[str]) -> None:
        """Add all instructions of a loop."""
        self.written = {m[3] for line in body if (m := STORE.fullmatch(line[8:]))}
        for line in body:
            self.add(line)
        self._finish()

    def add(self, line: str) -> None:
        """Add an instruction."""
        name, _, instruction = line.strip().rpartition(" = ")
        word, _, rest = instruction.partition(" ")
        if word == "store":
            self._store(rest)
        elif word == "load" and self._loads_accumulator(name, rest):
            return
        elif all(map(self.is_uniform, NAME.findall(rest))):
            self._hoist(line, name, word, rest)
        elif word in ("trunc", "zext") and (old := rest.split()[1]) in self.pending:
            self.pending[name] = self.pending.pop(old)  # a bool's byte
            self.spent.add(old)
        elif word in _BINARY_WORDS:
            self._binary(name, word, rest)
        elif word == "getelementptr":
            self._address(name, rest)
        elif word == "load":
            self._load(name, rest)
        elif word == "call":
            self._call(name, rest)
        else:
            self._elementwise(name, word, rest)

    def _hoist(self, line: str, name: str, word: str, rest: str) -> None:
        if word == "load":
            match = _matched(LOAD, rest)
            self._note_access(match[2], match[1], writes=False)
        elif word == "getelementptr":
            self._note_address(name, _matched(_ADDRESS, rest))
        elif (binary := _BINARY.fullmatch(rest)) and binary[2] == "i64":
            self._note_integer(name, word, binary[3], binary[4])
        elif word == "call" and not (name and _PURE_CALL.search(rest)):
            raise LeaveScalar
        self.before.append(line)
        self.hoisted.add(line)

    def root(self, pointer: str) -> str:
        return self.roots.get(pointer, pointer)

    # Integers and addresses as sums

    def form(self, atom: str) -> _Form:
        known = self.forms.get(atom)
        if known is not None:
            return known
        return ({}, int(atom)) if re.fullmatch(r"-?\d+", atom) else ({atom: 1}, 0)

    def _note_integer(self, name: str, word: str, a: str, b: str) -> bool:
        """Note the sum that an integer is, if it is one."""
        left, right = self.form(a), self.form(b)
        if word in ("add", "sub"):
            self.forms[name] = _sum(left, right, 1 if word == "add" else -1)
        elif word == "mul" and not (left[0] and right[0]):
            factor, terms = (left[1], right) if not left[0] else (right[1], left)
            self.forms[name] = _sum(({}, 0), terms, factor)
        else:
            return False
        return True

    def _note_address(self, name: str, match: re.Match[str]) -> None:
        _, type, base, index = match.groups()
        self.roots[name] = self.root(base)
        start = self.forms.get(base, ({}, 0))
        self.forms[name] = _sum(start, self.form(index), SIZES[type])

    def _note_access(self, pointer: str, type: str, writes: bool) -> None:
        if writes:
            self.loads.clear()
        elif self.strided:
            self._flush_strided()
        place = self.forms.get(pointer, ({}, 0))
        access = _LaneAccess(place, place[0].get(self.counter, 0), SIZES[type], writes)
        self.accesses.setdefault(self.root(pointer), []).append(access)

    def alias(self, name: str, vector: str) -> None:
        """Let a vector be what a name is in the lanes."""
        self.varying.add(name)
        self.wide_names[name] = vector

    def define(self, name: str, instruction: str) -> None:
        self.alias(name, f"{name}.v{self.tag}")
        self.lines.append(f"  {name}.v{self.tag} = {instruction}")

    def _binary(self, name: str, word: str, rest: str) -> None:
        flags, type, a, b = _matched(_BINARY, rest).groups()
        if type == "i64" and self._is_linear(name, word, flags, a, b):
            return
        for cell_value, other in ((a, b), (b, a)):
            if cell_value in self.pending:
                self._accumulate(name, f"{word} {flags}", type, cell_value, other)
                return
        operands = f"{self.typed(type, a)}, {self.operand(type, b)}"
        self.define(name, f"{word} {flags}{operands}")

    def _is_linear(self, name: str, word: str, flags: str, a: str, b: str) -> bool:
        """Define a linear integer, if the result is one."""
        are_scalar = self.is_scalar(a) and self.is_scalar(b)
        if not are_scalar or not self._note_integer(name, word, a, b):
            return False
        operands = f"{self.wide_names.get(a, a)}, {self.wide_names.get(b, b)}"
        self._define_linear(name, f"{word} {flags}i64 {operands}")
        return True

    def _define_linear(self, name: str, instruction: str) -> None:
        self.linear[name] = self.forms[name][0].get(self.counter, 0)
        self.wide_names[name] = f"{name}.l{self.tag}"
        self.lines.append(f"  {name}.l{self.tag} = {instruction}")

    def _elementwise(self, name: str, word: str, rest: str) -> None:
        if word == "fneg" and (match := _UNARY.fullmatch(rest)):
            flags, type, a = match.groups()
            self.define(name, f"fneg {flags}{self.typed(type, a)}")
        elif word in ("fcmp", "icmp") and (match := _COMPARE.fullmatch(rest)):
            relation, type, a, b = match.groups()
            operands = f"{self.typed(type, a)}, {self.operand(type, b)}"
            self.define(name, f"{word} {relation} {operands}")
        elif word == "select" and (match := _SELECT.fullmatch(rest)):
            condition, type, a, b = match.groups()
            chosen = f"{self.typed(type, a)}, {self.typed(type, b)}"
            self.define(name, f"select {self._scalar_or_vector('i1', condition)}, {chosen}")
        elif word in _CAST_WORDS and (match := _CAST.fullmatch(rest)):
            have, a, type = match.groups()
            if "ptr" in (have, type):
                raise LeaveScalar
            self.define(name, f"{word} {self.typed(have, a)} to {self.vector(type)}")
        else:
            raise LeaveScalar

    def _call(self, name: str, rest: str) -> None:
        flags, type, function, arguments = _matched(_CALL, rest).groups()
        pairs = [argument.split(" ", 1) for argument in arguments.split(", ")]
        if any(atom in self.pending for _, atom in pairs):
            self._accumulate_call(name, flags, type, function, [atom for _, atom in pairs])
            return
        if not function.startswith("llvm."):
            self._inline(name, type, function, [atom for _, atom in pairs])
            return
        target = self._intrinsic(function, type, [kind for kind, _ in pairs])
        operands = ", ".join(self.typed(kind, a) for kind, a in pairs)
        self.define(name, f"call {flags}{self.vector(type)} {target}({operands})")

    def _inline(self, name: str, type: str, function: str, atoms: list[str]) -> None:
        """Add the body of a function: what it computes of uniform arguments is uniform."""
        parameters, body, (_, result) = self.module.scalar_function(function)
        actual = dict(zip(parameters, atoms, strict=True))

        def renamed(match: re.Match[str]) -> str:
            return actual.get(match[0], f"{name}.c{match[0][1:]}")

        for line in body:
            self.add(NAME.sub(renamed, line))
        self.alias(name, self.operand(type, NAME.sub(renamed, result)))

    def _intrinsic(self, function: str, type: str, kinds: list[str]) -> str:
        base, _, suffix = function.rpartition(".")
        if not re.fullmatch(r"[fi]\d+", suffix) or set(kinds) != {type}:
            raise LeaveScalar
        target = f"@{base}.v{self.lanes}{suffix}"
        vectors = ", ".join([self.vector(type)] * len(kinds))
        self.module.intrinsics.add(f"declare {self.vector(type)} {target}({vectors})")
        return target

    # Memory

    def _address(self, name: str, rest: str) -> None:
        match = _matched(_ADDRESS, rest)
        inbounds, type, base, index = match.groups()
        self._note_address(name, match)
        if not (self.is_scalar(base) and self.is_scalar(index)):
            operands = f"{self._scalar_or_vector('ptr', base)}, {self.typed('i64', index)}"
            self.define(name, f"getelementptr {inbounds or ''}{type}, {operands}")
            return
        parts = f"ptr {self.wide_names.get(base, base)}, i64 {self.wide_names.get(index, index)}"
        self._define_linear(name, f"getelementptr {inbounds or ''}{type}, {parts}")

    def _load(self, name: str, rest: str) -> None:
        type, pointer, align, _ = _matched(LOAD, rest).groups()
        align = align or str(SIZES[type])
        self._note_access(pointer, type, writes=False)
        key = (type, self.root(pointer), str(self.forms.get(pointer)))
        if (same := self.loads.get(key)) and pointer not in self.varying:
            self.alias(name, self.wide_names[same])
            return
        self.loads[key] = name
        step, odd = divmod(self.linear.get(pointer, 0), SIZES[type])
        if not odd and 1 <= abs(step) <= self.max_stride:
            self._load_span(name, type, pointer, align, step)
            return
        self.gathers += 1
        vector, pointers = self.vector(type), self.vector("ptr")
        target, masks = self._masked("gather", type), self.vector("i1")
        self.module.intrinsics.add(f"declare {vector} {target}({pointers}, i32, {masks}, {vector})")
        operands = f"{self.typed('ptr', pointer)}, i32 {align}, {masks} splat (i1 true)"
        self.define(name, f"call {vector} {target}({operands}, {vector} poison)")

    def _masked(self, name: str, type: str) -> str:
        """An intrinsic that reads or writes where a vector of pointers points."""
        suffix = _SUFFIXES.get(type, type)
        return f"@llvm.masked.{name}.v{self.lanes}{suffix}.v{self.lanes}p0"

    def _load_span(self, name: str, type: str, pointer: str, align: str, step: int) -> None:
        """Load what lies between the first and the last lane's number, and pick the lanes'."""
        place, count = self.wide_names[pointer], (self.lanes - 1) * abs(step) + 1
        if step < 0:
            back = (self.lanes - 1) * step * SIZES[type]
            place = self.fresh(f"getelementptr i8, ptr {place}, i64 {back}")
        if step == 1:
            self.define(name, f"load {self.vector(type)}, ptr {place}, align {align}")
            return
        span = f"<{count} x {type}>"
        whole = self.fresh(f"load {span}, ptr {place}, align {align}")
        numbers = range(0, count, step) if step > 0 else range(count - 1, -1, step)
        lanes = ", ".join(f"i32 {number}" for number in numbers)
        picked = f"<{self.lanes} x i32> <{lanes}>"
        self.define(name, f"shufflevector {span} {whole}, {span} poison, {picked}")

    def _store(self, rest: str) -> None:
        type, value, pointer, align = _matched(STORE, rest).groups()
        align = align or str(SIZES[type])
        if pointer in self.cells or self.pending.get(value) == pointer:
            self._store_cell(type, value, pointer)
            return
        if value in self.pending or abs(self.linear.get(pointer, 0)) < SIZES[type]:
            raise LeaveScalar  # to one place, or to places that may be the same
        self._note_access(pointer, type, writes=True)
        operand = self.operand(type, value)
        if self.linear[pointer] != SIZES[type]:
            self.strided.append(_StridedStore(type, operand, pointer, align))
            return
        place = f"ptr {self.wide_names[pointer]}, align {align}"
        self.lines.append(f"  store {self.vector(type)} {operand}, {place}")

    def _flush_strided(self) -> None:
        """Write the strided stores so far: together where they fill what is between the lanes."""
        stores, self.strided = self.strided, []
        while stores:
            first = stores[0]
            step = self.linear[first.pointer]
            count, odd = divmod(step, SIZES[first.type])
            group = sorted(
                (distance[1] // SIZES[first.type], at)
                for at, other in enumerate(stores)
                if self.root(other.pointer) == self.root(first.pointer)
                and self.linear[other.pointer] == step
                and not (distance := self._distance(other.pointer, first.pointer))[0]
            )
            start = group[0][0]
            wanted = [start + at for at in range(count)]
            if not odd and 1 < count <= _MAX_INTERLEAVED and [at for at, _ in group] == wanted:
                self._store_together([stores[at] for _, at in group])
                taken = {at for _, at in group}
                stores = [each for at, each in enumerate(stores) if at not in taken]
            else:
                self._scatter(stores.pop(0))

    def _distance(self, pointer: str, other: str) -> _Form:
        return _sum(self.forms.get(pointer, ({}, 0)), self.forms.get(other, ({}, 0)), -1)

    def _store_together(self, stores: list[_StridedStore]) -> None:
        type, lanes = stores[0].type, self.lanes
        whole, size = stores[0].value, lanes
        for each in stores[1:]:
            part = each.value
            if size > lanes:  # both operands of a shuffle have one length
                numbers = [str(at) if at < lanes else "poison" for at in range(size)]
                part = self._shuffle(type, lanes, part, "poison", numbers)
            numbers = [str(at) for at in range(size)] + [str(size + at) for at in range(lanes)]
            whole, size = self._shuffle(type, size, whole, part, numbers), size + lanes
        order = [str(which * lanes + lane) for lane in range(lanes) for which in range(len(stores))]
        whole = self._shuffle(type, size, whole, "poison", order)
        place, align = self.wide_names[stores[0].pointer], stores[0].align
        self.lines.append(f"  store <{size} x {type}> {whole}, ptr {place}, align {align}")

    def _shuffle(self, type: str, size: int, a: str, b: str, numbers: list[str]) -> str:
        vector, picks = f"<{size} x {type}>", ", ".join(f"i32 {number}" for number in numbers)
        return self.fresh(
            f"shufflevector {vector} {a}, {vector} {b}, <{len(numbers)} x i32> <{picks}>"
        )

    def _scatter(self, store: _StridedStore) -> None:
        vector, masks, pointers = (self.vector(type) for type in (store.type, "i1", "ptr"))
        target = self._masked("scatter", store.type)
        self.module.intrinsics.add(f"declare void {target}({vector}, {pointers}, i32, {masks})")
        places = f"{self.typed('ptr', store.pointer)}, i32 {store.align}"
        operands = f"{vector} {store.value}, {places}, {masks} splat (i1 true)"
        self.lines.append(f"  call void {target}({operands})")

    def _store_cell(self, type: str, value: str, cell: str) -> None:
        """A store to a cell: of an updated accumulator, or of a value for this iteration."""
        if self.pending.pop(value, None) == cell:
            self.spent.add(value)
            return
        if cell in self.accumulators or cell in self.pending.values():
            raise LeaveScalar
        self.private[cell] = type, value
        last = value  # what the cell holds after the loop
        if not self.is_uniform(value):
            last = self.fresh(f"extractelement {self.typed(type, value)}, i64 {self.lanes - 1}")
        self.lines.append(f"  store {type} {last}, ptr {cell}, align {SIZES[type]}")

    def _finish(self) -> None:
        """Check that no lane reads or writes what another writes."""
        shared = self.accesses.keys() - self.module.alone - self.cells
        if len(shared) > 1 and any(x.writes for root in shared for x in self.accesses[root]):
            raise LeaveScalar
        for accesses in self.accesses.values():
            for at, one in enumerate(accesses):
                if any((one.writes or x.writes) and self._meet(one, x) for x in accesses[:at]):
                    raise LeaveScalar
        self._flush_strided()
        if self.pending or len(self.lines) < self.gathers * _WORK_PER_GATHER:
            raise LeaveScalar

    def is_repeatable(self) -> bool:
        """Whether an iteration may run twice: it neither reads what is written nor adds up."""
        for root, accesses in self.accesses.items():
            if any(x.writes for x in accesses) and not (
                root in self.module.alone and all(x.writes for x in accesses)
            ):
                return False
        return all(each.is_idempotent for each in self.accumulators.values())

    def first_store(self, nbytes: int) -> tuple[str, _LaneAccess] | None:
        """The first parameter that vectors of so many bytes are stored to, and where."""
        for root, accesses in self.accesses.items():
            for access in accesses:
                size = access.size
                if access.writes and access.step == size and size * self.lanes == nbytes:
                    return root, access
        return None

    def _meet(self, one: _LaneAccess, other: _LaneAccess) -> bool:
        """Whether two accesses at different lanes of a vector may be to the same bytes."""
        terms, distance = _sum(one.place, other.place, -1)
        step, size = one.step, one.size
        if terms or step != other.step or size != other.size:
            return True
        if abs(step) < size:
            return abs(distance) < size
        iterations, rest = divmod(distance, abs(step))
        if rest:
            return not size <= rest <= abs(step) - size
        return 0 < abs(iterations) < self.lanes

    # Accumulators

    def _loads_accumulator(self, name: str, rest: str) -> bool:
        match = LOAD.fullmatch(rest)
        if match is None:
            return False
        cell = match[2]
        if cell not in self.written or not self.is_uniform(cell):
            return False
        if cell not in self.cells:
            self._note_access(cell, match[1], writes=True)
        if cell in self.private:
            self.private_loads[name] = self.private[cell]
            return True
        if cell in self.pending.values():
            raise LeaveScalar
        self.pending[name] = cell
        return True

    def _accumulate(self, name: str, words: str, type: str, loaded: str, other: str) -> None:
        word, *flags = words.split()
        if word[0] == "f" and "reassoc" not in flags:
            raise LeaveScalar
        if word not in _IDENTITIES:
            raise LeaveScalar
        kept = " ".join([word, *(flag for flag in flags if flag not in ("reassoc", "nuw", "nsw"))])

        def combine(vector: str, a: str, b: str) -> str:
            return f"{kept} {vector} {a}, {b}"

        accumulator = LaneAccumulator(type, kept, combine, _IDENTITIES[word])
        self._combine(name, loaded, other, accumulator)

    def _accumulate_call(
        self, name: str, flags: str, type: str, function: str, atoms: list[str]
    ) -> None:
        lowest = {"llvm.maximum": "0xFFF0000000000000", "llvm.minimum": "0x7FF0000000000000"}
        base, _, suffix = function.rpartition(".")
        if base not in lowest or "nsz" not in flags or len(atoms) != 2 or atoms[0] == atoms[1]:
            raise LeaveScalar
        loaded, other = atoms if atoms[0] in self.pending else reversed(atoms)

        def combine(vector: str, a: str, b: str) -> str:
            lanes = vector[1:].split()[0] if vector.startswith("<") else ""
            target = f"@{base}.v{lanes}{suffix}" if lanes else f"@{function}"
            self.module.intrinsics.add(f"declare {vector} {target}({vector}, {vector})")
            return f"call {flags}{vector} {target}({vector} {a}, {vector} {b})"

        accumulator = LaneAccumulator(type, base, combine, lowest[base])
        self._combine(name, loaded, other, accumulator)

    def _combine(self, name: str, loaded: str, other: str, accumulator: LaneAccumulator) -> None:
        """Update a cell, which may have been updated by the same operation before."""
        cell, type = self.pending.pop(loaded), accumulator.type
        self.spent.add(loaded)
        known = self.accumulators.setdefault(cell, accumulator)
        if other in self.pending or known.operation != accumulator.operation:
            raise LeaveScalar
        self.pending[name] = cell
        vector, place = self.vector(type), f"{cell}.v{self.tag}"
        old = self.fresh(f"load {vector}, ptr {place}")
        new = self.fresh(accumulator.combine(vector, old, self.operand(type, other)))
        self.lines.append(f"  store {vector} {new}, ptr {place}")
