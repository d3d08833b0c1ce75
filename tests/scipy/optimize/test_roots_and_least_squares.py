"""Integrals of functions, roots of one number, least squares: values and first and second
derivatives against closed forms or exact solutions of the optimality conditions, all of it
compiled. Differences through a solver would depend on where it stops."""

import functools
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.special as sc
from exact_derivatives import solved
from tables import refused

from tracker import UnsupportedError, gradient, hessian, jit, jvp, value_and_grad
from tracker.scipy.integrate import fixed_quad, nquad, quad, romb
from tracker.scipy.optimize import (
    brentq,
    curve_fit,
    fsolve,
    least_squares,
    minimize,
    minimize_scalar,
    newton,
    root_scalar,
    rosen,
)

T = np.linspace(0.0, 2.0, 8)
Y = 2 * np.exp(-1.3 * T) + 0.05 * np.cos(7 * T)
TIGHT = {"ftol": 1e-13, "xtol": 1e-13, "gtol": 1e-13}
P = np.array([0.7, 0.4])


def decay(t, a, b):
    return a * np.exp(-b * t)


def misfit(q, a, b):
    return q[0] * np.exp(-q[1] * T) - Y * a - b * 0.1 * T


def misfit_slopes(q, *_):
    return np.stack([np.exp(-q[1] * T), -T * q[0] * np.exp(-q[1] * T)], axis=1)


def decay_slopes(t, a, b):
    return np.stack([np.exp(-b * t), -t * a * np.exp(-b * t)], axis=1)


def cubic(x, a, b):
    return x**3 - a * x - b


def quartic(x, a, b):
    return (x - a) ** 4 + b * x**2


def chain(x):
    for _ in range(40):
        x = x + 0.01 * x * np.cos(x)
    return x


def gauss(x, a, b):
    return np.exp(-a * x**2) * b


INTEGRALS = {
    "captured, to infinity": lambda p: quad(
        lambda x: np.exp(-p[0] * x) * np.cos(p[1] * x), 0, np.inf
    )[0],
    "upper end": lambda p: quad(lambda x: np.exp(-p[0] * x**2), 0, p[1])[0],
    "both ends": lambda p: quad(lambda x: np.exp(-p[0] * x**2), p[1], 3 * p[0])[0],
    "from above": lambda p: quad(lambda x: np.exp(-p[0] * x**2) * x, 3 * p[0], p[1])[0],
    "the whole line": lambda p: quad(gauss, -np.inf, np.inf, args=(p[0], p[1]))[0],
    "from minus infinity": lambda p: quad(gauss, -np.inf, p[0], args=(p[0], p[1]))[0],
    "an end and infinity": lambda p: quad(gauss, p[1], np.inf, (p[0], p[1]))[0],
    "from infinity": lambda p: quad(gauss, np.inf, p[1], (p[0], p[1]))[0],
    "singular": lambda p: quad(lambda x, a: a / np.sqrt(x), 0, p[1], args=(p[0],))[0],
    "a logarithm": lambda p: quad(lambda x: np.log(x) * x ** p[0], 0, 1)[0],
    "a branch": lambda p: quad(lambda x: x * p[0] if x < 0.5 else p[1], 0, 1, points=[0.5])[0],
    "nested": lambda p: quad(lambda x: quad(lambda y: np.sin(x * y * p[0]), 0, x)[0], 0, p[1])[0],
    "fixed_quad": lambda p: fixed_quad(lambda x: np.sin(x * p[0]), 0, p[1], n=6)[0],
    "romb": lambda p: romb(np.sin(np.linspace(0, 1, 17) * p[0]) * p[1], dx=p[0]),
}
FITS = {
    "root_scalar, captured": lambda p: root_scalar(lambda x: cubic(x, *p), bracket=[0, 5]).root,
    "root_scalar, secant": lambda p: root_scalar(cubic, args=(p[0], p[1]), x0=2.0, x1=3.0).root,
    "root_scalar, Newton": lambda p: (
        root_scalar(cubic, (p[0], p[1]), x0=2.0, fprime=lambda x, a, b: 3 * x**2 - a).root),
    "brentq, full output": lambda p: (lambda x, result: x + result.root * result.converged)(
        *brentq(cubic, 0.0, 5.0, (p[0], p[1]), full_output=True, disp=False)),
    "newton, full output": lambda p: (lambda x, result: x + result.root * result.converged)(
        *newton(lambda x: cubic(x, *p), 2.0, full_output=True)),
    "newton, arrays and full output": lambda p: (lambda x, is_root, _: np.sum(x * is_root))(
        *newton(lambda x: cubic(x, *p), np.array([2.0, 3.0]), full_output=True)),
    "fsolve, full output": lambda p: (lambda x, more, flag, _: 2 * x[0] * flag + more["fvec"][0])(
        *fsolve(cubic, np.ones(1) * 2.0, (p[0], p[1]), full_output=True, xtol=1e-13)),
    "least_squares, a long chain": lambda p: np.sum(  # of values that are used twice each
        least_squares(lambda q: chain(q) - p, [1.0, 1.0], **TIGHT).x),
    "least_squares": lambda p: np.sum(
        least_squares(lambda q: misfit(q, *p), [1.0, 1.0], misfit_slopes, **TIGHT).x ** 2),
    "least_squares, fun and cost": lambda p: (lambda r: np.sum(r.fun) + r.cost)(
        least_squares(misfit, [1.0, 1.0], misfit_slopes, args=(p[0], p[1]), **TIGHT)),
    "least_squares, bounds": lambda p: np.sum(
        least_squares(misfit, [1.0, 1.0], bounds=([0, 0], [1.2, 5.0]), args=(p[0], p[1]), **TIGHT).x
    ),
    "curve_fit": lambda p: np.sum(
        curve_fit(decay, T, Y * p[0] + p[1] * T * 0.1, [1.0, 1.0], jac=decay_slopes, **TIGHT)[0]
        ** 2),
    "curve_fit, covariance": lambda p: np.sum(
        10 * curve_fit(decay, T + p[0], Y * p[1], **TIGHT)[1] ** 2),
    "curve_fit, sigma": lambda p: np.sum(
        curve_fit(decay, T, Y, None, np.exp(p[1] * T) * p[0], True, jac=decay_slopes, **TIGHT)[1]),
    "curve_fit, a matrix of sigma": lambda p: np.sum(
        curve_fit(decay, T, Y, sigma=np.eye(8) * p[0] + p[1], **TIGHT)[0]),
    "minimize_scalar": lambda p: (
        minimize_scalar(lambda x: quartic(x, *p), tol=1e-12).x
        + minimize_scalar(quartic, args=(p[0], p[1])).fun),
    "minimize_scalar, at a bound": lambda p: (
        minimize_scalar(
            quartic, bounds=(p[0] * 3, 5.0), args=(p[0], p[1]), options={"xatol": 1e-10}
        ).x),
    "rosen": rosen,
}  # fmt: skip
LOSSES = {  # the derivative of each loss by its argument
    "linear": np.ones_like,
    "soft_l1": lambda z: (1 + z) ** -0.5,
    "huber": lambda z: np.where(z.real <= 1, 1, z**-0.5),
    "cauchy": lambda z: 1 / (1 + z),
    "arctan": lambda z: 1 / (1 + z**2),
}
for _loss in LOSSES:
    FITS[f"least_squares, {_loss}"] = lambda p, loss=_loss: np.sum(
        least_squares(misfit, [1.0, 1.0], args=(p[0], p[1]), loss=loss, f_scale=0.5, **TIGHT).x
    )
CASES = {**INTEGRALS, **FITS}


# What each case equals, for complex parameters, too.


def best(p, loss="linear"):
    """The parameters at which the gradient of the sum of losses vanishes."""

    def conditions(q):
        r = misfit(q, *p)
        return misfit_slopes(q).T @ (LOSSES[loss]((r / 0.5) ** 2) * r)

    return solved(conditions, [2 * p[0], 1.3])


def best_below(p, top):
    """The fit whose first parameter is held at its bound."""
    rest = solved(
        lambda q: np.stack([misfit_slopes([top, q[0]])[:, 1] @ misfit([top, q[0]], *p)]), [1.2]
    )
    return top + rest[0]


def root_of_cubic(p):
    return solved(lambda x: cubic(x, *p), [1.0])[0]


def left(p):
    """What the fit leaves, and half its square."""
    r = misfit(best(p), *p)
    return np.sum(r) + 0.5 * r @ r


EVEN = np.eye(len(T))


def decayed(t, y, weights=EVEN, a=2.0):
    """The parameters of the decay, the first near `a`, and the slopes and residuals there."""
    q = solved(lambda q: decay_slopes(t, *q).T @ weights @ (decay(t, *q) - y), [a, 1.3])
    return q, decay_slopes(t, *q), decay(t, *q) - y


def spread(p):
    _, slopes, r = decayed(T + p[0], Y * p[1], a=2 * p[1] * np.exp(1.3 * p[0]))
    return 10 * np.sum((np.linalg.inv(slopes.T @ slopes) * (r @ r / (len(T) - 2))) ** 2)


def spread_by_sigma(p):
    weights = np.diag((np.exp(p[1] * T) * p[0]) ** -2)
    _, slopes, _ = decayed(T, Y, weights)
    return np.sum(np.linalg.inv(slopes.T @ weights @ slopes))


def lowest(p):
    x = solved(lambda x: 4 * (x - p[0]) ** 3 + 2 * p[1] * x, [0.3])[0]
    return x + quartic(x, *p)


def bell(a, x):
    """The integral of exp(-a x**2) from 0."""
    return np.sqrt(np.pi / a) / 2 * sc.erf(np.sqrt(a) * x)


EXACT = {
    "captured, to infinity": lambda p: p[0] / (p[0] ** 2 + p[1] ** 2),
    "upper end": lambda p: bell(p[0], p[1]),
    "both ends": lambda p: bell(p[0], 3 * p[0]) - bell(p[0], p[1]),
    "from above": lambda p: (np.exp(-9 * p[0] ** 3) - np.exp(-p[0] * p[1] ** 2)) / (2 * p[0]),
    "the whole line": lambda p: p[1] * np.sqrt(np.pi / p[0]),
    "from minus infinity": lambda p: p[1] * (np.sqrt(np.pi / p[0]) / 2 + bell(p[0], p[0])),
    "an end and infinity": lambda p: p[1] * (np.sqrt(np.pi / p[0]) / 2 - bell(p[0], p[1])),
    "from infinity": lambda p: p[1] * (bell(p[0], p[1]) - np.sqrt(np.pi / p[0]) / 2),
    "singular": lambda p: 2 * p[0] * np.sqrt(p[1]),
    "a logarithm": lambda p: -1 / (p[0] + 1) ** 2,
    "a branch": lambda p: p[0] / 8 + p[1] / 2,
    "nested": lambda p: (lambda z: (np.euler_gamma + np.log(z) - sc.sici(z)[1]) / (2 * p[0]))(
        p[0] * p[1] ** 2
    ),
    "fixed_quad": lambda p: scipy.integrate.fixed_quad(lambda x: np.sin(x * p[0]), 0, p[1], n=6)[0],
    "romb": lambda p: p[0] * p[1] * scipy.integrate.romb(np.sin(np.linspace(0, 1, 17) * p[0])),
    **dict.fromkeys([name for name in FITS if name.startswith("root_scalar")], root_of_cubic),
    **dict.fromkeys(
        [name for name in FITS if name.endswith("full output")], lambda p: 2 * root_of_cubic(p)
    ),
    "least_squares, a long chain": lambda p: np.sum(solved(lambda q: chain(q) - p, [0.5, 0.3])),
    "least_squares": lambda p: np.sum(best(p) ** 2),
    "least_squares, fun and cost": left,
    "least_squares, bounds": lambda p: best_below(p, 1.2),
    "curve_fit": lambda p: np.sum(decayed(T, Y * p[0] + p[1] * T * 0.1)[0] ** 2),
    "curve_fit, covariance": spread,
    "curve_fit, sigma": spread_by_sigma,
    "curve_fit, a matrix of sigma": lambda p: np.sum(
        decayed(T, Y, np.linalg.inv(np.eye(8) * p[0] + p[1]))[0]
    ),
    "minimize_scalar": lowest,
    "minimize_scalar, at a bound": lambda p: 3 * p[0],
    "rosen": lambda p: 100 * (p[1] - p[0] ** 2) ** 2 + (1 - p[0]) ** 2,
    **{f"least_squares, {loss}": lambda p, loss=loss: np.sum(best(p, loss)) for loss in LOSSES},
}


def exact_slopes(f, p):
    return np.array([f(p + 1e-20j * e).imag / 1e-20 for e in np.eye(2)])


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
    f, exact = CASES[name], EXACT[name]
    tolerance = 1e-8 if name in INTEGRALS else 1e-5  # of where SciPy's fits end
    (slope,) = gradient(f, P)
    np.testing.assert_allclose(
        slope, exact_slopes(exact, P), rtol=tolerance * 10, atol=tolerance * 10
    )
    value, moved = jvp(f, (P,), (np.array([1.0, -2.0]),))
    np.testing.assert_allclose(value, exact(P), rtol=tolerance)
    np.testing.assert_allclose(moved, slope @ [1.0, -2.0], rtol=1e-8, atol=1e-10)
    differences = [
        (exact_slopes(exact, P + 1e-5 * e) - exact_slopes(exact, P - 1e-5 * e)) / 2e-5
        for e in np.eye(2)
    ]
    np.testing.assert_allclose(hessian(f, P), differences, rtol=1e-5, atol=1e-5)


ALIKE = {f"least_squares, {loss}" for loss in LOSSES} | {"curve_fit, a matrix of sigma"}


@pytest.mark.parametrize("name", sorted(set(CASES) - ALIKE))
def test_compiled(name):
    f = CASES[name]
    fast = jit(f)
    for factor in (1.0, 1.0, 1.3):
        np.testing.assert_allclose(fast(P * factor), f(P * factor), rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(
            gradient(fast, P * factor)[0], gradient(f, P * factor)[0], rtol=1e-4, atol=1e-5
        )
    assert fast.cache_info().eager == 0


def test_values_are_scipy_s():
    x = np.linspace(0.0, 1.0, 9)

    def inside(p):
        y, error = quad(gauss, 0.0, 1.0, (p[0], p[1]))
        want = scipy.integrate.quad(gauss, 0.0, 1.0, (0.7, 0.4))
        np.testing.assert_allclose((float(y.data), error), want, rtol=1e-15)
        assert quad(gauss, 0.0, 1.0, (p[0], p[1]), True)[2].keys() >= {"neval", "last"}
        np.testing.assert_allclose(romb(x * p[0]).data, scipy.integrate.romb(x * 0.7), rtol=1e-14)
        found = curve_fit(decay, T, Y * p[0] / 0.7, full_output=True)
        want = scipy.optimize.curve_fit(decay, T, Y, full_output=True)
        assert len(found) == len(want) == 5
        np.testing.assert_allclose(found[0].data, want[0], rtol=1e-5)
        np.testing.assert_allclose(found[1].data, want[1], rtol=1e-4)
        result = root_scalar(cubic, (p[0], p[1]), bracket=[0, 5])
        assert result.converged and result.method == "brentq"
        return y

    gradient(inside, P)
    assert quad(np.sin, 0.0, 1.0) == scipy.integrate.quad(np.sin, 0.0, 1.0)
    found, rest = fixed_quad(np.sin, 0.0, 1.0)
    assert (found, rest) == (pytest.approx(1 - np.cos(1.0), rel=1e-12), None)


CAPTURING = {
    "root_scalar": lambda p: root_scalar(lambda x: cubic(x, *p), bracket=[0, 5]).root,
    "brentq": lambda p: brentq(lambda x: cubic(x, *p), 0, 5),
    "fsolve": lambda p: fsolve(lambda x: x**3 + p[0] * x - p[1], np.ones(1))[0],
    "minimize": lambda p: np.sum(minimize(lambda x: np.sum((x - p) ** 4 + x**2), np.ones(2)).x),
    "quad": lambda p: quad(lambda x: np.exp(-p[0] * x), 0, 1)[0],
}


class Curve:
    def __init__(self, rate):
        self.rate = rate

    def height(self, x):
        return np.exp(-self.rate * x)


def _default(p):
    return quad(lambda x, rate=p[0]: np.exp(-rate * x), 0, 1)[0]


def _partial(p):
    return quad(functools.partial(lambda rate, x: np.exp(-rate * x), p[0]), 0, 1)[0]


def _helper(p):
    pair = [p[0], {"shift": p[1]}]

    def height(x):
        return np.exp(-pair[0] * x) + pair[1]["shift"]

    return quad(lambda x: height(x) * x, 0, 1)[0]


CAPTURING |= {
    "nquad": lambda p: nquad(lambda x, y: np.sin(p[0] * x) * y + p[1], [(0, 1), (0, p[1])])[0],
    "least_squares": lambda p: np.sum(least_squares(lambda x: x * p - p[0], [1.0, 1.0]).x ** 2),
    "quad of a method": lambda p: quad(Curve(p[0] * 2).height, 0, 1)[0],
    "quad of a default": _default,
    "quad of a partial": _partial,
    "quad of a helper with a list": _helper,
}


@pytest.mark.parametrize("name", CAPTURING)
def test_captured_parameters_are_compiled(name):
    """SciPy's calls get the numbers that the captured values have in that call."""
    f = CAPTURING[name]
    fast = jit(f)
    for factor in (1.0, 2.0, 5.0):
        np.testing.assert_allclose(fast(P * factor), f(P * factor), rtol=1e-9)
        np.testing.assert_allclose(
            gradient(fast, P * factor)[0], gradient(f, P * factor)[0], rtol=1e-6, atol=1e-9
        )
    assert fast.cache_info().eager == 0


def test_captured_parameters_of_several_threads():
    fast = jit(CAPTURING["quad"])
    want = {k: fast(P * k) for k in (1.0, 2.0, 3.0, 4.0)}
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda k: (k, fast(P * k)), list(want) * 20))
    assert all(y == want[k] for k, y in found)


def own_loss(z):
    return np.stack([z, z, z])


test_refused = refused(
    {
        UnsupportedError: {
            "weight= has no derivative rule": lambda: gradient(
                lambda p: quad(lambda x: p * x, 0, 1, weight="cos", wvar=1.0)[0], 1.0
            ),
            "inf at the end": lambda: gradient(
                lambda p: quad(lambda x: 1 / np.sqrt(x - p), p, 1.0)[0], 0.3
            ),
            "loss= of your own": lambda: gradient(
                lambda p: least_squares(lambda x: x - p, [0.0], loss=own_loss).x[0], 1.0
            ),
        },
        ValueError: {
            "one plus a non-negative power of 2": lambda: gradient(
                lambda p: romb(np.ones(4) * p), 1.0
            ),
            "finite limits": lambda: fixed_quad(np.sin, 0.0, np.inf),
        },
    }
)


SOLVERS_WHOSE_FUNCTIONS_STORE = {
    "root": lambda f: scipy.optimize.root(f, 1.0),
    "fsolve": lambda f: scipy.optimize.fsolve(f, 1.0),
    "newton": lambda f: scipy.optimize.newton(f, 1.0),
    "brentq": lambda f: scipy.optimize.brentq(f, 0.0, 5.0),
    "root_scalar": lambda f: scipy.optimize.root_scalar(f, bracket=(0.0, 5.0)),
    "fixed_point": lambda f: scipy.optimize.fixed_point(lambda x: x - 0.2 * f(x), 1.0),
    "leastsq": lambda f: scipy.optimize.leastsq(f, 1.0),
    "least_squares": lambda f: scipy.optimize.least_squares(f, 1.0, **TIGHT),
    "minimize": lambda f: scipy.optimize.minimize(lambda x: np.sum(f(x) ** 2), 1.2, tol=1e-12),
}


@pytest.mark.parametrize("name", SOLVERS_WHOSE_FUNCTIONS_STORE)
def test_what_the_function_stores_at_the_solution_has_derivatives(name):
    def stored(p, as_attribute):
        spring, forces = types.SimpleNamespace(), []

        def f(x):
            forces.append(p * x**2)
            spring.force = forces[-1]
            return x**3 - p

        SOLVERS_WHOSE_FUNCTIONS_STORE[name](f)
        return np.sum(spring.force if as_attribute else forces[-1])

    for as_attribute in (True, False):
        value, slope = value_and_grad(stored)(1.7, as_attribute)
        assert value == pytest.approx(1.7 ** (5 / 3), rel=1e-4)
        assert slope == pytest.approx(5 / 3 * 1.7 ** (2 / 3), rel=1e-4)
