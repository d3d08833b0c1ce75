"""The drop-ins have the types of NumPy and SciPy."""

from typing import assert_type

import numpy as numpy_itself
import scipy.special
from numpy.typing import NDArray

import tracker
import tracker.numpy as np
import tracker.scipy
from tracker.scipy import fft, integrate, linalg, optimize, signal, stats
from tracker.scipy.sparse.linalg import spsolve
from tracker.scipy.special import erf, logsumexp

Array = NDArray[np.float64]


def of_numpy(x: Array, rng: np.random.Generator) -> None:
    y = np.zeros(3)
    y[:2] = x[:2] * np.pi
    assert_type(np.linspace(0.0, 1.0).dtype, np.dtype[np.float64])
    assert_type(np.linalg.slogdet(np.eye(2)).count(0), int)
    assert_type(np.random.default_rng(0), numpy_itself.random.Generator)
    assert_type(rng.normal(size=3), Array)
    np.fft.rfft(y)
    np.polynomial.Polynomial([1.0, 2.0])
    np.lib.stride_tricks.sliding_window_view(y, 2)
    np.concatenate([x, np.ones(3), y])


def of_scipy(x: Array) -> None:
    print(erf(x), logsumexp(x), tracker.scipy.special.gamma(x), scipy.special.gamma(x))
    print(linalg.norm(x), signal.lfilter([1.0], [1.0], x), signal.resample(x, 4), fft.dct(x))
    print(integrate.quad(lambda t: t * 2.0, 0.0, 1.0), optimize.linprog(x).status)
    print(linalg.expm(np.eye(2)), linalg.solve_banded, tracker.scipy.signal.butter)
    print(stats.norm.logpdf(0.0), stats.multivariate_normal, optimize.minimize, spsolve)
    print(tracker.scipy.integrate.solve_ivp, tracker.scipy.ndimage.gaussian_filter)
    print(tracker.scipy.constants.pi, tracker.scipy.fft.dct, tracker.scipy.cluster.vq.kmeans2)
    print(tracker.scipy.spatial.distance.cdist, tracker.scipy.interpolate.CubicSpline)


def of_the_other_modules(x: Array) -> None:
    print(tracker.special.sinpi(0.5), tracker.special.trigamma(1.0))
    print(tracker.nn.relu(x), tracker.optim.adam(0.1), tracker.debug.tape)
    print(tracker.tree.leaves([x]), tracker.testing.ngradient, tracker.ir.__name__)
