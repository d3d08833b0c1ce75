"""Sizes taken out of IR text: another shape gives the same text, and needs no compiling.

Owns: `lift`, which turns numbers that depend on shapes into loads from a table, `@sizes`. Bounds of
loops, extents that are checked, offsets and the extents of products become loads at the start of
their function; so do odd floats (1/n). Object code is then good for any table.

What is in the table and what stays in the text is free: text and table together are the program.
Small bounds stay (loops of few steps are unrolled), and so do divisors and the factors of an inner
loop's index: LLVM makes shifts and constant strides of them. Those of an outer loop's index are
multiplied once for each of its steps. Long functions stay as they are.

Invariant: only numbers that stand where a register may stand are taken out.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

SYMBOL = "sizes"
_SMALL = 128  # up to here integers stay in the text
_DIGIT = 9  # up to here as factors of an outer loop's index, in checks, and in lines of `_ANY`
_PLAIN = 64.0  # up to here floats that are quarters stay
_LONG = 600  # lines of a function; beyond, its numbers stay

_FUNCTION = re.compile(r"^define [^@\n]*@([\w.]+)\(.*$", re.MULTILINE)
_OURS = re.compile(r"(k\d+(\.far|\.task)?|plan|body\d+|entry)$")
_KEPT = re.compile(
    r"\b(alloca|switch|mul(?! i64 %tid)|[us]div|[us]rem|shl|lshr|ashr)\b|%slots|%self|%args"
)
_FACTOR = re.compile(r"(= mul(?: nuw| nsw)* i64 (%iv\d+), )(\d{2,})$")
_INDEX = re.compile(r"  (%iv\d+) = phi i64 ")
_TYPED = re.compile(r"(?<=\bi64 )-?\d{2,}(?=[,)\s]|$)")
_SECOND = re.compile(r"(= (?:add|sub|mul|icmp \w+)(?: nuw| nsw)* i64 [^,]+, )(-?\d{2,})$")
_PHI = re.compile(r"(?<=\[ )-?\d{2,}(?=, %)")
_CHECKED = re.compile(r"= icmp eq i64 |^  store i64 ")  # lines of the entry that hold extents
_ANY = re.compile(r"call void @cblas|%tid\b|%lo\b")  # calls of BLAS, and the parts of threads
_FLOAT = re.compile(r"\b0x[0-9A-F]{16}\b")
_KIND = re.compile(r"(?:= [^@(\[]*?\b|store )(float|double)\b")


def lift(text: str) -> tuple[str, bytes]:
    """The text without its sizes, and the table of 8-byte entries that `@sizes` must be."""
    table = _Table()
    parts = list(_functions(text))
    done = "".join(part if name is None else _lifted(name, part, table) for name, part in parts)
    if not table.entries:
        return text, b""
    head = f"@{SYMBOL} = external global [{len(table.entries)} x i64]\n!3 = !{{}}\n"
    return head + done, table.bytes()


def _functions(text: str) -> Iterator[tuple[str | None, str]]:
    """The text in pieces: functions of ours with their names, what is between without."""
    at = 0
    for head in _FUNCTION.finditer(text):
        if head.start() < at or not _OURS.match(head[1]):
            continue
        end = text.index("\n}", head.end()) + 2
        yield None, text[at : head.start()]
        yield head[1], text[head.start() : end]
        at = end
    yield None, text[at:]


class _Table:
    """The entries so far, as bits, in order of first use; equal bits are one entry."""

    def __init__(self) -> None:
        self.entries: dict[bytes, int] = {}

    def place(self, bits: bytes) -> int:
        return self.entries.setdefault(bits, len(self.entries))

    def bytes(self) -> bytes:
        return b"".join(self.entries)


class _Function:
    """The numbers taken out of one function, by register name."""

    def __init__(self, table: _Table) -> None:
        self.table = table
        self.loads: dict[str, str] = {}

    def integer(self, number: str, small: int = _SMALL) -> str:
        value = int(number)
        if abs(value) <= small or abs(value) >= 2**62:
            return number
        return self._load("i64", struct.pack("<q", value))

    def real(self, kind: str, number: str) -> str:
        """A float literal, which is written as a double whatever its kind."""
        value = struct.unpack("<d", struct.pack("<Q", int(number, 16)))[0]
        if not abs(value) < float("inf") or (abs(value) <= _PLAIN and (value * 4).is_integer()):
            return number
        return self._load(kind, struct.pack("<d" if kind == "double" else "<fxxxx", value))

    def _load(self, kind: str, bits: bytes) -> str:
        at = self.table.place(bits)
        name = f"%size.{kind}.{at}"
        self.loads[name] = (
            f"  {name} = load {kind}, ptr getelementptr (i64, ptr @{SYMBOL}, i64 {at}), "
            "!invariant.load !3"
        )
        return name


def _lifted(name: str, text: str, table: _Table) -> str:
    head, *lines = text.split("\n")
    if len(lines) > _LONG:
        return text
    function = _Function(table)
    body: list[str] = []
    innermost = ""
    for line in lines:
        index = _INDEX.match(line)
        if index:
            innermost = index[1]
        factor = _FACTOR.search(line)
        if factor and factor[2] != innermost:
            line = line[: factor.start(3)] + function.integer(factor[3], _DIGIT)
        body.append(_without_numbers(line, function, name == "entry"))
    first = next((i for i, line in enumerate(body) if " alloca " not in line), 0)
    return "\n".join([head, *body[:first], *function.loads.values(), *body[first:]])


def _without_numbers(line: str, function: _Function, entry: bool) -> str:
    if entry:
        if not _CHECKED.search(line):
            return line
    elif _KEPT.search(line):
        return line
    elif "0x" in line and (kind := _KIND.search(line)):
        line = _FLOAT.sub(lambda m: function.real(kind[1], m[0]), line)
    small = _DIGIT if entry or _ANY.search(line) else _SMALL
    line = _TYPED.sub(lambda m: function.integer(m[0], small), line)
    line = _SECOND.sub(lambda m: m[1] + function.integer(m[2], small), line)
    return _PHI.sub(lambda m: function.integer(m[0]), line) if " phi i64 " in line else line
