"""Events of `solve_ivp`: where functions of a solution cross zero.

`locate` gives the times and states of an event their derivatives, by the implicit function theorem.
`Events` and `bracketed_roots` are what compiled code needs to find them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.autodiff.pullbacks import pullback
from tracker.control import fori_loop
from tracker.errors import UnsupportedError
from tracker.implicit.solution import with_derivatives_of
from tracker.scipy._bridge.fallback import as_array
from tracker.support.structs import record
from tracker.transforms.vmap import vmap

EventFunction = Callable[[Any, Any], Any]  # g(t, y), a number
_BISECTIONS = 64
_MOST_ROWS = 4  # that take less time one by one than together


@record()
class Events:
    """Functions; after how many of its events each ends the solution; and the directions in which
    they count."""

    functions: list[EventFunction]
    most: Any
    directions: Any

    @staticmethod
    def of(events: Any, args: Any) -> Events:
        listed = [events] if callable(events) else list(events or ())
        ends = [getattr(event, "terminal", None) or np.inf for event in listed]
        if any(end != np.inf and (int(end) != end or end < 0) for end in ends):
            raise ValueError(
                "The `terminal` attribute of each event must be a boolean or positive integer."
            )
        return Events(
            [_scalar_event(event, args) for event in listed],
            np.array(ends, float),
            np.array([getattr(event, "direction", 0) for event in listed], float),
        )

    def values(self, t: Any, y: Any) -> Any:
        return np.stack([g(t, y) for g in self.functions])

    def crossed(self, before: Any, after: Any) -> Any:
        """Which events happen between two values, as SciPy decides it."""
        up, down = (before <= 0) & (after >= 0), (before >= 0) & (after <= 0)
        either = (up | down) & (self.directions == 0)
        return (up & (self.directions > 0)) | (down & (self.directions < 0)) | either


def _scalar_event(event: Any, args: Any) -> EventFunction:
    return lambda t, y: np.reshape(as_array(event(t, y, *args)), ())


def locate(g: EventFunction, flow: Callable[[Any], Any], times: Any, states: Any) -> Any:
    """The times and states of an event with derivatives, by Newton steps from its times: two, for
    derivatives up to the third order."""

    def values(t: Any) -> Any:
        y = flow(t)
        if len(times) > _MOST_ROWS:
            return vmap(g)(t, y)
        return np.stack([g(t[at], y[at]) for at in range(len(times))])

    found = times
    for _ in range(2):
        value, pull = pullback(values, found)
        (slope,) = pull(np.ones(len(times)))
        if not bool(np.all(slope != 0)):
            text = "an event of solve_ivp does not cross zero where it is found"
            raise UnsupportedError(
                text, "Use tracker.data on its times where no gradient is wanted"
            )
        found = found - value / slope
    found = with_derivatives_of(times, found)
    return found, with_derivatives_of(states, flow(found))


def bracketed_roots(values: Callable[[Any], Any], low: Any, high: Any) -> Any:
    """Where a function of many numbers, one by one, is zero between two bounds, by bisection."""
    at_low = values(low)

    def halve(_: Any, bounds: Any) -> Any:
        low, high = bounds
        middle = 0.5 * (low + high)
        is_later = values(middle) * at_low > 0
        return np.where(is_later, middle, low), np.where(is_later, high, middle)

    return fori_loop(0, _BISECTIONS, halve, (low, high))[1]
