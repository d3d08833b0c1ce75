"""Shapes, constants, diagonals and windows. A copy is the array itself: JAX's are immutable."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tracker.interop.jax_ops.table import functions, rule
from tracker.ops.shape.windows import window_counts


def _iota(shape: tuple[int, ...], axis: int) -> Any:
    return jax.lax.broadcasted_iota(np.int32, shape, axis)


def _embed_diagonal(x: Any, k: int, shape: tuple[int, int]) -> Any:
    along = np.arange(x.shape[-1])
    out = jnp.zeros((*x.shape[:-1], *shape), x.dtype)
    return out.at[..., along + max(-k, 0), along + max(k, 0)].set(x)


def _window_parts(kernel: Any, counts: Any, stride: Any, dilation: Any) -> Any:
    """The position in the kernel, and the elements that it meets, as slices."""
    for k in itertools.product(*map(range, kernel)):
        sizes = zip(k, dilation, stride, counts, strict=True)
        yield k, tuple(slice(i * d, i * d + s * (o - 1) + 1, s) for i, d, s, o in sizes)


def _windows(x: Any, kernel: Any, stride: Any, dilation: Any) -> Any:
    lead = x.ndim - len(kernel)
    counts = window_counts(x.shape[lead:], kernel, stride, dilation)
    parts = [x[(..., *at)] for _, at in _window_parts(kernel, counts, stride, dilation)]
    return jnp.stack(parts, lead).reshape((*x.shape[:lead], *kernel, *counts))


def _overlaps(g: Any, extents: Any, stride: Any, dilation: Any) -> Any:
    rank = len(extents)
    lead = g.ndim - 2 * rank
    kernel, counts = g.shape[lead : lead + rank], g.shape[lead + rank :]
    out = jnp.zeros((*g.shape[:lead], *extents), g.dtype)
    for k, at in _window_parts(kernel, counts, stride, dilation):
        out = out.at[(..., *at)].add(g[(..., *k, *(slice(None),) * rank)])
    return out


@rule("table")
def _table(step: Any, values: Any, dtype: Any) -> Any:
    return jnp.array(values, step.dtype)


def _same(x: Any) -> Any:
    return x


functions(
    {
        "identity": _same,
        "copy": _same,
        "as_view": _same,
        "item": lambda x: jnp.reshape(x, ()),
        "after": lambda x, *token: x,
        "constant": _same,
        "held": _same,
        "reshape": lambda x, shape: jnp.reshape(x, shape),
        "transpose": lambda x, axes: jnp.transpose(x, axes),
        "broadcast_to": lambda x, shape: jnp.broadcast_to(x, shape),
        "concatenate": lambda *xs, axis: jnp.concatenate(xs, axis),
        "stack": lambda *xs, axis: jnp.stack(xs, axis),
        "iota": _iota,
        "before": lambda n, shape, axis: _iota(shape, axis) < n,
        "triangle": lambda x, k, lower: (jnp.tril if lower else jnp.triu)(x, k),
        "diagonal": lambda x, k: jnp.diagonal(x, k, -2, -1),
        "embed_diagonal": _embed_diagonal,
        "windows": _windows,
        "overlaps": _overlaps,
    }
)
