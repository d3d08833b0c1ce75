"""Integrals of functions: SciPy finds the value and the subintervals; a fixed rule on the same
subintervals gives the derivatives.

The derivative in a parameter is the integral of the derivative (Leibniz's rule). The derivative in
an end is the function's value there, expressed as Gauss's rule over the interval of length zero
from the end to itself. So the tape has derivatives of any order in the ends, in `args`, and in
captured values; the value is SciPy's.

In compiled code SciPy is called back for the subintervals; there the function may depend on `args`
only. Start at `quad`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.integrate

from tracker.autodiff.leaves import plain_data
from tracker.autodiff.stop_gradient import ignore_derivatives
from tracker.errors import UnsupportedError
from tracker.implicit.solution import with_derivatives_of
from tracker.scipy._bridge.callback import Function, call_solver, use_scipy_unless_differentiated
from tracker.scipy._bridge.fallback import is_tracked, no_derivative_rule
from tracker.scipy._bridge.implicit import as_tuple
from tracker.tape.observers import is_tracing
from tracker.tape.tracked import Tracked
from tracker.transforms.vmap import vmap

_TIGHT_TOLERANCES = {"epsabs": 0.0, "epsrel": 1e-12}  # of subintervals that serve the derivatives


def _gauss(count: int) -> tuple[Any, Any, Any]:
    """Gauss's rule on (0, 1): the distances of its nodes from 0 and from 1, and the weights."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (1 + nodes) / 2, (1 - nodes) / 2, weights / 2


def _double_exponential(step: float, reach: int) -> tuple[Any, Any, Any]:
    """As `_gauss`, for singular ends (H. Takahasi, M. Mori, 1974)."""
    t = step * np.arange(-reach, reach + 1)
    far = np.pi * np.sinh(t)
    slope = np.pi * np.cosh(t) / (2 + 2 * np.cosh(far))
    return 1 / (1 + np.exp(-far)), 1 / (1 + np.exp(far)), step * slope


_SMOOTH_RULE, _SINGULAR_RULE, _END_RULE = _gauss(21), _double_exponential(0.09, 44), _gauss(4)


@use_scipy_unless_differentiated(scipy.integrate.quad)
def quad(
    func: Any,
    a: Any,
    b: Any,
    args: Any = (),
    full_output: int = 0,
    epsabs: Any = 1.49e-8,
    epsrel: Any = 1.49e-8,
    limit: int = 50,
    **options: Any,
) -> Any:
    """The integral of `func(x, *args)` from a to b, and SciPy's estimate of its error.

    >>> tracker.gradient(lambda k: quad(lambda x: np.exp(-k * x), 0.0, np.inf)[0], 2.0)
    (-0.25...,)
    """
    args = as_tuple(args)
    options |= {"epsabs": epsabs, "epsrel": epsrel, "limit": limit}
    inside = _interior_point(plain_data(a), plain_data(b))
    if not (is_tracked(a, b, *args, *options.values()) or is_tracked(func(inside, *args))):
        return scipy.integrate.quad(func, a, b, args, full_output, **options)
    _refuse_options(full_output=full_output and is_tracing(), **options)
    are_rounded = is_tracing()

    def solve(func: Any, a: Any, b: Any, args: Any, options: Any) -> Any:
        given = (func, a, b, args)
        y, error, *more = scipy.integrate.quad(*given, full_output, **options)
        found = scipy.integrate.quad(*given, True, **{**options, **_TIGHT_TOLERANCES})[2]
        return y, error, _subintervals(found, a, are_rounded), more

    value, error, flat, info = call_solver("quad", solve, func, a, b, args, options)
    integrand, intervals = _finite_integrand(func, a, b), np.reshape(flat, (2, -1))
    y = _apply_rule(integrand, intervals, args, _SMOOTH_RULE)
    if bool(np.abs(y - value) > 1e-10 + 1e-9 * np.abs(value)):
        y = _apply_rule(integrand, intervals, args, _SINGULAR_RULE)
    y = y + _end_term(func, b, args) - _end_term(func, a, args)
    return (with_derivatives_of(value, y), error, *info)


def _refuse_options(**options: Any) -> None:
    for keyword, hint in (
        ("weight", "Multiply by the weight in the function"),
        ("complex_func", "Integrate its real and its imaginary part"),
        ("full_output", "Leave it out under jit"),
    ):
        if options.get(keyword):
            raise no_derivative_rule(f"scipy.integrate.quad with {keyword}=", hint)


def _interior_point(a: float, b: float) -> float:
    """A number between the ends."""
    if math.isinf(a) and math.isinf(b):
        return 0.0
    if math.isinf(a) or math.isinf(b):
        return b - math.copysign(1.0, b - a) if math.isinf(a) else a + math.copysign(1.0, b - a)
    return float(0.5 * (a + b))


def _subintervals(found: Any, start: Any, are_rounded: bool) -> Any:
    """The left ends, then the right ends. `are_rounded`: intervals of length zero make their number
    a power of two, so that there are few traces, and not many nodes without a weight."""
    count = found["last"]
    low, high = found["alist"][:count], found["blist"][:count]
    if not count:  # a == b
        count, low, high = 1, np.array([start]), np.array([start])
    size = 1 << (count - 1).bit_length() if are_rounded else count
    rest = np.full(size - count, 0.5 * (low[0] + high[0]))
    return np.concatenate([low, rest, high, rest])


def _finite_integrand(func: Function, a: Any, b: Any) -> Callable[..., Any]:
    """The function to sum over the subintervals: of x, increasing, or for an infinite end of t from
    0 to 1, as in QUADPACK's QAGI."""
    sign = -1.0 if bool(b < a) else 1.0
    low, high = (b, a) if sign < 0 else (a, b)
    bounded = bool(np.isfinite(low)), bool(np.isfinite(high))
    if all(bounded):
        return lambda x, *args: sign * func(x, *args)
    end = low if bounded[0] else high if bounded[1] else 0.0
    start = ignore_derivatives(end)
    signs = [s for s, closed in ((1.0, bounded[1]), (-1.0, bounded[0])) if not closed]

    def folded(t: Any, *args: Any) -> Any:
        x = (1 - t) / t
        return sign * sum(func(start + s * x, *args) for s in signs) / t**2

    return folded


def _apply_rule(func: Callable[..., Any], intervals: Any, args: tuple[Any, ...], rule: Any) -> Any:
    """The sum of the rule over the subintervals."""
    low, high = np.expand_dims(intervals[0], 1), np.expand_dims(intervals[1], 1)
    up, down, weights = rule
    length, middle = high - low, 0.5 * (low + high)
    x = np.where(up < down, low + length * up, high - length * down)
    inside = (x > low) & (x < high)  # nodes that round to an end get no weight
    x, weights = np.ravel(np.where(inside, x, middle)), np.ravel(np.where(inside, weights, 0))
    if isinstance(x, Tracked):
        values = vmap(lambda at: np.reshape(func(at, *args), ()))(x)
    else:  # one by one, as SciPy calls it
        values = np.stack([np.reshape(func(at, *args), ()) for at in x.tolist()])
    return np.sum(np.ravel(length * np.reshape(weights, np.shape(inside))) * values)


def _end_term(func: Function, end: Any, args: tuple[Any, ...]) -> Any:
    """The integral from an end to itself: zero, with the derivatives of an integral in its end."""
    if not isinstance(end, Tracked) or not bool(np.isfinite(end)):
        return 0.0
    start = ignore_derivatives(end)
    length = end - start
    nodes, _, weights = (part.tolist() for part in _END_RULE)
    with np.errstate(all="ignore"):  # SciPy does not evaluate at the end
        values = [func(start + length * node, *args) for node in nodes]
    if not bool(np.isfinite(values[0])):
        text = (
            f"the function is {plain_data(values[0])} at the end {plain_data(end)}, in which "
            "the integral has no derivative"
        )
        raise UnsupportedError(text, "Use tracker.data on the end where no gradient is wanted")
    return length * sum(w * v for w, v in zip(weights, values, strict=True))


def fixed_quad(func: Any, a: Any, b: Any, args: Any = (), n: int = 5) -> tuple[Any, None]:
    """The integral by Gauss's rule of n nodes; the function is called once with all of them."""
    if bool(np.any(np.isinf(np.stack([a, b])))):
        raise ValueError("Gaussian quadrature is only available for finite limits.")
    nodes, weights = np.polynomial.legendre.leggauss(n)
    x = (b - a) * (nodes + 1) / 2.0 + a
    return (b - a) / 2.0 * np.sum(weights * func(x, *args), axis=-1), None
