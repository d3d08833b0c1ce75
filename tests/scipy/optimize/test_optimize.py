"""`tracker.scipy.optimize`: derivatives of solutions; compiled solvers.

Solutions are compared with exact ones: differences through a solver depend on where it stops, and
so do numbers of steps, which are compared where the first step or a limit decides them.
"""

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
from exact_derivatives import check_exact, solved

import tracker
from tracker import UnsupportedError, data, gradient, jit, param
from tracker.scipy import integrate, optimize


def system(x, a, b):
    return np.stack([x[0] ** 2 + a * x[1] - 3, x[0] * x[1] + b])


def cubic(x, a):
    return x**3 - a * x - 1


def valley(x, a):
    return (1 - x[0]) ** 2 + a * (x[1] - x[0] ** 2) ** 2 + a * x[0]


GUESS = np.array([1.0, 1.0])
CLOSE = 1e-5  # what is compared with exact solutions; solvers stop at 1e-8 and converge faster


def root_of_system(a, b=0.5):
    return solved(lambda x: system(x, a, b), [-0.4, 1.2])


def root_of_cubic(a):
    return solved(lambda x: cubic(x, a), [2.0])[0]


def test_roots_of_systems():
    for f, order in (
        (lambda a, b: optimize.root(system, GUESS, (a, b)).x, 2),
        (lambda a, b: optimize.fsolve(system, GUESS, (a, b)), 1),
    ):
        check_exact(f, root_of_system, 2.0, 0.5, order=order, rtol=CLOSE)
    found = optimize.root(system, GUESS, (param(2.0), 0.5))
    want = scipy.optimize.root(system, GUESS, (2.0, 0.5))
    np.testing.assert_allclose(data(found.x), want.x, rtol=CLOSE)
    assert found.success


WAVES = np.array([[0.2, 0.9, 1.4], [0.5, 1.1, 0.7]])
OF_LARGE_SYSTEMS = (
    *("anderson", "broyden1", "broyden2", "diagbroyden", "excitingmixing", "linearmixing"),
    "newton_krylov",
)


def bent(x, a):
    return WAVES.reshape(np.shape(x)) - x - 0.2 * np.sin(a * x)


@pytest.mark.parametrize("name", OF_LARGE_SYSTEMS)
def test_roots_of_large_systems(name):
    def f(a):
        start = np.zeros((2, 3))
        return getattr(optimize, name)(lambda x: bent(x, a), start, f_tol=1e-9, maxiter=200)

    def exact(a):
        return np.reshape(solved(lambda x: bent(x, a), np.ravel(WAVES)), (2, 3))

    check_exact(f, exact, 1.7, rtol=CLOSE)
    np.testing.assert_allclose(jit(f)(1.7), f(1.7), rtol=1e-12)


def test_a_captured_parameter():
    def f(a):
        return optimize.fsolve(lambda x: [x[0] ** 2 + a * x[1] - 3, x[0] * x[1] + 0.5], GUESS)

    check_exact(f, root_of_system, 2.0, rtol=CLOSE)


@pytest.mark.parametrize("name", ["brentq", "brenth", "bisect", "ridder", "toms748"])
def test_bracketed_roots(name):
    f = getattr(optimize, name)
    check_exact(lambda a: f(cubic, 0.0, 5.0, (a,)), root_of_cubic, 2.0, order=2)
    check_exact(lambda a: f(lambda x: cubic(x, a), 0.0, 5.0), root_of_cubic, 2.0)
    assert f(cubic, 0.0, 5.0, (2.0,)) == getattr(scipy.optimize, name)(cubic, 0.0, 5.0, (2.0,))
    x, result = f(cubic, 0.0, 5.0, (param(2.0),), full_output=True)
    assert result.converged and result.root is x


def test_newton_and_fixed_points():
    check_exact(lambda a: optimize.newton(cubic, 2.0, args=(a,)), root_of_cubic, 2.0, rtol=CLOSE)
    check_exact(
        lambda a: optimize.newton(cubic, 2.0, lambda x, a: 3 * x**2 - a, args=(a,)),
        root_of_cubic,
        2.0,
        rtol=CLOSE,
    )

    def exact(a):
        return solved(lambda x: x - np.cos(a * x), [0.7])[0]

    def fixed(start):
        return lambda a: optimize.fixed_point(lambda x, a: np.cos(a * x), start, args=(a,))

    check_exact(fixed(0.5), exact, 0.9, order=2, rtol=CLOSE)
    check_exact(fixed(np.array([1.0, 0.5])), lambda a: exact(a) * np.ones(2), 0.9, rtol=CLOSE)


def test_minima():
    def f(a):
        return optimize.minimize(valley, [0.5, 0.5], (a,), tol=1e-10)

    def exact(a):
        return np.stack([1 - a / 2, (1 - a / 2) ** 2])

    check_exact(lambda a: f(a).x, exact, 0.8, order=2, rtol=1e-4)  # slopes by differences
    check_exact(lambda a: f(a).fun, lambda a: a - a**2 / 4, 0.8, rtol=1e-4)

    def with_slopes(a):
        pair = tracker.value_and_grad(valley)
        return optimize.minimize(pair, [0.5, 0.5], (a,), jac=True, tol=1e-10).x

    check_exact(with_slopes, exact, 0.8, rtol=CLOSE)


def bowl(x, a):
    return np.sum((x - a) ** 2) + 0.3 * x[0] * x[1] + 0.1 * np.sum(x**4)


TARGET = np.array([2.0, 0.4, -3.0])


@pytest.mark.parametrize("method", ["L-BFGS-B", "SLSQP", "Nelder-Mead"])
def test_minima_within_bounds(method):
    """A variable at an active bound moves with it; the others as if there were no bounds."""

    def f(a, top, form=lambda low, high: list(zip(low, high, strict=True))):
        low, high = [0.0, None, -1.0], [top, None, 1.0]
        return optimize.minimize(
            bowl, np.full(3, 0.2), (a,), method, bounds=form(low, high), tol=1e-12
        )

    (by_a, by_top) = tracker.jacobian(lambda a, top: f(a, top).x, TARGET, 0.7)
    x = f(TARGET, 0.7).x
    assert x[[0, 2]].tolist() == pytest.approx([0.7, -1.0])
    curve = 2 + 1.2 * x[1] ** 2
    want = np.zeros((3, 3))
    want[1, 1] = 2 / curve
    np.testing.assert_allclose(by_a, want, atol=1e-4)
    np.testing.assert_allclose(by_top, [1.0, -0.3 / curve, 0.0], atol=1e-4)
    assert gradient(lambda a: f(a, 0.7).fun, TARGET)[0] == pytest.approx(
        -2 * (x - TARGET), abs=1e-4
    )


def test_compiled_minimum_within_bounds():
    box = scipy.optimize.Bounds([0.0, -np.inf, -1.0], [0.7, np.inf, 1.0])

    def f(a, low):
        limits = [(low, 0.7), (None, None), (-1.0, 1.0)]
        return optimize.minimize(bowl, np.full(3, 0.2), (a,), bounds=limits, tol=1e-14).x

    compiled = jit(f)
    for a in (TARGET, TARGET / 10, -TARGET):  # held by the one bound, by none, by the other
        want = scipy.optimize.minimize(bowl, np.full(3, 0.2), (a,), bounds=box, tol=1e-14).x
        np.testing.assert_allclose(compiled(a, 0.0), want, atol=1e-4)
        for ours, theirs in zip(
            tracker.jacobian(compiled, a, 0.0), tracker.jacobian(f, a, 0.0), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_a_singular_root_is_refused():
    with pytest.raises(UnsupportedError, match="the solution that fsolve found has a singular"):
        gradient(lambda a: optimize.fsolve(lambda x: np.stack([a + 0 * x[0]]) - 1.0, [0.0])[0], 1.0)


@pytest.mark.parametrize("name", ["differential_evolution", "dual_annealing", "shgo"])
def test_a_search_over_tracked_values_is_refused(name):
    """Also where the objective captures them, and SciPy raises an error of its own."""
    search = getattr(optimize, name)
    with pytest.raises(UnsupportedError, match=rf"optimize\.{name} has no .* rule here\. Use min"):
        gradient(lambda a: search(lambda x: np.sum((x - a) ** 2), [(-3, 3)]).x[0], 2.0)


def rosenbrock(x, a):
    return 100 * (x[1] - x[0] ** 2) ** 2 + (a - x[0]) ** 2


UNFINISHED = {
    "minimize": lambda o, a: (
        o.minimize(rosenbrock, [-1.2, 1.0], (a,), method="Nelder-Mead", options={"maxiter": 9}).x),
    "brentq": lambda o, a: o.brentq(cubic, 0.0, 5.0, (a,), xtol=0.1),
    "newton": lambda o, a: o.newton(cubic, 9.0, args=(a,), maxiter=4, disp=False),
    "fixed_point": lambda o, a: o.fixed_point(lambda x, a: np.cos(a * x), 0.5, (a,), xtol=0.1),
    "least_squares": lambda o, a: (
        o.least_squares(
            lambda x, a: np.stack([10 * (x[1] - x[0] ** 2), a - x[0]]), [-1.2, 1.0],
            lambda x, a: np.array([[-20 * x[0], 10.0], [-1.0, 0.0]]), args=(a,), max_nfev=3,
        ).x),
    "where the slope is 0": lambda o, a: o.bisect(lambda x, a: a * x**3, -1.0, 1.0, (a,)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*cannot be traced:RuntimeWarning")
@pytest.mark.parametrize("name", UNFINISHED)
def test_values_are_scipys(name):
    """Newton steps carry derivatives but keep the value, even where SciPy stopped early."""
    f = UNFINISHED[name]
    compiled = jit(lambda a: f(optimize, a))
    for a in (1.0, 1.0, 0.9):
        want = f(scipy.optimize, a)
        np.testing.assert_allclose(compiled(a), want, rtol=1e-9)
        if name != "where the slope is 0":
            value, _ = tracker.withgradient(lambda a: np.sum(f(optimize, a)), a)
            assert value == pytest.approx(np.sum(want), rel=1e-9)
        else:
            with pytest.raises(UnsupportedError, match="has a singular Jacobian"):
                gradient(lambda a: f(optimize, a), a)


def test_operators_in_results_run_in_plain_python():
    def f(a):
        return optimize.minimize(bowl, [0.0, 0.0], (a,), "L-BFGS-B").hess_inv.todense()

    compiled = jit(f)
    with pytest.warns(RuntimeWarning, match="does not hold what SciPy says as 'hess_inv'"):
        np.testing.assert_array_equal(compiled(1.0), f(1.0))
    np.testing.assert_array_equal(compiled(7.0), f(7.0))


def test_a_compiled_system_that_captures_parameters():
    """Functions that return lists capture, too."""

    compiled = jit(lambda a: optimize.fsolve(lambda x: [x[0] ** 2 - a, x[1] - a * x[0]], GUESS))
    np.testing.assert_allclose(compiled(1.0), [1.0, 1.0])
    np.testing.assert_allclose(compiled(900.0), [30.0, 27000.0])


def test_starting_points():
    """The user's function gets an array of floats, as SciPy gives it."""

    def total(x, a):
        return (x**2).sum() + np.sum((x - a) ** 2)

    for begin in ([1, 2], (0.5, 1.5), 1, 0.5):
        (slope,) = tracker.jacobian(lambda a, b=begin: optimize.minimize(total, b, (a,)).x, 2.0)
        np.testing.assert_allclose(slope, np.full(np.size(begin), 0.5), rtol=1e-6)
        for name in ("root", "least_squares"):
            found = getattr(optimize, name)(lambda x, a: x**3 - a, begin, args=(8.0,))
            np.testing.assert_allclose(found.x, np.full(np.size(begin), 2.0), rtol=1e-6)
        check_exact(
            lambda a, b=begin: optimize.fsolve(lambda x: x**3 - a, b),
            lambda a, b=begin: a ** (1 / 3) * np.ones(np.size(b)),
            2.0,
            rtol=CLOSE,
        )
    np.testing.assert_allclose(
        optimize.newton(lambda x: x**2 - 2.0, [1, 2]), np.sqrt([2.0, 2.0]), rtol=CLOSE
    )


def test_a_function_that_gives_its_slope_with_its_value():
    def f(a):
        return optimize.root_scalar(
            lambda x, a: (cubic(x, a), 3 * x**2 - a), (a,), x0=2.0, fprime=True
        ).root

    assert jit(f)(2.0) == pytest.approx(f(2.0), rel=CLOSE)
    check_exact(f, root_of_cubic, 2.0, rtol=CLOSE)


GRID = np.linspace(-1.0, 2.0, 6)
STARTS = {
    "bracket": lambda o, a, x: (
        o.root_scalar(lambda x, a: np.sin(x) - a, (a,), bracket=[x - 0.5, x + 0.8]).root),
    "x0": lambda o, a, x: (
        o.root_scalar(lambda x, a: np.sin(x) - a, (a,), x0=x, fprime=lambda x, a: np.cos(x)).root),
    "x1": lambda o, a, x: o.root_scalar(lambda x, a: np.sin(x) - a, (a,), x0=x, x1=x + 0.1).root,
    "p0": lambda o, a, x: o.curve_fit(
        lambda t, w: np.sin(w * t), GRID, np.sin(a * GRID), [x + 0.3],
        jac=lambda t, w: np.expand_dims(t * np.cos(w * t), 1), ftol=1e-13, xtol=1e-13, gtol=1e-13,
    )[0][0],
}  # fmt: skip


@pytest.mark.parametrize("name", STARTS)
def test_starting_points_are_those_of_the_call(name):
    f = STARTS[name]
    compiled = jit(lambda a, x: f(optimize, a, x))
    for x in (0.0, 3.0, 6.5):
        want = f(scipy.optimize, 0.3, x)
        assert compiled(0.3, x) == pytest.approx(want, rel=CLOSE)
        by_a, by_x = gradient(lambda a, x: f(optimize, a, x), 0.3, x)
        assert by_x == 0.0
        assert gradient(compiled, 0.3, x)[0] == pytest.approx(by_a, rel=CLOSE)


def test_python_numbers_stay_pythons():
    """Next to a float32 they do not make a double."""
    row = np.ones(2, np.float32)

    def f(a, row):
        area = integrate.quad(lambda x, a: np.exp(-a * x), 0.0, 1.0, (a,))[0]
        return area, area * row + optimize.brentq(cubic, 0.0, 5.0, (a,))

    area, moved = jit(f)(2.0, row)
    assert type(area) is float and moved.dtype == np.float32
    np.testing.assert_allclose(moved, f(2.0, row)[1])
