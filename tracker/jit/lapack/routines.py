"""The table of routines: their text, what they need of LAPACK, how much workspace they take.

Owns: `ROUTINES`, `routine_address` (compiled when first needed, once for the process), `workspace`,
`why_no_routine`. A routine is `i64 tk.<letter><name>(operands..., out, work, sizes...)`, for
matrices of the numbers that BLAS has the letter for; it gives 0, or another number where NumPy
would raise.

Invariant: LAPACK is asked for the workspace it wants, so that it blocks as it does for NumPy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from tracker.ir.graph import Eqn
from tracker.ir.lowering import Routine
from tracker.jit.lapack import cholesky, eigen_svd, expm, lu, packed
from tracker.jit.lapack import workspace as queries
from tracker.jit.lapack.code import Code, Kind
from tracker.jit.llvm import object_cache
from tracker.jit.llvm.lock import once
from tracker.jit.runtime import blas
from tracker.support.structs import record

_LETTERS = {np.dtype(np.float64): "d", np.dtype(np.complex128): "z"}
Sizes = tuple[int, ...]


@record(frozen=True)
class Entry:
    """A routine: the writer of its text; the functions of LAPACK, of BLAS and of our own that it
    calls (two names: of real and of complex matrices); how its own scratch follows from its sizes
    (elements of matrices, and real numbers); how to ask LAPACK for more."""

    code: Callable[[Kind], Code]
    lapack: tuple[str, ...] = ()
    blas: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()
    scratch: Callable[..., tuple[int, int]] | None = None
    query: Callable[..., queries.Own] | None = None


_TRIANGLE = ("triangle",)

ROUTINES: dict[str, Entry] = {
    "triangle": Entry(lu.triangle, blas=("trsv", "trsm")),
    "gram": Entry(cholesky.gram, blas=("syrk",)),
    "cholesky": Entry(cholesky.cholesky, ("potrf",)),
    "cholesky_pull": Entry(
        cholesky.cholesky_pull, blas=("trsm", "gemm"), scratch=lambda n: (min(n, 32) ** 2, 0)
    ),
    "lu": Entry(lu.lu, ("getrf",)),
    "solve": Entry(lu.solve, ours=_TRIANGLE),
    "inv": Entry(lu.inv, ours=_TRIANGLE),
    "solve_triangular": Entry(lu.solve_triangular, ours=_TRIANGLE),
    "det": Entry(lu.det),
    "slogdet": Entry(lu.slogdet),
    "eigh": Entry(
        eigen_svd.eigh,
        ("syevd heevd",),
        scratch=lambda n, lower: (n * n, n),
        query=queries.eigenvectors,
    ),
    "eigvalsh": Entry(
        eigen_svd.eigvalsh,
        ("syevd heevd",),
        scratch=lambda n, lower: (n * n, 0),
        query=queries.eigenvalues,
    ),
    "eig": Entry(
        eigen_svd.eig, ("geev",), scratch=lambda n: (2 * n * n + 2 * n, 0), query=queries.general
    ),
    "svd": Entry(
        eigen_svd.svd,
        ("gesdd",),
        scratch=lambda m, n, full: (
            m * n + (m * m + n * n if full else (m + n) * min(m, n)),
            min(m, n),
        ),
        query=queries.singular,
    ),
    "svdvals": Entry(
        eigen_svd.svdvals, ("gesdd",), scratch=lambda m, n: (m * n, 0), query=queries.singular
    ),
    "pinv": Entry(
        eigen_svd.pinv,
        ("gesdd",),
        ("gemm",),
        scratch=lambda m, n: (m * n + (m + n) * min(m, n), min(m, n)),
        query=functools.partial(queries.singular, full=0),
    ),
    "qr": Entry(
        eigen_svd.qr,
        ("geqrf", "orgqr ungqr"),
        scratch=lambda m, n, k: (m * max(n, k) + min(m, n), 0),
        query=queries.orthogonal,
    ),
    "lstsq": Entry(
        eigen_svd.lstsq,
        ("gelsd",),
        scratch=lambda m, n, k: (m * n + max(m, n) * k, min(m, n)),
        query=queries.least_squares,
    ),
    "lu_factor": Entry(packed.lu_factor, ("getrf",), scratch=lambda m, n: (m * n, min(m, n))),
    "permutation": Entry(packed.permutation),
    "column_order": Entry(
        packed.column_order,
        ("geqp3",),
        scratch=lambda m, n: (m * n + min(m, n), n),
        query=queries.column_order,
    ),
    "solve_banded": Entry(
        packed.solve_banded,
        ("gbsv",),
        scratch=lambda n, k, lower, upper: ((2 * lower + upper + 1 + k) * n, n),
    ),
    "expm": Entry(expm.expm, blas=("gemm",), ours=("lu", "solve"), scratch=expm.room),
}


def kind_of(eqn: Eqn) -> Kind:
    """Of what numbers the matrices of an equation are."""
    found = blas.find()
    assert found is not None
    dtype = np.result_type(*(atom.type.dtype for atom in eqn.operands))
    return Kind(_LETTERS[dtype], f"i{found.int_bits}")


def workspace(name: str, kind: Kind, sizes: Sizes) -> tuple[Sizes, int]:
    """(sizes to be handed on to LAPACK, words of scratch)."""
    entry = ROUTINES[name]
    elements, reals = (0, 0) if entry.scratch is None else entry.scratch(*sizes)
    if entry.query is None:
        return (), elements * kind.words + reals
    own = entry.query(kind, *sizes)
    words = (elements + own.numbers) * kind.words + reals + own.reals + own.integers
    return tuple(own), words


def factored(n: int, kind: Kind) -> tuple[int, int]:
    """How many words a factored matrix of n rows takes: its factors, and what goes with them (see
    `lu.py`)."""
    return n * n * kind.words, 2 * n + 2


def routine_address(symbol: str) -> int | None:
    """The address of a routine by its symbol; None if there is no such routine."""
    letter, name = symbol.removeprefix("tk.")[:1], symbol.removeprefix("tk.")[1:]
    return _compiled(name, letter) if letter in "sdcz" and name in ROUTINES else None


@once
def _compiled(name: str, letter: str) -> int:
    found = blas.find()
    assert found is not None
    kind = Kind(letter, f"i{found.int_bits}")
    code = ROUTINES[name].code(kind)
    symbols = {call: routine_address(call) or found.symbols[call] for call in _calls(name, kind)}
    text = "\n".join([*sorted(code.declared), code.text()])
    module = object_cache.compile_or_load(text, symbols=symbols)
    _MODULES.append(module)
    return module.address(kind.symbol(name))


_MODULES: list[object] = []  # kept for as long as there is code that calls them


def _calls(name: str, kind: Kind) -> list[str]:
    """The symbols that a routine's text calls."""
    entry = ROUTINES[name]
    lapack = (names.split()[-1 if kind.is_complex else 0] for names in entry.lapack)
    return [
        *map(kind.lapack, lapack),
        *map(kind.blas, entry.blas),
        *map(kind.symbol, entry.ours),
    ]


def why_no_routine(eqn: Eqn, lower: Routine) -> str:
    """Why a routine cannot be called for this equation; empty if it can."""
    dtypes = {atom.type.dtype for atom in (*eqn.operands, eqn.out)}
    if not dtypes <= set(_LETTERS):
        return f"{eqn.op.name} of {', '.join(sorted(map(str, dtypes - set(_LETTERS))))}"
    if any(atom.type.size == 0 for atom in (*eqn.operands, eqn.out)):
        return f"{eqn.op.name} of nothing"
    if blas.find() is None:
        return f"no LAPACK: {blas.why_missing()}"
    kind = kind_of(eqn)
    return (missing("lu", kind) if lower.factor else "") or missing(lower.name, kind)


def missing(name: str, kind: Kind) -> str:
    """What the library lacks of what a routine needs."""
    found = blas.find()
    assert found is not None
    lost = sorted(_needs(name, kind) - set(found.symbols))
    return f"no {lost[0]} in {found.path}" if lost else ""


def _needs(name: str, kind: Kind) -> set[str]:
    """What a routine needs of the library, by itself or through others."""
    ours = ROUTINES[name].ours
    own = set(_calls(name, kind)) - set(map(kind.symbol, ours))
    return own.union(*(_needs(other, kind) for other in ours))
