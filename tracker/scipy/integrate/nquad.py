"""Integrals over several variables: nested calls of `quad`, as in SciPy. Compiled code calls back
once for the whole integral, and once for each derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import scipy.integrate

from tracker.autodiff.leaves import plain_data
from tracker.scipy._bridge.callback import differentiable_callback, use_scipy_unless_differentiated
from tracker.scipy._bridge.fallback import is_tracked, no_derivative_rule
from tracker.scipy._bridge.implicit import as_tuple
from tracker.scipy.integrate.quad import quad
from tracker.tape.observers import is_tracing


def _bound_at(bound: Any, *outer: Any) -> Any:
    return bound(*outer) if callable(bound) else bound


@use_scipy_unless_differentiated(scipy.integrate.nquad)
def nquad(
    func: Callable[..., Any],
    ranges: Any,
    args: Any = None,
    opts: Any = None,
    full_output: bool = False,
) -> Any:
    """The integral of func(x0, x1, ..., *args); `ranges` and `opts` as SciPy's."""
    if is_tracing():
        return differentiable_callback("nquad", nquad, func, ranges, args, opts, full_output)
    args = () if args is None else as_tuple(args)
    count = len(ranges)
    limits = [r if callable(r) else (lambda *outer, r=r: r) for r in ranges]
    given = opts if isinstance(opts, (list, tuple)) else [{} if opts is None else opts] * count
    options = [o if callable(o) else (lambda *outer, o=o: o) for o in given]
    if not _integral_is_tracked(func, limits, args):
        return scipy.integrate.nquad(func, ranges, args or None, opts, full_output)
    if full_output:
        raise no_derivative_rule("scipy.integrate.nquad with full_output=", "Leave it out")
    errors: list[Any] = []

    def over(depth: int, *outer: Any) -> Any:
        """The integral over the variables up to this one, which comes before `outer`."""
        low, high = limits[depth](*outer)

        def inside(x: Any, *rest: Any) -> Any:
            return func(x, *rest) if depth == 0 else over(depth - 1, x, *rest)

        value, error = quad(inside, low, high, outer, **options[depth](*outer))[:2]
        errors.append(plain_data(error))
        return value

    value = over(count - 1, *args)
    return value, max(errors)


def _integral_is_tracked(func: Any, limits: list[Any], args: tuple[Any, ...]) -> bool:
    """Whether the integral will be tracked, judged at the middle of the ranges."""
    point: list[Any] = list(args)
    for limit in reversed(limits):
        low, high = limit(*point)
        if is_tracked(low, high):
            return True
        point.insert(0, 0.5 * (max(low, -1e3) + min(high, 1e3)))
    return is_tracked(*args, func(*point))


@use_scipy_unless_differentiated(scipy.integrate.dblquad)
def dblquad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    gfun: Any,
    hfun: Any,
    args: Any = (),
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
) -> Any:
    """The integral of func(y, x) for x from a to b and y from gfun(x) to hfun(x)."""
    if is_tracing():
        return differentiable_callback(
            "dblquad", dblquad, func, a, b, gfun, hfun, args, epsabs, epsrel
        )
    inner = lambda x, *_: (_bound_at(gfun, x), _bound_at(hfun, x))  # noqa: E731
    return nquad(func, [inner, (a, b)], args, {"epsabs": epsabs, "epsrel": epsrel})


@use_scipy_unless_differentiated(scipy.integrate.tplquad)
def tplquad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    gfun: Any,
    hfun: Any,
    qfun: Any,
    rfun: Any,
    args: Any = (),
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
) -> Any:
    """The integral of func(z, y, x) for x from a to b, y from gfun(x) to hfun(x), z from qfun(x, y)
    to rfun(x, y)."""

    if is_tracing():
        within = (a, b, gfun, hfun, qfun, rfun, args, epsabs, epsrel)
        return differentiable_callback("tplquad", tplquad, func, *within)

    def innermost(y: Any, x: Any, *_: Any) -> Any:
        return _bound_at(qfun, x, y), _bound_at(rfun, x, y)

    def middle(x: Any, *_: Any) -> Any:
        return _bound_at(gfun, x), _bound_at(hfun, x)

    options = {"epsabs": epsabs, "epsrel": epsrel}
    return nquad(func, [innermost, middle, (a, b)], args, options)
