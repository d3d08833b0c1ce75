"""SciPy's checks of values: the same errors and results on tracked values, compiled or not,
whatever earlier calls have found."""

import numpy as np
import pytest
import scipy.interpolate
import scipy.linalg
import scipy.signal
import scipy.spatial
import scipy.stats
from scipy_cases import calls_as_scipy, since

import tracker
from tracker import jit
from tracker.scipy import interpolate, linalg, signal, spatial, stats

X, Y = np.arange(5.0), np.array([0.0, 1.0, 4.0, 2.0, 5.0])
TURNED, TWICE = np.array([0.0, 2.0, 1.0, 3.0, 4.0]), np.array([0.0, 1.0, 1.0, 3.0, 4.0])
HOLE = np.array([0.0, 1.0, np.nan, 3.0, 4.0])
AT, OUT = np.array([0.5, 2.5]), np.array([-1.0, 5.0])
NODES = [(X, Y, AT), (TURNED, Y, AT), (TWICE, Y, AT), (X, HOLE, AT), (HOLE, Y, AT), (X, Y[:3], AT)]
GRID, POINT = np.arange(12.0).reshape(3, 4), np.array([[0.5, 0.5]])
A, B = np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
NUMERATOR, DENOMINATOR = np.array([0.2, 0.3]), np.array([1.0, -0.5])
WAVE = np.sin(np.arange(30.0))
SECTIONS = np.array([[0.2, 0.3, 0.1, 1.0, -0.5, 0.1]])
SPREAD = np.vstack([np.arange(8.0), np.arange(8.0) ** 2])
HALF = np.float32


def _spline(name):
    return lambda m, x, y, at: getattr(m, name)(x, y)(at)


def _finite(name):
    return lambda m, a: getattr(m, name)(a)


INTERPOLATE = {
    "CubicSpline": (_spline("CubicSpline"), NODES),
    "PchipInterpolator": (_spline("PchipInterpolator"), [*NODES, (X, Y + 1j, AT)]),
    "Akima1DInterpolator": (_spline("Akima1DInterpolator"), NODES),
    "InterpolatedUnivariateSpline": (
        _spline("InterpolatedUnivariateSpline"), [*NODES[:3], (X[:3], Y[:3], AT)]),
    "make_interp_spline": (_spline("make_interp_spline"), [*NODES, (X[:3], Y[:3], AT)]),
    "CubicHermiteSpline": (lambda m, x, y, at: m.CubicHermiteSpline(x, y, y)(at), NODES[:2]),
    "periodic": (
        lambda m, y: m.CubicSpline(X, y, bc_type="periodic")(AT),
        [(Y * (X < 4),), (Y,), (2 * Y * (X < 4),)]),
    "interp1d": (_spline("interp1d"), [(X, Y, AT), (X, Y, OUT), (TURNED, Y, AT), (X, Y[:3], AT)]),
    "interp1d, a number outside": (
        lambda m, at, fill: m.interp1d(X, Y, fill_value=fill)(at),
        [(AT, 1.0), (OUT, 1.0), (OUT, np.nan)]),
    "interp1d, cubic": (
        lambda m, x, y, at: m.interp1d(x, y, "cubic")(at),
        [(X, Y, AT), (X, Y, OUT), (TWICE, Y, AT)]),
    "RegularGridInterpolator": (
        lambda m, x, at: m.RegularGridInterpolator((x, X[:4]), GRID)(at),
        [
            *[(X[:3], POINT), (TURNED[:3], POINT), (X[2::-1].copy(), POINT)],
            *[(X[:3], POINT + 5), (X[:3], POINT * np.nan)]]),
    "RectBivariateSpline": (
        lambda m, x, at: m.RectBivariateSpline(x, X[:4], GRID, kx=1)(at, at),
        [(X[:3], AT / 2), (TURNED[:3], AT / 2), (X[:3], AT[::-1] / 2)]),
    "BSpline": (
        lambda m, t: m.BSpline(t, Y[:3], 1)(AT / 2),
        [(np.array([0.0, 0, t, 2, 2]),) for t in (1.0, 3.0, np.nan)]),
}  # fmt: skip
SIGNAL = {
    "lfilter": (
        lambda m, b, a, x: m.lfilter(b, a, x),
        [
            *[(NUMERATOR, DENOMINATOR, WAVE), (NUMERATOR, DENOMINATOR - [1, 0], WAVE)],
            *[(np.array([1, 2]), np.array([1, 1]), np.arange(9))]]),
    "filtfilt": (
        lambda m, a: m.filtfilt(NUMERATOR, a, WAVE),
        [(DENOMINATOR,), (DENOMINATOR - [1, 0],), (DENOMINATOR * 2,)]),
    "lfilter_zi": (
        lambda m, a: m.lfilter_zi(NUMERATOR, a),
        [(DENOMINATOR,), (np.array([0.0, 1.0]),), (np.zeros(2),), (np.array([1.0, -1.0]),)]),
    "sosfilt": (lambda m, s: m.sosfilt(s, WAVE), [(SECTIONS,), (SECTIONS * 2,), (SECTIONS * 0,)]),
    "sosfiltfilt": (lambda m, s: m.sosfiltfilt(s, WAVE), [(SECTIONS,), (SECTIONS * 2,)]),
    "welch": (lambda m, fs: m.welch(WAVE, fs, nperseg=8), [(1.0,), (2.0,), (0.0,), (-1.0,)]),
    "fftconvolve": (lambda m, x: m.fftconvolve(x, NUMERATOR), [(WAVE,), (WAVE[:0],)]),
}  # fmt: skip
FINITE = ("inv", "det", "cholesky", "svdvals", "eigvalsh", "pinv", "norm", "lu", "qr", "orth")
LINALG = {
    **{name: (_finite(name), [(A,), (A * np.nan,), (A + np.inf,)]) for name in FINITE},
    "polar": (_finite("polar"), [(A,), (A * np.nan,)]),
    "logm": (_finite("logm"), [(A,), (A * np.nan,)]),
    "solve": (lambda m, a, b: m.solve(a, b), [(A, B), (A, B * np.nan), (A * np.nan, B)]),
    "unchecked": (
        lambda m, b: m.solve(A, b, assume_a="pos", check_finite=False), [(B,), (B * np.nan,)]),
    "unchecked by default": (
        lambda m, x: m.matmul_toeplitz(np.ones(3), x),
        [(X[:3],), (X[:3] * np.nan,)]),
    "without effect": (lambda m, a: m.cholesky(a, True, False, False), [(A,), (A * 2,), (-A,)]),
    "without effect, named": (
        lambda m, a: m.qr(a, overwrite_a=False, mode="economic"), [(A,), (A + np.inf,)]),
    "eigh, by index": (
        lambda m, last: m.eigvalsh(A, subset_by_index=[0, last]), [(0,), (1,), (2,), (-1,)]),
    "eigh, by value": (
        lambda m, high: m.eigvalsh(A, subset_by_value=[0.0, high]), [(3.0,), (9.0,), (-3.0,)]),
    "norm, ord": (lambda m, x, ord: m.norm(x, ord), [(B, 2.0), (B, 1.0), (A, 1.0), (A, np.inf)]),
}  # fmt: skip
SPATIAL = {
    name: (
        lambda m, u, v, name=name: getattr(m.distance, name)(u, v),
        [(B, X[:2]), (B.astype(HALF), X[:2].astype(HALF)), (B, B * np.nan), (np.arange(2), X[:2])],
    )
    for name in ("euclidean", "minkowski", "cosine", "correlation", "canberra", "cityblock")
} | {
    "procrustes": (
        lambda m, x: m.procrustes(x, np.eye(3))[2],
        [(np.eye(3) + 1,), (np.ones((3, 3)),), (np.tri(3),)],
    ),
    "pdist": (lambda m, x: m.distance.pdist(x, "mahalanobis"), [(SPREAD.T,), (A,)]),
    "minkowski, p": (
        lambda m, p: m.distance.minkowski(B, X[:2], p),
        [(2.0,), (1.0,), (0.5,), (0.0,)],
    ),
}
STATS = {
    "gaussian_kde": (
        lambda m, samples: m.gaussian_kde(samples)(np.ones((2, 1))),
        [(SPREAD,), (SPREAD * 0,), (SPREAD * np.nan,)],
    ),
    "gaussian_kde, bandwidth": (
        lambda m, width: m.gaussian_kde(SPREAD[1], width)(B),
        [(0.5,), (0.1,), (-0.1,)],
    ),
    "interval": (lambda m, share: m.norm.interval(share), [(0.9,), (0.5,), (1.5,)]),
    "hmean": (lambda m, x: m.hmean(x), [(X + 1,), (-X - 1,)]),
    "trim_mean": (
        lambda m, x: m.trim_mean(x, 0.2),
        [(X,), *since((1, 17), {"": (HOLE,)}).values()],
    ),
    "pearsonr": (lambda m, x, y: tuple(m.pearsonr(x, y)), [(X, Y), (X[:2], Y[:2])]),
}
quiet = pytest.mark.filterwarnings(
    "ignore::RuntimeWarning:scipy",
    "ignore:The harmonic mean",
    "ignore:.*(invalid value|divide by zero):RuntimeWarning",
)
test_interpolate = quiet(calls_as_scipy(interpolate, scipy.interpolate, INTERPOLATE))
test_signal = quiet(calls_as_scipy(signal, scipy.signal, SIGNAL))
test_linalg = quiet(calls_as_scipy(linalg, scipy.linalg, LINALG))
test_spatial = quiet(calls_as_scipy(spatial, scipy.spatial, SPATIAL))
test_stats = quiet(calls_as_scipy(stats, scipy.stats, STATS))


def test_values_that_decide_a_dtype():
    def f(x):
        return str(np.min_scalar_type(x)), x * 2

    compiled = jit(f)
    for x in (1.0, 1e10, 1e300, 1, 300, -1, 1.0):
        assert compiled(x) == f(x)


def test_the_probability_of_dropout_is_that_of_the_call():
    def f(x, p, rng):
        return tracker.nn.dropout(x, p, rng=rng)

    compiled, rngs = jit(f), [np.random.default_rng(0) for _ in range(2)]
    for p in (0.5, 0.2, 1.0, 0.0, 0.5):
        np.testing.assert_array_equal(compiled(X, p, rngs[0]), f(X, p, rngs[1]))
    for p in (1.5, -0.5, np.nan):
        with pytest.raises(ValueError, match=f"dropout with p={p}"):
            compiled(X, p, rngs[0])
