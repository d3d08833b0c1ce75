"""`tracker.scipy.interpolate` beyond cubic splines: SciPy's values, derivatives in nodes, values
and points against differences, and compiled."""

import numpy as np
import pytest
import scipy.interpolate
from scipy_cases import check_case

import tracker.scipy.interpolate
from tracker import UnsupportedError, gradient, jit, param

X = np.array([0.0, 0.7, 1.5, 2.1, 3.2, 4.0, 4.6])
Y = np.array([0.3, 1.2, 1.1, -0.4, -0.5, 0.6, 2.0])
TABLE = np.stack([Y, Y**2 - X], axis=1)
AT = np.array([[0.1, 0.9, 1.9], [2.5, 3.65, 4.5]])
GRID = np.array([0.0, 0.5, 1.2]), np.array([-1.0, 0.0, 1.0, 3.0])
VALUES = np.cos(np.arange(12.0)).reshape(3, 4)
CASES = {
    "pchip": (lambda m, x, y, at: m.PchipInterpolator(x, y)(at), X, Y, AT),
    "pchip of a table": (lambda m, y, at: m.PchipInterpolator(X, y, axis=1)(at), TABLE.T, AT),
    "pchip outside": (lambda m, y: m.PchipInterpolator(X, y)(np.array([-1.0, 6.0])), Y),
    "pchip of two": (lambda m, y: m.PchipInterpolator(X[:2], y)(AT), Y[:2]),
    "pchip_interpolate": (lambda m, y, at: m.pchip_interpolate(X, y, at, 1), Y, AT),
    "pchip_interpolate twice": (
        lambda m, y, at: np.stack(m.pchip_interpolate(X, y, at, [1, 0])),
        Y,
        AT,
    ),
    "akima": (lambda m, x, y, at: m.Akima1DInterpolator(x, y)(at), X, Y, AT),
    "makima": (lambda m, y, at: m.Akima1DInterpolator(X, y, method="makima")(at), TABLE, AT),
    "akima of a line": (lambda m, y: m.Akima1DInterpolator(X, X * y)(AT), 1.3),
    "hermite": (lambda m, x, y, d: m.CubicHermiteSpline(x, y, d)(AT), X, Y, Y**2),
    "slopes": (lambda m, y, at: m.PchipInterpolator(X, y).derivative()(at), Y, AT),
    "curvatures": (lambda m, y, at: m.CubicSpline(X, y).derivative(2)(at), Y, AT),
    "integral": (
        lambda m, x, y, a: (
            m.CubicSpline(x, y).integrate(a, 3.9) + m.PchipInterpolator(x, y).integrate(-0.3, a)
        ),
        X,
        Y,
        1.7,
    ),
    "BSpline": (
        lambda m, c, at: m.BSpline(np.arange(11.0) - 3, c, 3)(at),
        np.cos(np.arange(7.0)),
        AT,
    ),
    "BSpline, slopes": (
        lambda m, c, at: m.BSpline(np.arange(10.0) - 2, c, 2).derivative()(at) ** 2,
        np.cos(np.arange(7.0)),
        AT,
    ),
    "BSpline of plain numbers": (
        lambda m, at: m.BSpline(np.arange(11.0) - 3, np.cos(np.arange(7.0)), 3)(at, 1),
        AT,
    ),
    "splrep": (lambda m, x, y, at: m.splev(at, m.splrep(x, y, s=0)), X, Y, AT),
    "splev outside": (
        lambda m, y, at: m.splev(at * 3 - 2, m.splrep(X, y, s=0), der=1, ext=1),
        Y,
        AT,
    ),
    "InterpolatedUnivariateSpline": (
        lambda m, y, at: m.InterpolatedUnivariateSpline(X, y)(at),
        Y,
        AT[0],
    ),
    "spline of plain nodes": (lambda m, at: m.make_interp_spline(X, TABLE)(at), AT),
    "grid": (
        lambda m, v, p: m.RegularGridInterpolator(GRID, v)(p),
        VALUES,
        np.array([[0.1, 0.3], [0.9, -0.7]]),
    ),
    "grid and its axes": (
        lambda m, a, v, p: m.RegularGridInterpolator((a, GRID[1]), v)(p),
        GRID[0],
        VALUES,
        np.array([0.1, 0.3]),
    ),
    "grid of vectors": (
        lambda m, v, x: m.interpn(GRID, np.stack([v, v**2], axis=2), (x, 0.3)),
        VALUES,
        np.array([0.1, 0.8]),
    ),
    "grid, nearest": (
        lambda m, v: m.RegularGridInterpolator(GRID, v, "nearest")([[0.1, 0.3], [0.9, -0.7]]),
        VALUES,
    ),
    "grid, outside": (
        lambda m, v: (
            m.RegularGridInterpolator(GRID, v, bounds_error=False)([[9.0, 0.3], [0.9, -0.7]])[1]
            + m.interpn(GRID, v, [[9.0, 0.3]], bounds_error=False, fill_value=None)
            + m.interpn(GRID, v, [[9.0, 0.3]], bounds_error=False, fill_value=2.5)
        ),
        VALUES,
    ),
}
for _k in range(6):
    CASES[f"make_interp_spline of degree {_k}"] = (
        lambda m, x, y, k=_k: m.make_interp_spline(x, y, k)(AT),
        X,
        TABLE,
    )


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    check_case(tracker.scipy.interpolate, scipy.interpolate, *CASES[name])


def test_plain_numbers_are_scipys():
    ours = tracker.scipy.interpolate
    spline = ours.make_interp_spline(X, Y)
    want = scipy.interpolate.make_interp_spline(X, Y)
    np.testing.assert_array_equal(spline(AT), want(AT))
    assert spline.integrate(0.0, 2.0) == want.integrate(0.0, 2.0)
    cubic = ours.RegularGridInterpolator((X, X), np.outer(Y, Y), "cubic")
    assert type(cubic) is scipy.interpolate.RegularGridInterpolator


def test_refusals():
    m, p = tracker.scipy.interpolate, param(Y)
    for call, match in (
        (lambda: m.make_interp_spline(X, p, 5, bc_type="natural"), "k=5 and bc_type='natural'"),
        (lambda: m.splrep(X, p, s=1.0), "splrep that smooths"),
        (lambda: m.InterpolatedUnivariateSpline(X, p, ext=1), "more than x, y and k"),
        (lambda: m.RegularGridInterpolator((X,), p, "cubic"), "method='cubic'"),
    ):
        with pytest.raises(UnsupportedError, match=match):
            call()
    for wrong, match in (
        (lambda: m.RegularGridInterpolator((X,), p)([[9.0]]), "out of bounds in dimension 0"),
        (lambda: m.RegularGridInterpolator((X[1:],), p), "There are"),
        (lambda: m.RegularGridInterpolator((X,), p)([[1.0, 2.0]]), "have dimension 2"),
        (lambda: m.splev([9.0], m.splrep(X, p, s=0), ext=2), "not in the domain"),
    ):
        with pytest.raises(ValueError, match=match):
            wrong()
    with pytest.raises(TypeError, match="integer"):
        m.CubicSpline(X, p)(1.0, [0, 1])
    with pytest.raises(NotImplementedError, match="unsupported"):
        gradient(lambda y: m.Akima1DInterpolator(X, y, method="x")(1.0), Y)


def test_a_compiled_spline_closes_only_where_its_ends_meet():
    x = np.linspace(0.0, 1.0, 5)
    f = jit(lambda y: tracker.scipy.interpolate.CubicSpline(x, y, bc_type="periodic")(0.3))
    y = np.array([1.0, 2.0, 3.0, 2.0, 1.0])
    want = scipy.interpolate.CubicSpline(x, y, bc_type="periodic")(0.3)
    np.testing.assert_allclose(f(y), want)
    y[-1] = 5.0
    with pytest.raises(ValueError, match=r"must be identical .* when bc_type='periodic'"):
        f(y)
