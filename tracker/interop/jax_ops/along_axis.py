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


# Keys: unsigned integers in the order of the numbers, as `ops/along_axis/sort.py` has them. The
# expansions of `argpartition` and `unique_order` sort them.


def _top_bit(dtype: Any) -> Any:
    return dtype.type(1 << (8 * dtype.itemsize - 1))


def _key(x: Any) -> Any:
    """The key of a number; zeros of both signs differ."""
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    if x.dtype.kind in "bu":
        return x.astype(unsigned)
    raw = jax.lax.bitcast_convert_type(x, unsigned)
    if x.dtype.kind == "i":
        return raw ^ _top_bit(unsigned)
    key = jnp.where(raw & _top_bit(unsigned), ~raw, raw ^ _top_bit(unsigned))
    return jnp.where(jnp.isnan(x), ~unsigned.type(0), key)


@rule("key_value")
def _key_value(step: Any, key: Any, dtype: Any) -> Any:
    """The number of a key."""
    if dtype.kind in "bu":
        return key
    key = key.astype(f"u{step.dtype.itemsize}")
    top = _top_bit(key.dtype)
    raw = key ^ top if dtype.kind == "i" else jnp.where(key & top, key ^ top, ~key)
    return jax.lax.bitcast_convert_type(raw, step.dtype)


def _keys_at(keys: Any, ranks: Any) -> Any:
    return jnp.take_along_axis(
        jnp.sort(keys, -1), jnp.broadcast_to(ranks, (len(keys), ranks.shape[1])), -1
    )


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
        "max": lambda x, axis, keepdims: jnp.max(x, axis, keepdims=keepdims),
        "min": lambda x, axis, keepdims: jnp.min(x, axis, keepdims=keepdims),
        "any": lambda x, axis, keepdims: jnp.any(x != 0, axis, keepdims=keepdims),
        "all": lambda x, axis, keepdims: jnp.all(x != 0, axis, keepdims=keepdims),
        "running_maximum": _running(jnp.maximum),
        "running_minimum": _running(jnp.minimum),
        "sort": lambda x, axis: jnp.sort(x, axis, stable=True),
        "argsort": _argsort,
        "ordered": lambda keys: jnp.sort(keys, -1),
        "order": lambda keys: jnp.argsort(keys, -1, stable=True),
        "sort_key": lambda x: _key(jnp.where(x == 0, 0, x) if x.dtype != bool else x),
        "value_key": _key,
        "keys_at": _keys_at,
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
