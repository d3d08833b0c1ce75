"""Loops within `ignore_derivatives()`: constants for derivatives, and loops in compiled code."""

import numpy as np
import pytest

from tracker import (
    cond,
    fori_loop,
    gradient,
    ignore_derivatives,
    jit,
    scan,
    trace,
    value_and_grad,
    while_loop,
)


def heron(a):
    return while_loop(lambda s: np.abs(s * s - a) > 1e-9, lambda s: (s + a / s) / 2, a)


def nested(a):
    def outer(i, s):
        return s + a * np.sin(s) * fori_loop(0, 20, lambda j, t: t * 0.9 + a * 0.1, s)

    return fori_loop(0, 30, outer, a)


def scanned(a):
    c, ys = scan(lambda c, x: (c * x + a, c * 2), a, np.linspace(0, 1, 40))
    return np.sum(ys) + c


def branch_in_loop(a):
    return fori_loop(0, 30, lambda i, s: s + 0.1 * cond(s > 1, np.sin, np.cos, s * a), a)


def derivative_in_loop(a):
    def step(s):
        return s[0] - 0.1 * gradient(lambda z: (z - a) ** 2 * z, s[0])[0], s[1] + 1

    return while_loop(lambda s: s[1] < 30, step, (a * 0.5, 0))[0]


LOOPS = {f.__name__: f for f in (heron, nested, scanned, branch_in_loop, derivative_in_loop)}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_within_a_scope_stays_a_loop(name):
    solve = LOOPS[name]

    def f(a):
        with ignore_derivatives():
            x = solve(a)
        return x * a**2

    def second(a):
        return gradient(lambda b: gradient(f, b)[0], a)[0]

    compiled = jit(f), jit(lambda a: gradient(f, a)[0]), jit(second)
    for a in (1.7, 1.7, 0.4, 2.3):
        x = float(solve(a))
        want = x * a**2, 2 * x * a, 2 * x
        np.testing.assert_allclose([f(a), gradient(f, a)[0], second(a)], want, rtol=1e-12)
        np.testing.assert_allclose([g(a) for g in compiled], want, rtol=1e-9)
        np.testing.assert_allclose(value_and_grad(compiled[0])(a), (want[0], (want[1],)[0]))
    assert all(g.cache_info().traces == 1 for g in compiled[1:])
    assert {"while", "loop"} & {eqn.op.name for eqn in trace(f, 1.7).eqns}
    assert len(list(trace(f, 1.7).eqns)) < 12
