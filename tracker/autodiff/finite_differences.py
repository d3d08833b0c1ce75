"""Central differences, and the arithmetic of derivative checks (`tracker.testing`).

A five-point stencil is evaluated at one step, enough for smooth functions, or at several; then each
element takes the estimate that agrees best with the estimate of the step before. Complex numbers
are pairs of reals: the gradient of a real function of z = x + iy is df/dx + i df/dy, and <a, b> is
the sum of real(conj(a) b).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker import tree

ONE_STEP = (4e-4,)
STEPS = (1e-2, 2e-3, 4e-4, 8e-5)
SMALLER_STEPS = (1.6e-5, 3.2e-6, 6.4e-7)
_TOLERANCES = {4: (2e-3, 1e-4), 2: (5e-2, 5e-2)}  # bytes of a real: rtol, atol


def is_float(x: Any) -> bool:
    return tree.is_numeric(x) and np.result_type(x).kind in "fc"


def copied(x: Any) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else x


def at_least_double(x: Any) -> Any:
    """A float32 or float16 as float64, so that differences keep enough digits."""
    kind = np.result_type(x)
    if kind.kind in "fc" and kind.itemsize < np.result_type(kind, np.float64).itemsize:
        return np.asarray(x).astype(np.result_type(kind, np.float64))[()]
    return copied(x)


def zero_tangent(x: Any) -> Any:
    return np.zeros_like(at_least_double(x))[()]


def _real_bytes(x: Any) -> int:
    kind = np.result_type(x)
    return kind.itemsize // 2 if kind.kind == "c" else kind.itemsize


def tolerances_of(xs: Sequence[Any], rtol: float | None, atol: float | None) -> tuple[float, float]:
    least = min((_real_bytes(x) for x in xs if is_float(x)), default=8)
    usual = _TOLERANCES.get(least, (1e-6, 1e-8))
    return usual[0] if rtol is None else rtol, usual[1] if atol is None else atol


def random_like(x: Any, rng: np.random.Generator) -> Any:
    """Random numbers of magnitude 0.5 to 1.5, in x's shape and float dtype."""
    kind = np.result_type(x)
    shape = np.shape(x)
    values = rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape)
    if kind.kind == "c":
        values = values + 1j * rng.uniform(-1.5, 1.5, shape)
    kind = kind if kind.kind in "fc" else np.dtype(float)
    return np.asarray(values).astype(kind)[()]


def real_inner(a: Any, b: Any) -> Any:
    """The real inner product."""
    if a is None or b is None:
        return 0.0
    return np.sum(np.real(np.conjugate(at_least_double(a)) * b))


def step_along(x: Any, direction: Any, step: float) -> Any:
    x = at_least_double(x)
    return x + step * at_least_double(direction) if np.result_type(x).kind in "fc" else x


Direction = tuple[tuple[int, ...], complex]


def directions(x: Any) -> list[Direction]:
    """The directions in which one entry can move: (position, 1 or 1j)."""
    parts = (1.0, 1j) if np.result_type(x).kind == "c" else (1.0,)
    return [(position, part) for position in np.ndindex(np.shape(x)) for part in parts]


def unit_vector(x: Any, direction: Direction) -> Any:
    kind = np.result_type(x)
    t = np.zeros(np.shape(x), kind if kind.kind in "fc" else float)
    t[direction[0]] = direction[1]
    return t[()]


def difference_along(
    f: Callable[[Any], list[Any]], x: Any, direction: Direction, steps: Sequence[float] = STEPS
) -> list[Any]:
    """The derivative of `f` along one entry of x."""
    base = x + 0.0 if np.result_type(x).kind in "biu" else at_least_double(x)
    scale = max(abs(complex(np.asarray(x)[direction[0]])), 0.1)
    t = unit_vector(base, direction)
    t = t.item() if isinstance(x, (int, float, complex)) else t
    return [d / scale for d in derivative_at_zero(lambda step: f(base + (step * scale) * t), steps)]


def derivative_at_zero(f: Callable[[float], list[Any]], steps: Sequence[float]) -> list[Any]:
    """The derivative at 0 of a function of a number."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimates = [_stencil(f, h) for h in steps]
    return [_most_stable(list(column)) for column in zip(*estimates, strict=True)]


def _stencil(f: Callable[[float], list[Any]], h: float) -> list[Any]:
    near, far = (
        [
            np.subtract(a, b, dtype=np.result_type(a, np.float64))
            for a, b in zip(f(s), f(-s), strict=True)
        ]
        for s in (h, 2 * h)
    )
    return [(8 * a - b) / (12 * h) for a, b in zip(near, far, strict=True)]


def _most_stable(estimates: list[Any]) -> Any:
    """Per element, the estimate that agrees best with the one before it."""
    if len(estimates) == 1:
        return estimates[0]
    stacked = np.array(estimates)
    with np.errstate(all="ignore"):
        apart = np.abs(np.diff(stacked, axis=0))
    apart = np.where(np.isnan(apart), np.inf, apart)
    chosen = np.argmin(apart, axis=0)[None] + 1
    return np.take_along_axis(stacked, chosen, axis=0)[0][()]


def as_gradient(entries: list[Any], x: Any) -> Any:
    """Real slopes, one per direction, as a gradient in the shape and dtype of x."""
    kind = np.result_type(x)
    values = np.array([complex(e).real for e in entries])
    if kind.kind == "c":
        values = values[0::2] + 1j * values[1::2]
    if isinstance(x, (int, float, complex)):
        return values[0].item()
    return values.reshape(np.shape(x)).astype(kind if kind.kind in "fc" else float)[()]


def assert_close(have: Any, want: Any, rtol: float, atol: float, what: str) -> None:
    have, want = np.asarray(have), np.asarray(want)
    if have.shape != want.shape:
        raise AssertionError(f"{what}: shape {have.shape} instead of {want.shape}")
    good = np.isclose(have, want, rtol=rtol, atol=atol, equal_nan=True)
    if np.all(good):
        return
    position = tuple(int(i) for i in np.argwhere(~good)[0])
    at = f" at output entry {list(position)}" if position else ""
    raise AssertionError(
        f"{what}: {have[position]!s} where {want[position]!s} was expected{at} "
        f"(rtol={rtol:g}, atol={atol:g})"
    )
