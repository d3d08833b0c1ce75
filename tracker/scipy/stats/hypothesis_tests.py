"""Statistics that compare samples, with their p-values: correlation, regression, t-tests, analysis
of variance; and distances between samples.

Results are named tuples with SciPy's names. `nan_policy=`, `keepdims=` and permutation methods are
refused.
"""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any

import numpy as np
import scipy.special as sc
import scipy.stats

from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array, no_derivative_rule

Significance = namedtuple("Significance", ("statistic", "pvalue"))
LinregressResult: Any = type(scipy.stats.linregress([0.0, 1.0, 2.0], [0.0, 1.0, 3.0]))


class TtestResult(Significance):
    """Unpacks to the statistic and the p-value; `.df` has the degrees of freedom."""

    _extra_fields = ("df",)
    df: Any

    def __new__(cls, statistic: Any, pvalue: Any, *, df: Any) -> TtestResult:
        result = super().__new__(cls, statistic, pvalue)
        result.df = df
        return result


def _refuse_options(name: str, options: dict[str, Any]) -> None:
    usual = {"nan_policy": "propagate", "keepdims": False, "method": None, "trim": 0}
    for keyword, value in options.items():
        if keyword not in usual:
            raise TypeError(f"{name}() got an unexpected keyword argument {keyword!r}")
        if value != usual[keyword]:
            raise no_derivative_rule(f"scipy.stats.{name} with {keyword}=", "Leave it out")


def _observations_last(axis: Any, *samples: Any) -> list[Any]:
    """Floats, with the observations along the last axis."""
    found = [as_array(x) * 1.0 for x in samples]
    if axis is None:
        return [np.ravel(x) for x in found]
    return [np.moveaxis(x, axis, -1) if np.ndim(x) else x for x in found]


def _t_pvalue(t: Any, df: Any, alternative: str) -> Any:
    """The p-value of Student's t."""
    tails = {"two-sided": lambda: 2 * sc.stdtr(df, -np.abs(t)), "less": lambda: sc.stdtr(df, t)}
    tails["greater"] = lambda: sc.stdtr(df, -t)
    if alternative not in tails:
        raise ValueError("`alternative` must be 'less', 'greater', or 'two-sided'")
    return tails[alternative]()


# Two variables ------------------------------------------------------------------------------------


@drop_in(scipy.stats)
def pearsonr(
    x: Any, y: Any, *, alternative: str = "two-sided", axis: Any = 0, **options: Any
) -> Any:
    """The correlation coefficient and its p-value."""
    _refuse_options("pearsonr", options)
    x, y = _observations_last(axis, x, y)
    n = np.shape(x)[-1]
    if n != np.shape(y)[-1] or n < 2:
        raise ValueError("`x` and `y` must have the same length, of at least 2.")
    x, y = (v - np.mean(v, axis=-1, keepdims=True) for v in (x, y))
    x, y = (v / np.linalg.norm(v, axis=-1, keepdims=True) for v in (x, y))
    r = np.clip(np.sum(x * y, axis=-1), -1.0, 1.0)
    if n == 2:
        return Significance(np.round(r), np.ones_like(r)[()])
    half = n / 2 - 1
    upper = sc.betaincc(half, half, (np.abs(r) + 1) / 2)
    p = {
        "two-sided": lambda: 2 * upper,
        "greater": lambda: sc.betaincc(half, half, (r + 1) / 2),
        "less": lambda: sc.betainc(half, half, (r + 1) / 2),
    }
    if alternative not in p:
        raise ValueError('`alternative` must be in {"less", "greater", "two-sided"}')
    return Significance(r, p[alternative]())


@drop_in(scipy.stats)
def linregress(x: Any, y: Any, alternative: str = "two-sided", **options: Any) -> Any:
    """The least-squares line."""
    _refuse_options("linregress", options)
    x, y = _observations_last(None, x, y)
    n = np.size(x)
    if n != np.size(y) or n < 3:
        raise ValueError("Inputs x and y must have the same number of values, at least 3 here.")
    xm, ym = np.mean(x), np.mean(y)
    xx, yy = np.mean((x - xm) ** 2), np.mean((y - ym) ** 2)
    xy = np.mean((x - xm) * (y - ym))
    if bool(xx == 0):
        raise ValueError("Cannot calculate a linear regression if all x values are identical")
    slope = xy / xx
    r = np.clip(xy / np.sqrt(xx * yy), -1.0, 1.0)
    df, tiny = n - 2, 1e-20
    t = r * np.sqrt(df / ((1.0 - r + tiny) * (1.0 + r + tiny)))
    error = np.sqrt((1 - r**2) * yy / xx / df)
    return LinregressResult(
        slope,
        ym - slope * xm,
        r,
        _t_pvalue(t, float(df), alternative),
        error,
        intercept_stderr=error * np.sqrt(xx + xm**2),
    )


# Means --------------------------------------------------------------------------------------------


def _t_result(t: Any, df: Any, alternative: str) -> TtestResult:
    df = df if np.ndim(df) else df * 1.0
    return TtestResult(t, _t_pvalue(t, df, alternative), df=df)


@drop_in(scipy.stats)
def ttest_1samp(
    a: Any, popmean: Any, axis: Any = 0, *, alternative: str = "two-sided", **options: Any
) -> Any:
    """The test of a mean against a given one."""
    _refuse_options("ttest_1samp", options)
    (a,) = _observations_last(axis, a)
    n = np.shape(a)[-1]
    error = np.std(a, axis=-1, ddof=1) / math.sqrt(n)
    return _t_result((np.mean(a, axis=-1) - popmean) / error, float(n - 1), alternative)


@drop_in(scipy.stats)
def ttest_rel(
    a: Any, b: Any, axis: Any = 0, *, alternative: str = "two-sided", **options: Any
) -> Any:
    """The test that the means of pairs are equal."""
    _refuse_options("ttest_rel", options)
    return ttest_1samp(as_array(a) - as_array(b), 0.0, axis, alternative=alternative)


@drop_in(scipy.stats)
def ttest_ind(
    a: Any,
    b: Any,
    *,
    axis: Any = 0,
    equal_var: bool = True,
    alternative: str = "two-sided",
    **options: Any,
) -> Any:
    """The test that the means of two samples are equal; without `equal_var`, Welch's test."""
    _refuse_options("ttest_ind", options)
    a, b = _observations_last(axis, a, b)
    m, n = np.shape(a)[-1], np.shape(b)[-1]
    v, w = np.var(a, axis=-1, ddof=1), np.var(b, axis=-1, ddof=1)
    if equal_var:
        df: Any = float(m + n - 2)
        error = np.sqrt(((m - 1) * v + (n - 1) * w) / df * (1.0 / m + 1.0 / n))
    else:
        v, w = v / m, w / n
        df = (v + w) ** 2 / (v**2 / (m - 1) + w**2 / (n - 1))
        error = np.sqrt(v + w)
    return _t_result((np.mean(a, axis=-1) - np.mean(b, axis=-1)) / error, df, alternative)


@drop_in(scipy.stats)
def f_oneway(*samples: Any, axis: Any = 0, equal_var: bool = True, **options: Any) -> Any:
    """The test that the means of several samples are equal."""
    _refuse_options("f_oneway", options)
    if not equal_var:
        raise no_derivative_rule("scipy.stats.f_oneway with equal_var=False", "Leave it out")
    groups = _observations_last(axis, *samples)
    sizes = [np.shape(g)[-1] for g in groups]
    count, total = len(groups), sum(sizes)
    centre = sum(np.sum(g, axis=-1) for g in groups) / total
    means = [np.mean(g, axis=-1) for g in groups]
    between = sum(n * (m - centre) ** 2 for n, m in zip(sizes, means, strict=True))
    within = sum(n * np.var(g, axis=-1) for n, g in zip(sizes, groups, strict=True))
    f = between / (count - 1) / (within / (total - count))
    return Significance(f, sc.fdtrc(float(count - 1), float(total - count), f))


@drop_in(scipy.stats)
def chisquare(f_obs: Any, f_exp: Any = None, ddof: Any = 0, axis: Any = 0, **options: Any) -> Any:
    """The test of frequencies against expected ones."""
    options.pop("sum_check", None)
    _refuse_options("chisquare", options)
    (observed,) = _observations_last(axis, f_obs)
    expected = (
        np.mean(observed, axis=-1, keepdims=True)
        if f_exp is None
        else _observations_last(axis, f_exp)[0]
    )
    x = np.sum((observed - expected) ** 2 / expected, axis=-1)
    return Significance(x, sc.chdtrc(np.shape(observed)[-1] - 1.0 - ddof, x))


# Distances of samples -----------------------------------------------------------------------------


def _empirical_cdf(values: Any, weights: Any, at: Any) -> Any:
    """The share of a sample that is at most each of the points."""
    order = np.argsort(values)
    found = np.searchsorted(values[order], at, side="right")
    if weights is None:
        return found / np.size(values)
    weights = as_array(weights) * 1.0
    total = np.concatenate([np.zeros_like(weights[:1]), np.cumsum(weights[order])])
    return total[found] / total[-1]


def _cdf_differences(u: Any, v: Any, u_weights: Any, v_weights: Any) -> tuple[Any, Any]:
    """The difference of two distribution functions on each interval, and the lengths of the
    intervals."""
    u, v = _observations_last(None, u, v)
    both = np.sort(np.concatenate([u, v]))
    shares = _empirical_cdf(u, u_weights, both[:-1]) - _empirical_cdf(v, v_weights, both[:-1])
    return shares, both[1:] - both[:-1]


@drop_in(scipy.stats)
def wasserstein_distance(
    u_values: Any, v_values: Any, u_weights: Any = None, v_weights: Any = None
) -> Any:
    """The area between the distribution functions of two samples."""
    shares, lengths = _cdf_differences(u_values, v_values, u_weights, v_weights)
    return np.sum(np.abs(shares) * lengths)


@drop_in(scipy.stats)
def energy_distance(
    u_values: Any, v_values: Any, u_weights: Any = None, v_weights: Any = None
) -> Any:
    shares, lengths = _cdf_differences(u_values, v_values, u_weights, v_weights)
    return np.sqrt(2 * np.sum(np.square(shares) * lengths))
