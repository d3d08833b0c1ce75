"""Reductions, scans along an axis, sorting and searching, transforms."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tracker.interop.jax_ops.table import functions, rule, same_names


@rule("sum", "prod", "mean")
def _reduction(step: Any, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    """Accumulated in the dtype of the result; a mean of half precision in single."""
    dtype = step.dtype
    accumulated = np.dtype(np.float32) if dtype == np.float16 and step.name == "mean" else dtype
    return getattr(jnp, step.name)(x, axis, accumulated, keepdims=keepdims)


def _largest(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return jnp.max(x, axis, keepdims=keepdims)


def _smallest(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return jnp.min(x, axis, keepdims=keepdims)


@rule("cumsum", "cumprod")
def _cumulative(step: Any, x: Any, axis: int) -> Any:
    return getattr(jnp, step.name)(x, axis, step.dtype)


@rule("recurrence")
def _recurrence(step: Any, b: Any, a: Any, axis: int) -> Any:
    """s[i] = b[i] + a[i] * s[i - 1], by doubling."""

    def combine(first: Any, second: Any) -> Any:
        return first[0] * second[0], second[0] * first[1] + second[1]

    pair = step.cast(a, step.dtype), step.cast(b, step.dtype)
    return jax.lax.associative_scan(combine, pair, axis=axis)[1]


def _running(function: Any) -> Any:
    """A running extreme: after a NaN, everything is NaN."""

    def extreme(x: Any, axis: int) -> Any:
        return jax.lax.associative_scan(function, x, axis=axis)

    return extreme


def _ranked(rows: Any, ranks: Any) -> Any:
    ranks = jnp.broadcast_to(ranks, (len(ranks), len(rows)))
    return jnp.take_along_axis(jnp.sort(rows, axis=1).T, ranks, axis=0)


def _argsort(x: Any, axis: int) -> Any:
    """Zeros of both signs are equal, as in NumPy."""
    return jnp.argsort(jnp.where(x == 0, 0, x), axis, stable=True)


def _rank_sources(rows: Any, ranked: Any, ranks: Any) -> Any:
    order = _argsort(rows, 1).T
    return jnp.take_along_axis(order, jnp.broadcast_to(ranks, ranked.shape), axis=0)


@rule("argmax", "argmin", "nanargmax", "nanargmin")
def _extreme_position(step: Any, x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    if jnp.iscomplexobj(x):
        raise TypeError("JAX does not compare complex numbers")
    return getattr(jnp, step.name)(x, axis, keepdims=keepdims)


same_names(jnp, "count_nonzero matmul convolve isin")
functions(
    {
        "max": _largest,
        "min": _smallest,
        "any": lambda x, axis, keepdims: jnp.any(x != 0, axis, keepdims=keepdims),
        "all": lambda x, axis, keepdims: jnp.all(x != 0, axis, keepdims=keepdims),
        "running_maximum": _running(jnp.maximum),
        "running_minimum": _running(jnp.minimum),
        "sort": lambda x, axis: jnp.sort(x, axis, stable=True),
        "argsort": _argsort,
        "ordered": lambda keys: jnp.sort(keys, -1),
        "order": lambda keys: jnp.argsort(keys, -1, stable=True),
        "lexsort": lambda keys, axis=-1: jnp.lexsort(jnp.where(keys == 0, 0, keys), axis),
        "searchsorted": lambda a, v, side="left": jnp.searchsorted(a, v, side),
        "key_places": lambda a, v, right: jnp.searchsorted(a, v, "right" if right else "left"),
        "ranked": _ranked,
        "rank_sources": _rank_sources,
        "fourier": lambda x, axis, inverse, norm: (jnp.fft.ifft if inverse else jnp.fft.fft)(
            x, axis=axis, norm=norm
        ),
        "real_fourier": lambda x, axis, norm: jnp.fft.rfft(x, axis=axis, norm=norm),
        "from_half": lambda x, axis, n, norm: jnp.fft.irfft(x, n, axis, norm),
    }
)
