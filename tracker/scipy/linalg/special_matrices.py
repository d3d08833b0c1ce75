"""Structured matrices built from given numbers, and systems with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from tracker.ops.declare.rule_helpers import conjugated
from tracker.ops.linalg.triangles import as_array
from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy.linalg.batching import over_batches


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


# Solving with them --------------------------------------------------------------------------------


def _column_and_row(c_or_cr: Any) -> tuple[Any, Any]:
    if isinstance(c_or_cr, tuple):
        return as_array(c_or_cr[0]), as_array(c_or_cr[1])
    c = as_array(c_or_cr)
    return c, conjugated(c)


@drop_in(scipy.linalg)
def solve_toeplitz(c_or_cr: Any, b: Any) -> Any:
    """The solution x of T x = b, with T given by its first column, or by that and its first row."""
    return np.linalg.solve(toeplitz(*_column_and_row(c_or_cr)), as_array(b) * 1.0)


@drop_in(scipy.linalg)
def matmul_toeplitz(c_or_cr: Any, x: Any) -> Any:
    """The product T x."""
    return toeplitz(*_column_and_row(c_or_cr)) @ as_array(x)
