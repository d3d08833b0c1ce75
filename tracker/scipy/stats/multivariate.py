"""Multivariate distributions: normal, Student's t, Dirichlet, multinomial, Wishart."""

from __future__ import annotations

import functools
import inspect
import math
from typing import Any

import numpy as np
import scipy
import scipy.stats
from scipy.special import _ufuncs as sc  # also where SCIPY_ARRAY_API=1 wraps ufuncs
from scipy.stats import _multivariate
from scipy.stats._multivariate import multi_rv_generic

from tracker.autodiff.leaves import plain_data
from tracker.autodiff.stop_gradient import ignore_derivatives
from tracker.scipy._bridge.checks import scipy_raises_unless
from tracker.scipy._bridge.fallback import (
    as_array,
    is_tracked,
    made_by_scipy,
    no_derivative_rule,
)
from tracker.scipy._bridge.scipy_source import Rebinding
from tracker.scipy.stats.distribution import FrozenDistribution, NamedDistribution, scipy_if_plain
from tracker.scipy.stats.formulas import LOG_2PI

# SciPy's: eigenvalues below this share of the largest count as zero.
_EIGENVALUE_TOLERANCE = 1e6 * float(np.finfo(float).eps)


class MultivariateDistribution(NamedDistribution):
    """A distribution with SciPy's methods."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _FrozenMultivariate(self, args, kwargs)

    def attributes(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The attributes, besides methods, of a distribution with these parameters."""
        return {}


class _FrozenMultivariate(FrozenDistribution):
    """A distribution with fixed parameters. If none is tracked, SciPy's object has checked them and
    has all methods except the densities."""

    def __init__(
        self, dist: MultivariateDistribution, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        super().__init__(dist, args, kwargs)  # type: ignore[arg-type]
        tracked = is_tracked(*args, *kwargs.values())
        self.theirs = None if tracked else dist.scipy(*args, **kwargs)

    def rvs(self, size: Any = 1, random_state: Any = None) -> Any:
        if self.theirs is not None:
            return self.theirs.rvs(size, random_state)
        return super().rvs(size, random_state)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("dist", "args", "kwds", "theirs"):
            raise AttributeError(name)
        if self.theirs is None:
            found = self.dist.attributes(*self.args, **self.kwds)
            if name in found:
                return found[name]
        if not hasattr(type(self.dist), name):
            return super().__getattr__(name) if self.theirs is None else getattr(self.theirs, name)
        method = getattr(self.dist, name)
        known = inspect.signature(method).parameters
        # Without the seed, which only `rvs` takes.
        given = {key: x for key, x in self.kwds.items() if key in known}
        return lambda *xs: method(*xs, *self.args, **given)


class _MultivariateNormal(MultivariateDistribution):
    """Points are along the last axis of x."""

    def attributes(self, mean: Any = None, cov: Any = 1, *_: Any, **__: Any) -> dict[str, Any]:
        mean, cov = _parameters(mean, cov, "mean")
        return {"mean": mean, "cov": cov, "dim": np.size(mean)}

    @scipy_if_plain
    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        mean, cov = _parameters(mean, cov, "mean")
        centred = _points_last(_as_float64(x), np.size(mean)) - mean
        if allow_singular:
            return _squeeze(_singular_logpdf(centred, cov))
        _refuse_singular(cov)
        square, half_logdet = _squares_and_half_logdet(centred, cov)
        return _squeeze(-0.5 * (np.size(mean) * LOG_2PI + square) - half_logdet)

    @scipy_if_plain
    def pdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        return np.exp(self.logpdf(x, mean, cov, allow_singular))

    @scipy_if_plain
    def entropy(self, mean: Any = None, cov: Any = 1) -> Any:
        mean, cov = _parameters(mean, cov, "mean")
        nonzero = _spectrum(cov)[1]
        return 0.5 * np.sum(nonzero) * (LOG_2PI + 1) + _singular_half_logdet(cov, nonzero)


def _parameters(mean: Any, cov: Any, name: str) -> tuple[Any, Any]:
    """The mean as a vector and the covariance as a matrix, by SciPy's rules: a number is the
    variance of each component, a vector the diagonal."""
    cov = _as_float64(1.0 if cov is None else cov)
    mean = (
        np.zeros(np.shape(cov)[0] if np.ndim(cov) > 1 else 1) if mean is None else _as_float64(mean)
    )
    size = np.size(mean)
    if size == 1:
        mean, cov = np.reshape(mean, (1,)), np.reshape(cov, (1, 1))
    if np.ndim(mean) != 1:
        raise ValueError(f"'{name}' must be a vector of length {size}, not {np.shape(mean)}")
    if np.ndim(cov) < 2:
        cov = cov * np.eye(size) if np.ndim(cov) == 0 else np.diag(cov)
    if np.shape(cov) != (size, size):
        raise ValueError(f"'{name}' has {size} components, the covariance shape {np.shape(cov)}")
    return mean, cov


def _as_float64(x: Any) -> Any:
    """SciPy computes in double precision for any input."""
    return np.astype(as_array(x), np.float64)


def _points_last(x: Any, size: int) -> Any:
    """The points along the last axis, which may be missing for points of one dimension."""
    if np.ndim(x) < 2:
        x = np.expand_dims(x, -1 if size == 1 else 0)
    if np.shape(x)[-1] not in (1, size):  # SciPy broadcasts one component
        raise ValueError(f"x has {np.shape(x)[-1]} components, the distribution {size}")
    return x


def _squeeze(x: Any) -> Any:
    """Without axes of one element, as SciPy returns densities; a number for one point."""
    return np.squeeze(x)[()]


def _squares_and_half_logdet(centred: Any, cov: Any) -> tuple[Any, Any]:
    """The squared Mahalanobis distances, and half of the log determinant of the covariance."""
    root = np.linalg.cholesky(cov)
    size = np.shape(cov)[0]
    scaled = np.linalg.solve(root, np.reshape(centred, (-1, size)).T)
    squares = np.reshape(np.sum(np.square(scaled), axis=0), np.shape(centred)[:-1])
    return squares, _half_logdet_of_root(root)


def _spectrum(cov: Any) -> tuple[Any, Any, Any]:
    """SciPy's bound for zero eigenvalues of a covariance, which eigenvalues exceed it, and the
    eigenvectors. Matrices with negative eigenvalues are refused."""
    if not bool(np.all(np.isfinite(cov))):
        raise ValueError("array must not contain infs or NaNs")
    values, vectors = np.linalg.eigh(ignore_derivatives(cov))
    least = _EIGENVALUE_TOLERANCE * np.max(np.abs(values))
    if bool(np.min(values) < -least):
        raise ValueError("The input matrix must be symmetric positive semidefinite.")
    return least, np.array([bool(value > least) for value in values]), vectors


def _refuse_singular(cov: Any) -> None:
    """Refuse what SciPy refuses. The trace of the inverse bounds the least eigenvalue; only if this
    bound does not suffice are all eigenvalues computed."""
    fixed = ignore_derivatives(cov)
    try:
        inverse = np.linalg.solve(np.linalg.cholesky(fixed), np.eye(np.shape(cov)[0]))
        enough = bool(np.sum(np.square(inverse)) * np.trace(fixed) * _EIGENVALUE_TOLERANCE < 0.5)
    except np.linalg.LinAlgError:
        enough = False
    if not enough and not np.all(_spectrum(cov)[1]):
        raise np.linalg.LinAlgError(
            "When `allow_singular is False`, the input matrix must be symmetric positive definite."
        )


def _singular_logpdf(centred: Any, cov: Any, bounded: bool = True) -> Any:
    """The density on the range of a covariance of any rank, as SciPy's; if `bounded`, none outside
    of that. The derivative is that along covariances of the same rank."""
    least, nonzero, vectors = _spectrum(cov)
    squares = _singular_squares(centred, cov)
    value = -0.5 * (np.sum(nonzero) * LOG_2PI + squares) - _singular_half_logdet(cov, nonzero)
    if not bounded:
        return value
    beside = np.linalg.norm(ignore_derivatives(centred) @ vectors[:, ~nonzero], axis=-1)
    return np.where(beside >= least * 1e3, -math.inf, value)


def _singular_squares(centred: Any, cov: Any) -> Any:
    inverse = np.linalg.pinv(cov, rcond=_EIGENVALUE_TOLERANCE, hermitian=True)
    return np.sum(centred @ inverse * centred, axis=-1)


def _singular_half_logdet(cov: Any, nonzero: Any) -> Any:
    if np.all(nonzero):
        return _half_logdet_of_root(np.linalg.cholesky(cov))
    return 0.5 * np.sum(np.log(np.linalg.eigvalsh(cov)[nonzero]))


def _half_logdet_of_root(root: Any) -> Any:
    return np.sum(np.log(np.diagonal(root)))


def _by_scipys_code(name: str, *methods: str) -> Any:
    """A distribution with SciPy's own densities."""
    scipys = getattr(scipy.stats, name)
    theirs = Rebinding(instances_of=(multi_rv_generic,)).of(scipys)

    def method(name: str) -> Any:
        @scipy_if_plain
        @functools.wraps(getattr(type(scipys), name))
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return getattr(theirs, name)(*args, **kwargs)
            except ValueError:  # with tracked values in its text
                scipy_raises_unless(False, getattr(scipys, name), *args, **kwargs)
                raise

        return call

    made = type(f"_{name}", (MultivariateDistribution,), {m: method(m) for m in methods})
    return made(name)


multivariate_normal: Any = _MultivariateNormal("multivariate_normal")
dirichlet: Any = _by_scipys_code("dirichlet", "logpdf", "pdf")
multinomial: Any = _by_scipys_code("multinomial", "logpmf", "pmf")


class _MultivariateT(MultivariateDistribution):
    """Student's t: points are along the last axis of x."""

    def attributes(
        self, loc: Any = None, shape: Any = 1, df: Any = 1, *_: Any, **__: Any
    ) -> dict[str, Any]:
        loc, shape = _parameters(loc, shape, "loc")
        return {"loc": loc, "shape": shape, "df": df, "dim": np.size(loc)}

    @scipy_if_plain
    def logpdf(self, x: Any, loc: Any = None, shape: Any = 1, df: Any = 1) -> Any:
        df = 1 if df is None else df
        if not bool(df > 0):
            raise ValueError(f"'df' must be greater than zero, not {plain_data(df)}")
        loc, shape = _parameters(loc, shape, "loc")
        size = np.size(loc)
        centred = _points_last(_as_float64(x), size) - loc
        if bool(np.isposinf(df)):
            return _squeeze(_singular_logpdf(centred, shape, bounded=False))
        nonzero = _spectrum(shape)[1]
        if np.all(nonzero):
            square, half_logdet = _squares_and_half_logdet(centred, shape)
        else:
            square = _singular_squares(centred, shape)
            half_logdet = _singular_half_logdet(shape, nonzero)
        top = sc.gammaln((df + size) / 2) - sc.gammaln(df / 2)
        scale = size / 2 * np.log(df * math.pi) + half_logdet
        return _squeeze(top - scale - (df + size) / 2 * np.log1p(square / df))

    @scipy_if_plain
    def pdf(
        self, x: Any, loc: Any = None, shape: Any = 1, df: Any = 1, allow_singular: bool = False
    ) -> Any:
        if not allow_singular:
            _refuse_singular(_parameters(loc, shape, "loc")[1])
        return np.exp(self.logpdf(x, loc, shape, df))


def _as_matrix(x: Any, size: int) -> Any:
    """A matrix: a number is each diagonal entry, a vector the diagonal."""
    if np.ndim(x) == 0:
        return x * np.eye(size)
    return np.diag(x) if np.ndim(x) == 1 else x


class _Wishart(MultivariateDistribution):
    """The distribution of one matrix; with `inverse`, of its inverse."""

    def __init__(self, name: str, inverse: bool) -> None:
        super().__init__(name)
        self.inverse = inverse

    @scipy_if_plain
    def logpdf(self, x: Any, df: Any, scale: Any) -> Any:
        scale = _as_matrix(as_array(scale), 1)
        x = _as_matrix(as_array(x), np.shape(scale)[0])
        if np.ndim(x) != 2 or np.shape(x) != np.shape(scale):
            raise no_derivative_rule(
                f"scipy.stats.{self.name}.logpdf of several", "Give one matrix"
            )
        size = np.shape(x)[0]
        if bool(df <= size - 1):
            raise ValueError(
                "Degrees of freedom must be greater than the dimension of scale matrix minus 1."
            )
        for given in (scale, x):
            np.linalg.cholesky(ignore_derivatives(given))  # raises
        halves = np.arange(size) / 2
        gamma = size * (size - 1) / 4 * math.log(math.pi) + np.sum(sc.gammaln(df / 2 - halves))
        logdet, of_scale = np.linalg.slogdet(x)[1], np.linalg.slogdet(scale)[1]
        if self.inverse:
            powers = 0.5 * df * of_scale - 0.5 * (df + size + 1) * logdet
            trace = np.trace(np.linalg.solve(x, scale))
        else:
            powers = 0.5 * (df - size - 1) * logdet - 0.5 * df * of_scale
            trace = np.trace(np.linalg.solve(scale, x))
        return powers - 0.5 * trace - 0.5 * df * size * math.log(2) - gamma

    @scipy_if_plain
    def pdf(self, x: Any, df: Any, scale: Any) -> Any:
        return np.exp(self.logpdf(x, df, scale))


multivariate_t: Any = _MultivariateT("multivariate_t")
wishart: Any = _Wishart("wishart", inverse=False)
invwishart: Any = _Wishart("invwishart", inverse=True)


def _of_frozen(dist: MultivariateDistribution, names: list[str], theirs: Any) -> Any:
    """Our distribution with the parameters of SciPy's."""
    given = {name: getattr(theirs, name) for name in names}
    return dist(**given)


# The parameters of frozen distributions, which are attributes of SciPy's objects.
for _frozen, _names in (
    (multivariate_normal, "mean cov allow_singular"),
    (multivariate_t, "loc shape df"),
    (dirichlet, "alpha"),
    (multinomial, "n p"),
    (wishart, "df scale"),
    (invwishart, "df scale"),
):
    _class = getattr(_multivariate, f"{_frozen.name}_frozen")
    made_by_scipy(_class, replaces=True)(functools.partial(_of_frozen, _frozen, _names.split()))
