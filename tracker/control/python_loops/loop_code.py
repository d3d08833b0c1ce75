"""The bytecode of a Python loop: which names it binds and reads, and whether its iterations can
only change what `iteration_state.py` compares.

`loop_code` reads a loop once, but for what runs only where the loop is left; `function_code` does
the same for a function that the loop calls, but for what raises. Only instructions on the lists
below are understood: nothing that binds globals or variables of functions around, deletes, imports,
or goes on after an exception.

Invariant: a loop that is not understood has no `LoopCode`.
"""

from __future__ import annotations

import bisect
import dis
import functools
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

from tracker.support.structs import record

_PLAIN = frozenset(
    (
        *(
            "BINARY_OP",
            "BINARY_SUBSCR",
            "BINARY_SLICE",
            "STORE_SUBSCR",
            "STORE_SLICE",
            "STORE_ATTR",
        ),
        *("UNARY_NEGATIVE", "UNARY_NOT", "UNARY_INVERT", "UNARY_POSITIVE", "TO_BOOL"),
        *("COMPARE_OP", "CONTAINS_OP", "BUILD_TUPLE", "BUILD_LIST", "BUILD_SLICE", "BUILD_MAP"),
        *("BUILD_CONST_KEY_MAP", "LIST_EXTEND", "LIST_TO_TUPLE", "UNPACK_SEQUENCE", "UNPACK_EX"),
        *("DICT_MERGE", "DICT_UPDATE", "SET_UPDATE"),
        *("BUILD_SET", "LIST_APPEND", "SET_ADD", "MAP_ADD", "LOAD_FAST_AND_CLEAR"),
        *("LOAD_CONST", "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_LOAD_FAST", "LOAD_DEREF"),
        *("LOAD_CLOSURE", "STORE_DEREF", "SET_FUNCTION_ATTRIBUTE"),
        *(
            "MAKE_FUNCTION",
            "LOAD_GLOBAL",
            "LOAD_ATTR",
            "LOAD_METHOD",
            "STORE_FAST",
            "STORE_FAST_STORE_FAST",
        ),
        *("STORE_FAST_LOAD_FAST", "GET_ITER", "FOR_ITER", "END_FOR", "POP_ITER", "POP_TOP"),
        *("COPY", "SWAP", "PUSH_NULL", "PRECALL", "CALL", "KW_NAMES", "CALL_KW"),
        *("CALL_FUNCTION_EX", "JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"),
        *("JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP", "NOP", "CACHE"),
        *("RETURN_VALUE", "RETURN_CONST", "LOAD_SMALL_INT", "NOT_TAKEN", "LOAD_FAST_BORROW"),
        *("BUILD_STRING", "FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE"),
        "LOAD_FAST_BORROW_LOAD_FAST_BORROW",
    )
)
_IN_GENERATORS = frozenset(("RESUME", "YIELD_VALUE"))
_IN_FUNCTIONS = _IN_GENERATORS | {"COPY_FREE_VARS", "MAKE_CELL", "RETURN_GENERATOR"}
_LEAVES = frozenset(
    (
        *("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"),
        *("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE"),
    )
)
_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))
_GOES_ON = ("RETURN", "YIELD", "JUMP_BACKWARD")
_APPENDS = {"LIST_APPEND": 1, "SET_ADD": 1, "MAP_ADD": 2}  # how many values these take
_NESTED_BINDING = frozenset(("locals", "vars", "dir", "eval", "exec"))


@record(frozen=True)
class NamePath:
    """A name that is read, and the attributes read from it: `np.linalg.norm`. kind: local, global
    or cell."""

    kind: str
    name: str
    attributes: tuple[str, ...]


@record(frozen=True, eq=False)
class CodeNames:
    """What understood code names.

    paths       the names that it reads
    attributes  attributes that it reads from results
    stores      whether it writes into subscripts, updates in place or names `out`
    stored      attributes that it stores
    """

    paths: tuple[NamePath, ...]
    attributes: frozenset[str]
    stores: bool
    stored: frozenset[str]


@record(frozen=True, eq=False)
class LoopCode:
    """A loop: the names it reads; those it binds that the next iteration may read (`carried`) and
    that may be read after it (`read_after`). `region`: the numbers of its instructions; `head`: the
    instruction where iterations end; `lists`: where the stack holds those that comprehensions
    around it make; `yields`: whether iterations give what a generator gives."""

    code: CodeType
    region: range
    head: int
    names: CodeNames
    bound: frozenset[str]
    carried: frozenset[str]
    read_after: frozenset[str]
    lists: frozenset[int]
    yields: bool


@functools.lru_cache(512)
class _Reader:
    """The instructions of a code object, and which local names are live. An instruction that has
    a large argument begins with EXTENDED_ARG, where jumps to it go: it counts as one."""

    def __init__(self, code: CodeType) -> None:
        self.steps = [s for s in dis.get_instructions(code) if s.opcode != dis.EXTENDED_ARG]
        self.offsets = [s.offset for s in self.steps]
        self.handlers = list(getattr(dis.Bytecode(code), "exception_entries", ()))
        self.cells = frozenset(code.co_cellvars)

    def number_at(self, offset: int) -> int:
        """The number of the instruction at an offset, or of the next one after it."""
        return bisect.bisect_left(self.offsets, offset)

    def successors(self, at: int) -> Iterator[int]:
        step = self.steps[at]
        if step.opcode in _JUMPS:
            yield self.number_at(step.argval)
        if step.opname not in _LEAVES and at + 1 < len(self.steps):
            yield at + 1
        for entry in self.handlers:
            if entry.start <= step.offset < entry.end:
                yield self.number_at(entry.target)

    @functools.cached_property
    def back_edges(self) -> list[tuple[int, int]]:
        """Where jumps back go to, and where they are."""
        found = [
            (self.number_at(step.argval), at)
            for at, step in enumerate(self.steps)
            if step.opcode in _JUMPS
        ]
        return [(head, at) for head, at in found if head <= at]

    @functools.cached_property
    def for_statements(self) -> list[tuple[int, int]]:
        """Where iterations of `for` statements begin, and where these go on after the last one."""
        heads = [(at, step) for at, step in enumerate(self.steps) if step.opname == "FOR_ITER"]
        return [(at, self.number_at(step.argval)) for at, step in heads]

    @functools.cached_property
    def goes_on(self) -> list[Any]:
        """The handlers of exceptions that do not raise them again in any case."""
        return [entry for entry in self.handlers if not self._raises(self.number_at(entry.target))]

    def _raises(self, start: int) -> bool:
        """Whether nothing but exceptions comes of the instructions from here on."""
        return not any(self.steps[at].opname.startswith(_GOES_ON) for at in self.reachable(start))

    def reachable(self, start: int) -> set[int]:
        """The instructions from here on."""
        found, stack = {start}, [start]
        while stack:
            more = set(self.successors(stack.pop())) - found
            stack.extend(more)
            found |= more
        return found

    def captured(self, at: int) -> frozenset[str]:
        """The variables that a function which is made there may read and bind later."""
        step = self.steps[at]
        given = step.argval if type(step.argval) is tuple else (step.argval,)
        is_capture = step.opname.startswith(("LOAD_CLOSURE", "LOAD_FAST"))
        return self.cells.intersection(given) if is_capture else frozenset()

    def gives_bool(self, at: int) -> bool:
        """Whether an instruction tests a value for the jump after it."""
        step = self.steps[at]
        return step.opname == "TO_BOOL" or (
            step.opname == "COMPARE_OP" and step.argrepr.startswith("bool(")
        )

    def test_at(self, offset: int) -> tuple[int, dict[bool, int] | None]:
        """The number of the instruction at an offset, and where it goes as a test."""
        at = self.number_at(offset)
        return at, self.ends_of_test(at)

    def ends_of_test(self, at: int) -> dict[bool, int] | None:
        """Where a test goes by its outcome; None of what is no test."""
        jump = at + self.gives_bool(at)
        name = self.steps[jump].opname
        if not name.startswith("POP_JUMP") or "NONE" in name:
            return None
        on_true = "TRUE" in name
        return {on_true: self.number_at(self.steps[jump].argval), not on_true: jump + 1}

    @functools.cached_property
    def depths(self) -> list[int | None]:
        """How many values the stack holds before each instruction; None where only handlers of
        exceptions come to."""
        found: list[int | None] = [None] * len(self.steps)
        found[0] = 0
        stack = [0]
        while stack:
            at = stack.pop()
            step, depth = self.steps[at], found[at]
            assert depth is not None
            arg = step.arg if step.opcode >= dis.HAVE_ARGUMENT else None
            to = self.number_at(step.argval) if step.opcode in _JUMPS else None
            following = [] if to is None else [(to, True)]
            if step.opname not in _LEAVES and at + 1 < len(self.steps):
                following.append((at + 1, False))
            for each, jumps in following:
                if found[each] is None:
                    effect = dis.stack_effect(step.opcode, arg, jump=jumps)
                    if step.opname == "RETURN_GENERATOR":
                        effect = 1  # Python 3.11 says 0, though what is sent first is on the stack
                    found[each] = depth + effect
                    stack.append(each)
        return found

    @functools.cached_property
    def live(self) -> list[frozenset[str]]:
        """The local names that are live before each instruction."""
        following = [list(self.successors(at)) for at in range(len(self.steps))]
        live = [frozenset[str]()] * len(self.steps)
        changed = True
        while changed:
            changed = False
            for at in range(len(self.steps) - 1, -1, -1):
                read, bound = _locals_of(self.steps[at])
                after = frozenset().union(*(live[n] for n in following[at]))
                before = frozenset(read) | (after - frozenset(bound))
                if before != live[at]:
                    live[at], changed = before, True
        return live


def _locals_of(step: dis.Instruction) -> tuple[Sequence[str], Sequence[str]]:
    """The local names that an instruction reads before it binds any, and that it binds."""
    name = step.opname
    if name.startswith(("LOAD_FAST", "DELETE_FAST", "LOAD_DEREF", "LOAD_CLOSURE")):
        return (step.argval if type(step.argval) is tuple else (step.argval,)), ()
    if name == "STORE_FAST_LOAD_FAST":
        bound, read = step.argval
        return (() if read == bound else (read,)), (bound,)
    if name == "STORE_FAST_STORE_FAST":
        return (), step.argval
    if name in ("STORE_FAST", "STORE_FAST_MAYBE_NULL", "STORE_DEREF"):
        return (), (step.argval,)
    return (), ()


def _numbers_names(code: CodeType) -> bool:
    """Whether local names are bound by instructions on them alone."""
    return bool(code.co_flags & _OPTIMIZED) and _NESTED_BINDING.isdisjoint(code.co_names)


@functools.lru_cache(4096)
def loop_code(code: CodeType, offset: int, called: str | None) -> LoopCode | None:
    """The loop that iterates what the instruction at an offset gives, which is the call of a global
    by this name (None: it asks something for its iterator). None if there is no such loop, or it is
    not understood."""
    if not _numbers_names(code):
        return None
    reader = _Reader(code)
    at = reader.number_at(offset)
    steps = reader.steps
    if called is not None:
        if not _is_call_of(steps, at, called):
            return None
        at += 1
    if at + 1 >= len(steps) or steps[at].opname != "GET_ITER":
        return None
    return _for_statement(code, at + 1) if steps[at + 1].opname == "FOR_ITER" else None


@functools.lru_cache(4096)
def _for_statement(code: CodeType, head: int) -> LoopCode | None:
    """The loop of a `for` statement, whose iterations begin at this instruction."""
    reader = _Reader(code)
    end = reader.number_at(reader.steps[head].argval)
    after = reader.live[end] if end < len(reader.steps) else frozenset[str]()
    return _code_of(reader, code, range(head + 1, end), (head, end), head, after)


@record(frozen=True, eq=False)
class TestedLoop:
    """A loop that is no `for` statement. `outcomes`: what a test in it may be, if the loop goes on;
    `code` is that of the iterations from one such test to the next."""

    first: int
    outcomes: frozenset[bool]
    code: LoopCode


@functools.lru_cache(4096)
def tested_loop(code: CodeType, offset: int) -> TestedLoop | None:
    """The innermost loop around a test, the instruction at an offset; None if there is none, if it
    is a `for` statement, or not understood."""
    if not _numbers_names(code):
        return None
    reader = _Reader(code)
    steps, at = reader.steps, reader.number_at(offset)
    loops = [(head, last) for head, last in reader.back_edges if head <= at <= last]
    ends = reader.ends_of_test(at)
    if not loops or ends is None:
        return None
    first, last = min(loops, key=lambda edge: edge[1] - edge[0])
    depth = reader.depths[first]
    tested = 2 if steps[at].opname == "COMPARE_OP" else 1
    if depth is None or reader.depths[at] != depth + tested:
        return None  # an expression has begun before the test
    if any(step.opname == "FOR_ITER" for step in steps[first : first + 2]):
        return None
    # `continue` may go to a copy of the test before the loop, `break` to a loop around this one.
    own = {step.positions for step in steps[first : last + 1]}
    heads = [head for head, source in reader.back_edges if first <= source <= last]
    first = min(head for head in heads if steps[head].positions in own)
    body = range(first, last + 1)  # with instructions after which the loop is left
    again = _that_lead_to(reader, body, [at])
    outcomes = frozenset(outcome for outcome, to in ends.items() if to in again)
    found = _code_of(reader, code, body, (first, last), at, reader.live[at])
    return None if found is None else TestedLoop(first, outcomes, found)


@record(frozen=True, eq=False)
class LoopAround:
    """A loop around an instruction.

    code     None if it is not understood
    slot     of a `for` statement, which number its iterator has on the stack
    at_head  of a `for` statement, whether its iterator is called by the instruction
    test     of another loop, the first test that may end it
    numbers  names that such tests may read
    """

    code: LoopCode | None
    slot: int | None
    at_head: bool = False
    test: TestedLoop | None = None
    numbers: frozenset[str] = frozenset()


@functools.lru_cache(4096)
def loops_around(code: CodeType, offset: int) -> tuple[LoopAround, ...]:
    """The loops around the instruction at an offset, innermost first."""
    if not _numbers_names(code):
        return ()
    reader = _Reader(code)
    at, steps = reader.number_at(offset), reader.steps
    found: list[tuple[int, LoopAround]] = []
    for head, end in reader.for_statements:
        if head <= at < end:
            depth = reader.depths[head]
            slot = None if depth is None else depth - 1
            around = LoopAround(_for_statement(code, head), slot, at_head=at == head)
            found.append((end - head, around))
    lasts = {head: last for head, last in sorted(reader.back_edges) if head <= at <= last}
    for head, last in lasts.items():
        if steps[head].opname != "FOR_ITER":
            found.append((last - head, _tested_around(reader, code, head, last)))
    return tuple([each for _, each in sorted(found, key=lambda x: x[0])])


def _tested_around(reader: _Reader, code: CodeType, head: int, last: int) -> LoopAround:
    """A loop of these instructions that is no `for` statement."""
    tests: dict[int, TestedLoop] = {}
    for at in range(head, last + 1):
        is_test = reader.ends_of_test(at) is not None
        found = tested_loop(code, reader.steps[at].offset) if is_test else None
        if found is None or len(found.outcomes) != 1:
            continue
        if head in found.code.region and last in found.code.region:  # else, an inner loop's
            tests[at] = found
    numbers = set[str]()
    for at, found in tests.items():
        start = at
        while start > 0 and reader.depths[start] != reader.depths[head]:
            start -= 1
        read = (name for step in reader.steps[start:at] for name in _locals_of(step)[0])
        numbers.update(found.code.carried.intersection(read))
    test = next(iter(tests.values()), None)
    tested = None if test is None else test.code
    return LoopAround(tested, None, test=test, numbers=frozenset(numbers))


@functools.lru_cache(4096)
def may_leave(loop: LoopCode, code: CodeType, offset: int, outcome: bool) -> bool:
    """Whether an iteration that goes another way at a test than by `outcome` may leave the loop
    before it comes to where it would be anyway."""
    if code is not loop.code:
        return False  # of a function that the loop calls
    reader = _Reader(code)
    reached = functools.partial(_reached, loop, reader.successors)
    at, ends = reader.test_at(offset)
    if ends is not None:
        others = reached(ends[not outcome]) - reached(ends[outcome])
    elif (ends := reader.ends_of_test(at + 1)) is not None:  # of what a call has made of the value
        others = reached(ends[True]) ^ reached(ends[False])
    else:
        return False
    return any(n not in loop.region and n != loop.head for n in others)


@functools.lru_cache(4096)
def leaves(loop: LoopCode, offset: int, outcome: bool) -> bool:
    """Whether a test with this outcome, the instruction at an offset, leads out of the loop."""
    reader = _Reader(loop.code)
    at, ends = reader.test_at(offset)
    if at not in loop.region or ends is None:
        return False
    return loop.head not in _reached(loop, reader.successors, ends[outcome])


def may_have_left(loop: LoopCode, outcomes: Mapping[int, Collection[bool]]) -> bool:
    """Whether an iteration that has come from the test at the head to the same test may have left
    the loop, and come back by one around it: tests had these outcomes, by the offsets of
    instructions, and any others that nothing has noted."""
    reader = _Reader(loop.code)
    ways: dict[int, set[int]] = {}
    for offset, found in outcomes.items():
        at, ends = reader.test_at(offset)
        if ends is not None:
            ways[at] = {ends[outcome] for outcome in found}

    def successors(at: int) -> Iterable[int]:
        return ways.get(at) or reader.successors(at)

    reached = set().union(*(_reached(loop, successors, at) for at in successors(loop.head)))
    outside = [at for at in reached if at >= 0 and at != loop.head and at not in loop.region]
    return any(loop.head in reader.reachable(at) for at in outside)


def _reached(loop: LoopCode, successors: Callable[[int], Iterable[int]], start: int) -> set[int]:
    """The instructions that an iteration may come to, with those outside where it leaves."""
    found, stack = {start}, [start]
    while stack:
        at = stack.pop()
        if at != loop.head and at in loop.region:
            more = set(successors(at)) or {-1}
            stack.extend(more - found)
            found |= more
    return found


def _that_lead_to(reader: _Reader, body: range, ends: Iterable[int]) -> set[int]:
    """The instructions from which an iteration, or a call, may come to its end. Where others begin,
    it is left, or raises."""
    found, before = set(ends), -1
    while len(found) > before:
        before = len(found)
        found.update(n for n in reversed(body) if not found.isdisjoint(reader.successors(n)))
    return found


def _code_of(
    reader: _Reader,
    code: CodeType,
    body: range,
    limits: tuple[int, int],
    head: int,
    after: frozenset[str],
) -> LoopCode | None:
    """The loop of these instructions, whose iterations end at `head`; `after`: the names that are
    live where it ends."""
    steps = reader.steps
    first, last = (
        steps[at].offset if at < len(steps) else sys.maxsize for at in (limits[0], limits[1])
    )
    if any(first < entry.target < last for entry in reader.goes_on):
        return None
    if any(first < entry.start and entry.end < last for entry in reader.goes_on):
        return None
    within = sorted(_that_lead_to(reader, body, [head]) & set(body))
    names = _names_of(reader, within, _IN_GENERATORS)
    lists = _lists_around(reader, within, limits[0])
    if names is None or lists is None:
        return None
    bound = frozenset(name for n in within for name in _locals_of(steps[n])[1])
    outside = [n for at in body for n in reader.successors(at) if not limits[0] <= n <= limits[1]]
    after = after.union(*(reader.live[n] for n in outside))
    others = (n for n in range(len(steps)) if n not in body)
    captured = frozenset().union(*map(reader.captured, others))  # functions may read these later
    carried = bound & (captured | reader.live[head if head in body else head + 1])
    yields = any(steps[n].opname == "YIELD_VALUE" for n in within)
    read_after = bound & (captured | after)
    return LoopCode(code, body, head, names, bound, carried, read_after, lists, yields)


def _lists_around(reader: _Reader, within: Iterable[int], head: int) -> frozenset[int] | None:
    """The slots of the stack that hold lists to which instructions append, and which comprehensions
    around the loop make; None if they make other containers."""
    found, least = set[int](), reader.depths[head]
    for at in within:
        step, depth = reader.steps[at], reader.depths[at]
        if step.opname not in _APPENDS:
            continue
        if depth is None or least is None:
            return None
        slot = depth - _APPENDS[step.opname] - (step.arg or 0)
        if slot < least:
            if step.opname != "LIST_APPEND":
                return None
            found.add(slot)
    return frozenset(found)


_CALLS = ("CALL", "CALL_FUNCTION_EX")  # the latter unpacks its arguments


def _is_call_of(steps: Sequence[dis.Instruction], at: int, name: str) -> bool:
    """Whether an instruction calls a global by a name: a call begins where its function is named.
    (Functions written in C call others from the same instruction.)"""
    here = steps[at].positions if at < len(steps) else None
    if here is None or here.col_offset is None or steps[at].opname not in _CALLS:
        return False
    return any(
        step.opname == "LOAD_GLOBAL"
        and step.argval == name
        and step.positions is not None
        and (step.positions.lineno, step.positions.col_offset) == (here.lineno, here.col_offset)
        for step in steps
    )


_OPTIMIZED = 0x1  # local names are numbered: the code is a function's
_ASYNCHRONOUS = 0x80 | 0x200


@functools.lru_cache(4096)
def function_code(code: CodeType) -> CodeNames | None:
    """What the whole of a function names; None if it is not understood."""
    reader = _Reader(code)
    if (
        code.co_flags & _ASYNCHRONOUS
        or reader.goes_on
        or not _NESTED_BINDING.isdisjoint(code.co_names)
    ):
        return None
    steps = range(len(reader.steps))
    ends = [at for at in steps if reader.steps[at].opname.startswith("RETURN_")]
    within = sorted(_that_lead_to(reader, steps, ends))
    return _names_of(reader, within, _IN_FUNCTIONS)


def _names_of(reader: _Reader, within: Iterable[int], more: frozenset[str]) -> CodeNames | None:
    """What instructions name; None if one of them is not understood."""
    steps = [reader.steps[at] for at in within]
    bound = {name for step in steps for name in _locals_of(step)[1]}
    paths: list[tuple[str, str, list[str]]] = []
    attributes: set[str] = set()
    stored: set[str] = set()
    stores = False
    chain: list[str] | None = None
    last: dis.Instruction | None = None
    for step in steps:
        name = step.opname
        is_known = name in _PLAIN or name in more or name.startswith("POP_JUMP")
        before, last = last, step
        if not (is_known or _is_plus(step) or _compares_with_none(step, before)):
            return None
        if name in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes.add(step.argval) if chain is None else chain.append(step.argval)
            continue
        chain = None
        if type(step.argval) is CodeType:  # of a function that is made here
            inner = function_code(step.argval)
            if inner is None:
                return None
            for path in inner.paths:
                kind = "local" if path.kind == "cell" and path.name in reader.cells else path.kind
                if path.kind == "local" or (kind == "local" and path.name in bound):
                    attributes.update(path.attributes)
                else:
                    paths.append((kind, path.name, [*path.attributes]))
            attributes |= inner.attributes
            stored |= inner.stored
            stores |= inner.stores
        for kind, read in _reads(step):
            kind = "local" if read in reader.cells else kind
            chain = None if kind == "local" and read in bound else []
            paths.append((kind, read, [] if chain is None else chain))
        if name == "STORE_DEREF" and step.argval not in reader.cells:
            return None
        if name == "STORE_ATTR":
            stored.add(step.argval)
        stores |= name in ("STORE_SUBSCR", "STORE_SLICE")
        stores |= name == "BINARY_OP" and step.argrepr.endswith("=")
        stores |= name in ("KW_NAMES", "LOAD_CONST", "CALL_FUNCTION_EX") and _names_out(step)
    found = dict.fromkeys(NamePath(kind, read, tuple(chain)) for kind, read, chain in paths)
    return CodeNames(tuple(found), frozenset(attributes), stores, frozenset(stored))


def _is_plus(step: dis.Instruction) -> bool:
    names = ("INTRINSIC_UNARY_POSITIVE", "INTRINSIC_LIST_TO_TUPLE")
    return step.opname == "CALL_INTRINSIC_1" and step.argrepr in names


def _compares_with_none(step: dis.Instruction, before: dis.Instruction | None) -> bool:
    """Whether an instruction compares with a constant that no number is."""
    is_constant = before is not None and before.opname == "LOAD_CONST" and before.argval is None
    return step.opname == "IS_OP" and is_constant


def _names_out(step: dis.Instruction) -> bool:
    if step.opname == "CALL_FUNCTION_EX":
        return True
    given: Any = step.argval
    return given == "out" or (type(given) is tuple and "out" in given)


def _reads(step: dis.Instruction) -> Iterator[tuple[str, str]]:
    """The kinds and names of what an instruction loads, in order."""
    name = step.opname
    if name == "LOAD_GLOBAL":
        yield "global", step.argval
    elif name == "LOAD_DEREF":
        yield "cell", step.argval
    elif name == "STORE_FAST_LOAD_FAST":
        yield "local", step.argval[1]
    elif name.startswith("LOAD_FAST"):
        for each in step.argval if type(step.argval) is tuple else (step.argval,):
            yield "local", each
