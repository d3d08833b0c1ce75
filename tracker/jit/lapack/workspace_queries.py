"""LAPACK's optimal workspace, by LAPACK's own queries, so that it blocks as for NumPy.

A query for each family of routines: (kind, *sizes) -> LapackWorkspace.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tracker.jit.lapack.routine_writer import MatrixKind
from tracker.jit.runtime import blas, c_symbols


class LapackWorkspace(NamedTuple):
    """LAPACK's own workspace: numbers of the matrix's kind, real numbers, integers."""

    numbers: int
    reals: int = 0
    integers: int = 0


_POINTER = -1  # in a query: a pointer to numbers, not an integer


def _query(
    kind: MatrixKind, name: str, letters: str, sizes: tuple[int, ...], tail: str
) -> LapackWorkspace:
    """The workspace of a routine. Its arguments are letters, then `sizes`, then `tail`: of numbers
    (n), real numbers (r) and integers (i) the workspace, or (capital) the workspace and its length;
    complex matrices only have real workspace."""
    library = blas.library()
    integer = np.dtype(f"i{library.int_bits // 8}")
    cells: list[Any] = [np.array([ord(letter)], np.uint8) for letter in letters]
    cells += [np.array([n], integer) if n >= 0 else np.zeros(2) for n in sizes]
    workspace = {"n": np.zeros(2), "r": np.zeros(2), "i": np.zeros(2, integer)}
    for part in tail if kind.is_complex else tail.replace("r", "").replace("R", ""):
        cells.append(workspace[part.lower()])
        if part.isupper():
            cells.append(np.array([-1], integer))
    cells.append(np.zeros(1, integer))
    kinds = "p" * len(cells) + "q" * len(letters)
    pointers = [cell.ctypes.data for cell in cells]
    c_symbols.call_c(library.symbols[kind.lapack(name)], kinds, *pointers, *[1] * len(letters))
    return LapackWorkspace(*(max(int(workspace[part][0]), 1) for part in "nri"))


def eigenvalues(kind: MatrixKind, n: int, lower: int, job: str = "N") -> LapackWorkspace:
    """Of values only ("N"), or of vectors, too ("V")."""
    name = "heevd" if kind.is_complex else "syevd"
    return _query(kind, name, job + "LU"[not lower], (n, _POINTER, n, _POINTER), "NRI")


def general_eigenvectors(kind: MatrixKind, n: int) -> LapackWorkspace:
    parts = (_POINTER,) if kind.is_complex else (_POINTER, _POINTER)
    own = _query(kind, "geev", "NV", (n, _POINTER, n, *parts, _POINTER, 1, _POINTER, n), "Nr")
    return LapackWorkspace(own.numbers, 2 * n if kind.is_complex else 0)


def singular_values(kind: MatrixKind, m: int, n: int, full: int = -1) -> LapackWorkspace:
    """With vectors, the first or (`full` 1) all; values only (-1)."""
    k = min(m, n)
    letter, rows = ("N", 1) if full < 0 else ("S", k) if not full else ("A", n)
    sizes = (m, n, _POINTER, m, _POINTER, _POINTER, m, _POINTER, rows)
    own = _query(kind, "gesdd", letter, sizes, "Nri")
    # The real workspace cannot be queried: this is the bound of LAPACK's manual.
    reals = 7 * k if full < 0 else max(5 * k * k + 5 * k, 2 * max(m, n) * k + 2 * k * k + k)
    return LapackWorkspace(own.numbers, reals if kind.is_complex else 0, 8 * k)


def qr_factors(kind: MatrixKind, m: int, n: int, k: int) -> LapackWorkspace:
    first = _query(kind, "geqrf", "", (m, n, _POINTER, m, _POINTER), "N")
    driver = "ungqr" if kind.is_complex else "orgqr"
    second = _query(kind, driver, "", (m, k, min(m, n), _POINTER, m, _POINTER), "N")
    return max(first, second)


def column_order(kind: MatrixKind, m: int, n: int) -> LapackWorkspace:
    own = _query(kind, "geqp3", "", (m, n, _POINTER, m, _POINTER, _POINTER), "Nr")
    return LapackWorkspace(own.numbers, 2 * n if kind.is_complex else 0)


def least_squares(kind: MatrixKind, m: int, n: int, k: int) -> LapackWorkspace:
    high = max(m, n)
    return _query(
        kind, "gelsd", "", (m, n, k, _POINTER, m, _POINTER, high, _POINTER, _POINTER, 0), "Nri"
    )
