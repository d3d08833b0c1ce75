"""Initial value problems: `solve_ivp` and `odeint`.

SciPy solves; its accepted steps are differentiated (`step_adjoint.py`), and what a solution is made
of besides (`t_eval`, dense output, events) is NumPy on the states and slopes of the steps. The
right side may depend on tracked values through `args` and through what it captures.

Without tracked values everything is SciPy's. The values that are returned are SciPy's in any case.
Under a trace, explicit Runge-Kutta methods (`compiled_runge_kutta.py`) and Radau
(`compiled_radau.py`) are one loop, and stand for BDF and LSODA. What they cannot do is called back,
once for the solution and once for each derivative.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import scipy.integrate
import scipy.optimize

from tracker import tree
from tracker.autodiff.leaves import plain_data
from tracker.errors import UnsupportedError, message
from tracker.implicit.solution import with_derivatives_of
from tracker.scipy._bridge.callback import call_scipy, differentiable_callback, restrict_result
from tracker.scipy._bridge.closures import tracked_cells, with_cells
from tracker.scipy._bridge.fallback import as_array, is_tracked
from tracker.scipy._bridge.implicit import as_tuple, start_vector, with_entries
from tracker.scipy.integrate.accepted_steps import Flow, Steps, record_odeint, record_steps
from tracker.scipy.integrate.compiled_radau import MOST_EQUATIONS, RadauFlow
from tracker.scipy.integrate.compiled_runge_kutta import CONTROL_OPTIONS, CompiledFlow, StepControl
from tracker.scipy.integrate.events import EventFunction, Events, locate
from tracker.scipy.integrate.right_side import RightSide
from tracker.scipy.integrate.step_adjoint import differentiable_steps
from tracker.scipy.integrate.tableau import (
    EXPLICIT_METHODS,
    IMPLICIT_METHODS,
    explicit_tableau,
    moved,
    solver_class,
)
from tracker.support.structs import replace
from tracker.tape.observers import is_deriving, is_tracing
from tracker.tape.record import value_of
from tracker.tape.tracing.tracer import StopGradient, UnsupportedInBody
from tracker.tape.tracked import Tracked
from tracker.tape.value import is_constant

_STEPS_AS_SCIPY = (*EXPLICIT_METHODS, scipy.integrate.Radau)  # of compiled methods
_COMPILED_METHODS = (*EXPLICIT_METHODS, *IMPLICIT_METHODS)
_OF_JACOBIANS = frozenset(  # options that compiled code, which finds them itself, does not need
    {"jac", "jac_sparsity", "lband", "uband", "Dfun", "col_deriv", "ml", "mu"}
)
_MESSAGES = (
    "The solver successfully reached the end of the integration interval.",
    "A termination event occurred.",
)


def _times(t: Any) -> Any:
    """Times as floats; plain ones if no derivative depends on them."""
    t = 1.0 * as_array(t)
    return plain_data(t) if is_tracked(t) and is_constant(value_of(t)) else t


class _DependsOnTracked(Exception):
    """A function of the equation has given a tracked value."""


def _wraps(f: Callable[..., Any]) -> Any:
    """As `functools.wraps`, with what SciPy reads of an event also where it is its class's."""

    def copy(call: Any) -> Any:
        call = functools.wraps(f)(call)
        for name in ("terminal", "direction"):
            if hasattr(f, name):
                setattr(call, name, getattr(f, name))
        return call

    return copy


def _plain_or_stop(f: Callable[..., Any]) -> Any:
    """The function, which raises `_DependsOnTracked` rather than return a tracked value."""

    def call(*args: Any) -> Any:
        y = f(*args)
        if is_tracked(y):
            raise _DependsOnTracked
        return y

    return _wraps(f)(call)


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
    """The solution of dy/dt = func(y, t, *args) at the times t, differentiable in y0, t, args, and
    what func captures. In compiled code DOP853 solves it, or Radau if it is stiff.

    >>> tracker.gradient(lambda k: odeint(lambda y, t: -k * y, [1.0], [0.0, 1.0])[1, 0], 0.5)
    (np.float64(-0.606530...),)
    """
    args = as_tuple(args)
    if is_tracing():
        return _odeint_in_trace(func, y0, t, args, rest, tfirst, rtol, atol, options)
    options |= {"rtol": rtol, "atol": atol}
    if not (is_tracked(y0, t, *tree.leaves(args, objects=True)) or tracked_cells(func)):
        try:
            f = _plain_or_stop(func)
            return scipy.integrate.odeint(f, y0, t, args, *rest, tfirst=tfirst, **options)
        except _DependsOnTracked:
            pass

    def right(t: Any, y: Any, *args: Any) -> Any:
        return func(t, y, *args) if tfirst else func(y, t, *args)

    times, y0 = _times(t), _state_vector(start_vector(y0))
    problem = _Problem(right, args)
    with problem.collecting():
        given = problem.plain(func), plain_data(y0), plain_data(times)
        value, steps = record_odeint(*given, *rest, tfirst=tfirst, **options)
    flow = problem.flow(steps, times[0], times[-1], y0)
    states, *info = value if isinstance(value, tuple) else (value,)
    states = with_derivatives_of(states, flow(times))
    return (states, *info) if info else states


def _odeint_in_trace(
    func: Any,
    y0: Any,
    t: Any,
    args: tuple[Any, ...],
    rest: tuple[Any, ...],
    tfirst: bool,
    rtol: Any,
    atol: Any,
    options: dict[str, Any],
) -> Any:
    """`odeint` in a trace: as a loop, or as one callback."""
    times, y0 = 1.0 * as_array(t), _state_vector(start_vector(y0))
    if not rest and options.keys() <= {"hmax", "mxstep", *_OF_JACOBIANS}:
        tolerances = {"rtol": rtol, "atol": atol}
        control = StepControl(
            **{k: 1e-8 if x is None else np.minimum(x, 1e-8) for k, x in tolerances.items()},
            max_step=options.get("hmax") or np.inf,
            most_steps=(options.get("mxstep") or 500) * max(np.shape(times)[0] - 1, 1),
        )

        def right(t: Any, y: Any) -> Any:
            return as_array(func(t, y, *args) if tfirst else func(y, t, *args))

        with suppress(UnsupportedInBody):
            found = _compiled_states(right, times, y0, control)
            if found is not None:
                return found
    options |= {"tfirst": tfirst, "rtol": rtol, "atol": atol}
    if is_deriving():
        return _as_one_callback(odeint, (func, y0, t, args, *rest), options)
    return call_scipy(scipy.integrate.odeint, func, y0, t, args, *rest, **options)


def _compiled_states(f: RightSide, times: Any, y0: Any, control: StepControl) -> Any:
    """The states at the times, by a loop; None if it does not reach the last one."""
    start, end = times[0], times[-1]
    if bool(start == end) or bool(np.any(np.diff(times) * (end - start) < 0)):
        return None
    flow = _compiled_flow(f, (start, end), 1.0 * y0, scipy.integrate.LSODA, control)
    return None if flow is None else flow(times)


def _compiled_flow(
    f: RightSide,
    ends: tuple[Any, Any],
    y0: Any,
    method: Any,
    control: StepControl,
    events: Events | None = None,
    is_stepwise: bool = False,
) -> Any:
    """The solution by a loop; None if it does not reach the end. LSODA is an explicit method, then
    Radau's if the equation is stiff; BDF is Radau's. `is_stepwise`: only at its own times."""
    start, end = ends
    control = control.checked(np.abs(end - start))
    if method in EXPLICIT_METHODS:
        tableau = explicit_tableau(method)
        tableau = tableau.without_interpolation() if is_stepwise else tableau
        flow: Any = CompiledFlow(f, start, end, y0, tableau, control, events)
    elif np.iscomplexobj(y0):
        return None
    elif method is scipy.integrate.LSODA:
        tableau = explicit_tableau(scipy.integrate.DOP853)
        with np.errstate(all="ignore"):  # attempts at a stiff equation overflow
            flow = CompiledFlow(f, start, end, y0, tableau, control.noting_stiffness(y0))
        if bool(flow.is_finished):
            return flow
        return _compiled_flow(f, ends, y0, scipy.integrate.Radau, control)
    elif np.size(y0) <= MOST_EQUATIONS:
        flow = RadauFlow(f, start, end, y0, control)
    else:
        return None
    return flow if bool(flow.is_finished) else None


def _plain_result(y: Any) -> Any:
    """What a function has returned, without tracked values."""
    is_plain = type(y) is np.ndarray or (type(y) is list and Tracked not in map(type, y))
    return y if is_plain else plain_data(as_array(y))


class _Problem:
    """A right side f(t, y, *args), and the tracked values on which a solution depends."""

    def __init__(self, f: Callable[..., Any], args: Sequence[Any]) -> None:
        self.f, self.args = f, args
        self.plain_args = tree.map(plain_data, args)
        self.scope = StopGradient()
        self.in_closures: list[Any] = []

    def collecting(self) -> StopGradient:
        """A context in which tracked values that functions capture are noticed."""
        return self.scope

    def plain(self, f: Callable[..., Any]) -> Any:
        """A function of (t, y, *args), or (y, t, *args), as one of plain t and y."""
        # The scope finds what is captured, but each operation with a tracked value takes its time.
        captured = tracked_cells(f)
        self.in_closures += captured.values()
        copies = {path: np.copy(plain_data(x))[()] for path, x in captured.items()}
        call = with_cells(f, copies) if copies else f
        return _wraps(f)(lambda t, y: _plain_result(call(t, y, *self.plain_args)))

    def flow(self, steps: Steps, start: Any, end: Any, y0: Any) -> Flow:
        """The solution as a differentiable function of the time. The inner times of the steps are
        constants, and so is the last one where an event has ended the solution earlier."""
        given = [x for x in tree.leaves(self.args, objects=True) if isinstance(x, Tracked)]
        known = map(value_of, (*given, *self.in_closures))
        captured = list(dict.fromkeys([*known, *self.scope.outer_values]))
        f: RightSide = lambda t, y: as_array(self.f(t, y, *self.args))  # noqa: E731
        y0, times = 1.0 * y0, steps.times
        depends_on_ends = is_tracked(start, end) and len(times) > 1
        if depends_on_ends:
            last = end if times[-1] == plain_data(end) else times[-1]
            times = np.stack([start, *times[1:-1], last])
        if steps.tableau.is_explicit:
            found = differentiable_steps(f, steps, y0, times, captured)
            return Flow.of(f, steps, times, found)
        first = moved(f, y0, start, steps.times[0]) if depends_on_ends else y0
        found = differentiable_steps(f, steps, first, steps.times, captured)
        flow = Flow.of(f, steps, steps.times, found)
        if not depends_on_ends:
            return flow
        states = np.concatenate([y0[None], flow.states[1:-1], flow(last)[None]])
        return replace(flow, times=times, states=states)


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
    """As `scipy.integrate.solve_ivp`, differentiable in t_span, y0, t_eval, args and what the
    functions capture: `.y` and `.t`, `.sol` and the times and states of events.

    The steps of the solver are constants: without t_eval, so are the inner times. In compiled code
    Radau stands for BDF, and DOP853 or Radau for LSODA, to the same tolerances, where t_eval (or
    dense output) is asked for; what they do not share (`nfev`, the steps) is not in the result.

    >>> def hit(t, y): return y[0]
    >>> hit.terminal = True
    >>> def time_of_fall(g):
    ...     return solve_ivp(lambda t, y: [y[1], -g], (0.0, 9.0), [2.0, 0.0], events=hit).t[-1]
    >>> tracker.gradient(time_of_fall, 4.0)
    (np.float64(-0.125),)
    """
    args = _as_arguments(args)
    if is_tracing():
        return _solve_ivp_in_trace(
            fun, t_span, y0, method, t_eval, dense_output, events, vectorized, args, options
        )
    listed = [events] if callable(events) else list(events or ())
    captured = any(map(tracked_cells, (fun, *listed)))
    if not (
        captured
        or is_tracked(t_span, y0, t_eval, *tree.leaves(args, objects=True), *options.values())
    ):
        f, g = _plain_or_stop(fun), list(map(_plain_or_stop, listed)) or None
        given = (t_span, y0, method, t_eval, dense_output, g, vectorized, args or None)
        try:
            return scipy.integrate.solve_ivp(f, *given, **options)
        except _DependsOnTracked:
            pass
    start, end = map(_times, t_span)
    y0 = _state_vector(y0)
    fun = _of_one_state(fun) if vectorized else fun
    problem = _Problem(fun, args)
    options = tree.map(plain_data, options)
    if callable(slopes := options.get("jac")):
        options["jac"] = problem.plain(slopes)
    times = None if t_eval is None else _times(t_eval)
    with problem.collecting():
        found, steps = record_steps(
            problem.plain(fun),
            (plain_data(start), plain_data(end)),
            plain_data(1.0 * y0),
            method,
            t_eval=plain_data(times),
            dense_output=dense_output,
            events=list(map(problem.plain, listed)) or None,
            **options,
        )
    flow = problem.flow(steps, start, end, y0)
    return _differentiable_result(found, flow, times, Events.of(listed, args).functions)


def _as_arguments(args: Any) -> tuple[Any, ...]:
    try:
        return () if args is None else tuple(args)
    except TypeError:
        text = "solve_ivp: args must be a tuple; it is one number"
        raise TypeError(message(text, "Give args=(a,)")) from None


def _of_one_state(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A vectorized right side as one of a single state."""
    return lambda t, y, *args: np.ravel(fun(t, y[:, None], *args))


def _differentiable_result(
    found: Any, flow: Flow, t_eval: Any, events: Sequence[EventFunction]
) -> Any:
    """SciPy's result with derivatives."""
    entries: dict[str, Any] = {"sol": found.sol and DenseSolution(flow, found.sol)}
    located: list[Any] = []
    if events:
        triples = zip(events, found.t_events, found.y_events, strict=True)
        located = [locate(g, flow, t, y) if len(t) else (t, y) for g, t, y in triples]
        entries["t_events"], entries["y_events"] = map(list, zip(*located, strict=True))
    if t_eval is None and len(flow.times) == 1:  # an interval of no length
        t_eval = found.t
    if t_eval is not None:
        times = t_eval[: len(found.t)]
        states = flow(times) if len(found.t) else np.transpose(found.y)
    else:
        times, states = flow.times, flow.states
        if not np.array_equal(plain_data(times)[:-1], found.t[:-1]):
            times = np.concatenate([times[:1], found.t[1:-1], times[-1:]])
            states = flow(times)
        if found.status == 1:
            count = len(found.t) - 1
            (end, *_) = (t[-1:] for t, _ in located if found.t[-1] in plain_data(t)[-1:])
            times = np.concatenate([times[:count], end])
            states = np.concatenate([states[:count], flow(end)])
    entries["t"] = with_derivatives_of(found.t, times)
    entries["y"] = with_derivatives_of(found.y, np.transpose(states))
    return with_entries(found, **entries)


class DenseSolution:
    """As `scipy.integrate.OdeSolution`, differentiable. `plain`: SciPy's own."""

    def __init__(self, flow: Callable[[Any], Any], plain: Any = None) -> None:
        self._flow, self._plain = flow, plain

    def __call__(self, t: Any) -> Any:
        t = 1.0 * as_array(t)
        y = np.transpose(self._flow(t))
        return y if self._plain is None else with_derivatives_of(self._plain(plain_data(t)), y)

    def __getattr__(self, name: str) -> Any:
        if self._plain is None and not name.startswith("_"):
            text = f"compiled code does not hold what SciPy says as {name!r} of a solution"
            raise UnsupportedError(text, "Leave it out")
        return getattr(self._plain, name)


def _state_vector(y0: Any) -> Any:
    y0 = as_array(y0)
    if np.ndim(y0) != 1:
        raise ValueError(f"y0 must be a vector; it has shape {np.shape(y0)}")
    return y0


def _solve_ivp_in_trace(
    fun: Any,
    t_span: Any,
    y0: Any,
    method: Any,
    t_eval: Any,
    dense_output: Any,
    events: Any,
    vectorized: Any,
    args: tuple[Any, ...],
    options: dict[str, Any],
) -> Any:
    """`solve_ivp` in a trace: as a loop, or as one callback."""
    solver = solver_class(method)
    control_options = {k: x for k, x in options.items() if k not in _OF_JACOBIANS}
    if solver in _COMPILED_METHODS and control_options.keys() <= CONTROL_OPTIONS:
        one = _of_one_state(fun) if vectorized else fun
        f: RightSide = lambda t, y: as_array(one(t, y, *args))  # noqa: E731
        control, found_events = StepControl(**control_options), Events.of(events, args)
        with suppress(UnsupportedInBody):
            found = _compiled_result(
                f, t_span, y0, solver, t_eval, dense_output, control, found_events
            )
            if found is not None:
                return found
    if t_eval is None:
        text = "the number of solve_ivp's steps depends on the arguments"
        raise UnsupportedError(text, "Ask for the times that you need with t_eval=")
    given = (fun, t_span, y0, method, t_eval, dense_output, events, vectorized, args)
    if is_deriving():
        return _as_one_callback(solve_ivp, given, options)
    return call_scipy(scipy.integrate.solve_ivp, *given, **options)


def _compiled_result(
    f: RightSide,
    t_span: Any,
    y0: Any,
    method: Any,
    t_eval: Any,
    dense_output: bool,
    control: StepControl,
    events: Events,
) -> Any:
    """The solution by a loop, or None. It has nothing in which a compiled method is not SciPy's."""
    start, end = (np.float64(1.0) * x for x in t_span)
    y0 = 1.0 * _state_vector(y0)
    is_explicit, has_events = method in EXPLICIT_METHODS, bool(events.functions)
    if bool(start == end) or (has_events and not is_explicit):
        return None
    if method not in _STEPS_AS_SCIPY and t_eval is None and not dense_output:
        return None
    times = None if t_eval is None else _checked_times(t_eval, start, end)
    is_stepwise = times is None and not dense_output and not has_events
    flow = _compiled_flow(f, (start, end), y0, method, control, events, is_stepwise)
    if flow is None:
        return None
    located, last = flow.located_events()
    asked = [t for t in (times, *(t for t, _ in located)) if t is not None]
    evaluations = flow.evaluations(asked) if is_explicit else None
    if last is not None and times is not None:
        times = times[: int(np.count_nonzero(flow.ordered(times) <= flow.ordered(last)))]
    states = None
    if times is None and method in _STEPS_AS_SCIPY:
        times, states = flow.accepted_states()
        if last is not None:
            times, states = np.append(times[:-1], last), states[:-1]
            states = np.concatenate([states, np.expand_dims(flow(last), 0)])
    elif times is not None and np.size(times):
        states = flow(times)
    result = scipy.optimize.OptimizeResult(
        t=[] if states is None else times,
        y=[] if states is None else np.transpose(states),
        sol=DenseSolution(flow) if dense_output else None,
        t_events=[t for t, _ in located] if has_events else None,
        y_events=[y for _, y in located] if has_events else None,
        nfev=evaluations,
        njev=0,
        nlu=0,
        status=0 if last is None else 1,
        message=_MESSAGES[last is not None],
        success=True,
    )
    if is_explicit:
        return result
    unknown = {"nfev", "njev", "nlu", *(("t", "y") if times is None else ())}
    return restrict_result(result, {k: x for k, x in result.items() if k not in unknown})


def _checked_times(t_eval: Any, start: Any, end: Any) -> Any:
    """The times, which must lie in order between the ends."""
    times = 1.0 * as_array(t_eval)
    if np.ndim(times) != 1:
        raise ValueError("`t_eval` must be 1-dimensional.")
    if bool(np.any((times < np.minimum(start, end)) | (times > np.maximum(start, end)))):
        raise ValueError("Values in `t_eval` are not within `t_span`.")
    if bool(np.any(np.diff(times) * (end - start) <= 0)):
        raise ValueError("Values in `t_eval` are not properly sorted.")
    return times


def _as_one_callback(function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """A function of this module as one differentiable callback."""
    return differentiable_callback(
        function.__name__, lambda args, options: function(*args, **options), args, options
    )
