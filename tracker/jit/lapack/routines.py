"""The table of routines: their text, the library functions they call, their workspace.

A routine is `i64 tk.<letter><name>(operands..., out, work, sizes...)`, for matrices of the numbers
that BLAS has the letter for; it returns 0, or another number where NumPy would raise. It is
compiled when it is first needed, once for a process.

Invariant: LAPACK's optimal workspace is queried, so that it blocks as it does for NumPy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from tracker.ir.graph import Eqn
from tracker.ir.lowering import Routine
from tracker.jit.lapack import cholesky, eigen_svd, expm, lu, packed
from tracker.jit.lapack import workspace_queries as queries
from tracker.jit.lapack.routine_writer import MatrixKind, RoutineWriter
from tracker.jit.llvm import object_cache
from tracker.jit.llvm.lock import locked_cache
from tracker.jit.runtime import blas
from tracker.support.structs import record

_LETTERS = {np.dtype(np.float64): "d", np.dtype(np.complex128): "z"}
Sizes = tuple[int, ...]


@record(frozen=True)
class RoutineSpec:
    """A routine: the function that writes its text; the functions of LAPACK, of BLAS and of our own
    that it calls (two names: of real and of complex matrices); its scratch by its sizes (elements
    of matrices, and real numbers); the query for LAPACK's workspace."""

    write: Callable[[MatrixKind], RoutineWriter]
    lapack: tuple[str, ...] = ()
    blas: tuple[str, ...] = ()
    own_routines: tuple[str, ...] = ()
    scratch: Callable[..., tuple[int, int]] | None = None
    query: Callable[..., queries.LapackWorkspace] | None = None


_TRIANGLE = ("triangle",)

ROUTINES: dict[str, RoutineSpec] = {
    "triangle": RoutineSpec(lu.triangle, blas=("trsv", "trsm")),
    "gram": RoutineSpec(cholesky.gram, blas=("syrk",)),
    "cholesky": RoutineSpec(cholesky.cholesky, ("potrf",)),
    "cholesky_pull": RoutineSpec(
        cholesky.cholesky_pullback, blas=("trsm", "gemm"), scratch=lambda n: (min(n, 32) ** 2, 0)
    ),
    "lu": RoutineSpec(lu.lu, ("getrf",)),
    "solve": RoutineSpec(lu.solve, own_routines=_TRIANGLE),
    "inv": RoutineSpec(lu.inv, own_routines=_TRIANGLE),
    "solve_triangular": RoutineSpec(lu.solve_triangular, own_routines=_TRIANGLE),
    "det": RoutineSpec(lu.det),
    "slogdet": RoutineSpec(lu.slogdet),
    "eigh": RoutineSpec(
        eigen_svd.eigh,
        ("syevd heevd",),
        scratch=lambda n, lower: (n * n, n),
        query=functools.partial(queries.eigenvalues, job="V"),
    ),
    "eigvalsh": RoutineSpec(
        eigen_svd.eigvalsh,
        ("syevd heevd",),
        scratch=lambda n, lower: (n * n, 0),
        query=queries.eigenvalues,
    ),
    "eig": RoutineSpec(
        eigen_svd.eig,
        ("geev",),
        scratch=lambda n: (2 * n * n + 2 * n, 0),
        query=queries.general_eigenvectors,
    ),
    "svd": RoutineSpec(
        eigen_svd.svd,
        ("gesdd",),
        scratch=lambda m, n, full: (
            m * n + (m * m + n * n if full else (m + n) * min(m, n)),
            min(m, n),
        ),
        query=queries.singular_values,
    ),
    "svdvals": RoutineSpec(
        eigen_svd.svdvals,
        ("gesdd",),
        scratch=lambda m, n: (m * n, 0),
        query=queries.singular_values,
    ),
    "pinv": RoutineSpec(
        eigen_svd.pinv,
        ("gesdd",),
        ("gemm",),
        scratch=lambda m, n: (m * n + (m + n) * min(m, n), min(m, n)),
        query=functools.partial(queries.singular_values, full=0),
    ),
    "qr": RoutineSpec(
        eigen_svd.qr,
        ("geqrf", "orgqr ungqr"),
        scratch=lambda m, n, k: (m * max(n, k) + min(m, n), 0),
        query=queries.qr_factors,
    ),
    "lstsq": RoutineSpec(
        eigen_svd.lstsq,
        ("gelsd",),
        scratch=lambda m, n, k: (m * n + max(m, n) * k, min(m, n)),
        query=queries.least_squares,
    ),
    "lu_factor": RoutineSpec(packed.lu_factor, ("getrf",), scratch=lambda m, n: (m * n, min(m, n))),
    "permutation": RoutineSpec(packed.permutation),
    "column_order": RoutineSpec(
        packed.column_order,
        ("geqp3",),
        scratch=lambda m, n: (m * n + min(m, n), n),
        query=queries.column_order,
    ),
    "solve_banded": RoutineSpec(
        packed.solve_banded,
        ("gbsv",),
        scratch=lambda n, k, lower, upper: ((2 * lower + upper + 1 + k) * n, n),
    ),
    "expm": RoutineSpec(
        expm.expm, blas=("gemm",), own_routines=("lu", "solve"), scratch=expm.scratch_size
    ),
}


def matrix_kind(letter: str) -> MatrixKind:
    """The kind of matrices of these numbers for the library of this process."""
    return MatrixKind(letter, f"i{blas.library().int_bits}")


def kind_of(eqn: Eqn) -> MatrixKind:
    """The kind of an equation's matrices."""
    return matrix_kind(_LETTERS[np.result_type(*(atom.type.dtype for atom in eqn.operands))])


def workspace_size(name: str, kind: MatrixKind, sizes: Sizes) -> tuple[Sizes, int]:
    """(sizes to pass on to LAPACK, words of scratch)."""
    entry = ROUTINES[name]
    elements, reals = (0, 0) if entry.scratch is None else entry.scratch(*sizes)
    if entry.query is None:
        return (), elements * kind.words_per_element + reals
    own = entry.query(kind, *sizes)
    words = (elements + own.numbers) * kind.words_per_element + reals + own.reals + own.integers
    return tuple(own), words


def factored_words(n: int, kind: MatrixKind) -> tuple[int, int]:
    """Words of a factored matrix of n rows: its factors, and the rest (see `lu.py`)."""
    return n * n * kind.words_per_element, 2 * n + 2


def routine_address(symbol: str, level: int) -> int | None:
    """The address of a routine by its symbol, compiled at a level; None if there is no such
    routine."""
    letter, name = _letter_and_name(symbol)
    if letter not in "sdcz" or name not in ROUTINES:
        return None
    return _compiled_routine(name, letter, level)


def _letter_and_name(symbol: str) -> tuple[str, str]:
    both = symbol.removeprefix("tk.")
    return both[:1], both[1:]


@locked_cache
def _compiled_routine(name: str, letter: str, level: int) -> int:
    library, kind = blas.library(), matrix_kind(letter)
    symbols = {
        call: routine_address(call, level) or library.symbols[call]
        for call in _called_symbols(name, kind)
    }
    text = _routine_text(name, kind)
    module = object_cache.compile_or_load(text, level=level, symbols=symbols)
    _MODULES.append(module)
    return module.address(kind.symbol(name))


_MODULES: list[object] = []  # never freed: other code calls them


def _routine_text(name: str, kind: MatrixKind) -> str:
    code = ROUTINES[name].write(kind)
    return "\n".join([*sorted(code.declared), code.text()])


def routine_texts(symbol: str, integer_type: str) -> dict[str, str]:
    """The texts of a routine and of those that it calls, by symbol, for a library with integers of
    this type; empty if there is no such routine."""
    letter, name = _letter_and_name(symbol)
    if letter not in "dz" or name not in ROUTINES:
        return {}
    kind = MatrixKind(letter, integer_type)
    texts = {symbol: _routine_text(name, kind)}
    for other in ROUTINES[name].own_routines:
        texts |= routine_texts(kind.symbol(other), integer_type)
    return texts


def _called_symbols(name: str, kind: MatrixKind) -> list[str]:
    """The symbols that a routine's text calls."""
    entry = ROUTINES[name]
    lapack = (names.split()[-1 if kind.is_complex else 0] for names in entry.lapack)
    return [
        *map(kind.lapack, lapack),
        *map(kind.blas, entry.blas),
        *map(kind.symbol, entry.own_routines),
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
    return (missing_symbol("lu", kind) if lower.takes_factored else "") or missing_symbol(
        lower.name, kind
    )


def missing_symbol(name: str, kind: MatrixKind) -> str:
    """A function that a routine calls and the library lacks; empty if there is none."""
    library = blas.library()
    missing = sorted(_library_symbols(name, kind) - set(library.symbols))
    return f"no {missing[0]} in {library.path}" if missing else ""


def _library_symbols(name: str, kind: MatrixKind) -> set[str]:
    """The library functions that a routine calls, by itself or through other routines."""
    ours = ROUTINES[name].own_routines
    own = set(_called_symbols(name, kind)) - set(map(kind.symbol, ours))
    return own.union(*(_library_symbols(other, kind) for other in ours))
