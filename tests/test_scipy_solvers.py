"""`tracker.scipy.integrate` and `tracker.scipy.optimize`: derivatives of what solvers find."""

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

import tracker
from tracker import UnsupportedError, data, gradient, jit, param
from tracker.scipy import integrate, optimize
from tracker.testing import gradcheck

RNG = np.random.default_rng(0)
SAMPLES = RNG.normal(size=(3, 6))
PLACES = np.sort(RNG.normal(size=6))
LOOSE = {"rtol": 2e-5, "atol": 1e-6}


@pytest.mark.parametrize("count", [2, 5, 6])
@pytest.mark.parametrize("name", ["trapezoid", "simpson", "cumulative_trapezoid"])
def test_integrals_of_samples(name, count):
    f, theirs = getattr(integrate, name), getattr(scipy.integrate, name)
    y, x = SAMPLES[:, :count], PLACES[:count]
    np.testing.assert_allclose(data(f(param(y), x)), theirs(y, x))
    np.testing.assert_allclose(data(f(param(y), dx=0.3)), theirs(y, dx=0.3))
    np.testing.assert_allclose(data(f(param(y.T), x, axis=0)), theirs(y.T, x, axis=0))
    assert gradcheck(f, y, x, order=2)
    assert gradcheck(lambda y: f(y, axis=0), y)


@pytest.mark.parametrize("count", [3, 4, 5, 6])
@pytest.mark.parametrize("places", [[0, 1, 1, 2, 2, 2], [0, 0, 1, 2, 3, 3]])
def test_points_that_coincide(places, count):
    y, x = SAMPLES[:, :count], np.array(places[:count])
    want = scipy.integrate.simpson(y, x=x)
    np.testing.assert_allclose(jit(lambda y, x: integrate.simpson(y, x=x))(y, x), want)
    assert gradcheck(lambda y: integrate.simpson(y, x=x), y)


def test_integrals_with_a_start_and_wrong_shapes():
    for_each = integrate.cumulative_trapezoid(param(SAMPLES), initial=0)
    np.testing.assert_allclose(
        data(for_each), scipy.integrate.cumulative_trapezoid(SAMPLES, initial=0)
    )
    with pytest.raises(ValueError, match="y has 6 samples along the axis, x has 3"):
        integrate.trapezoid(param(SAMPLES), np.arange(3.0))
    with pytest.raises(ValueError, match="must be 0 or None"):
        integrate.cumulative_trapezoid(param(SAMPLES), initial=1.0)


# Differential equations ---------------------------------------------------------------------------


def prey(y, t, a, b):
    return np.stack([a * y[0] - b[0] * y[0] * y[1] + 0.1 * t, -b[1] * y[1] + y[0] * y[1]])


def pendulum(t, y, a):
    return np.stack([y[1], -a * np.sin(y[0])])


START, TIMES, RATES = np.array([1.0, 0.5]), np.array([0.0, 0.4, 1.1]), np.array([0.7, 0.9])


def test_odeint_of_plain_numbers_is_scipys():
    ours = integrate.odeint(prey, START, TIMES, (1.2, RATES))
    np.testing.assert_array_equal(ours, scipy.integrate.odeint(prey, START, TIMES, (1.2, RATES)))


def test_odeint():
    ours = integrate.odeint(prey, param(START), TIMES, (1.2, RATES))
    want = scipy.integrate.odeint(prey, START, TIMES, (1.2, RATES))
    np.testing.assert_allclose(data(ours), want, rtol=1e-6)

    def f(y0, t, a, b):
        return integrate.odeint(prey, y0, t, (a, b))

    assert gradcheck(f, START, TIMES, 1.2, RATES, **LOOSE)
    assert gradcheck(
        lambda a: integrate.odeint(
            lambda t, y, a: [-a * y[0]], [1.0], [0.0, 1.0], (a,), tfirst=True
        ),
        0.7,
        **LOOSE,
    )


def test_arguments_in_structures():
    def rates(y, t, parts, name, scale):
        assert name == "prey"
        return prey(y, t, parts["a"], parts["b"][0] * scale)

    def solutions(f, args):
        given = {"t_eval": [0.5], "args": args, "rtol": 1e-9, "atol": 1e-9}
        ivp = integrate.solve_ivp(lambda t, y, *args: f(y, t, *args), (0.0, 0.5), START, **given)
        return np.sum(integrate.odeint(f, START, TIMES[:3], args)[-1]) + np.sum(ivp.y)

    p = np.array([1.2, 0.9])
    (found,) = gradient(lambda p: solutions(rates, ({"a": p[0], "b": [RATES]}, "prey", p[1])), p)
    (want,) = gradient(lambda p: solutions(prey, (p[0], RATES * p[1])), p)
    np.testing.assert_allclose(found, want, rtol=1e-7)


def test_second_derivative_of_a_solution():
    def f(a):
        return integrate.odeint(lambda y, t, a: -a * y, START, TIMES[:2], (a,))

    assert gradcheck(f, 0.7, order=2, **LOOSE)


def test_solve_ivp():
    def at_times(y0, a):
        options = {"t_eval": [0.3, 1.0], "args": (a,), "rtol": 1e-9, "atol": 1e-9}
        return integrate.solve_ivp(pendulum, (0.0, 1.0), y0, **options).y

    assert gradcheck(at_times, START, 1.3, **LOOSE)

    def at_end(y0, a, end):
        options = {"args": (a,), "rtol": 1e-8, "atol": 1e-8, "method": "DOP853"}
        return integrate.solve_ivp(pendulum, (0.0, end), y0, **options).y[:, -1]

    assert gradcheck(at_end, START, 1.3, 0.8, **LOOSE)
    found = integrate.solve_ivp(pendulum, (0.0, 1.0), param(START), args=(1.3,))
    want = scipy.integrate.solve_ivp(pendulum, (0.0, 1.0), START, args=(1.3,))
    np.testing.assert_allclose(found.t.data if tracker.istracked(found.t) else found.t, want.t)
    np.testing.assert_allclose(data(found.y), want.y, rtol=1e-2)
    assert found.success


def test_compiled_solution():
    def f(a):
        return integrate.odeint(lambda y, t, a: -a * y, START, TIMES, (a,))[-1, 0]

    compiled = jit(f)
    for a in (0.7, 0.7, 0.9):
        assert compiled(a) == pytest.approx(np.exp(-1.1 * a), rel=1e-6)
        assert gradient(compiled, a)[0] == pytest.approx(-1.1 * np.exp(-1.1 * a), rel=1e-6)


def stiff(y, t, k):
    fast, slow = 3e3 * y[1] ** 2, 1e4 * y[1] * y[2]
    return [slow - k * y[0], k * y[0] - slow - fast, fast]


def test_a_way_back_that_leads_elsewhere_is_refused():
    def f(k):
        return integrate.odeint(stiff, [1.0, 0.0, 0.0], [0.0, 4.0, 40.0], (k,))[-1, 0]

    with (
        pytest.warns(scipy.integrate.ODEintWarning),
        pytest.raises(UnsupportedError, match=r"goes elsewhere between two .* Ask for more times"),
    ):
        gradient(f, 0.04)


def turning(t, y, m):
    return m @ y


TURN = np.array([[0.0, 1.0], [-1.0, -0.1]])


def test_options_of_the_equation_do_not_reach_the_adjoint():
    """The adjoint equation has another state: no slopes, tolerances or first step of this one."""
    options = {"rtol": 1e-9, "atol": np.full(2, 1e-9), "first_step": 0.2, "t_eval": [0.3, 1.0]}

    def ivp(m, **more):
        options_now = {**options, **more, "args": (m,)}
        return integrate.solve_ivp(turning, (0.0, 1.0), START, "Radau", **options_now).y

    assert gradcheck(lambda m: ivp(m, jac=lambda t, y, m: m), TURN, **LOOSE)
    np.testing.assert_allclose(
        jit(lambda m: ivp(m, jac=lambda t, y, m: m))(TURN), ivp(TURN, jac=TURN)
    )

    def ode(m, tfirst):
        f, slopes = turning, lambda t, y, m: m
        if not tfirst:
            f, slopes = (lambda y, t, m: m @ y), (lambda y, t, m: m)
        atol = np.full(2, 1e-9)
        return integrate.odeint(f, START, TIMES, (m,), slopes, tfirst=tfirst, atol=atol)

    for tfirst in (True, False):
        assert gradcheck(lambda m, tfirst=tfirst: ode(m, tfirst), TURN, **LOOSE)


def test_a_number_to_start_from():
    def f(y0, a):
        return integrate.odeint(lambda y, t, a: -a * y, y0, TIMES, (a,))

    np.testing.assert_allclose(jit(f)(2.0, 0.7), f(2.0, 0.7), rtol=1e-6)
    assert gradcheck(f, 2.0, 0.7, **LOOSE)


def test_complex_solutions_of_real_parameters():
    def f(a, end):
        options = {"args": (a,), "t_eval": [end], "rtol": 1e-9, "atol": 1e-9}
        y = integrate.solve_ivp(
            lambda t, y, a: (2j - a) * y * t, (0.0, end), np.array([1 + 0.5j]), **options
        ).y
        return np.stack([y.real, y.imag])

    assert gradcheck(f, 0.7, 1.1, **LOOSE)


def test_compiled_times():
    """Whether the first is the start, whether the last is the end, and whether they are sorted."""

    def f(a, at, end):
        times = np.stack([at, at + 0.5])
        options = {"t_eval": times, "args": (a,)}
        return integrate.solve_ivp(lambda t, y, a: -a * y * t, (0.0, end), START, **options).y

    compiled = jit(f)
    for at, end in ((0.0, 2.0), (0.9, 2.0), (0.0, 3.0), (0.5, 1.0)):
        np.testing.assert_allclose(compiled(0.7, at, end), f(0.7, at, end), rtol=1e-12)
    with pytest.raises(ValueError, match="not within `t_span`"):
        compiled(0.7, 0.9, 1.0)

    def tight(a, at, end):
        options = {"t_eval": [at, 1.5], "args": (a,), "rtol": 1e-9, "atol": 1e-9}
        return integrate.solve_ivp(pendulum, (0.0, end), START, **options).y

    assert gradcheck(tight, 1.3, 0.4, 2.0, **LOOSE)
    assert gradcheck(lambda a: tight(a, 0.4, 2.0)[0, 0], 1.3, order=2, **LOOSE)


def test_a_compiled_solution_tells_how_often_it_asked():
    def f(a):
        found = integrate.solve_ivp(turning, (0.0, 1.0), START, t_eval=[1.0], args=(a,))
        return found.y, found.nfev

    compiled = jit(f)
    for a in (TURN, 30 * TURN):
        assert compiled(a)[1] == f(a)[1]


@pytest.mark.parametrize(
    "solved",
    [
        lambda a: integrate.odeint(lambda y, t: -a * y, START, TIMES)[-1, 0],
        lambda a: integrate.odeint(lambda y, t: [-a * y[0], y[1]], START, TIMES)[-1, 0],
        lambda a: integrate.solve_ivp(lambda t, y: -a * y, (0.0, 1.1), START).y[0, -1],
    ],
)
def test_functions_that_alone_depend_on_what_is_differentiated(solved):
    with pytest.raises(UnsupportedError, match=r"captures a tracked value. Pass .* through args="):
        gradient(solved, 0.7)
    compiled = jit(solved)
    with pytest.warns(RuntimeWarning, match="cannot be traced"):
        assert compiled(0.7) == solved(0.7)
    assert compiled(0.7) == solved(0.7)


def test_refusals_of_equations():
    times = [0.0, 1.0]
    with pytest.raises(UnsupportedError, match="differential equation captures a tracked value"):
        gradient(lambda a: integrate.odeint(lambda y, t: -a * y, param(START), times)[-1, 0], 0.7)
    with pytest.raises(UnsupportedError, match="odeint with full_output= has no derivative rule"):
        integrate.odeint(prey, param(START), times, (1.0, RATES), full_output=True)
    with pytest.raises(ValueError, match=r"y0 must be a vector; it has shape \(1, 2\)"):
        integrate.odeint(prey, param([[1.0, 2.0]]), times)
    with pytest.raises(UnsupportedError, match="solve_ivp with dense_output= has no derivative"):
        integrate.solve_ivp(pendulum, times, param(START), dense_output=True, args=(1.0,))
    assert integrate.ode is scipy.integrate.ode


# Optimisation -------------------------------------------------------------------------------------


def system(x, a, b):
    return np.stack([x[0] ** 2 + a * x[1] - 3, x[0] * x[1] + b])


def cubic(x, a):
    return x**3 - a * x - 1


def valley(x, a):
    return (1 - x[0]) ** 2 + a * (x[1] - x[0] ** 2) ** 2 + a * x[0]


GUESS = np.array([1.0, 1.0])


def test_roots_of_systems():
    assert gradcheck(lambda a, b: optimize.root(system, GUESS, (a, b)).x, 2.0, 0.5, order=2)
    assert gradcheck(lambda a, b: optimize.fsolve(system, GUESS, (a, b)), 2.0, 0.5)
    found = optimize.root(system, GUESS, (param(2.0), 0.5))
    want = scipy.optimize.root(system, GUESS, (2.0, 0.5))
    np.testing.assert_allclose(data(found.x), want.x, rtol=1e-9)
    assert found.success


def test_a_captured_parameter():
    def f(a):
        return optimize.fsolve(lambda x: [x[0] ** 2 + a * x[1] - 3, x[0] * x[1] + 0.5], GUESS)

    assert gradcheck(f, 2.0)


@pytest.mark.parametrize("name", ["brentq", "brenth", "bisect", "ridder", "toms748"])
def test_bracketed_roots(name):
    f = getattr(optimize, name)
    assert gradcheck(lambda a: f(cubic, 0.0, 5.0, (a,)), 2.0, order=2)
    assert gradcheck(lambda a: f(lambda x: cubic(x, a), 0.0, 5.0), 2.0)
    assert f(cubic, 0.0, 5.0, (2.0,)) == getattr(scipy.optimize, name)(cubic, 0.0, 5.0, (2.0,))
    with pytest.raises(UnsupportedError, match=rf"scipy.optimize.{name} with full_output="):
        f(cubic, 0.0, 5.0, (param(2.0),), full_output=True)


def test_newton_and_fixed_points():
    assert gradcheck(lambda a: optimize.newton(cubic, 2.0, args=(a,)), 2.0)
    assert gradcheck(
        lambda a: optimize.newton(cubic, 2.0, lambda x, a: 3 * x**2 - a, args=(a,)), 2.0
    )
    assert gradcheck(
        lambda a: optimize.fixed_point(lambda x, a: np.cos(a * x), 0.5, args=(a,)), 0.9, order=2
    )
    assert gradcheck(
        lambda a: optimize.fixed_point(lambda x, a: np.cos(a * x), START, args=(a,)), 0.9
    )


def test_minima():
    def f(a):
        return optimize.minimize(valley, [0.5, 0.5], (a,), tol=1e-10)

    assert gradcheck(lambda a: f(a).x, 0.8, order=2, rtol=1e-5)
    assert gradcheck(lambda a: f(a).fun, 0.8, rtol=1e-5)

    def with_slopes(a):
        pair = tracker.value_and_grad(valley)
        return optimize.minimize(pair, [0.5, 0.5], (a,), jac=True, tol=1e-10).x

    assert gradcheck(with_slopes, 0.8, rtol=1e-5)
    with pytest.raises(UnsupportedError, match=r"scipy.optimize.minimize with constraints="):
        optimize.minimize(valley, [0.5, 0.5], (param(0.8),), constraints=[{"type": "eq"}])


def bowl(x, a):
    return np.sum((x - a) ** 2) + 0.3 * x[0] * x[1] + 0.1 * np.sum(x**4)


TARGET = np.array([2.0, 0.4, -3.0])


@pytest.mark.parametrize("method", ["L-BFGS-B", "SLSQP", "Nelder-Mead"])
def test_minima_within_bounds(method):
    """What a bound holds moves with it alone; the rest as if there were none."""

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
        return optimize.minimize(bowl, np.full(3, 0.2), (a,), bounds=limits, tol=1e-12).x

    compiled = jit(f)
    for a in (TARGET, TARGET / 10, -TARGET):  # held by the one bound, by none, by the other
        want = scipy.optimize.minimize(bowl, np.full(3, 0.2), (a,), bounds=box, tol=1e-12).x
        np.testing.assert_allclose(compiled(a, 0.0), want, atol=1e-5)
        for ours, theirs in zip(
            tracker.jacobian(compiled, a, 0.0), tracker.jacobian(f, a, 0.0), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_compiled_root():
    compiled = jit(lambda a: optimize.brentq(cubic, 0.0, 5.0, (a,)))
    systems = jit(lambda a: optimize.root(system, GUESS, (a, 0.5)).x)
    for a in (2.0, 2.0, 3.0):
        x = scipy.optimize.brentq(cubic, 0.0, 5.0, (a,))
        assert compiled(a) == pytest.approx(x)
        assert gradient(compiled, a)[0] == pytest.approx(x / (3 * x**2 - a))
        np.testing.assert_allclose(systems(a), scipy.optimize.root(system, GUESS, (a, 0.5)).x)


def test_a_singular_root_is_refused():
    with pytest.raises(UnsupportedError, match="the solution that fsolve found has a singular"):
        gradient(lambda a: optimize.fsolve(lambda x: np.stack([a + 0 * x[0]]) - 1.0, [0.0])[0], 1.0)


def rosenbrock(x, a):
    return 100 * (x[1] - x[0] ** 2) ** 2 + (a - x[0]) ** 2


UNFINISHED = {
    "minimize": lambda o, a: (
        o.minimize(rosenbrock, [-1.2, 1.0], (a,), method="Nelder-Mead", options={"maxiter": 9}).x
    ),
    "brentq": lambda o, a: o.brentq(cubic, 0.0, 5.0, (a,), xtol=0.1),
    "newton": lambda o, a: o.newton(cubic, 9.0, args=(a,), maxiter=4, disp=False),
    "fixed_point": lambda o, a: o.fixed_point(lambda x, a: np.cos(a * x), 0.5, (a,), xtol=0.1),
    "least_squares": lambda o, a: (
        o.least_squares(
            lambda x, a: np.stack([10 * (x[1] - x[0] ** 2), a - x[0]]),
            [-1.2, 1.0],
            args=(a,),
            max_nfev=3,
        ).x
    ),
    "where the slope is 0": lambda o, a: o.bisect(lambda x, a: a * x**3, -1.0, 1.0, (a,)),
}


@pytest.mark.filterwarnings("ignore:.*cannot be traced:RuntimeWarning")
@pytest.mark.parametrize("name", UNFINISHED)
def test_values_are_those_that_scipy_found(name):
    """Newton's steps, which give the derivative, do not go where the solver did not get."""
    f = UNFINISHED[name]
    compiled = jit(lambda a: f(optimize, a))
    for a in (1.0, 1.0, 0.9):
        want = f(scipy.optimize, a)
        np.testing.assert_allclose(compiled(a), want, rtol=1e-12)
        if name != "where the slope is 0":
            value, _ = tracker.withgradient(lambda a: np.sum(f(optimize, a)), a)
            assert value == pytest.approx(np.sum(want), rel=1e-12)
        else:
            with pytest.raises(UnsupportedError, match="has a singular Jacobian"):
                gradient(lambda a: f(optimize, a), a)


def test_what_a_compiled_solver_says():
    """Whether it got there, why not, and after how many steps: of this call, not of the first."""

    def least(o, a):
        found = o.minimize(rosenbrock, [-1.2, 1.0], (a,), options={"maxiter": 35})
        return found.x, found.success, found.message, found.nit, found.nfev, found.hess_inv

    def rooted(o, a):
        found = o.root(system, GUESS, (a, 0.5))
        return found.x, found.success, found.message, found.nfev, found.fun

    def fitted(o, a):
        found, flag = o.leastsq(lambda x, a: x**2 - a, [1.0, 1.0], (a,), maxfev=40)
        return found, flag

    for f in (least, rooted, fitted):
        compiled = jit(lambda a, f=f: f(optimize, a))
        for a in (1.0, 3.0, -2.0, 1.0):
            for ours, theirs in zip(compiled(a), f(scipy.optimize, a), strict=True):
                assert type(ours) is type(theirs)
                if isinstance(ours, str):
                    assert ours == theirs
                else:
                    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)


def test_what_compiled_code_cannot_hold():
    def f(a):
        return optimize.minimize(bowl, [0.0, 0.0], (a,), "L-BFGS-B").hess_inv.todense()

    compiled = jit(f)
    with pytest.warns(RuntimeWarning, match="compiled code does not hold .* 'hess_inv'"):
        np.testing.assert_array_equal(compiled(1.0), f(1.0))
    np.testing.assert_array_equal(compiled(7.0), f(7.0))


def test_a_compiled_system_that_captures_parameters():
    """Functions that return lists capture, too."""

    def f(a):
        return optimize.fsolve(lambda x: [x[0] ** 2 - a, x[1] - a * x[0]], GUESS)

    compiled = jit(f)
    with pytest.warns(RuntimeWarning, match="captures a value that may change"):
        np.testing.assert_allclose(compiled(1.0), [1.0, 1.0])
    np.testing.assert_allclose(compiled(900.0), [30.0, 27000.0])


def test_where_solvers_begin():
    """The user's function gets an array of floats, as SciPy gives it."""

    def total(x, a):
        return (x**2).sum() + np.sum((x - a) ** 2)

    for begin in ([1, 2], (0.5, 1.5), 1, 0.5):
        (slope,) = tracker.jacobian(lambda a, b=begin: optimize.minimize(total, b, (a,)).x, 2.0)
        np.testing.assert_allclose(slope, np.full(np.size(begin), 0.5), rtol=1e-6)
        for name in ("root", "least_squares"):
            found = getattr(optimize, name)(lambda x, a: x**3 - a, begin, args=(8.0,))
            np.testing.assert_allclose(found.x, np.full(np.size(begin), 2.0), rtol=1e-6)
        assert gradcheck(lambda a, b=begin: optimize.fsolve(lambda x: x**3 - a, b), 2.0, **LOOSE)
    np.testing.assert_allclose(optimize.newton(lambda x: x**2 - 2.0, [1, 2]), np.sqrt([2.0, 2.0]))


def test_a_function_that_gives_its_slope_with_its_value():
    def f(a):
        return optimize.root_scalar(
            lambda x, a: (cubic(x, a), 3 * x**2 - a), (a,), x0=2.0, fprime=True
        ).root

    assert jit(f)(2.0) == pytest.approx(f(2.0))
    assert gradcheck(f, 2.0)


STARTS = {
    "bracket": lambda o, a, x: (
        o.root_scalar(lambda x, a: np.sin(x) - a, (a,), bracket=[x - 0.5, x + 0.8]).root
    ),
    "x0": lambda o, a, x: (
        o.root_scalar(lambda x, a: np.sin(x) - a, (a,), x0=x, fprime=lambda x, a: np.cos(x)).root
    ),
    "x1": lambda o, a, x: o.root_scalar(lambda x, a: np.sin(x) - a, (a,), x0=x, x1=x + 0.1).root,
    "p0": lambda o, a, x: o.curve_fit(
        lambda t, w: np.sin(w * t), PLACES, np.sin(a * PLACES), p0=[x + 0.3]
    )[0][0],
}


@pytest.mark.parametrize("name", STARTS)
def test_a_compiled_solver_begins_where_the_call_says(name):
    f = STARTS[name]
    compiled = jit(lambda a, x: f(optimize, a, x))
    for x in (0.0, 3.0, 6.5):
        want = f(scipy.optimize, 0.3, x)
        assert compiled(0.3, x) == pytest.approx(want, rel=1e-6)
        by_a, by_x = gradient(lambda a, x: f(optimize, a, x), 0.3, x)
        assert by_x == 0.0
        assert gradient(compiled, 0.3, x)[0] == pytest.approx(by_a, rel=1e-6)


def test_a_compiled_fit_within_bounds_that_none_meets():
    a = SAMPLES.T[:5]

    def f(o, b):
        found = o.lsq_linear(a, b, (-0.2, 0.2))
        return found.x, found.status, found.message, found.nit

    compiled = jit(lambda b: f(optimize, b))
    for b in (np.arange(5.0), 0.01 * np.ones(5), a @ np.full(3, 0.1), np.arange(5.0)):
        for ours, theirs in zip(compiled(b), f(scipy.optimize, b), strict=True):
            if isinstance(ours, str):
                assert ours == theirs
            else:
                np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_python_numbers_stay_pythons():
    """Next to a float32 they do not make a double."""
    row = np.ones(2, np.float32)

    def f(a, row):
        area = integrate.quad(lambda x, a: np.exp(-a * x), 0.0, 1.0, (a,))[0]
        return area, area * row + optimize.brentq(cubic, 0.0, 5.0, (a,))

    area, moved = jit(f)(2.0, row)
    assert type(area) is float and moved.dtype == np.float32
    np.testing.assert_allclose(moved, f(2.0, row)[1])


def test_an_integral_from_a_number_to_itself():
    assert gradcheck(lambda a, b: integrate.quad(lambda x: a * x, 1.0, 1.0)[0] + b, 2.0, 3.0)
    assert gradcheck(lambda a: integrate.quad(lambda x: 3.0 * x, a, a)[0], 2.0)
