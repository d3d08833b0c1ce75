"""`tracker.scipy.ndimage`: SciPy's values, derivatives against differences, and compiled."""

import itertools

import numpy as np
import pytest
import scipy.ndimage
from scipy_cases import against_scipy
from tables import refused

from tracker import UnsupportedError, data, gradient, jit, param
from tracker.scipy import ndimage

RNG = np.random.default_rng(0)
X, LINE, SOLID = RNG.normal(size=(6, 7)), RNG.normal(size=9), RNG.normal(size=(3, 4, 5))
SMALL = X[:3, :4]
MODES = ("reflect", "grid-mirror", "mirror", "nearest", "wrap", "grid-wrap", "constant")
MODES = (*MODES, "grid-constant")
ARRAYS = (X, LINE, SOLID, X.astype("f"), X[:, :1])
GREY = ("grey_dilation", "grey_erosion", "grey_opening", "grey_closing", "white_tophat")
LABELS = np.array([[0, 1, 1, 2, 2], [3, 1, 3, 2, 0]])


def agree(name, x, *args, **options):
    theirs = getattr(scipy.ndimage, name)(x, *args, **options)
    ours = data(getattr(ndimage, name)(param(x), *args, **options))
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-4 if x.dtype == "f" else 1e-10)


@pytest.mark.parametrize("mode", MODES)
def test_filter_values(mode):
    for x, origin in itertools.product(ARRAYS, (0, 1, -1)):
        n, edge = x.ndim, {"mode": mode, "cval": 0.5}
        agree("correlate1d", x, [1.0, 2.0, 4.0], origin=origin, **edge)
        agree("convolve1d", x, [1.0, 2.0, 4.0, 7.0], 0, origin=origin, **edge)
        weights = RNG.normal(size=(3, 4, 2)[:n])
        agree("correlate", x, weights, origin=[origin, 0, 0][:n], **edge)
        agree("convolve", x, weights, origin=[origin, 0, 0][:n], **edge)
        agree("uniform_filter", x, 4, origin=origin, **edge)
        for name in ("maximum_filter", "minimum_filter", "median_filter"):
            agree(name, x, 3, origin=origin, **edge)
    for x in ARRAYS:
        n = x.ndim
        for options in ({}, {"order": 2}, {"order": 3, "radius": 3}):
            agree("gaussian_filter", x, 1.3, mode=mode, cval=0.5, **options)
        for name in ("gaussian_laplace", "gaussian_gradient_magnitude"):
            agree(name, x, 1.1, mode=mode)
        for name in ("sobel", "prewitt", "laplace"):
            agree(name, x, mode=mode)
        agree("percentile_filter", x, 30, size=3, mode=mode)
        agree("rank_filter", x, -2, size=3, mode=mode)
        for name in (*GREY, "black_tophat", "morphological_gradient"):
            agree(name, x, size=(3, 2, 3)[:n], mode=mode)
            agree(name, x, structure=RNG.normal(size=(3, 2, 3)[:n]), mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_interpolation_values(mode):
    for x, order in itertools.product(ARRAYS[:4], range(6)):
        n, options = x.ndim, {"order": order, "mode": mode, "cval": 0.5}
        agree("spline_filter1d", x, order, mode=mode)
        agree("shift", x, [0.3, -2.6, 9.0][:n], **options)
        agree("shift", x, 0.4, prefilter=False, **options)
        agree("zoom", x, 1.7, **options)
        if mode.startswith("grid"):
            agree("zoom", x, 0.6, grid_mode=True, **options)
        agree("map_coordinates", x, RNG.uniform(-14, 22, size=(n, 40)), **options)
        matrix = np.eye(n) + 0.2 * RNG.normal(size=(n, n))
        agree("affine_transform", x, matrix, RNG.normal(size=n), **options)
        shape = (5, 4, 3)[:n]
        agree("affine_transform", x, np.diag(matrix), 0.3, output_shape=shape, **options)
        if n > 1:
            agree("rotate", x, 33.0, **options)
            agree("rotate", x, -100.0, (0, -1), reshape=False, **options)


def footprint(m, x):
    shape = np.array([[1, 0, 1], [0, 1, 1]])
    return m.maximum_filter(x, footprint=shape) + m.median_filter(x, footprint=shape, axes=(0, 1))


CASES = {
    "correlate": (
        lambda m, x, w: (
            m.correlate(x, w, mode="mirror") * m.convolve(x, w[:1], mode="nearest", cval=0.3),
            m.correlate1d(x, w[0], 0) + m.convolve1d(x, w[:, 1], mode="wrap", origin=-1)),
        SMALL, RNG.normal(size=(2, 3))),
    "correlate, complex": (
        lambda m, x, w: m.correlate(x * (1 + 2j), w * (2 - 1j)) + m.convolve1d(x, w[0] * 1j), SMALL,
        RNG.normal(size=(2, 3))),
    "gaussian_filter": lambda m, x=SMALL: (
        m.gaussian_filter(x, 0.8, axes=(0,)) * m.gaussian_laplace(x, 0.6),
        m.gaussian_filter(x, (0.7, 0.0), order=(1, 0), mode=("wrap", "mirror")),
        m.gaussian_gradient_magnitude(x, 0.5, axes=(1,)) + m.laplace(x) * m.sobel(x),
        m.uniform_filter(x, (2, 1)) * m.prewitt(x, 0, mode="constant", cval=1.0)),
    "ranks": lambda m, x=SMALL: (
        m.maximum_filter(x, 2) + m.minimum_filter1d(x, 3, axis=0) * m.median_filter(x, 3),
        footprint(m, x) + m.percentile_filter(x, 100, (2, 2)) + m.rank_filter(x, 0, 2)),
    "morphology": (
        lambda m, x, s: (
            m.grey_closing(x, 2) * m.morphological_gradient(x, (2, 3)) + m.white_tophat(x, 2),
            m.grey_dilation(x, structure=s) * m.grey_erosion(x, structure=s, footprint=s > -9)),
        SMALL, RNG.normal(size=(2, 3))),
    "map_coordinates": (
        lambda m, x, at: tuple(
            m.map_coordinates(x, at, order=order, mode=mode, cval=0.5)
            for order, mode in ((1, "constant"), (3, "mirror"), (2, "nearest"), (3, "grid-wrap"))),
        SMALL, np.array([[0.3, 1.7, 2.4, 2.9], [1.2, 0.1, 1.7, 0.6]])),
    "map_coordinates, complex": (
        lambda m, x, at: m.map_coordinates(x * (1 + 2j), at), SMALL,
        np.array([[0.3, 1.7, 2.4], [1.2, 0.1, 1.7]])),
    "spline coefficients": lambda m, x=SMALL: tuple(
        m.spline_filter(x, order, mode=mode) + m.spline_filter1d(x, 4, 0, mode=mode)
        for order, mode in ((3, "mirror"), (5, "reflect"), (2, "grid-wrap"))),
    "shift and zoom": lambda m, x=SMALL: (
        m.shift(x, (0.4, -0.3), mode="nearest") * m.shift(x, 0.2, order=1, cval=2.0),
        m.zoom(x, (2, 1.3), order=1)
        + m.zoom(x, 1)[0, 0]
        + m.zoom(x, 0.5, grid_mode=True, mode="grid-constant")[0, 0]),
    "shift and affine_transform by some tracked numbers": lambda m, x=SMALL, c=0.3: (
        m.shift(x, (0.0, c), order=1, mode="nearest") * m.shift(x, [c, 0.2], mode="mirror"),
        m.affine_transform(x, [1.0, c + 0.6], (c, 0.0), mode="mirror")),
    "affine_transform": (
        lambda m, x, a, b: (
            m.affine_transform(x, a, b, mode="mirror"),
            m.affine_transform(x, np.concatenate([a, b[:, None]], axis=1), order=2, mode="nearest"),
            m.affine_transform(x, np.diagonal(a), b, mode="mirror")),
        SMALL, np.array([[0.9, -0.13], [0.05, 1.07]]), np.array([0.31, -0.17])),
    "rotate": lambda m, x=SMALL: (
        m.rotate(x, 33.0, reshape=False, mode="nearest")
        + m.rotate(x, 20.0, order=1, cval=0.3, reshape=False)),
    "regions": lambda m, x=X[:2, :5]: (
        m.sum(x) * m.mean(x, LABELS, [1, 3]) + m.variance(x, LABELS) * m.maximum(x, LABELS, 2),
        m.standard_deviation(x, LABELS, [[1], [2]]) + m.median(x, LABELS, 2) - m.minimum(x),
        m.sum_labels(x, LABELS, [1, 2, 3]) * m.center_of_mass(np.exp(x), LABELS, [1, 2])[1][0],
        *m.center_of_mass(np.exp(x))),
}  # fmt: skip


test_case = against_scipy(ndimage, scipy.ndimage, CASES, slack=1e-6)


def test_derivatives_in_scalar_options():
    m = ndimage

    def loss(sigma, step, angle):
        y = m.gaussian_filter(X, sigma) + m.shift(X, step, mode="mirror")
        return np.sum(y**3) + np.sum(m.rotate(X, angle, reshape=False, mode="mirror") ** 2)

    at = (1.23, 0.4, 30.0)
    for k, slope in enumerate(gradient(loss, *at)):
        step = 1e-5 * (np.arange(3) == k)
        want = (loss(*(at + step)) - loss(*(at - step))) / 2e-5
        np.testing.assert_allclose(slope, want, rtol=1e-6)


def test_functions_without_a_derivative():
    m, binary = ndimage, X > 0
    labels, count = m.label(param(X) > 0)
    np.testing.assert_array_equal(labels, scipy.ndimage.label(binary)[0])
    assert count == scipy.ndimage.label(binary)[1]
    assert m.maximum_position(param(X)) == scipy.ndimage.maximum_position(X)

    def by_regions(x):
        return np.sum(m.sum(x**2, m.label(x > 0)[0], [1, 2]))

    fast = jit(lambda x: gradient(by_regions, x)[0])
    for x in (X, X, X[::-1].copy()):
        np.testing.assert_allclose(fast(x), gradient(by_regions, x)[0])


m, P = ndimage, param(X)
test_refused = refused(
    {
        UnsupportedError: {
            "output=array": lambda: m.gaussian_filter(P, 1.0, output=np.zeros(3)),
            "sliding_window_view": lambda: m.generic_filter(P, np.sum, 3),
            "fourier_shift has no derivative": lambda: m.fourier_shift(P, 1.0)},
        RuntimeError: {
            "mode not supported": lambda: m.correlate1d(P, [1.0], mode="x"),
            "must match": lambda: m.correlate(P, [1.0, 2.0]),
            "equal to input rank": lambda: m.gaussian_filter(P, [1.0] * 3),
            "incorrect filter size": lambda: m.uniform_filter1d(P, 0),
            "no footprint": lambda: m.maximum_filter(P),
            "rank not within": lambda: m.rank_filter(P, 99, 3),
            "invalid percentile": lambda: m.percentile_filter(P, 101, 3),
            "order not supported": lambda: m.shift(P, 1, order=6),
            "boundary mode not supported": lambda: m.shift(P, 1, mode="x"),
            "boundary mode not": lambda: m.spline_filter1d(P, 3, mode="x"),
            "invalid shape": lambda: m.map_coordinates(P, np.zeros((3, 2))),
            "must be > 0": lambda: m.map_coordinates(P, np.zeros(2)),
            "number of rows": lambda: m.affine_transform(P, np.eye(4))},
        ValueError: {
            "Invalid origin": lambda: m.correlate1d(P, [1.0, 2.0], origin=3),
            "nonnegative": lambda: m.gaussian_filter1d(P, 1.0, radius=-1),
            "non-negative": lambda: m.gaussian_filter1d(P, 1.0, order=-1),
            "All-zero": lambda: m.maximum_filter(P, footprint=np.zeros((2, 2))),
            "must be specified": lambda: m.grey_erosion(P),
            "homogeneous": lambda: m.affine_transform(P, np.ones((3, 3))),
            "at least 2D": lambda: m.rotate(P[0], 3.0),
            "without defined labels": lambda: m.sum(P, None, 1)},
        TypeError: {"Complex type": lambda: m.median_filter(P + 0j, 3)}},
)  # fmt: skip


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "float32"])
def test_interpolated_integers(dtype):
    """Interpolated integers are rounded, as SciPy's are."""
    image = (np.arange(20).reshape(4, 5) * 7 % 23 - 9 * (dtype != "uint8")).astype(dtype)
    at = np.array([[0.3, 1.5, 2.7, 1.1], [2.2, 0.5, 3.9, 1.6]])
    calls = {
        "map_coordinates": lambda m, x, at: m.map_coordinates(x, at, order=1),
        "shift": lambda m, x, at: m.shift(x, at[:, 0], order=1),
        "zoom": lambda m, x, at: m.zoom(x, 1.5, order=1),
        "affine_transform": lambda m, x, at: m.affine_transform(x, at[:, :2], order=1),
        "rotate": lambda m, x, at: m.rotate(x, 20.0, order=1),
    }
    for name, call in calls.items():
        wanted = call(scipy.ndimage, image, at)
        found = jit(lambda x, at, call=call: call(ndimage, x, at))(image, at)
        assert found.dtype == wanted.dtype, name
        np.testing.assert_allclose(found, wanted, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("kind", [np.float32, np.int32])
def test_regions_have_scipys_types(kind):
    labels, x = np.array([0, 1, 1, 2]), np.array([5, 1, 2, 3], kind)
    names = ["sum", "mean", "variance", "standard_deviation", "minimum", "maximum", "median"]

    def measured(m, x):
        ways = (), (labels,), (labels, [1, 2])
        return [getattr(m, name)(x, *way) for name in names for way in ways]

    expected = measured(scipy.ndimage, x)
    compiled = jit(lambda x: measured(ndimage, x))
    for got in (compiled(x), compiled(x)):
        for one, right in zip(got, expected, strict=True):
            np.testing.assert_allclose(one, right, rtol=1e-6)
            assert np.asarray(one).dtype == np.asarray(right).dtype


def test_shapes_and_forms_are_guarded():
    """The size of a turned image, and whether a matrix is homogeneous."""
    image = np.arange(16.0).reshape(4, 4)
    turned = jit(lambda angle: ndimage.rotate(image, angle))
    for angle in (30.0, 60.0, 5.0, 30.0):
        np.testing.assert_allclose(turned(angle), scipy.ndimage.rotate(image, angle), atol=1e-9)
    moved = jit(lambda matrix: ndimage.affine_transform(image, matrix))
    matrix = np.array([[1.0, 0.1, 0.2], [0.0, 1.0, 0.3], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(moved(matrix), scipy.ndimage.affine_transform(image, matrix))
    matrix[2, 1] = 0.1
    with pytest.raises(ValueError, match=r"bottom row was not equal to \[0, 0, 1\]"):
        moved(matrix)
