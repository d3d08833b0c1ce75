"""`tracker.scipy.optimize`: linear programs, linear least squares in bounds, older minimisers.
SciPy's solutions, gradients against differences of these, second derivatives, and compiled."""

import numpy as np
import pytest
import scipy.optimize

from tracker import UnsupportedError, data, gradient, hessian, jit, jvp, param
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
        [m.nnls(A * p[0], B + p[1] * A[:, 0])[0], np.reshape(m.nnls(A, B * p[1])[1], (1,))]
    ),
    "lsq_linear": lambda m, p: m.lsq_linear(A + p[0], B * p[1], (-0.02 * p[0], 0.1)).x,
    "lsq_linear, cost": lambda m, p: np.reshape(m.lsq_linear(A * p[0], B + p[1]).cost, (1,)),
    "linprog": lambda m, p: m.linprog([-1.0, -2.0, -1.5], A_UB * p[0], B_UB + p[1]).x,
    "linprog with equations": lambda m, p: (
        m.linprog(
            [1.0, 2.0, p[0]], A_UB, B_UB, A_EQ, [p[1]], [(None, 3), (p[0], None), (-p[1], 2.0)]
        ).x
    ),
    "linprog, its least": lambda m, p: np.reshape(
        m.linprog(np.stack([-p[0], -p[1], -1.0]), A_UB, B_UB, bounds=(0, 1.3)).fun, (1,)
    ),
    "fmin": lambda m, p: m.fmin(valley, [1.0, 1.0], (p[0], p[1]), 1e-10, 1e-12, disp=0),
    "fmin_bfgs": lambda m, p: m.fmin_bfgs(
        lambda x: valley(x, p[0], p[1]), np.ones(2), gtol=1e-8, disp=False
    ),
    "fmin_cg": lambda m, p: m.fmin_cg(valley, np.ones(2), args=(p[0], p[1]), gtol=1e-7, disp=False),
    "fmin_powell": lambda m, p: m.fmin_powell(
        valley, np.ones(2), (p[0], p[1]), xtol=1e-10, ftol=1e-12, disp=False
    ),
    "leastsq": lambda m, p: m.leastsq(misfit, [1.0, 1.0], (p[0], p[1]), xtol=1e-12)[0],
}


@pytest.mark.parametrize("name", CASES)
def test_solutions(name):
    f = CASES[name]
    want, found = f(scipy.optimize, P), data(f(optimize, param(P)))
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-7)
    weights = np.cos(np.arange(np.size(want)))

    def loss(p):
        return np.sum(f(optimize, p) ** 2 * weights)

    def plain(p):
        return np.sum(f(scipy.optimize, p) ** 2 * weights)

    (slope,) = gradient(loss, P)
    steps = 1e-4 * np.eye(2)
    differences = [(plain(P + s) - plain(P - s)) / 2e-4 for s in steps]
    np.testing.assert_allclose(slope, differences, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(
        jvp(loss, (P,), (np.array([1.0, -2.0]),))[1], slope @ [1.0, -2.0], rtol=1e-8, atol=1e-10
    )
    second = [(gradient(loss, P + s)[0] - gradient(loss, P - s)[0]) / 2e-4 for s in steps]
    np.testing.assert_allclose(hessian(loss, P), second, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["nnls", "lsq_linear", "linprog", "fmin", "leastsq"])
def test_compiled(name):
    f = CASES[name]
    fast = jit(lambda p: gradient(lambda p: np.sum(f(optimize, p) ** 2), p)[0])
    for p in (P, P, 1.1 * P):
        want = gradient(lambda p: np.sum(f(optimize, p) ** 2), p)[0]
        np.testing.assert_allclose(fast(p), want, rtol=1e-6, atol=1e-9)


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


def test_refusals():
    m, p = optimize, param(P)
    for wrong, match in (
        (lambda: m.linprog([-1, -1], [[1, 1]], 0 * p[:1] + 2, bounds=(0, 1)), "constraints meet"),
        (lambda: m.linprog([-1.0, 0.0], A_eq=[[0.0, 1.0]], b_eq=p[:1]), "without a solution"),
        (lambda: m.linprog(p, bounds=(0, 1), integrality=1), "linprog with integrality="),
        (lambda: m.lsq_linear(np.ones((3, 2)), np.ones(3) * p[0]), "dependent"),
        (lambda: m.fmin(valley, P, (p[0], p[1]), full_output=1), "fmin with full_output="),
        (lambda: m.leastsq(misfit, P, (p[0], p[1]), full_output=1), "leastsq with full_output="),
        (lambda: m.fmin_l_bfgs_b(valley, P, None, (p, p)), "fmin_l_bfgs_b has .* Use minimize"),
        (lambda: m.differential_evolution(valley, [(0, 1)], (p,)), "Use minimize"),
    ):
        with pytest.raises(UnsupportedError, match=match):
            wrong()
