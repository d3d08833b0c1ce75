"""Names of machine code for `perf`: lines in /tmp/perf-PID.map, with the setting `perf`.

The functions of a module are found in the symbol table of its object file (ELF, as on Linux); on
other systems nothing is written.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tracker.errors import CompileError
from tracker.jit.llvm.engine import Module

_ELF64 = b"\x7fELF\x02\x01"  # 64 bits, little endian
_HEADER, _SECTION, _SYMBOL = "<40xQ10xHHH", "<IIQQQQIIQQ", "<IBBHQQ"
_SYMBOL_TABLE, VARIABLE, FUNCTION = 2, 1, 2
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)


class CodeSymbol(NamedTuple):
    """A function in an object file: its name, section, offset and size in bytes."""

    name: str
    section: int
    offset: int
    size: int


def write(module: Module, function: str, descriptions: Mapping[str, str]) -> None:
    """Append the functions of a module, which belong to a function of the user's; `descriptions`:
    the lines of kernels and loops by symbol."""
    base, found = functions_in_memory(module)
    lines = [
        f"{base + each.offset:x} {each.size:x} {name_of(each.name, function, descriptions)}\n"
        for each in found
    ]
    path = f"/tmp/perf-{os.getpid()}.map"
    try:
        with os.fdopen(os.open(path, _FLAGS, 0o600), "a") as file:
            file.writelines(lines)
    except OSError as error:
        what = f"the names of machine code cannot be written to {path} ({error.strerror})"
        raise CompileError(what, "Use config(perf=False)", "") from error


def functions_in_memory(module: Module) -> tuple[int, list[CodeSymbol]]:
    """The address of a module's code, and its functions."""
    found = {symbol.name: symbol for symbol in symbols_of(module.object_code)}
    anchor = next((found[name] for name in module.exports if name in found), None)
    if anchor is None:
        return 0, []
    base = module.address(anchor.name) - anchor.offset
    return base, [each for each in found.values() if each.section == anchor.section]


def name_of(symbol: str, function: str, descriptions: Mapping[str, str]) -> str:
    if symbol == "entry":
        return function
    where = descriptions.get(symbol.partition(".")[0], "")  # k0.task, k0.far: parts of a kernel
    return f"{function}: {where or symbol}"


def symbols_of(code: Any, kind_of_symbol: int = FUNCTION) -> Iterator[CodeSymbol]:
    """The functions (or variables) that an object file or library defines."""
    if code[: len(_ELF64)] != _ELF64:
        return
    start, size, count, _ = struct.unpack_from(_HEADER, code)
    sections = [struct.unpack_from(_SECTION, code, start + k * size) for k in range(count)]
    for _, kind, _, _, offset, length, names, *_ in sections:
        if kind != _SYMBOL_TABLE:
            continue
        texts = sections[names][4]
        for at in range(offset, offset + length, struct.calcsize(_SYMBOL)):
            name, info, _, section, value, nbytes = struct.unpack_from(_SYMBOL, code, at)
            if info & 15 == kind_of_symbol and section:
                end = code.find(b"\0", texts + name)
                yield CodeSymbol(code[texts + name : end].decode(), section, value, nbytes)
