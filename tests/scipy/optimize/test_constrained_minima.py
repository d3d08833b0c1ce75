"""Derivatives of `scipy.optimize.minimize` under constraints: closed forms, and random quadratic
programs, whose active constraints are known because their solution is made first."""

import numpy as np
import pytest
import scipy.optimize
from exact_derivatives import check_exact
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint, minimize

from tracker import RuleError, UnsupportedError, gradient, hessian, jacobian, jit

Q = np.array([[2.0, 0.5], [0.5, 1.0]])
START = np.array([0.3, 0.2])


def quadratic(x, b):
    return 0.5 * x @ Q @ x - b @ x


def quadratic_slope(x, b):
    return Q @ x - b


def solve(b, constraints, method="SLSQP", **options):
    return minimize(
        quadratic, START, (b,), method, jac=quadratic_slope, constraints=constraints, tol=1e-12,
        **options,
    ).x  # fmt: skip


def on_line(b, c):
    """The minimum where x[0] + x[1] = c."""
    x = (c * (1.0 - 0.5) + b[0] - b[1]) / (2.0 + 1.0 - 2 * 0.5)
    return np.stack([x, c - x])


B, C = np.array([1.0, 2.0]), 0.5
FORMS = {
    "eq": lambda b, c: {"type": "eq", "fun": lambda x: x[0] + x[1] - c},
    "ineq": lambda b, c: {"type": "ineq", "fun": lambda x: c - x[0] - x[1]},
    "args": lambda b, c: [{"type": "ineq", "fun": lambda x, c: [c - x[0] - x[1]], "args": (c,)}],
    "linear": lambda b, c: LinearConstraint(np.ones((1, 2)), -np.inf, c),
    "linear, both ends": lambda b, c: LinearConstraint(np.ones((1, 2)), c - 9.0, c),
    "nonlinear": lambda b, c: NonlinearConstraint(lambda x: np.exp(x[0] + x[1]), 0, np.exp(c)),
    "inactive ones, too": lambda b, c: [
        {"type": "ineq", "fun": lambda x: x + 50.0},
        LinearConstraint(np.ones((1, 2)), c, c),
    ],
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_a_constraint(name):
    def f(b, c):
        return solve(b, FORMS[name](b, c))

    check_exact(f, on_line, B, C, order=2, rtol=1e-5)


@pytest.mark.parametrize("name", ["eq", "args", "linear", "nonlinear"])
def test_compiled(name):
    def f(b, c):
        return solve(b, FORMS[name](b, c))

    slopes = jit(lambda b, c: jacobian(f, b, c))
    for c in (0.5, 0.5, 0.8, 40.0):  # held, and free
        for ours, want in zip(slopes(B, c), jacobian(f, B, c), strict=True):
            np.testing.assert_allclose(ours, want, atol=1e-6)


@pytest.mark.filterwarnings("ignore:delta_grad == 0.0")  # of the linear constraint
@pytest.mark.parametrize("method", ["trust-constr", "COBYQA", "COBYLA"])
def test_other_methods(method):
    """Their results are less exact; the derivatives are those one Newton step closer."""
    options = {} if method == "trust-constr" else {"jac": None}

    def f(b, c):
        constraint = NonlinearConstraint(lambda x: x[0] + x[1], -np.inf, c)
        return minimize(
            quadratic, START, (b,), method, **(options or {"jac": quadratic_slope}),
            constraints=constraint, tol=1e-6,
        ).x  # fmt: skip

    by_b, by_c = jacobian(f, B, C)
    want_b, want_c = jacobian(on_line, B, C)
    np.testing.assert_allclose(by_b, want_b, atol=1e-5)
    np.testing.assert_allclose(by_c, want_c, atol=1e-5)


def project(y, method="SLSQP"):
    """The nearest point of the simplex."""
    return minimize(
        lambda x: np.sum((x - y) ** 2), np.full(len(y), 1 / len(y)), method=method,
        bounds=Bounds(0.0, np.inf), constraints={"type": "eq", "fun": lambda x: np.sum(x) - 1.0},
        tol=1e-13,
    ).x  # fmt: skip


@pytest.mark.parametrize("y", [[0.5, 0.9, -0.3, 0.1], [3.0, 0.0, 0.0, 0.5], [0.3, 0.2, 0.4, 0.1]])
def test_projection_onto_the_simplex(y):
    """I - 1 1^T / k in the k elements that are not zero."""
    y = np.array(y)
    inside = (project(y) > 1e-7).astype(float)
    want = np.diag(inside) - np.outer(inside, inside) / np.sum(inside)
    np.testing.assert_allclose(jacobian(project, y)[0], want, atol=1e-8)


def test_lagrange_multipliers():
    """The least x^2 + y^2 with x y = c; the derivative of the least value is the multiplier."""

    def found(c):
        return minimize(
            lambda x: x @ x, np.array([1.0, 2.0]), tol=1e-14,
            constraints={"type": "eq", "fun": lambda x: x[0] * x[1] - c},
        )  # fmt: skip

    check_exact(lambda c: found(c).x, lambda c: np.sqrt(c) * np.ones(2), 2.0, rtol=1e-5)
    assert gradient(lambda c: found(c).fun, 2.0)[0] == pytest.approx(2.0, rel=1e-5)
    assert hessian(lambda c: np.sum(found(c).x), 2.0) == pytest.approx(-0.5 * 2**-1.5, rel=1e-5)


def test_bounds_and_constraints_move_the_solution():
    def f(top, c):
        return minimize(
            lambda x: np.sum((x - 2.0) ** 2), np.zeros(3), bounds=[(None, top), (-1, 1), (0, None)],
            constraints=LinearConstraint(np.ones(3), -np.inf, c), tol=1e-13,
        ).x  # fmt: skip

    by_top, by_c = jacobian(f, 0.4, 2.2)
    np.testing.assert_allclose(by_top, [1.0, -0.5, -0.5], atol=1e-7)
    np.testing.assert_allclose(by_c, [0.0, 0.5, 0.5], atol=1e-7)


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_quadratic_programs(data):
    """The least x^T P x / 2 - q^T x with A x <= b: made from a solution, with multipliers away from
    zero, and differentiated in q, A and b as the equations of the active constraints are."""
    n = data.draw(st.integers(2, 5))
    m = data.draw(st.integers(1, 4))
    n_active = data.draw(st.integers(0, min(m, n - 1)))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    root = rng.normal(size=(n, n))
    p = root @ root.T + np.eye(n)
    a, x = rng.normal(size=(m, n)), rng.normal(size=n)
    multipliers = np.where(np.arange(m) < n_active, rng.uniform(0.5, 2.0, m), 0.0)
    slack = np.where(np.arange(m) < n_active, 0.0, rng.uniform(0.5, 2.0, m))
    b, q = a @ x + slack, p @ x + a.T @ multipliers
    weights = rng.normal(size=n)

    def f(q, a, b):
        found = minimize(
            lambda x: 0.5 * x @ p @ x - q @ x, np.zeros(n), jac=lambda x: p @ x - q,
            constraints=LinearConstraint(a, -np.inf, b), method="SLSQP", tol=1e-13,
        )  # fmt: skip
        return found.x @ weights

    def exact(q, a, b):
        """By the active constraints, as equations."""
        rows = a[:n_active]
        zero = np.zeros((n_active, n_active))
        system = np.concatenate([
            np.concatenate([p, rows.T], axis=1), np.concatenate([rows, zero], axis=1)
        ])  # fmt: skip
        return np.linalg.solve(system, np.concatenate([q, b[:n_active]]))[:n] @ weights

    assert f(q, a, b) == pytest.approx(x @ weights, abs=1e-5)
    for ours, want in zip(gradient(f, q, a, b), gradient(exact, q, a, b), strict=True):
        np.testing.assert_allclose(ours, want, atol=1e-6 * (1 + np.max(np.abs(want))))


def bounded_by(low, **options):
    """A minimum at 2, where the constraint is, too."""
    return lambda a: minimize(
        lambda x: np.sum((x - a) ** 2), np.zeros(2), tol=1e-12, method="SLSQP", **options
    ).x[0]


REFUSED = {
    "constraint 1 is active at the minimum that minimize found, with the multiplier": (
        UnsupportedError,
        bounded_by(
            2.0,
            constraints=[
                {"type": "ineq", "fun": lambda x: x[0] + 9.0},
                {"type": "ineq", "fun": lambda x: x[0] - 2.0},
            ],
        ),
    ),
    "the bound of x\\[1\\] is active at the minimum": (
        UnsupportedError,
        bounded_by(
            2.0,
            bounds=[(None, None), (2.0, None)],
            constraints={"type": "ineq", "fun": lambda x: x[0] + 9.0},
        ),
    ),
    "minimize found has a singular Jacobian": (
        UnsupportedError,
        bounded_by(
            1.0,
            constraints=[
                {"type": "eq", "fun": lambda x: x[0] - 1.0},
                {"type": "eq", "fun": lambda x: (x[0] - 1.0) * 2.0},
            ],
        ),
    ),
    "minimize returned does not satisfy its condition": (
        RuleError,
        lambda a: minimize(
            lambda x: np.sum((x - a) ** 4), np.array([1.0, 3.0]), method="SLSQP",
            options={"maxiter": 1},
            constraints={"type": "eq", "fun": lambda x: x[0] * x[1] - a},
        ).x[0],
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")
@pytest.mark.parametrize("text", REFUSED)
def test_refused(text):
    error, f = REFUSED[text]
    with pytest.raises(error, match=text):
        gradient(f, 2.0)


def test_values_are_scipys():
    want = scipy.optimize.minimize(
        quadratic, START, (B,), "SLSQP", jac=quadratic_slope, tol=1e-12,
        constraints=FORMS["linear"](B, C),
    )  # fmt: skip
    gradient(lambda b: np.sum(solve(b, FORMS["linear"](B, C))), B)
    np.testing.assert_array_equal(solve(B, FORMS["linear"](B, C)), want.x)
