"""`minimize`: `scipy.optimize.minimize` over structures of parameters, with their derivatives.

SciPy sees the vector that `tracker.tree.ravel` makes of the parameters; the function and its
derivatives see the structure, so that those of a jitted function run compiled.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from tracker.errors import message
from tracker.optim.objective import Objective

_WITHOUT_GRADIENT = ("nelder-mead", "powell", "cobyla", "cobyqa")
_WITH_HESSIAN_PRODUCT = ("newton-cg", "trust-ncg", "trust-krylov", "trust-constr")
_WITH_HESSIAN = ("dogleg", "trust-exact")


def minimize(
    f: Callable[..., Any],
    params: Any,
    method: Any = None,
    *,
    jac: bool | None = None,
    bounds: Any = None,
    **options: Any,
) -> Any:
    """Minimise a scalar function of parameters with one of SciPy's methods.

    Parameters
    ----------
    f : callable
        Of the parameters; its result is a real scalar. If it is jitted, value and derivatives run
        compiled.
    params
        The start: a number, an array, or any structure. Integers, bools and text inside structures
        stay as they are, and what is not `trainable`.
    method : str, optional
        As for `scipy.optimize.minimize`. Those of Newton get products with the hessian.
    jac : bool, optional
        True where `f` returns (value, gradient) itself, as `tracker.distributed` has it.
    bounds : optional
        In the structure of the parameters: for each leaf a pair (lower, upper) for all of its
        elements, an array of such pairs, or SciPy's `Bounds`; None where there is no bound.
    **options
        Other keywords of SciPy's: `args`, `tol`, `options`, ...; callbacks, constraints and a
        Hessian of your own get the vector of `tracker.tree.ravel`.

    Returns
    -------
    scipy.optimize.OptimizeResult
        Its `x` has the structure of the parameters.

    Examples
    --------
    >>> result = minimize(lambda m: (m["x"] - 1.0) ** 2 + m["n"], {"x": 0.0, "n": 2})
    >>> round(result.x["x"], 6), result.x["n"]
    (1.0, 2)
    """
    optimize = _scipy_optimize()
    if jac not in (None, True):
        text = "minimize computes the gradient itself, and got another as jac="
        raise TypeError(message(text, "Leave jac= out, or give jac=True where f returns both"))
    objective = Objective(f, params, "minimize", gives_gradient=jac is True)
    name = method.lower() if isinstance(method, str) else ""
    derivatives: dict[str, Any] = {} if name in _WITHOUT_GRADIENT else {"jac": True}
    if name in _WITH_HESSIAN_PRODUCT and not jac:
        derivatives["hessp"] = objective.hessian_product
    if name in _WITH_HESSIAN and not jac:
        derivatives["hess"] = objective.hessian
    result = optimize.minimize(
        objective.value_and_gradient if derivatives else objective.value,
        objective.start,
        method=method,
        bounds=None if bounds is None else optimize.Bounds(*objective.limits(bounds)),
        **(derivatives | options),
    )
    result.x = objective.restore(result.x)
    return result


def _scipy_optimize() -> Any:
    try:
        return importlib.import_module("scipy.optimize")
    except ImportError as error:
        raise ImportError(
            "tracker.optim.minimize needs SciPy, which is not installed. Type: "
            "pip install 'tracker-grad[scipy]'"
        ) from error
