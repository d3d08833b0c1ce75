"""`tracker.scipy.interpolate`: SciPy's values, derivatives in nodes, values and points."""

from functools import partial

import numpy as np
import pytest
import scipy.interpolate
from scipy_cases import against_scipy
from tables import refused

from tracker import UnsupportedError, data, jit, param
from tracker.scipy import interpolate

X = np.array([0.0, 0.7, 1.5, 2.1, 3.2, 4.0, 4.6])
Y = np.array([0.3, 1.2, 1.1, -0.4, -0.5, 0.6, 2.0])
TABLE = np.stack([Y, Y**2 - X], axis=1)
AT = np.array([[0.1, 0.9, 1.9], [2.5, 3.65, 4.5]])
GRID = np.array([0.0, 0.5, 1.2]), np.array([-1.0, 0.0, 1.0, 3.0])
VALUES = np.cos(np.arange(12.0)).reshape(3, 4)
WAVE = np.cos(np.arange(7.0))
CASES = {
    "pchip": lambda m, x=X, y=Y, at=AT: m.PchipInterpolator(x, y)(at),
    "pchip of a table": lambda m, y=TABLE.T, at=AT: m.PchipInterpolator(X, y, axis=1)(at),
    "pchip outside": lambda m, y=Y: m.PchipInterpolator(X, y)(np.array([-1.0, 6.0])),
    "pchip of two": lambda m, y=Y[:2]: m.PchipInterpolator(X[:2], y)(AT),
    "pchip_interpolate": lambda m, y=Y, at=AT: m.pchip_interpolate(X, y, at, 1),
    "pchip_interpolate twice": lambda m, y=Y, at=AT: np.stack(
        m.pchip_interpolate(X, y, at, [1, 0])),
    "akima": lambda m, x=X, y=Y, at=AT: m.Akima1DInterpolator(x, y)(at),
    "makima": lambda m, y=TABLE, at=AT: m.Akima1DInterpolator(X, y, method="makima")(at),
    "akima of a line": lambda m, y=1.3: m.Akima1DInterpolator(X, X * y)(AT),
    "hermite": lambda m, x=X, y=Y, d=Y**2: m.CubicHermiteSpline(x, y, d)(AT),
    "slopes": lambda m, y=Y, at=AT: m.PchipInterpolator(X, y).derivative()(at),
    "curvatures": lambda m, y=Y, at=AT: m.CubicSpline(X, y).derivative(2)(at),
    "integral": lambda m, x=X, y=Y, a=1.7: (
        m.CubicSpline(x, y).integrate(a, 3.9) + m.PchipInterpolator(x, y).integrate(-0.3, a)),
    "BSpline": lambda m, c=WAVE, at=AT: m.BSpline(np.arange(11.0) - 3, c, 3)(at),
    "BSpline, slopes": lambda m, c=WAVE, at=AT: (
        m.BSpline(np.arange(10.0) - 2, c, 2).derivative()(at) ** 2),
    "BSpline of plain numbers": lambda m, at=AT: m.BSpline(np.arange(11.0) - 3, WAVE, 3)(at, 1),
    "splrep": lambda m, x=X, y=Y, at=AT: m.splev(at, m.splrep(x, y, s=0)),
    "splev outside": lambda m, y=Y, at=AT: m.splev(at * 3 - 2, m.splrep(X, y, s=0), der=1, ext=1),
    "InterpolatedUnivariateSpline": lambda m, y=Y, at=AT[0]: m.InterpolatedUnivariateSpline(X, y)(
        at),
    "spline of plain nodes": lambda m, at=AT: m.make_interp_spline(X, TABLE)(at),
    "grid": lambda m, v=VALUES, p=np.array([[0.1, 0.3], [0.9, -0.7]]): (  # noqa: B008
        m.RegularGridInterpolator(GRID, v)(p)),
    "grid and its axes": lambda m, a=GRID[0], v=VALUES, p=np.array([0.1, 0.3]): (  # noqa: B008
        m.RegularGridInterpolator((a, GRID[1]), v)(p)),
    "grid of vectors": lambda m, v=VALUES, x=np.array([0.1, 0.8]): (  # noqa: B008
        m.interpn(GRID, np.stack([v, v**2], axis=2), (x, 0.3))),
    "grid, nearest": lambda m, v=VALUES: m.RegularGridInterpolator(GRID, v, "nearest")(
        [[0.1, 0.3], [0.9, -0.7]]),
    "grid, outside": lambda m, v=VALUES: (
        m.RegularGridInterpolator(GRID, v, bounds_error=False)([[9.0, 0.3], [0.9, -0.7]])[1]
        + m.interpn(GRID, v, [[9.0, 0.3]], bounds_error=False, fill_value=None)
        + m.interpn(GRID, v, [[9.0, 0.3]], bounds_error=False, fill_value=2.5)),
}  # fmt: skip
for _k in range(6):
    CASES[f"make_interp_spline of degree {_k}"] = lambda m, x=X, y=TABLE, *, k=_k: (
        m.make_interp_spline(x, y, k)(AT)
    )
test_case = against_scipy(interpolate, scipy.interpolate, CASES)

# Cubic splines and `interp1d` ---------------------------------------------------------------------

X5, Y5 = np.array([0.0, 0.7, 1.5, 2.0, 3.1]), np.random.default_rng(0).normal(size=5)
Y52 = np.random.default_rng(1).normal(size=(5, 2))
POINTS, FAR, ROUND = (
    np.array(x) for x in ([0.3, 1.7, 2.9], [[-1.0, 4.0]], [-5.1, -0.3, 0.4, 1.1, 7.7])
)
AROUND = np.array([-1.0, 0.4, 9.0])
SHUFFLE = np.array([3, 0, 4, 1, 2])


def spline(m, x, y, q, nu=0, closed=False, **options):
    y = np.concatenate([y, y[:1]]) if closed else y
    return m.CubicSpline(x, y, **options)(q, nu)


def rows(m, y, q, nu):
    return m.CubicSpline(X5, y.T, axis=1)(q, nu)


def line(m, x, y, q, kind):
    return m.interp1d(x, y, kind=kind)(q)


def line_with_ends(m, y, q, kind):
    return m.interp1d(X5, y, kind, 0, fill_value=(-1.0, 1.0), bounds_error=False)(q)


def shuffled_line(m, y, kind):
    return m.interp1d(X5[SHUFFLE], y, kind, fill_value="extrapolate")(4.0)


SPLINES = {f"nu={nu}": (partial(rows, nu=nu), Y52, POINTS) for nu in (1, 2, 3, 4)}
for _bc in ("not-a-knot", "natural", "clamped", ((1, 0.3), (2, -0.2))):
    _f = partial(spline, bc_type=_bc)
    SPLINES |= {f"{_bc}": (_f, X5, Y5, POINTS), f"{_bc}, outside": (_f, X5, Y5, FAR)}
    if isinstance(_bc, str):
        SPLINES[f"{_bc}, columns"] = _f, X5, Y52, POINTS
for _n in (2, 3, 4):
    SPLINES[f"{_n} points"] = spline, X5[:_n], Y5[:_n], POINTS
    for _nu in (0, 1):
        _f = partial(spline, nu=_nu, closed=True, bc_type="periodic")
        SPLINES[f"{_n} points, closed, nu={_nu}"] = _f, X5[:_n], Y5[: _n - 1], ROUND
KINDS = ["linear", "cubic", "quadratic", "zero", "nearest", "nearest-up", "previous", "next"]
for _kind in KINDS:
    SPLINES |= {
        f"interp1d, {_kind}": (partial(line, kind=_kind), X5, Y5, POINTS),
        f"interp1d, {_kind}, outside": (partial(line_with_ends, kind=_kind), Y52, AROUND),
        f"interp1d, {_kind}, shuffled": (partial(shuffled_line, kind=_kind), Y5[SHUFFLE]),
    }
del SPLINES["interp1d, next, shuffled"]  # NaN beyond the last point, as SciPy's
for _k in (1, 3):
    _f = lambda m, y=Y52, q=POINTS, *, k=_k: m.make_interp_spline(X5, y, k)(q)  # noqa: E731
    SPLINES[f"make_interp_spline, k={_k}"] = _f
test_spline = against_scipy(interpolate, scipy.interpolate, SPLINES, rtol=1e-11)


@pytest.mark.parametrize("f", [
    lambda m, y: m.make_interp_spline(X5, y, bc_type="periodic")(ROUND),
    lambda m, y: m.CubicSpline(X5, y, extrapolate="periodic")(ROUND),
    lambda m, y: m.CubicSpline(X5, y)(ROUND, extrapolate="periodic"),
])  # fmt: skip
def test_other_ways_to_a_periodic_spline(f):
    y = np.concatenate([Y5[:-1], Y5[:1]])
    found, want = data(f(interpolate, param(y))), f(scipy.interpolate, y)
    np.testing.assert_allclose(found, want, rtol=1e-12)


def test_outside_of_a_spline():
    spline = interpolate.CubicSpline(X5, param(Y5), extrapolate=False)
    assert np.isnan(data(spline(np.array([-1.0, 1.0, 9.0])))).tolist() == [True, False, True]


def test_plain_numbers_are_scipys():
    spline, want = (m.make_interp_spline(X, Y) for m in (interpolate, scipy.interpolate))
    np.testing.assert_array_equal(spline(AT), want(AT))
    assert spline.integrate(0.0, 2.0) == want.integrate(0.0, 2.0)
    cubic = interpolate.RegularGridInterpolator((X, X), np.outer(Y, Y), "cubic")
    assert type(cubic) is scipy.interpolate.RegularGridInterpolator
    assert interpolate.interp1d(X, Y, kind="nearest")(0.1) == Y[0]
    assert interpolate.make_interp_spline(X, Y, k=2)(X[1]) == pytest.approx(Y[1])


m, P, NATURAL = interpolate, param(Y), {"bc_type": "natural"}
test_refused = refused(
    {
        UnsupportedError: {
            "k=5 and bc_type='natural'": lambda: m.make_interp_spline(X, P, 5, **NATURAL),
            "k=2 and bc_type='natural' has no deri": lambda: m.make_interp_spline(
                X, P, 2, **NATURAL
            ),
            "splrep that smooths": lambda: m.splrep(X, P, s=1.0),
            "more than x, y and k": lambda: m.InterpolatedUnivariateSpline(X, P, ext=1),
            "method='cubic'": lambda: m.RegularGridInterpolator((X,), P, "cubic"),
        },
        ValueError: {
            "out of bounds in dimension 0": lambda: m.RegularGridInterpolator((X,), P)([[9.0]]),
            "There are": lambda: m.RegularGridInterpolator((X[1:],), P),
            "have dimension 2": lambda: m.RegularGridInterpolator((X,), P)([[1.0, 2.0]]),
            "not in the domain": lambda: m.splev([9.0], m.splrep(X, P, s=0), ext=2),
            "above the interpolation range": lambda: m.interp1d(X, P)(9.0),
            r"must be identical .* when bc_type='periodic'": lambda: m.CubicSpline(
                X, P, bc_type="periodic"
            ),
        },
        TypeError: {"integer": lambda: m.CubicSpline(X, P)(1.0, [0, 1])},
        NotImplementedError: {
            "unsupported": lambda: m.Akima1DInterpolator(X, P, method="x"),
            "quartic is unsupported": lambda: m.interp1d(X, P, kind="quartic"),
        },
    }
)


def test_a_compiled_spline_closes_only_where_its_ends_meet():
    x = np.linspace(0.0, 1.0, 5)
    f = jit(lambda y: interpolate.CubicSpline(x, y, bc_type="periodic")(0.3))
    y = np.array([1.0, 2.0, 3.0, 2.0, 1.0])
    np.testing.assert_allclose(f(y), scipy.interpolate.CubicSpline(x, y, bc_type="periodic")(0.3))
    y[-1] = 5.0
    with pytest.raises(ValueError, match=r"must be identical .* when bc_type='periodic'"):
        f(y)
