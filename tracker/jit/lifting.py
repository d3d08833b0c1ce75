"""Sizes taken out of IR text: another shape gives the same text, and needs no compiling.

Owns: `lift`, which turns numbers that depend on shapes into loads from tables. Bounds of loops,
extents that are checked, offsets and the extents of products become loads (those of a loop nest at
the start of its function), and so do odd floats (1/n). Object code is then good for any tables.
Each function has a table of its own, `@sizes.NAME`, so that its text does not depend on those
beside it (see `relinking.py`).

What is in a table and what stays in the text is free: text and tables together are the program.
Numbers of one digit stay (loops of few steps are unrolled), and so do divisors, which LLVM makes
shifts and products of. Very long functions stay as they are.

LLVM does several vectors at a time in a loop of unknown length, and the rest one by one: too much
rest for a short loop. So that a loop is short stays in the text, and it takes a vector at a time.

Invariant: only numbers that stand where a register may stand are taken out.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

_SYMBOL = "sizes"
_SMALL = 9  # up to here integers stay in the text
_SHORT = 128  # steps of a loop; up to here it is short
_PLAIN = 64.0  # up to here floats that are quarters stay
_LONG = 2400  # lines of a function; beyond, its numbers stay

_NAME = re.compile(r"[^@\n]*@([\w.]+)\(")
_OURS = re.compile(r"(k\d+(\.far|\.task)?|plan|body\d+|entry)$")
_OPCODE = re.compile(r" *(?:%[\w.]+ = )?(\w+)( i64 %tid)?")
_KEPT = {"alloca", "switch", "mul", "udiv", "sdiv", "urem", "srem", "shl", "lshr", "ashr"}
_KEPT_PLACES = ("%slots", "%self", "%args")
_ANY_NUMBER = re.compile(r"0x| -?\d\d")  # in every line that the others look for
_FACTOR = re.compile(r"(= mul(?: nuw| nsw)* i64 [^,]+, )(\d{2,})$")
_TYPED = re.compile(r"(?<=\bi64 )-?\d{2,}(?=[,)\s]|$)")
_SECOND = re.compile(r"(= (?:add|sub|mul|icmp \w+)(?: nuw| nsw)* i64 [^,]+, )(-?\d{2,})$")
_PHI = re.compile(r"(?<=\[ )-?\d{2,}(?=, %)")
_LATCH = re.compile(r"  %cv\d+ = icmp ult i64 %nv\d+, (\d+)$")
_CHECKED = re.compile(r"= icmp eq i64 |^  store i64 ")  # lines of the entry that hold extents
_ANY = re.compile(r"call void @cblas|%tid\b|%lo\b")  # calls of BLAS, and the parts of threads
_FLOAT = re.compile(r"\b0x[0-9A-F]{16}\b")
_KIND = re.compile(r"(?:= [^@(\[]*?\b|store )(float|double)\b")


_ONE_AT_A_TIME = ", !llvm.loop !4"
_NOTES = """!3 = !{}
!4 = distinct !{!4, !7}
!7 = !{!"llvm.loop.interleave.count", i32 1}
"""


def lift(text: str) -> tuple[str, dict[str, bytes]]:
    """The text without its sizes, and the tables of 8-byte entries that its globals must be."""
    tables: dict[str, bytes] = {}
    done = [part if name is None else _lifted(name, part, tables) for name, part in functions(text)]
    if not tables:
        return text, tables
    heads = [
        f"@{symbol} = external global [{len(table) // 8} x i64]\n"
        for symbol, table in tables.items()
    ]
    return "".join([*heads, _NOTES, *done]), tables


def table_of(name: str) -> str:
    """The global that is a function's table."""
    return f"{_SYMBOL}.{name}"


def functions(text: str) -> Iterator[tuple[str | None, str]]:
    """The text in pieces: functions of ours with their names, what is between with None."""
    at = start = 0
    while (start := _next_function(text, start)) >= 0:
        name = _NAME.match(text, start)
        end = text.index("\n}", start) + 2
        if name and _OURS.match(name[1]):
            yield None, text[at:start]
            yield name[1], text[start:end]
            at = end
        start = end
    yield None, text[at:]


def _next_function(text: str, at: int) -> int:
    """Where the next definition begins; -1 if there is none."""
    if at == 0 and text.startswith("define "):
        return 0
    found = text.find("\ndefine ", at)
    return found + 1 if found >= 0 else -1


class _Function:
    """The numbers taken out of one function. Each is an entry of its own: that two are equal is a
    fact of one shape."""

    def __init__(self, symbol: str) -> None:
        self.symbol = symbol
        self.table: list[bytes] = []
        self.loads: list[str] = []

    def integer(self, number: str) -> str:
        value = int(number)
        if abs(value) <= _SMALL or abs(value) >= 2**62:
            return number
        return self._load("i64", struct.pack("<q", value))

    def factor(self, number: str) -> str:
        """A factor of a loop's index. LLVM asks of one that it does not know whether it is 1, and
        writes the loop twice; so it is handed a sum, of which it does not."""
        value = int(number)
        if value <= _SMALL:
            return number
        rest = self._load("i64", struct.pack("<q", value - _SMALL))
        self.loads.append(f"  {rest}.far = add nuw nsw i64 {rest}, {_SMALL}")
        return f"{rest}.far"

    def real(self, kind: str, number: str) -> str:
        """A float literal, which is written as a double whatever its kind."""
        value = struct.unpack("<d", struct.pack("<Q", int(number, 16)))[0]
        if not abs(value) < float("inf") or (abs(value) <= _PLAIN and (value * 4).is_integer()):
            return number
        return self._load(kind, struct.pack("<d" if kind == "double" else "<fxxxx", value))

    def take_loads(self) -> str:
        """The lines of the loads that are not written yet."""
        lines, self.loads = self.loads, []
        return "".join([f"{line}\n" for line in lines])

    def _load(self, kind: str, bits: bytes) -> str:
        at = len(self.table)
        self.table.append(bits)
        name = f"%size.{at}"
        self.loads.append(
            f"  {name} = load {kind}, ptr getelementptr (i64, ptr @{self.symbol}, i64 {at}), "
            "!invariant.load !3"
        )
        return name


def _lifted(name: str, text: str, tables: dict[str, bytes]) -> str:
    if text.count("\n") > _LONG:
        return text
    function = _Function(table_of(name))
    nest = name.startswith("k")  # elsewhere a load is where it is used: registers are few
    start = text.index("\n") + 1
    head, body, at = text[:start], [], start
    while (found := _ANY_NUMBER.search(text, at)) is not None:
        line_start = text.rindex("\n", 0, found.start()) + 1
        line_end = text.index("\n", found.end())
        line = text[line_start:line_end]
        body.append(text[at:line_start])
        latch = _LATCH.match(line)
        factor = _FACTOR.search(line)
        if factor:
            line = line[: factor.start(2)] + function.factor(factor[2])
        line = _without_numbers(line, function, name == "entry")
        if not nest and " phi " not in line:
            line = function.take_loads() + line
        body.append(line)
        at = line_end
        if latch is not None and _SMALL < int(latch[1]) <= _SHORT:
            at = text.index("\n", line_end + 1)
            jump = text[line_end:at]
            body.append(jump if "!llvm.loop" in jump else jump + _ONE_AT_A_TIME)
    body.append(text[at:])
    if function.table:
        tables[function.symbol] = b"".join(function.table)
    return head + _with_loads("".join(body), function.take_loads())


def _with_loads(body: str, loads: str) -> str:
    """Loads at the start of a function, after what it has on the stack."""
    first = 0
    while loads and " alloca " in body[first : (end := body.index("\n", first) + 1)]:
        first = end
    return "".join([body[:first], loads, body[first:]])


def _without_numbers(line: str, function: _Function, entry: bool) -> str:
    if entry:
        if not _CHECKED.search(line):
            return line
    elif _is_kept(line):
        return line
    elif "0x" in line and (kind := _KIND.search(line)):
        line = _FLOAT.sub(lambda m: function.real(kind[1], m[0]), line)
    line = _TYPED.sub(lambda m: function.integer(m[0]), line)
    line = _SECOND.sub(lambda m: m[1] + function.integer(m[2]), line)
    return _PHI.sub(lambda m: function.integer(m[0]), line) if " phi i64 " in line else line


def _is_kept(line: str) -> bool:
    """Whether the numbers of a line stay in the text."""
    opcode = _OPCODE.match(line)
    if opcode and opcode[1] in _KEPT and not (opcode[1] == "mul" and opcode[2]):
        return True
    return any(place in line for place in _KEPT_PLACES)
