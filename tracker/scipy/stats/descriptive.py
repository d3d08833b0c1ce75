"""Statistics that describe samples: moments, means, entropies, directions. They take SciPy's `axis`
(None: all elements) and the keywords of their definition; `nan_policy=` other than "propagate" is
refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special
import scipy.stats

from tracker.autodiff.stop_gradient import ignore_derivatives
from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array, no_derivative_rule
from tracker.tape.tracked import Tracked


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
def moment(a: Any, order: int = 1, axis: Any = 0, *, center: Any = None, **options: Any) -> Any:
    a, axis = _prepare_samples("moment", a, axis, options)
    centre = np.mean(a, axis=axis, keepdims=True) if center is None else center
    return np.mean((a - centre) ** order, axis=axis)


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
def sem(a: Any, axis: Any = 0, ddof: int = 1, **options: Any) -> Any:
    a, axis = _prepare_samples("sem", a, axis, options)
    return np.std(a, axis=axis, ddof=ddof) / math.sqrt(np.shape(a)[axis])


@drop_in(scipy.stats)
def variation(a: Any, axis: Any = 0, *, ddof: int = 0, **options: Any) -> Any:
    a, axis = _prepare_samples("variation", a, axis, options)
    return np.std(a, axis=axis, ddof=ddof) / np.mean(a, axis=axis)


@drop_in(scipy.stats)
def zscore(a: Any, axis: Any = 0, ddof: int = 0, **options: Any) -> Any:
    return zmap(a, a, axis, ddof, **options)


@drop_in(scipy.stats)
def zmap(scores: Any, compare: Any, axis: Any = 0, ddof: int = 0, **options: Any) -> Any:
    shape = np.shape(scores)
    compare, along = _prepare_samples("zmap", compare, axis, options)
    scores = np.ravel(as_array(scores)) if axis is None else as_array(scores)
    centre = np.mean(compare, axis=along, keepdims=True)
    y = (scores - centre) / np.std(compare, axis=along, ddof=ddof, keepdims=True)
    return np.reshape(y, shape) if axis is None else y


def _power_mean(name: str, transform: Callable[..., Any], inverse: Callable[..., Any]) -> Any:
    @drop_in(scipy.stats, name)
    def mean(a: Any, axis: Any = 0, *, weights: Any = None, **options: Any) -> Any:
        a, axis = _prepare_samples(name, a, axis, options)
        weights = None if weights is None else as_array(weights)
        return inverse(np.average(transform(a), axis=axis, weights=weights))

    return mean


gmean = _power_mean("gmean", np.log, np.exp)
hmean = _power_mean("hmean", lambda a: 1 / np.where(a < 0, np.nan, a), np.reciprocal)


@drop_in(scipy.stats)
def entropy(pk: Any, qk: Any = None, base: Any = None, axis: Any = 0, **options: Any) -> Any:
    """The entropy of a distribution, or relative to another; each is scaled to sum 1."""
    pk, axis = _prepare_samples("entropy", pk, axis, options)
    pk = pk / np.sum(pk, axis=axis, keepdims=True)
    if qk is None:
        terms = scipy.special.entr(pk)
    else:
        qk = as_array(qk) * 1.0
        terms = scipy.special.rel_entr(pk, qk / np.sum(qk, axis=axis, keepdims=True))
    y = np.sum(terms, axis=axis)
    if base is None:
        return y
    return y / (math.log(base) if isinstance(base, (int, float)) else np.log(base))


@drop_in(scipy.stats)
def gstd(a: Any, axis: Any = 0, ddof: int = 1, **options: Any) -> Any:
    a, axis = _prepare_samples("gstd", a, axis, options)
    return np.exp(np.std(np.log(a), axis=axis, ddof=ddof))


@drop_in(scipy.stats)
def pmean(a: Any, p: Any, *, axis: Any = 0, weights: Any = None, **options: Any) -> Any:
    if np.ndim(p):
        raise ValueError("Power mean only implemented for finite p")
    if not isinstance(p, Tracked) and p == 0:
        return gmean(a, axis, weights=weights, **options)
    a, axis = _prepare_samples("pmean", a, axis, options)
    weights = None if weights is None else as_array(weights)
    return np.power(np.average(np.power(a, p), axis=axis, weights=weights), 1 / p)


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
def median_abs_deviation(
    x: Any,
    axis: Any = 0,
    center: Any = np.median,
    scale: Any = 1.0,
    nan_policy: str = "propagate",
    **options: Any,
) -> Any:
    x, axis = _prepare_samples(
        "median_abs_deviation", x, axis, {"nan_policy": nan_policy, **options}
    )
    if isinstance(scale, str):
        if scale != "normal":
            raise ValueError(f"{scale} is not a valid scale value.")
        scale = 0.6744897501960817
    deviation = np.abs(x - np.expand_dims(center(x, axis=axis), axis))
    return np.median(deviation, axis=axis) / scale


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


def _mean_direction(x: Any, high: Any, low: Any, axis: Any) -> Any:
    """The mean of the unit vectors of the angles, as a complex number."""
    return np.mean(np.exp(2j * math.pi / (high - low) * (x - low)), axis=axis)


@drop_in(scipy.stats)
def circmean(
    samples: Any, high: Any = 2 * math.pi, low: Any = 0, axis: Any = None, **options: Any
) -> Any:
    x, axis = _prepare_samples("circmean", samples, axis, options)
    angle = np.angle(_mean_direction(x, high, low, axis))
    return np.mod(angle, 2 * math.pi) * ((high - low) / (2 * math.pi)) + low


@drop_in(scipy.stats)
def circvar(
    samples: Any, high: Any = 2 * math.pi, low: Any = 0, axis: Any = None, **options: Any
) -> Any:
    x, axis = _prepare_samples("circvar", samples, axis, options)
    return 1 - _resultant_length(_mean_direction(x, high, low, axis))


@drop_in(scipy.stats)
def circstd(
    samples: Any,
    high: Any = 2 * math.pi,
    low: Any = 0,
    axis: Any = None,
    *,
    normalize: bool = False,
    **options: Any,
) -> Any:
    x, axis = _prepare_samples("circstd", samples, axis, options)
    spread = np.sqrt(-2 * np.log(_resultant_length(_mean_direction(x, high, low, axis)))) + 0.0
    return spread if normalize else spread * ((high - low) / (2 * math.pi))


def _resultant_length(mean: Any) -> Any:
    """The length of the mean direction, at most 1 despite rounding."""
    length = np.abs(mean)
    return np.where(length > 1, 1, length)[()]


@drop_in(scipy.stats)
def boxcox(x: Any, lmbda: Any = None, alpha: Any = None, **options: Any) -> Any:
    """For a given power; the optimal power is not differentiated."""
    if lmbda is None or alpha is not None or options:
        raise no_derivative_rule("scipy.stats.boxcox that looks for its power", "Give lmbda=")
    return scipy.special.boxcox(as_array(x), lmbda)


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
    spread = np.log(np.var(scipy.special.boxcox(x / unit, lmb), axis=axis))
    scale = 2 * lmb * (np.squeeze(np.log(unit), axis) if n else 0.0)
    return (lmb - 1) * np.sum(np.log(x), axis=axis) - n / 2 * (spread + scale)
