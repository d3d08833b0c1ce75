"""The instructions of a code object.

`dis` takes four times as long, because it finds lines and jump targets, too.
"""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Container
from typing import Any, NamedTuple

_FLAG_BITS = {"LOAD_GLOBAL": 1}  # of the argument, after the index of the name
if sys.version_info >= (3, 12):
    _FLAG_BITS |= {"LOAD_ATTR": 1, "LOAD_SUPER_ATTR": 2}
_NAME_SHIFTS = {code: _FLAG_BITS.get(dis.opname[code], 0) for code in dis.hasname}
_CONSTANT_OPCODES, _CELL_OPCODES = frozenset(dis.hasconst), frozenset(dis.hasfree)
_OPCODES = frozenset(range(256)) - {dis.opmap["CACHE"], dis.EXTENDED_ARG}


class Instruction(NamedTuple):
    """An instruction; `argval` is the name or constant that `arg` stands for, if any."""

    opcode: int
    opname: str
    arg: int
    argval: Any


def instructions(code: types.CodeType, only: Container[int] = _OPCODES) -> list[Instruction]:
    """The instructions, maybe those with some opcodes only; without caches and extensions of
    arguments."""
    found: list[Instruction] = []
    raw, high = code.co_code, 0
    for opcode, low in zip(raw[::2], raw[1::2], strict=True):
        arg, value = high | low, None
        high = arg << 8 if opcode == dis.EXTENDED_ARG else 0
        if opcode not in only:
            continue
        if opcode in _NAME_SHIFTS:
            value = code.co_names[arg >> _NAME_SHIFTS[opcode]]
        elif opcode in _CONSTANT_OPCODES:
            value = code.co_consts[arg]
        elif opcode in _CELL_OPCODES:
            value = code._varname_from_oparg(arg)  # type: ignore[attr-defined]
        found.append(Instruction(opcode, dis.opname[opcode], arg, value))
    return found
