"""Derivatives of the accepted steps of a solution: the discrete adjoint.

The inner times are constants: the step sizes that a solver chooses have no derivative. Backwards
through a step, with a the cotangent of the state at its end,

    cotangent of K_s   k_s = h b_s a + h sum_r a_rs y_r        of its state   y_s = (df/dy)' k_s
    cotangent of the state at the start   a + sum_s y_s

The states of all steps are known, so their Jacobians are found at once (`vmap`), and what is left
of a step is one product with a small matrix. Right sides of many equations are pulled back stage by
stage instead. What the right side captures is an operand.

Invariant: everything is NumPy on plain or tracked arrays, so derivatives nest. Complex states are
pairs of real numbers (`right_side.py`). Start at `differentiable_steps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker.autodiff.custom_rules import custom_gradient
from tracker.scipy._bridge.fallback import is_tracked
from tracker.scipy.integrate.accepted_steps import Steps
from tracker.scipy.integrate.right_side import Linearised, RightSide, RightSidePullback, as_reals
from tracker.scipy.integrate.tableau import Tableau
from tracker.support.structs import replace
from tracker.tape.record import wrap
from tracker.tape.value import Value

_LARGEST_JACOBIAN = 64  # equations
_BLOCK_SIZE = 1 << 22  # numbers in the Jacobians of one block of steps


def differentiable_steps(
    f: RightSide, steps: Steps, y0: Any, times: Any, captured: Sequence[Value]
) -> tuple[Any, Any]:
    """The states and slopes of the steps, as functions of the start, the times, and the tracked
    values that the right side captures."""

    in_time = is_tracked(times)

    @custom_gradient
    def solution(y0: Any, times: Any, *given: Any) -> Any:
        found = steps
        if is_tracked(y0, times, *given):  # by an outer derivative
            states, slopes = differentiable_steps(f, steps, y0, times, captured)
            found = replace(steps, times=times, states=states, slopes=slopes)
        return (found.states, found.slopes), _Adjoint(f, found, captured, in_time).pull

    states, slopes = solution(y0, times, *map(wrap, captured))
    return states, slopes


class _Adjoint:
    """The pullback of the states and slopes. Cotangents and Jacobians are of real pairs."""

    def __init__(
        self, f: RightSide, steps: Steps, captured: Sequence[Value], in_time: bool
    ) -> None:
        self.f, self.steps, self.in_time = f, steps, in_time
        self.h = np.diff(steps.times)
        self.slopes = as_reals(steps.slopes)
        self.right = RightSidePullback(
            captured, np.iscomplexobj(steps.slopes), is_tracked(steps.states, steps.slopes)
        )
        count, stages, n = np.shape(self.slopes)
        self.by_stages = n > _LARGEST_JACOBIAN and steps.tableau.is_explicit
        size = 1 if self.by_stages else max(_BLOCK_SIZE // max(stages * n * n, 1), 1)
        self.blocks = [slice(start, start + size) for start in range(0, count, size)]
        # What is captured may be a leaf that is open only now, hence not in `pull`.
        self.linearised = [] if self.by_stages else list(map(self._linearise, self.blocks))

    def _linearise(self, block: slice) -> Linearised:
        t, y = self._points(block)
        y = np.reshape(y, (np.size(t), -1))
        return self.right.linearised(self.f, np.reshape(t, -1), y, self.in_time)

    def pull(self, g: tuple[Any, Any]) -> tuple[Any, ...]:
        """The cotangents of y0, the times, and the captured values."""
        g_states, g_slopes = map(as_reals, g)
        self.right.clear()
        a = g_states[-1]
        by_step: list[Any] = []
        by_start: list[Any] = []
        for at, block in reversed(list(enumerate(self.blocks))):
            seeds = a, g_states[block], g_slopes[block]
            if self.by_stages:
                a, of_step, of_start = self._pull_stages(block, *seeds)
            else:
                a, of_step, of_start = self._pull_block(block, self.linearised[at], *seeds)
            by_step.insert(0, of_step)
            by_start.insert(0, of_start)
        times = self._time_cotangents(by_step, by_start)
        return (self.right.native(a), times, *self.right.totals)

    def _time_cotangents(self, by_step: list[Any], by_start: list[Any]) -> Any:
        if not self.in_time or not by_step:
            return np.zeros(np.shape(self.steps.times))
        h, t = np.concatenate(by_step), np.concatenate(by_start)
        return np.append(t - h, 0.0) + np.append(0.0, h)

    def _points(self, block: slice) -> tuple[Any, Any]:
        """Times and states of the stages: shapes (steps, s) and (steps, s, n)."""
        tableau, steps = self.steps.tableau, self.steps
        h = self.h[block][:, None]
        increments = np.expand_dims(h, -1) * (tableau.a @ steps.slopes[block])
        y = steps.states[:-1][block][:, None] + increments
        return steps.times[:-1][block][:, None] + h * tableau.c, y

    def _pull_block(
        self, block: slice, right: Linearised, a: Any, g_states: Any, g_slopes: Any
    ) -> Any:
        """Through several steps, by the Jacobians of their stages. `a` is the cotangent of the
        last state; returns that of the first, and those of the step sizes and starting times."""
        count, stages, n = np.shape(g_slopes)
        jacobians = self.right.jacobians(right, count * stages)
        jacobians = np.reshape(jacobians, (count, stages, n, n))
        h = np.reshape(self.h[block], (-1, 1, 1, 1))
        unit = h * np.reshape(self.steps.tableau.b, (-1, 1, 1)) * np.eye(n)
        columns = np.concatenate([unit, g_slopes[..., None]], -1)  # of `a`, and those without `a`
        k, ys = _solve_stages(self.steps.tableau, h[:, 0], jacobians, columns)
        through = np.sum(ys, axis=1)
        factors, terms = np.eye(n) + through[..., :n], through[..., n] + g_states[:count]
        ends: list[Any] = []
        for factor, term in zip(factors[::-1], terms[::-1], strict=True):
            ends.append(a)
            a = factor @ a + term
        lasts = np.stack(ends[::-1])
        combined = np.concatenate([lasts, np.ones((count, 1))], -1)[:, None, :, None]
        k, ys = (k @ combined)[..., 0], (ys @ combined)[..., 0]
        found = self.right.pull(right, np.reshape(k, (count * stages, n)), 1)
        of_t = np.reshape(found[0], (count, stages)) if found else np.zeros((count, stages))
        return a, *self._step_cotangents(block, lasts, ys, of_t)

    def _step_cotangents(self, block: slice, ends: Any, ys: Any, of_t: Any) -> tuple[Any, Any]:
        """The cotangents of the step sizes and of the times at which the steps start."""
        tableau, slopes = self.steps.tableau, self.slopes[block]
        by_step = np.sum(ends * (tableau.b @ slopes), -1)
        by_step = by_step + np.sum(ys * (tableau.a @ slopes), (-2, -1))
        return by_step + of_t @ tableau.c, np.sum(of_t, -1)

    def _pull_stages(self, block: slice, a: Any, g_states: Any, g_slopes: Any) -> Any:
        """As `_pull_block`, through one step of an explicit method, stage by stage."""
        tableau, h = self.steps.tableau, self.h[block][0]
        t, y = self._points(block)
        stages = len(tableau.c)
        ys: list[Any] = [None] * stages
        of_t: list[Any] = [0.0] * stages
        for at in reversed(range(stages)):
            later = [tableau.a[i, at] * ys[i] for i in range(at + 1, stages) if tableau.a[i, at]]
            k = g_slopes[0, at] + h * (tableau.b[at] * a + sum(later))
            right = Linearised(self.f, t[0, at], y[0, at], self.in_time)
            by_y, *by_t = self.right.pull(right, k)
            ys[at] = as_reals(by_y)
            of_t[at : at + len(by_t)] = by_t
        of_y = np.stack(ys)
        cotangents = self._step_cotangents(block, a[None], of_y[None], np.stack(of_t)[None])
        return a + np.sum(of_y, axis=0) + g_states[0], *cotangents


def _solve_stages(tableau: Tableau, h: Any, jacobians: Any, columns: Any) -> tuple[Any, Any]:
    """Cotangents k of the slopes and y of the states of the stages, with k = columns + h a' y and
    y = J' k. Shapes: jacobians (steps, s, n, n), the others (steps, s, n, columns)."""
    transposed = np.swapaxes(jacobians, -1, -2)
    if not tableau.is_explicit:
        count, s, n, _ = np.shape(jacobians)
        coupling = np.einsum("rs,irkj->isjrk", tableau.a, jacobians)
        system = np.eye(s * n) - h * np.reshape(coupling, (count, s * n, s * n))
        k = np.linalg.solve(system, np.reshape(columns, (count, s * n, -1)))
        k = np.reshape(k, np.shape(columns))
        return k, transposed @ k
    ks: list[Any] = []  # from the last stage back
    ys: list[Any] = []
    for at in reversed(range(len(tableau.c))):
        k = columns[:, at]
        for later, y in enumerate(reversed(ys), at + 1):
            if tableau.a[later, at]:
                k = k + h * tableau.a[later, at] * y
        ks.append(k)
        ys.append(transposed[:, at] @ k)
    return np.stack(ks[::-1], axis=1), np.stack(ys[::-1], axis=1)
