"""Matrices made of given numbers, by position."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from tracker.ops.linalg.parts import as_array
from tracker.scipy._dropin import drop_in


@drop_in(scipy.linalg)
def block_diag(*arrs: Any) -> Any:
    """Matrices along the diagonal, zeros elsewhere."""
    blocks = [np.atleast_2d(as_array(a)) for a in arrs]
    width = sum(np.shape(block)[1] for block in blocks)
    rows, before = [], 0
    for block in blocks:
        m, n = np.shape(block)
        parts = (m, before), (m, width - before - n)
        left, right = (np.zeros_like(block, shape=shape) for shape in parts)
        rows.append(np.concatenate([left, block, right], axis=1))
        before += n
    return np.concatenate(rows, axis=0)


@drop_in(scipy.linalg)
def toeplitz(c: Any, r: Any = None) -> Any:
    """First column c, first row r (conj(c) if not given); r[0] is not read."""
    c = as_array(c)
    r = np.conjugate(c) if r is None else as_array(r)
    values = np.concatenate([np.flip(c), r[1:]])
    m, n = np.size(c), np.size(r)
    return values[np.arange(m)[::-1, None] + np.arange(n)]


@drop_in(scipy.linalg)
def circulant(c: Any) -> Any:
    """Each column is the one before it, moved down by one."""
    c = as_array(c)
    n = np.shape(c)[-1]
    return c[..., (np.arange(n)[:, None] - np.arange(n)) % n]


@drop_in(scipy.linalg)
def hankel(c: Any, r: Any = None) -> Any:
    """First column c, last row r (zeros if not given); r[0] is not read."""
    c = as_array(c)
    r = np.zeros_like(c) if r is None else as_array(r)
    values = np.concatenate([c, r[1:]])
    return values[np.arange(np.size(c))[:, None] + np.arange(np.size(r))]
