"""Cumulative sums, products and extremes; reductions that skip NaN; quantiles."""

import numpy as np
import pytest
from cases import case, check
from op_rows import row, sample, x, z

from tracker import UnsupportedError, gradient, param, pullback, trace

A, V = x(2, 3), x(5)
M = np.array([[True, False, True], [True, True, True]])
ZEROS = np.array([1.5, 0.0, 2.0, 0.0, -1.0])
HOLES = np.array([[1.5, np.nan, -0.5], [0.3, 2.5, np.nan]])
NAN = np.isnan(HOLES)
F = A.astype(np.float32)
SHAPES = [((4,), 0), ((2, 3), 0), ((2, 3), 1), ((0, 2), 0)]

ROWS = [
    row(
        "cumsum", *(sample(x(*n), axis=a) for n, a in SHAPES), sample(z(3), axis=0),
        sample(np.arange(3, dtype=np.int8), axis=0)),
    row(
        "recurrence", sample(x(5), x(5, seed=1), axis=0),
        sample(x(2, 3), x(2, 3, seed=1), axis=1), sample(x(3, 2), x(3, 2, seed=1), axis=0),
        sample(x(1), x(1, seed=1), axis=0), sample(x(0, 2), x(0, 2), axis=0),
        sample(z(4), x(4), axis=0), sample(x(40).astype(np.float32), x(40), axis=0)),
    row(
        "cumprod", *(sample(x(*n), axis=a) for n, a in SHAPES), sample(ZEROS, axis=0),
        sample(z(3), axis=0), sample(np.arange(3, dtype=np.int8), axis=0)),
    row(
        "latest_extreme", sample(x(2, 3), axis=1, largest=True),
        sample(x(2, 3), axis=0, largest=False)),
    *(
        row(name, *(sample(x(*n), axis=a) for n, a in SHAPES), sample(np.array([3, 1, 4]), axis=0))
        for name in ("running_maximum", "running_minimum")
    ),
    row("nanargmax", sample(x(2, 3), axis=1), sample(x(3))),
    row("nanargmin", sample(x(2, 3), axis=0), sample(x(3))),
]  # fmt: skip


def with_holes(f):
    """NaN in the data, placed so that the differentiated part is finite."""
    return lambda a: f(np.where(NAN, np.nan, a))


METHODS = [
    *("linear", "hazen", "weibull", "median_unbiased", "normal_unbiased"),
    *("interpolated_inverted_cdf", "averaged_inverted_cdf", "inverted_cdf"),
    *("closest_observation", "lower", "higher", "midpoint", "nearest"),
]

CASES = {
    "cumsum": (lambda a: np.cumsum(a) * a.cumsum(), A),
    "cumsum axis": (lambda a: np.cumsum(a, 0) * a.cumsum(axis=-1), A),
    "cumsum dtype": (lambda a: np.cumsum(a, dtype=np.float64), F),
    "cumprod": (lambda a: np.cumprod(a) + a.cumprod(axis=1).sum(), A),
    "cumprod of zeros": (np.cumprod, ZEROS),
    "cumprod float32": (lambda a: np.cumprod(a, axis=1), F),
    "cumprod of complex": (np.cumprod, z(4)),
    "cumulative_sum": (lambda a: np.cumulative_sum(a, axis=1, include_initial=True) ** 2, A),
    "cumulative_prod": (lambda a: np.cumulative_prod(a, include_initial=True) ** 2, V),
    "nancumsum": (with_holes(lambda a: np.nancumsum(a, axis=1) ** 2), A),
    "nancumprod": (with_holes(lambda a: np.nancumprod(a)), A),
    "add.accumulate": (lambda a: np.add.accumulate(a, axis=1) ** 2, A),
    "multiply.accumulate": (lambda a: np.multiply.accumulate(a, axis=1), A),
    "maximum.accumulate": (lambda a: np.maximum.accumulate(a) * a, A),
    "minimum.accumulate": (lambda a: np.minimum.accumulate(a, axis=1) * a, A),
    "subtract.accumulate": (lambda a: np.subtract.accumulate(a, axis=1) ** 2, A),
    "logaddexp.accumulate": (lambda a: np.logaddexp.accumulate(a), V),
    "logaddexp.reduce": (lambda a: np.logaddexp.reduce(a, axis=1), A),
    "logaddexp.reduce keepdims": (lambda a: np.logaddexp.reduce(a, axis=-1, keepdims=True), A),
    "logaddexp2.reduce": (lambda a: np.logaddexp2.reduce(a) * np.logaddexp2(a, 1.0), V),
    "hypot.reduce": (lambda a: np.hypot.reduce(a), V),
    "subtract.reduce": (lambda a: np.subtract.reduce(a) ** 2, A),
    "add.reduceat": (lambda a: np.add.reduceat(a, [0, 3, 1, 4]) ** 2, V),
    "add.reduceat of equal pieces": (lambda a: np.add.reduceat(a, [0, 2]) ** 2, x(4, 3)),
    "maximum.reduceat of one piece": (lambda a: np.maximum.reduceat(a, [1], axis=1) ** 2, A),
    "multiply.reduceat": (lambda a: np.multiply.reduceat(a, [0, 2], axis=1), A),
    # NaN
    "nansum": (with_holes(lambda a: np.nansum(a, axis=1) ** 2 + np.nansum(a)), A),
    "nansum keepdims": (with_holes(lambda a: np.nansum(a, 0, keepdims=True, initial=1.0)), A),
    "nansum where": (with_holes(lambda a: np.nansum(a, where=M) ** 2), A),
    "nanprod": (with_holes(lambda a: np.nanprod(a, axis=0)), A),
    "nanmean": (with_holes(lambda a: np.nanmean(a) * np.nanmean(a, axis=1)), A),
    "nanmean where": (with_holes(lambda a: np.nanmean(a, axis=1, keepdims=True, where=M)), A),
    "nanvar": (with_holes(lambda a: np.nanvar(a) + np.nanvar(a, axis=1)), A),
    "nanvar ddof": (with_holes(lambda a: np.nanvar(a, ddof=1, keepdims=True)), A),
    "nanstd": (with_holes(lambda a: np.nanstd(a) + np.nanstd(a, axis=1)), A),
    "nanmax": (with_holes(lambda a: np.nanmax(a) * np.nanmax(a, axis=1)), A),
    "nanmin": (with_holes(lambda a: np.nanmin(a, axis=0) * np.nanmin(a, keepdims=True)), A),
    "nanmedian": (with_holes(lambda a: np.nanmedian(a) * np.nanmedian(a, axis=1)), A),
    "nanquantile": (with_holes(lambda a: np.nanquantile(a, [0.2, 0.7], axis=1)), A),
    "nanpercentile": (with_holes(lambda a: np.nanpercentile(a, 30, axis=0, keepdims=True)), A),
    "nanargmax": (with_holes(lambda a: a[0, np.nanargmax(a, axis=1)][0] * np.nanargmin(a)), A),
    # quantiles
    "median": (lambda a: np.median(a) * np.median(a, axis=1), A),
    "median keepdims": (lambda a: np.median(a, axis=(0, 1), keepdims=True), x(2, 3, 2)),
    "median float32": (lambda a: np.median(a, axis=0), F),
    "quantile": (lambda a: np.quantile(a, 0.3) * np.quantile(a, [0.1, 0.8], axis=1), A),
    "quantile of q": (lambda a, q: np.quantile(a, q), V, np.array([0.15, 0.6])),
    "quantile float32": (lambda a: np.quantile(a, 0.3, axis=1), F),
    "percentile": (lambda a: np.percentile(a, [20, 50.5], axis=(0, 1), keepdims=True), A),
    "percentile of rows": (lambda a: np.percentile(a, np.array([[5.0], [40.0]]), axis=1), A),
    "quantile weights": case(
        lambda a, w: np.quantile(a, 0.4, weights=w, method="inverted_cdf") * w, V, np.abs(V) + 1),
    "quantile weights axis": (
        lambda a: np.quantile(a, [0.2, 0.9], axis=1, weights=[1, 0, 3], method="inverted_cdf"), A),
    **{
        f"quantile {m}": (lambda a, m=m: np.quantile(a, [0.0, 0.13, 0.5, 0.77, 1.0], method=m), V)
        for m in METHODS},
    **{f"even {m}": (lambda a, m=m: np.quantile(a, [0.25, 0.5], method=m), x(4)) for m in METHODS},
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    check(CASES[name])


def test_running_extremes_go_to_the_latest_place_that_attains_them():
    ties = np.array([1.0, 3.0, 2.0, 3.0, 3.0])
    (g,) = gradient(lambda a: np.sum(np.maximum.accumulate(a)), ties)
    assert g.tolist() == [1, 2, 0, 1, 1]


def test_a_nan_stays_in_a_running_maximum():
    a = np.array([1.0, np.nan, 3.0])
    np.testing.assert_array_equal(np.maximum.accumulate(param(a)).data, np.maximum.accumulate(a))


def test_all_nan_gives_nan():
    lost = np.array([[np.nan, np.nan], [1.0, 2.0]])
    for f in (np.nanmax, np.nanmin, np.nanmedian):
        np.testing.assert_array_equal(f(param(lost), axis=1).data[0], np.nan)
    np.testing.assert_array_equal(np.median(param(lost), axis=1).data, [np.nan, 1.5])


def test_quantiles_refuse_what_numpy_refuses():
    t = param(V)
    with pytest.raises(ValueError, match="range"):
        np.quantile(t, 1.5)
    with pytest.raises(ValueError, match="not a valid method"):
        np.quantile(t, 0.5, method="mine")
    with pytest.raises(ValueError, match="inverted_cdf"):
        np.quantile(t, 0.5, weights=np.abs(V))
    with pytest.raises(TypeError, match="real"):
        np.quantile(param(z(3)), 0.5)


def test_reductions_of_ufuncs_without_a_rule_raise():
    mine = np.frompyfunc(lambda a, b: a + b, 2, 1)
    with pytest.raises(UnsupportedError, match=r"reduce has no derivative rule here"):
        mine.reduce(param(V))


def test_reduceat_of_no_segments():
    value, back = pullback(lambda a: np.add.reduceat(a, [], axis=1), A)
    np.testing.assert_array_equal(value, np.add.reduceat(A, np.array([], int), axis=1))
    np.testing.assert_array_equal(back(value)[0], np.zeros(A.shape))


def test_reduceat_of_many_segments_is_a_few_equations():
    """The number of equations is that of distinct lengths, not of segments."""
    counts = np.tile([1, 2, 3], 400)
    starts = np.cumsum(counts) - counts
    function = trace(lambda a: np.add.reduceat(a, starts), np.ones(counts.sum()))
    assert len(list(function.eqns)) < 40
