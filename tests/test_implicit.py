"""`tracker.implicit`: derivatives of the results of one's own solvers, against closed forms."""

import pickle
from typing import NamedTuple

import numpy as np
import pytest
import scipy.optimize
from exact_derivatives import check_exact
from tables import refused

import tracker
from tracker import (
    NotTrackedError,
    RuleError,
    UnsupportedError,
    gradient,
    hessian,
    implicit,
    jacobian,
    jit,
    jvp,
    optim,
    vmap,
)

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(30, 4)), RNG.normal(size=30)
MIX = RNG.normal(size=(3, 3)) / 6
BIG = 300  # unknowns: more than are solved by a matrix
METHODS = [None, "dense", "cg", "gmres"]
SINGLE = np.float32


class Fit(NamedTuple):
    weights: np.ndarray
    offset: float


def ridge_cost(w, strength):
    return np.sum((X @ w - Y) ** 2) + strength * np.sum(w**2)


def ridge(strength):
    return np.linalg.solve(X.T @ X + strength * np.eye(4), X.T @ Y)


def newton(a):
    x = 1.0
    for _ in range(30):
        x = x - (x**3 - a) / (3 * x**2)
    return x


def contraction(p):
    x = 0 * p
    for _ in range(200):
        x = np.tanh(MIX @ x + p)
    return x


def fit_with_offset(theta):
    design = np.column_stack([X, np.ones(30)])
    found = np.linalg.solve(design.T @ design + theta["strength"] * np.eye(5), design.T @ Y)
    return Fit(theta["scale"] * found[:4], float(theta["scale"] * found[4]))


def cost_with_offset(fit, theta):
    r = X @ fit.weights + fit.offset - theta["scale"] * Y
    return np.sum(r**2) + theta["strength"] * (np.sum(fit.weights**2) + fit.offset**2)


def of_structure(solve):
    fitted = implicit.minimum(cost_with_offset, fit_with_offset, solve=solve)

    def f(strength, scale):
        fit = fitted({"strength": strength, "scale": scale})
        return np.sum(fit.weights**2) + fit.offset

    return f


def exact_of_structure(strength, scale):
    design = np.column_stack([X, np.ones(30)])
    w = scale * np.linalg.solve(design.T @ design + strength * np.eye(5), design.T @ Y)
    return np.sum(w[:4] ** 2) + w[4]


PROGRAMS = {  # of the method: the program, its closed form, where
    "ridge": (lambda m: implicit.minimum(ridge_cost, ridge, solve=m), ridge, (0.7,)),
    "cube root": (
        lambda m: implicit.root(lambda x, a: x**3 - a, newton, solve=m),
        lambda a: a ** (1 / 3),
        (2.0,),
    ),
    "contraction": (
        lambda m: implicit.fixed_point(lambda x, p: np.tanh(MIX @ x + p), contraction, solve=m),
        contraction,
        (np.array([0.3, -0.2, 0.5]),),
    ),
    "structures": (of_structure, exact_of_structure, (0.7, 1.3)),
    "gradient as a root": (
        lambda m: implicit.root(lambda w, s: gradient(ridge_cost, w, s)[0], ridge, solve=m),
        ridge,
        (0.7,),
    ),
}
CASES = [
    (name, method)
    for name in PROGRAMS
    for method in METHODS
    if not (name == "contraction" and method == "cg")  # its matrix is not symmetric
]


@pytest.mark.parametrize(("name", "method"), CASES)
def test_closed_forms(name, method):
    """First derivatives in both modes, and second ones."""
    make, exact, args = PROGRAMS[name]
    check_exact(make(method), exact, *args, order=2, rtol=1e-7)


@pytest.mark.parametrize(("name", "method"), CASES)
def test_compiled_and_mapped(name, method):
    make, _, args = PROGRAMS[name]
    f = make(method)

    def loss(*args):
        return np.sum(f(*args) ** 3)

    slope = jit(lambda *args: gradient(loss, *args))
    for factor in (1.0, 1.1, 1.3):
        moved = [factor * x for x in args]
        for ours, want in zip(slope(*moved), gradient(loss, *moved), strict=True):
            np.testing.assert_allclose(ours, want, rtol=1e-7, atol=1e-10)
    assert slope.cache_info().eager == 0
    rows = [np.stack([x, 1.1 * x, 1.3 * x]) for x in args]
    for mapped in (vmap(lambda *args: gradient(loss, *args)), jit(vmap(slope))):
        for ours, want in zip(mapped(*rows), zip(*map(
            lambda *row: gradient(loss, *row), *rows), strict=True), strict=True):  # fmt: skip
            np.testing.assert_allclose(ours, np.stack(want), rtol=1e-7, atol=1e-10)


def test_third_derivative():
    f = implicit.root(lambda x, a: x**3 - a, newton)
    third = gradient(lambda a: hessian(f, a), 2.0)[0]
    assert third == pytest.approx((1 / 3) * (-2 / 3) * (-5 / 3) * 2.0 ** (-8 / 3), rel=1e-9)


def test_bilevel_problems():
    """A minimum of a function of a minimum: x**2 / 2 = t - 0.1 at the outer one."""
    inner = implicit.minimum(lambda y, x: (y - x**2) ** 2 + y**2, lambda x: x**2 / 2)
    outer = implicit.minimum(
        lambda x, t: (inner(x) - t) ** 2 + 0.1 * x**2, lambda t: np.sqrt(2 * (t - 0.1))
    )
    check_exact(outer, lambda t: np.sqrt(2 * (t - 0.1)), 1.0, order=2, rtol=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_conditions_that_take_derivatives_of_theta_alone(method):
    """x = d/dz theta z**2 / 2 at z = 3, so x = 3 theta."""

    def optimality(x, theta):
        return x - gradient(lambda z: theta * z**2 / 2, 3.0)[0]

    f = implicit.root(optimality, lambda theta: 3 * theta, solve=method)
    check_exact(lambda t: f(t) ** 2, lambda t: 9 * t**2, 2.0, order=2)
    assert gradient(jit(f), 2.0)[0] == pytest.approx(3.0)


def test_complex_roots():
    f = implicit.root(lambda z, a: z**2 - a, np.sqrt)
    a = np.array([1.0 + 2.0j, -3.0 + 0.5j])
    np.testing.assert_allclose(jacobian(f, a)[0], np.diag(0.5 / np.sqrt(a)), rtol=1e-12)


def cubic(x, a):
    return x**3 - a


def shrunk(x, p):
    return np.tanh(MIX @ x + p)


@pytest.mark.parametrize(
    ("made", "at"),
    [
        (implicit.root(cubic, newton, tol=1e-6), 2.0),
        (implicit.fixed_point(shrunk, contraction, solve="gmres"), np.array([0.3, -0.2, 0.5])),
        (implicit.minimum(ridge_cost, ridge, solve="cg"), 0.7),
    ],
    ids=["root", "fixed_point", "minimum"],
)
def test_solvers_with_derivatives_are_pickled(made, at):
    """They are made again with all that they were made with."""
    copied = pickle.loads(pickle.dumps(made))
    for use in (lambda f: f(at), lambda f: jacobian(f, at)[0]):
        np.testing.assert_array_equal(use(copied), use(made))
    recipes = [[f.recipe[0].func, f.recipe[0].keywords, *f.recipe[1:]] for f in (made, copied)]
    assert recipes[0] == recipes[1]


def test_solvers_do_not_get_the_numbers_to_write_into():
    def overwriting(theta):
        theta[:] = 0.0
        return theta

    with pytest.raises(ValueError, match="read-only"):
        gradient(lambda a: np.sum(implicit.root(lambda x, a: x - a, overwriting)(a)), np.ones(2))


@pytest.mark.parametrize("kind", ["minimum", "root"])
def test_large_systems_are_solved_without_a_matrix(kind, monkeypatch):
    """Their derivative takes products: no Jacobian of the condition is formed."""
    monkeypatch.setattr("tracker.implicit.solution.jacobian", None)
    curvature = np.linspace(1.0, 5.0, BIG)

    def solver(theta):
        diagonal = curvature + theta
        return 1.0 / diagonal

    if kind == "minimum":
        f = implicit.minimum(
            lambda x, theta: 0.5 * np.sum((curvature + theta) * x**2) - np.sum(x), solver
        )
    else:
        f = implicit.root(lambda x, theta: (curvature + theta) * x - 1.0, solver)
    at = np.full(BIG, 0.5)
    (slope,) = gradient(lambda theta: np.sum(f(theta)), at)
    np.testing.assert_allclose(slope, -1.0 / (curvature + 0.5) ** 2, rtol=1e-8)
    moved = jvp(f, (at,), (np.ones(BIG),))[1]
    np.testing.assert_allclose(moved, slope, rtol=1e-8)


def test_gmres_starts_again():
    """Rotations of many speeds, whose Krylov space is larger than the basis that is kept."""
    speeds = np.linspace(0.1, 3.0, 150)
    turn = np.kron(np.diag(speeds), [[0.0, 1.0], [-1.0, 0.0]]) + 0.7 * np.eye(300)

    def solver(theta):
        return np.linalg.solve(turn, theta)

    f = implicit.root(lambda x, theta: turn @ x - theta, solver)
    (slope,) = gradient(lambda theta: np.sum(f(theta) ** 2), np.ones(300))
    x = solver(np.ones(300))
    np.testing.assert_allclose(slope, 2 * np.linalg.solve(turn.T, x), rtol=1e-6)


def test_captured_values_have_gradients_and_starts_have_none():
    def f(a, b, start):
        solve = implicit.root(lambda x, a: x**2 - a * b, lambda a, x: np.sqrt(a * 3.0))
        return solve(a, start)

    np.testing.assert_allclose(gradient(f, 2.0, 3.0, 1.0), [3 / (2 * 6**0.5), 2 / (2 * 6**0.5), 0])


def test_solvers_are_called_with_plain_numbers():
    seen = []

    def black_box(theta):
        seen.append(type(theta))
        return scipy.optimize.brentq(lambda x: x**3 - theta, 0.0, 5.0, xtol=1e-14)

    f = implicit.root(lambda x, a: x**3 - a, black_box)
    assert gradient(f, 8.0)[0] == pytest.approx(1 / 12)
    assert f(8.0) == pytest.approx(2.0)
    assert seen == [float, float]


def test_params_and_back():
    a = tracker.param(8.0)
    f = implicit.root(lambda x, a: x**3 - a, newton)
    tracker.back(f(a) * 2.0)
    assert tracker.grad(a) == pytest.approx(1 / 6)


def test_later_writes_do_not_reach_the_derivative():
    f = implicit.root(lambda x, p: x**3 - p["a"] * p["b"], lambda p: (p["a"] * p["b"]) ** (1 / 3))
    scale = np.full(2, 3.0)

    def program(a):
        y = f({"a": a, "b": scale})
        scale[:] = 5.0
        return np.sum(y)

    (slope,) = gradient(program, np.full(2, 2.0))
    np.testing.assert_allclose(slope, 3.0 * (1 / 3) * 6.0 ** (-2 / 3))


def test_single_precision_stays():
    f = implicit.minimum(
        lambda w, s: np.sum((w - s) ** 2) + np.sum(w**2), lambda s: s / SINGLE(2.0)
    )
    (slope,) = gradient(lambda s: np.sum(f(s)), np.ones(3, SINGLE))
    assert slope.dtype == SINGLE
    np.testing.assert_allclose(slope, 0.5, rtol=1e-5)


def test_ridge_hyperparameter():
    """The gradient of a validation loss in the strength, by the closed form of the fit."""
    val_x, val_y = RNG.normal(size=(20, 4)), RNG.normal(size=20)
    fit = implicit.minimum(
        lambda w, log: ridge_cost(w, np.exp(log)),
        lambda log, w: optim.lbfgs(ridge_cost, w, np.exp(log), gtol=1e-9, ftol=0.0).x,
    )

    def validation(log, fit):
        return np.mean((val_x @ fit(log) - val_y) ** 2)

    (found,) = gradient(lambda log: validation(log, lambda s: fit(s, np.zeros(4))), 0.3)
    (want,) = gradient(lambda log: validation(log, lambda s: ridge(np.exp(s))), 0.3)
    assert found == pytest.approx(want, rel=1e-6)


def differentiate(make, at=1.0):
    return lambda: gradient(lambda a: np.sum(make()(a)), at)


test_refused = refused(
    {
        RuleError: {
            "a Newton step moves it by": differentiate(
                lambda: implicit.root(lambda x, a: x**3 - a, lambda a: 3.0)
            ),
            "the residual is 2, and": differentiate(
                lambda: implicit.root(lambda x, a: x - 2 - a, lambda a: a)
            ),
            "gave 3 numbers for a solution of 2": differentiate(
                lambda: implicit.root(lambda x, a: np.ones(3) * a, lambda a: np.ones(2))
            ),
        },
        UnsupportedError: {
            "singular Jacobian \\(exactly\\)": differentiate(
                lambda: implicit.root(lambda x, a: 0.0 * x + a - 1.0, lambda a: np.ones(2))
            ),
            # of rank 2, up to rounding
            "singular Jacobian \\((condition number .e|exactly)": differentiate(
                lambda: implicit.root(
                    lambda x, a: (
                        np.arange(1.0, 10.0).reshape(3, 3) @ x - a * np.array([6.0, 15, 24])
                    ),
                    lambda a: a * np.ones(3),
                )
            ),
            "singular Jacobian \\(cg left": differentiate(
                lambda: implicit.minimum(
                    lambda x, a: 0.5 * x[0] ** 2 - a * np.sum(x[1:]),
                    lambda a: np.full(2, 0.5),
                    solve="cg",
                )
            ),
            "singular Jacobian \\(gmres left": differentiate(
                lambda: implicit.root(
                    lambda x, a: np.stack([x[0] - a, x[0] - a + 1e-3]),
                    lambda a: np.full(2, a),
                    solve="gmres",
                )
            ),
        },
        NotTrackedError: {
            "returned no floats": differentiate(
                lambda: implicit.root(lambda x, a: a, lambda a: None)
            ),
        },
        ValueError: {
            "names no way to solve": lambda: implicit.root(lambda x, a: x - a, newton, solve="lu"),
        },
    }
)


def test_a_wrong_solution_is_found_out_in_compiled_code():
    """Compiled for a solver that has converged, and called where it has not."""
    f = implicit.root(lambda x, a: x**3 - a, lambda a, n: a ** (1 / 3) + n)
    slope = jit(lambda a, n: gradient(f, a, n)[0])
    assert slope(8.0, 0.0) == pytest.approx(1 / 12)
    assert slope(27.0, 0.0) == pytest.approx(1 / 27)
    with pytest.raises(RuleError, match="does not satisfy its condition"):
        slope(27.0, 1.0)


def test_a_larger_step_can_be_allowed():
    """The derivative is that of the point one Newton step closer."""
    f = implicit.root(lambda x, a: x**2 - a, lambda a: a**0.5 + 0.01, tol=0.1)
    assert gradient(f, 4.0)[0] == pytest.approx(0.25, rel=1e-4)
    assert jacobian(f, 4.0)[0] == pytest.approx(0.25, rel=1e-4)


class Plant:
    """An implicit step that reads what the last one has stored."""

    def __init__(self, gain):
        self.gain, self.state = gain, np.array([1.0, 0.5])

    def residual(self, x):
        return x - self.state + 0.1 * self.gain * x**3

    def step(self):
        self.state = scipy.optimize.root(self.residual, self.state, tol=1e-12).x


def _steps(gain):
    plant = Plant(gain)
    for _ in range(3):
        plant.step()
    return np.sum(plant.state)


def test_equations_are_differentiated_with_what_they_read_when_they_were_solved():
    """tests/scipy/test_state_between_solves.py has more kinds of state."""
    compiled = tracker.jit(_steps)
    for gain in (1.5, 1.6, 1.5):
        want = (_steps(gain + 1e-5) - _steps(gain - 1e-5)) / 2e-5
        assert tracker.gradient(_steps, gain)[0] == pytest.approx(want, rel=1e-6)
        assert tracker.gradient(compiled, gain)[0] == pytest.approx(want, rel=1e-6)


def test_an_equation_that_is_another_when_run_again_is_refused():
    offset = np.zeros(1)

    def f(k):
        x = scipy.optimize.root(lambda x: k * x - 2.0 + offset, np.ones(1), tol=1e-12).x[0]
        offset[0] = 1.0
        return x

    with pytest.raises(tracker.RuleError, match="another value when it was run again"):
        tracker.gradient(f, 1.5)
