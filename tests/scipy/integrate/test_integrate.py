"""`tracker.scipy.integrate`: values, gradients, compiled calls, refusals.

Derivatives of solutions are compared with closed forms, or with solutions in a fixed number of
steps: differences through a solver would depend on the steps that it takes.
"""

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.optimize
from exact_derivatives import area, check_exact, integrated
from scipy_cases import against_scipy
from tables import refused

from tracker import UnsupportedError, data, gradient, jit, param
from tracker.scipy import integrate
from tracker.testing import gradcheck

RNG = np.random.default_rng(0)
SAMPLES = RNG.normal(size=(3, 6))
PLACES = np.sort(RNG.normal(size=6))
TIGHT = {"rtol": 1e-10, "atol": 1e-10}  # of solvers; what they find is compared within 1e-6


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
def test_coinciding_points(places, count):
    y, x = SAMPLES[:, :count], np.array(places[:count])
    want = scipy.integrate.simpson(y, x=x)
    np.testing.assert_allclose(jit(lambda y, x: integrate.simpson(y, x=x))(y, x), want)
    assert gradcheck(lambda y: integrate.simpson(y, x=x), y)


def test_integrals_with_a_start():
    found = integrate.cumulative_trapezoid(param(SAMPLES), initial=0)
    want = scipy.integrate.cumulative_trapezoid(SAMPLES, initial=0)
    np.testing.assert_allclose(data(found), want)
    assert integrate.ode is scipy.integrate.ode


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
        return integrate.odeint(prey, y0, t, (a, b), **TIGHT)

    def exact(y0, t, a, b):
        return integrated(lambda t, y: prey(y, t, a, b), y0, t)

    check_exact(f, exact, START, TIMES, 1.2, RATES)


def test_arguments_in_structures():
    def rates(y, t, parts, name, scale):
        assert name == "prey"
        return prey(y, t, parts["a"], parts["b"][0] * scale)

    def solutions(f, args):
        given = {"t_eval": [0.5], "args": args, **TIGHT}
        ivp = integrate.solve_ivp(lambda t, y, *args: f(y, t, *args), (0.0, 0.5), START, **given)
        return np.sum(integrate.odeint(f, START, TIMES, args, **TIGHT)[-1]) + np.sum(ivp.y)

    p = np.array([1.2, 0.9])
    (found,) = gradient(lambda p: solutions(rates, ({"a": p[0], "b": [RATES]}, "prey", p[1])), p)
    (want,) = gradient(lambda p: solutions(prey, (p[0], RATES * p[1])), p)
    np.testing.assert_allclose(found, want, rtol=1e-6)


def turning(t, y, m):
    return m @ y


TURN = np.array([[0.0, 1.0], [-1.0, -0.1]])


def test_options_of_the_equation_do_not_reach_the_adjoint():
    """The adjoint equation has another state: no slopes, tolerances or first step of this one."""
    options = {"rtol": 1e-9, "atol": np.full(2, 1e-10), "first_step": 0.2, "t_eval": [0.3, 1.0]}

    def ivp(m, **more):
        options_now = {**options, **more, "args": (m,)}
        return integrate.solve_ivp(turning, (0.0, 1.0), START, "Radau", **options_now).y

    def exact(m, times):
        return np.stack([scipy.linalg.expm(t * m) @ START for t in times])

    check_exact(
        lambda m: ivp(m, jac=lambda t, y, m: m), lambda m: exact(m, [0.3, 1.0]).T, TURN, rtol=1e-5
    )
    np.testing.assert_allclose(
        jit(lambda m: ivp(m, jac=lambda t, y, m: m))(TURN), ivp(TURN, jac=TURN)
    )

    def ode(m, tfirst):
        f, slopes = turning, lambda t, y, m: m
        if not tfirst:
            f, slopes = (lambda y, t, m: m @ y), (lambda y, t, m: m)
        given = {"tfirst": tfirst, "rtol": 1e-10, "atol": np.full(2, 1e-10)}
        return integrate.odeint(f, START, TIMES, (m,), slopes, **given)

    for tfirst in (True, False):
        check_exact(lambda m, tfirst=tfirst: ode(m, tfirst), lambda m: exact(m, TIMES), TURN)


ENDS = [0.0, 1.0]
test_refused = refused(
    {
        UnsupportedError: {
            "an event of solve_ivp does not cross zero": lambda: integrate.solve_ivp(
                pendulum, ENDS, param(START), args=(1.0,), events=lambda t, y, a: 0.0
            ),
        },
        ValueError: {
            r"y0 must be a vector; it has shape \(1, 2\)": lambda: integrate.odeint(
                prey, param([[1.0, 2.0]]), ENDS
            ),
            "y has 6 samples along the axis, x has 3": lambda: integrate.trapezoid(
                param(SAMPLES), np.arange(3.0)
            ),
            "must be 0 or None": lambda: integrate.cumulative_trapezoid(
                param(SAMPLES), initial=1.0
            ),
        },
    }
)


def test_an_integral_from_a_number_to_itself():
    assert gradcheck(lambda a, b: integrate.quad(lambda x: a * x, 1.0, 1.0)[0] + b, 2.0, 3.0)
    assert gradcheck(lambda a: integrate.quad(lambda x: 3.0 * x, a, a)[0], 2.0)


# Integrals over several variables -----------------------------------------------------------------

ROWS, AT = RNG.normal(size=(2, 7)), np.array([0.0, 0.3, 1.1, 1.5, 2.0, 2.2, 3.1])
SUMS = {
    "cumulative_simpson": lambda m, y=ROWS, x=AT: (
        m.cumulative_simpson(y, x=x) * m.cumulative_simpson(y[:, :6], dx=0.3, initial=2.0),
        m.cumulative_simpson(y.T, x=x, axis=0) + m.cumulative_simpson(y[:, :2], initial=1.0)[0, 0],
        m.cumulative_simpson(y, x=np.stack([x, x**2 + x])),
        m.cumulative_simpson(y, dx=np.array([[0.1], [0.2]])),
    )
}
test_sums = against_scipy(integrate, scipy.integrate, SUMS)


NESTED = {
    "dblquad": lambda m, p: m.dblquad(
        lambda y, x, k: np.exp(-k * x * y) * p[1],
        0.0,
        p[0],
        lambda x: x,
        lambda x: 2 * x + p[1],
        (p[0],),
    ),
    "dblquad of a box": lambda m, p: m.dblquad(lambda y, x: p[0] * x * y**2, 0, 2, 0, 1),
    "nquad": lambda m, p: m.nquad(
        lambda x, y, k: np.cos(k * x + y), [lambda y, k: (0, y * k), (0, p[1])], (p[0],)
    ),
}


AREAS = {  # of complex numbers, too
    "dblquad": lambda p: area(
        lambda x: area(lambda y: np.exp(-p[0] * x * y) * p[1], x, 2 * x + p[1]), 0.0, p[0]
    ),
    "dblquad of a box": lambda p: p[0] * 2 / 3,
    "nquad": lambda p: area(
        lambda y: area(lambda x: np.cos(p[0] * x + y), 0.0, y * p[0]), 0.0, p[1]
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_nested_integrals(name):
    f, p = NESTED[name], np.array([0.7, 0.4])
    found, want = f(integrate, param(p)), f(scipy.integrate, p)
    np.testing.assert_allclose(data(found[0]), want[0], rtol=1e-9)
    check_exact(lambda p: f(integrate, p)[0], AREAS[name], p)


def test_integrals_over_three_variables():
    m = integrate

    def f(m, k):
        return m.tplquad(
            lambda z, y, x: k * x * y * z, 0, 1, 0, lambda x: x, 0, lambda x, y: x * y
        )[0]

    assert gradient(lambda k: f(m, k), 2.0)[0] == pytest.approx(f(scipy.integrate, 1.0))
    assert m.nquad(lambda x, y: x * y, [(0, 1), (0, 1)]) == scipy.integrate.nquad(
        lambda x, y: x * y, [(0, 1), (0, 1)]
    )
    with pytest.raises(UnsupportedError, match="nquad with full_output="):
        gradient(lambda k: m.nquad(lambda x: k * x, [(0, 1)], full_output=True)[0], 1.0)
    with pytest.raises(ValueError, match="strictly increasing"):
        m.cumulative_simpson(param(ROWS), x=-AT)


def test_peaks_that_become_narrow():
    """Compiled calls may take other numbers of subintervals than the one that was traced."""

    def f(p):
        return integrate.quad(lambda x: p / (x * x + p * p), -1.0, 1.0)[0]

    compiled = jit(lambda p: gradient(f, p)[0])
    for p in (1.0, 0.1, 0.001, 0.5, 0.01, 0.05, 0.001, 0.3, 2.0):
        np.testing.assert_allclose(compiled(p), -2 / (1 + p * p), rtol=1e-8)
    assert compiled.cache_info().traces <= 6  # one for each power of two up to 50 subintervals
