"""The program cache: lowered programs on disk, found by the trace.

A process that runs a known function need neither plan it nor write its text. A file is named by a
hash of the trace, its calling layout, and everything else that the text depends on: this package's
source files, processor, NumPy, threads, and BLAS where there may be products. The files are in the
folder of `jit/llvm/object_cache.py`.

Invariants: a program that refers to objects of this process has no file, nor has one that is to be
dumped, checked or named for other tools; a file that does not validate counts as missing.
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
from tracker.jit.codegen.artifact import Bodies, LoweredProgram, deserialize, serialize
from tracker.jit.llvm import engine, object_cache
from tracker.jit.pipeline.program import Program
from tracker.jit.runtime import allocator, blas, interrupt_checks, thread_pool
from tracker.jit.schedule.shared_plans import note_known
from tracker.support.deferred_signals import SIGNALS_DEFERRED

_MAY_CALL_BLAS = (Contract, Routine, Expand)  # kinds that may call BLAS or LAPACK


def load_or_lower(program: Program, bodies: Bodies) -> LoweredProgram | None:
    """The text of a program, cached or new; None if machine code cannot run all of it."""
    name = _file_name(program, bodies)
    cached = None if name is None else object_cache.read(name, deserialize)
    if cached is not None:
        for body in cached.bodies.values():
            note_known(body.mark)
        return cached
    if not program.is_whole:
        return None
    lowered = program.lower(bodies)
    if name is not None and _is_cacheable(program, lowered):
        object_cache.put(name, *serialize(lowered))
    return lowered


def _is_cacheable(program: Program, lowered: LoweredProgram) -> bool:
    """Whether a text refers to nothing but what its file's name covers."""
    ours = lowered.symbols <= {*allocator.NAMES, thread_pool.NAME, interrupt_checks.NAME}
    return not (lowered.ufunc_loops or lowered.callbacks) and (
        ours or _may_call_blas(program.traced)
    )


def _file_name(program: Program, bodies: Bodies) -> str | None:
    """The name of a program's file; None if it has none."""
    settings = current()
    is_shown = settings.dump or settings.perf or settings.gdb
    if object_cache.directory() is None or settings.check or is_shown:
        return None
    mark, source = fingerprint(program.traced), source_fingerprint()
    if mark is None or source is None:
        return None
    called = (bodies.name, _blas_fingerprint(program.traced))
    parts = (mark, repr(program.layout), *_environment(), source, *called)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest() + ".program"


def _environment() -> tuple[str, ...]:
    return (engine.host_description(), sys.version, np.__version__, str(thread_pool.thread_count()))


def _blas_fingerprint(function: Function) -> str:
    """What texts depend on of BLAS; empty for a program without products."""
    if not _may_call_blas(function):
        return ""
    library = blas.find()
    return "none" if library is None else f"{library.int_bits} {sorted(library.symbols)}"


def _may_call_blas(function: Function) -> bool:
    return any(isinstance(eqn.op.lower, _MAY_CALL_BLAS) for eqn in function.eqns) or any(
        map(_may_call_blas, function.functions.values())
    )


@functools.cache
def source_fingerprint() -> str | None:
    """A hash of the sizes and times of this package's files; None if there are no files."""
    root = Path(errors.__file__).parent
    with SIGNALS_DEFERRED:
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
