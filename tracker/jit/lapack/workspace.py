"""How much workspace LAPACK wants: its routines are asked, so that they block as for NumPy.

Owns: `Own`, and a query for each family of routines: (kind, *sizes) -> Own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tracker.jit.lapack.code import Kind
from tracker.jit.runtime import blas, c_symbols


class Own(NamedTuple):
    """LAPACK's own workspace: numbers of the matrix's kind, real numbers, integers."""

    numbers: int
    reals: int = 0
    integers: int = 0


_P = -1  # in a query: a pointer to numbers, not an integer


def _ask(kind: Kind, name: str, letters: str, sizes: tuple[int, ...], tail: str) -> Own:
    """What a routine wants. Its arguments are letters, then what `sizes` says, then `tail`: of
    numbers (n), real numbers (r) and integers (i) the workspace, or (capital) that and its length;
    real workspace is for complex matrices only."""
    found = blas.find()
    assert found is not None
    integer = np.dtype(f"i{found.int_bits // 8}")
    boxes: list[Any] = [np.array([ord(letter)], np.uint8) for letter in letters]
    boxes += [np.array([n], integer) if n >= 0 else np.zeros(2) for n in sizes]
    wanted = {"n": np.zeros(2), "r": np.zeros(2), "i": np.zeros(2, integer)}
    for part in tail if kind.is_complex else tail.replace("r", "").replace("R", ""):
        boxes.append(wanted[part.lower()])
        if part.isupper():
            boxes.append(np.array([-1], integer))
    boxes.append(np.zeros(1, integer))
    kinds = "p" * len(boxes) + "q" * len(letters)
    pointers = [box.ctypes.data for box in boxes]
    c_symbols.call_c(found.symbols[kind.lapack(name)], kinds, *pointers, *[1] * len(letters))
    return Own(*(max(int(wanted[part][0]), 1) for part in "nri"))


def eigenvalues(kind: Kind, n: int, lower: int) -> Own:
    return _eigen(kind, "N", n, lower)


def eigenvectors(kind: Kind, n: int, lower: int) -> Own:
    return _eigen(kind, "V", n, lower)


def _eigen(kind: Kind, letter: str, n: int, lower: int) -> Own:
    name = "heevd" if kind.is_complex else "syevd"
    return _ask(kind, name, letter + "LU"[not lower], (n, _P, n, _P), "NRI")


def general(kind: Kind, n: int) -> Own:
    parts = (_P,) if kind.is_complex else (_P, _P)
    own = _ask(kind, "geev", "NV", (n, _P, n, *parts, _P, 1, _P, n), "Nr")
    return Own(own.numbers, 2 * n if kind.is_complex else 0)


def singular(kind: Kind, m: int, n: int, full: int = -1) -> Own:
    """With vectors, the first or (`full` 1) all; values only (-1)."""
    k = min(m, n)
    letter, rows = ("N", 1) if full < 0 else ("S", k) if not full else ("A", n)
    sizes = (m, n, _P, m, _P, _P, m, _P, rows)
    own = _ask(kind, "gesdd", letter, sizes, "Nri")
    # The real workspace cannot be asked for: what LAPACK's manual says.
    reals = 7 * k if full < 0 else max(5 * k * k + 5 * k, 2 * max(m, n) * k + 2 * k * k + k)
    return Own(own.numbers, reals if kind.is_complex else 0, 8 * k)


def orthogonal(kind: Kind, m: int, n: int, k: int) -> Own:
    first = _ask(kind, "geqrf", "", (m, n, _P, m, _P), "N")
    driver = "ungqr" if kind.is_complex else "orgqr"
    second = _ask(kind, driver, "", (m, k, min(m, n), _P, m, _P), "N")
    return max(first, second)


def column_order(kind: Kind, m: int, n: int) -> Own:
    own = _ask(kind, "geqp3", "", (m, n, _P, m, _P, _P), "Nr")
    return Own(own.numbers, 2 * n if kind.is_complex else 0)


def least_squares(kind: Kind, m: int, n: int, k: int) -> Own:
    high = max(m, n)
    return _ask(kind, "gelsd", "", (m, n, k, _P, m, _P, high, _P, _P, 0), "Nri")
