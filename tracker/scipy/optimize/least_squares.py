"""`least_squares` and `curve_fit`, differentiated in the data and in what else the residuals depend
on, by the implicit function theorem: the gradient of the cost is zero at the solution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize

from tracker.implicit.solution import with_derivatives_of
from tracker.scipy._bridge.callback import (
    Function,
    call_scipy,
    call_solver,
    use_scipy_unless_differentiated,
)
from tracker.scipy._bridge.fallback import as_array, is_tracked, no_derivative_rule
from tracker.scipy._bridge.implicit import (
    as_tuple,
    depends_on_tracked,
    implicit_solution,
    minimum_condition,
    start_vector,
    with_entries,
)
from tracker.transforms.jacobians import jacobian

# The cost of squared residuals, in units of f_scale.
_LOSSES: dict[str, Callable[[Any], Any]] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2 * (np.sqrt(1 + z) - 1),
    "huber": lambda z: np.where(z <= 1, z, 2 * np.sqrt(np.maximum(z, 1)) - 1),
    "cauchy": np.log1p,
    "arctan": np.arctan,
}


@use_scipy_unless_differentiated(scipy.optimize.least_squares)
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
    start, args, named = start_vector(x0), as_tuple(args), {} if kwargs is None else dict(kwargs)
    options |= dict(zip(("method", "ftol", "xtol", "gtol", "x_scale"), rest, strict=False))
    options |= {"bounds": bounds, "loss": loss, "f_scale": f_scale}

    def residuals(x: Any, *params: Any) -> Any:
        return np.reshape(as_array(fun(x, *params, **named)), (-1,))

    if not depends_on_tracked(residuals, start, args, kwargs, options):
        return scipy.optimize.least_squares(fun, x0, jac, args=args, kwargs=kwargs, **options)
    if loss not in _LOSSES:
        raise no_derivative_rule(
            "scipy.optimize.least_squares with a loss= of your own",
            f"Use one of {', '.join(map(repr, _LOSSES))}",
        )

    def cost(x: Any, *params: Any) -> Any:
        z = (residuals(x, *params) / f_scale) ** 2
        return 0.5 * f_scale**2 * np.sum(_LOSSES[loss](z))

    options["bounds"] = _lower_and_upper(bounds)
    theirs = scipy.optimize.least_squares
    found = call_scipy(theirs, fun, start, jac, args=args, kwargs=named, **options)
    x = _differentiable_minimum(cost, found.x, args, bounds, "least_squares")
    return with_entries(found, x=x, fun=residuals(x, *args), cost=cost(x, *args))


def _lower_and_upper(bounds: Any) -> tuple[Any, Any]:
    """The lower and upper bounds."""
    return (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds


def _differentiable_minimum(
    cost: Function, x: Any, args: tuple[Any, ...], bounds: Any, name: str
) -> Any:
    """SciPy's minimum, as a function of what the cost depends on."""
    low, high = _lower_and_upper(bounds)
    if not is_tracked(low, high) and np.all(np.isinf(low)) and np.all(np.isinf(high)):
        condition = minimum_condition(cost, x, args)
    else:
        condition = minimum_condition(cost, x, args, as_array(low), as_array(high))
    return implicit_solution(condition, x, args, name)


@use_scipy_unless_differentiated(scipy.optimize.curve_fit)
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
    the data, in `sigma`, and in captured values."""
    options |= dict(zip(("check_finite",), rest, strict=False))
    options |= {"bounds": _lower_and_upper(bounds), "jac": jac, "absolute_sigma": absolute_sigma}
    xdata, ydata = as_array(xdata) if _is_array_like(xdata) else xdata, as_array(ydata)
    sigma = None if sigma is None else as_array(sigma)
    args = (ydata,) if sigma is None else (ydata, sigma)

    def solve(f: Any, x: Any, y: Any, start: Any, sigma: Any, options: Any) -> Any:
        found = scipy.optimize.curve_fit(f, x, y, start, sigma, full_output=full_output, **options)
        names = ("parameters", "covariance", "more", "message", "flag")
        named = dict(zip(names, found, strict=False))
        return named | named.pop("more", {})

    found = call_solver("curve_fit", solve, f, xdata, ydata, p0, sigma, options)
    p, given = found.pop("parameters"), found.pop("covariance")
    rest = (found, found.pop("message"), found.pop("flag")) if full_output else ()
    if not is_tracked(xdata, *args, f(xdata, *(p[i] for i in range(np.size(p))))):
        return p, given, *rest

    def residuals(p: Any, y: Any, sigma: Any = None) -> Any:
        r = np.reshape(f(xdata, *(p[i] for i in range(np.size(p)))) - y, (-1,))
        if sigma is None:
            return r
        return np.linalg.solve(np.linalg.cholesky(sigma), r) if np.ndim(sigma) == 2 else r / sigma

    def cost(p: Any, *params: Any) -> Any:
        return 0.5 * np.sum(residuals(p, *params) ** 2)

    p = _differentiable_minimum(cost, p, args, bounds, "curve_fit")
    (slope,) = jacobian(lambda at: residuals(at, *args), p)
    covariance = np.linalg.inv(np.transpose(slope) @ slope)
    count = np.size(ydata) - np.size(p)
    if not absolute_sigma and count > 0:
        covariance = covariance * (2 * cost(p, *args) / count)
    if count > 0 or absolute_sigma:
        given = with_derivatives_of(given, covariance)
    return p, given, *rest


def _is_array_like(x: Any) -> bool:
    """Whether SciPy would make it an array; functions may take other objects as xdata."""
    return isinstance(x, (list, tuple, np.ndarray))
