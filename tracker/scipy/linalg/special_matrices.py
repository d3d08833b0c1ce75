"""Structured matrices built from given numbers, and systems with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from tracker.ops.linalg.triangles import as_array
from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy.linalg.batching import over_batches


@drop_in(scipy.linalg)
def block_diag(*arrs: Any) -> Any:
    """Matrices along the diagonal, zeros elsewhere; leading axes broadcast."""
    blocks = [np.atleast_2d(as_array(a)) for a in arrs]
    front = np.broadcast_shapes(*(np.shape(block)[:-2] for block in blocks))
    width = sum(np.shape(block)[-1] for block in blocks)
    rows, before = [], 0
    for block in blocks:
        m, n = np.shape(block)[-2:]
        parts = (*front, m, before), (*front, m, width - before - n)
        left, right = (np.zeros_like(block, shape=shape) for shape in parts)
        middle = np.broadcast_to(block, (*front, m, n))
        rows.append(np.concatenate([left, middle, right], axis=-1))
        before += n
    return np.concatenate(rows, axis=-2)


@drop_in(scipy.linalg)
@over_batches(c=1, r=1)
def toeplitz(c: Any, r: Any = None) -> Any:
    """First column c, first row r (conj(c) if not given); r[0] is not read."""
    c = np.atleast_1d(as_array(c))
    r = np.conjugate(c) if r is None else np.atleast_1d(as_array(r))
    values = np.concatenate([np.flip(c), r[1:]])
    m, n = np.size(c), np.size(r)
    return values[np.arange(m)[::-1, None] + np.arange(n)]


@drop_in(scipy.linalg)
def circulant(c: Any) -> Any:
    """Each column is the previous one, shifted down by one."""
    c = np.atleast_1d(as_array(c))
    n = np.shape(c)[-1]
    return c[..., (np.arange(n)[:, None] - np.arange(n)) % n]


@drop_in(scipy.linalg)
def hankel(c: Any, r: Any = None) -> Any:
    """First column c, last row r (zeros if not given); r[0] is not read."""
    c = np.ravel(as_array(c))
    r = np.zeros_like(c) if r is None else np.ravel(as_array(r))
    values = np.concatenate([c, r[1:]])
    return values[np.arange(np.size(c))[:, None] + np.arange(np.size(r))]


@drop_in(scipy.linalg)
def companion(a: Any) -> Any:
    """The matrix whose eigenvalues are the roots of a polynomial."""
    a = np.atleast_1d(as_array(a))
    n = np.shape(a)[-1]
    if n < 2:
        raise ValueError("The length of `a` along the last axis must be at least 2.")
    if bool(np.any(a[..., 0] == 0)):
        raise ValueError("The first coefficient(s) of `a` must not be zero.")
    first = -a[..., 1:] / (1.0 * a[..., :1])
    rest = np.broadcast_to(
        np.eye(n - 2, n - 1, dtype=first.dtype), (*np.shape(a)[:-1], n - 2, n - 1)
    )
    return np.concatenate([np.expand_dims(first, -2), rest], axis=-2)


@drop_in(scipy.linalg)
def convolution_matrix(a: Any, n: int, mode: str = "full") -> Any:
    """The matrix that convolves with `a`."""
    a = as_array(a)
    if n <= 0:
        raise ValueError("n must be a positive integer.")
    if np.size(a) == 0:
        raise ValueError("len(a) must be at least 1.")
    if mode not in ("full", "valid", "same"):
        raise ValueError("'mode' argument must be one of ('full', 'valid', 'same')")
    m = np.shape(a)[-1]
    index = np.arange(m + n - 1)[:, None] - np.arange(n)
    inside = (index >= 0) & (index < m)
    full = np.where(inside, a[..., np.clip(index, 0, m - 1)], a.dtype.type(0))
    cut = 0 if mode == "full" else min(n, m) - 1
    before = cut // 2 if mode == "same" else cut
    return full[..., before : m + n - 1 - (cut - before if mode == "same" else cut), :]


@drop_in(scipy.linalg)
def leslie(f: Any, s: Any) -> Any:
    """The Leslie matrix of a population: fecundities in the first row, survival rates below the
    diagonal."""
    f, s = np.atleast_1d(as_array(f)), np.atleast_1d(as_array(s))
    if np.shape(f)[-1] != np.shape(s)[-1] + 1 or np.shape(s)[-1] == 0:
        raise ValueError("The length of s must be one less than the length of f, and at least 1.")
    diagonal = np.expand_dims(s, -1) * np.eye(np.shape(s)[-1], dtype=bool)
    below = np.pad(diagonal, [(0, 0)] * np.ndim(s) + [(0, 1)])
    return np.concatenate([np.expand_dims(f, -2), below], axis=-2)


@drop_in(scipy.linalg)
def fiedler(a: Any) -> Any:
    """The absolute differences of all pairs of numbers."""
    a = np.atleast_1d(as_array(a))
    if np.shape(a)[-1] <= 1:  # SciPy returns double precision for any input
        return np.zeros((*np.shape(a), 1) if np.size(a) else np.shape(scipy.linalg.fiedler([])))
    return np.abs(np.expand_dims(a, -1) - np.expand_dims(a, -2))


@drop_in(scipy.linalg)
@over_batches(a=2, b=2)
def khatri_rao(a: Any, b: Any) -> Any:
    """The columnwise Kronecker product."""
    a, b = as_array(a), as_array(b)
    if np.ndim(a) != 2 or np.ndim(b) != 2:
        raise ValueError("The both arrays should be 2-dimensional.")
    if np.shape(a)[1] != np.shape(b)[1]:
        raise ValueError("The number of columns for both arrays should be equal.")
    both = np.expand_dims(a, 1) * np.expand_dims(b, 0)
    return np.reshape(both, (-1, np.shape(a)[1]))


@drop_in(scipy.linalg)
def diagsvd(s: Any, M: int, N: int) -> Any:
    """The M x N matrix of singular values."""
    part = np.diag(as_array(s))
    n = np.shape(part)[0]
    if n not in (M, N):
        raise ValueError("Length of s must be M or N.")
    return np.pad(part, [(0, M - n), (0, N - n)])


# Solving with them --------------------------------------------------------------------------------


def _column_and_row(c_or_cr: Any) -> tuple[Any, Any]:
    if isinstance(c_or_cr, tuple):
        return as_array(c_or_cr[0]), as_array(c_or_cr[1])
    c = as_array(c_or_cr)
    return c, np.conjugate(c) if np.iscomplexobj(c) else c


@drop_in(scipy.linalg)
def solve_toeplitz(c_or_cr: Any, b: Any, check_finite: bool = True) -> Any:
    """The solution x of T x = b, with T given by its first column, or by that and its first row."""
    return np.linalg.solve(toeplitz(*_column_and_row(c_or_cr)), as_array(b) * 1.0)


@drop_in(scipy.linalg)
def matmul_toeplitz(c_or_cr: Any, x: Any, check_finite: bool = False, workers: Any = None) -> Any:
    """The product T x."""
    return toeplitz(*_column_and_row(c_or_cr)) @ as_array(x)


@drop_in(scipy.linalg)
def solve_circulant(
    c: Any,
    b: Any,
    singular: str = "raise",
    tol: Any = None,
    caxis: int = -1,
    baxis: int = 0,
    outaxis: int = 0,
) -> Any:
    """The solution x of C x = b, with C given by its first column."""
    c, b = np.atleast_1d(as_array(c)), np.atleast_1d(as_array(b))
    c, b = np.moveaxis(c, caxis, -1), np.moveaxis(b, baxis, -1)
    if np.shape(c)[-1] != np.shape(b)[-1]:
        raise ValueError(f"Shapes of c {np.shape(c)} and b {np.shape(b)} are incompatible")
    spectrum = np.fft.fft(c)
    size = np.abs(spectrum)
    if tol is None:
        most = np.max(size, axis=-1, keepdims=True)
        tol = most * np.shape(c)[-1] * np.finfo(np.float64).eps
    flat = size <= tol
    if singular == "raise" and bool(np.any(flat)):
        raise np.linalg.LinAlgError("near singular circulant matrix.")
    parts = np.fft.fft(b) / np.where(flat, 1.0, spectrum)
    x = np.fft.ifft(np.where(flat, 0.0, parts))
    x = x if np.iscomplexobj(c) or np.iscomplexobj(b) else np.real(x)
    return np.moveaxis(x, -1, outaxis)
