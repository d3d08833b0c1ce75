"""The table of routines: their text, what they need of LAPACK, how much workspace they take.

Owns: `ROUTINES`, `address` (compiled when first needed, once for the process), `workspace`,
`why_not`. A routine is `i64 tk.<name>(operands..., out, work, sizes...)`; it gives 0, or another
number where NumPy would raise.

Invariant: LAPACK is asked for the workspace it wants, so that it blocks as it does for NumPy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracker.ir.graph import Eqn
from tracker.ir.op import Routine
from tracker.jit import blas, cache, native
from tracker.jit.dense import factors, spectra
from tracker.jit.dense.code import Code

_FLOAT64 = np.dtype(np.float64)
Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A routine: the writer of its text; the functions of LAPACK and BLAS, and the routines, that
    it calls; how its own scratch follows from its sizes; how to ask LAPACK for more."""

    code: Callable[[str], Code]
    calls: tuple[str, ...] = ()
    scratch: Callable[..., int] | None = None
    query: Callable[..., tuple[int, int]] | None = None


def _least_query(name: str, letters: str, sizes: Sizes, integers: int) -> tuple[int, int]:
    """What LAPACK wants: (numbers, integers). Between letters and integers on the one hand and
    info on the other stand pointers; `sizes` says how each argument is to be read."""
    found = blas.find()
    assert found is not None
    kind = np.dtype(f"i{found.int_bits // 8}")
    boxes: list[Any] = [np.array([ord(letter)], np.uint8) for letter in letters]
    boxes += [np.array([n], kind) if n >= 0 else np.zeros(2) for n in sizes]
    work, lwork = np.zeros(2), np.array([-1], kind)
    iwork, liwork = np.zeros(2, kind), np.array([-1], kind)
    info = np.zeros(1, kind)
    tail = {0: [work, lwork], 1: [work, lwork, iwork], 2: [work, lwork, iwork, liwork]}[integers]
    boxes += [*tail, info]
    kinds = "p" * len(boxes) + "q" * len(letters)
    pointers = [box.ctypes.data for box in boxes]
    native.call_c(found.symbols[name], kinds, *pointers, *[1] * len(letters))
    return int(work[0]), max(int(iwork[0]), 1)


_P = -1  # in a query: a pointer to numbers, not an integer


def _eigen_query(letter: str) -> Callable[..., tuple[int, int]]:
    def query(n: int, lower: int) -> tuple[int, int]:
        return _least_query("dsyevd_", letter + "LU"[not lower], (n, _P, n, _P), 2)

    return query


def _svd_query(m: int, n: int, full: int = -1) -> tuple[int, int]:
    k = min(m, n)
    letter, rows = ("N", 1) if full < 0 else ("S", k) if not full else ("A", n)
    lead = m if full >= 0 else 1
    numbers, _ = _least_query("dgesdd_", letter, (m, n, _P, m, _P, _P, lead, _P, rows), 1)
    return numbers, 8 * k


def _qr_query(m: int, n: int, k: int) -> tuple[int, int]:
    first, _ = _least_query("dgeqrf_", "", (m, n, _P, m, _P), 0)
    second, _ = _least_query("dorgqr_", "", (m, k, min(m, n), _P, m, _P), 0)
    return max(first, second), 0


def _lstsq_query(m: int, n: int, k: int) -> tuple[int, int]:
    high = max(m, n)
    return _least_query("dgelsd_", "", (m, n, k, _P, m, _P, high, _P, _P, 0), 1)


_TRIANGLE = ("tk.triangle",)

ROUTINES: dict[str, Entry] = {
    "triangle": Entry(factors.triangle, ("cblas_dtrsv", "cblas_dtrsm")),
    "gram": Entry(factors.gram, ("cblas_dsyrk",)),
    "cholesky": Entry(factors.cholesky, ("dpotrf_",)),
    "cholesky_pull": Entry(
        factors.cholesky_pull, ("cblas_dtrsm", "cblas_dgemm"), lambda n: min(n, 32) ** 2
    ),
    "lu": Entry(factors.lu, ("dgetrf_",)),
    "solve": Entry(factors.solve, _TRIANGLE),
    "inv": Entry(factors.inv, _TRIANGLE),
    "solve_triangular": Entry(factors.solve_triangular, _TRIANGLE),
    "det": Entry(factors.det),
    "slogdet": Entry(factors.slogdet),
    "eigh": Entry(spectra.eigh, ("dsyevd_",), lambda n, _: n * n, _eigen_query("V")),
    "eigvalsh": Entry(spectra.eigvalsh, ("dsyevd_",), lambda n, _: n * n, _eigen_query("N")),
    "svd": Entry(
        spectra.svd,
        ("dgesdd_",),
        lambda m, n, full: m * n + (m * m + n * n if full else (m + n) * min(m, n)),
        _svd_query,
    ),
    "svdvals": Entry(spectra.svdvals, ("dgesdd_",), lambda m, n: m * n, _svd_query),
    "pinv": Entry(
        spectra.pinv,
        ("dgesdd_", "cblas_dgemm"),
        lambda m, n: m * n + (m + n + 1) * min(m, n),
        lambda m, n: _svd_query(m, n, 0),
    ),
    "qr": Entry(
        spectra.qr,
        ("dgeqrf_", "dorgqr_"),
        lambda m, n, k: m * max(n, k) + min(m, n),
        _qr_query,
    ),
    "lstsq": Entry(
        spectra.lstsq,
        ("dgelsd_",),
        lambda m, n, k: m * n + max(m, n) * k + min(m, n),
        _lstsq_query,
    ),
}


def workspace(name: str, sizes: Sizes) -> tuple[Sizes, int]:
    """(sizes to be handed on to LAPACK, float64 numbers of scratch)."""
    entry = ROUTINES[name]
    numbers = 0 if entry.scratch is None else entry.scratch(*sizes)
    if entry.query is None:
        return (), numbers
    own = entry.query(*sizes)
    return own, numbers + sum(own)


def factored(n: int) -> int:
    """How many numbers a factored matrix of n rows takes (see `factors.py`)."""
    return n * n + 2 * n + 2


def symbol(name: str) -> str:
    return f"tk.{name}"


def address(symbol: str) -> int | None:
    """The address of a routine by its symbol; None if there is no such routine."""
    name = symbol.removeprefix("tk.")
    return _compiled(name) if name in ROUTINES else None


@functools.cache
def _compiled(name: str) -> int:
    entry = ROUTINES[name]
    found = blas.find()
    assert found is not None
    code = entry.code(f"i{found.int_bits}")
    symbols = {call: address(call) or found.symbols[call] for call in entry.calls}
    text = "\n".join([*sorted(code.declared), code.text()])
    module = cache.compile_or_load(text, symbols=symbols, level=2)
    _MODULES.append(module)
    return module.address(symbol(name))


_MODULES: list[object] = []  # kept for as long as there is code that calls them


def why_not(eqn: Eqn, lower: Routine) -> str:
    """Why a routine cannot be called for this equation; empty if it can."""
    if any(atom.type.dtype != _FLOAT64 for atom in (*eqn.operands, eqn.out)):
        return f"{eqn.op.name} of dtypes other than float64"
    if any(atom.type.size == 0 for atom in (*eqn.operands, eqn.out)):
        return f"{eqn.op.name} of nothing"
    if any(atom.type.ndim == 1 for atom in eqn.operands):
        return f"{eqn.op.name} with a number for each matrix of a stack"
    if blas.find() is None:
        return f"no LAPACK: {blas.why_missing()}"
    return (missing("lu") if lower.factor else "") or missing(lower.name)


def missing(name: str) -> str:
    """What the library lacks of what a routine needs."""
    found = blas.find()
    assert found is not None
    lost = sorted(_calls(name) - set(found.symbols))
    return f"no {lost[0]} in {found.path}" if lost else ""


def _calls(name: str) -> set[str]:
    """What a routine needs of the library, by itself or through others."""
    own = ROUTINES[name].calls
    nested = [_calls(call.removeprefix("tk.")) for call in own if call.startswith("tk.")]
    return {call for call in own if not call.startswith("tk.")}.union(*nested)
