"""The steps that a solver of SciPy's has accepted, and the solution between them.

`record_steps` lets `scipy.integrate.solve_ivp` solve, and notes each step. `Flow` evaluates the
solution between the steps, on plain or tracked numbers.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import scipy.integrate

from tracker.autodiff.leaves import plain_data
from tracker.scipy._bridge.fallback import is_tracked
from tracker.scipy.integrate.right_side import RightSide
from tracker.scipy.integrate.tableau import Tableau, moved, solver_class, tableau_of
from tracker.support.structs import record, replace
from tracker.transforms.vmap import vmap

_STEP_OPTIONS = frozenset({"rtol", "atol", "max_step", "jac", "jac_sparsity"})
_METHOD_USED = 18  # where LSODA's integers say by which method a step was
_BDF_OF_LSODA = 2
_ODEINT_TOLERANCE = 1.49012e-8


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
    """SciPy's solution of an equation of plain numbers, and its steps; of BDF, and of LSODA where
    it has used BDF, those of Radau. (BDF's states are accurate to its tolerances; but they are no
    solution, and where perturbations grow before they decay, the linear equation along them differs
    much from that along one.)"""
    base: Any = solver_class(method)
    if base is scipy.integrate.BDF:
        result = scipy.integrate.solve_ivp(f, t_span, y0, base, **options)
        steps = _steps_beside(f, result, t_span, y0, options)
        if steps is not None:
            return result, steps
    tableau = tableau_of(base)
    found: list[tuple[Any, ...]] = []
    methods: set[int] = set()  # that LSODA has used

    class RecordingSolver(base):  # type: ignore[misc]
        nfev: int

        def step(self) -> Any:
            problem = super().step()
            if base is scipy.integrate.LSODA:
                methods.add(int(self._lsoda_solver._integrator.iwork[_METHOD_USED]))
            if self.status != "failed" and self.t != self.t_old:
                evaluations = self.nfev
                between = self.dense_output()
                self.nfev = evaluations
                slopes = getattr(self, "K_extended", getattr(self, "K", None))  # overwritten later
                found.append((self.t_old, self.t, self.y.copy(), np.array(slopes), between))
            return problem

    result = scipy.integrate.solve_ivp(f, t_span, y0, RecordingSolver, **options)
    if _BDF_OF_LSODA in methods:
        steps = _steps_beside(f, result, t_span, y0, options)
        if steps is not None:
            return result, steps
    times = np.array([t_span[0], *(t for _, t, *_ in found)])
    states = np.stack([y0, *(y for _, _, y, *_ in found)])
    if not tableau.is_explicit:
        nodes = times[:-1, None] + np.diff(times)[:, None] * tableau.c
        inner = [between(t).T for t, (*_, between) in zip(nodes, found, strict=True)]
        return result, _collocated(tableau, times, states, np.array(inner))
    slopes = np.array([k for *_, k, _ in found])
    shape = len(found), len(tableau.c), len(y0)
    return result, Steps(tableau, times, states, np.reshape(slopes, shape))


def _steps_beside(
    f: RightSide, result: Any, t_span: Any, y0: Any, options: dict[str, Any]
) -> Steps | None:
    """The steps of Radau to where another method has come; None if one of them fails."""
    if not result.success:
        return None
    lasts = [t[-1] for t in result.t_events or () if result.status == 1 and len(t)]
    end = max(lasts, key=lambda t: abs(t - t_span[0]), default=t_span[1])
    of_steps = {k: x for k, x in options.items() if k in _STEP_OPTIONS}
    return _steps_of_radau(f, (t_span[0], end), y0, of_steps)


def _steps_of_radau(f: RightSide, t_span: Any, y0: Any, options: dict[str, Any]) -> Steps | None:
    """The steps of Radau; None if it fails."""
    result, steps = record_steps(f, t_span, y0, scipy.integrate.Radau, **options)
    return steps if result.success else None


def _collocated(tableau: Tableau, times: Any, states: Any, inner: Any) -> Steps:
    """Steps by collocation, from the states at the nodes. (The right side there would magnify their
    errors.)"""
    h = np.diff(times)[:, None, None]
    inner = np.reshape(inner, (len(h), len(tableau.c), np.shape(states)[1]))
    slopes = np.linalg.inv(tableau.a) @ (inner - states[:-1, None]) / h
    return Steps(tableau, times, states, slopes)


def record_odeint(f: Any, y0: Any, t: Any, *rest: Any, **options: Any) -> tuple[Any, Steps]:
    """As `record_steps`, of `scipy.integrate.odeint`: LSODA by another name. A second run gives the
    states between the times at which the first one has called the right side: those where its steps
    end."""
    called: list[Any] = []
    time_first, wants_all = options["tfirst"], options.pop("full_output", False)

    def noting(*point: Any) -> Any:
        called.append(point[0 if time_first else 1])
        return f(*point)

    states, info = scipy.integrate.odeint(noting, y0, t, (), *rest, full_output=True, **options)
    result = (states, info) if wants_all else states
    if _BDF_OF_LSODA in info["mused"]:
        right = f if time_first else lambda t, y: f(y, t)
        tolerances = {k: options.get(k) for k in ("rtol", "atol")}
        control = {k: _ODEINT_TOLERANCE if x is None else x for k, x in tolerances.items()}
        control["max_step"] = options.get("hmax") or np.inf
        steps = _steps_of_radau(right, (t[0], t[-1]), y0, control)
        if steps is not None:
            return result, steps
    sign = 1.0 if t[-1] >= t[0] else -1.0
    latest = np.minimum.accumulate(sign * np.array([*called, t[-1]])[::-1])[::-1]
    times = sign * np.unique(latest[latest >= sign * t[0]])
    tableau = tableau_of(scipy.integrate.LSODA)
    nodes = times[:-1, None] + np.diff(times)[:, None] * tableau.c
    found = scipy.integrate.odeint(f, y0, np.append(times[0], nodes), (), *rest, **options)
    stages = len(tableau.c)
    return result, _collocated(tableau, times, found[::stages], found[1:])


@record()
class Flow:
    """The solution of f as a function of the time. `steps` may be tracked, `times` and `states` are
    theirs with the derivatives of the first and last time."""

    f: RightSide
    steps: Steps
    times: Any
    states: Any

    @staticmethod
    def of(f: RightSide, steps: Steps, times: Any, found: tuple[Any, Any]) -> Flow:
        """With these times, and these states and slopes."""
        states, slopes = found
        made = replace(steps, times=times, states=states, slopes=slopes)
        return Flow(f, made, times, states)

    def __call__(self, t: Any) -> Any:
        """The states at the times t: shape (*t.shape, n)."""
        if self.steps.tableau.is_explicit or not is_tracked(t):
            return self._between(t)
        at = plain_data(t)
        move: Any = functools.partial(moved, self.f)
        return (vmap(move) if np.ndim(t) else move)(self._between(at), at, t)

    def _between(self, t: Any) -> Any:
        steps, at = self.steps, plain_data(t)
        knots = plain_data(steps.times)
        if len(knots) == 1:
            return steps.states[np.zeros(np.shape(t), int)]
        sign = np.sign(knots[-1] - knots[0])
        i = np.clip(np.searchsorted(sign * knots, sign * at) - 1, 0, len(knots) - 2)
        start, h = steps.times[i], steps.times[i + 1] - steps.times[i]
        weights = np.expand_dims(h, -1) * steps.tableau.weights_at((t - start) / h)
        return steps.states[i] + np.einsum("...s,...sn->...n", weights, steps.slopes[i])
