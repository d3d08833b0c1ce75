"""Sorting networks: rows of keys, a vector of rows at a time.

A block of rows is transposed so that a *line* (a vector) holds one key of each row; lines are
compared and exchanged lane by lane, in an order that depends on no key. Eight lines at a time are
sorted in registers (Batcher's network), then pairs of runs are merged (bitonic merge: the second
run reversed, then half-cleaners). `is_quick` says for which rows this is fast.

Three kinds of lines:
- `values`: the keys themselves; the sorted keys are the result.
- `packed`: a key of at most 32 bits above its position; the positions are the result.
- `paired`: a key of 64 bits, and a vector of positions beside it.

Invariants: lines past a row's end hold the greatest key, and stay there; equal keys stay in order,
because ties are decided by position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

_MIN_ROW = 2  # keys of a row
_MAX_ROW = {"values": 2048, "packed": 2048, "paired": 512}
_MAX_ROW_OF_FEW = 256  # with fewer than eight rows
_EIGHT = 8  # lines sorted in registers


def line_kind(bits: int, values: bool) -> str:
    """The kind of lines for keys of `bits` bits, by whether keys or positions are the result."""
    return "values" if values else "packed" if bits <= 32 else "paired"


def lanes(bits: int, kind: str, rows: int) -> int:
    """How many of these rows are sorted at a time."""
    return 16 if kind == "values" and bits <= 32 and rows >= 16 else 8 if rows >= 8 else 4


def is_quick(bits: int, rows: int, n: int, values: bool) -> bool:
    """Whether networks are fast for these rows."""
    kind = line_kind(bits, values)
    longest = _MAX_ROW[kind] if rows >= _EIGHT else _MAX_ROW_OF_FEW
    return rows >= lanes(bits, kind, rows) and _MIN_ROW <= n <= longest


def scratch_words(bits: int, rows: int, n: int, values: bool) -> int:
    """The words of 64 bits that the lines of a block take."""
    kind = line_kind(bits, values)
    return _padded_length(n) * lanes(bits, kind, rows) * (2 if kind == "paired" else 1)


def sort_routine(bits: int, rows: int, n: int, values: bool) -> tuple[str, set[str]]:
    """The name of the function (ptr keys, ptr out, ptr room, i64 rows), and all texts it needs."""
    text = _NetworkWriter(bits, line_kind(bits, values), rows)
    name = f"@tk.rows.{text.tag}.{n}"
    return name, _with_passes(text, _rows(text, name, n, _SORT_PARAMETERS, _store_all))


def select_routine(bits: int, rows: int, n: int) -> tuple[str, set[str]]:
    """The same for the function that gives the keys at some ranks of each row (ptr keys, ptr
    places, ptr out, ptr room, i64 rows, i64 ranks per row, i64 distance of a row's ranks from those
    of the one before)."""
    text = _NetworkWriter(bits, "values", rows)
    name = f"@tk.chosen.rows.{text.tag}.{n}"
    return name, _with_passes(text, _rows(text, name, n, _SELECT_PARAMETERS, _store_ranks))


def _with_passes(text: _NetworkWriter, rows: str) -> set[str]:
    return {
        *(text.pass_function(name, body) for name, body in _PASSES.items()),
        *text.declared,
        rows,
    }


def _padded_length(n: int) -> int:
    return -(-n // _EIGHT) * _EIGHT


class _NetworkWriter:
    """Emits a function that works on lines of keys."""

    def __init__(self, bits: int, kind: str, rows: int) -> None:
        self.kind = kind
        self.given, self.bytes = f"i{bits}", bits // 8
        self.word_bytes = self.bytes if kind == "values" else 8
        self.word = f"i{bits}" if kind == "values" else "i64"
        self.lanes = lanes(bits, kind, rows)
        self.vector = f"<{self.lanes} x {self.word}>"
        self.tag = f"{kind}.{bits}.{self.lanes}"
        self.out: list[str] = []
        self.count = 0
        self.declared = {
            f"declare {self.vector} @llvm.{which}.v{self.lanes}{self.word}"
            f"({self.vector}, {self.vector})"
            for which in ("umin", "umax")
        }

    def write(self, instruction: str) -> str:
        self.count += 1
        self.out.append(f"  %v{self.count} = {instruction}")
        return f"%v{self.count}"

    def loop(self, first: str, last: str, step: str, body: Callable[[str], None]) -> None:
        """A counted loop, which may be empty."""
        self.count += 1
        tag = self.count
        self.out += [
            f"  br label %pre{tag}",
            f"pre{tag}:",
            f"  br label %head{tag}",
            f"head{tag}:",
            f"  %i{tag} = phi i64 [{first}, %pre{tag}], [%next{tag}, %latch{tag}]",
            f"  %go{tag} = icmp slt i64 %i{tag}, {last}",
            f"  br i1 %go{tag}, label %body{tag}, label %done{tag}",
            f"body{tag}:",
        ]
        body(f"%i{tag}")
        self.out += [
            f"  br label %latch{tag}",
            f"latch{tag}:",
            f"  %next{tag} = add i64 %i{tag}, {step}",
            f"  br label %head{tag}",
            f"done{tag}:",
        ]

    def pass_function(self, name: str, body: Callable[[_NetworkWriter], None]) -> str:
        """A function on the lines of a block: (ptr lines, i64 count, i64 distance)."""
        self.out, self.count = [], 0
        body(self)
        head = f"define internal void @tk.{name}.{self.tag}(ptr %room, i64 %lines, i64 %d) noinline"
        return "\n".join([f"{head} {{", "start:", *self.out, "  ret void", "}"])

    # Lines

    def cells(self, line: str) -> list[str]:
        """The addresses of the vectors of a line."""
        cells = [self.write(f"getelementptr {self.vector}, ptr %room, i64 {line}")]
        if self.kind == "paired":
            beside = self.write(f"add i64 {line}, %lines")
            cells.append(self.write(f"getelementptr {self.vector}, ptr %room, i64 {beside}"))
        return cells

    def load(self, cells: Sequence[str]) -> list[str]:
        return [self.write(f"load {self.vector}, ptr {cell}, align 8") for cell in cells]

    def store(self, line: Sequence[str], cells: Sequence[str]) -> None:
        for x, cell in zip(line, cells, strict=True):
            self.out.append(f"  store {self.vector} {x}, ptr {cell}, align 8")

    def min_max(self, a: Sequence[str], b: Sequence[str]) -> tuple[list[str], list[str]]:
        """The lesser key of each lane, and the greater."""
        v = self.vector
        if self.kind != "paired":
            least, most = (
                self.write(
                    f"call {v} @llvm.{which}.v{self.lanes}{self.word}({v} {a[0]}, {v} {b[0]})"
                )
                for which in ("umin", "umax")
            )
            return [least], [most]
        bools = f"<{self.lanes} x i1>"
        above = self.write(f"icmp ugt {v} {a[0]}, {b[0]}")
        same = self.write(f"icmp eq {v} {a[0]}, {b[0]}")
        later = self.write(f"icmp ugt {v} {a[1]}, {b[1]}")
        tied = self.write(f"and {bools} {same}, {later}")
        is_greater = self.write(f"or {bools} {above}, {tied}")
        pairs = list(zip(a, b, strict=True))
        low = [self.write(f"select {bools} {is_greater}, {v} {y}, {v} {x}") for x, y in pairs]
        high = [self.write(f"select {bools} {is_greater}, {v} {x}, {v} {y}") for x, y in pairs]
        return low, high

    def compare_exchange(self, i: str, j: str) -> None:
        """Sort two lines, lane by lane."""
        first, second = self.cells(i), self.cells(j)
        low, high = self.min_max(self.load(first), self.load(second))
        self.store(low, first)
        self.store(high, second)

    def network_pass(self, network: Iterable[tuple[int, int]]) -> None:
        """Apply a network to each eight lines."""

        def body(start: str) -> None:
            cells = [self.cells(self.write(f"add i64 {start}, {k}")) for k in range(_EIGHT)]
            lines = [self.load(each) for each in cells]
            for i, j in network:
                lines[i], lines[j] = self.min_max(lines[i], lines[j])
            for line, each in zip(lines, cells, strict=True):
                self.store(line, each)

        self.loop("0", "%lines", str(_EIGHT), body)


# Passes -------------------------------------------------------------------------------------------

_SORT_EIGHT = (
    *((0, 1), (2, 3), (4, 5), (6, 7), (0, 2), (1, 3), (4, 6), (5, 7), (1, 2), (5, 6)),
    *((0, 4), (1, 5), (2, 6), (3, 7), (2, 4), (3, 5), (1, 2), (3, 4), (5, 6)),
)
_MERGE_EIGHT = tuple((i, i + d) for d in (4, 2, 1) for i in range(_EIGHT) if not i & d)


def _merge_reversed(t: _NetworkWriter) -> None:
    """Compare each two runs of %d lines: the first line of one with the last of the other."""
    both = t.write("mul i64 %d, 2")

    def run(start: str) -> None:
        end = t.write(f"add i64 {start}, {both}")
        past = t.write(f"sub i64 {end}, %lines")
        some = t.write(f"icmp sgt i64 {past}, 0")
        first = t.write(f"select i1 {some}, i64 {past}, i64 0")
        last = t.write(f"sub i64 {end}, 1")
        t.loop(
            first,
            "%d",
            "1",
            lambda i: t.compare_exchange(
                t.write(f"add i64 {start}, {i}"), t.write(f"sub i64 {last}, {i}")
            ),
        )

    t.loop("0", "%lines", both, run)


def _half_cleaner(t: _NetworkWriter) -> None:
    """Compare lines that are %d apart, in each run of twice as many."""
    both = t.write("mul i64 %d, 2")
    inside = t.write("sub i64 %lines, %d")

    def run(start: str) -> None:
        end = t.write(f"add i64 {start}, %d")
        over = t.write(f"icmp sgt i64 {end}, {inside}")
        last = t.write(f"select i1 {over}, i64 {inside}, i64 {end}")
        t.loop(start, last, "1", lambda i: t.compare_exchange(i, t.write(f"add i64 {i}, %d")))

    t.loop("0", "%lines", both, run)


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


_SORT_PARAMETERS = "ptr %keys, ptr %out, ptr %room, i64 %rows"
_SELECT_PARAMETERS = (
    "ptr %keys, ptr %places, ptr %out, ptr %room, i64 %rows, i64 %count, i64 %apart"
)


def _rows(
    t: _NetworkWriter,
    name: str,
    n: int,
    parameters: str,
    turned_out: Callable[[_NetworkWriter, str, int, int], None],
) -> str:
    """The function for all rows; the last block overlaps the one before, so that it is full.
    `turned_out` emits the stores of the results of a block, given the number of its first row."""
    t.out, t.count = [], 0
    lines = _padded_length(n)

    def block(start: str) -> None:
        past = t.write(f"icmp ugt i64 {start}, {last}")
        first = t.write(f"select i1 {past}, i64 {last}, i64 {start}")
        at = t.write(f"mul i64 {first}, {n}")
        _each_key(t, at, n, lines, _load_eight, _load_one)
        for line in range(n, lines):
            t.out.append(f"  store {t.vector} splat ({t.word} -1), ptr {_line(t, line)}, align 8")
            if t.kind == "paired":
                beside = _line(t, lines + line)
                t.out.append(f"  store {t.vector} splat (i64 -1), ptr {beside}, align 8")
        for part, distance in _steps(lines):
            t.out.append(f"  call void @tk.{part}.{t.tag}(ptr %room, i64 {lines}, i64 {distance})")
        turned_out(t, first, n, lines)

    last = t.write(f"sub i64 %rows, {t.lanes}")
    t.loop("0", "%rows", str(t.lanes), block)
    head = f"define internal void {name}({parameters}) noinline {{"
    return "\n".join([head, "start:", *t.out, "  ret void", "}"])


_Transpose = Callable[[_NetworkWriter, str, str, int, int], None]


def _each_key(
    t: _NetworkWriter, at: str, n: int, lines: int, eight: _Transpose, one: _Transpose
) -> None:
    """Apply `eight` or `one` to the keys of a block, eight columns at a time."""
    in_eights = n - n % _EIGHT if t.lanes % _EIGHT == 0 else 0
    if in_eights:
        t.loop(
            "0",
            str(in_eights),
            str(_EIGHT),
            lambda i: eight(t, t.write(f"add i64 {at}, {i}"), i, n, lines),
        )
    if in_eights < n:
        t.loop(
            str(in_eights),
            str(n),
            "1",
            lambda i: one(t, t.write(f"add i64 {at}, {i}"), i, n, lines),
        )


def _load_eight(t: _NetworkWriter, at: str, i: str, n: int, lines: int) -> None:
    """Load eight keys of each row into eight lines, from line i on."""
    given = f"<8 x {t.given}>"
    numbers = [t.write(f"add i64 {i}, {k}") for k in range(_EIGHT)]
    for group in range(0, t.lanes, _EIGHT):
        rows = []
        for row in range(group, group + _EIGHT):
            where = t.write(f"add i64 {at}, {row * n}")
            cell = _address(t, t.given, "%keys", where)
            rows.append(t.write(f"load {given}, ptr {cell}, align {t.bytes}"))
        if t.kind == "packed":
            places = "poison"
            for k, number in enumerate(numbers):
                places = t.write(f"insertelement <8 x i64> {places}, i64 {number}, i64 {k}")
            wide = [t.write(f"zext {given} {row} to <8 x i64>") for row in rows]
            high = [t.write(f"shl <8 x i64> {row}, splat (i64 32)") for row in wide]
            rows = [t.write(f"or <8 x i64> {row}, {places}") for row in high]
        for number, line in zip(numbers, _transposed(t, rows), strict=True):
            to = _lane(t, number, group)
            t.out.append(f"  store <8 x {t.word}> {line}, ptr {to}, align 8")
    if t.kind == "paired":
        for number in numbers:
            _store_position(t, number, lines)


def _store_eight(t: _NetworkWriter, at: str, i: str, n: int, lines: int) -> None:
    """Store eight lines, from line i on, as eight results of each row."""
    from_ = i if t.kind != "paired" else t.write(f"add i64 {i}, {lines}")
    for group in range(0, t.lanes, _EIGHT):
        cells = [_lane(t, t.write(f"add i64 {from_}, {k}"), group) for k in range(_EIGHT)]
        held = [t.write(f"load <8 x {t.word}>, ptr {cell}, align 8") for cell in cells]
        if t.kind == "packed":
            held = [t.write(f"and <8 x i64> {x}, splat (i64 {2**32 - 1})") for x in held]
        for row, x in enumerate(_transposed(t, held), group):
            to = _address(t, t.word, "%out", t.write(f"add i64 {at}, {row * n}"))
            t.out.append(f"  store <8 x {t.word}> {x}, ptr {to}, align {t.word_bytes}")


def _lane(t: _NetworkWriter, line: str, lane: int) -> str:
    first = t.write(f"getelementptr {t.vector}, ptr %room, i64 {line}")
    return _address(t, t.word, first, str(lane))


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
                vectors[to] = t.write(
                    f"shufflevector {vector} {a}, {vector} {b}, <8 x i32> <{picked}>"
                )
    return vectors


def _line(t: _NetworkWriter, line: int) -> str:
    return t.write(f"getelementptr {t.vector}, ptr %room, i64 {line}")


def _load_one(t: _NetworkWriter, at: str, i: str, n: int, lines: int) -> None:
    """Load key i of each row of a block into line i; `at` is the position in the first row."""
    cell = t.write(f"getelementptr {t.vector}, ptr %room, i64 {i}")
    for lane in range(t.lanes):
        where = t.write(f"add i64 {at}, {lane * n}")
        key = t.write(f"load {t.given}, ptr {_address(t, t.given, '%keys', where)}")
        if t.kind == "packed":
            wide = t.write(f"zext {t.given} {key} to i64")
            key = t.write(f"or i64 {t.write(f'shl i64 {wide}, 32')}, {i}")
        to = _address(t, t.word, cell, str(lane))
        t.out.append(f"  store {t.word} {key}, ptr {to}")
    if t.kind == "paired":
        _store_position(t, i, lines)


def _store_position(t: _NetworkWriter, line: str, lines: int) -> None:
    """Store the initial position beside a line of keys."""
    number = t.write(f"insertelement {t.vector} poison, i64 {line}, i64 0")
    zeros = f"<{t.lanes} x i32> zeroinitializer"
    numbers = t.write(f"shufflevector {t.vector} {number}, {t.vector} poison, {zeros}")
    beside = t.write(f"add i64 {line}, {lines}")
    cell = t.write(f"getelementptr {t.vector}, ptr %room, i64 {beside}")
    t.out.append(f"  store {t.vector} {numbers}, ptr {cell}, align 8")


def _store_all(t: _NetworkWriter, first: str, n: int, lines: int) -> None:
    """Store the results of all lines."""
    at = t.write(f"mul i64 {first}, {n}")
    _each_key(t, at, n, lines, _store_eight, _store_one)


def _store_ranks(t: _NetworkWriter, first: str, n: int, lines: int) -> None:
    """Store the keys at the wanted ranks of each row, which may differ between rows."""

    def place(i: str) -> None:
        for lane in range(t.lanes):
            row = t.write(f"add i64 {first}, {lane}")
            position = t.write(f"add i64 {t.write(f'mul i64 {row}, %apart')}, {i}")
            rank = t.write(f"load i64, ptr {_address(t, 'i64', '%places', position)}")
            past = t.write(f"icmp uge i64 {rank}, {n}")
            line = t.write(f"select i1 {past}, i64 {n - 1}, i64 {rank}")
            at = t.write(f"add i64 {t.write(f'mul i64 {line}, {t.lanes}')}, {lane}")
            key = t.write(f"load {t.word}, ptr {_address(t, t.word, '%room', at)}")
            to = t.write(f"add i64 {t.write(f'mul i64 {row}, %count')}, {i}")
            t.out.append(f"  store {t.word} {key}, ptr {_address(t, t.word, '%out', to)}")

    t.loop("0", "%count", "1", place)


def _store_one(t: _NetworkWriter, at: str, i: str, n: int, lines: int) -> None:
    """Store line i as result i of each row."""
    line = i if t.kind != "paired" else t.write(f"add i64 {i}, {lines}")
    cell = t.write(f"getelementptr {t.vector}, ptr %room, i64 {line}")
    for lane in range(t.lanes):
        x = t.write(f"load {t.word}, ptr {_address(t, t.word, cell, str(lane))}")
        if t.kind == "packed":
            x = t.write(f"and i64 {x}, {2**32 - 1}")
        where = t.write(f"add i64 {at}, {lane * n}")
        t.out.append(f"  store {t.word} {x}, ptr {_address(t, t.word, '%out', where)}")


def _address(t: _NetworkWriter, kind: str, base: str, index: str) -> str:
    return t.write(f"getelementptr {kind}, ptr {base}, i64 {index}")
