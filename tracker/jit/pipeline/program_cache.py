"""What a program was lowered to, found again by the program itself: another process that runs the
same function need neither plan it nor write its text.

Owns: `lowered`, and the files of programs in the cache's folder (`jit/llvm/object_cache.py`). A
file is named by a hash of the trace, of how its values come and go, and of all else that the text
depends on: this package's source files, the processor, NumPy, threads, BLAS where there may be
products.

Invariants: what cannot be named in another process has no file, nor has a program that is to be
shown or checked step by step; a file that does not check out is as good as none.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tracker import errors
from tracker.config import current
from tracker.ir.fingerprint import fingerprint
from tracker.ir.graph import Function
from tracker.ir.lowering import Contract, Expand, Routine
from tracker.jit.codegen.artifact import Lowered, packed, unpacked
from tracker.jit.llvm import engine, object_cache
from tracker.jit.llvm.signals import UNDISTURBED
from tracker.jit.pipeline.program import Program
from tracker.jit.runtime import allocator, blas, interrupt_checks, thread_pool

_PRODUCTS = (Contract, Routine, Expand)  # what may call BLAS or LAPACK, itself or written out


def lowered(program: Program) -> Lowered | None:
    """The text of a program; None where machine code cannot do all of it."""
    name = _name(program)
    found = None if name is None else _known(name)
    if found is not None:
        return found
    if not program.is_whole:
        return None
    made = program.lowered
    if name is not None and _is_nameable(program, made):
        object_cache.put(name, *packed(made))
    return made


def _is_nameable(program: Program, made: Lowered) -> bool:
    """Whether a text refers to nothing but what its file's name covers."""
    ours = made.symbols <= {*allocator.NAMES, thread_pool.NAME, interrupt_checks.NAME}
    return not (made.borrowed or made.callbacks) and (ours or _may_multiply(program.traced))


def _known(name: str) -> Lowered | None:
    return object_cache.read(name, unpacked)


def _name(program: Program) -> str | None:
    """The name of a program's file; None if it has none."""
    settings = current()
    if object_cache.directory() is None or settings.check or settings.dump:
        return None
    mark, source = fingerprint(program.traced), _source()
    if mark is None or source is None:
        return None
    parts = (mark, repr(program.form), *_surroundings(), source, _library(program.traced))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest() + ".program"


def _surroundings() -> tuple[str, ...]:
    return (engine.host(), sys.version, np.__version__, str(thread_pool.threads()))


def _library(function: Function) -> str:
    """What texts know of BLAS; nothing for a program that has no use for it."""
    if not _may_multiply(function):
        return ""
    found = blas.find()
    return "none" if found is None else f"{found.int_bits} {sorted(found.symbols)}"


def _may_multiply(function: Function) -> bool:
    return any(isinstance(eqn.op.lower, _PRODUCTS) for eqn in function.eqns) or any(
        map(_may_multiply, function.functions.values())
    )


@functools.cache
def _source() -> str | None:
    """What this package's files are, by their sizes and times; None if they are no files."""
    root = Path(errors.__file__).parent
    with UNDISTURBED:
        try:
            facts = sorted(_files(str(root), ""))
        except OSError:
            return None
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _files(folder: str, inside: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _files(entry.path, f"{inside}{entry.name}/")
            elif entry.name.endswith(".py"):
                known = entry.stat()
                yield inside + entry.name, known.st_size, known.st_mtime_ns
