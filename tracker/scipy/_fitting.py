"""Least squares: `least_squares` and `curve_fit`, differentiated in the data and in whatever else
the residuals depend on, by the implicit function theorem: at the solution, the slope of the cost
is zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize

from tracker.errors import UnsupportedError, message
from tracker.gradients import gradient
from tracker.jacobians import jacobian
from tracker.leaves import data
from tracker.scipy._implicit import (
    Function,
    as_tuple,
    at_plain,
    changed,
    depends,
    held,
    implicit,
    plainly,
    solved,
    standing_for,
    vector,
)
from tracker.scipy._passing import as_array, is_tracked

# Of the squares of residuals, in units of f_scale: what they cost.
_LOSSES: dict[str, Callable[[Any], Any]] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2 * (np.sqrt(1 + z) - 1),
    "huber": lambda z: np.where(z <= 1, z, 2 * np.sqrt(np.maximum(z, 1)) - 1),
    "cauchy": np.log1p,
    "arctan": np.arctan,
}


def least_squares(
    fun: Any,
    x0: Any,
    jac: Any = "2-point",
    bounds: Any = (-np.inf, np.inf),
    *rest: Any,
    args: Any = (),
    kwargs: Any = None,
    loss: Any = "linear",
    f_scale: Any = 1.0,
    **options: Any,
) -> Any:
    """The least sum of squares; `.x`, `.fun` and `.cost` are differentiable."""
    begin, args, named = vector(x0), as_tuple(args), {} if kwargs is None else dict(kwargs)
    options |= dict(zip(("method", "ftol", "xtol", "gtol", "x_scale"), rest, strict=False))
    options |= {"bounds": bounds, "loss": loss, "f_scale": f_scale}

    def residuals(x: Any, *now: Any) -> Any:
        r = fun(x, *now, **named)
        return np.reshape(np.stack(r) if isinstance(r, (list, tuple)) else r, (-1,))

    if not depends(residuals, begin, args):
        return scipy.optimize.least_squares(fun, x0, jac, args=args, kwargs=kwargs, **options)
    if loss not in _LOSSES:
        raise UnsupportedError(
            message(
                "scipy.optimize.least_squares with a loss= of your own has no derivative rule here",
                f"Use one of {', '.join(map(repr, _LOSSES))}",
            )
        )

    def solve(start: Any, *now: Any) -> Any:
        slopes = _given(jac, named)
        return scipy.optimize.least_squares(plainly(residuals), start, slopes, args=now, **options)

    def cost(x: Any, *now: Any) -> Any:
        z = (residuals(x, *now) / f_scale) ** 2
        return 0.5 * f_scale**2 * np.sum(_LOSSES[loss](z))

    found = solved(solve, begin, args, "least_squares", at_plain(residuals, begin, args))
    x = _least(cost, found.x, args, bounds, "least_squares")
    return changed(found, x=x, fun=residuals(x, *args), cost=cost(x, *args))


def _given(jac: Any, named: dict[str, Any]) -> Any:
    """The user's jacobian as SciPy can call it, or the name of SciPy's own."""
    return plainly(lambda x, *now: jac(x, *now, **named)) if callable(jac) else jac


def _least(cost: Function, x: Any, args: tuple[Any, ...], bounds: Any, name: str) -> Any:
    """The minimum that SciPy has found, as a function of what the cost depends on."""

    def stationary(x: Any, *now: Any) -> Any:
        return gradient(lambda at: cost(at, *now), x)[0]

    low, high = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds
    if not is_tracked(low, high) and np.all(np.isinf(low)) and np.all(np.isinf(high)):
        return implicit(stationary, x, args, name)
    return implicit(held(stationary, x, args, as_array(low), as_array(high)), x, args, name)


def curve_fit(
    f: Any,
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    *rest: Any,
    bounds: Any = (-np.inf, np.inf),
    jac: Any = None,
    full_output: bool = False,
    **options: Any,
) -> Any:
    """The parameters that fit a function to data, and their covariance; both are differentiable in
    the data, in `sigma`, and in what the function captures."""
    options |= dict(zip(("check_finite",), rest, strict=False))
    start = () if p0 is None else (as_array(p0),)

    def fitted(x: Any, y: Any, *more: Any) -> Any:
        begin, sigmas = (more[-1], more[:-1]) if start else (None, more)
        return scipy.optimize.curve_fit(
            plainly(f), x, y, begin, *(sigmas or (None,)), absolute_sigma, bounds=bounds,
            jac=slopes, full_output=full_output, **options,
        )  # fmt: skip

    slopes = plainly(jac) if callable(jac) else jac
    xdata, ydata = as_array(xdata) if _is_data(xdata) else xdata, as_array(ydata)
    args = (ydata,) if sigma is None else (ydata, as_array(sigma))

    def solve(*given: Any) -> dict[str, Any]:
        names = ("parameters", "covariance", "more", "message", "flag")
        found: dict[str, Any] = dict(zip(names, fitted(*given), strict=False))
        more: dict[str, Any] = found.pop("more", {})
        return found | more

    def probe() -> Any:
        return f(data(xdata), *fitted(*map(data, (xdata, *args, *start)))[0])

    found = solved(solve, xdata, (*args, *start), "curve_fit", probe)
    p, given = found.pop("parameters"), found.pop("covariance")
    rest = (found, found.pop("message"), found.pop("flag")) if full_output else ()
    if not is_tracked(xdata, *args, f(xdata, *(p[i] for i in range(np.size(p))))):
        return p, given, *rest

    def residuals(p: Any, y: Any, sigma: Any = None) -> Any:
        r = np.reshape(f(xdata, *(p[i] for i in range(np.size(p)))) - y, (-1,))
        if sigma is None:
            return r
        return np.linalg.solve(np.linalg.cholesky(sigma), r) if np.ndim(sigma) == 2 else r / sigma

    def cost(p: Any, *now: Any) -> Any:
        return 0.5 * np.sum(residuals(p, *now) ** 2)

    p = _least(cost, p, args, bounds, "curve_fit")
    (slope,) = jacobian(lambda at: residuals(at, *args), p)
    covariance = np.linalg.inv(np.transpose(slope) @ slope)
    count = np.size(ydata) - np.size(p)
    if not absolute_sigma and count > 0:
        covariance = covariance * (2 * cost(p, *args) / count)
    if count > 0 or absolute_sigma:
        given = standing_for(given, covariance)
    return p, given, *rest


def _is_data(x: Any) -> bool:
    """Whether it is numbers, which SciPy makes an array; functions may take other objects."""
    return isinstance(x, (list, tuple, np.ndarray))
