"""Optimisers that use curvature: `lbfgs` for a scalar, `gauss_newton` and `levenberg_marquardt` for
sums of squares, over structures of parameters.

They need no SciPy. Their loops are `while_loop`s: of a jitted function, and inside of one, the
whole optimisation is compiled. No matrix is made: the curvature of sums of squares is that of
products with the Jacobian and its transpose, by conjugate gradients.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from tracker import tree
from tracker.autodiff.boundary import compiled_derivative
from tracker.autodiff.pullbacks import pullback, pushforward
from tracker.control import while_loop
from tracker.errors import NonFiniteError, NotScalarError
from tracker.implicit.krylov import cg
from tracker.optim.objective import Objective

_LEAST_DECREASE, _LEAST_CURVATURE = 1e-4, 0.9  # of a line search: the conditions of Wolfe
_MOST_TRIALS = 40  # of a line search
_CG_TOLERANCE = 1e-8
_F = TypeVar("_F", bound=Callable[..., Any])
_RUNNING, _SMALL_GRADIENT, _SMALL_DECREASE, _STUCK = range(4)
_MESSAGES = {
    _RUNNING: "maxiter steps were made, and the gradient is still larger than gtol",
    _SMALL_GRADIENT: "the gradient is at most gtol",
    _SMALL_DECREASE: "the last step lowered the value by at most ftol, relatively",
    _STUCK: "no step along the direction of descent lowers the value",
}


def _compiled_if_jitted(optimise: _F) -> _F:
    """Decorator: of a jitted function, compile the optimisation as derivatives are."""

    @functools.wraps(optimise)
    def run(f: Callable[..., Any], x0: Any, *args: Any, **options: Any) -> Any:
        key = optimise.__name__, *sorted(options.items())
        compiled = compiled_derivative(
            f, key, lambda g: lambda x0, *args: optimise(g, x0, *args, **options)
        )
        return optimise(f, x0, *args, **options) if compiled is None else compiled(x0, *args)

    return cast(_F, run)


class OptimizeResult(NamedTuple):
    """What an optimiser found; the names are those of `scipy.optimize.OptimizeResult`.

    Attributes
    ----------
    x
        The parameters, in the structure of the start.
    fun : float
        The value there; for `gauss_newton` and `levenberg_marquardt` half the sum of squares.
    nit : int
        How many steps were made.
    success : bool
        Whether the gradient or the last decrease was as small as was asked for.
    message : str
        Why it stopped.
    """

    x: Any
    fun: Any
    nit: Any
    success: bool
    message: str


@_compiled_if_jitted
def lbfgs(
    f: Callable[..., Any],
    x0: Any,
    *args: Any,
    history: int = 10,
    maxiter: int = 1000,
    gtol: float = 1e-5,
    ftol: float = 2.2e-9,
) -> OptimizeResult:
    """Minimise a scalar function by L-BFGS.

    Parameters
    ----------
    f : callable
        Of the parameters and `args`; its result is a real scalar. If it is jitted, the whole
        optimisation is compiled.
    x0
        The start: a number, an array, or any structure. Integers, bools and text inside structures
        stay as they are, and what is not `trainable`.
    *args
        Passed to `f`.
    history : int
        How many steps the curvature is taken from.
    maxiter : int
        The largest number of steps.
    gtol : float
        Stop where no element of the gradient is larger.
    ftol : float
        Stop where a step lowers the value by less, relative to the larger of 1 and the values.

    Returns
    -------
    OptimizeResult
        `success` is False, and `message` says why, where neither tolerance was reached.

    Raises
    ------
    NonFiniteError
        The value or the gradient at the start is infinite or NaN.

    See Also
    --------
    minimize

    Notes
    -----
    The two loops of [1]_, and a line search that bisects for the weak conditions of Wolfe. The
    tolerances are those of SciPy's L-BFGS-B, which `minimize` runs; `lbfgs` has no bounds, and
    needs no SciPy.

    References
    ----------
    .. [1] J. Nocedal, Updating quasi-Newton matrices with limited storage, 1980.

    Examples
    --------
    >>> result = lbfgs(lambda p: (p["a"] - 1.0) ** 2 + np.sum(p["b"] ** 4), {"a": 0.0, "b": [0.5]})
    >>> round(result.x["a"], 4), result.success
    (1.0, True)
    """
    objective = Objective(f, x0, "lbfgs")

    def evaluate(x: Any) -> tuple[Any, Any]:
        value, g = objective.value_and_gradient(x, *args)
        if np.ndim(value):
            raise NotScalarError(
                f"lbfgs needs a scalar; f gave shape {np.shape(value)}", "Use np.sum"
            )
        return 1.0 * value, g

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        x, value, g, steps, changes, weights, count, _ = state
        direction = -_inverse_hessian_product(g, steps, changes, weights, count)
        first = np.where(count == 0, np.minimum(1.0, 1.0 / np.sum(np.abs(g))), 1.0)
        length, new, new_g = _line_search(evaluate, x, value, g, direction, first)
        new_g = np.where(new < value, new_g, g)
        moved, changed = length * direction, new_g - g
        curvature = moved @ changed
        kept = curvature > 0
        at = np.expand_dims(np.arange(history) == count % history, 1) & kept
        weight = 1.0 / np.where(kept, curvature, 1.0)
        least = ftol * np.maximum(1.0, np.abs(value))
        status = _status(new_g, value, new, -g @ direction, gtol, least)
        return (
            *_better(x, value, x + moved, new),
            new_g,
            np.where(at, moved, steps),
            np.where(at, changed, changes),
            np.where(at[:, 0], weight, weights),
            count + 1,
            status,
        )

    value, g = evaluate(objective.start)
    _refuse_nonfinite("lbfgs", objective, value, g)
    empty = np.zeros((history, np.size(g)))
    status = np.where(np.max(np.abs(g)) <= gtol, _SMALL_GRADIENT, _RUNNING)
    start = (objective.start, value, g, empty, empty, np.zeros(history), 0, status)
    end = _iterate(step, start, maxiter)
    return _result(objective, end[0], end[1], end[-2], end[-1])


def _inverse_hessian_product(g: Any, steps: Any, changes: Any, weights: Any, count: Any) -> Any:
    """The inverse Hessian times g. Rows that have not been filled have the weight 0."""
    size = len(weights)
    q, parts = g, []
    for i in range(size):
        at = (count - 1 - i) % size
        part = weights[at] * (steps[at] @ q)
        q = q - part * changes[at]
        parts.append((at, part))
    last = (count - 1) % size
    square = changes[last] @ changes[last]
    scale = np.where(square > 0, 1.0 / (np.where(square > 0, square * weights[last], 1.0)), 1.0)
    q = scale * q
    for at, part in reversed(parts):
        q = q + (part - weights[at] * (changes[at] @ q)) * steps[at]
    return q


def _line_search(
    evaluate: Callable[[Any], Any], x: Any, value: Any, g: Any, direction: Any, first: Any
) -> tuple[Any, Any, Any]:
    """A length with the weak conditions of Wolfe, or the last one of many; and the value and the
    gradient there."""
    slope = g @ direction

    def trial(state: tuple[Any, ...]) -> tuple[Any, ...]:
        _, length, low, high, _, _, _, count = state
        new, new_g = evaluate(x + length * direction)
        is_low = new <= value + _LEAST_DECREASE * length * slope
        is_flat = new_g @ direction >= _LEAST_CURVATURE * slope
        high = np.where(is_low, high, length)
        low = np.where(is_low, length, low)
        bounded = np.isfinite(high)
        following = np.where(bounded, 0.5 * (low + np.where(bounded, high, 0.0)), 2.0 * low)
        return length, following, low, high, new, new_g, is_low & is_flat, count + 1

    zero = 0.0 * value
    start = (zero, first, zero, zero + np.inf, value, g, value != value, 0)
    length, _, _, _, new, new_g, _, _ = while_loop(
        lambda state: np.logical_not(state[6]) & (state[7] < _MOST_TRIALS), trial, start
    )
    return length, new, new_g


# Sums of squares ----------------------------------------------------------------------------------


@_compiled_if_jitted
def gauss_newton(
    residuals: Callable[..., Any],
    x0: Any,
    *args: Any,
    maxiter: int = 100,
    gtol: float = 1e-8,
    ftol: float = 1e-12,
) -> OptimizeResult:
    """Minimise half the sum of squared residuals by the method of Gauss and Newton.

    Parameters
    ----------
    residuals : callable
        Of the parameters and `args`; gives an array, a number or a structure of them. If it is
        jitted, the whole optimisation is compiled.
    x0, *args
        As for `lbfgs`.
    maxiter : int
        The largest number of steps.
    gtol : float
        Stop where no element of the gradient is larger.
    ftol : float
        Stop where a step lowers the value by less, or would, relative to the value.

    Returns
    -------
    OptimizeResult
        As from `lbfgs`.

    Raises
    ------
    NonFiniteError
        The residuals at the start are infinite or NaN.

    See Also
    --------
    levenberg_marquardt

    Notes
    -----
    Each step solves the linear least-squares problem by conjugate gradients, with products with the
    Jacobian (`pushforward`) and its transpose (`pullback`), and is halved until it lowers the sum.

    Examples
    --------
    >>> t = np.arange(3.0)
    >>> result = gauss_newton(lambda p: np.exp(p["rate"] * t) - 2.0**t, {"rate": 0.5})
    >>> round(result.x["rate"], 6)
    0.693147
    """
    model = _SumOfSquares("gauss_newton", residuals, x0, args)

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        x, value, count, _ = state
        g, product = model.linearize(x)
        direction = -cg(product, g, _CG_TOLERANCE, 2 * np.size(g) + 10)

        def halve(state: tuple[Any, ...]) -> tuple[Any, ...]:
            length, _, trials = state
            return 0.5 * length, model.value(x + 0.5 * length * direction), trials + 1

        length, new, _ = while_loop(
            lambda state: np.logical_not(state[1] < value) & (state[2] < _MOST_TRIALS),
            halve,
            (np.ones_like(value), model.value(x + direction), 0),
        )
        status = _status(g, value, new, -0.5 * (g @ direction), gtol, ftol * value)
        return (*_better(x, value, x + length * direction, new), count + 1, status)

    start = (model.start, model.first_value(), 0, _RUNNING)
    x, value, count, status = _iterate(step, start, maxiter)
    return _result(model, x, value, count, status)


@_compiled_if_jitted
def levenberg_marquardt(
    residuals: Callable[..., Any],
    x0: Any,
    *args: Any,
    maxiter: int = 200,
    gtol: float = 1e-8,
    ftol: float = 1e-12,
) -> OptimizeResult:
    """Minimise half the sum of squared residuals by the method of Levenberg and Marquardt.

    Parameters
    ----------
    residuals, x0, *args, maxiter, gtol, ftol
        As for `gauss_newton`.

    Returns
    -------
    OptimizeResult
        As from `lbfgs`.

    Raises
    ------
    NonFiniteError
        The residuals at the start are infinite or NaN.

    See Also
    --------
    gauss_newton

    Notes
    -----
    As `gauss_newton`, with damped steps in place of halved ones, by the rule of [1]_: for starts
    far away, and parameters that the residuals hardly tell apart.

    References
    ----------
    .. [1] H. Nielsen, Damping parameter in Marquardt's method, 1999.

    Examples
    --------
    >>> def valley(x):
    ...     return np.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])
    >>> result = levenberg_marquardt(valley, [-1.2, 1.0])
    >>> result.x.round(6), result.success
    (array([1., 1.]), True)
    """
    model = _SumOfSquares("levenberg_marquardt", residuals, x0, args)

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        x, value, damping, growth, count, _ = state
        g, product = model.linearize(x)
        direction = -cg(lambda v: product(v) + damping * v, g, _CG_TOLERANCE, 2 * np.size(g) + 10)
        new = model.value(x + direction)
        predicted = 0.5 * (direction @ (damping * direction - g))
        ratio = (value - new) / np.where(predicted > 0, predicted, 1.0)
        good = ratio > 0  # not where the new value is a NaN
        ratio = np.where(good, ratio, 0.0)
        along = g @ product(g)  # a large damping makes steps small, but not the decrease along g
        possible = 0.5 * (g @ g) ** 2 / np.where(along > 0, along, 1.0)
        status = _status(g, value, new, possible, gtol, ftol * value)
        waiting = (status == _STUCK) & (growth < 2.0**_MOST_TRIALS)
        eased = damping * np.maximum(1 / 3, 1 - (2 * ratio - 1) ** 3)
        return (
            *_better(x, value, x + direction, new),
            np.where(good, eased, damping * growth),
            np.where(good, 2.0, 2.0 * growth),
            count + 1,
            np.where(waiting, _RUNNING, status),
        )

    value = model.first_value()
    g, product = model.linearize(model.start)
    square = np.where(g @ g > 0, g @ g, 1.0)
    damping = 1e-3 * (g @ product(g)) / square  # of the curvature along the gradient
    start = (model.start, value, damping, 2.0, 0, _RUNNING)
    end = _iterate(step, start, maxiter)
    return _result(model, end[0], end[1], end[-2], end[-1])


class _SumOfSquares(Objective):
    """Half the sum of squared residuals, as a function of vectors."""

    def __init__(self, name: str, residuals: Callable[..., Any], x0: Any, args: Any) -> None:
        super().__init__(residuals, x0, name)
        self.name, self.residuals = name, self.of_structures(args)

    def value(self, x: Any, *args: Any) -> Any:
        r = tree.ravel(self.residuals(self.restore(x)))[0]
        return 0.5 * (r @ r)

    def first_value(self) -> Any:
        value = self.value(self.start)
        _refuse_nonfinite(self.name, self, value)
        return value

    def linearize(self, x: Any) -> tuple[Any, Callable[[Any], Any]]:
        """The gradient J^T r, and the product with J^T J."""
        at = self.restore(x)
        y, pull = pullback(self.residuals, at)
        _, push = pushforward(self.residuals, at)
        r, restore = tree.ravel(y)

        def transposed(v: Any) -> Any:
            return self.vector(pull(restore(v))[0])

        return transposed(r), lambda v: transposed(tree.ravel(push(self.tangent(v)))[0])


# The common loop ----------------------------------------------------------------------------------


def _iterate(step: Callable[..., Any], start: tuple[Any, ...], maxiter: int) -> Any:
    """Steps of a state that ends with their number and the status."""
    return while_loop(lambda state: (state[-1] == _RUNNING) & (state[-2] < maxiter), step, start)


def _better(x: Any, value: Any, new_x: Any, new: Any) -> tuple[Any, Any]:
    """The point with the lower value, and that value."""
    return np.where(new < value, new_x, x), np.where(new < value, new, value)


def _status(g: Any, value: Any, new: Any, predicted: Any, gtol: float, least: Any) -> Any:
    """The status after a step: of its gradient, and of its decrease: that found, or else the one
    predicted."""
    small = np.where(new < value, value - new, predicted) <= least
    status = np.where(small, _SMALL_DECREASE, np.where(new < value, _RUNNING, _STUCK))
    return np.where(np.max(np.abs(g)) <= gtol, _SMALL_GRADIENT, status)


def _refuse_nonfinite(name: str, objective: Objective, *found: Any) -> None:
    if all(bool(np.all(np.isfinite(x))) for x in found):
        return
    shapes = ", ".join(str(np.shape(leaf)) for leaf in objective.leaves)
    text = f"{name}: the value or the gradient at the start (shapes {shapes}) is NaN or infinite"
    raise NonFiniteError(text, "Start where the function is finite")


def _result(objective: Objective, x: Any, value: Any, count: Any, status: Any) -> OptimizeResult:
    ended = int(status)
    success = ended in (_SMALL_GRADIENT, _SMALL_DECREASE)
    return OptimizeResult(objective.restore(x), value[()], count, success, _MESSAGES[ended])
