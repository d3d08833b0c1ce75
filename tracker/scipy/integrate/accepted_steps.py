"""The steps that a solver of SciPy's has accepted, and the solution between them.

`record_steps` lets `scipy.integrate.solve_ivp` solve, and notes each step. `Flow` evaluates the
solution between the steps, on plain or tracked numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.integrate

from tracker.autodiff.leaves import plain_data
from tracker.scipy.integrate.right_side import RightSide
from tracker.scipy.integrate.tableau import Tableau, tableau_of
from tracker.support.structs import record


@record()
class Steps:
    """N steps of a solution of n equations, by a method of s slopes.

    times   (N + 1,)    states  (N + 1, n)    slopes  (N, s, n)
    """

    tableau: Tableau
    times: Any
    states: Any
    slopes: Any


def record_steps(
    f: RightSide, t_span: Any, y0: Any, method: Any, **options: Any
) -> tuple[Any, Steps]:
    """SciPy's solution of an equation of plain numbers, and its steps."""
    base: Any = getattr(scipy.integrate, method) if isinstance(method, str) else method
    tableau = tableau_of(base)
    found: list[tuple[Any, ...]] = []

    class RecordingSolver(base):  # type: ignore[misc]
        nfev: int

        def step(self) -> Any:
            problem = super().step()
            if self.status != "failed" and self.t != self.t_old:
                evaluations = self.nfev
                between = self.dense_output()
                self.nfev = evaluations
                slopes = getattr(self, "K_extended", getattr(self, "K", None))  # overwritten later
                found.append((self.t_old, self.t, self.y.copy(), np.array(slopes), between))
            return problem

    result = scipy.integrate.solve_ivp(f, t_span, y0, RecordingSolver, **options)
    times = np.array([t_span[0], *(t for _, t, *_ in found)])
    states = np.stack([y0, *(y for _, _, y, *_ in found)])
    slopes: list[Any] = [k for *_, k, _ in found]
    if not tableau.is_explicit:
        at = [start + (end - start) * tableau.c for start, end, *_ in found]
        pairs = [
            zip(t, between(t).T, strict=True) for t, (*_, between) in zip(at, found, strict=True)
        ]
        slopes = [[f(t, y) for t, y in points] for points in pairs]
    shape = len(found), len(tableau.c), len(y0)
    return result, Steps(tableau, times, states, np.reshape(np.array(slopes), shape))


@record()
class Flow:
    """The solution as a function of the time. `times`, `states` and `slopes` are those of `Steps`,
    plain or tracked."""

    tableau: Tableau
    times: Any
    states: Any
    slopes: Any

    def __call__(self, t: Any) -> Any:
        """The states at the times t: shape (*t.shape, n)."""
        knots, at = plain_data(self.times), plain_data(t)
        if len(knots) == 1:
            return self.states[np.zeros(np.shape(t), int)]
        sign = np.sign(knots[-1] - knots[0])
        i = np.clip(np.searchsorted(sign * knots, sign * at) - 1, 0, len(knots) - 2)
        start, h = self.times[i], self.times[i + 1] - self.times[i]
        weights = np.expand_dims(h, -1) * self.tableau.weights_at((t - start) / h)
        return self.states[i] + np.einsum("...s,...sn->...n", weights, self.slopes[i])
