"""Moments, scores, the range of percentiles, trimmed means, correlation, and the power transform of
Box and Cox. (SciPy's code for the first two is slower, that for the next three relies on decorators
for NaN and axes or writes into numbers, the last loses digits.)"""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any

import numpy as np
import scipy.stats
from scipy.special import _ufuncs

from tracker.autodiff.stop_gradient import ignore_derivatives
from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array, no_derivative_rule

_Significance = namedtuple("_Significance", ("statistic", "pvalue"))


def _prepare_samples(name: str, a: Any, axis: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """The samples and the axis as a number."""
    for keyword, usual in (("nan_policy", "propagate"), ("keepdims", False)):
        if options.pop(keyword, usual) != usual:
            raise no_derivative_rule(f"scipy.stats.{name} with {keyword}=", "Leave it out")
    if options:
        raise TypeError(f"{name}() got an unexpected keyword argument {next(iter(options))!r}")
    a = as_array(a) * 1.0
    return (np.ravel(a), 0) if axis is None else (a, axis)


def _central_moments(a: Any, axis: Any, *orders: int) -> list[Any]:
    """Moments about the mean."""
    deviation = a - np.mean(a, axis=axis, keepdims=True)
    return [np.mean(deviation**order, axis=axis) for order in orders]


@drop_in(scipy.stats)
def skew(a: Any, axis: Any = 0, bias: bool = True, **options: Any) -> Any:
    a, axis = _prepare_samples("skew", a, axis, options)
    second, third = _central_moments(a, axis, 2, 3)
    n = np.shape(a)[axis]
    corrected = 1.0 if bias or n < 3 else math.sqrt(n * (n - 1.0)) / (n - 2.0)
    return corrected * third / second**1.5


@drop_in(scipy.stats)
def kurtosis(a: Any, axis: Any = 0, fisher: bool = True, bias: bool = True, **options: Any) -> Any:
    a, axis = _prepare_samples("kurtosis", a, axis, options)
    second, fourth = _central_moments(a, axis, 2, 4)
    n = np.shape(a)[axis]
    y = fourth / second**2
    if not bias and n > 3:
        y = ((n**2 - 1.0) * y - 3 * (n - 1.0) ** 2) / ((n - 2.0) * (n - 3.0)) + 3.0
    return y - 3 if fisher else y


@drop_in(scipy.stats)
def zscore(a: Any, axis: Any = 0, ddof: int = 0, **options: Any) -> Any:
    return zmap(a, a, axis, ddof, **options)


@drop_in(scipy.stats)
def zmap(scores: Any, compare: Any, axis: Any = 0, ddof: int = 0, **options: Any) -> Any:
    scores = as_array(scores)
    shape = np.shape(scores)
    compare, along = _prepare_samples("zmap", compare, axis, options)
    scores = np.ravel(scores) if axis is None else scores
    centre = np.mean(compare, axis=along, keepdims=True)
    y = (scores - centre) / np.std(compare, axis=along, ddof=ddof, keepdims=True)
    return np.reshape(y, shape) if axis is None else y


@drop_in(scipy.stats)
def iqr(
    x: Any,
    axis: Any = None,
    rng: Any = (25, 75),
    scale: Any = 1.0,
    nan_policy: str = "propagate",
    interpolation: Any = "linear",
    **options: Any,
) -> Any:
    """The range between two percentiles."""
    x, axis = _prepare_samples("iqr", x, axis, {"nan_policy": nan_policy, **options})
    if isinstance(scale, str):
        if scale != "normal":
            raise ValueError(f"{scale} not a valid scale for `iqr`")
        scale = 1.3489795003921634
    low, high = (np.percentile(x, q, axis=axis, method=interpolation) for q in sorted(rng))
    return (high - low) / scale


@drop_in(scipy.stats)
def trim_mean(a: Any, proportiontocut: float, axis: Any = 0, **options: Any) -> Any:
    """The mean without a share of the smallest and of the largest elements."""
    a, axis = _prepare_samples("trim_mean", a, axis, options)
    n = np.shape(a)[axis]
    cut = int(proportiontocut * n)
    if cut >= n - cut:
        raise ValueError("Proportion too big.")
    a = np.moveaxis(np.sort(a, axis=axis), axis, -1)
    return np.where(np.isnan(a[..., -1]), np.nan, np.mean(a[..., cut : n - cut], axis=-1))[()]


@drop_in(scipy.stats)
def pearsonr(
    x: Any, y: Any, *, alternative: str = "two-sided", axis: Any = 0, **options: Any
) -> Any:
    """The correlation coefficient and its p-value."""
    if options.pop("method", None) is not None:
        raise no_derivative_rule("scipy.stats.pearsonr with method=", "Leave it out")
    (x, _), (y, _) = (_prepare_samples("pearsonr", v, axis, dict(options)) for v in (x, y))
    x, y = (np.moveaxis(v, axis or 0, -1) for v in (x, y))
    n = np.shape(x)[-1]
    if n != np.shape(y)[-1] or n < 2:
        raise ValueError("`x` and `y` must have the same length, of at least 2.")
    x, y = (v - np.mean(v, axis=-1, keepdims=True) for v in (x, y))
    x, y = (v / np.linalg.norm(v, axis=-1, keepdims=True) for v in (x, y))
    r = np.clip(np.sum(x * y, axis=-1), -1.0, 1.0)
    if n == 2:
        return _Significance(np.round(r), np.ones_like(r)[()])
    half = n / 2 - 1
    upper = _ufuncs.betaincc(half, half, (np.abs(r) + 1) / 2)
    p = {
        "two-sided": lambda: 2 * upper,
        "greater": lambda: _ufuncs.betaincc(half, half, (r + 1) / 2),
        "less": lambda: _ufuncs.betainc(half, half, (r + 1) / 2),
    }
    if alternative not in p:
        raise ValueError('`alternative` must be in {"less", "greater", "two-sided"}')
    return _Significance(r, p[alternative]())


@drop_in(scipy.stats)
def boxcox(x: Any, lmbda: Any = None, alpha: Any = None, **options: Any) -> Any:
    """For a given power; the optimal power is not differentiated."""
    if lmbda is None or alpha is not None or options:
        raise no_derivative_rule("scipy.stats.boxcox that looks for its power", "Give lmbda=")
    return _ufuncs.boxcox(as_array(x), lmbda)


@drop_in(scipy.stats)
def boxcox_llf(lmb: Any, data: Any, *, axis: Any = 0, **options: Any) -> Any:
    """The log-likelihood of a power. Only ratios of the data are raised to it: with the constant
    term, or where powers overflow, the variance would lose its digits."""
    x, axis = _prepare_samples("boxcox_llf", data, axis, options)
    n = np.shape(x)[axis]
    unit: Any = 1.0
    if n:
        low, high = (f(ignore_derivatives(x), axis=axis, keepdims=True) for f in (np.min, np.max))
        unit = np.where(ignore_derivatives(lmb) > 0, high, low)
    spread = np.log(np.var(_ufuncs.boxcox(x / unit, lmb), axis=axis))
    scale = 2 * lmb * (np.squeeze(np.log(unit), axis) if n else 0.0)
    return (lmb - 1) * np.sum(np.log(x), axis=axis) - n / 2 * (spread + scale)
