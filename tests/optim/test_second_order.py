"""`lbfgs`, `gauss_newton`, `levenberg_marquardt`: known minima, structures, jit."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.optimize
from tables import refused

import tracker
from tracker import NonFiniteError, NotScalarError, NotTrackedError, UnsupportedError, implicit, jit
from tracker.optim import gauss_newton, lbfgs, levenberg_marquardt

T = np.linspace(0.0, 3.0, 40)
NOISE = 0.02 * np.cos(9 * T)
LEAST_SQUARES = [gauss_newton, levenberg_marquardt]


@dataclass
class Decay:
    height: float
    rate: float
    offset: np.ndarray
    terms: int = 1


def decay_residuals(p, y):
    return {"fit": p.height * np.exp(-p.rate * T) + p.offset[0] - y, "prior": 0.01 * p.offset}


START = Decay(1.0, 1.0, np.zeros(2))
DATA = 2.5 * np.exp(-1.3 * T) + 0.5 + NOISE


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def valley(x):
    return np.concatenate([10 * (x[1:] - x[:-1] ** 2), 1 - x[:-1]])


def powell(x):
    """Powell's singular function: its Jacobian is singular at the minimum."""
    return np.stack([
        x[0] + 10 * x[1], 5**0.5 * (x[2] - x[3]), (x[1] - 2 * x[2]) ** 2,
        10**0.5 * (x[0] - x[3]) ** 2,
    ])  # fmt: skip


@pytest.mark.parametrize("compiled", [False, True])
def test_lbfgs_finds_the_minimum_of_rosenbrock(compiled):
    start = np.tile([-1.2, 1.0], 5)
    found = lbfgs(jit(rosenbrock) if compiled else rosenbrock, start, gtol=1e-8, ftol=0.0)
    np.testing.assert_allclose(found.x, np.ones(10), rtol=1e-7)
    assert found.success
    assert found.message == "the gradient is at most gtol"
    assert 0 <= found.fun < 1e-14
    assert start[0] == -1.2


def test_lbfgs_needs_few_steps_for_a_quadratic():
    h = np.diag(np.linspace(1.0, 30.0, 6)) + 0.5
    b = np.arange(6.0)
    found = lbfgs(lambda x: 0.5 * x @ h @ x - b @ x, np.zeros(6), gtol=1e-9, ftol=0.0)
    np.testing.assert_allclose(found.x, np.linalg.solve(h, b), rtol=1e-8)
    assert found.nit < 30


@pytest.mark.parametrize("history", [1, 3, 20])
def test_history(history):
    found = lbfgs(rosenbrock, np.array([-1.2, 1.0]), history=history, gtol=1e-7, ftol=0.0)
    np.testing.assert_allclose(found.x, 1.0, rtol=1e-5)


@pytest.mark.parametrize("solve", LEAST_SQUARES)
@pytest.mark.parametrize("compiled", [False, True])
def test_least_squares_over_a_dataclass(solve, compiled):
    """As SciPy's least_squares; settings stay as they are."""
    f = jit(decay_residuals) if compiled else decay_residuals
    found = solve(f, START, DATA)
    want = scipy.optimize.least_squares(
        lambda v: np.concatenate(
            list(decay_residuals(Decay(v[0], v[1], v[2:]), DATA).values())
        ), [1.0, 1.0, 0.0, 0.0], xtol=1e-14, ftol=1e-14, gtol=1e-14,
    )  # fmt: skip
    assert type(found.x) is Decay and found.x.terms == 1 and type(found.x.height) is float
    got = [found.x.height, found.x.rate, *found.x.offset]
    np.testing.assert_allclose(got, want.x, rtol=1e-6, atol=1e-6)
    assert found.fun == pytest.approx(want.cost, rel=1e-9)
    assert found.success
    assert found.nit < 15


@pytest.mark.parametrize("solve", LEAST_SQUARES)
def test_hard_sums_of_squares(solve):
    found = solve(valley, np.array([-1.2, 1.0, -0.5]))
    np.testing.assert_allclose(found.x, 1.0, rtol=1e-6)
    found = solve(powell, np.array([3.0, -1.0, 0.0, 1.0]))
    np.testing.assert_allclose(found.x, 0.0, atol=5e-3)
    assert found.success


@pytest.mark.parametrize("solve", LEAST_SQUARES)
def test_small_residuals_are_not_taken_for_zero(solve):
    """ftol is relative to the sum."""
    scale = 1e-5
    found = solve(lambda x: scale * (np.exp(x * T) - np.exp(0.3 * T) + NOISE), 0.0, gtol=0.0)
    want = solve(lambda x: np.exp(x * T) - np.exp(0.3 * T) + NOISE, 0.0, gtol=0.0)
    assert found.success
    assert found.x == pytest.approx(want.x, rel=1e-6)


def program(solve):
    def run(start, target):
        if solve is lbfgs:
            return solve(lambda x: rosenbrock(x) + np.sum((x - target) ** 2), start, gtol=1e-8)
        return solve(lambda x: np.concatenate([valley(x), x - target]), start)

    return run


@pytest.mark.parametrize("solve", [lbfgs, *LEAST_SQUARES])
def test_a_whole_optimisation_is_compiled(solve):
    run = program(solve)
    fast = jit(run)
    for target in (0.5, 0.5, 2.0, -1.0):
        start = np.array([-0.5, 0.8, 0.1])
        found, want = fast(start, target), run(start, target)
        np.testing.assert_allclose(found.x, want.x, rtol=1e-4, atol=1e-5)
        assert (found.success, type(found)) == (want.success, type(want))
    assert fast.cache_info().eager == 0


@pytest.mark.parametrize("solve", [lbfgs, *LEAST_SQUARES])
def test_solutions_are_differentiable_by_implicit(solve):
    run = program(solve)

    def cost(x, target):
        if solve is lbfgs:
            return rosenbrock(x) + np.sum((x - target) ** 2)
        return 0.5 * np.sum(valley(x) ** 2) + 0.5 * np.sum((x - target) ** 2)

    start = np.array([-0.5, 0.8])
    f = implicit.minimum(cost, lambda target: run(start, target).x, tol=1e-2)
    (slope,) = tracker.jacobian(f, 0.5)

    def tight(target):
        return lbfgs(lambda x: cost(x, target), start, gtol=1e-10, ftol=0.0).x

    difference = (tight(0.5 + 1e-4) - tight(0.5 - 1e-4)) / 2e-4
    np.testing.assert_allclose(slope, difference, rtol=1e-3)


FAILURES = {
    "maxiter steps were made": lambda: lbfgs(rosenbrock, np.array([-1.2, 1.0]), maxiter=3),
    "no step along": lambda: lbfgs(
        tracker.custom_gradient(lambda x: (x @ x, lambda dy: (-2 * dy * x,))), np.ones(2)
    ),
    "maxiter steps were made, and the gradient": lambda: gauss_newton(
        valley, np.array([-1.2, 1.0]), maxiter=1
    ),
    "maxiter steps were": lambda: levenberg_marquardt(valley, np.array([-1.2, 1.0]), maxiter=2),
    "no step along the direction": lambda: levenberg_marquardt(
        tracker.custom_gradient(lambda x: (x, lambda dy: (-dy,))), np.ones(2)
    ),
}


@pytest.mark.parametrize("text", FAILURES)
def test_failures_are_told(text):
    found = FAILURES[text]()
    assert not found.success
    assert found.message.startswith(text)
    assert np.all(np.isfinite(found.x))


def test_an_infinite_step_is_taken_back():
    """The first steps leave the domain, where the function is NaN."""
    found = lbfgs(lambda x: np.sum(x - np.log(np.where(x > 0, x, np.nan))), np.array([0.01, 9.0]))
    np.testing.assert_allclose(found.x, 1.0, rtol=1e-4)
    found = levenberg_marquardt(
        lambda x: np.sqrt(np.where(x > 0, x, np.nan)) - 1.0, np.array([9.0])
    )
    np.testing.assert_allclose(found.x, 1.0, rtol=1e-6)


@pytest.mark.parametrize("solve", [lbfgs, *LEAST_SQUARES])
def test_a_start_that_is_the_minimum(solve):
    found = solve(lambda x: np.sum(x * x), np.zeros(3))
    assert found.success
    np.testing.assert_array_equal(found.x, np.zeros(3))


test_refused = refused(
    {
        NonFiniteError: {
            r"lbfgs: the value or .* at the start \(shapes \(2,\), \(\)\) is NaN": lambda: lbfgs(
                lambda p: np.sum(p["a"]) * p["b"], {"a": np.ones(2), "b": np.nan}
            ),
            "gauss_newton: the value or the gradient at the start": lambda: gauss_newton(
                lambda x: x * np.nan, np.ones(2)
            ),
            "levenberg_marquardt: the value": lambda: levenberg_marquardt(
                lambda x: x + np.inf, np.ones(2)
            ),
        },
        NotScalarError: {
            "the output has shape \\(2,\\)": lambda: lbfgs(lambda x: x, np.ones(2)),
        },
        UnsupportedError: {
            "lbfgs moves real numbers": lambda: lbfgs(lambda x: np.sum(np.abs(x)), np.ones(2) * 1j),
        },
        NotTrackedError: {
            "gauss_newton got a str without floats": lambda: gauss_newton(lambda x: 1.0, "x"),
        },
    }
)


@pytest.mark.parametrize("solve", [lbfgs, *LEAST_SQUARES])
def test_the_whole_optimisation_of_a_jitted_function_is_one_program(solve):
    f = jit(lambda x, k: np.sum((x - k) ** 2))
    found = [solve(f, np.zeros(3), k, maxiter=30) for k in (1.0, 2.0, 3.0)]
    for k, result in enumerate(found, 1):
        assert result.success
        np.testing.assert_allclose(result.x, k, atol=1e-3)
    (derived,) = f._jitted.derivatives.values()
    assert repr(derived).startswith(f"<{solve.__name__} of jitted")
