"""Differences, slopes, integrals, interpolation, convolution, ranges; averages and histograms."""

import itertools
import re

import numpy as np
import pytest
from cases import check, ordered
from compiled import agree
from op_rows import row, sample, x, z

from tracker import gradient, jit, param, pullback

A, B, V, W = x(2, 3), x(2, 3, seed=1), x(5), x(3, seed=1)
C = x(3, 4)
F = V.astype(np.float32)
KNOTS = np.array([-1.9, -0.5, 0.3, 1.1, 2.2])
AT = np.array([-3.0, -1.2, 0.1, 0.9, 1.7, 2.9])
HEIGHTS = np.array([0.5, -1.0, 2.0, 0.2, 0.7])
POSITIVE = np.array([0.5, 1.5, 0.7])

ROWS = [
    row(
        "convolve", sample(x(4), x(2)), sample(x(10), x(9)), sample(x(2), x(4)),
        sample(x(1), x(1)), sample(z(3), x(2)), sample(x(2), z(2)), sample(np.arange(3), x(2))),
    row(  # a short factor, a short result, more results than factors, fewer
        "slide",
        *(sample(x(n), x(m)) for n, m in [(4, 2), (1, 1), (12, 10), (20, 9), (20, 11)]),
        sample(z(4), x(2)),
        sample(x(19), z(9)),
        sample(np.arange(19), x(10)),
    ),
    row("bin_count", sample(x(9), bins="auto", range=None)),
]  # fmt: skip

CASES = {
    # differences
    "diff": (lambda a: np.diff(a) ** 2 + np.diff(a, axis=0)[:, 1:] + np.diff(a, 2), A),
    "diff ends": (lambda a: np.diff(a, prepend=0, append=a[:, :1]) ** 2, A),
    "diff twice": (lambda a: np.diff(a, n=2, prepend=a[0], append=2.0) ** 2, V),
    "diff ends axis": (lambda a: np.diff(a, axis=0, append=[[1, 2, 3.0]]) ** 2, A),
    "ediff1d": (lambda a: np.ediff1d(a) * np.ediff1d(a, to_begin=a[0, :1])[1:], A),
    "ediff1d ends": (lambda a: np.ediff1d(a, to_end=[1.0, 2.0], to_begin=a[0]) ** 2, V),
    "gradient": (lambda a: np.gradient(a) ** 2, V),
    "gradient axes": (lambda a: np.gradient(a), C),
    "gradient spacing": (lambda a, h: np.gradient(a, h) ** 2, V, 0.7),
    "gradient edges": (lambda a: np.gradient(a, 2.0, edge_order=2) ** 2, V),
    "gradient places": ordered(lambda a, t: np.gradient(a, t) ** 2, HEIGHTS, KNOTS),
    "gradient places edges": ordered(
        lambda a, t: np.gradient(a, t, edge_order=2) ** 2, HEIGHTS, KNOTS),
    "gradient axis": (lambda a: np.gradient(a, axis=1) * np.gradient(a, axis=(0, 1))[0], C),
    "trapezoid": (lambda a: np.trapezoid(a) ** 2, A),
    "trapezoid dx": (lambda a, h: np.trapezoid(a, dx=h, axis=0), A, 0.3),
    "trapezoid x": (lambda a, t: np.trapezoid(a, t), HEIGHTS, KNOTS),
    "trapezoid x of rows": (lambda a, t: np.trapezoid(a, t), A, B),
    "trapezoid x axis": (lambda a: np.trapezoid(a, [0.0, 1.5], axis=0), A),
    "unwrap": (lambda a: np.unwrap(a * 5) ** 2, V),
    "unwrap period": (lambda a: np.unwrap(a * 5.3, period=4.1, axis=0) ** 2, A),
    "unwrap discont": (lambda a: np.unwrap(a * 5, discont=5.0), A),
    # interpolation
    "interp": ordered(lambda t, f: np.interp(t, KNOTS, f), AT, HEIGHTS),
    "interp knots": ordered(lambda k, f: np.interp(AT, k, f), KNOTS, HEIGHTS),
    "interp ends": ordered(lambda t, a: np.interp(t, KNOTS, HEIGHTS, left=a, right=2 * a), AT, 0.7),
    "interp number": ordered(lambda t: np.interp(t, KNOTS, HEIGHTS), 0.6),
    "interp one knot": (lambda f: np.interp([0.0, 1.0, 2.0], [1.0], f), np.array([3.0])),
    "interp period": ordered(lambda t, f: np.interp(t, KNOTS, f, period=3.0), AT, HEIGHTS),
    "interp complex": ordered(lambda t: np.interp(t, KNOTS, HEIGHTS + 1j), AT),
    # convolution
    "convolve": (lambda a, b: np.convolve(a, b), V, W),
    "convolve same": (lambda a, b: np.convolve(a, b, "same"), V, W),
    "convolve valid": (lambda a, b: np.convolve(b, a, mode="valid"), V, W),
    "convolve float32": (lambda a: np.convolve(a, a), F),
    "convolve complex": (lambda a: np.convolve(a, W), z(4)),
    "correlate": (lambda a, b: np.correlate(a, b), V, W),
    "correlate same": (lambda a, b: np.correlate(a, b, "same"), V, W),
    "correlate full": (lambda a, b: np.correlate(a, b, "full"), V, W),
    "correlate swapped": (
        lambda a, b: np.concatenate([np.correlate(b, a, m) for m in ("same", "full", "valid")]),
        x(4), W),
    "correlate even": (lambda a, b: np.correlate(a, b, "same"), W, x(4)),
    "correlate complex": (lambda a: np.correlate(W, a, "full"), z(3)),
    # ranges
    "linspace": (lambda a, b: np.linspace(a, b, 5) ** 2, 0.5, 2.0),
    "linspace of arrays": (lambda a: np.linspace(a, 1.0, 4, endpoint=False, axis=-1) ** 2, W),
    "linspace step": (lambda a: np.linspace(a, 3.0, 4, retstep=True), W),
    "linspace one": (lambda a: np.linspace(a, 3.0, 1), 0.5),
    "logspace": (lambda a: np.logspace(a, 1.0, 4), 0.5),
    "logspace base": (lambda b: np.logspace(0.2, 1.0, 4, base=b), 3.0),
    "geomspace": (lambda a, b: np.geomspace(a, b, 4), 0.5, 8.0),
    "geomspace of negatives": (lambda a: np.geomspace(-a, -8.0, 4), 0.5),
    "geomspace axis": (lambda a: np.geomspace(a, 8.0, 3, endpoint=False, axis=1), POSITIVE),
    # statistics
    "average": (lambda a: np.average(a) * np.average(a, axis=0), A),
    "average weights": (lambda a, w: np.average(a, axis=1, weights=w), A, POSITIVE),
    "average returned": (
        lambda a, w: np.average(a, axis=-1, weights=w, returned=True), A, POSITIVE),
    "average keepdims": (lambda a: np.average(a, axis=0, weights=np.abs(B), keepdims=True), A),
    "cov": (lambda a: np.cov(a), A),
    "cov columns": (lambda a: np.cov(a, rowvar=False, bias=True), C),
    "cov of two": (lambda a, b: np.cov(a, b, ddof=0), V, HEIGHTS),
    "cov weights": (lambda a, w: np.cov(a, fweights=[1, 2, 1], aweights=w), A, POSITIVE),
    "cov aweights": (lambda a, w: np.cov(a, aweights=w, ddof=0), A, POSITIVE),
    "cov of complex": (np.cov, z(2, 3)),
    "corrcoef": (lambda a, b: np.corrcoef(a, b), V, HEIGHTS),
    "corrcoef columns": (lambda a: np.corrcoef(a, rowvar=False), C),
    "histogram weights": (lambda w: np.histogram(V, 3, weights=w)[0] ** 2, HEIGHTS),
    "histogram edges": (lambda a: np.histogram(a, 3)[1] ** 2, V),
    "histogram density": (
        lambda w: np.histogram(V, [-2, 0, 0.5, 2], density=True, weights=w)[0], HEIGHTS**2),
    "histogram of data": (lambda a: np.histogram(a, 4, (-2.1, 2.2))[0] * a[0], V),
    "histogram_bin_edges": (lambda a: np.histogram_bin_edges(a, "sturges") ** 2, V),
    "histogram2d": (lambda w: np.histogram2d(V, V[::-1], 2, weights=w)[0] ** 2, HEIGHTS),
    "histogramdd": (
        lambda w: np.histogramdd(C, (2, 2, 1, 2), weights=w, density=True)[0], POSITIVE),
    "histogramdd edges": (lambda a: np.histogramdd([a, a**2], 2)[1], V),
    "bincount": (lambda w: np.bincount([0, 3, 1, 3, 0], w, minlength=5) ** 2, HEIGHTS),
    "digitize": (lambda a: np.digitize(a, [-1.0, 0.0, 1.0]) * a, V),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    check(CASES[name])


@pytest.mark.parametrize("args", [(1.5j, [0.0, 1.0], [2.0, 3.0]), (0.5, [0j, 1.0], [2.0, 3.0])])
def test_interpolation_in_complex_numbers_is_refused_as_numpy_refuses_it(args):
    args = tuple(map(np.array, args))
    with pytest.raises(TypeError) as want:
        np.interp(*args)
    with pytest.raises(TypeError) as got:
        jit(np.interp)(*args)
    assert str(got.value) == str(want.value)


@pytest.mark.parametrize("number", [float, complex])
def test_interpolation_between_infinite_knots_is_numpys(number):
    values = [0.0, 1.0, np.inf, -np.inf, np.nan, -0.0]
    at = np.array([-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, np.nan, np.inf, -np.inf])
    compiled = jit(np.interp)
    for heights in itertools.product(values, repeat=3):
        for n in 1, 3:
            fp = np.array(heights[:n], dtype=number)
            if number is complex:
                fp.imag = np.array(heights[-n:])[::-1]
            want = np.interp(at, np.arange(n * 1.0), fp)
            for got in (
                np.interp(at, np.arange(n * 1.0), param(fp)).data,
                compiled(at, np.arange(n * 1.0), fp),
            ):
                np.testing.assert_array_equal(got, want)


def test_interpolation_at_a_knot_has_the_slope_to_its_right():
    (g,) = gradient(lambda t: np.sum(np.interp(t, [0.0, 1.0, 3.0], [0.0, 2.0, 3.0])), [0, 1.0, 3])
    assert g.tolist() == [2.0, 0.5, 0.5]


@pytest.mark.parametrize("n", [2, 8, 51, 1000])
@pytest.mark.parametrize("kind", [float, np.float32])
def test_compiled_points_are_numpys_to_the_last_bit(kind, n):
    points = jit(lambda a, b: np.linspace(a, b, n))
    for a, b in ((-1.2, 1.2345), (0.1, 7.7), (3.3, -0.1)):
        assert points(kind(a), kind(b)).tolist() == np.linspace(kind(a), kind(b), n).tolist()


@pytest.mark.parametrize("kind", ["f8", "f4", "i4", "i1"])
@pytest.mark.parametrize("bins", [1, 7, 50])
def test_even_bins_agree_with_their_edges(kind, bins):
    """Including elements on an edge, outside, and NaN."""
    scale = 100 if kind[0] == "i" else 1
    x = (np.linspace(-1.2, 1.2, 4 * bins + 3) * scale).astype(kind)
    x = np.concatenate([x, np.histogram_bin_edges(x, bins).astype(kind)])
    holed = np.where(np.arange(x.size) == 3, np.nan, x).astype(kind) if kind[0] == "f" else x
    for given, ends in ((x, None), (holed, (-0.7 * scale, 0.9 * scale)), (x, (0, scale))):
        want = np.histogram(given, bins, ends)[0]
        np.testing.assert_array_equal(np.histogram(param(given), bins, ends)[0], want)
        counted = agree(lambda a, ends=ends: np.histogram(a, bins, ends)[0], given, tolerance=0)
        assert counted(given).dtype == want.dtype


@pytest.mark.parametrize("kind", ["f2", "f4", "c8"])
def test_weights_of_bins_are_summed_in_float64(kind):
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, 400))
    weights = (1 + rng.uniform(size=400)).astype(kind)

    def f(w):
        return np.histogram(a, 2, weights=w)[0], np.histogram2d(a, b, 2, weights=np.real(w))[0]

    for got in (jit(f)(weights), pullback(f, weights)[0]):
        for one, want in zip(got, f(weights), strict=True):
            assert one.dtype == want.dtype
            np.testing.assert_allclose(one, want, rtol=1e-14)


def test_equal_ends_of_data_make_bins_around_them():
    counts, edges = np.histogram(param(np.ones(3)), 2)
    want = np.histogram(np.ones(3), 2)
    np.testing.assert_array_equal(counts, want[0])
    np.testing.assert_array_equal(edges.data, want[1])


def test_a_number_has_no_differences():
    """With NumPy's message."""
    for number in (np.float64(3.0), param(3.0)):
        with pytest.raises(ValueError, match="diff requires input that is at least one dim"):
            np.diff(number, axis=0)


@pytest.mark.parametrize("x", [
    np.array([True, False, True]), np.array([1, 2, 2], np.uint64), np.array([], int),
    np.array([0.5]), np.array([-1, 2]), np.array(3), np.ones((2, 2), int),
], ids=repr)  # fmt: skip
@pytest.mark.parametrize(
    "options", [{}, {"minlength": 5}, {"minlength": -1}, {"weights": np.array([1.0, 2.0, 3.0])}]
)
def test_bins_are_counted_and_refused_as_numpy_does(x, options):
    try:
        want = np.bincount(x, **options)
    except (TypeError, ValueError) as error:
        with pytest.raises(type(error), match=re.escape(str(error))):
            jit(lambda x: np.bincount(x, **options))(x)
        return
    for _ in range(2):
        got = jit(lambda x: np.bincount(x, **options))(x)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
