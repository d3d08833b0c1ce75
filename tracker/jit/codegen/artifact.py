"""The compiled artifact before LLVM: texts of modules, what they need, and its form on disk.

`serialize` and `deserialize` are here, not where artifacts are made, so that a process that finds
one on disk need not import the compiler.
"""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Iterator
from enum import Enum
from typing import Any

from tracker.ir.graph import Eqn
from tracker.jit.runtime.ufunc_loops import UfuncLoop
from tracker.support.structs import field, record

# Calls of kernels, bodies, BLAS and routines, and block writes. A driver without them is fully
# unrolled: it is short, and another shape has another driver.
CALL_PATTERN = re.compile(r"\bcall (?:void|i64) @(?!llvm\.(?!mem))")
BODY = "body0"  # the function of a body in a module of its own
LAPS = "tk.laps"  # the cells of a program that times its steps (`stopwatch.py`)
_LONG_PROGRAM = 250  # lines; optimising takes 30 us for each, quick code 6
_ZLIB_LEVEL = 1  # the fastest
_MAX_TEXT_BYTES = 1 << 28  # bytes of text


class Bodies(Enum):
    """Where the functions of bodies are: in the module of the program, where they can be inlined;
    or those that other programs may have, or have, in modules of their own."""

    INSIDE, APART, KNOWN_APART = range(3)


@record(frozen=True)
class KernelModule:
    """The text of a module of kernels, and their names."""

    text: str
    exports: tuple[str, ...]


@record(frozen=True)
class LoweredProgram:
    """The text of the driver, and kernels in modules of their own.

    symbols: external names (BLAS, runtime); ufunc_loops: inner loops of foreign ufuncs; scratch:
    bytes; callbacks: the equations that Python evaluates; descriptions: what the functions of
    kernels and loops compute, with the user's lines, if other tools want to know; bodies: functions
    that the text calls, each `BODY` of a text that other programs may have, too; operations: how
    many elements a call computes, about (`operation_count`); mark: the fingerprint of a body.
    """

    text: str
    kernel_modules: tuple[KernelModule, ...]
    symbols: frozenset[str]
    ufunc_loops: frozenset[UfuncLoop]
    scratch: int
    callbacks: tuple[Eqn, ...] = ()
    descriptions: dict[str, str] = field(default_factory=dict)
    bodies: dict[str, LoweredProgram] = field(default_factory=dict)
    operations: int = 0
    mark: str | None = None

    @property
    def texts(self) -> list[str]:
        """The texts of all modules, the driver's first."""
        of_bodies = itertools.chain.from_iterable(body.texts for body in self.bodies.values())
        return [self.text, *(module.text for module in self.kernel_modules), *of_bodies]

    @property
    def line_count(self) -> int:
        """The lines of all texts."""
        return sum(text.count("\n") for text in self.texts)

    @property
    def is_long(self) -> bool:
        """Whether optimising takes so long that code is compiled more quickly first."""
        return self.line_count >= _LONG_PROGRAM


def serialize(lowered: LoweredProgram) -> tuple[dict[str, Any], bytes]:
    """A program as facts for JSON and bytes. Programs that call ufuncs or Python functions have no
    such form: a name does not identify these objects in another process."""
    assert not (lowered.ufunc_loops or lowered.callbacks)
    encoded = [text.encode() for text in lowered.texts]
    facts = {"lengths": [len(text) for text in encoded], **_facts(lowered)}
    return facts, zlib.compress(b"".join(encoded), _ZLIB_LEVEL)


def _facts(lowered: LoweredProgram) -> dict[str, Any]:
    return {
        "modules": [each.exports for each in lowered.kernel_modules],
        "symbols": sorted(lowered.symbols),
        "scratch": lowered.scratch,
        "bodies": {name: _facts(body) for name, body in lowered.bodies.items()},
        "operations": lowered.operations,
        "mark": lowered.mark,
    }


def deserialize(facts: dict[str, Any], data: bytes) -> LoweredProgram:
    """The inverse of `serialize`; ValueError if the lengths do not match."""
    claimed = sum(facts["lengths"])
    if not 0 <= claimed <= _MAX_TEXT_BYTES:
        raise ValueError(f"{claimed} bytes of text")
    whole, texts, at = zlib.decompressobj().decompress(data, claimed + 1), [], 0
    if len(whole) != claimed:
        raise ValueError(f"there are not {claimed} bytes of text")
    for length in facts["lengths"]:
        texts.append(whole[at : at + length].decode())
        at += length
    return _program(facts, iter(texts))


def _program(facts: dict[str, Any], texts: Iterator[str]) -> LoweredProgram:
    """The program that `_facts` and `LoweredProgram.texts` are of."""
    return LoweredProgram(
        text=next(texts),
        kernel_modules=tuple(
            [KernelModule(next(texts), tuple(exports)) for exports in facts["modules"]]
        ),
        symbols=frozenset(facts["symbols"]),
        ufunc_loops=frozenset(),
        scratch=facts["scratch"],
        bodies={name: _program(body, texts) for name, body in facts["bodies"].items()},
        operations=facts["operations"],
        mark=facts["mark"],
    )
