"""Python's `statistics`, also of tracked numbers: as `_math.py`.

Python adds up exactly and rounds once. Means are nearly as exact; other results on plain numbers
differ in the last digits. Functions that are not here (`median`, `quantiles`) sort and compare,
which tracked numbers can do.
"""

from __future__ import annotations

import statistics as _statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.numpy import _math


def _mean(data: Any, weights: Any = None) -> Any:
    x = _math.stacked(data)
    if weights is None:
        return _math.exact_sum(x) / len(x)
    weights = _math.stacked(weights)
    return _math.exact_sum(x * weights) / _math.exact_sum(weights)


def _harmonic_mean(data: Any, weights: Any = None) -> Any:
    x = _math.stacked(data)
    _require(np.all(x >= 0))
    shares = np.ones(len(x)) if weights is None else _math.stacked(weights)
    return np.sum(shares) / np.sum(shares / x)


def _require(condition: Any) -> None:
    """Under a trace, guard a condition that holds: where it does not, Python raises an error."""
    bool(condition)


def _deviations(data: Any, mean: Any) -> Any:
    x = _math.stacked(data)
    return x - (_mean(x) if mean is None else mean)


def _variance(data: Any, mean: Any = None) -> Any:
    return np.sum(_deviations(data, mean) ** 2) / (len(data) - 1)


def _stdev(data: Any, mean: Any = None) -> Any:
    return np.linalg.norm(_deviations(data, mean)) / np.sqrt(len(data) - 1)


def _covariance(x: Any, y: Any) -> Any:
    x, y = _math.stacked(x), _math.stacked(y)
    return np.sum((x - _mean(x)) * (y - _mean(y))) / (len(x) - 1)


def _correlation(x: Any, y: Any, **options: Any) -> Any:
    if options.get("method") == "ranked":  # ranks are the same around a point
        x, y = map(_math.plain_numbers, (x, y))
        return _statistics.correlation(x, y, **options)
    return _covariance(x, y) / (_stdev(x) * _stdev(y))


def _linear_regression(x: Any, y: Any, *, proportional: bool = False) -> Any:
    x, y = _math.stacked(x), _math.stacked(y)
    _require(np.any(x != x[0]))
    if proportional:
        return _statistics.LinearRegression(np.sum(x * y) / np.sum(x**2), 0.0)
    slope = _covariance(x, y) / _variance(x)
    return _statistics.LinearRegression(slope, _mean(y) - slope * _mean(x))


def _python_floats(y: Any) -> Any:
    """A float of Python's, or two in a named tuple."""
    if isinstance(y, _statistics.LinearRegression):
        return _statistics.LinearRegression(*map(_math.python_float, y))
    return _math.python_float(y)


_OURS: dict[str, Callable[..., Any]] = {
    "mean": _mean,
    "fmean": _mean,
    "geometric_mean": lambda data: np.exp(np.mean(np.log(_math.stacked(data)))),
    "harmonic_mean": _harmonic_mean,
    "variance": _variance,
    "pvariance": lambda data, mean=None: np.mean(_deviations(data, mean) ** 2),
    "stdev": _stdev,
    "pstdev": lambda data, mean=None: np.linalg.norm(_deviations(data, mean)) / np.sqrt(len(data)),
    "covariance": _covariance,
    "correlation": _correlation,
    "linear_regression": _linear_regression,
}


def _like_statistics(name: str, ours: Callable[..., Any]) -> Callable[..., Any]:
    return _math.like_python(
        getattr(_statistics, name),
        ours,
        _math.double,
        _python_floats,
        module=__name__,
        is_total=name == "linear_regression",
    )


globals().update({name: x for name, x in vars(_statistics).items() if not name.startswith("__")})
globals().update({name: _like_statistics(name, x) for name, x in _OURS.items()})
__all__ = [name for name in dir(_statistics) if not name.startswith("_")]
