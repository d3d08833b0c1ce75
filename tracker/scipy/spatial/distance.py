"""`scipy.spatial.distance` on tracked values. Names that are not defined here are SciPy's own.

A metric is a function along the last axis of two arrays that broadcast (`_METRICS`). It serves the
function of two vectors of that name, and `cdist` and `pdist` over all pairs of rows. Metrics of
booleans have no derivative. Where two points coincide, the derivative of their distance is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
import scipy.spatial.distance
import scipy.special

from tracker.autodiff.leaves import plain_data
from tracker.scipy._bridge.callback import call_scipy
from tracker.scipy._bridge.checks import scipy_raises_unless
from tracker.scipy._bridge.dropin import DROP_INS, drop_in
from tracker.scipy._bridge.fallback import as_array, no_derivative_rule, scipy_fallback
from tracker.scipy._bridge.scipy_source import Rebinding
from tracker.scipy.linalg.norm import norm as _norm
from tracker.support.numpy_version import version_of

_BOOLEAN_METRICS = (
    "dice",
    "hamming",
    "jaccard",
    "rogerstanimoto",
    "russellrao",
    "sokalsneath",
    "yule",
)
_VALIDATORS = ("is_valid_dm", "is_valid_y", "num_obs_dm", "num_obs_y")
if TYPE_CHECKING:
    from scipy.spatial.distance import *  # noqa: F403
else:
    __getattr__, __dir__ = scipy_fallback(
        scipy.spatial.distance, constant=(*_BOOLEAN_METRICS, *_VALIDATORS)
    )


_NORM_AXIS = None if version_of(scipy) < (1, 18) else -1  # with an axis, the norm is a NumPy number

# Metrics along the last axis ----------------------------------------------------------------------


def _minkowski(u: Any, v: Any, p: Any = 2, w: Any = None) -> Any:
    if p <= 0:
        raise ValueError("p must be greater than 0")
    diff = u - v
    if w is not None:
        w = _checked_weights(w)
        diff = diff * (w != 0 if p == np.inf else w ** (1 / p))
    if np.ndim(diff) == 1 and bool(p == 2):
        if diff.dtype.kind in "fc":
            return _norm(diff, None, _NORM_AXIS)
        return np.linalg.norm(diff * 1.0)
    return np.linalg.norm(diff * 1.0, p, axis=-1)


def _checked_weights(w: Any) -> Any:
    w = as_array(w) * 1.0
    if bool(np.any(w < 0)):
        raise ValueError("Input weights should be all non-negative")
    return w


def _sqeuclidean(u: Any, v: Any, w: Any = None) -> Any:
    square = np.square((u - v) * 1.0)
    return np.sum(square if w is None else _checked_weights(w) * square, axis=-1)


def _correlation(u: Any, v: Any, w: Any = None, centered: bool = True) -> Any:
    if np.iscomplexobj(u) or np.iscomplexobj(v):
        raise TypeError("`u` and `v` must be real.")
    if w is None:
        kind = np.result_type(u.dtype, v.dtype, np.float32 if u.dtype == np.float32 else float)
        w = np.full(np.shape(u)[-1], 1 / np.shape(u)[-1], kind)
    else:
        w = _checked_weights(w)
        w = w / np.sum(w)
    if centered:
        u, v = (x - np.sum(x * w, axis=-1, keepdims=True) for x in (u, v))
    uv, uu, vv = (np.sum(a * b * w, axis=-1) for a, b in ((u, v), (u, u), (v, v)))
    return np.clip(1.0 - uv / np.sqrt(uu * vv), 0.0, 2.0)


def _cityblock(u: Any, v: Any, w: Any = None) -> Any:
    diff = np.abs(u - v)
    return np.sum(diff if w is None else _checked_weights(w) * diff, axis=-1)


def _chebyshev(u: Any, v: Any, w: Any = None) -> Any:
    diff = np.abs(u - v)
    return np.max(diff if w is None else (_checked_weights(w) > 0) * diff, axis=-1)


def _braycurtis(u: Any, v: Any, w: Any = None) -> Any:
    w = 1.0 if w is None else _checked_weights(w)
    return np.sum(w * np.abs(u - v), axis=-1) / np.sum(w * np.abs(u + v), axis=-1)


def _canberra_terms(u: Any, v: Any, w: Any) -> Any:
    size = np.abs(u) + np.abs(v)
    empty = size == 0
    share = np.where(empty, 0.0, np.abs(u - v) / np.where(empty, 1.0, size))
    return share if w is None else _checked_weights(w) * share


def _seuclidean(u: Any, v: Any, V: Any) -> Any:
    V = as_array(V)
    if np.shape(V) != np.shape(u)[-1:]:
        raise TypeError("V must be a 1-D array of the same dimension as u and v.")
    return _minkowski(u, v, 2, 1 / V)


def _mahalanobis(u: Any, v: Any, VI: Any) -> Any:
    diff = (u - v) * 1.0
    return np.sqrt(np.sum((diff @ np.atleast_2d(as_array(VI))) * diff, axis=-1))


_METRICS: dict[str, Callable[..., Any]] = {
    "braycurtis": _braycurtis,
    "canberra": lambda u, v, w=None: np.sum(_canberra_terms(u, v, w), axis=-1),
    "chebyshev": _chebyshev,
    "cityblock": _cityblock,
    "correlation": _correlation,
    "cosine": lambda u, v, w=None: _correlation(u, v, w, centered=False),
    "euclidean": lambda u, v, w=None: _minkowski(u, v, 2, w),
    "jensenshannon": lambda p, q, base=None: DROP_INS[scipy.spatial.distance]["jensenshannon"](
        p, q, base, axis=-1
    ),
    "mahalanobis": _mahalanobis,
    "minkowski": _minkowski,
    "seuclidean": _seuclidean,
    "sqeuclidean": _sqeuclidean,
}
_ALIAS_TEXTS = {
    "braycurtis": "",
    "chebyshev": "chebychev cheby cheb ch",
    "cityblock": "cblock cb c",
    "correlation": "co",
    "cosine": "cos",
    "euclidean": "euclid eu e",
    "jensenshannon": "js",
    "mahalanobis": "mahal mah",
    "minkowski": "mi m pnorm",
    "seuclidean": "se s",
    "sqeuclidean": "sqe sqeuclid",
}
_DOUBLE_PRECISION_METRICS = ("braycurtis", "canberra")  # for any input, as in SciPy
_ALIASES = {alias: name for name, text in _ALIAS_TEXTS.items() for alias in text.split()}


def _define_vector_metric(name: str, computed: Callable[..., Any]) -> None:
    """Define the metric of two vectors of this name."""

    @drop_in(scipy.spatial.distance, name)
    def metric(u: Any, v: Any, *args: Any, **kwargs: Any) -> Any:
        u, v = as_array(u), as_array(v)
        if np.ndim(u) != 1 or np.ndim(v) != 1:
            raise ValueError("Input vector should be 1-D.")
        if name in _DOUBLE_PRECISION_METRICS or (
            name == "sqeuclidean" and "f" not in u.dtype.kind + v.dtype.kind
        ):
            u, v = (x if x.dtype.kind == "c" else np.astype(x, float) for x in (u, v))
        return computed(u, v, *args, **kwargs)


for _name, _of_rows in _METRICS.items():
    if _name not in ("canberra", "jensenshannon"):
        _define_vector_metric(_name, _of_rows)
_define_vector_metric("canberra", lambda u, v, w=None: np.nansum(_canberra_terms(u, v, w)))
Rebinding().drop_in(scipy.spatial.distance, "jensenshannon")
globals().update(DROP_INS[scipy.spatial.distance])


# Of all pairs -------------------------------------------------------------------------------------


@drop_in(scipy.spatial.distance)
def cdist(XA: Any, XB: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Any:
    """The distances of all rows of XA from all rows of XB, in float64 as SciPy's."""
    XA, XB = as_array(XA), as_array(XB)
    if np.ndim(XA) != 2 or np.ndim(XB) != 2:
        raise ValueError("XA and XB must be 2-dimensional arrays.")
    if np.shape(XA)[1] != np.shape(XB)[1]:
        raise ValueError(
            f"XA has {np.shape(XA)[1]} columns, XB has {np.shape(XB)[1]}: vectors must be alike"
        )
    _refuse_out("cdist", out)
    found = _metric_function(metric)
    if found is None and not callable(metric):
        return call_scipy(scipy.spatial.distance.cdist, XA, XB, metric, **kwargs)
    if found is None:
        rows = [np.stack([metric(a, b, **kwargs) for b in XB]) for a in XA]
        return np.stack(rows) * 1.0
    XA, XB = np.astype(XA, float), np.astype(XB, float)
    kwargs = _with_defaults(metric, kwargs, lambda: np.concatenate([XA, XB]))
    return found(np.expand_dims(XA, 1), np.expand_dims(XB, 0), **kwargs)


@drop_in(scipy.spatial.distance)
def pdist(X: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Any:
    """The distances of each pair of rows, in the order of `np.triu_indices(m, 1)`."""
    X = as_array(X)
    if np.ndim(X) != 2:
        raise ValueError("A 2-dimensional array must be passed.")
    _refuse_out("pdist", out)
    found = _metric_function(metric)
    i, j = np.triu_indices(np.shape(X)[0], 1)
    if found is _mahalanobis and kwargs.get("VI") is None:
        fits = np.shape(X)[0] > np.shape(X)[1]
        scipy_raises_unless(fits, scipy.spatial.distance.pdist, X, metric, **kwargs)
    if found is None and not callable(metric):
        return call_scipy(scipy.spatial.distance.pdist, X, metric, **kwargs)
    if found is None:
        return np.stack([metric(X[a], X[b], **kwargs) for a, b in zip(i, j, strict=True)]) * 1.0
    X = np.astype(X, float)
    return found(X[i], X[j], **_with_defaults(metric, kwargs, lambda: X))


def _refuse_out(name: str, out: Any) -> None:
    if out is not None:
        raise no_derivative_rule(f"scipy.spatial.distance.{name} with out=", "Take what it returns")


def _metric_function(metric: Any) -> Callable[..., Any] | None:
    """The metric of this name, or of this function's name if it is SciPy's or ours; else None."""
    if callable(metric):
        name = getattr(metric, "__name__", "")
        theirs = getattr(scipy.spatial.distance, name, None)
        known = metric is theirs or metric is globals().get(name)
        return _METRICS.get(name) if known else None
    name = str(metric).lower()
    return _METRICS.get(_ALIASES.get(name, name))


def _with_defaults(metric: Any, kwargs: dict[str, Any], rows: Callable[[], Any]) -> dict[str, Any]:
    """The keywords, with variances from all rows where none are given."""
    name = metric.__name__ if callable(metric) else _ALIASES.get(metric.lower(), metric.lower())
    if name == "seuclidean" and kwargs.get("V") is None:
        return {**kwargs, "V": np.var(rows(), axis=0, ddof=1)}
    if name == "mahalanobis" and kwargs.get("VI") is None:
        return {**kwargs, "VI": np.transpose(np.linalg.inv(np.cov(np.transpose(rows()))))}
    return kwargs


@drop_in(scipy.spatial.distance)
def squareform(X: Any, force: str = "no", checks: bool = True) -> Any:
    """The symmetric matrix of the distances that `pdist` returns, or the reverse."""
    X = as_array(X)
    wanted = {"tomatrix": 1, "tovector": 2}.get(force.lower(), np.ndim(X))
    if np.ndim(X) != wanted or wanted not in (1, 2):
        raise ValueError(f"squareform(force={force!r}) got an array of {np.ndim(X)} dimensions")
    if np.ndim(X) == 2:
        off = (np.transpose(X) != X) | ((X != 0) & np.eye(np.shape(X)[0], dtype=bool))
        if checks and bool(np.any(off)):
            scipy.spatial.distance.is_valid_dm(plain_data(X), throw=True, name="X")
        return X[np.triu_indices(np.shape(X)[0], 1)]
    count = int(np.ceil(np.sqrt(np.size(X) * 2))) or 1
    if count * (count - 1) != np.size(X) * 2:
        raise ValueError(
            "Incompatible vector size. It must be a binomial coefficient n choose 2 for some "
            "integer n >= 2."
        )
    if count == 1:
        return np.zeros_like(X, shape=(1, 1))
    where = np.zeros((count, count), np.intp)
    where[np.triu_indices(count, 1)] = np.arange(np.size(X))
    return np.where(np.eye(count, dtype=bool), X.dtype.type(0), X[where + where.T])
