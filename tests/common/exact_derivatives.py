"""Derivatives of a solver's results, compared with exact solutions of complex parameters.

Finite differences through an iterative solver depend on where it stops, hence on the processor. The
solvers here take a fixed number of steps and are differentiated by complex steps, without
cancellation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker import jvp, pullback

Function = Callable[..., Any]


def check_exact(
    f: Function, exact: Function, *args: Any, order: int = 1, rtol: float = 1e-6
) -> None:
    """The value of `f` and its reverse and forward derivatives equal those of `exact`; with
    `order=2`, also the forward and the reverse derivative of the reverse one."""
    rng = np.random.default_rng(0)
    want = np.real(exact(*args))
    cotangent, tangents = _random(rng, want), tuple(_random(rng, x) for x in args)

    def close(found: Any, want: Any) -> None:
        np.testing.assert_allclose(found, want, rtol=rtol, atol=rtol)

    def moved(step: float) -> list[Any]:
        return [x + step * t for x, t in zip(args, tangents, strict=True)]

    def back(*args: Any) -> Any:
        return pullback(f, *args)[1](cotangent)

    def slopes(*args: Any) -> list[Any]:
        return _slopes(lambda *args: np.sum(cotangent * exact(*args)), args)

    def each_close(found: Any, want: Any) -> None:
        for ours, theirs in zip(found, want, strict=True):
            close(ours, theirs)

    y, forward = jvp(f, args, tangents)
    close(f(*args), want)
    close(y, want)
    close(forward, np.imag(exact(*moved(1e-20j))) / 1e-20)
    each_close(back(*args), slopes(*args))
    if order == 2:
        ends = zip(slopes(*moved(1e-5)), slopes(*moved(-1e-5)), strict=True)
        second = [(ahead - behind) / 2e-5 for ahead, behind in ends]
        each_close(jvp(back, args, tangents)[1], second)
        each_close(pullback(back, *args)[1](tangents), second)


def _random(rng: np.random.Generator, x: Any) -> Any:
    t = rng.uniform(0.5, 1.5, np.shape(x)) * rng.choice([-1.0, 1.0], np.shape(x))
    return t if isinstance(x, np.ndarray) else float(t)


def _slopes(f: Function, args: Sequence[Any]) -> list[Any]:
    """The gradient of `f` by each argument."""
    out = []
    for at, x in enumerate(args):
        slope = np.zeros(np.shape(x))
        for i in np.ndindex(slope.shape):
            step = np.zeros(slope.shape, complex)
            step[i] = 1e-20j
            slope[i] = np.imag(f(*args[:at], (x + step)[()], *args[at + 1 :])) / 1e-20
        out.append(slope[()])
    return out


def solved(conditions: Function, start: Any) -> np.ndarray:
    """The root of `conditions` near `start`, to rounding, by Newton's method."""
    x = np.array(start, complex)
    for _ in range(12):
        slopes = [(conditions(x + h) - conditions(x - h)) / 2e-6 for h in 1e-6 * np.eye(len(x))]
        x = x - np.linalg.solve(np.transpose(slopes), conditions(x))
    return x


def integrated(f: Function, start: Any, times: Sequence[Any], steps: int = 128) -> np.ndarray:
    """The solution of y' = f(t, y) at the times, from `start` at the first: the Runge-Kutta method
    of fourth order, with so many steps between times."""
    rows = [np.asarray(start, complex)]
    for begin, end in itertools.pairwise(times):
        y, h = rows[-1], (end - begin) / steps
        for t in begin + h * np.arange(steps):
            a = np.asarray(f(t, y))
            b = np.asarray(f(t + h / 2, y + h / 2 * a))
            c = np.asarray(f(t + h / 2, y + h / 2 * b))
            y = y + h / 6 * (a + 2 * b + 2 * c + f(t + h, y + h * c))
        rows.append(y)
    return np.stack(rows)


def area(f: Function, low: Any, high: Any) -> Any:
    """The integral of a smooth `f` of one number, by the Gauss-Legendre rule of 24 points."""
    at, weights = np.polynomial.legendre.leggauss(24)
    half = (high - low) / 2
    return sum(w * f(low + half * (x + 1)) for x, w in zip(at, weights, strict=True)) * half
