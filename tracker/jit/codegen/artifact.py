"""What a program is lowered to: the texts of its modules, and what these need.

Owns: `Lowered` and `Loops`; `packed` and `unpacked`, the bytes that they are in a file. They are
here, and not where they are made, so that who finds them in a file need not read the compiler.
"""

from __future__ import annotations

import re
import zlib
from typing import Any

from tracker.ir.graph import Eqn
from tracker.jit.runtime.ufunc_loops import Loop
from tracker.support.structs import record

# Calls of loops, bodies, BLAS and routines, and writes of whole blocks. A driver without them is
# over soon, and another shape has another one: all is unrolled.
CALLS = re.compile(r"\bcall (?:void|i64) @(?!llvm\.(?!mem))")
_QUICKLY = 1  # zlib's level
_LONGEST = 1 << 28  # bytes of text


@record(frozen=True)
class Loops:
    """The text of a module of kernels, their names, and the level at which to compile it; those of
    them that are not to be had from code that was compiled at a lower one."""

    text: str
    exports: tuple[str, ...]
    level: int
    urgent: tuple[str, ...]


@record(frozen=True)
class Lowered:
    """The text of the driver, and the level at which to compile it; kernels where these are modules
    of their own.

    `symbols` are the external names (of BLAS) that are needed; `borrowed` the inner loops of
    ufuncs; `scratch` is in bytes; `callbacks` the equations that Python evaluates.
    """

    text: str
    level: int
    loops: tuple[Loops, ...]
    symbols: frozenset[str]
    borrowed: frozenset[Loop]
    scratch: int
    callbacks: tuple[Eqn, ...] = ()


def packed(lowered: Lowered) -> tuple[dict[str, Any], bytes]:
    """Facts that JSON can say, and the texts. Of what calls ufuncs there is no such form: which of
    a package's ufuncs a name means is not said in it, nor which function of Python's."""
    assert not (lowered.borrowed or lowered.callbacks)
    texts = [lowered.text, *(each.text for each in lowered.loops)]
    encoded = [text.encode() for text in texts]
    facts = {
        "level": lowered.level,
        "lengths": [len(text) for text in encoded],
        "loops": [[each.exports, each.level, each.urgent] for each in lowered.loops],
        "symbols": sorted(lowered.symbols),
        "scratch": lowered.scratch,
    }
    return facts, zlib.compress(b"".join(encoded), _QUICKLY)


def unpacked(facts: dict[str, Any], data: bytes) -> Lowered:
    """What `packed` took apart; ValueError where it is not as long as it says."""
    claimed = sum(facts["lengths"])
    if not 0 <= claimed <= _LONGEST:
        raise ValueError(f"{claimed} bytes of text")
    whole, texts, at = zlib.decompressobj().decompress(data, claimed + 1), [], 0
    if len(whole) != claimed:
        raise ValueError(f"there are not {claimed} bytes of text")
    for length in facts["lengths"]:
        texts.append(whole[at : at + length].decode())
        at += length
    loops = tuple(
        Loops(text, tuple(exports), level, tuple(urgent))
        for text, (exports, level, urgent) in zip(texts[1:], facts["loops"], strict=True)
    )
    symbols = frozenset(facts["symbols"])
    return Lowered(texts[0], facts["level"], loops, symbols, frozenset(), facts["scratch"])
