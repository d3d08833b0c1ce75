"""Statistics that describe samples: moments, means, entropies. They take SciPy's `axis` (None: all)
and the keywords of their definition; `nan_policy=` other than "propagate" is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special
import scipy.stats

from tracker.errors import UnsupportedError, message
from tracker.scipy._dropin import drop_in
from tracker.scipy._passing import as_array


def _laid(name: str, a: Any, axis: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """The samples and an axis that is a number."""
    for keyword, usual in (("nan_policy", "propagate"), ("keepdims", False)):
        if options.pop(keyword, usual) != usual:
            text = f"scipy.stats.{name} with {keyword}= has no derivative rule here"
            raise UnsupportedError(message(text, "Leave it out"))
    if options:
        raise TypeError(f"{name}() got an unexpected keyword argument {next(iter(options))!r}")
    a = as_array(a) * 1.0
    return (np.ravel(a), 0) if axis is None else (a, axis)


def _central(a: Any, axis: Any, *orders: int) -> list[Any]:
    """Moments about the mean."""
    apart = a - np.mean(a, axis=axis, keepdims=True)
    return [np.mean(apart**order, axis=axis) for order in orders]


@drop_in(scipy.stats)
def moment(a: Any, order: int = 1, axis: Any = 0, *, center: Any = None, **options: Any) -> Any:
    a, axis = _laid("moment", a, axis, options)
    middle = np.mean(a, axis=axis, keepdims=True) if center is None else center
    return np.mean((a - middle) ** order, axis=axis)


@drop_in(scipy.stats)
def skew(a: Any, axis: Any = 0, bias: bool = True, **options: Any) -> Any:
    a, axis = _laid("skew", a, axis, options)
    second, third = _central(a, axis, 2, 3)
    n = np.shape(a)[axis]
    corrected = 1.0 if bias or n < 3 else np.sqrt(n * (n - 1.0)) / (n - 2.0)
    return corrected * third / second**1.5


@drop_in(scipy.stats)
def kurtosis(a: Any, axis: Any = 0, fisher: bool = True, bias: bool = True, **options: Any) -> Any:
    a, axis = _laid("kurtosis", a, axis, options)
    second, fourth = _central(a, axis, 2, 4)
    n = np.shape(a)[axis]
    y = fourth / second**2
    if not bias and n > 3:
        y = ((n**2 - 1.0) * y - 3 * (n - 1.0) ** 2) / ((n - 2.0) * (n - 3.0)) + 3.0
    return y - 3 if fisher else y


@drop_in(scipy.stats)
def sem(a: Any, axis: Any = 0, ddof: int = 1, **options: Any) -> Any:
    a, axis = _laid("sem", a, axis, options)
    return np.std(a, axis=axis, ddof=ddof) / np.sqrt(np.shape(a)[axis])


@drop_in(scipy.stats)
def variation(a: Any, axis: Any = 0, *, ddof: int = 0, **options: Any) -> Any:
    a, axis = _laid("variation", a, axis, options)
    return np.std(a, axis=axis, ddof=ddof) / np.mean(a, axis=axis)


@drop_in(scipy.stats)
def zscore(a: Any, axis: Any = 0, ddof: int = 0, **options: Any) -> Any:
    return zmap(a, a, axis, ddof, **options)


@drop_in(scipy.stats)
def zmap(scores: Any, compare: Any, axis: Any = 0, ddof: int = 0, **options: Any) -> Any:
    shape = np.shape(scores)
    compare, along = _laid("zmap", compare, axis, options)
    scores = np.ravel(as_array(scores)) if axis is None else as_array(scores)
    middle = np.mean(compare, axis=along, keepdims=True)
    y = (scores - middle) / np.std(compare, axis=along, ddof=ddof, keepdims=True)
    return np.reshape(y, shape) if axis is None else y


def _power_mean(name: str, there: Callable[..., Any], back: Callable[..., Any]) -> Any:
    def mean(a: Any, axis: Any = 0, *, weights: Any = None, **options: Any) -> Any:
        a, axis = _laid(name, a, axis, options)
        weights = None if weights is None else as_array(weights)
        return back(np.average(there(a), axis=axis, weights=weights))

    mean.__name__ = name
    mean.__doc__ = f"As scipy.stats.{name}."
    return drop_in(scipy.stats)(mean)


gmean = _power_mean("gmean", np.log, np.exp)
hmean = _power_mean("hmean", np.reciprocal, np.reciprocal)


@drop_in(scipy.stats)
def entropy(pk: Any, qk: Any = None, base: Any = None, axis: Any = 0, **options: Any) -> Any:
    """Of a distribution, or relative to another; each is scaled to have the sum 1."""
    pk, axis = _laid("entropy", pk, axis, options)
    pk = pk / np.sum(pk, axis=axis, keepdims=True)
    if qk is None:
        terms = scipy.special.entr(pk)
    else:
        qk = as_array(qk) * 1.0
        terms = scipy.special.rel_entr(pk, qk / np.sum(qk, axis=axis, keepdims=True))
    y = np.sum(terms, axis=axis)
    return y if base is None else y / np.log(base)
