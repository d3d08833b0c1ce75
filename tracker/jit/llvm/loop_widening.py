"""Vector code for the innermost loops of a text, written before LLVM sees it.

LLVM vectorises loops only at the end of its standard pipeline, which takes 200 to 500 us for a line
of text and is not run; the passes that explicit vector code needs take a fifth. The order in which
lanes are added up is that of the text.

`widen_loops` looks for the loops that `codegen/loop_nest.py` and `function_writer.py` write (blocks
`preN`, `loopN`, `latchN`, `doneN`) whose body has no branch. Each becomes a loop over as many
elements as a vector has lanes, and the old one for the rest. Where iterations may run twice, the
last vector overlaps with the one before, and nothing is left for the old loop; in long loops, the
second vector overlaps with the first, so that a store is aligned. A loop of few iterations becomes
straight-line code on vectors of that many lanes; inside of a longer loop it is unrolled, so that
the longer one is the innermost.

A loop is left as it is (`LeaveScalar`) where a store could be read or overwritten by another lane,
where a value is accumulated in a way that cannot be reordered, where something unknown is called,
and where lanes would be gathered for little work.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from itertools import zip_longest

from tracker.jit.llvm.block_moves import block_moves
from tracker.jit.llvm.driver_functions import is_driver
from tracker.jit.llvm.vector_code import (
    MAX_STRIDE,
    NAME,
    PURE_WORDS,
    SIZES,
    LaneAccumulator,
    LeaveScalar,
    VectorCode,
    VectorModule,
)
from tracker.support.structs import record

_LANES = 8  # of 64 bits
_UNROLLED_VECTORS = 4  # in a step of a short body: additions to one accumulator take turns
_LIGHT_BODY = 16  # instructions, those of functions that are called left out
_MAX_UNROLLED_LINES = 400  # of short loops in a loop
_MAX_LIGHT_LINES = 96  # of a short loop that is unrolled as it is
_PLACES = ("getelementptr ", "mul nsw i64 ", "add nsw i64 ")  # what addresses are made of
_CACHE_LINE = 64  # bytes; of a vector on the widest processors, too
_MIN_ALIGNED = 96  # iterations; shorter loops do not align their stores
_MAX_ALIGNED_BODY = 48  # instructions; in longer bodies, stores do not count
_MAX_EXACT = 9  # trip count of a loop that becomes one vector of that many lanes

_FUNCTION = re.compile(r"^define [^@\n]*@([\w.]+)\([^\n]*\{\n.*?^\}\n?", re.MULTILINE | re.DOTALL)
_LOOP_HEAD = re.compile(
    r"(?P<enter>  br (?:i1 \S+, )?label %pre(?P<tag>\w+)(?:, label %done(?P=tag))?\n)"
    r"pre(?P=tag):\n  br label %loop(?P=tag)\nloop(?P=tag):\n"
    r"  (?P<counter>%\S+) = phi i64 \[ (?P<first>[^,]+), %pre(?P=tag) \], [^\n]*\n"
)
_LOOP_END = re.compile(
    r"  br label %latch(?P<tag>\w+)\nlatch(?P=tag):\n"
    r"  (?P<next>%\S+) = (?P<add>add (?:nuw )?nsw i64) %\S+, (?P<step>\S+)\n"
    r"  (?P<more>%\S+) = icmp (?P<relation>[us]lt) i64 (?P=next), (?P<last>\S+)\n"
    r"  br i1 (?P=more), label %loop(?P=tag), label %done(?P=tag)[^\n]*\ndone(?P=tag):\n"
)
_NOALIAS = re.compile(r"ptr noalias (%\w+)")
_ALLOCA = re.compile(r"^  (%\S+) = alloca ", re.MULTILINE)


def widen_loops(text: str) -> str:
    """The text with vector code for its innermost loops, where possible."""
    functions = {match[1]: match for match in _FUNCTION.finditer(text)}
    module = VectorModule({name: match[0] for name, match in functions.items()})
    parts: list[str] = []
    at = 0
    for match in functions.values():
        parts += text[at : match.start()], _widen_function(match[0], module)
        at = match.end()
    parts.append(text[at:])
    return "".join([*module.declarations(text), *parts])


@record(frozen=True)
class _Loop:
    """A loop: `counter` from `first` by `step` while less than `last`, and what is in it. `enter`
    is the branch to it, `next` and `more` name the counter's next value and whether there is a next
    iteration; `head` and `end` are its text around the items."""

    tag: str
    counter: str
    first: str
    step: str
    last: str
    enter: str
    next: str
    add: str
    more: str
    relation: str
    head: str
    end: str
    items: tuple[str | _Loop, ...]

    @property
    def constant_length(self) -> int | None:
        """The end less the start of the range, if these are constants."""
        is_constant = self.first.isdigit() and self.last.isdigit()
        return int(self.last) - int(self.first) if is_constant else None

    @property
    def trip_count(self) -> int:
        """The trip count, if it is constant and small; else 0."""
        count = self.constant_length or 0
        return count if 0 < count <= _MAX_EXACT and self.step == "1" else 0

    @property
    def lines(self) -> list[str]:
        return [item for item in self.items if isinstance(item, str)]

    @property
    def is_innermost(self) -> bool:
        return len(self.lines) == len(self.items)


_Items = list["str | _Loop"]


def _parse(text: str) -> _Items:
    """The lines and loops of a function."""
    open_loops: list[tuple[re.Match[str], _Items]] = []
    items: _Items = []
    at = 0
    while at < len(text):
        if head := _LOOP_HEAD.match(text, at):
            open_loops.append((head, items))
            items, at = [], head.end()
        elif (end := _LOOP_END.match(text, at)) and open_loops:
            head, outer = open_loops.pop()
            facts = {**head.groupdict(), **end.groupdict()}
            if head["tag"] != end["tag"]:
                raise LeaveScalar
            outer.append(_Loop(**facts, head=head[0], end=end[0], items=tuple(items)))
            items, at = outer, end.end()
        else:
            after = text.find("\n", at) + 1 or len(text)
            items.append(text[at:after])
            at = after
    if open_loops:
        raise LeaveScalar
    return items


def _widen_function(text: str, module: VectorModule) -> str:
    """A function with vector loops."""
    if is_driver(text) or " phi " not in text:
        return text
    try:
        items = _parse(text)
    except LeaveScalar:
        return text
    if not any(isinstance(item, _Loop) for item in items):
        return text
    module.alone = frozenset(_NOALIAS.findall(text.split("\n", 1)[0]))
    writer = _FunctionWriter(frozenset(_ALLOCA.findall(text)), module)
    writer.write(items)
    head, rest = "".join(writer.parts).split("{\n", 1)
    return "{\n".join([head, "".join(writer.new_cells) + rest])


class _FunctionWriter:
    """Writes a function again, with vector loops where possible."""

    def __init__(self, cells: Set[str], module: VectorModule) -> None:
        self.cells = cells
        self.module = module
        self.parts: list[str] = []
        self.new_cells: list[str] = []

    def write(self, items: Sequence[str | _Loop]) -> None:
        for item in items:
            if isinstance(item, str):
                self.parts.append(item)
            elif (unrolled := _light_iterations(item)) is not None:
                self.parts += unrolled
            elif not self._write_wide(item):
                self._write_scalar(item)

    def _write_scalar(self, loop: _Loop) -> None:
        """Write a loop as it is, after what its iterations have in common."""
        inner = _FunctionWriter(self.cells, self.module)
        inner.write(loop.items)
        lines = "".join(inner.parts).splitlines(keepends=True)
        before, body = _without_uniform(lines, loop.counter)
        start = f"  br label %loop{loop.tag}\n"
        enter, at, head = loop.head.rpartition(start)
        self.parts += [enter, *before, at, head, *body, loop.end]
        self.new_cells += inner.new_cells

    def _write_wide(self, loop: _Loop) -> bool:
        """Write a loop on vectors; whether it has been possible."""
        if loop.step != "1" or (loop.trip_count and not loop.is_innermost):
            return False
        body = _straight_body(loop)
        if body is None:
            return False
        try:
            wide = _WideLoop(loop, body, self.cells, self.module)
        except LeaveScalar:
            return False
        block = wide.block_text()
        self.parts.append(block or wide.text())
        self.new_cells += [] if block else wide.new_cells
        return True


def _straight_body(loop: _Loop) -> list[str] | None:
    """The body of a loop, with short loops in it unrolled whose iterations are worth vectors of
    their own: they call functions, or add to memory; None if there are other loops in it."""
    lines: list[str] = []
    for item in loop.items:
        if isinstance(item, str):
            lines.append(item)
            continue
        unrolled = _unrolled(item, _MAX_UNROLLED_LINES)
        if unrolled is None or not (_calls_math(unrolled) or _adds_to_memory(unrolled)):
            return None
        lines += unrolled
    return lines


def _light_iterations(loop: _Loop) -> list[str] | None:
    """The iterations of a short loop that is better unrolled than made one vector, whose lanes
    would have to be added up."""
    lines = _unrolled(loop, _MAX_LIGHT_LINES)
    if lines is None or _calls_math(lines):
        return None
    return lines if not loop.is_innermost or any(" reassoc " in line for line in lines) else None


def _calls_math(lines: list[str]) -> bool:
    return any("@vm." in line for line in lines)


def _adds_to_memory(lines: list[str]) -> bool:
    return any(" reassoc " in line for line in lines) and not any("%acc" in line for line in lines)


def _unrolled(loop: _Loop, max_lines: int) -> list[str] | None:
    """The lines of all iterations of a loop and of those in it, if these are constant and few."""
    if not loop.trip_count or len(loop.items) * loop.trip_count > max_lines:
        return None
    body: list[str] = []
    for item in loop.items:
        lines = [item] if isinstance(item, str) else _unrolled(item, max_lines // loop.trip_count)
        if lines is None:
            return None
        body += lines
    if len(body) * loop.trip_count > max_lines:
        return None
    iterations = range(int(loop.first), int(loop.last))
    return [line for i in iterations for line in _iteration(loop, body, i)]


def _iteration(loop: _Loop, body: list[str], i: int) -> list[str]:
    """The body of a short loop in iteration i."""
    names = {line.split()[0] for line in body if " = " in line}

    def renamed(match: re.Match[str]) -> str:
        name = match[0]
        if name == loop.counter:
            return str(i)
        return f"{name}.t{loop.tag}.{i}" if name in names else name

    return [NAME.sub(renamed, line) for line in body]


class _WideLoop:
    """The vector form of a loop with a straight body: wide loops of fewer and fewer lanes, then the
    scalar loop for the rest."""

    def __init__(self, loop: _Loop, body: list[str], cells: Set[str], module: VectorModule) -> None:
        self.loop = loop
        self.body = _without_repeated_addresses(line.rstrip("\n") for line in body)
        if not all(line.startswith("  ") for line in self.body):
            raise LeaveScalar
        self.cells = cells
        self.module = module
        lanes = [loop.trip_count] if loop.trip_count else self._lanes()
        self.codes = [self._code(count) for count in lanes]
        code = self.codes[0]
        own = len(self.body) - len(code.hoisted)
        if not loop.trip_count and code.accumulators and own <= _LIGHT_BODY:
            self.codes.insert(0, self._code(code.lanes * _UNROLLED_VECTORS))
        self.hoisted = code.hoisted

    def _code(self, lanes: int) -> VectorCode:
        """The body on vectors: with gathers where there is work enough for them."""
        try:
            return self._vector_code(lanes, MAX_STRIDE)
        except LeaveScalar:
            return self._vector_code(lanes, _MAX_EXACT)

    def _vector_code(self, lanes: int, max_stride: int) -> VectorCode:
        code = VectorCode(
            lanes,
            self.module,
            cells=self.cells,
            tag=f"{self.loop.tag}.{lanes}",
            counter=self.loop.counter,
            max_stride=max_stride,
        )
        code.add_body(self.body)
        return code

    def _lanes(self) -> list[int]:
        """As many as numbers of the widest type fill a vector; then half of many, so that short
        loops of narrow numbers use vectors, too."""
        if any("double" in line or " i64," in line for line in self.body):
            return [_LANES]
        return [2 * _LANES, _LANES] if any("float" in line for line in self.body) else [_LANES]

    @property
    def new_cells(self) -> list[str]:
        return [
            f"  {_wide_cell(cell, code)} = alloca {code.vector(each.type)}\n"
            for code in self.codes
            for cell, each in code.accumulators.items()
        ]

    def block_text(self) -> str | None:
        """The loop as calls that fill or copy, if that is all it does."""
        loop, tag = self.loop, self.loop.tag
        if loop.trip_count:
            return None
        moves = block_moves(self.body, self.codes[-1], loop.first, loop.last)
        if moves is None:
            return None
        enter = [loop.enter.rstrip("\n"), f"pre{tag}:"]
        return "\n".join([*enter, *moves, f"  br label %done{tag}", f"done{tag}:", ""])

    def text(self) -> str:
        loop, tag = self.loop, self.loop.tag
        if loop.trip_count:
            code = self.codes[0]
            start = [f"  %first{code.tag} = add i64 {loop.first}, 0", *_start(code)]
            return "\n".join([*code.before, *start, *code.lines, *_fold(code), ""])
        lines = [loop.enter.rstrip("\n"), f"pre{tag}:", *self._before()]
        for code in self.codes:
            lines += _start(code)
        first, came_from = loop.first, f"pre{tag}"
        if self.codes[0].is_repeatable():
            lines += self._overlapping_loops()
        else:
            for code, following in zip_longest(self.codes, self.codes[1:]):
                lines += self._wide_loop(code, following, first, came_from)
                first, came_from = f"%from{code.tag}", f"rest{code.tag}"
        lines += [
            f"  %left{tag} = icmp {loop.relation} i64 {first}, {loop.last}",
            f"  br i1 %left{tag}, label %tail{tag}, label %done{tag}",
            f"tail{tag}:",
            f"  br label %loop{tag}",
            f"loop{tag}:",
            f"  {loop.counter} = phi i64 [ {first}, %tail{tag} ], [ {loop.next}, %latch{tag} ]",
            *(line for line in self.body if line not in self.hoisted),
            f"  br label %latch{tag}",
            f"latch{tag}:",
            f"  {loop.next} = {loop.add} {loop.counter}, 1",
            f"  {loop.more} = icmp {loop.relation} i64 {loop.next}, {loop.last}",
            f"  br i1 {loop.more}, label %loop{tag}, label %done{tag}",
            f"done{tag}:",
            "",
        ]
        return "\n".join(lines)

    def _overlapping_loops(self) -> list[str]:
        """Loops on vectors for iterations that may run twice: the last vector ends with the last
        iteration, so that the scalar loop is for fewer iterations than lanes only. In a long loop,
        the second vector may overlap with the first so that a store is aligned from there on."""
        loop, tag = self.loop, self.loop.tag
        lines = [f"  %count{tag} = sub i64 {loop.last}, {loop.first}"]
        aligned = self._aligned_start()
        came_from = f"pre{tag}"
        for code in self.codes:
            lines += self._overlapping_loop(code, came_from, aligned)
            came_from, aligned = f"rest{code.tag}", []
        return lines

    def _overlapping_loop(
        self, code: VectorCode, came_from: str, aligned: Sequence[str]
    ) -> list[str]:
        """`aligned`: the lines that compute the second vector's start, %start, if it is not to
        follow the first."""
        tag, first, last = code.tag, self.loop.first, self.loop.last
        stop, restart, phis = f"%final{tag}", f"%final{tag}", []
        setup = [f"  %final{tag} = sub i64 {last}, {code.lanes}"]
        if aligned:
            stop, restart = f"%stop{tag}", f"%restart{tag}"
            setup += [
                *aligned,
                f"  %ahead{tag} = icmp sgt i64 %start{tag}, {first}",
                f"  %until{tag} = select i1 %ahead{tag}, i64 {first}, i64 %final{tag}",
                f"  %then{tag} = select i1 %ahead{tag}, i64 %start{tag}, i64 %final{tag}",
            ]
            phis = [
                f"  {name} = phi i64 [ {at_first}, %{came_from} ], [ {name}, %wide{tag} ], "
                f"[ %final{tag}, %over{tag} ]"
                for name, at_first in ((stop, f"%until{tag}"), (restart, f"%then{tag}"))
            ]
        return [
            *setup,
            f"  %long{tag} = icmp sge i64 %count{self.loop.tag}, {code.lanes}",
            f"  br i1 %long{tag}, label %wide{tag}, label %rest{tag}",
            f"wide{tag}:",
            f"  %first{tag} = phi i64 [ {first}, %{came_from} ], "
            f"[ %following{tag}, %wide{tag} ], [ {restart}, %over{tag} ]",
            *phis,
            *code.lines,
            f"  %following{tag} = add nuw nsw i64 %first{tag}, {code.lanes}",
            f"  %again{tag} = icmp sle i64 %following{tag}, {stop}",
            f"  br i1 %again{tag}, label %wide{tag}, label %over{tag}",
            f"over{tag}:",
            f"  %some{tag} = icmp slt i64 %following{tag}, {last}",
            f"  br i1 %some{tag}, label %wide{tag}, label %past{tag}",
            f"past{tag}:",
            *_fold(code),
            f"  br label %done{self.loop.tag}",
            f"rest{tag}:",
        ]

    def _aligned_start(self) -> list[str]:
        """Lines that compute %start, the first iteration from which the first store of whole
        vectors is aligned, if the loop is light and long. A vector that crosses lines of the cache
        takes twice as long to store."""
        loop, code = self.loop, self.codes[0]
        length, store = loop.constant_length, code.first_store(_CACHE_LINE)
        if store is None or (length is not None and length < _MIN_ALIGNED):
            return []
        if len(self.body) > _MAX_ALIGNED_BODY or any(" call " in line for line in self.body):
            return []
        tag, (root, access) = code.tag, store
        terms, offset = access.place
        lines = [f"  %root{tag} = ptrtoint ptr {root} to i64"]
        address = f"%root{tag}"
        for number, (atom, factor) in enumerate([*terms.items(), ("1", offset)]):
            times = loop.first if atom == loop.counter else atom
            lines.append(f"  %term{tag}.{number} = mul i64 {times}, {factor}")
            lines.append(f"  %place{tag}.{number} = add i64 {address}, %term{tag}.{number}")
            address = f"%place{tag}.{number}"
        return [
            *lines,
            f"  %past{tag}.bytes = sub i64 0, {address}",
            f"  %past{tag}.elements = lshr i64 %past{tag}.bytes, {access.size.bit_length() - 1}",
            f"  %ahead{tag}.elements = and i64 %past{tag}.elements, {code.lanes - 1}",
            f"  %many{tag} = icmp sge i64 %count{loop.tag}, {_MIN_ALIGNED}",
            f"  %skip{tag} = select i1 %many{tag}, i64 %ahead{tag}.elements, i64 0",
            f"  %start{tag} = add i64 {loop.first}, %skip{tag}",
        ]

    def _before(self) -> list[str]:
        """What is computed once; uniform instructions are the same for all numbers of lanes."""
        first, *others = self.codes
        return [
            *first.before,
            *(line for code in others for line in code.before if line not in code.hoisted),
        ]

    def _wide_loop(
        self, code: VectorCode, following: VectorCode | None, first: str, came_from: str
    ) -> list[str]:
        """A loop on vectors; its accumulators are added to those of the following one, if any."""
        tag, last = code.tag, self.loop.last
        return [
            f"  %limit{tag} = sub i64 {last}, {code.lanes - 1}",
            f"  %long{tag} = icmp sgt i64 %limit{tag}, {first}",
            f"  br i1 %long{tag}, label %wide{tag}, label %rest{tag}",
            f"wide{tag}:",
            f"  %first{tag} = phi i64 [ {first}, %{came_from} ], [ %following{tag}, %wide{tag} ]",
            *code.lines,
            f"  %following{tag} = add nuw nsw i64 %first{tag}, {code.lanes}",
            f"  %again{tag} = icmp slt i64 %following{tag}, %limit{tag}",
            f"  br i1 %again{tag}, label %wide{tag}, label %rest{tag}",
            f"rest{tag}:",
            f"  %from{tag} = phi i64 [ {first}, %{came_from} ], [ %following{tag}, %wide{tag} ]",
            *_fold(code, following),
        ]


def _wide_cell(cell: str, code: VectorCode) -> str:
    return f"{cell}.v{code.tag}"


def _without_uniform(lines: Iterable[str], counter: str) -> tuple[list[str], list[str]]:
    """The lines of a loop that compute the same at every iteration, and the others. A division is
    among these, because it may not be computed where no iteration does."""
    before: list[str] = []
    body: list[str] = []
    varying = {counter}
    for line in lines:
        name, _, instruction = line.strip().rpartition(" = ")
        word = instruction.partition(" ")[0]
        if word in PURE_WORDS and varying.isdisjoint(NAME.findall(instruction)):
            before.append(line)
        else:
            varying.add(name)
            body.append(line)
    return before, body


def _without_repeated_addresses(body: Iterable[str]) -> list[str]:
    """The body with one name for each address."""
    names: dict[str, str] = {}
    replaced: dict[str, str] = {}
    lines = []
    for line in body:
        if replaced:
            line = NAME.sub(lambda name: replaced.get(name[0], name[0]), line)
        name, _, instruction = line.strip().rpartition(" = ")
        if instruction.startswith(_PLACES):
            known = names.setdefault(instruction, name)
            if known != name:
                replaced[name] = known
                continue
        lines.append(line)
    return lines


def _start(code: VectorCode) -> list[str]:
    """Start the accumulators."""
    return [
        f"  store {code.vector(each.type)} splat ({each.type} {each.identity}), "
        f"ptr {_wide_cell(cell, code)}"
        for cell, each in code.accumulators.items()
    ]


def _fold(code: VectorCode, following: VectorCode | None = None) -> list[str]:
    """Add the lanes of each accumulator in pairs, and to its cell, or to fewer lanes."""
    lines: list[str] = []
    for at, (cell, each) in enumerate(code.accumulators.items()):
        tag = f"{code.tag}.{at}"
        whole = f"%lanes{tag}"
        lines.append(f"  {whole} = load {code.vector(each.type)}, ptr {_wide_cell(cell, code)}")
        fewest = following.lanes if following else 1
        lanes, whole = _fold_in_halves(lines, tag, each, whole, code.lanes, fewest)
        if following:
            vector, place = following.vector(each.type), _wide_cell(cell, following)
            lines.append(f"  %old{tag} = load {vector}, ptr {place}")
            lines.append(f"  %new{tag} = {each.combine(vector, f'%old{tag}', whole)}")
            lines.append(f"  store {vector} %new{tag}, ptr {place}")
        else:
            total = _fold_one_by_one(lines, tag, each, whole, lanes)
            lines += _add_to_cell(tag, cell, each, total)
    return lines


def _fold_in_halves(
    lines: list[str], tag: str, each: LaneAccumulator, whole: str, lanes: int, fewest: int
) -> tuple[int, str]:
    """Add the upper half of the lanes to the lower while there is an even number, more than
    `fewest`; returns how many lanes are left, and their name."""
    while lanes > fewest and lanes % 2 == 0:
        source, lanes = f"<{lanes} x {each.type}>", lanes // 2
        parts = [f"%half{tag}.{lanes}.{side}" for side in (0, 1)]
        for side, part in enumerate(parts):
            picks = ", ".join(f"i32 {side * lanes + at}" for at in range(lanes))
            operands = f"{source} {whole}, {source} poison, <{lanes} x i32> <{picks}>"
            lines.append(f"  {part} = shufflevector {operands}")
        whole = f"%sum{tag}.{lanes}"
        lines.append(f"  {whole} = {each.combine(f'<{lanes} x {each.type}>', *parts)}")
    return lanes, whole


def _fold_one_by_one(
    lines: list[str], tag: str, each: LaneAccumulator, whole: str, lanes: int
) -> str:
    """Add the lanes in order; returns the name of the sum."""
    vector, total = f"<{lanes} x {each.type}>", ""
    for lane in range(lanes):
        one, so_far = f"%lane{tag}.{lane}", f"%total{tag}.{lane}"
        lines.append(f"  {one} = extractelement {vector} {whole}, i64 {lane}")
        if total:
            lines.append(f"  {so_far} = {each.combine(each.type, total, one)}")
        total = so_far if total else one
    return total


def _add_to_cell(tag: str, cell: str, each: LaneAccumulator, total: str) -> list[str]:
    old, new = f"%old{tag}", f"%new{tag}"
    combined = f"  {new} = {each.combine(each.type, old, total)}"
    if each.type == "i1":  # in memory a byte
        return [
            f"  {old}.byte = load i8, ptr {cell}",
            f"  {old} = trunc i8 {old}.byte to i1",
            combined,
            f"  {new}.byte = zext i1 {new} to i8",
            f"  store i8 {new}.byte, ptr {cell}",
        ]
    align = SIZES[each.type]
    return [
        f"  {old} = load {each.type}, ptr {cell}, align {align}",
        combined,
        f"  store {each.type} {new}, ptr {cell}, align {align}",
    ]
