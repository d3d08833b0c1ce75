"""Kernel density estimates (D. Scott, "Multivariate Density Estimation", 1992)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.stats
from scipy.special import _ufuncs

from tracker.autodiff.leaves import plain_data
from tracker.scipy._bridge.checks import scipy_raises_unless
from tracker.scipy._bridge.classes import DropIn
from tracker.scipy._bridge.fallback import as_array, made_by_scipy
from tracker.scipy.linalg import cholesky
from tracker.scipy.special import logsumexp


class gaussian_kde(DropIn):
    """As `scipy.stats.gaussian_kde`; samples and points may be plain or tracked."""

    _theirs, _holds_tracked = scipy.stats.gaussian_kde, False

    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None) -> None:
        self.dataset = np.atleast_2d(as_array(dataset) * 1.0)
        self.d, self.n = np.shape(self.dataset)
        if self.n < 2:
            raise ValueError("`dataset` input should have multiple elements.")
        weights = np.ones(self.n) if weights is None else as_array(weights) * 1.0
        if np.shape(weights) != (self.n,):
            raise ValueError("`weights` input should be of length n")
        self.weights = weights / np.sum(weights)
        self.neff = 1 / np.sum(np.square(self.weights))
        self.set_bandwidth(bw_method)

    def scotts_factor(self) -> Any:
        return np.power(self.neff, -1.0 / (self.d + 4))

    def silverman_factor(self) -> Any:
        return np.power(self.neff * (self.d + 2.0) / 4.0, -1.0 / (self.d + 4))

    def covariance_factor(self) -> Any:
        method = self._method
        if method is None or method == "scott":
            return self.scotts_factor()
        if method == "silverman":
            return self.silverman_factor()
        if callable(method):
            return method(self)
        if isinstance(method, str) or np.ndim(method) != 0:
            raise ValueError("`bw_method` should be 'scott', 'silverman', a scalar or a callable.")
        return method

    def set_bandwidth(self, bw_method: Any = None) -> None:
        self._method = bw_method
        self.factor = self.covariance_factor()
        mean = np.sum(self.dataset * self.weights, axis=1, keepdims=True)
        deviation = self.dataset - mean
        scale = 1 - np.sum(self.weights**2)
        unscaled = (deviation * self.weights) @ np.transpose(deviation) / scale
        self.covariance = unscaled * self.factor**2
        try:
            self.cho_cov = cholesky(unscaled, lower=True) * self.factor
        except np.linalg.LinAlgError:  # SciPy's text is more detailed
            given = (self.dataset, plain_data(self.factor), self.weights)
            scipy_raises_unless(False, scipy.stats.gaussian_kde, *given)
            raise

    @property
    def inv_cov(self) -> Any:
        return np.linalg.inv(self.covariance)

    def _log_kernels(self, x: Any) -> Any:
        """The log of each sample's contribution at each point, without the common factor."""
        points = np.atleast_2d(as_array(x) * 1.0)
        if np.shape(points)[0] != self.d:
            if np.shape(points) != (1, self.d):
                raise ValueError(
                    f"points have dimension {np.shape(points)[0]}, dataset has dimension {self.d}"
                )
            points = np.reshape(points, (self.d, 1))
        samples, at = (np.linalg.solve(self.cho_cov, part) for part in (self.dataset, points))
        differences = np.expand_dims(at, 2) - np.expand_dims(samples, 1)
        return -0.5 * np.sum(np.square(differences), axis=0)

    def logpdf(self, x: Any) -> Any:
        scale = self.d / 2 * math.log(2 * math.pi) + np.sum(np.log(np.diagonal(self.cho_cov)))
        return logsumexp(self._log_kernels(x), axis=1, b=self.weights) - scale

    def evaluate(self, points: Any) -> Any:
        powers, scale = self._log_kernels(points), (2 * math.pi) ** (self.d / 2)
        volume = scale * np.prod(np.diagonal(self.cho_cov))
        return np.sum(np.exp(powers) * self.weights, axis=1) / volume

    __call__ = pdf = evaluate

    def integrate_box_1d(self, low: Any, high: Any) -> Any:
        if self.d != 1:
            raise ValueError("integrate_box_1d() only handles 1D pdfs")
        width = np.sqrt(self.covariance[0, 0])
        ends = [_ufuncs.ndtr((end - self.dataset[0]) / width) for end in (low, high)]
        return np.sum(self.weights * (ends[1] - ends[0]))

    def _as_scipy(self) -> Any:
        given = self.dataset, self.factor, self.weights
        return scipy.stats.gaussian_kde(*map(plain_data, given))


@made_by_scipy(scipy.stats.gaussian_kde)
def _with_its_bandwidth(theirs: Any) -> gaussian_kde:
    return gaussian_kde(theirs.dataset, theirs.factor, theirs.weights)
