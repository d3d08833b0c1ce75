"""Explicit Runge-Kutta methods as one loop of a trace, for compiled code.

The control of the steps is that of `scipy.integrate.RK23`, `RK45` and `DOP853` (E. Hairer, S. P.
Norsett, G. Wanner, Solving Ordinary Differential Equations I, section II.4). An iteration tries a
step; if the error is too large, the next one starts at the same place. The derivative is that of
the loop, with constant step sizes. Start at `CompiledFlow`.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from tracker.autodiff.stop_gradient import ignore_derivatives
from tracker.control import while_loop_history
from tracker.numpy import array as trackable_array
from tracker.scipy._bridge.fallback import as_array
from tracker.scipy.integrate.events import Events, bracketed_roots, locate
from tracker.scipy.integrate.right_side import RightSide
from tracker.scipy.integrate.tableau import Tableau, combination
from tracker.support.structs import record, replace
from tracker.transforms.vmap import vmap

SAFETY, LEAST_FACTOR, LARGEST_FACTOR = 0.9, 0.2, 10.0
NO_STEPS = np.int64(0)  # no Python number: a carry that changes its type is traced twice


@record()
class StepControl:
    """The options of a solver. It gives up after `most_steps`, or after `most_stiff_steps` that
    stability has limited, and not the error."""

    rtol: Any = 1e-3
    atol: Any = 1e-6
    max_step: Any = np.inf
    first_step: Any = None
    most_steps: Any = np.inf
    most_stiff_steps: Any = None

    def checked(self, length: Any) -> StepControl:
        """The options as SciPy uses them. Raises for those that it refuses."""
        if bool(self.max_step <= 0):
            raise ValueError("`max_step` must be positive.")
        if bool(np.any(as_array(self.atol) < 0)):
            raise ValueError("`atol` must be positive.")
        if self.first_step is not None and bool(self.first_step <= 0):
            raise ValueError("`first_step` must be positive.")
        if self.first_step is not None and bool(self.first_step > length):
            raise ValueError("`first_step` exceeds bounds.")
        return replace(self, rtol=np.maximum(self.rtol, 100 * np.finfo(float).eps))

    def noting_stiffness(self, y0: Any) -> StepControl:
        """For DOP853: it gives up when an implicit method, with its matrices, is cheaper."""
        return replace(self, most_stiff_steps=min(100 + np.size(y0) ** 3, 10_000))


CONTROL_OPTIONS = frozenset(StepControl.__annotations__) - {"most_steps", "most_stiff_steps"}


class _State(NamedTuple):
    """Where an attempt starts: the time, the state and its slope, the next step's size, whether it
    was refused before; how many steps were accepted; the slopes of the attempt before; if there
    are any, the values of events and how often they happened; and how many steps were stiff, if
    that matters."""

    t: Any
    y: Any
    slope: Any
    size: Any
    was_refused: Any
    accepted: Any
    slopes: Any
    event_values: Any
    event_counts: Any
    stiff_steps: Any


class CompiledFlow:
    """The solution from `start` to `end` as a function of the time, in a trace."""

    def __init__(
        self,
        f: RightSide,
        start: Any,
        end: Any,
        y0: Any,
        tableau: Tableau,
        control: StepControl,
        events: Events | None = None,
    ) -> None:
        self.f, self.tableau, self.control = f, tableau, control
        self.events = events if events is not None and events.functions else None
        # The last one starts the next step.
        self.stages = len(tableau.c) if tableau.error is None else np.shape(tableau.error)[1]
        self.start, self.end = start, end
        self.sign = np.where(ignore_derivatives(end) >= ignore_derivatives(start), 1.0, -1.0)
        y0 = trackable_array(y0)  # into whose like the right side may write tracked values
        slope = f(start, y0)
        size = control.first_step
        if size is None:
            size = self._first_size(*map(ignore_derivatives, (y0, slope)))
        first = self._first_state(y0, slope, 1.0 * size)
        self.last, self.attempts, self.states = while_loop_history(
            self._goes_on, self._attempt, first
        )
        self.is_finished = self.sign * (self.last.t - end) >= 0
        if self.events is not None:
            self.is_finished = self.is_finished | self._is_stopped(self.last)

    def _first_state(self, y0: Any, slope: Any, size: Any) -> Any:
        slopes = np.stack([0.0 * slope] * len(self.tableau.c))
        values = counts = None
        if self.events is not None:
            values = ignore_derivatives(self.events.values(self.start, y0))
            counts = np.zeros(len(self.events.functions), int)
        stiff = None if self.control.most_stiff_steps is None else NO_STEPS
        return _State(
            self.start, y0, slope, size, np.False_, NO_STEPS, slopes, values, counts, stiff
        )

    def _is_stopped(self, state: _State) -> Any:
        assert self.events is not None
        return np.any(state.event_counts >= self.events.most)

    def _first_size(self, y: Any, slope: Any) -> Any:
        length = np.abs(ignore_derivatives(self.end) - ignore_derivatives(self.start))
        scale = self.control.atol + np.abs(y) * self.control.rtol
        d0, d1 = rms(y / scale), rms(slope / scale)
        is_small = (d0 < 1e-5) | (d1 < 1e-5)
        h0 = np.where(is_small, 1e-6, 0.01 * d0 / np.where(is_small, 1.0, d1))
        h0 = np.minimum(h0, length)
        t = ignore_derivatives(self.start) + h0 * self.sign
        after = ignore_derivatives(self.f(t, y + h0 * self.sign * slope))
        d2 = rms((after - slope) / scale) / np.where(h0 == 0, 1.0, h0)
        largest = np.maximum(d1, d2)
        is_flat = largest <= 1e-15
        power = 1.0 / (self.tableau.order + 1)
        h1 = np.where(is_flat, 1.0, 0.01 / np.where(is_flat, 1.0, largest)) ** power
        h1 = np.where(is_flat, np.maximum(1e-6, h0 * 1e-3), h1)
        return np.minimum(np.minimum(100 * h0, h1), np.minimum(length, self.control.max_step))

    def _least_size(self, t: Any) -> Any:
        return 10 * np.abs(np.nextafter(t, self.sign * np.inf) - t)

    def _proposal(self, state: Any, t: Any) -> tuple[Any, Any]:
        """The size of the next step from t, within its bounds, and the time at its end."""
        bounded = np.clip(state.size, self._least_size(t), self.control.max_step)
        size = np.where(state.was_refused, state.size, bounded)
        end = t + self.sign * size
        return size, np.where(self.sign * (end - self.end) > 0, self.end, end)

    def _goes_on(self, state: _State) -> Any:
        is_too_small = state.was_refused & (state.size < self._least_size(state.t))
        goes_on = (self.sign * (self.end - state.t) > 0) & ~is_too_small
        if self.events is not None:
            goes_on = goes_on & ~self._is_stopped(state)
        if self.control.most_stiff_steps is not None:
            goes_on = goes_on & (state.stiff_steps < self.control.most_stiff_steps)
        return goes_on & (state.accepted < self.control.most_steps)

    def _attempt(self, state: _State) -> _State:
        tableau, t, y = self.tableau, state.t, state.y
        now = ignore_derivatives(t)
        next_t = self._proposal(state, now)[1]
        h = next_t - t
        slopes, states = [state.slope], [y]
        for row, c in zip(tableau.a[1:], tableau.c[1:], strict=True):
            states.append(y + h * combination(row, slopes))
            slopes.append(self.f(t + c * h, states[-1]))
        next_y = states[self.stages - 1]
        error = self._error_norm(h, y, next_y, slopes)
        is_good = error < 1
        factor = SAFETY * np.where(error == 0, 1e-30, error) ** (-1.0 / (tableau.order + 1))
        larger = np.minimum(factor, np.where(state.was_refused, 1.0, LARGEST_FACTOR))
        smaller = np.fmax(LEAST_FACTOR, factor)  # which NaN makes smallest
        values, counts = state.event_values, state.event_counts
        if self.events is not None:
            next_values = ignore_derivatives(self.events.values(next_t, next_y))
            counts = counts + (is_good & self.events.crossed(values, next_values))
            values = np.where(is_good, next_values, values)
        stiff = state.stiff_steps
        if stiff is not None:
            ends = slice(self.stages - 2, self.stages)  # two stages at the end of the step
            stiff = stiff + (is_good & _is_stiff(h, states[ends], slopes[ends]))
        return _State(
            t=np.where(is_good, next_t, t),
            y=np.where(is_good, next_y, y),
            slope=np.where(is_good, slopes[self.stages - 1], state.slope),
            size=np.abs(ignore_derivatives(h)) * np.where(is_good, larger, smaller),
            was_refused=~is_good,
            accepted=state.accepted + is_good,
            slopes=np.stack(slopes),
            event_values=values,
            event_counts=counts,
            stiff_steps=stiff,
        )

    def _error_norm(self, h: Any, y: Any, next_y: Any, slopes: list[Any]) -> Any:
        h, y, next_y, *slopes = map(ignore_derivatives, (h, y, next_y, *slopes))
        scale = self.control.atol + np.maximum(np.abs(y), np.abs(next_y)) * self.control.rtol
        errors = [rms(h * combination(row, slopes) / scale) for row in self.tableau.error]
        if len(errors) == 1:
            return errors[0]
        both = np.hypot(errors[0], 0.1 * errors[1])
        return np.where(both == 0, 0.0, errors[0] ** 2 / np.where(both == 0, 1.0, both))

    def __call__(self, t: Any) -> Any:
        """The states at the times t: shape (*t.shape, n)."""
        flat = np.reshape(1.0 * t, (-1,))
        y = self._pieces(self._attempts_at(flat))(flat)
        return np.reshape(y, (*np.shape(t), -1))

    def _pieces(self, i: Any) -> _Pieces:
        """The solution within these attempts, which were accepted, each as a function of a time."""
        is_last = i + 1 == self.attempts
        after = np.minimum(i + 1, len(self.knots) - 1)
        begin, end = self.states.t[i], np.where(is_last, self.last.t, self.states.t[after])
        is_last = np.reshape(is_last, (-1, 1, 1))
        slopes = np.where(is_last, self.last.slopes, self.states.slopes[after])
        return _Pieces(self.tableau, begin, end, self.states.y[i], slopes)

    def located_events(self) -> tuple[list[Any], Any]:
        """The times and states of each event, with derivatives; and the time of the event that ends
        the solution, or None. How many events there are is part of the trace."""
        if self.events is None:
            return [], None
        counts = [int(self.last.event_counts[at]) for at in range(len(self.events.functions))]
        found = [self._event_times(at, count) for at, count in enumerate(counts)]
        ends = [
            t[-1] for t, n, most in zip(found, counts, self.events.most, strict=True) if n >= most
        ]
        if ends:
            last = self.sign * np.min(self.ordered(np.stack(ends)))
            kept = [int(np.count_nonzero(self.ordered(t) <= self.ordered(last))) for t in found]
            found = [t[:count] for t, count in zip(found, kept, strict=True)]
        pairs = zip(self.events.functions, found, strict=True)
        located = [locate(g, self, t, self(t)) if len(t) else (t, t) for g, t in pairs]
        if not ends:
            return located, None
        latest = [t[-1] for t, _ in located if len(t)]
        at = int(np.argmax(self.ordered(np.stack(latest))))
        return located, latest[at]

    def _event_times(self, at: int, count: int) -> Any:
        """When the first `count` events of a function happen."""
        assert self.events is not None
        if not count:
            return np.zeros(0)
        rows = np.arange(np.shape(self.states.t)[0])
        counts = np.where(rows < self.attempts, self.states.event_counts[:, at], count)
        i = np.searchsorted(counts, np.arange(count), side="right") - 1
        pieces, g = self._pieces(i), self.events.functions[at]
        found = bracketed_roots(lambda t: vmap(g)(t, pieces(t)), pieces.begin, pieces.end)
        return ignore_derivatives(found)

    def _attempts_at(self, t: Any) -> Any:
        """The attempt within which a time is: the last one that starts earlier, which was accepted;
        at the start the first one that was."""
        first = np.searchsorted(self.knots, self.ordered(self.start), side="right") - 1
        return np.maximum(np.searchsorted(self.knots, self.ordered(t)) - 1, first)

    def evaluations(self, between: list[Any]) -> Any:
        """How often SciPy calls the right side for a solution that is also asked for `between`."""
        count = 2 if self.control.first_step is None else 1
        count = count + (self.stages - 1) * self.attempts
        more = len(self.tableau.c) - self.stages
        if more and sum(map(np.size, between)):
            i = np.sort(self._attempts_at(np.concatenate(between)))
            count = count + more * (1 + np.count_nonzero(np.diff(i)))
        return count.item()

    def ordered(self, t: Any) -> Any:
        return self.sign * ignore_derivatives(t)

    @functools.cached_property
    def knots(self) -> Any:
        """The times at which attempts start, in increasing order; infinite after the last one."""
        rows = np.arange(np.shape(self.states.t)[0])
        return np.where(rows < self.attempts, self.ordered(self.states.t), np.inf)

    def accepted_states(self) -> tuple[Any, Any]:
        """The times and states between the steps. Their number is part of the trace."""
        count = int(self.last.accepted)
        rows = np.arange(np.shape(self.states.t)[0])
        accepted = np.where(rows < self.attempts, self.states.accepted, count)
        i = np.searchsorted(accepted, np.arange(count), side="right") - 1
        return (
            np.append(self.states.t[i], self.last.t),
            np.concatenate([self.states.y[i], np.expand_dims(self.last.y, 0)]),
        )


@record()
class _Pieces:
    """Steps with their slopes, as in `Steps`; each is a function of a time of its own."""

    tableau: Tableau
    begin: Any
    end: Any
    states: Any
    slopes: Any

    def __call__(self, t: Any) -> Any:
        h = self.end - self.begin
        weights = np.expand_dims(h, -1) * self.tableau.weights_at((t - self.begin) / h)
        return self.states + np.sum(np.expand_dims(weights, -1) * self.slopes, axis=1)


def _is_stiff(h: Any, states: list[Any], slopes: list[Any]) -> Any:
    """Whether a step of DOP853 is as long as the method is stable for the Jacobian that two states
    and their slopes show (Hairer, Norsett, Wanner, section IV.2)."""
    h, *both = map(ignore_derivatives, (h, *states, *slopes))
    return np.abs(h) * rms(both[3] - both[2]) > 6.1 * rms(both[1] - both[0])


def rms(x: Any) -> Any:
    return np.sqrt(np.mean(np.real(x) ** 2 + np.imag(x) ** 2))
