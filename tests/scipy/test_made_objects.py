"""Objects of SciPy's and NumPy's that plain code has made before a derivative or a trace runs."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
from numpy.polynomial import Chebyshev, Polynomial
from scipy import interpolate, sparse, spatial, stats
from scipy.sparse.linalg import LinearOperator, aslinearoperator, factorized, splu
from scipy.spatial.transform import Rotation, Slerp

import tracker.scipy.interpolate
import tracker.scipy.sparse.linalg
import tracker.scipy.spatial
import tracker.scipy.stats
from tracker import gradient, jit, value_and_grad
from tracker.testing import ngradient

X = np.linspace(0.0, 3.0, 7)
Y = np.sin(X)
POINTS = np.random.default_rng(0).normal(size=(12, 2))
VALUES = POINTS[:, 0] ** 2 + POINTS[:, 1]
T = np.array([0.4, 1.1, 1.7])
ours = tracker.scipy
P = np.array([[0.1, 0.2], [0.3, 0.05]])
MATRIX = sparse.csc_matrix(np.eye(3) * 2 + np.diag([1.0, 1.0], 1))
COVARIANCE = [[1.0, 0.3], [0.3, 2.0]]

CUBIC = interpolate.CubicSpline(X, Y)
SURFACE = interpolate.RectBivariateSpline(X, X, np.outer(Y, Y))
OPERATOR = aslinearoperator(MATRIX)
SOLVE = factorized(MATRIX)
EVALUATE = SURFACE.ev
KNOTS = {"curve": CUBIC, "all": [CUBIC]}

# The object, and how it is called, on numbers and on points.
ON_NUMBERS = {
    "cubic spline": (CUBIC, lambda s, t: np.sum(s(t) + s(t, 1)) + s.integrate(0, t[1])),
    "its derivative": (CUBIC, lambda s, t: np.sum(s.derivative()(t))),
    "its antiderivative": (CUBIC, lambda s, t: np.sum(s.antiderivative()(t))),
    "two columns": (
        interpolate.CubicSpline(X, np.stack([Y, X], 1)),
        lambda s, t: np.sum(s(t)[:, 0] * s(t)[:, 1]),
    ),
    "periodic": (
        interpolate.CubicSpline(X, np.sin(X * 2 * np.pi / 3), bc_type="periodic"),
        lambda s, t: np.sum(s(t + 3.0)),
    ),
    "pchip": (interpolate.PchipInterpolator(X, Y), lambda s, t: np.sum(s(t))),
    "akima": (interpolate.Akima1DInterpolator(X, Y), lambda s, t: np.sum(s(t))),
    "polynomials": (
        interpolate.PPoly(np.ones((2, 3)), np.arange(4.0)),
        lambda s, t: np.sum(s(t) ** 2),
    ),
    "b-spline": (interpolate.make_interp_spline(X, Y), lambda s, t: np.sum(s(t) + s(t, 2))),
    "fitpack": (
        interpolate.UnivariateSpline(X, Y, s=0.01),
        lambda s, t: np.sum(s(t) + s(t, 1)) + s.integral(t[0], t[1]),
    ),
    "fitpack, constant outside": (
        interpolate.UnivariateSpline(X, Y, s=0, ext="const"),
        lambda s, t: np.sum(s(2 * t)),
    ),
    "interpolating": (interpolate.InterpolatedUnivariateSpline(X, Y), lambda s, t: np.sum(s(t, 1))),
    **{
        f"interp1d {kind}": (
            interpolate.interp1d(X, np.stack([Y, X]), kind=kind, fill_value="extrapolate"),
            lambda s, t: np.sum(s(2 * t) * t),
        )
        for kind in ("linear", "quadratic", "cubic", "nearest", "previous", "zero")
    },
    "interp1d, filled": (
        interpolate.interp1d(X, Y, bounds_error=False, fill_value=(0.0, 2.0)),
        lambda s, t: np.sum(s(2 * t) * t),
    ),
    "rotation": (
        Rotation.from_euler("xyz", [0.1, 0.2, 0.3]),
        lambda r, t: np.sum((r * Rotation.from_rotvec(t)).apply(t) * X[:3]),
    ),
    "rotations": (
        Slerp([0, 1, 2], Rotation.from_euler("x", [[0.1], [0.5], [0.7]])),
        lambda r, t: np.sum(r(t).as_rotvec() ** 2),
    ),
    "Dirichlet": (stats.dirichlet([2.0, 3.0, 4.0]), lambda d, t: d.logpdf(t / np.sum(t))),
    "density": (stats.gaussian_kde(VALUES), lambda d, t: np.sum(d(t) + d.logpdf(t))),
    "factors": (splu(MATRIX), lambda a, t: np.sum(a.solve(t) ** 2 * a.solve(t, "T"))),
    "solver": (None, lambda _, t: np.sum(SOLVE(t) ** 2)),
    "operator": (OPERATOR, lambda a, t: np.sum(a.matvec(t) ** 2) + np.sum((a @ t) ** 3)),
    "operator of functions": (
        LinearOperator((3, 3), matvec=lambda x: MATRIX @ x, rmatvec=lambda x: MATRIX.T @ x),
        lambda a, t: np.sum((a @ t) * (a.rmatvec(t))),
    ),
    "polynomial": (
        Polynomial([1.0, 2.0, 3.0]),
        lambda q, t: np.sum(q(t) + q.deriv()(t) + (q * q)(t)),
    ),
    "Chebyshev": (Chebyshev([1.0, 2.0, 3.0], domain=[0, 3]), lambda q, t: np.sum(q(t))),
    "in containers": (None, lambda _, t: np.sum(KNOTS["curve"](t) + KNOTS["all"][0](t))),
}
ON_POINTS = {
    "grid": (
        interpolate.RegularGridInterpolator((X, X), np.outer(Y, Y)),
        lambda s, p: np.sum(s(p)),
    ),
    "surface": (SURFACE, lambda s, p: np.sum(s.ev(p[:, 0], p[:, 1], dx=1))),
    "surface on a grid": (SURFACE, lambda s, p: np.sum(s(p[0], X[:2]) ** 2)),
    "smooth surface": (
        interpolate.SmoothBivariateSpline(*POINTS.T, VALUES, kx=1, ky=1),
        lambda s, p: np.sum(s(p[:, 0], p[:, 1], grid=False)),
    ),
    "triangles": (
        interpolate.LinearNDInterpolator(POINTS, VALUES),
        lambda s, p: np.sum(s(p) + s(p[:, 0], p[:, 1])),
    ),
    "nearest": (
        interpolate.NearestNDInterpolator(POINTS, VALUES),
        lambda s, p: np.sum(s(p) * p[:, 0]),
    ),
    "radial": (interpolate.RBFInterpolator(POINTS, VALUES), lambda s, p: np.sum(s(p))),
    "radial, gaussian": (
        interpolate.RBFInterpolator(
            POINTS, np.stack([VALUES, VALUES], 1), kernel="gaussian", epsilon=2
        ),
        lambda s, p: np.sum(s(p)),
    ),
    "tree": (
        spatial.KDTree(POINTS),
        lambda s, p: np.sum(s.query(p)[0] + np.sum(s.query(p, k=3)[0], 1)),
    ),
    "tree of C": (
        spatial.cKDTree(POINTS),
        lambda s, p: np.sum((p - POINTS[s.query(p)[1]]) ** 2) + s.query(p[0])[0],
    ),
    "triangulation": (
        spatial.Delaunay(POINTS),
        lambda s, p: np.sum(p * (s.find_simplex(p)[:, None] >= 0)),
    ),
    "normal": (
        stats.multivariate_normal([0, 0], COVARIANCE),
        lambda d, p: np.sum(d.logpdf(p)) * d.mean.sum() + np.sum(d.pdf(p)),
    ),
    "t": (stats.multivariate_t([0, 0], COVARIANCE, 3), lambda d, p: np.sum(d.logpdf(p))),
    "method": (None, lambda _, p: np.sum(EVALUATE(p[:, 0], p[:, 1]))),
}
OBJECTS = {name: (*row, T) for name, row in ON_NUMBERS.items()}
OBJECTS |= {name: (*row, P) for name, row in ON_POINTS.items()}


def can_be_pickled(x):
    try:
        pickle.dumps(x)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return x is not None


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_made_before(name):
    made, call, at = OBJECTS[name]

    def f(t):
        return call(made, t)

    assert_right(f, at)


def assert_right(f, at):
    """Value and gradient are those of the plain function, also in compiled code."""
    (want,) = ngradient(f, at)
    for g in (value_and_grad(f), fast := value_and_grad(jit(f, strict=False)), fast):
        value, slope = g(at)
        np.testing.assert_allclose(value, f(at), rtol=1e-12)
        np.testing.assert_allclose(slope, want, rtol=1e-6, atol=1e-7)


def pickled(x):
    return pickle.loads(pickle.dumps(x))


@pytest.mark.parametrize("again", [pickled, copy.deepcopy])
@pytest.mark.parametrize("name", [name for name, row in OBJECTS.items() if can_be_pickled(row[0])])
def test_copies_that_are_made_in_a_derivative_follow_it(name, again):
    made, call, at = OBJECTS[name]
    value, slope = value_and_grad(lambda t: call(again(made), t))(at)
    expected, its_slope = value_and_grad(lambda t: call(made, t))(at)
    np.testing.assert_array_equal(value, expected)
    np.testing.assert_array_equal(slope, its_slope)


OF_OURS = {
    "fitpack": (ours.interpolate.UnivariateSpline(X, Y), T),
    "its derivative": (ours.interpolate.UnivariateSpline(X, Y, k=4).derivative(), T),
    "polynomials": (ours.interpolate.PPoly(np.ones((2, 3)), np.arange(4.0)), T),
    "interp1d": (ours.interpolate.interp1d(X, Y, "quadratic", fill_value="extrapolate"), T),
    "grid": (ours.interpolate.RegularGridInterpolator((X, X[::-1]), np.outer(Y, X)), P),
    "radial": (ours.interpolate.RBFInterpolator(POINTS, VALUES, kernel="cubic"), P),
    "smooth surface": (
        ours.interpolate.SmoothBivariateSpline(*POINTS.T, VALUES, kx=1, ky=1).ev,
        *P,
    ),
    "tree": (ours.spatial.KDTree(POINTS).query, P),
    "triangulation": (ours.spatial.Delaunay(POINTS).find_simplex, P),
}


@pytest.mark.parametrize("again", [pickled, copy.deepcopy])
@pytest.mark.parametrize("name", OF_OURS)
def test_copies_of_objects_of_our_own_classes(name, again):
    """As SciPy's objects, they can be pickled; the copies take tracked arguments."""
    made, *at = OF_OURS[name]
    copied = again(made)
    for y, want in zip(*map(np.atleast_1d, (copied(*at), made(*at))), strict=True):
        np.testing.assert_array_equal(y, want)

    def total(use):
        return lambda *at: np.sum(at[0]) + sum(map(np.sum, np.atleast_1d(use(*at))))

    for x, want in zip(gradient(total(copied), *at), gradient(total(made), *at), strict=True):
        np.testing.assert_array_equal(x, want)


def test_our_classes_are_pickled_by_name():
    for module in (ours.interpolate, ours.spatial):
        for name in module.__all__ if hasattr(module, "__all__") else dir(module):
            x = getattr(module, name)
            if isinstance(x, type):
                assert pickled(x) is x, name


def test_objects_that_are_attributes_arguments_and_made_inside():
    class Market:
        curve = CUBIC

        def __init__(self):
            self.smooth = interpolate.UnivariateSpline(X, Y, s=0.01)

        def loss(self, t, given):
            kinds = (self.curve, self.smooth, given)
            assert isinstance(self.curve, interpolate.CubicSpline)
            assert isinstance(self.curve, interpolate.PPoly)
            assert isinstance(self.smooth, interpolate.UnivariateSpline)
            own = interpolate.UnivariateSpline(X, Y, k=2, s=0)
            assert isinstance(own, interpolate.UnivariateSpline)
            quadratic = interpolate.interp1d(X, Y, kind="quadratic")
            near = spatial.KDTree(t[:, None]).query(X[:, None])[0]
            return sum(np.sum(each(t)) for each in (*kinds, own, quadratic)) + np.sum(near**2)

    market = Market()
    assert_right(lambda t: market.loss(t, interpolate.PchipInterpolator(X, Y)), T)
    assert type(market.curve) is interpolate.CubicSpline


def test_a_changed_object_counts():
    """A polynomial shares its coefficients; a density is made anew for each call."""
    density, curve = stats.gaussian_kde(VALUES), Polynomial([1.0, 2.0])
    spline = interpolate.make_interp_spline(X, Y)

    def f(t):
        return np.sum(density(t)) + np.sum(curve(t)) + np.sum(spline(t))

    eager, fast = value_and_grad(f), value_and_grad(jit(f))
    for change in range(3):
        for g in (eager, fast, fast):
            np.testing.assert_allclose(g(T)[0], f(T), rtol=1e-12)
        density.set_bandwidth(0.5 + change)
        curve.coef[1] = 7.0 + change
        spline.c[:] = 2.0 + change


def test_objects_do_not_outlive_their_owner():
    def use(curve):
        gradient(lambda t: np.sum(curve(t)), T)
        return weakref.ref(curve)

    alive = use(interpolate.CubicSpline(X, Y))
    gc.collect()
    assert alive() is None
