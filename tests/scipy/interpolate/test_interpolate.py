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
# Methods and attributes of the objects, and splines fitted by least squares.
KNOTS = np.concatenate([np.full(4, -0.1), [1.8], np.full(4, 4.7)])
BLOCK = np.cos(np.arange(12.0)).reshape(2, 3, 2)
ZERO = np.zeros(1)  # makes double precision of single
W = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 2.0])
CLOSED = np.concatenate([Y[:-1], Y[:1]])
WAYS = {
    "CubicSpline": lambda m, x, y: m.CubicSpline(x, y),
    "PchipInterpolator": lambda m, x, y: m.PchipInterpolator(x, y),
    "Akima1DInterpolator": lambda m, x, y: m.Akima1DInterpolator(x, y),
    "CubicHermiteSpline": lambda m, x, y: m.CubicHermiteSpline(x, y, y**2),
    "PPoly": lambda m, x, y: m.PPoly(np.stack([y[1:], y[:-1] * 2]), x),
}
USES = {
    "c": lambda s, at: s.c * s.x[1:],
    "antiderivative": lambda s, at: s.antiderivative()(at),
    "third antiderivative": lambda s, at: s.antiderivative(3)(at) + s.derivative(-2)(at),
    "derivative": lambda s, at: s.derivative()(at) * s.derivative(5)(at * 0.9),
    "integral": lambda s, at: s.integrate(at[0, 0], at[1, 2], extrapolate=True),
    "integral back": lambda s, at: s.derivative().integrate(at[1, 1], at[0, 2]),
}
for _way, _make in WAYS.items():
    for _use, _call in USES.items():
        CASES[f"{_way}, {_use}"] = (
            lambda m, x, y, at, *, make=_make, call=_call: call(make(m, x, y), at),
            X,
            Y,
            AT,
        )
    if _way != "PPoly":
        CASES[f"{_way}, roots"] = (
            lambda m, x, y, v, *, make=_make: (
                make(m, x, y).solve(v, extrapolate=False) * make(m, x, y).roots(False, False)[0]
            ),
            X,
            Y,
            0.1,
        )
CASES |= {
    "integral of a period": (
        lambda m, y, a: m.CubicSpline(
            X, np.concatenate([y[:-1], y[:1]]), bc_type="periodic"
        ).integrate(a, 3 * a),
        Y,
        4.1,
    ),
    "integral back over periods": lambda m, y=Y, a=9.7: m.PchipInterpolator(X, y).integrate(
        a, -8.1, "periodic"
    ),
    "integral beyond the nodes": lambda m, y=Y: m.Akima1DInterpolator(X, y).integrate(
        -1.0, 2.0, True
    ),
    "integral of columns": lambda m, y=TABLE.T: m.CubicSpline(X, y, axis=1).integrate(0.1, 2.2),
    "polynomials of an axis": lambda m, c=BLOCK: (
        m.PPoly(c, X[:3], axis=1)(AT) + m.PPoly(c, X[:3], axis=1).antiderivative()(AT)
    ),
    "polynomials between": lambda m, c=BLOCK[..., 0]: m.PPoly(c, X[:4], extrapolate="periodic")(
        AT * 3 - 4
    ),
    "polynomials of a B-spline": lambda m, y=Y, at=AT: (
        m.PPoly.from_spline(m.make_interp_spline(X, y))(at)
        * m.PPoly.from_spline(m.splrep(X, y), extrapolate=True)(at)
    ),
    "of coefficients": lambda m, c=BLOCK[..., 0], x=X[:4]: (
        m.PPoly.construct_fast(c + ZERO, x + ZERO)(AT)
        + m.CubicSpline.construct_fast(c + ZERO, x + ZERO, False).derivative()(1)
    ),
    "BSpline, antiderivative": lambda m, c=WAVE, at=AT: m.BSpline(
        np.arange(11.0) - 3, c, 3
    ).antiderivative(2)(at),
    "BSpline, integral": lambda m, t=np.arange(11.0) - 3, c=WAVE, a=1.2: (  # noqa: B008
        m.BSpline(t, c, 3).integrate(a, 3.3) + m.BSpline(t, c, 3).integrate(9.0, a)
    ),
    "BSpline, integral inside": lambda m, c=WAVE, a=1.2: m.BSpline(
        np.arange(11.0) - 3, c, 3, extrapolate=False
    ).integrate(a, 30.0),
    "BSpline, integral of periods": lambda m, c=WAVE, a=1.2: m.BSpline(
        np.arange(11.0) - 3, c, 3, extrapolate="periodic"
    ).integrate(a, 13.3),
    "BSpline, integral of columns": lambda m, y=TABLE.T: m.make_interp_spline(
        X, y, axis=1
    ).integrate(0.1, 2.2),
    "BSpline, coefficients": lambda m, x=X, y=TABLE: (
        m.make_interp_spline(x, y).derivative().c,
        m.make_interp_spline(x, y, 2).tck[0],
    ),
    "BSpline, high derivative": lambda m, c=WAVE: m.BSpline(np.arange(11.0) - 3, c, 3)(AT, 4),
    "BSpline without its axis": lambda m, c=WAVE, at=AT: m.BSpline.construct_fast(
        np.arange(11.0) - 3, c + ZERO, 3, False
    )(at * 0.8),
    "least squares": lambda m, x=X, y=Y, w=W, at=AT: m.make_lsq_spline(x, y, KNOTS, w=w)(at),
    "least squares of columns": lambda m, y=TABLE.T: m.make_lsq_spline(
        X, y, KNOTS[2:-2], 1, axis=1
    )(AT),
    "splrep on knots": lambda m, x=X, y=Y, w=W, t=KNOTS[4:5]: m.splrep(x, y, w, t=t)[1],
    "splrep on knots, task": lambda m, y=Y, at=AT: m.splev(
        at, m.splrep(X, y, xb=-0.5, xe=5.0, task=-1, t=[2.2], k=2)
    ),
    "splrep with weights": lambda m, y=Y, w=W, at=AT: m.splev(at, m.splrep(X, y, w, s=0)),
    "splint": lambda m, y=Y, b=3.1: m.splint(-1.0, b, m.splrep(X, y)),
    "splder": lambda m, y=Y: m.splev(AT, m.splder(m.splantider(m.splrep(X, y), 2))),
    "of a BSpline": lambda m, y=Y, at=AT: (
        m.splder(m.make_interp_spline(X, y), 2)(at)
        + m.splantider(m.make_interp_spline(X, y))(at)
        + m.splev(at, m.make_interp_spline(X, y), 1) * m.splint(0, 1, m.make_interp_spline(X, y))
    ),
    "spalde": lambda m, y=Y, at=1.3: m.spalde(at, m.splrep(X, y)),
    "spalde of points": lambda m, y=Y, at=AT[0]: m.spalde(at, m.splrep(X, y))[1],
    "spalde of a list": lambda m, y=Y, at=AT[0]: m.spalde([*at], m.splrep(X, y))[1],
    "sproot": lambda m, x=X, y=Y: m.sproot(m.splrep(x, y)),
    "UnivariateSpline": lambda m, x=X, y=Y, at=AT: m.UnivariateSpline(x, y, s=0)(at) ** 2,
    "UnivariateSpline, derivatives": lambda m, y=Y, at=1.3: (
        m.UnivariateSpline(X, y, s=0, k=4).derivatives(at),
        m.UnivariateSpline(X, y, s=0).derivative(2)(at),
        m.UnivariateSpline(X, y, s=0).antiderivative()(at),
    ),
    "UnivariateSpline, integral": lambda m, y=Y, a=0.3: m.UnivariateSpline(X, y, s=0).integral(
        a, 9.0
    ),
    "UnivariateSpline, roots": lambda m, y=Y: m.UnivariateSpline(X, y, s=0).roots(),
    "UnivariateSpline, constant outside": lambda m, y=Y: (
        m.UnivariateSpline(X, y, s=0, ext="const")(AT * 2),
        m.UnivariateSpline(X, y, s=0, ext=3).derivative()(AT * 2),
    ),
    "InterpolatedUnivariateSpline, options": lambda m, y=Y: m.InterpolatedUnivariateSpline(
        X, y, W, [-1.0, 5.0], 2, "zeros"
    )(AT * 2 - 1),
    "LSQUnivariateSpline": lambda m, x=X, y=Y, t=KNOTS[4:5], w=W, at=AT: (
        m.LSQUnivariateSpline(x, y, t, w)(at),
        m.LSQUnivariateSpline(x, y, t, w).get_residual(),
    ),
    "knots and coefficients": lambda m, x=X, y=Y: (
        m.LSQUnivariateSpline(x, y, [2.0]).get_knots(),
        m.InterpolatedUnivariateSpline(x, y).get_coeffs(),
    ),
    "interp1d, its numbers": lambda m, x=X, y=TABLE.T: m.interp1d(x, y).y * m.interp1d(x, y).x,
}
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
    assert isinstance(cubic, scipy.interpolate.RegularGridInterpolator)
    assert cubic([[0.1, 0.2]]) == scipy.interpolate.RegularGridInterpolator(
        (X, X), np.outer(Y, Y), "cubic"
    )([[0.1, 0.2]])
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
            "splrep that smooths .* give the knots": lambda: m.splrep(X, P, s=1.0),
            "splrep that smooths has": lambda: m.splrep(X, P, w=Y + 2),
            "splrep with per=": lambda: m.splrep(X, P, per=True),
            "UnivariateSpline that smooths .* LSQUnivariateSpline": lambda: m.UnivariateSpline(
                X, P
            ),
            "set_smoothing_factor has .* give the knots": lambda: m.UnivariateSpline(
                X, P, s=0
            ).set_smoothing_factor(0.1),
            "splint with full_output=": lambda: m.splint(0, 1, m.splrep(X, P), full_output=True),
            "several polynomials .* one by one": lambda: m.CubicSpline(X, param(TABLE)).roots(),
            "polynomials jump .* discontinuity=False": lambda: m.PPoly(
                param([[-1.0, 1.0]]), [0.0, 1.0, 2.0]
            ).roots(),
            "equals y in a whole interval": lambda: m.PPoly(
                param([[0.0, 1.0]]), [0.0, 1.0, 2.0]
            ).roots(),
            "singular Jacobian": lambda: m.PPoly(param([[1.0], [0.0], [0.0]]), [-1.0, 1.0]).solve(
                param(0.0)
            ),
            "decreasing x .* in reverse": lambda: m.PPoly(param([[1.0]]), [1.0, 0.0]),
            "method='cubic'": lambda: m.RegularGridInterpolator((X,), P, "cubic"),
        },
        ValueError: {
            "out of bounds in dimension 0": lambda: m.RegularGridInterpolator((X,), P)([[9.0]]),
            "There are": lambda: m.RegularGridInterpolator((X[1:],), P),
            "have dimension 2": lambda: m.RegularGridInterpolator((X,), P)([[1.0, 2.0]]),
            "number of coefficients != len": lambda: m.PPoly(param([[1.0]]), [0.0, 1.0, 2.0]),
            "cannot be negative": lambda: m.CubicSpline(X, P)(1.0, -1),
            "at least 2-dim": lambda: m.PPoly(P, [0.0, 1.0]),
            "must be <= order of spline": lambda: m.splder(m.splrep(X, P), 4),
            "not differentiable 1 times": lambda: m.BSpline(
                [0.0, 0.0, 1.0, 1.0, 2.0, 2.0], param(Y[:4]), 1
            ).derivative(),
            "only for cubic": lambda: m.sproot(m.splrep(X, P, k=2)),
            "Shapes of x": lambda: m.make_lsq_spline(X, P[:3], KNOTS),
            "Out of bounds": lambda: m.make_lsq_spline(X + 1, P, KNOTS),
            "Schoenberg": lambda: m.LSQUnivariateSpline(X, P, [9.0]),
            "not in the domain": lambda: m.splev([9.0], m.splrep(X, P, s=0), ext=2),
            "above the interpolation range": lambda: m.interp1d(X, P)(9.0),
            r"must be identical .* when bc_type='periodic'": lambda: m.CubicSpline(
                X, P, bc_type="periodic"
            ),
        },
        TypeError: {"integer": lambda: m.CubicSpline(X, P)(1.0, [0, 1])},
        NotImplementedError: {
            "non-cubic": lambda: m.InterpolatedUnivariateSpline(X, P, k=2).roots(),
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
