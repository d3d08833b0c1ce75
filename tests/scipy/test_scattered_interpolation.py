"""`tracker.scipy.interpolate` of surfaces and scattered points: SciPy's values, derivatives against
differences, and compiled."""

import numpy as np
import pytest
import scipy.interpolate
from scipy_cases import check_case

import tracker.scipy.interpolate
from tracker import UnsupportedError, data, param
from tracker.scipy import interpolate

RNG = np.random.default_rng(0)
POINTS, VALUES = RNG.uniform(size=(9, 2)), RNG.normal(size=9)
AT = POINTS[:3] @ np.array([[0.8, 0.1], [0.1, 0.7]]) + 0.05
X, Y = np.array([0.0, 0.4, 1.1, 1.5, 2.3]), np.array([-1.0, 0.0, 0.7, 1.9])
Z = np.cos(np.arange(20.0)).reshape(5, 4)
SCALED = ("multiquadric", "inverse_multiquadric", "inverse_quadratic", "gaussian")
FREE = ("linear", "thin_plate_spline", "cubic", "quintic")
CASES = {
    "RectBivariateSpline": (
        lambda m, z, at: (
            m.RectBivariateSpline(X, Y, z)(at, at[:2] - 0.3),
            m.RectBivariateSpline(X, Y, z, kx=1, ky=3).ev(at, at**2)
            * m.RectBivariateSpline(X, Y, z)(at, at, dx=1, grid=False),
        ),
        Z,
        np.array([0.3, 0.9, 1.3]),
    ),
    "RectBivariateSpline of nodes": (
        lambda m, x: m.RectBivariateSpline(x, Y, Z)([0.3, 5.0], [-3.0, 0.1]),
        X,
    ),
    "griddata": (
        lambda m, v, at: (
            m.griddata(POINTS, v, at) * m.LinearNDInterpolator(POINTS, v)(at[:, 0], at[:, 1]),
            m.griddata((POINTS[:, 0], POINTS[:, 1]), v, (at[:, 0], 0.4), fill_value=2.0),
        ),
        VALUES,
        AT,
    ),
    "griddata of vectors": (
        lambda m, v: m.griddata(POINTS, np.stack([v, v**2], 1), np.concatenate([AT, AT + 9])[:4])[
            :3
        ],
        VALUES,
    ),
    "nearest": (lambda m, v: m.griddata(POINTS, v, AT, "nearest") ** 2, VALUES),
    "RBFInterpolator": (
        lambda m, p, v, at: tuple(
            m.RBFInterpolator(p, v, kernel=name, smoothing=0.1)(at) for name in FREE
        ),
        POINTS,
        VALUES,
        AT,
    ),
    "RBFInterpolator, scaled": (
        lambda m, p, v: tuple(
            m.RBFInterpolator(p, np.stack([v, v**2], 1), kernel=name, epsilon=1.3)(AT)
            for name in SCALED
        ),
        POINTS,
        VALUES,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    check_case(interpolate, scipy.interpolate, *CASES[name], rtol=1e-7, slack=1e-5)


def test_outside():
    found = interpolate.griddata(POINTS, param(VALUES), np.array([[9.0, 9.0]]))
    assert np.isnan(data(found)).all()
    assert interpolate.RectBivariateSpline(X, Y, Z)(9.0, 9.0) == pytest.approx(Z[-1, -1])


def test_refusals():
    m, p = interpolate, param(POINTS)
    for call, match in (
        (lambda: m.griddata(p, VALUES, AT), "griddata in its points"),
        (lambda: m.griddata(POINTS, param(VALUES), AT, "cubic"), "method='cubic'"),
        (lambda: m.griddata(X, param(X), AT[:, 0]), "of one dimension"),
        (lambda: m.LinearNDInterpolator(POINTS, VALUES, rescale=True), "rescale="),
        (lambda: m.NearestNDInterpolator(POINTS, VALUES, rescale=True), "rescale="),
        (lambda: m.RBFInterpolator(p, VALUES, neighbors=3), "neighbors="),
        (lambda: m.RectBivariateSpline(X, Y, Z, s=1.0), "smooths"),
    ):
        with pytest.raises(UnsupportedError, match=match):
            call()
    for wrong, match in (
        (lambda: m.RBFInterpolator(param(X), X), "2-dimensional"),
        (lambda: m.RBFInterpolator(p, X), "to have length 9"),
        (lambda: m.RBFInterpolator(p, VALUES, kernel="x"), "must be one of"),
        (lambda: m.RBFInterpolator(p, VALUES, kernel="gaussian"), "`epsilon` must be"),
        (lambda: m.RBFInterpolator(p, VALUES)(X), "must have the shape"),
        (lambda: m.RectBivariateSpline(X, Y, Z.T), "x and y have"),
    ):
        with pytest.raises(ValueError, match=match):
            wrong()
    assert tracker.scipy.interpolate.griddata(POINTS, VALUES, AT, "cubic").shape == (3,)
