"""Every public attribute of the classes that stand for SciPy's: it is here, or SciPy's for plain
numbers, or refused by name."""

import importlib
import re

import numpy as np
import pytest
import scipy.interpolate
import scipy.spatial
import scipy.stats
from scipy.spatial.transform import Rotation
from tables import refused

from tracker import UnsupportedError, data, gradient, jit, param, value_and_grad
from tracker.scipy import SUBMODULES, interpolate, spatial, stats
from tracker.scipy._bridge.classes import DropIn, ScipyClass
from tracker.testing import ngradient

X = np.array([0.0, 0.7, 1.5, 2.1, 3.2, 4.0, 4.6])
Y = np.array([0.3, 1.2, 1.1, -0.4, -0.5, 0.6, 2.0])
POINTS = np.random.default_rng(0).normal(size=(9, 2))
KNOTS = np.concatenate([np.zeros(4), [2.0], np.full(4, 4.6)])
TURNS = np.array([[0.1, 0.2, 0.3], [0.3, 0.1, 0.5]])


def quaternions(t):
    """Unit quaternions of rotation vectors."""
    angle = np.linalg.norm(t, axis=-1, keepdims=True)
    return np.concatenate([t / angle * np.sin(angle / 2), np.cos(angle / 2)], axis=-1)


# How an object is made, by the classes of ours or SciPy's, of an array.
MADE = {
    "Akima1DInterpolator": (lambda cls, y: cls(X, y), Y),
    "BSpline": (lambda cls, c: cls(KNOTS, c, 3), Y[:5]),
    "CubicHermiteSpline": (lambda cls, y: cls(X, y, y), Y),
    "CubicSpline": (lambda cls, y: cls(X, y), Y),
    "InterpolatedUnivariateSpline": (lambda cls, y: cls(X, y), Y),
    "KDTree": (lambda cls, p: cls(p), POINTS),
    "LSQUnivariateSpline": (lambda cls, y: cls(X, y, [2.0]), Y),
    "LinearNDInterpolator": (lambda cls, v: cls(POINTS, v), POINTS[:, 0]),
    "NearestNDInterpolator": (lambda cls, v: cls(POINTS, v), POINTS[:, 0]),
    "PPoly": (lambda cls, c: cls(c, X), np.outer([1.0, 2.0], X[:-1])),
    "PchipInterpolator": (lambda cls, y: cls(X, y), Y),
    "RBFInterpolator": (lambda cls, v: cls(POINTS, v), POINTS[:, 0]),
    "RectBivariateSpline": (lambda cls, z: cls(X, X, z), np.outer(Y, Y)),
    "RegularGridInterpolator": (lambda cls, z: cls((X, X), z), np.outer(Y, Y)),
    "Rotation": (lambda cls, t: cls.from_rotvec(t), TURNS),
    "Slerp": (None, TURNS),
    "UnivariateSpline": (lambda cls, y: cls(X, y, s=0), Y),
    "cKDTree": (lambda cls, p: cls(p), POINTS),
    "gaussian_kde": (lambda cls, v: cls(v), Y),
    "interp1d": (lambda cls, y: cls(X, y), Y),
}
# Their classes only make SciPy's objects, or derive from SciPy's class.
WITHOUT_TRACKED = {"BivariateSpline", "Delaunay", "LSQBivariateSpline", "SmoothBivariateSpline"}
WITHOUT_TRACKED |= {"LinearOperator"}
MADE["Slerp"] = lambda cls, t: cls([0.0, 1.0], turned(cls, t)), TURNS


def turned(cls, t):
    """The rotation class beside this `Slerp`, by rotation vectors."""
    ours = isinstance(cls, ScipyClass)
    return (spatial.transform.Rotation if ours else Rotation).from_rotvec(t)


def classes():
    modules = [importlib.import_module(f"tracker.scipy.{name}") for name in SUBMODULES]
    found = {(name, cls) for m in modules for name in dir(m)
             if isinstance(cls := getattr(m, name), ScipyClass)}  # fmt: skip
    return dict(sorted(found, key=lambda pair: pair[0]))


CLASSES = classes()


def public(x):
    return [name for name in dir(x) if not name.startswith("_")]


def test_each_class_has_a_row():
    assert CLASSES.keys() == MADE.keys() | WITHOUT_TRACKED


@pytest.mark.parametrize("name", CLASSES)
def test_attributes_of_classes(name):
    cls = CLASSES[name]
    for attribute in public(cls._theirs):
        found, theirs = getattr(cls, attribute), getattr(cls._theirs, attribute)
        assert callable(found) == callable(theirs), attribute


@pytest.mark.parametrize("name", MADE)
def test_attributes_of_objects_of_tracked_numbers(name):
    make, of = MADE[name]
    made, plain = make(CLASSES[name], param(of)), make(CLASSES[name]._theirs, of)
    own = {n for c in type(made).__mro__ if c not in (DropIn, object) for n in vars(c)}
    own |= vars(made).keys()
    for attribute in public(plain):
        if attribute in own:
            found, theirs = getattr(made, attribute), getattr(plain, attribute)
            assert callable(found) == callable(theirs), attribute
            if isinstance(theirs, np.ndarray):
                np.testing.assert_allclose(data(found), theirs, 1e-9, 1e-12, err_msg=attribute)
            continue
        home = rf"scipy\.[a-z.]+\.{name}\.{attribute} has no derivative rule here\. [A-Z]"
        with pytest.raises(UnsupportedError, match=home) as error:
            getattr(made, attribute)
        assert re.search(r"\(at .*test_drop_in_classes\.py:\d+\)$", str(error.value))


@pytest.mark.parametrize("name", MADE)
def test_attributes_of_objects_of_plain_numbers(name):
    make, of = MADE[name]
    made, plain = make(CLASSES[name], of), make(CLASSES[name]._theirs, of)
    for attribute in public(plain):
        found, theirs = getattr(made, attribute), getattr(plain, attribute)
        assert callable(found) == callable(theirs), attribute


def test_other_names_are_missing():
    for made in (interpolate.CubicSpline(X, param(Y)), interpolate.CubicSpline(X, Y)):
        assert not hasattr(made, "slopes")
        assert not hasattr(made, "_repr_html_")
    with pytest.raises(AttributeError, match=r"'CubicSpline' object has no attribute 'slopes'"):
        interpolate.CubicSpline(X, param(Y)).slopes  # noqa: B018
    with pytest.raises(AttributeError, match=r"has no attribute 'slopes'"):
        interpolate.CubicSpline.slopes  # noqa: B018


def test_classes_are_scipys_to_isinstance():
    for spline in (interpolate.PchipInterpolator(X, param(Y)), interpolate.PchipInterpolator(X, Y)):
        assert isinstance(spline, interpolate.CubicHermiteSpline)
        assert isinstance(spline, interpolate.PPoly)
        assert not isinstance(spline, interpolate.CubicSpline)
    assert issubclass(scipy.interpolate.CubicSpline, interpolate.PPoly)
    assert not issubclass(scipy.interpolate.BSpline, interpolate.PPoly)


def test_a_class_of_the_users_is_made_as_it_says():
    class Line(interpolate.CubicSpline):
        def __init__(self, slope):
            super().__init__(X, slope * X)

    assert isinstance(Line(2.0), Line)
    assert not isinstance(interpolate.CubicSpline(X, Y), Line)
    assert Line(2.0)(1.1) == pytest.approx(2.2)
    assert gradient(lambda k: Line(k)(1.1), 2.0) == pytest.approx((1.1,))


def of_rotvec(t):
    return FROM_ROTVEC(t).as_matrix()


FROM_ROTVEC = Rotation.from_rotvec
# Class methods, in code that uses SciPy itself.
PROGRAMS = {
    "create_group": lambda t: np.sum(Rotation.create_group("C3").apply(t)),
    "a class method that was taken before": lambda t: np.sum(of_rotvec(t)[0]),
    "design_matrix": lambda t: np.sum(
        np.sin(scipy.interpolate.BSpline.design_matrix(X, KNOTS, 3).T @ (X * t[0]))
    ),
    "construct_fast": lambda t: scipy.interpolate.BSpline.construct_fast(KNOTS, t[0] * Y[:5], 3)(
        t[1]
    ),
    "basis_element": lambda t: scipy.interpolate.BSpline.basis_element([0.0, 1.0, 2.0])(t[0]),
    "an object's method by its class": lambda t: scipy.interpolate.CubicSpline.integrate(
        scipy.interpolate.CubicSpline(X, Y * t[0]), 0.0, t[1]
    ),
    "a result of SciPy's": lambda t: np.sum(
        scipy.interpolate.make_smoothing_spline(X, Y, lam=0.1)(t)
    ),
    "pairs": lambda t: t[0] * len(
        scipy.spatial.KDTree(t[:, None]).query_pairs(0.15, output_type="ndarray")
    ),
    "two trees": lambda t: t[0] * scipy.spatial.KDTree(t[:, None]).count_neighbors(
        scipy.spatial.KDTree(X[:, None]), 0.4
    ),
    "balls of two trees": lambda t: t[0] * len(
        scipy.spatial.KDTree(t[:, None]).query_ball_tree(scipy.spatial.KDTree(X[:, None]), 0.4)[0]
    ),
    "a tree in a box": lambda t: np.sum(
        scipy.spatial.KDTree(t[:, None], boxsize=2.0).query(np.array([[1.9], [0.3]]))[0]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    f, t = PROGRAMS[name], np.array([0.15, 0.25, 0.45])
    (want,) = ngradient(f, t)
    for g in (value_and_grad(f), fast := value_and_grad(jit(f)), fast):
        value, slope = g(t)
        np.testing.assert_allclose(value, f(t), rtol=1e-9)
        np.testing.assert_allclose(slope, want, rtol=1e-6, atol=1e-8)


def test_the_points_in_balls_have_no_derivative():
    def f(t):
        near = scipy.spatial.KDTree(t[:, None]).query_ball_point(X[:3, None], 0.5)
        return np.sum(t * [len(each) for each in near])

    np.testing.assert_array_equal(gradient(f, np.array([0.15, 0.25, 0.45]))[0], [3.0, 2.0, 0.0])


P, T = param(Y), param(TURNS)
SPLINE = interpolate.CubicSpline(X, P)
test_refused = refused(
    {
        UnsupportedError: {
            r"BSpline\.design_matrix has .* which is dense": lambda: (
                interpolate.BSpline.design_matrix(P, KNOTS, 3)
            ),
            r"Rotation\.from_davenport has": lambda: spatial.transform.Rotation.from_davenport(
                np.eye(3), "extrinsic", T[0]
            ),
            r"Delaunay has no derivative rule": lambda: spatial.Delaunay(param(POINTS)),
            r"CubicSpline\.extend .* Join them": lambda: SPLINE.extend(Y[None], X),
            r"generate_knots has": lambda: interpolate.generate_knots(SPLINE, Y),
            r"scipy\.stats\.norm\.fit has": lambda: stats.norm.fit(P),
            r"multivariate_normal\.rvs has": lambda: stats.multivariate_normal.rvs(P),
            r"scipy\.stats\.norm\(\.\.\.\)\.expect has": lambda: stats.norm(param(1.0)).expect(),
        }
    }
)
