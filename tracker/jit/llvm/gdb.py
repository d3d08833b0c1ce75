"""Names of machine code for GDB, with the setting `gdb`.

GDB stops at `__jit_debug_register_code` and reads an ELF file from the memory that
`__jit_debug_descriptor` names (GDB's manual: JIT Interface). llvmlite's library has both, but does
not export them: they are found in its symbol table, as GDB finds them. The ELF file of a module has
the names and addresses of its functions, and no code.

Invariant: a file is registered as long as its module lives; the next registration removes those of
dead modules.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import struct
import weakref
from collections.abc import Mapping
from typing import Any

from tracker.errors import CompileError
from tracker.jit.llvm.engine import Module
from tracker.jit.llvm.lock import LOCK
from tracker.jit.llvm.perf_map import (
    FUNCTION,
    VARIABLE,
    functions_in_memory,
    name_of,
    symbols_of,
)

_REGISTER, _UNREGISTER = 1, 2
_POINTER = ctypes.c_void_p


class _JitEntry(ctypes.Structure):
    _fields_ = (
        ("next", _POINTER),
        ("previous", _POINTER),
        ("file", _POINTER),
        ("size", ctypes.c_uint64),
    )


class _JitDescriptor(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint32),
        ("action", ctypes.c_uint32),
        ("relevant", _POINTER),
        ("first", _POINTER),
    )


_registered: list[tuple[weakref.ref[Module], _JitEntry, Any]] = []  # newest last


def register(module: Module, function: str, descriptions: Mapping[str, str]) -> None:
    """Tell GDB the functions of a module, which belong to a function of the user's."""
    _interface()  # it may raise
    base, found = functions_in_memory(module)
    names = [(name_of(s.name, function, descriptions), s.offset, s.size) for s in found]
    data = elf_file(base, names)
    buffer = ctypes.create_string_buffer(data, len(data))
    with LOCK:
        for dead in [each for each in _registered if each[0]() is None]:
            _registered.remove(dead)
            _tell(_UNREGISTER, dead[1])
        entry = _JitEntry(file=ctypes.addressof(buffer), size=len(data))
        _registered.append((weakref.ref(module), entry, buffer))
        _tell(_REGISTER, entry)


def _tell(action: int, entry: _JitEntry) -> None:
    """Link the entries again, newest first, and call the function that GDB watches."""
    descriptor, notify = _interface()
    chain = [each for _, each, _ in reversed(_registered)]
    for at, each in enumerate(chain):
        each.next = ctypes.addressof(chain[at + 1]) if at + 1 < len(chain) else None
        each.previous = ctypes.addressof(chain[at - 1]) if at else None
    descriptor.first = ctypes.addressof(chain[0]) if chain else None
    descriptor.version, descriptor.action = 1, action
    descriptor.relevant = ctypes.addressof(entry)
    notify()


@functools.cache
def _interface() -> tuple[_JitDescriptor, Any]:
    """The descriptor in llvmlite's library, and the function."""
    path, base = _loaded_library("libllvmlite")
    found: dict[str, int] = {}
    if path:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for kind in (FUNCTION, VARIABLE):
                found |= {
                    symbol.name: base + symbol.offset
                    for symbol in symbols_of(data, kind)
                    if symbol.name.startswith("__jit_debug_")
                }
    try:
        address, notify = found["__jit_debug_descriptor"], found["__jit_debug_register_code"]
    except KeyError:
        what = "this llvmlite has no symbols that GDB looks for (__jit_debug_register_code)"
        raise CompileError(what, "Use config(gdb=False)", "") from None
    return _JitDescriptor.from_address(address), ctypes.CFUNCTYPE(None)(notify)


def _loaded_library(name: str) -> tuple[str, int]:
    """The path and address of a library of this process; nothing where the system lists none."""
    try:
        with open("/proc/self/maps") as file:
            for line in file:
                path = line.rstrip("\n").partition("/")[2]
                if name in path.rpartition("/")[2]:
                    return f"/{path}", int(line.partition("-")[0], 16)
    except OSError:
        pass
    return "", 0


def elf_file(base: int, functions: list[tuple[str, int, int]]) -> bytes:
    """An ELF file of named functions (name, offset, size) in code at an address."""
    sections = b"\0.text\0.symtab\0.strtab\0"
    names = bytearray(b"\0")
    symbols = bytearray(24)
    for name, offset, size in functions:
        symbols += struct.pack("<IBBHQQ", len(names), 0x10 | FUNCTION, 0, 1, offset, size)
        names += name.encode() + b"\0"
    end = max((offset + size for _, offset, size in functions), default=0)
    texts = bytes(names) + sections
    table, after = 64, 64 + len(symbols)
    headers = after + len(texts) + -(after + len(texts)) % 8
    # name, type, flags, address, offset, size, link, info, alignment, entry size
    rows = [
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (1, 8, 6, base, table, end, 0, 0, 16, 0),  # NOBITS, allocated, executable
        (7, 2, 0, 0, table, len(symbols), 3, 1, 8, 24),
        (15, 3, 0, 0, after, len(names), 0, 0, 1, 0),
        (15, 3, 0, 0, after + len(names), len(sections), 0, 0, 1, 0),
    ]
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, headers, 0, 64, 0, 0, 64, len(rows), 4)
    body = header + bytes(symbols) + texts
    return body.ljust(headers, b"\0") + b"".join(struct.pack("<IIQQQQIIQQ", *row) for row in rows)
