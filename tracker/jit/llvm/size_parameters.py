"""Numbers that depend on shapes, replaced by loads from a table.

`lift_sizes` takes loop bounds, checked extents, offsets, extents of products and odd floats (n,
1/n) out of a text. Another shape of the same function then has the same text and finds its object
code; only the table differs. Each function has a table of its own, `@sizes.NAME`, so that its text
does not depend on its neighbours (`jit/pipeline/link.py` moves functions between modules).

Numbers of one digit stay, because loops of few steps are unrolled, and so do divisors, which LLVM
turns into shifts and products. Functions of more than _MAX_FUNCTION_LINES lines stay as they are.

Invariants: only operands that may be registers are replaced; text and tables together determine the
program.
"""

from __future__ import annotations

import functools
import math
import re
import struct
from collections.abc import Iterator, Sequence

from tracker.jit.llvm.text_writer import function_spans

_TABLE_PREFIX = "sizes"
_MAX_LITERAL = 9  # integers up to here stay in the text, and floats that are quarters
_MAX_FUNCTION_LINES = 2400  # beyond, its numbers stay

_FUNCTION_NAME = re.compile(r"[^@\n]*@([\w.]+)\(")
_LIFTED_FUNCTION = re.compile(r"(k\d+(\.far|\.task)?|plan|body\d+|entry)$")
_LIFTED_SIGNATURE = re.compile(
    r"^(.*@(?:k\d+(?:\.far)?|plan|body\d+)\()(\))?", re.MULTILINE
)  # of a definition, a declaration or a call
_TABLE_GLOBAL = re.compile(rf"^@{_TABLE_PREFIX}\.\S+ = external global .*\n", re.MULTILINE)
_TABLE_LOAD = re.compile(
    rf"^  (\S+) = load (\w+), ptr getelementptr \(i64, ptr @({_TABLE_PREFIX}\.\S+), i64 (\d+)\)",
    re.MULTILINE,
)
_OPCODE = re.compile(r" *(?:%[\w.]+ = )?(\w+)(?: \w+)*? i64 |(?: *(?:%[\w.]+ = )?(\w+))")
_LITERAL_OPCODES = {"alloca", "switch", "udiv", "sdiv", "urem", "srem", "shl", "lshr", "ashr"}
_BINARY_OPCODES = {"add", "sub", "icmp"}
_LITERAL_LINE = re.compile("%slots|%self|%args")
_CANDIDATES = tuple(re.compile(rf"{before} -?\d\d") for before in ("i64", ",", r"\["))
_FACTOR = re.compile(r"(= mul(?: nuw| nsw)* i64 [^,]+, )(\d{2,})$")
_TYPED_INTEGER = r"(?<=\bi64 )-?\d{2,}(?=[,)\s]|$)"
_INTEGERS = re.compile(_TYPED_INTEGER)
_BINARY_INTEGERS = re.compile(rf"{_TYPED_INTEGER}|(?<=, )-?\d{{2,}}$")
_PHI_INTEGERS = re.compile(rf"{_TYPED_INTEGER}|(?<=\[ )-?\d{{2,}}(?=, %)")
# Lines of an entry with an extent:
_ENTRY_CHECK = re.compile(r"\n  (?:store i64 -?\d\d|%[\w.]+ = icmp (?:eq|ule) i64 )[^\n]*")
_FLOAT = re.compile(r"0x[0-9A-F]{16}\b")
_FLOAT_TYPE = re.compile(r"(?:= [^@(\[]*?\b|store )(float|double)\b")


_METADATA = "!3 = !{}\n"


def lift_sizes(text: str) -> tuple[str, dict[str, bytes]]:
    """The text without its sizes, and the tables of 8-byte entries for its new globals."""
    tables: dict[str, bytes] = {}
    parts = [
        part if name is None else _lift_function(name, part, tables)
        for name, part in split_functions(text)
    ]
    if not tables:
        return text, tables
    heads = [
        f"@{symbol} = external global [{len(table) // 8} x i64]\n"
        for symbol, table in tables.items()
    ]
    return "".join([*heads, _METADATA, *parts]), tables


def sizes_as_parameter(texts: Sequence[str]) -> tuple[list[str], bytes]:
    """The modules of a program, and the table of its sizes: each function takes the table's address
    as first parameter, so that programs of several shapes with the same texts are one program."""
    lifted = [lift_sizes(text) for text in texts]
    starts, table = {}, b""
    for _, tables in lifted:
        for symbol, entries in tables.items():
            starts[symbol] = len(table) // 8
            table += entries

    def load(match: re.Match[str]) -> str:
        name, kind, symbol, at = match.groups()
        cell = f"{name}.at = getelementptr i64, ptr %sizes, i64 {starts[symbol] + int(at)}"
        return f"  {cell}\n  {name} = load {kind}, ptr {name}.at"

    def parameter(match: re.Match[str]) -> str:
        own = "ptr" if match[1].startswith("declare") else "ptr %sizes"
        return f"{match[1]}{own}{match[2] or ', '}"

    return [
        _LIFTED_SIGNATURE.sub(parameter, _TABLE_LOAD.sub(load, _TABLE_GLOBAL.sub("", text)))
        for text, _ in lifted
    ], table


def table_symbol(name: str) -> str:
    """The global that is a function's table."""
    return f"{_TABLE_PREFIX}.{name}"


def split_functions(text: str) -> Iterator[tuple[str | None, str]]:
    """The text in parts: generated functions with their names, everything between with None."""
    at = 0
    for start, end in function_spans(text):
        name = _FUNCTION_NAME.match(text, start)
        if name and _LIFTED_FUNCTION.match(name[1]):
            yield None, text[at:start]
            yield name[1], text[start:end]
            at = end
    yield None, text[at:]


class _SizeTable:
    """The numbers taken out of one function. Each number is an entry of its own: that two are equal
    holds for one shape only. But equal factors, which are strides, are one: few arrays have equal
    strides by chance, and a kernel with a factor for each access computes each address anew."""

    def __init__(self, symbol: str, loads_are_first: bool = False) -> None:
        self.symbol = symbol
        self.loads_are_first = loads_are_first  # so that every line can use a number's name
        self.entries: list[bytes] = []
        self.loads: list[str] = []
        self._factors: dict[int, str] = {}

    def integer(self, number: str) -> str:
        value = int(number)
        if abs(value) <= _MAX_LITERAL or abs(value) >= 2**62:
            return number
        return self._load("i64", struct.pack("<q", value))

    def factor(self, number: str) -> str:
        """A factor of a loop index. LLVM would version the loop for an unknown factor of 1, so it
        gets a sum that cannot be 1."""
        value = int(number)
        if value <= _MAX_LITERAL:
            return number
        if self.loads_are_first and value in self._factors:
            return self._factors[value]
        rest = self._load("i64", struct.pack("<q", value - _MAX_LITERAL))
        self.loads.append(f"  {rest}.far = add nuw nsw i64 {rest}, {_MAX_LITERAL}\n")
        self._factors[value] = f"{rest}.far"
        return self._factors[value]

    def real(self, kind: str, number: str) -> str:
        """A float literal; its text is that of a double for any type."""
        if _stays_literal(number):
            return number
        return self._load(
            kind, struct.pack("<d" if kind == "double" else "<fxxxx", _literal_value(number))
        )

    def take_loads(self) -> str:
        """The loads that are not written yet."""
        lines, self.loads = self.loads, []
        return "".join(lines)

    def _load(self, kind: str, bits: bytes) -> str:
        at = len(self.entries)
        self.entries.append(bits)
        name = f"%size.{at}"
        self.loads.append(
            f"  {name} = load {kind}, ptr getelementptr (i64, ptr @{self.symbol}, i64 {at}), "
            "!invariant.load !3\n"
        )
        return name


def _literal_value(number: str) -> float:
    value: float = struct.unpack("<d", struct.pack("<Q", int(number, 16)))[0]
    return value


@functools.lru_cache(maxsize=1024)
def _stays_literal(number: str) -> bool:
    """Whether a float literal stays in the text: a multiple of 1/4 up to _MAX_LITERAL, or not
    finite."""
    value = abs(_literal_value(number))
    return (value * 4).is_integer() if value <= _MAX_LITERAL else not value < math.inf


def _lift_function(name: str, text: str, tables: dict[str, bytes]) -> str:
    if text.count("\n") > _MAX_FUNCTION_LINES:
        return text
    function = _SizeTable(table_symbol(name), loads_are_first=name.startswith("k"))
    if name == "entry":
        done = _ENTRY_CHECK.sub(lambda match: _lift_entry_line(match[0][1:], function), text)
    else:
        done = _lift_body(text, function)
    if function.entries:
        tables[function.symbol] = b"".join(function.entries)
    return done


def _lift_entry_line(line: str, function: _SizeTable) -> str:
    """A line of the entry that may hold an extent, after its loads."""
    line = _BINARY_INTEGERS.sub(lambda match: function.integer(match[0]), line)
    return f"\n{function.take_loads()}{line}"


def _lift_body(text: str, function: _SizeTable) -> str:
    """The text of a function that computes."""
    start = text.index("\n") + 1
    body, at = [], start
    for position in _number_positions(text, start):
        if position < at:
            continue
        line_start, line_end = text.rindex("\n", 0, position) + 1, text.index("\n", position)
        line = text[line_start:line_end]
        body.append(text[at:line_start])
        at = line_end
        done = _replace_numbers(line, function)
        if not function.loads_are_first and function.loads and " phi " not in line:
            body.append(function.take_loads())
        body.append(done)
    body.append(text[at:])
    return text[:start] + _insert_loads("".join(body), function.take_loads())


def _number_positions(text: str, start: int) -> list[int]:
    """Positions of numbers that may be replaced, in order. One pattern for each kind: a search for
    a fixed prefix is ten times as fast as one for alternatives."""
    matches = [match for pattern in _CANDIDATES for match in pattern.finditer(text, start)]
    matches += [match for match in _FLOAT.finditer(text, start) if not _stays_literal(match[0])]
    return sorted(match.start() for match in matches)


def _insert_loads(body: str, loads: str) -> str:
    """Loads at the start of a function, after its allocas."""
    first = 0
    while loads and " alloca " in body[first : (end := body.index("\n", first) + 1)]:
        first = end
    return "".join([body[:first], loads, body[first:]])


def _replace_numbers(line: str, function: _SizeTable) -> str:
    opcode = _OPCODE.match(line)
    assert opcode is not None
    integers, other = opcode.groups()
    kind = integers or other
    if kind == "mul":
        return _FACTOR.sub(lambda match: match[1] + function.factor(match[2]), line)
    if kind in _LITERAL_OPCODES or _LITERAL_LINE.search(line):
        return line
    if "0x" in line and (real := _FLOAT_TYPE.search(line)):
        line = _FLOAT.sub(lambda match: function.real(real[1], match[0]), line)
    pattern = (
        _BINARY_INTEGERS
        if integers in _BINARY_OPCODES
        else _PHI_INTEGERS
        if integers == "phi"
        else _INTEGERS
    )
    return pattern.sub(lambda match: function.integer(match[0]), line)
