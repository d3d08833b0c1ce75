"""`solve_bvp`: SciPy's solutions, and the derivatives of the closed forms."""

import numpy as np
import pytest
import scipy.integrate
from tables import refused

from tracker import UnsupportedError, gradient, jit, param, value_and_grad
from tracker.scipy import integrate
from tracker.testing import gradcheck, ngradient

NODES = np.linspace(0.0, 1.0, 5)
GUESS = np.stack([np.sin(np.pi * NODES), 3 * np.cos(np.pi * NODES)])


def oscillation(m, stiffness, end, height, **options):
    """y'' = -stiffness y from 0 at 0 to a height at the end."""
    return m.solve_bvp(
        lambda x, y: np.stack([y[1], -stiffness * y[0]]),
        lambda start, stop: np.stack([start[0], stop[0] - height]),
        NODES * end, np.ones((2, 5)), tol=1e-6, **options)  # fmt: skip


def curve(m, t):
    found = oscillation(m, *t)
    return found.sol(0.3)[0] + found.sol(0.4, 1)[1] + found.y[1, 0] + found.yp[1, -1] + found.x[-1]


def curve_exactly(t):
    stiffness, end, height = t
    w = np.sqrt(stiffness)
    first = height / np.sin(w * end)
    inner = np.sin(0.3 * w) + w - w * w * np.sin(0.4 * w)
    return first * inner - stiffness * height + end


def eigenvalue(m, t):
    """The lowest frequency of a string, and its shape at a point."""
    found = m.solve_bvp(
        lambda x, y, p: np.stack([y[1], -(p[0] ** 2) * y[0]]),
        lambda start, stop, p: np.stack([start[0], stop[0], start[1] - t[1] * p[0]]),
        NODES * t[0], GUESS, [3.0], None, None, None, 1e-6)  # fmt: skip
    return found.p[0] ** 2 + found.sol(0.5)[0]


def eigenvalue_exactly(t):
    return (np.pi / t[0]) ** 2 + t[1] * np.sin(0.5 * np.pi / t[0])


def bratu(m, t):
    """A nonlinear problem, whose solution has a jump of curvature where x is 0.4."""
    found = m.solve_bvp(
        lambda x, y: np.stack([y[1], -np.exp(y[0]) * np.where(x < 0.4, t[0], t[1])]),
        lambda start, stop: np.stack([start[0], stop[0] - t[2]]),
        np.linspace(0.0, 1.0, 11), np.zeros((2, 11)), tol=1e-11, max_nodes=11)  # fmt: skip
    return np.sum(found.y[0] ** 2)


PROGRAMS = {
    "values at the ends": (curve, curve_exactly, [2.0, 1.3, 0.7]),
    "an unknown parameter": (eigenvalue, eigenvalue_exactly, [1.1, 0.6]),
    "a fixed mesh": (bratu, lambda t: bratu(scipy.integrate, t), [0.9, 0.7, 0.1]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    f, exact, t = PROGRAMS[name]
    t = np.array(t)
    value, (want,) = f(scipy.integrate, t), ngradient(exact, t)
    fast = value_and_grad(jit(lambda t: f(scipy.integrate, t)))
    for g in (value_and_grad(lambda t: f(integrate, t)), fast, fast):
        found, slope = g(t)
        np.testing.assert_allclose(found, value, rtol=1e-9)
        np.testing.assert_allclose(slope, want, rtol=2e-5)
    compiled = jit(lambda t: f(scipy.integrate, t))
    for _ in range(2):
        np.testing.assert_allclose(compiled(t), value, rtol=1e-9)


def test_second_derivatives_on_a_fixed_mesh():
    assert gradcheck(lambda t: bratu(integrate, t), np.array([0.9, 0.7, 0.1]), order=2)


def test_a_plain_solution_takes_tracked_points():
    found, want = (oscillation(m, 2.0, 1.3, 0.7) for m in (integrate, scipy.integrate))
    np.testing.assert_array_equal(found.y, want.y)
    (slope,) = gradient(lambda x: oscillation(scipy.integrate, 2.0, 1.3, 0.7).sol(x)[0], 0.4)
    assert slope == pytest.approx(want.sol(0.4, 1)[0])


test_refused = refused(
    {
        UnsupportedError: {
            r"solve_bvp with S= .* singular term": lambda: oscillation(
                integrate, param(2.0), 1.0, 1.0, S=np.zeros((2, 2))
            ),
        },
        ValueError: {
            "`y` is expected to have 5 columns": lambda: integrate.solve_bvp(
                lambda x, y: param(y), lambda a, b: a, NODES, np.ones((2, 5))[:, :4]
            ),
        },
    }
)
