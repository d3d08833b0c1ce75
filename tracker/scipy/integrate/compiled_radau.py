"""Radau's method as one loop of a trace, for compiled code: for stiff equations.

The control of the steps is that of `scipy.integrate.Radau` (E. Hairer, G. Wanner, Solving Ordinary
Differential Equations II, section IV.8), with a new Jacobian for each step. No derivative is taken
of this loop: a second one goes through the attempts again, with the solutions of their equations
at hand, which are differentiated by the implicit function theorem. Start at `RadauFlow`.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import scipy.integrate

from tracker.autodiff.stop_gradient import ignore_derivatives
from tracker.control import while_loop, while_loop_history
from tracker.scipy.integrate.compiled_runge_kutta import (
    LARGEST_FACTOR,
    LEAST_FACTOR,
    NO_STEPS,
    SAFETY,
    CompiledFlow,
    rms,
)
from tracker.scipy.integrate.tableau import moved, tableau_of
from tracker.tape.observers import is_deriving
from tracker.transforms.jacobians import jacobian
from tracker.transforms.vmap import vmap

_ITERATIONS = 6
MOST_EQUATIONS = 32  # a step inverts a matrix of three times as many rows
_DERIVATIVES = 3  # the order up to which solutions have them
_ERROR = np.array([-13 - 7 * 6**0.5, -13 + 7 * 6**0.5, -1]) / 3
_MU = 3 + 3 ** (2 / 3) - 3 ** (1 / 3)  # the real eigenvalue of the inverse of a


class _RadauState(NamedTuple):
    """Where an attempt starts, as in `compiled_runge_kutta.py`. `slopes`: of the last accepted
    step, of size `step`; and what the next size also depends on."""

    t: Any
    y: Any
    slope: Any
    size: Any
    was_refused: Any
    accepted: Any
    slopes: Any
    step: Any
    old_size: Any
    old_error: Any


class RadauFlow(CompiledFlow):
    """The solution by Radau's method, of few real equations."""

    def __init__(self, f: Any, start: Any, end: Any, y0: Any, control: Any) -> None:
        first, self.ends, self.y0 = ignore_derivatives(start), (start, end), y0
        y0 = moved(f, y0, start, first) if is_deriving() else y0
        self.right = f
        self.plain: Any = lambda t, y: ignore_derivatives(f(t, y))
        super().__init__(
            self.plain,
            first,
            ignore_derivatives(end),
            ignore_derivatives(y0),
            tableau_of(scipy.integrate.Radau),
            control,
        )
        self.last = _RadauState(*map(ignore_derivatives, self.last))
        self.states = _RadauState(*map(ignore_derivatives, self.states))
        if is_deriving():
            self._differentiate(y0)

    def _first_state(self, y0: Any, slope: Any, size: Any) -> Any:
        slopes = np.stack([0.0 * slope] * 3)
        zero = 0.0 * size
        return _RadauState(
            self.start, y0, slope, size, np.False_, NO_STEPS, slopes, zero, zero, zero
        )

    def _attempt(self, state: Any) -> Any:
        t, y, tableau = state.t, state.y, self.tableau
        size, next_t = self._proposal(state, t)
        is_bounded = (size != state.size) & ~state.was_refused
        h = next_t - t
        slope = ignore_derivatives(jacobian(lambda y: self.right(t, y), y)[0])
        n = np.shape(y)[0]
        system = np.eye(3 * n) - h * np.reshape(
            tableau.a[:, None, :, None] * slope[None, :, None, :], (3 * n, 3 * n)
        )
        inverse = np.linalg.inv(system)
        has_step = state.step != 0
        ratio = h / np.where(has_step, state.step, 1.0)
        ahead = tableau.weights_at(1.0 + ratio * tableau.c) - tableau.b
        guess = np.where(has_step, state.step * (ahead @ state.slopes), 0.0)
        z, count, is_solved = self._solve(t, y, h, guess, inverse)
        next_y = y + z[2]
        of_error = np.linalg.inv(_MU / h * np.eye(n) - slope)
        by_z = (_ERROR @ z) / h
        scale = self.control.atol + np.maximum(np.abs(y), np.abs(next_y)) * self.control.rtol
        error = of_error @ (state.slope + by_z)
        again = of_error @ (self.plain(t, y + error) + by_z)
        norm = rms(error / scale)
        norm = np.where(state.was_refused & (norm > 1), rms(again / scale), norm)
        is_good = is_solved & (norm <= 1)
        safety = SAFETY * (2 * _ITERATIONS + 1) / (2 * _ITERATIONS + count)
        known = (state.old_size > 0) & (state.old_error > 0) & (norm > 0) & ~is_bounded
        positive = np.where(norm > 0, norm, 1e-30)
        of_old = np.where(known, state.old_error, positive) / positive
        growth = np.abs(h) / np.where(known, state.old_size, np.abs(h)) * of_old**0.25
        factor = safety * np.minimum(1.0, np.where(known, growth, 1.0)) * positive**-0.25
        larger = np.minimum(LARGEST_FACTOR, factor)
        larger = np.where(larger < 1.2, 1.0, larger)
        smaller = np.where(is_solved, np.fmax(LEAST_FACTOR, factor), 0.5)
        slopes = np.linalg.inv(tableau.a) @ z / h
        return _RadauState(
            t=np.where(is_good, next_t, t),
            y=np.where(is_good, next_y, y),
            slope=np.where(is_good, self.plain(next_t, next_y), state.slope),
            size=np.abs(h) * np.where(is_good, larger, smaller),
            was_refused=~is_good,
            accepted=state.accepted + is_good,
            slopes=np.where(is_good, slopes, state.slopes),
            step=np.where(is_good, h, state.step),
            old_size=np.where(is_good, np.abs(h), state.old_size),
            old_error=np.where(is_good, norm, state.old_error),
        )

    def _solve(self, t: Any, y: Any, h: Any, z: Any, inverse: Any) -> Any:
        """The increments of the stages, how many iterations they took, and whether they converge:
        Newton's method with one Jacobian."""
        scale = self.control.atol + np.abs(y) * self.control.rtol
        tolerance = np.maximum(
            10 * np.finfo(float).eps / self.control.rtol,
            np.minimum(0.03, self.control.rtol**0.5),
        )

        def goes_on(state: Any) -> Any:
            _, count, _, is_solved, fails = state
            return (count < _ITERATIONS) & ~is_solved & ~fails

        def iterate(state: Any) -> Any:
            z, count, old, _, _ = state
            slopes = np.stack([self.plain(t + c * h, y + z[i]) for i, c in enumerate(self._c)])
            dz = np.reshape(
                inverse @ np.reshape(h * (self.tableau.a @ slopes) - z, -1), np.shape(z)
            )
            norm = rms(dz / scale)
            rate = norm / np.where(old > 0, old, 1.0)
            has_rate = count > 0
            left = rate / np.where(rate < 1, 1 - rate, 1.0)
            rest = rate ** (_ITERATIONS - count) / np.where(rate < 1, 1 - rate, 1.0) * norm
            fails = ~(norm < np.inf) | (has_rate & ((rate >= 1) | (rest > tolerance)))
            is_solved = ~fails & ((norm == 0) | (has_rate & (left * norm < tolerance)))
            return np.where(fails, z, z + dz), count + 1, norm, is_solved, fails

        z, count, _, is_solved, _ = while_loop(
            goes_on, iterate, (z, 0, np.float64(0.0), np.False_, np.False_)
        )
        return z, count, is_solved

    @property
    def _c(self) -> list[float]:
        return self.tableau.c.tolist()  # type: ignore[no-any-return]

    def accepted_states(self) -> tuple[Any, Any]:
        times, states = super().accepted_states()
        (start, end), inner = self.ends, slice(1, -1)
        last = moved(self.right, states[-1], times[-1], end) if is_deriving() else states[-1]
        return (
            np.concatenate([np.stack([start]), times[inner], np.stack([end])]),
            np.concatenate([np.stack([self.y0]), states[inner], np.stack([last])]),
        )

    def _differentiate(self, y0: Any) -> None:
        """Give the states and slopes their derivatives."""
        states, last, a = self.states, self.last, self.tableau.a
        most = np.shape(states.t)[0] - 1
        inverse = np.linalg.inv(a)

        def step(state: Any) -> Any:
            k, y, slopes = state
            is_last, after = k + 1 == self.attempts, np.minimum(k + 1, most)
            end = np.where(is_last, last.t, states.t[after])
            t, h = states.t[k], end - states.t[k]
            found = np.where(is_last, last.slopes, states.slopes[after])
            z = _implicit(self.right, t, h, y, h * (a @ found), self.tableau)
            is_good = h != 0
            safe = np.where(is_good, h, 1.0)
            return (
                k + 1,
                np.where(is_good, y + z[2], y),
                np.where(is_good, inverse @ z / safe, slopes),
            )

        first = (0, y0, np.zeros((3, np.shape(y0)[0])))
        end, _, history = while_loop_history(lambda state: state[0] < self.attempts, step, first)
        self.last = last._replace(y=end[1], slopes=end[2])
        self.states = states._replace(y=history[1], slopes=history[2])

    def __call__(self, t: Any) -> Any:
        at = ignore_derivatives(t)
        y = super().__call__(at)
        if not is_deriving() or not np.size(t):
            return y
        move: Any = functools.partial(moved, self.right)
        return (vmap(move) if np.ndim(t) else move)(y, at, t)


def _implicit(f: Any, t: Any, h: Any, y: Any, z: Any, tableau: Any) -> Any:
    """The increments z of the stages, as functions of what z = h a f(y + z) depends on: each step
    with a constant inverse gives the derivatives of one more order."""
    n = np.shape(z)[1]
    times = [t + c * h for c in tableau.c.tolist()]
    slopes = [jacobian(functools.partial(f, x), y + z[i])[0] for i, x in enumerate(times)]
    parts = tableau.a[:, None, :, None] * np.swapaxes(np.stack(slopes), 0, 1)[None]
    system = np.eye(3 * n) - h * np.reshape(parts, (3 * n, 3 * n))
    inverse = np.linalg.inv(ignore_derivatives(system))
    for _ in range(_DERIVATIVES):
        right = h * (tableau.a @ np.stack([f(x, y + z[i]) for i, x in enumerate(times)]))
        z = z + np.reshape(inverse @ np.reshape(right - z, -1), (3, n))
    return z
