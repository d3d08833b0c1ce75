"""Linear programs, linear least squares in bounds and older minimisers of `tracker.scipy.optimize`:
SciPy's solutions, their derivatives against exact solutions of the optimality conditions, and
compiled."""

import numpy as np
import pytest
import scipy.optimize
from exact_derivatives import check_exact, solved
from tables import refused

from tracker import UnsupportedError, data, gradient, jit, param
from tracker.scipy import optimize

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(6, 3)), RNG.normal(size=6)
A_UB, B_UB = np.array([[1.0, 2.0, 1.0], [3.0, 1.0, 2.0]]), np.array([4.0, 5.0])
A_EQ = np.array([[1.0, -1.0, 0.5]])
T = np.linspace(0.0, 2.0, 8)
Y = 2 * np.exp(-1.3 * T) + 0.05 * np.cos(7 * T)
P = np.array([0.7, 0.4])


def valley(x, a, b):
    return (x[0] - a) ** 2 + 3 * (x[1] - b * x[0]) ** 4 + np.sum((x - b) ** 2)


def misfit(q, a, b):
    return q[0] * np.exp(-q[1] * T) - Y * a - b * 0.1 * T


CASES = {
    "nnls": lambda m, p: np.concatenate(
        [m.nnls(A * p[0], B + p[1] * A[:, 0])[0], np.reshape(m.nnls(A, B * p[1])[1], (1,))]),
    "lsq_linear": lambda m, p: m.lsq_linear(A + p[0], B * p[1], (-0.02 * p[0], 0.1)).x,
    "lsq_linear, cost": lambda m, p: np.reshape(m.lsq_linear(A * p[0], B + p[1]).cost, (1,)),
    "linprog": lambda m, p: m.linprog([-1.0, -2.0, -1.5], A_UB * p[0], B_UB + p[1]).x,
    "linprog with equations": lambda m, p: (
        m.linprog(
            [1.0, 2.0, p[0]], A_UB, B_UB, A_EQ, [p[1]], [(None, 3), (p[0], None), (-p[1], 2.0)]
        ).x),
    "linprog, its least": lambda m, p: np.reshape(
        m.linprog(np.stack([-p[0], -p[1], -1.0]), A_UB, B_UB, bounds=(0, 1.3)).fun, (1,)),
    "fmin": lambda m, p: m.fmin(valley, [1.0, 1.0], (p[0], p[1]), 1e-10, 1e-12, disp=0),
    "fmin_bfgs": lambda m, p: m.fmin_bfgs(
        lambda x: valley(x, p[0], p[1]), np.ones(2), gtol=1e-7, disp=False),
    "fmin_cg": lambda m, p: m.fmin_cg(valley, np.ones(2), args=(p[0], p[1]), gtol=1e-7, disp=False),
    "fmin_cg, its least": lambda m, p: np.reshape(m.fmin_cg(  # of a cost of shape (1,)
        lambda x: np.reshape(valley(x, *p), (1,)), [1.0, 1.0], gtol=1e-7, disp=0, full_output=1)[1],
        (1,)),
    "fmin_powell": lambda m, p: m.fmin_powell(
        valley, np.ones(2), (p[0], p[1]), xtol=1e-10, ftol=1e-12, disp=False),
    "leastsq": lambda m, p: m.leastsq(
        misfit, [1.0, 1.0], (p[0], p[1]), ftol=1e-13, xtol=1e-13, gtol=1e-13
    )[0],
}  # fmt: skip


# What each case equals, for complex parameters, too.


def free_squares(a, b, x, low, high):
    """The least squares of a @ x - b, where the entries of `x` that are within the bounds move; the
    others are at the bound that they are near."""
    free = (x - low.real > 1e-3) & (high.real - x > 1e-3)
    held = np.where(free, 0, np.where(x - low.real > 1e-3, high, low))
    inner = a[:, free]
    out = held + 0j
    out[free] = np.linalg.solve(inner.T @ inner, inner.T @ (b - a @ held))
    return out


def positive_squares(a, b):
    x, _ = scipy.optimize.nnls(np.real(a), np.real(b))
    return free_squares(a, b, x, np.zeros(3), np.full(3, np.inf))


def lengths(p):
    rest = A @ positive_squares(A, B * p[1]) - B * p[1]
    return np.append(positive_squares(A * p[0], B + p[1] * A[:, 0]), np.sqrt(rest @ rest))


def squares_in_bounds(p):
    low, high = -0.02 * p[0] * np.ones(3), np.full(3, 0.1)
    x = CASES["lsq_linear"](scipy.optimize, np.real(p))
    return free_squares(A + p[0], B * p[1], x, low, high)


def cost(p):
    b = B + p[1]
    rest = A @ np.linalg.solve(A.T @ A, A.T @ b) - b
    return np.reshape(rest @ rest / 2, (1,))


def lowest(p):
    a, b = p

    def conditions(x):
        up = 12 * (x[1] - b * x[0]) ** 3
        return 2 * (x - b) + np.stack([2 * (x[0] - a) - b * up, up])

    return solved(conditions, [0.5, 0.4])


def corner(p):
    """The first is at its bound, the inequalities hold as equations."""
    return np.append(0, np.linalg.solve(A_UB[:, 1:] * p[0], B_UB + p[1]))


def least_cost(p):
    """The last is at its bound, the inequalities hold as equations."""
    x = np.linalg.solve(A_UB[:, :2], B_UB - 1.3 * A_UB[:, 2])
    return np.reshape(-p[0] * x[0] - p[1] * x[1] - 1.3, (1,))


def best_fit(p):
    def conditions(q):
        e = np.exp(-q[1] * T)
        return np.stack([e, -T * q[0] * e]) @ misfit(q, *p)

    return solved(conditions, [2 * p[0], 1.3])


EXACT = {
    "nnls": lengths, "lsq_linear": squares_in_bounds, "lsq_linear, cost": cost, "linprog": corner,
    "linprog with equations": lambda p: np.stack([p[0] + 1.5 * p[1], p[0], -p[1]]),
    "linprog, its least": least_cost,
    "fmin_cg, its least": lambda p: np.reshape(valley(lowest(p), p[0], p[1]), (1,)),
    **dict.fromkeys(["fmin", "fmin_bfgs", "fmin_cg", "fmin_powell"], lowest), "leastsq": best_fit,
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_solutions(name):
    f = CASES[name]
    want, found = f(scipy.optimize, P), data(f(optimize, param(P)))
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-6)
    check_exact(lambda p: f(optimize, p), EXACT[name], P, order=2, rtol=1e-4)


@pytest.mark.parametrize("name", ["nnls", "lsq_linear", "linprog", "fmin", "leastsq"])
def test_compiled(name):
    f = CASES[name]
    fast = jit(lambda p: gradient(lambda p: np.sum(f(optimize, p) ** 2), p)[0])
    for p in (P, P, 1.1 * P):
        want = gradient(lambda p: np.sum(f(optimize, p) ** 2), p)[0]
        np.testing.assert_allclose(fast(p), want, rtol=1e-4, atol=1e-6)


def test_plain_numbers_and_constants():
    for name in ("nnls", "linprog"):
        ours, theirs = (CASES[name](m, P) for m in (optimize, scipy.optimize))
        np.testing.assert_array_equal(ours, theirs)
    costs = np.array([[4.0, 1.0], [2.0, 3.0]])
    for ours, theirs in zip(
        optimize.linear_sum_assignment(param(costs)),
        scipy.optimize.linear_sum_assignment(costs),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)


m, Q = optimize, param(P)
test_refused = refused(
    {
        UnsupportedError: {
            "constraints meet": lambda: m.linprog([-1, -1], [[1, 1]], 0 * Q[:1] + 2, bounds=(0, 1)),
            "without a solution": lambda: m.linprog([-1.0, 0.0], A_eq=[[0.0, 1.0]], b_eq=Q[:1]),
            "linprog with integrality=": lambda: m.linprog(Q, bounds=(0, 1), integrality=1),
            "dependent": lambda: m.lsq_linear(np.ones((3, 2)), np.ones(3) * Q[0]),
            "fmin_bfgs with full_output= .* use minimize": lambda: m.fmin_bfgs(
                valley, P, None, (Q[0], Q[1]), full_output=1
            ),
            "leastsq with full_output=": lambda: m.leastsq(misfit, P, (Q[0], Q[1]), full_output=1),
            "fmin_l_bfgs_b has .* Use minimize": lambda: m.fmin_l_bfgs_b(valley, P, None, (Q, Q)),
            "Use minimize": lambda: m.differential_evolution(valley, [(0, 1)], (Q,)),
        }
    }
)
