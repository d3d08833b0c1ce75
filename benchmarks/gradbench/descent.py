"""The evals particle and saddle: derivatives of programs that take derivatives, in all four
combinations of forward and reverse mode."""

from __future__ import annotations

import numpy as np
from case import Case, floats

from tracker import cond, gradient, jit, jvp, while_loop


def forward(f, x):
    return np.stack([jvp(f, (x,), (direction,))[1] for direction in np.eye(len(x))])


def reverse(f, x):
    return gradient(f, x)[0]


MODES = {"f": forward, "r": reverse}


def length(x):
    return np.sqrt(np.sum(x**2))


def argmin(f, slope, start):
    """Gradient descent; the step doubles after ten successes and is halved after a failure."""

    def move(state):
        x, fx, gx, wins, eta, _ = state

        def doubled(x, fx, gx, wins, eta):
            return x, fx, gx, 0.0 * wins, 2 * eta, 0.0 * eta

        def tried(x, fx, gx, wins, eta):
            there = x - eta * gx
            return cond(
                length(x - there) <= 1e-5, ended, compared, x, fx, gx, wins, eta, there, f(there)
            )

        def compared(x, fx, gx, wins, eta, there, f_there):
            return cond(f_there < fx, better, worse, x, fx, gx, wins, eta, there, f_there)

        def better(x, fx, gx, wins, eta, there, f_there):
            return there, f_there, slope(there), wins + 1, eta, 0.0 * eta

        def worse(x, fx, gx, wins, eta, *_):
            return x, fx, gx, 0.0 * wins, eta / 2, 0.0 * eta

        def ended(x, fx, gx, wins, eta, *_):
            return x, fx, gx, wins, eta, 0.0 * eta + 1.0

        def on(*state):
            return cond(wins == 10, doubled, tried, *state)

        return cond(length(gx) <= 1e-5, ended, on, x, fx, gx, wins, eta)

    zero = 0.0 * start[0]
    begin = (start, f(start), slope(start), zero, zero + 1e-5, zero)
    return while_loop(lambda state: state[-1] < 0.5, move, begin)[0]


# particle -----------------------------------------------------------------------------------------


def missed_by(inner):
    """By how much a particle misses the origin, squared; `w` moves a charge that bends its path."""

    def objective(w):
        def potential(x):
            return 1 / length(x - np.stack([10.0, 10.0 - w[0]])) + 1 / length(x - [10.0, 0.0])

        def step(state):
            x, v, _ = state
            return x + 0.1 * v, v - 0.1 * inner(potential, x), v

        speed = np.array([0.75, 0.0])
        start = (np.array([0.0, 8.0]), speed, speed)
        x, _, v = while_loop(lambda state: state[0][1] > 0, step, start)
        return (x[0] - x[1] / v[1] * v[0]) ** 2

    return objective


def particle(outer, inner):
    f = missed_by(inner)
    return jit(lambda w: argmin(f, lambda w: outer(f, w), w))


# saddle -------------------------------------------------------------------------------------------


def height(p, q):
    return np.sum(p**2) - np.sum(q**2)


def saddle(outer, inner):
    def top(p, start):
        def depth(q):
            return -height(p, q)

        return argmin(depth, lambda q: inner(depth, q), start)

    @jit
    def solve(start):
        def highest(p):
            return height(p, top(p, start))

        p = argmin(highest, lambda p: outer(highest, p), start)
        return np.concatenate([p, top(p, start)])

    return solve


def combined(make, read, write):
    """Functions rr, rf, fr, ff: the outer mode, then the inner one."""
    return {a + b: Case(read, make(MODES[a], MODES[b]), write) for a in MODES for b in MODES}


EVALS = {
    "particle": combined(particle, lambda given: (floats([given["w"]]),), lambda w: w[0].item()),
    "saddle": combined(saddle, lambda given: (floats(given["start"]),), lambda x: x.tolist()),
}
