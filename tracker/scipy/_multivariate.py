"""Multivariate distributions: normal, Dirichlet, multinomial."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special as sc
import scipy.stats

from tracker.scipy._families import Frozen, is_tracked
from tracker.scipy._passing import as_array

_LOG_2PI = math.log(2 * math.pi)


class Multivariate:
    """A distribution whose methods of SciPy's name, if not defined here, are SciPy's."""

    def __init__(self, name: str) -> None:
        self.scipy = getattr(scipy.stats, name)

    def __getattr__(self, name: str) -> Any:
        if name == "scipy":
            raise AttributeError(name)
        return getattr(self.scipy, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_tracked(*args, *kwargs.values()):
            return Frozen(self, args, kwargs)  # type: ignore[arg-type]
        return self.scipy(*args, **kwargs)


class _Normal(Multivariate):
    """Points are along the last axis of x."""

    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        if not is_tracked(x, mean, cov):
            return self.scipy.logpdf(x, mean, cov, allow_singular)
        mean, root = self._shape(mean, cov)
        size = np.shape(root)[-1]
        x = as_array(x)
        if np.ndim(x) == 0:
            x = np.reshape(x, (1,))
        elif np.ndim(x) == 1 and size == 1:
            x = np.expand_dims(x, -1)
        away = x - mean
        lead = np.shape(away)[:-1]
        columns = np.reshape(away, (-1, size)).T
        scaled = np.linalg.solve(root, columns)
        square = np.reshape(np.sum(np.square(scaled), axis=0), lead)
        return -0.5 * (size * _LOG_2PI + square) - _half_logdet(root)

    def pdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        if not is_tracked(x, mean, cov):
            return self.scipy.pdf(x, mean, cov, allow_singular)
        return np.exp(self.logpdf(x, mean, cov, allow_singular))

    def entropy(self, mean: Any = None, cov: Any = 1) -> Any:
        if not is_tracked(mean, cov):
            return self.scipy.entropy(mean, cov)
        _, root = self._shape(mean, cov)
        return 0.5 * np.shape(root)[-1] * (_LOG_2PI + 1) + _half_logdet(root)

    def _shape(self, mean: Any, cov: Any) -> tuple[Any, Any]:
        """The mean as a vector, and a triangular root of the covariance."""
        cov = as_array(cov)
        mean = 0.0 if mean is None else as_array(mean)
        size = max(np.size(mean), np.shape(cov)[-1] if np.ndim(cov) else 1)
        if np.ndim(cov) == 2:
            root = np.linalg.cholesky(cov)
        else:
            root = np.diag(np.sqrt(np.broadcast_to(cov, (size,))))
        return mean, root


def _half_logdet(root: Any) -> Any:
    return np.sum(np.log(np.diagonal(root)))


class _Dirichlet(Multivariate):
    """Components are along the first axis of x, of which SciPy allows the last to be left out."""

    def logpdf(self, x: Any, alpha: Any) -> Any:
        if not is_tracked(x, alpha):
            return self.scipy.logpdf(x, alpha)
        x, alpha = as_array(x), as_array(alpha)
        if np.shape(x)[0] == np.shape(alpha)[0] - 1:
            x = np.concatenate([x, 1 - np.sum(x, axis=0, keepdims=True)])
        if np.shape(x)[0] != np.shape(alpha)[0]:
            raise ValueError(f"x has {np.shape(x)[0]} components, alpha has {np.shape(alpha)[0]}")
        norm = np.sum(sc.gammaln(alpha)) - sc.gammaln(np.sum(alpha))
        powers = np.reshape(alpha - 1, (-1,) + (1,) * (np.ndim(x) - 1))
        return np.sum(sc.xlogy(powers, x), axis=0) - norm

    def pdf(self, x: Any, alpha: Any) -> Any:
        if not is_tracked(x, alpha):
            return self.scipy.pdf(x, alpha)
        return np.exp(self.logpdf(x, alpha))


class _Multinomial(Multivariate):
    """Counts are along the last axis of x. As in SciPy, the last probability is what the others
    leave, whatever is given for it."""

    def logpmf(self, x: Any, n: Any, p: Any) -> Any:
        if not is_tracked(x, n, p):
            return self.scipy.logpmf(x, n, p)
        x, n, p = as_array(x), as_array(n), as_array(p)[..., :-1]
        p = np.concatenate([p, 1 - np.sum(p, axis=-1, keepdims=True)], axis=-1)
        terms = sc.xlogy(x, p) - sc.gammaln(x + 1)
        value = sc.gammaln(n + 1) + np.sum(terms, axis=-1)
        return np.where((np.sum(x, axis=-1) == n) & np.all(x >= 0, axis=-1), value, -math.inf)

    def pmf(self, x: Any, n: Any, p: Any) -> Any:
        if not is_tracked(x, n, p):
            return self.scipy.pmf(x, n, p)
        return np.exp(self.logpmf(x, n, p))


multivariate_normal: Any = _Normal("multivariate_normal")
dirichlet: Any = _Dirichlet("dirichlet")
multinomial: Any = _Multinomial("multinomial")
