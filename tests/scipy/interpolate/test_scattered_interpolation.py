"""`tracker.scipy.interpolate` of surfaces and scattered points."""

import numpy as np
import pytest
import scipy.interpolate
from scipy_cases import against_scipy
from tables import refused

from tracker import UnsupportedError, data, param
from tracker.scipy import interpolate

RNG = np.random.default_rng(0)
POINTS, VALUES = RNG.uniform(size=(9, 2)), RNG.normal(size=9)
AT = POINTS[:3] @ np.array([[0.8, 0.1], [0.1, 0.7]]) + 0.05
X, Y = np.array([0.0, 0.4, 1.1, 1.5, 2.3]), np.array([-1.0, 0.0, 0.7, 1.9])
Z = np.cos(np.arange(20.0)).reshape(5, 4)
ON = np.array([0.3, 0.9, 1.3])
SCALED = ("multiquadric", "inverse_multiquadric", "inverse_quadratic", "gaussian")
FREE = ("linear", "thin_plate_spline", "cubic", "quintic")
CASES = {
    "RectBivariateSpline": lambda m, z=Z, at=ON: (
        m.RectBivariateSpline(X, Y, z)(at, at[:2] - 0.3),
        m.RectBivariateSpline(X, Y, z, kx=1, ky=3).ev(at, at**2)
        * m.RectBivariateSpline(X, Y, z)(at, at, dx=1, grid=False)),
    "RectBivariateSpline of nodes": lambda m, x=X: m.RectBivariateSpline(x, Y, Z)(
        [0.3, 5.0], [-3.0, 0.1]),
    "RectBivariateSpline, integral": lambda m, x=X, z=Z, a=0.3: m.RectBivariateSpline(
        x, Y, z).integral(a, 1.3, -0.4, 7.0),
    "RectBivariateSpline, coefficients": lambda m, x=X, z=Z: (
        m.RectBivariateSpline(x, Y, z).get_coeffs(), m.RectBivariateSpline(x, Y, z).get_knots()[0]),
    "griddata": lambda m, v=VALUES, at=AT: (
        m.griddata(POINTS, v, at) * m.LinearNDInterpolator(POINTS, v)(at[:, 0], at[:, 1]),
        m.griddata((POINTS[:, 0], POINTS[:, 1]), v, (at[:, 0], 0.4), fill_value=2.0)),
    "griddata of vectors": lambda m, v=VALUES: m.griddata(
        POINTS, np.stack([v, v**2], 1), np.concatenate([AT, AT + 9])[:4]
    )[:3],
    "nearest": lambda m, v=VALUES: m.griddata(POINTS, v, AT, "nearest") ** 2,
    "RBFInterpolator": lambda m, p=POINTS, v=VALUES, at=AT: tuple(
        m.RBFInterpolator(p, v, kernel=name, smoothing=0.1)(at) for name in FREE),
    "RBFInterpolator, scaled": lambda m, p=POINTS, v=VALUES: tuple(
        m.RBFInterpolator(p, np.stack([v, v**2], 1), kernel=name, epsilon=1.3)(AT)
        for name in SCALED),
}  # fmt: skip
test_case = against_scipy(interpolate, scipy.interpolate, CASES, rtol=1e-7, slack=1e-5)


def test_outside():
    found = interpolate.griddata(POINTS, param(VALUES), np.array([[9.0, 9.0]]))
    assert np.isnan(data(found)).all()
    assert interpolate.RectBivariateSpline(X, Y, Z)(9.0, 9.0) == pytest.approx(Z[-1, -1])
    assert interpolate.griddata(POINTS, VALUES, AT, "cubic").shape == (3,)


m, P, V, TX = interpolate, param(POINTS), param(VALUES), param(X)
test_refused = refused(
    {
        UnsupportedError: {
            "griddata in its points": lambda: m.griddata(P, VALUES, AT),
            "method='cubic'": lambda: m.griddata(POINTS, V, AT, "cubic"),
            "of one dimension": lambda: m.griddata(X, TX, AT[:, 0]),
            "Linear.* rescale=": lambda: m.LinearNDInterpolator(POINTS, V, rescale=True),
            "Nearest.* rescale=": lambda: m.NearestNDInterpolator(POINTS, V, rescale=True),
            "neighbors=": lambda: m.RBFInterpolator(P, VALUES, neighbors=3),
            r"partial_derivative has .* dx=1": lambda: m.RectBivariateSpline(
                TX, Y, Z
            ).partial_derivative(1, 0),
            "smooths": lambda: m.RectBivariateSpline(TX, Y, Z, s=1.0),
        },
        ValueError: {
            "2-dimensional": lambda: m.RBFInterpolator(TX, X),
            "to have length 9": lambda: m.RBFInterpolator(P, X),
            "must be one of": lambda: m.RBFInterpolator(P, VALUES, kernel="x"),
            "`epsilon` must be": lambda: m.RBFInterpolator(P, VALUES, kernel="gaussian"),
            "must have the shape": lambda: m.RBFInterpolator(P, VALUES)(X),
            "x and y have": lambda: m.RectBivariateSpline(TX, Y, Z.T),
        },
    }
)
