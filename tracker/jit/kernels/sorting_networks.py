"""Sorting networks: rows of keys, a vector of rows at a time.

A block of rows is transposed so that a *line* (a vector) holds one key of each row; lines are
compared and exchanged lane by lane, in an order that depends on no key. Eight lines at a time are
sorted in registers (Batcher's network), then pairs of runs are merged (bitonic merge: the second
run reversed, then half-cleaners). `KeyRows.is_quick` says for which rows this is fast.

Three kinds of lines:
- `values`: the keys themselves; the sorted keys are the result.
- `packed`: a key of at most 32 bits above its position; the positions are the result.
- `paired`: a key of 64 bits, and a vector of positions beside it.

Invariants: lines past a row's end hold the greatest key, and stay there; equal keys stay in order,
because ties are decided by position.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from tracker.ir.types import Type
from tracker.jit.llvm.function_writer import FunctionWriter, RoutineText
from tracker.support.structs import record

_MIN_ROW = 2  # keys of a row
_MAX_ROW = {"values": 2048, "packed": 2048, "paired": 512}
_MAX_ROW_OF_FEW = 256  # with fewer than eight rows
_EIGHT = 8  # lines sorted in registers


@record(frozen=True)
class KeyRows:
    """Rows of keys: the bits of a key, the number of rows, keys per row, and whether sorted keys
    are the result, or their positions."""

    bits: int
    count: int
    length: int
    values: bool

    @property
    def kind(self) -> str:
        """The kind of lines."""
        return "values" if self.values else "packed" if self.bits <= 32 else "paired"

    @property
    def lanes(self) -> int:
        """How many rows are sorted at a time."""
        wide = self.values and self.bits <= 32 and self.count >= 16
        return 16 if wide else 8 if self.count >= 8 else 4

    @property
    def lines(self) -> int:
        """The lines of keys of a block."""
        return -(-self.length // _EIGHT) * _EIGHT

    @property
    def is_quick(self) -> bool:
        """Whether networks are fast for these rows."""
        longest = _MAX_ROW[self.kind] if self.count >= _EIGHT else _MAX_ROW_OF_FEW
        return self.count >= self.lanes and _MIN_ROW <= self.length <= longest

    @property
    def scratch_words(self) -> int:
        """The words of 64 bits that the lines of a block take."""
        return self.lines * self.lanes * (2 if self.kind == "paired" else 1)


def key_rows(keys: Type, values: bool = True) -> KeyRows:
    """The rows of an array of keys."""
    *front, n = keys.shape
    return KeyRows(8 * keys.dtype.itemsize, math.prod(front), n, values)


def sort_routine(rows: KeyRows) -> RoutineText:
    """The routine (ptr keys, ptr out, ptr room, i64 rows)."""
    return _routine(_NetworkWriter(rows, "rows", _SORT_PARAMETERS), _store_all)


def select_routine(rows: KeyRows) -> RoutineText:
    """The routine that gives the keys at some ranks of each row (ptr keys, ptr places, ptr out, ptr
    room, i64 rows, i64 ranks per row, i64 distance of a row's ranks from those of the one before).
    """
    return _routine(_NetworkWriter(rows, "chosen.rows", _SELECT_PARAMETERS), _store_ranks)


class _NetworkWriter(FunctionWriter):
    """A function that works on lines of keys, for rows of any length, or for those of `rows`."""

    def __init__(
        self, rows: KeyRows, what: str, parameters: Sequence[str], any_length: bool = False
    ) -> None:
        self.tag = f"{rows.kind}.{rows.bits}.{rows.lanes}"
        length = "" if any_length else f".{rows.length}"
        super().__init__(f"tk.{what}.{self.tag}{length}", parameters)
        self.rows, self.kind, self.lanes = rows, rows.kind, rows.lanes
        self.given, self.bytes = f"i{rows.bits}", rows.bits // 8
        self.word_bytes = self.bytes if rows.values else 8
        self.word = f"i{8 * self.word_bytes}"
        self.vector = f"<{self.lanes} x {self.word}>"

    # Lines

    def line_cells(self, line: str) -> list[str]:
        """The addresses of the vectors of a line."""
        cells = [self.line(line)]
        if self.kind == "paired":
            cells.append(self.line(self.add(line, "%lines")))
        return cells

    def line(self, at: object) -> str:
        """The address of a vector of keys, or (past all lines of keys) of positions."""
        return self.address("%room", at, self.vector)

    def load_line(self, cells: Sequence[str]) -> list[str]:
        return [self.let(f"load {self.vector}, ptr {cell}, align 8") for cell in cells]

    def store_line(self, line: Sequence[str], cells: Sequence[str]) -> None:
        for x, cell in zip(line, cells, strict=True):
            self.emit(f"store {self.vector} {x}, ptr {cell}, align 8")

    def min_max(self, a: Sequence[str], b: Sequence[str]) -> tuple[list[str], list[str]]:
        """The lesser key of each lane, and the greater."""
        v = self.vector
        if self.kind != "paired":
            suffix = f"v{self.lanes}{self.word}"
            least, most = (
                self.call_vector(f"llvm.{which}.{suffix}", a[0], b[0]) for which in ("umin", "umax")
            )
            return [least], [most]
        bools = f"<{self.lanes} x i1>"
        above = self.let(f"icmp ugt {v} {a[0]}, {b[0]}")
        same = self.let(f"icmp eq {v} {a[0]}, {b[0]}")
        later = self.let(f"icmp ugt {v} {a[1]}, {b[1]}")
        tied = self.let(f"and {bools} {same}, {later}")
        is_greater = self.let(f"or {bools} {above}, {tied}")
        pairs = list(zip(a, b, strict=True))
        low = [self.let(f"select {bools} {is_greater}, {v} {y}, {v} {x}") for x, y in pairs]
        high = [self.let(f"select {bools} {is_greater}, {v} {x}, {v} {y}") for x, y in pairs]
        return low, high

    def call_vector(self, name: str, a: str, b: str) -> str:
        """Call a function of two vectors."""
        v = self.vector
        self.declared.add(f"declare {v} @{name}({v}, {v})")
        return self.let(f"call {v} @{name}({v} {a}, {v} {b})")

    def compare_exchange(self, i: str, j: str) -> None:
        """Sort two lines, lane by lane."""
        first, second = self.line_cells(i), self.line_cells(j)
        low, high = self.min_max(self.load_line(first), self.load_line(second))
        self.store_line(low, first)
        self.store_line(high, second)

    def network_pass(self, network: Iterable[tuple[int, int]]) -> None:
        """Apply a network to each eight lines."""
        with self.loop(0, "%lines", step=_EIGHT) as start:
            cells = [self.line_cells(self.add(start, k)) for k in range(_EIGHT)]
            lines = [self.load_line(each) for each in cells]
            for i, j in network:
                lines[i], lines[j] = self.min_max(lines[i], lines[j])
            for line, each in zip(lines, cells, strict=True):
                self.store_line(line, each)


# Passes -------------------------------------------------------------------------------------------

_SORT_EIGHT = (
    *((0, 1), (2, 3), (4, 5), (6, 7), (0, 2), (1, 3), (4, 6), (5, 7), (1, 2), (5, 6)),
    *((0, 4), (1, 5), (2, 6), (3, 7), (2, 4), (3, 5), (1, 2), (3, 4), (5, 6)),
)
_MERGE_EIGHT = tuple((i, i + d) for d in (4, 2, 1) for i in range(_EIGHT) if not i & d)


def _merge_reversed(t: _NetworkWriter) -> None:
    """Compare each two runs of %d lines: the first line of one with the last of the other."""
    both = t.mul("%d", 2)
    with t.loop(0, "%lines", step=both) as start:
        end = t.add(start, both)
        past = t.sub(end, "%lines")
        first = t.select(t.compare("sgt", past, 0), past, 0)
        last = t.sub(end, 1)
        with t.loop(first, "%d") as i:
            t.compare_exchange(t.add(start, i), t.sub(last, i))


def _half_cleaner(t: _NetworkWriter) -> None:
    """Compare lines that are %d apart, in each run of twice as many."""
    inside = t.sub("%lines", "%d")
    with t.loop(0, "%lines", step=t.mul("%d", 2)) as start:
        end = t.add(start, "%d")
        last = t.select(t.compare("sgt", end, inside), inside, end)
        with t.loop(start, last) as i:
            t.compare_exchange(i, t.add(i, "%d"))


_PASSES: dict[str, Callable[[_NetworkWriter], None]] = {
    "sorted": lambda t: t.network_pass(_SORT_EIGHT),
    "halved": lambda t: t.network_pass(_MERGE_EIGHT),
    "flip": _merge_reversed,
    "halve": _half_cleaner,
}


def _steps(lines: int) -> list[tuple[str, int]]:
    """The passes that sort this many lines, each with its distance."""
    steps = [("sorted", 0)]
    run = _EIGHT
    while run < lines:
        steps.append(("flip", run))
        distance = run // 2
        while distance >= _EIGHT:
            steps.append(("halve", distance))
            distance //= 2
        steps.append(("halved", 0))
        run *= 2
    return steps


_SORT_PARAMETERS = ("ptr %keys", "ptr %out", "ptr %room", "i64 %rows")
_SELECT_PARAMETERS = (
    *("ptr %keys", "ptr %places", "ptr %out", "ptr %room"),
    *("i64 %rows", "i64 %count", "i64 %apart"),
)
_PASS_PARAMETERS = ("ptr %room", "i64 %lines", "i64 %d")


def _routine(t: _NetworkWriter, turned_out: Callable[[_NetworkWriter, str], None]) -> RoutineText:
    """The routine for all rows.

    The last block overlaps the one before, so that it is full. `turned_out` emits the stores of the
    results of a block, given the number of its first row.
    """
    lines, last = t.rows.lines, t.sub("%rows", t.lanes)
    with t.loop(0, "%rows", step=t.lanes) as start:
        past = t.let(f"icmp ugt i64 {start}, {last}")
        first = t.select(past, last, start)
        _each_key(t, first, _load_eight, _load_one)
        for line in range(t.rows.length, lines):
            t.emit(f"store {t.vector} splat ({t.word} -1), ptr {t.line(line)}, align 8")
            if t.kind == "paired":
                t.emit(f"store {t.vector} splat (i64 -1), ptr {t.line(lines + line)}, align 8")
        for part, distance in _steps(lines):
            t.emit(f"call void @tk.{part}.{t.tag}(ptr %room, i64 {lines}, i64 {distance})")
        turned_out(t, first)
    t.ret()
    texts: set[str] = set()
    for name, emit_pass in _PASSES.items():
        each = _NetworkWriter(t.rows, name, _PASS_PARAMETERS, any_length=True)
        emit_pass(each)
        each.ret()
        texts |= {each.text(), *each.declared}
    return t.routine(texts)


_Transpose = Callable[[_NetworkWriter, str, str], None]


def _each_key(t: _NetworkWriter, first: str, eight: _Transpose, one: _Transpose) -> None:
    """Apply `eight` or `one` to the keys of a block, eight columns at a time: given the position of
    a key in the first row, and its number."""
    n = t.rows.length
    at, in_eights = t.mul(first, n), n - n % _EIGHT if t.lanes % _EIGHT == 0 else 0
    if in_eights:
        with t.loop(0, in_eights, step=_EIGHT) as i:
            eight(t, t.add(at, i), i)
    if in_eights < n:
        with t.loop(in_eights, n) as i:
            one(t, t.add(at, i), i)


def _load_eight(t: _NetworkWriter, at: str, i: str) -> None:
    """Load eight keys of each row into eight lines, from line i on."""
    given = f"<8 x {t.given}>"
    numbers = [t.add(i, k) for k in range(_EIGHT)]
    for group in range(0, t.lanes, _EIGHT):
        rows = []
        for row in range(group, group + _EIGHT):
            cell = t.address("%keys", t.add(at, row * t.rows.length), t.given)
            rows.append(t.let(f"load {given}, ptr {cell}, align {t.bytes}"))
        if t.kind == "packed":
            places = t.vector_of("i64", numbers)
            wide = [t.let(f"zext {given} {row} to <8 x i64>") for row in rows]
            high = [t.let(f"shl <8 x i64> {row}, splat (i64 32)") for row in wide]
            rows = [t.let(f"or <8 x i64> {row}, {places}") for row in high]
        for number, line in zip(numbers, _transposed(t, rows), strict=True):
            to = t.address(t.line(number), group, t.word)
            t.emit(f"store <8 x {t.word}> {line}, ptr {to}, align 8")
    if t.kind == "paired":
        for number in numbers:
            _store_position(t, number)


def _store_eight(t: _NetworkWriter, at: str, i: str) -> None:
    """Store eight lines, from line i on, as eight results of each row."""
    from_ = i if t.kind != "paired" else t.add(i, t.rows.lines)
    for group in range(0, t.lanes, _EIGHT):
        cells = [t.address(t.line(t.add(from_, k)), group, t.word) for k in range(_EIGHT)]
        held = [t.let(f"load <8 x {t.word}>, ptr {cell}, align 8") for cell in cells]
        if t.kind == "packed":
            held = [t.let(f"and <8 x i64> {x}, splat (i64 {2**32 - 1})") for x in held]
        for row, x in enumerate(_transposed(t, held), group):
            to = t.address("%out", t.add(at, row * t.rows.length), t.word)
            t.emit(f"store <8 x {t.word}> {x}, ptr {to}, align {t.word_bytes}")


def _transposed(t: _NetworkWriter, rows: Sequence[str]) -> list[str]:
    """The transpose of eight vectors of eight: exchange halves, then quarters, then elements."""
    vectors, vector = list(rows), f"<8 x {t.word}>"
    for distance in (4, 2, 1):
        for r in (r for r in range(_EIGHT) if not r & distance):
            a, b = vectors[r], vectors[r + distance]
            low = [c + 8 - distance if c & distance else c for c in range(_EIGHT)]
            high = [c + 8 if c & distance else c + distance for c in range(_EIGHT)]
            for to, mask in ((r, low), (r + distance, high)):
                picked = ", ".join(f"i32 {c}" for c in mask)
                vectors[to] = t.let(
                    f"shufflevector {vector} {a}, {vector} {b}, <8 x i32> <{picked}>"
                )
    return vectors


def _load_one(t: _NetworkWriter, at: str, i: str) -> None:
    """Load key i of each row of a block into line i."""
    cell = t.line(i)
    for lane in range(t.lanes):
        key = t.load("%keys", t.add(at, lane * t.rows.length), t.given)
        if t.kind == "packed":
            wide = t.let(f"zext {t.given} {key} to i64")
            key = t.let(f"or i64 {t.let(f'shl i64 {wide}, 32')}, {i}")
        t.store(key, cell, lane, t.word)
    if t.kind == "paired":
        _store_position(t, i)


def _store_position(t: _NetworkWriter, line: str) -> None:
    """Store the initial position beside a line of keys."""
    numbers = t.splat(t.lanes, "i64", line)
    cell = t.line(t.add(line, t.rows.lines))
    t.emit(f"store {t.vector} {numbers}, ptr {cell}, align 8")


def _store_all(t: _NetworkWriter, first: str) -> None:
    """Store the results of all lines."""
    _each_key(t, first, _store_eight, _store_one)


def _store_ranks(t: _NetworkWriter, first: str) -> None:
    """Store the keys at the wanted ranks of each row, which may differ between rows."""
    n = t.rows.length
    with t.loop(0, "%count") as i:
        for lane in range(t.lanes):
            row = t.add(first, lane)
            rank = t.load("%places", t.add(t.mul(row, "%apart"), i))
            line = t.select(t.let(f"icmp uge i64 {rank}, {n}"), n - 1, rank)
            key = t.load("%room", t.add(t.mul(line, t.lanes), lane), t.word)
            t.store(key, "%out", t.add(t.mul(row, "%count"), i), t.word)


def _store_one(t: _NetworkWriter, at: str, i: str) -> None:
    """Store line i as result i of each row."""
    cell = t.line(i if t.kind != "paired" else t.add(i, t.rows.lines))
    for lane in range(t.lanes):
        x = t.load(cell, lane, t.word)
        if t.kind == "packed":
            x = t.let(f"and i64 {x}, {2**32 - 1}")
        t.store(x, "%out", t.add(at, lane * t.rows.length), t.word)
