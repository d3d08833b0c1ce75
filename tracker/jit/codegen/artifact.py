"""What a program is lowered to: the texts of its modules, and what these need.

Owns: `LoweredProgram` and `KernelModule`; `serialize` and `deserialize`, the bytes that they are in
a file. They are here, and not where they are made, so that who finds them in a file need not read
the compiler.
"""

from __future__ import annotations

import re
import zlib
from typing import Any

from tracker.ir.graph import Eqn
from tracker.jit.runtime.ufunc_loops import UfuncLoop
from tracker.support.structs import record

# Calls of loops, bodies, BLAS and routines, and writes of whole blocks. A driver without them is
# over soon, and another shape has another one: all is unrolled.
CALL_PATTERN = re.compile(r"\bcall (?:void|i64) @(?!llvm\.(?!mem))")
_ZLIB_LEVEL = 1  # zlib's level
_MAX_TEXT_BYTES = 1 << 28  # bytes of text


@record(frozen=True)
class KernelModule:
    """The text of a module of kernels, their names, and the level at which to compile it; those of
    them that are not to be had from code that was compiled at a lower one."""

    text: str
    exports: tuple[str, ...]
    level: int
    hot_exports: tuple[str, ...]


@record(frozen=True)
class LoweredProgram:
    """The text of the driver, and the level at which to compile it; kernels where these are modules
    of their own.

    `symbols` are the external names (of BLAS) that are needed; `ufunc_loops` the inner loops of
    ufuncs; `scratch` is in bytes; `callbacks` the equations that Python evaluates.
    """

    text: str
    level: int
    kernel_modules: tuple[KernelModule, ...]
    symbols: frozenset[str]
    ufunc_loops: frozenset[UfuncLoop]
    scratch: int
    callbacks: tuple[Eqn, ...] = ()


def serialize(lowered: LoweredProgram) -> tuple[dict[str, Any], bytes]:
    """Facts that JSON can say, and the texts. Of what calls ufuncs there is no such form: which of
    a package's ufuncs a name means is not said in it, nor which function of Python's."""
    assert not (lowered.ufunc_loops or lowered.callbacks)
    texts = [lowered.text, *(each.text for each in lowered.kernel_modules)]
    encoded = [text.encode() for text in texts]
    facts = {
        "level": lowered.level,
        "lengths": [len(text) for text in encoded],
        "loops": [[each.exports, each.level, each.hot_exports] for each in lowered.kernel_modules],
        "symbols": sorted(lowered.symbols),
        "scratch": lowered.scratch,
    }
    return facts, zlib.compress(b"".join(encoded), _ZLIB_LEVEL)


def deserialize(facts: dict[str, Any], data: bytes) -> LoweredProgram:
    """What `serialize` took apart; ValueError where it is not as long as it says."""
    claimed = sum(facts["lengths"])
    if not 0 <= claimed <= _MAX_TEXT_BYTES:
        raise ValueError(f"{claimed} bytes of text")
    whole, texts, at = zlib.decompressobj().decompress(data, claimed + 1), [], 0
    if len(whole) != claimed:
        raise ValueError(f"there are not {claimed} bytes of text")
    for length in facts["lengths"]:
        texts.append(whole[at : at + length].decode())
        at += length
    loops = tuple(
        KernelModule(text, tuple(exports), level, tuple(urgent))
        for text, (exports, level, urgent) in zip(texts[1:], facts["loops"], strict=True)
    )
    symbols = frozenset(facts["symbols"])
    return LoweredProgram(texts[0], facts["level"], loops, symbols, frozenset(), facts["scratch"])
