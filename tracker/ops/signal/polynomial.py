"""Polynomials as coefficients, highest power first: `np.polyval` and its relatives.

Composed of sums, products and `np.convolve`; `roots`, `polyfit` and `poly` of a matrix use
`np.linalg`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.errors import warn
from tracker.ops.declare.arguments import as_array, as_strong_array
from tracker.ops.declare.declare import implements
from tracker.ops.declare.numpy_code import run_as_written
from tracker.ops.linalg.eigen_svd import real_if_all_real
from tracker.tape.record import aval_of

run_as_written(np.poly, np.polyadd, np.polysub)


@implements(np.polyval)
def polyval(p: Any, x: Any) -> Any:
    p, x = as_array(p), as_strong_array(x)
    y = np.zeros_like(x)
    for i in range(np.shape(p)[0]):
        y = y * x + p[i]
    return y


@implements(np.polymul)
def polymul(a1: Any, a2: Any) -> Any:
    return np.convolve(*(_strip_leading_zeros(np.atleast_1d(as_array(c))) for c in (a1, a2)))


def _strip_leading_zeros(p: Any) -> Any:
    """The polynomial without leading zero coefficients."""
    nonzero = np.nonzero(p)[0]
    return p[nonzero[0] :] if len(nonzero) else p[-1:]


@implements(np.polydiv)
def polydiv(u: Any, v: Any) -> Any:
    u, v = (np.atleast_1d(as_array(c)) + 0.0 for c in (u, v))
    m, n = np.size(u) - 1, np.size(v) - 1
    scale = 1.0 / v[0]
    kind = np.result_type(aval_of(u), aval_of(v))
    quotient = []
    rest = np.astype(u, kind)
    for k in range(m - n + 1):
        d = scale * rest[k]
        quotient.append(d)
        rest = np.concatenate([rest[:k], rest[k : k + n + 1] - d * v, rest[k + n + 1 :]])
    start = 0
    while start < m and np.allclose(rest[start], 0, rtol=1e-14):
        start += 1
    return np.stack(quotient) if quotient else np.zeros(1, kind), rest[start:]


@implements(np.polyder)
def polyder(p: Any, m: int = 1) -> Any:
    if m < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    p = as_array(p)
    for _ in range(int(m)):
        p = p[:-1] * np.arange(np.size(p) - 1, 0, -1)
    return p


@implements(np.polyint)
def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    m = int(m)
    given = np.zeros(m) if k is None else np.atleast_1d(as_array(k))
    if np.size(given) == 1 and m > 1:
        given = given[0] * np.ones(m)
    if np.size(given) < m:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    p = as_array(p)
    for i in range(m):
        p = np.concatenate([p / np.arange(np.size(p), 0, -1), given[i : i + 1]])
    return p


@implements(np.vander)
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    x = as_array(x)
    if np.ndim(x) != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    n = np.size(x) if N is None else N
    if n < 0:
        raise ValueError("negative dimensions are not allowed")
    kind = np.promote_types(np.result_type(aval_of(x)), int)
    columns = [np.ones_like(x, kind)]
    for _ in range(n - 1):
        columns.append(columns[-1] * x)
    if n == 0:
        return np.ones_like(x, kind, shape=(np.size(x), 0))
    return np.stack(columns if increasing else columns[::-1], axis=1)


@implements(np.roots)
def roots(p: Any) -> Any:
    p = np.atleast_1d(as_array(p))
    if np.ndim(p) != 1:
        raise ValueError("Input must be a rank-1 array.")
    nonzero = np.nonzero(p)[0]
    if not len(nonzero):
        return np.zeros(0)
    zeros = np.size(p) - 1 - nonzero[-1]
    p = p[nonzero[0] : nonzero[-1] + 1]
    p = np.astype(p, float) if p.dtype.kind in "biu" else p
    kind = p.dtype
    n = np.size(p) - 1
    if n == 0:
        return np.zeros(int(zeros))  # float64 for every dtype, as in NumPy
    top = np.reshape(-p[1:] / p[0], (1, n))
    companion = np.concatenate([top, np.eye(n - 1, n, dtype=kind)], axis=0)
    found = real_if_all_real(np.linalg.eigvals(companion), companion)
    return np.concatenate([found, np.zeros(int(zeros), found.dtype)])


@implements(np.polyfit)
def polyfit(
    x: Any, y: Any, deg: int, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    x, y = as_array(x) + 0.0, as_array(y) + 0.0
    order = int(deg) + 1
    if order < 1:
        raise ValueError("expected deg >= 0")
    if np.ndim(x) != 1 or np.size(x) == 0:
        raise TypeError("expected non-empty vector for x")
    if np.ndim(y) not in (1, 2) or np.shape(y)[0] != np.size(x):
        raise TypeError("expected x and y to have same length")
    if rcond is None:
        rcond = np.size(x) * np.finfo(x.dtype).eps
    left, right = np.vander(x, order), y
    if w is not None:
        w = as_array(w) + 0.0
        if np.shape(w) != np.shape(x):
            raise TypeError("expected w and y to have the same length")
        left = left * w[:, None]
        right = right * (w[:, None] if np.ndim(y) == 2 else w)
    scale = np.sqrt(np.sum(left * left, axis=0))
    left = left / scale
    c, residuals, rank, s = np.linalg.lstsq(left, right, rcond)
    c = (c.T / scale).T
    if rank != order and not full:
        warn("Polyfit may be poorly conditioned", np.exceptions.RankWarning)
    if full:
        return c, residuals, rank, s, rcond
    if not cov:
        return c
    base = np.linalg.inv(np.dot(left.T, left)) / np.outer(scale, scale)
    if cov == "unscaled":
        return c, base if np.ndim(y) == 1 else base[:, :, None]
    if np.size(x) <= order:
        raise ValueError("the number of data points must exceed order to scale the covariance")
    factor = residuals / (np.size(x) - order)
    return c, (base if np.ndim(y) == 1 else base[:, :, None]) * factor
