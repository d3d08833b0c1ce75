"""Ordinary differential equations: SciPy integrates forwards; the adjoint equation, integrated
backwards between requested times, gives the gradient (L. Pontryagin).

With a(t) the cotangent of y(t): da/dt = -(df/dy)' a, and the cotangents of args accumulate
(df/dargs)' a. The backward integration restarts from the forward solution at each requested time,
so that an equation that is unstable backwards does no harm over short intervals; if it still leaves
the forward solution, as for stiff equations, the gradient is refused. The backward integration is
differentiable in the same way, hence second derivatives. Compiled code calls back once for the
solution, and once for each derivative.

Invariant: the right-hand side depends on `args` only (numbers and arrays, also in lists, tuples and
dicts); captured tracked values are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.integrate

from tracker import tree
from tracker.autodiff.custom_rules import custom_gradient
from tracker.autodiff.leaves import plain_data
from tracker.autodiff.pullbacks import pullback
from tracker.errors import UnsupportedError, message
from tracker.scipy._bridge.callback import (
    call_scipy,
    differentiable_callback,
    use_scipy_unless_differentiated,
)
from tracker.scipy._bridge.fallback import as_array, is_tracked, no_derivative_rule
from tracker.scipy._bridge.implicit import as_tuple, start_vector, with_entries
from tracker.tape.observers import is_deriving, is_tracing
from tracker.tape.record import aval_of
from tracker.tape.tracked import Tracked

RightHandSide = Callable[..., Any]  # f(y, t, *args)
Solver = Callable[..., Any]  # solver(f, y0, t, args) -> ys, plain


def _as_vector(y: Any) -> Any:
    return np.stack(y) if isinstance(y, (list, tuple)) else as_array(y)


def _integrate(
    f: RightHandSide, y0: Any, t: Any, args: tuple[Any, ...], solver: Solver, backwards: Solver
) -> Any:
    """The solution at the times t, the first of which is the time of y0: shape (len(t), len(y0)).
    `backwards` solves the adjoint equation, whose state has another size."""
    if not is_tracked(y0, t, *args):
        return solver(_without_captures(f), y0, t, args)

    @custom_gradient
    def flow(y0: Any, t: Any, *args: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
        ys = _integrate(f, y0, t, args, solver, backwards)
        return ys, lambda g: _integrate_adjoint(f, ys, t, args, g, backwards)

    return flow(y0, t, *args)


def _without_captures(f: RightHandSide) -> RightHandSide:
    """The function, with an error where its result depends on captured tracked values."""

    def call(*args: Any) -> Any:
        dy = f(*args)
        if is_tracked(*dy) if isinstance(dy, (list, tuple)) else is_tracked(dy):
            text = "the function of a differential equation captures a tracked value"
            raise UnsupportedError(message(text, "Pass what it depends on through args="))
        return dy

    return call


def _integrate_adjoint(
    f: RightHandSide, ys: Any, t: Any, args: tuple[Any, ...], g: Any, solver: Solver
) -> tuple[Any, ...]:
    """The cotangents of y0, t and args, given those of the solution at the times."""
    n = np.shape(ys)[-1]
    sizes = [int(np.size(a)) for a in args]
    shapes = [np.shape(a) for a in args]

    extent = np.max(np.abs(plain_data(ys)), axis=0)
    extent = np.maximum(extent, 1e-3 * np.max(extent, initial=0.0))

    def backwards(state: Any, s: Any, *args: Any) -> Any:
        """Of (y, a, gathered), in the time s = -t."""
        y, a = state[:n], state[n : 2 * n]
        _check_backward_path(y, 0.0, 1e6 * extent)
        _check_backward_path(a, 0.0, 1e300)
        out, pull = pullback(lambda y, *args: _as_vector(f(y, -s, *args)), y, *args)
        by_y, *by_args = pull(-a)
        gathered = [_flat_cotangent(c, x) for c, x in zip(by_args, args, strict=True)]
        return np.concatenate([-out, -by_y, *(-c for c in gathered)])

    a, first = g[-1], 0 * g[-1]
    summed = np.concatenate([np.zeros_like(np.reshape(1.0 * x, (-1,))) for x in (*args, ys[0])])
    summed = summed[: sum(sizes)]
    times: list[Any] = [None] * np.shape(ys)[0]
    for i in range(np.shape(ys)[0] - 1, 0, -1):
        if not isinstance(a, Tracked) and not np.any(a):  # no cotangent from here on
            times[i], a, first = 0.0, g[i - 1], a
            continue
        times[i] = _time_cotangent(f(ys[i], t[i], *args), g[i])
        start = np.concatenate([ys[i], a, summed])
        end = _integrate(backwards, start, np.stack([-t[i], -t[i - 1]]), args, solver, solver)[-1]
        _check_backward_path(end[:n], ys[i - 1], 0.1 * extent)
        a = end[n : 2 * n] + g[i - 1]
        summed = end[2 * n :]
        first = end[n : 2 * n]
    times[0] = -_time_cotangent(f(ys[0], t[0], *args), first)
    by_args = []
    at = 0
    for x, size, shape in zip(args, sizes, shapes, strict=True):
        gathered = np.reshape(summed[at : at + size], shape)
        by_args.append(gathered if np.iscomplexobj(x) else np.real(gathered))
        at += size
    return (a, np.stack(times), *by_args)


def _check_backward_path(y: Any, expected: Any, within: Any) -> None:
    """Refuse a backward solution that leaves the forward one, as stiff equations do."""
    if not np.all(np.abs(plain_data(y) - plain_data(expected)) <= within):
        text = (
            "a differential equation, integrated backwards for its derivative, leaves its solution "
            "between two of the times"
        )
        raise UnsupportedError(message(text, "Ask for more times in between"))


def _time_cotangent(slope: Any, g: Any) -> Any:
    """The cotangent of a time."""
    return np.real(np.sum(np.conj(_as_vector(slope)) * g))


def _flat_cotangent(c: Any, x: Any) -> Any:
    """A cotangent as a vector; zeros if it is None."""
    return np.reshape(np.zeros_like(1.0 * x) if c is None else c, (-1,))


def _least_tolerance(tolerance: Any) -> Any:
    """One tolerance, for an equation whose state has another size."""
    return None if tolerance is None else np.min(tolerance)


def _state_vector(y0: Any) -> Any:
    y0 = _as_vector(y0)
    if np.ndim(y0) != 1:
        raise ValueError(f"y0 must be a vector; it has shape {np.shape(y0)}")
    return y0


def _split_numbers(
    f: RightHandSide, args: tuple[Any, ...]
) -> tuple[RightHandSide, tuple[Any, ...]]:
    """The function as one of the numbers and arrays among `args`, and these."""
    leaves, structure = tree.flatten(args)
    positions = [i for i, leaf in enumerate(leaves) if tree.is_numeric(aval_of(leaf))]

    def call(y: Any, t: Any, *numbers: Any) -> Any:
        filled = list(leaves)
        for i, number in zip(positions, numbers, strict=True):
            filled[i] = number
        return f(y, t, *tree.unflatten(structure, filled, args))

    return call, tuple(leaves[i] for i in positions)


@use_scipy_unless_differentiated(scipy.integrate.odeint)
def odeint(
    func: Any,
    y0: Any,
    t: Any,
    args: Any = (),
    *rest: Any,
    tfirst: bool = False,
    rtol: Any = None,
    atol: Any = None,
    **options: Any,
) -> Any:
    """The solution of dy/dt = func(y, t, *args) at the times t, differentiable in y0, t and args.

    Without tracked values this is SciPy's, with its own tolerances (1.49e-8 by default); with them,
    `rtol` and `atol` hold for the solution and the gradient and are 1e-9 by default.

    >>> tracker.gradient(lambda k: odeint(lambda y, t, k: -k * y, [1.0], [0.0, 1.0], (k,))[1, 0],
    ...                  0.5)
    (np.float64(-0.6065306...),)
    """
    if is_tracing():
        named = {"tfirst": tfirst, "rtol": rtol, "atol": atol, **options}
        return _as_one_callback(odeint, (func, y0, t, args, *rest), named)
    named = dict(zip(("Dfun", "col_deriv", "full_output", "ml", "mu"), rest, strict=False))
    options |= named

    def in_order(f: RightHandSide) -> RightHandSide:
        return (lambda y, t, *args: f(t, y, *args)) if tfirst else f

    right, numbers = _split_numbers(in_order(func), as_tuple(args))
    if not is_tracked(y0, t, *numbers):
        return scipy.integrate.odeint(
            _without_captures(func), y0, t, args, tfirst=tfirst, rtol=rtol, atol=atol, **options
        )
    if options.pop("full_output", None):
        raise no_derivative_rule("odeint with full_output=", "Leave it out")
    y0 = _state_vector(start_vector(y0))
    rtol, atol = (1e-9 if x is None else x for x in (rtol, atol))
    ahead = {k: options.pop(k) for k in ("Dfun", "col_deriv", "ml", "mu", "tcrit") if k in options}
    if callable(ahead.get("Dfun")):
        ahead["Dfun"] = _split_numbers(in_order(ahead["Dfun"]), as_tuple(args))[0]

    def solver(f: RightHandSide, y0: Any, t: Any, args: Any) -> Any:
        return scipy.integrate.odeint(f, y0, t, args, rtol=rtol, atol=atol, **options, **ahead)

    def backwards(f: RightHandSide, y0: Any, t: Any, args: Any) -> Any:
        within = {"rtol": _least_tolerance(rtol), "atol": _least_tolerance(atol)}
        return scipy.integrate.odeint(f, y0, t, args, **within, **options)

    return _integrate(right, 1.0 * y0, 1.0 * _as_vector(t), numbers, solver, backwards)


def solve_ivp(
    fun: Any,
    t_span: Any,
    y0: Any,
    method: Any = "RK45",
    t_eval: Any = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: Any = None,
    **options: Any,
) -> Any:
    """As `scipy.integrate.solve_ivp`; `.y` (and `.t` at the ends) is differentiable in y0, t_span,
    t_eval and args. Without t_eval, the inner times are the solver's steps."""
    if is_tracing():
        return _solve_ivp_in_trace(
            fun, t_span, y0, method, t_eval, dense_output, events, vectorized, args, options
        )
    args = () if args is None else args

    def right(y: Any, t: Any, *args: Any) -> Any:
        return fun(t, y, *args)

    flat, numbers = _split_numbers(right, args)
    if not is_tracked(t_span, y0, t_eval, *numbers, *options.values()):
        alone = _without_captures(fun)
        return scipy.integrate.solve_ivp(
            alone, t_span, y0, method, t_eval, dense_output, events, vectorized, args, **options
        )
    for keyword, value in (("dense_output", dense_output), ("events", events)):
        if value:
            raise no_derivative_rule(
                f"solve_ivp with {keyword}=", "Ask for the times that you need with t_eval="
            )
    y0 = _state_vector(y0)
    solver = _IvpSolver(method, tree.map(plain_data, options), args)
    plain = scipy.integrate.solve_ivp(
        lambda t, y: plain_data(_as_vector(flat(y, t, *map(plain_data, numbers)))),
        tuple(map(plain_data, t_span)),
        plain_data(y0),
        method,
        None if t_eval is None else plain_data(_as_vector(t_eval)),
        **solver.equation_options(tuple(map(plain_data, numbers))),
    )
    times, requested = _times_and_requested(t_span, t_eval, plain.t)
    ys = _integrate(flat, 1.0 * y0, times, numbers, solver.forward, solver.backward)
    return with_entries(plain, t=times[requested], y=ys[requested].T)


class _IvpSolver:
    """SciPy's solver for an equation and for its adjoint, which has another Jacobian. `options` are
    those of the call, `args` those of the equation."""

    def __init__(self, method: Any, options: dict[str, Any], args: Any) -> None:
        self.method, self.options = method, options
        self.jac = slopes = options.pop("jac", None)
        self.jac_of_numbers = _split_numbers(lambda y, t, *args: slopes(t, y, *args), args)[0]

    def equation_options(self, args: Any) -> dict[str, Any]:
        if self.jac is None:
            return self.options
        slopes, of_numbers = self.jac, self.jac_of_numbers
        jac = (lambda t, y: plain_data(of_numbers(y, t, *args))) if callable(slopes) else slopes
        return {**self.options, "jac": jac}

    def adjoint_options(self) -> dict[str, Any]:
        options = {k: x for k, x in self.options.items() if k in ("rtol", "max_step", "min_step")}
        return {
            **options,
            **{k: _least_tolerance(x) for k, x in self.options.items() if k == "atol"},
        }

    def forward(self, f: RightHandSide, y0: Any, t: Any, args: Any) -> Any:
        return self._solve(f, y0, t, args, self.equation_options(args))

    def backward(self, f: RightHandSide, y0: Any, t: Any, args: Any) -> Any:
        return self._solve(f, y0, t, args, self.adjoint_options())

    def _solve(self, f: RightHandSide, y0: Any, t: Any, args: Any, options: dict[str, Any]) -> Any:
        found = scipy.integrate.solve_ivp(
            lambda t, y: f(y, t, *args), (t[0], t[-1]), y0, self.method, t, **options
        )
        if not found.success:
            raise RuntimeError(f"solve_ivp: {found.message}")
        return found.y.T


def _times_and_requested(t_span: Any, t_eval: Any, solver_times: Any) -> tuple[Any, slice]:
    """The times from start to end, and the slice of those that are requested; without t_eval, all
    of the solver's times."""
    start, end = t_span
    if t_eval is None:
        return np.stack([start, *solver_times[1:-1], end]) * 1.0, slice(None)
    times, first, last = 1.0 * _as_vector(t_eval), 0, None
    if bool(times[0] != start):
        times, first = np.concatenate([np.reshape(1.0 * start, (1,)), times]), 1
    if bool(times[-1] != end):  # SciPy integrates up to the end
        times, last = np.append(times, end), -1
    return times, slice(first, last)


def _solve_ivp_in_trace(
    fun: Any,
    t_span: Any,
    y0: Any,
    method: Any,
    t_eval: Any,
    dense_output: Any,
    events: Any,
    vectorized: Any,
    args: Any,
    options: dict[str, Any],
) -> Any:
    """`solve_ivp` in a trace, as one callback."""
    if t_eval is None:
        text = "the number of solve_ivp's steps depends on the arguments"
        raise UnsupportedError(message(text, "Ask for the times that you need with t_eval="))
    given = (fun, t_span, y0, method, t_eval, dense_output, events, vectorized, args)
    if is_deriving():
        return _as_one_callback(solve_ivp, given, options)
    return call_scipy(scipy.integrate.solve_ivp, *given, **options)


def _as_one_callback(function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """A function of this module as one differentiable callback."""
    return differentiable_callback(
        function.__name__, lambda args, options: function(*args, **options), args, options
    )
