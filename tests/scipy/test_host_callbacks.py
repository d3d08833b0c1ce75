"""SciPy called back out of compiled code, with the options, bounds and conditions of each call."""

import functools
import types

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
from scipy_cases import calls_as_scipy, same

from tracker import UnsupportedError, gradient, hessian, jit
from tracker.scipy import integrate, ndimage, optimize

POINTS = np.linspace(0.0, 1.0, 9)
SAMPLES = np.exp(-1.3 * POINTS) + 0.1 * np.cos(9 * POINTS)
START = np.array([1.0, 1.0])
COSTS, ROWS = np.array([-1.0, -2.0]), np.array([[1.0, 1.0], [1.0, 3.0]])
ENDS = np.array([4.0, 6.0])


def cubic(x, k):
    return x**3 - k


def system(x, k):
    return np.stack([x[0] ** 2 + x[1] - k, x[1] ** 3 - k * x[0] + 1.0])


def bowl(x, k):
    return (x[0] - k) ** 4 + (x[1] - 2 * k) ** 2 + (x[0] * x[1] - 1) ** 2


def misfit(x, y):
    return x[0] * np.exp(-x[1] * POINTS) - y


def decay(t, a, b):
    return a * np.exp(-b * t)


def kink(x, k):
    return np.sqrt(np.abs(x - k))


def pendulum(t, y, k):
    return np.stack([y[1], -k * np.sin(y[0])])


def solution(module, k, **options):
    given = {"t_eval": [0.5, 1.0], "args": (k,), "method": "LSODA", "min_step": 0.0, **options}
    return module.solve_ivp(pendulum, (0.0, 1.0), START, **given)


def corner(m, c=COSTS, a=ROWS, b=ENDS, **options):
    found = m.linprog(c, a, b, **options)
    return found.x, found.fun, found.status, found.success, found.message


# Functions of SciPy's module or ours, and what they are given on three calls and more.
OPTIMIZE = {
    "root, tol": (
        lambda m, k, tol: m.root(system, START, (k,), "broyden1", tol=tol).x,
        [(2.0, 1e-1), (2.0, 1e-12), (2.5, 1e-2), (2.5, 1e-10)]),
    "root, options": (
        lambda m, k, xtol: m.root(system, START, (k,), options={"xtol": xtol}).x,
        [(2.0, 1e-1), (2.0, 1e-12), (2.5, 1e-2)]),
    "root, steps": (
        lambda m, k, n: m.root(system, START, (k,), options={"maxfev": n}),
        [(2.0, 5), (2.5, 100), (-2.0, 5), (3.0, 100)]),
    "fsolve": (
        lambda m, k, scales: m.fsolve(system, START, (k,), diag=scales, xtol=0.1),
        [(2.0, START), (2.0, np.array([5.0, 0.1])), (2.0, np.array([0.1, 10.0]))]),
    "fixed_point": (
        lambda m, k, n: m.fixed_point(lambda x, k: np.cos(k * x), 0.5, (k,), maxiter=n),
        [(0.9, 100), (0.9, 2), (0.8, 100), (0.8, 1)]),
    "brentq": (
        lambda m, k, xtol: m.brentq(cubic, 0.0, 3.0, (k,), xtol=xtol),
        [(2.0, 0.5), (2.0, 1e-10), (30.0, 0.1), (3.0, -1.0), (3.0, 0.1)]),
    "newton": (
        lambda m, k, tol, x1: m.newton(cubic, 1.0, args=(k,), tol=tol, x1=x1, maxiter=20),
        [(2.0, 0.5, 1.1), (2.0, 1e-10, 1.5), (3.0, 0.1, 2.0), (3.0, -1.0, 2.0)]),
    "root_scalar": (
        lambda m, k, x1: m.root_scalar(cubic, (k,), x0=1.0, x1=x1, maxiter=3),
        [(2.0, 1.5), (2.0, 2.0), (3.0, 2.5)]),
    "minimize": (
        lambda m, k, n: m.minimize(bowl, START, (k,), "BFGS", options={"maxiter": n}),
        [(2.0, 100), (2.0, 2), (3.0, 100), (3.0, 1)]),
    "minimize, its curvature": (
        lambda m, k, n: m.minimize(bowl, START, (k,), "BFGS", options={"maxiter": n}).hess_inv,
        [(2.0, 3), (3.0, 100), (-2.0, 3)]),
    "minimize, bounds": (
        lambda m, k, low, high: (
            m.minimize(bowl, START, (k,), bounds=scipy.optimize.Bounds(low, high)).x),
        [(2.0, START * 0, START), (2.0, -START, START * 3), (3.0, START * 4, START)]),
    "minimize, constraints": (
        lambda m, k, c: (
            m.minimize(
                bowl, START, (k,), constraints={"type": "ineq", "fun": lambda x, c: c - x[0],
                "args": (c,)},
            ).x),
        [(2.0, 1.0), (2.0, 0.5), (3.0, 9.0)]),
    "minimize_scalar": (
        lambda m, k, low: m.minimize_scalar(lambda x, k: (x - k) ** 2, (low, low + 1.0), args=(k,)),
        [(2.0, 0.5), (2.0, 4.0), (3.0, 0.0)]),
    "fmin": (
        lambda m, k, n: m.fmin(bowl, START, (k,), maxiter=n, disp=False),
        [(2.0, 100), (2.0, 2), (3.0, 100)]),
    "leastsq": (
        lambda m, y, ftol: m.leastsq(misfit, START, (y,), ftol=ftol),
        [(SAMPLES, 1e-1), (SAMPLES, 1e-10), (SAMPLES * 1.1, 1e-2)]),
    "leastsq, steps": (
        lambda m, y, n: m.leastsq(misfit, START, (y,), maxfev=n),
        [(SAMPLES, 5), (SAMPLES, 100), (SAMPLES * 1.1, 5)]),
    "least_squares": (
        lambda m, y, top, n: m.least_squares(misfit, START, args=(y,), bounds=(0, top), max_nfev=n),
        [(SAMPLES, 2.0, 100), (SAMPLES, 1.2, 2), (SAMPLES * 1.1, 1.05, 100), (SAMPLES, 0.5, 9)]),
    "curve_fit": (
        lambda m, y, n: m.curve_fit(decay, POINTS, y, maxfev=n)[0],
        [(SAMPLES, 100), (SAMPLES, 2), (SAMPLES * np.nan, 100), (SAMPLES * 1.1, 100)]),
    "nnls": (
        lambda m, a, n: m.nnls(a, [1.0, 2.0], maxiter=n),
        [(ROWS, 10), (ROWS - 2.0, 10), (ROWS, 0)]),
    "lsq_linear": (
        lambda m, a, tol: m.lsq_linear(a, [1.0, 2.0], (0, 0.6), method="trf", tol=tol).x,
        [(ROWS, 0.5), (ROWS, 1e-9), (ROWS * 2, 0.5)]),
    "lsq_linear, bounds that no or every number meets": (
        lambda m, y: m.lsq_linear(np.vander(POINTS[:5], 3), y, (-0.2, 0.2)),
        [(np.arange(5.0),), (0.01 * np.ones(5),), (0.1 * POINTS[:5],), (np.arange(5.0),)]),
    "linprog, costs": (
        corner, [(COSTS,), (np.array([-3.0, -1.0]),), (START,), (-START,), (START * 0,)]),
    "linprog, rights": (
        lambda m, b: corner(m, b=b),
        [(ENDS,), (np.array([1.0, 9.0]),), (np.array([-1.0, 3.0]),), (np.array([2.0, 6.0]),)]),
    "linprog, rows": (
        lambda m, a: corner(m, a=a),
        [(ROWS,), (np.array([[-1.0, 1.0], [1.0, -3.0]]),), (np.ones((2, 2)),)]),
    "linprog, bounds and options": (
        lambda m, top, n: corner(m, bounds=(0.0, top), options={"maxiter": n}),
        [(5.0, 100), (1.0, 100), (np.inf, 100), (-1.0, 100), (2.0, 0)]),
}  # fmt: skip
INTEGRATE = {
    "quad": (
        lambda m, k, tol, n: m.quad(kink, 0, 1, (k,), epsabs=0.0, epsrel=tol, limit=n, points=[k]),
        [(0.3, 0.1, 50), (0.3, 1e-10, 50), (0.4, 1e-2, 60)]),
    "nquad": (
        lambda m, k, tol: m.nquad(
            lambda x, y, k: np.exp(-k * x * y), [(0, 1), (0, 2)], (k,), {"epsrel": tol}
        ),
        [(1.0, 1e-3), (2.0, 1e-9), (3.0, 1e-6)],
    ),
    "dblquad": (
        lambda m, k, low: m.dblquad(lambda y, x, k: k * x * y, low, 1, 0.0, lambda x: x, (k,)),
        [(1.0, 0.0), (2.0, 0.5), (3.0, 1.0)]),
    "tplquad": (
        lambda m, k, top: m.tplquad(lambda z, y, x, k: k + z, 0, 1, 0, 1, 0, top, (k,)),
        [(1.0, 1.0), (2.0, 0.5), (3.0, 2.0)]),
    "solve_ivp": (
        lambda m, k, rtol, step: (
            lambda found: (found.y, found.nfev, found.message)
        )(solution(m, k, rtol=rtol, first_step=step)),
        [(2.0, 1e-2, 0.1), (2.0, 1e-9, 0.01), (3.0, 1e-4, 0.1), (3.0, 1e-4, -1.0)],
    ),
    "solve_ivp, times": (
        lambda m, k, times: solution(m, k, t_eval=times).y,
        [(2.0, np.array(t)) for t in ([0.1, 0.5], [0.2, 0.9], [0.5, 0.1], [0.0, 1.1], [0.0, 1.0])]),
    "odeint": (
        lambda m, k, rtol: m.odeint(
            pendulum, START, [0.0, 1.0], (k,), tfirst=True, rtol=rtol, h0=0.01
        ),
        [(2.0, 1e-2), (2.0, 1e-9), (3.0, 1e-4)]),
}  # fmt: skip


quiet = pytest.mark.filterwarnings(
    "ignore:.*(iterations|subdivisions|roundoff|extremum|optimality|maxfev)",
    "ignore::scipy.optimize.OptimizeWarning",
)
test_optimizers = quiet(calls_as_scipy(optimize, scipy.optimize, OPTIMIZE, exact=True))
test_integrators = calls_as_scipy(integrate, scipy.integrate, INTEGRATE, exact=True)


class Network:
    """Flows between states, into a plain buffer, by integer arrays of the object."""

    def __init__(self):
        self.ends, self.powers = np.array([[0, 1], [1, 0]]), np.array([1, 2])

    def flow(self, y, k):
        out = np.zeros(2)
        np.subtract.at(out, self.ends[:, 0], k * y**self.powers)
        out[self.ends[0, 1]] += y[0]
        return out


NETWORK = Network()


class Held:
    def __init__(self, root):
        self.root = root


def _root(k):
    return optimize.brentq(lambda x: k * x - 35.0, 0.0, 100.0)


def _next_root(held, k):
    return optimize.brentq(lambda x, held=held, k=k: x - held.root * k, 0.0, 100.0)


DERIVED = {
    "arrays of an object": lambda k: optimize.root(
        lambda x: x - START + NETWORK.flow(x, k), START, tol=1e-12
    ).x[0],
    "odeint, arrays of an object": lambda k: integrate.odeint(
        lambda y, t: NETWORK.flow(y, k), START, [0.0, 1.0], rtol=1e-9, atol=1e-9, h0=0.01
    )[1, 0],
    "an object among defaults": lambda k: _next_root(Held(_root(k)), k),
    "nquad": lambda k: integrate.nquad(
        lambda x, y, k: np.exp(-k * x * y), [(0, 1), (0, k)], (k,)
    )[0],
    "dblquad": lambda k: integrate.dblquad(lambda y, x, k: x * y, k, 1, 0, lambda x: x, (k,))[0],
    "odeint": lambda k: integrate.odeint(
        pendulum, START, [0.0, 1.0], (k,), tfirst=True, rtol=1e-9, atol=1e-9, h0=0.01
    )[1, 0],
    "solve_ivp": lambda k: solution(integrate, k, rtol=1e-9, atol=1e-9).y[0, 1],
    "root, tol": lambda k: optimize.root(system, START, (k,), tol=1e-12 * k).x[0],
    "minimize_scalar": lambda k: optimize.minimize_scalar(
        lambda x, k: (x - k) ** 4 + x * x, (0.0, k), args=(k,), tol=1e-10
    ).x,
    "linprog": lambda k: optimize.linprog(COSTS, ROWS * k, ENDS, options={"maxiter": 100}).fun,
}  # fmt: skip


@pytest.mark.parametrize("name", DERIVED)
def test_derivatives(name):
    f = DERIVED[name]
    compiled = jit(f)
    for k in (0.7, 0.9, 0.7):
        assert compiled(k) == pytest.approx(f(k), rel=1e-5)
        assert gradient(compiled, k)[0] == pytest.approx(gradient(f, k)[0], rel=1e-5)


@pytest.mark.parametrize("name", DERIVED)
def test_one_trace_serves_all_calls(name):
    """Of the function and of its derivative: no result of SciPy's is guarded by value."""
    f = DERIVED[name]
    for compiled in (jit(f), jit(lambda k: gradient(f, k))):
        for _ in range(4):
            compiled(0.7)
        assert compiled.cache_info().traces == 1


@pytest.mark.parametrize("name", ["dblquad", "root, tol", "minimize_scalar", "linprog"])
def test_second_derivatives(name):
    f = DERIVED[name]
    assert hessian(jit(f), 0.8) == pytest.approx(hessian(f, 0.8), rel=1e-4)


def test_an_infeasible_linear_program_has_no_derivative():
    f = jit(lambda k: optimize.linprog(COSTS, ROWS, ENDS * k).fun)
    assert gradient(f, 1.0)[0] == pytest.approx(-5.0)
    for _ in range(2):
        with pytest.raises(UnsupportedError, match="linprog without a solution"):
            gradient(lambda k: optimize.linprog(COSTS, ROWS, ENDS * k).fun, -1.0)


def test_captured_arrays_are_read_at_each_call():
    weights = np.array([1.0, 2.0, 3.0])
    roots = jit(lambda: optimize.root(lambda x: weights * x - 6.0, np.ones(3)).x)
    areas = jit(lambda: integrate.nquad(lambda x, y: weights[0] * x + y, [(0, 1), (0, 1)])[0])
    for first in (1.0, 2.0, 4.0):
        weights[0] = first
        np.testing.assert_allclose(roots(), 6.0 / weights)
        assert areas() == pytest.approx(first / 2 + 0.5)


def _of_an_object(k):
    held = types.SimpleNamespace(k=k)
    return optimize.brentq(lambda x: held.k * x - 35.0, 0.0, 10.0)


def _with_default(k):
    root = _root(k)
    return optimize.brentq(lambda x, at=root: x - at, 0.0, 10.0)


CAPTURING = {
    "defaults": lambda k: _next_root(Held(35.0 / k), _root(k)),
    "a default": _with_default,
    "an object": _of_an_object,
    "a value": lambda k: optimize.brentq(lambda x: x - 7 if x < 5 else k * x - 35.0, 0.0, 10.0),
    "a condition": lambda k: optimize.root(lambda x: x - 5 if k > 4.5 else x + 5, START).x,
    "in options": lambda k: optimize.minimize(bowl, START, (1.0,), jac=lambda x, _: k * x).x,
}


@pytest.mark.parametrize("name", CAPTURING)
def test_functions_that_capture_traced_values_are_compiled(name):
    f = CAPTURING[name]
    compiled = jit(f)
    for k in (5.0, 6.0, 4.0):
        np.testing.assert_array_equal(compiled(k), f(k))
    assert compiled.cache_info().eager == 0


def _path(k):
    path = []
    found = optimize.minimize(bowl, START, (k,), callback=lambda x: path.append(x * 1.0))
    return found.x, len(path)


def _count(k):
    count = np.zeros(1)

    def counted(x, k):
        count[0] += 1
        return cubic(x, k)

    return optimize.brentq(counted, 0.0, 3.0, (k,)), count[0]


class Spring:
    """What a residual may keep: caches, and its latest results."""

    def __init__(self):
        self.table, self.first = {}, None
        self.force, self.forces = np.zeros(2), [np.zeros(2), 0.0]

    @functools.cached_property
    def stiffness(self):
        return np.array([1.0, 2.0])

    def cached(self, x, k):
        return self.stiffness * x**3 - k

    def memoized(self, x, k):
        if "stiffness" not in self.table:
            self.table["stiffness"] = np.array([1.0, 2.0])
        return self.table["stiffness"] * x**3 - k

    def initialized(self, x, k):
        if self.first is None:
            self.first = np.array([1.0, 2.0])
        return self.first * x**3 - k

    def rebound(self, x, k):
        self.force = x**3
        return self.force - k

    def put(self, x, k):
        self.forces[0] = x**3
        return self.forces[0] - k

    def written(self, x, k):
        self.force[...] = x**3
        return self.force - k

    def kept(self):
        return np.sum(self.force) + np.sum(self.forces[0])


def _extension(spring, residual, k):
    found = optimize.root(lambda x: residual(spring, x, k), np.ones(2))
    return np.sum(found.x) + spring.kept()


@pytest.mark.parametrize("residual", [Spring.cached, Spring.memoized, Spring.initialized])
def test_functions_that_fill_caches_are_compiled(residual):
    springs = Spring(), Spring()
    compiled = jit(_extension)
    for k in (2.0, 3.0, 4.0, 5.0):
        plain, got = (
            g(s, residual, k) for g, s in zip((_extension, compiled), springs, strict=True)
        )
        assert got == pytest.approx(plain, rel=1e-9)
    assert compiled.cache_info().eager == 0
    fresh = jit(lambda k: _extension(Spring(), residual, k))
    assert [fresh(k) for k in (2.0, 3.0)] == [_extension(Spring(), residual, k) for k in (2.0, 3.0)]


def test_functions_that_always_fill_a_cache_run_in_plain_python():
    springs = Spring(), Spring()
    compiled = jit(lambda k: _extension(springs[0], Spring.initialized, k))
    with pytest.warns(RuntimeWarning, match="each call fills a cache"):
        for k in (2.0, 3.0, 4.0, 5.0, 6.0):
            for spring in springs:
                spring.first = None
            assert compiled(k) == _extension(springs[1], Spring.initialized, k)
    assert compiled.cache_info().eager == 1


@pytest.mark.parametrize("residual", [Spring.rebound, Spring.put, Spring.written])
def test_what_a_function_leaves_is_that_of_the_call(residual):
    springs = Spring(), Spring()
    compiled = jit(lambda k: _extension(springs[0], residual, k))
    with pytest.warns(RuntimeWarning, match="under jit changes something that is not its own"):
        for k in (2.0, 3.0, 4.0, 5.0):
            assert compiled(k) == _extension(springs[1], residual, k)


@pytest.mark.parametrize("residual", [Spring.rebound, Spring.put, Spring.written])
def test_functions_that_write_in_a_later_call_run_in_plain_python(residual):
    springs = Spring(), Spring()

    def extension(spring, k):
        at_once = optimize.root(
            lambda x: (Spring.cached if k < 3 else residual)(spring, x, k), START
        )
        return np.sum(at_once.x) + spring.kept()

    compiled = jit(lambda k: extension(springs[0], k))
    for k in (1.0, 2.0, 1.5, 1.2):
        assert compiled(k) == pytest.approx(extension(springs[1], k), rel=1e-12)
    assert compiled.cache_info().eager == 0
    with pytest.warns(RuntimeWarning, match="under jit changes something that is not its own"):
        for k in (4.0, 5.0, 1.0, 6.0):
            assert compiled(k) == pytest.approx(extension(springs[1], k), rel=1e-12)


def _count_by_default(k):
    count = types.SimpleNamespace(calls=0)

    def counted(x, count=count, k=k):
        count.calls += 1
        return cubic(x, k)

    return optimize.brentq(counted, 0.0, 3.0), count.calls


@pytest.mark.parametrize(
    ("f", "changed"), [(_path, ""), (_count, ""), (_count_by_default, r" \(calls\)")]
)
def test_functions_that_write_run_in_plain_python(f, changed):
    compiled = jit(f)
    text = f"under jit changes something that is not its own{changed}. Let it return what it finds"
    with pytest.warns(RuntimeWarning, match=text):
        compiled(2.0)
    for k in (3.0, 4.0):
        same(compiled(k), f(k))


@pytest.mark.parametrize("calls", [(0.5, 3.0, 0.7), (3.0, 0.5, 0.7)])
def test_a_caught_error_is_that_of_the_call(calls):
    def f(k):
        try:
            return optimize.brentq(cubic, 0.0, 1.0, (k,))
        except ValueError:
            return -k

    compiled = jit(f)
    with pytest.warns(RuntimeWarning, match="goes on after an error that depends on values"):
        assert [compiled(k) for k in calls] == [f(k) for k in calls]


def test_texts_and_slices_are_those_of_the_call():
    def told(k, n):
        return optimize.minimize(bowl, START, (k,), "BFGS", options={"maxiter": n}).message

    compiled = jit(told)
    for n in (100, 1, 50, 2):
        assert compiled(2.0, n) == told(2.0, n)

    def found(x):
        return ndimage.find_objects(ndimage.label(x > 2)[0])

    compiled = jit(found)
    for x in (np.eye(2), 3 * np.eye(2), np.tri(2) * 5, np.eye(2)[::-1] * 4):
        assert compiled(x) == found(x)
