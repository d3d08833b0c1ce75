"""Inside a derivative, functions and classes of NumPy can be pickled and copied as ever."""

import copy
import functools
import math
import pickle
import types
import warnings

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import scipy.signal
import scipy.sparse.linalg
import scipy.special
import scipy.stats
from numpy import fft, linalg, random, zeros

import tracker

MODULES = [
    *(np, linalg, fft, random, math, scipy.linalg, scipy.optimize, scipy.signal, scipy.sparse),
    *(scipy.sparse.linalg, scipy.special, scipy.stats),
]


def can_be_pickled(x):
    try:
        with warnings.catch_warnings(action="ignore"):  # pickle looks into every module
            pickle.dumps(x)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True


NAMES = [
    [n for n in dir(m) if not n.startswith("_") and n != "test" and can_be_pickled(getattr(m, n))]
    for m in MODULES
]


def inside(work, x=2.0):
    """What a function returns while a derivative runs."""
    found = []

    def f(x):
        found.append(work(x))
        return x * 1.0

    tracker.gradient(f, x)
    return found[0]


@pytest.mark.filterwarnings("ignore:numpy.core is deprecated:DeprecationWarning")  # for ufuncs
@pytest.mark.parametrize("at", range(len(MODULES)))
def test_every_name(at):
    def work(_):
        found = []
        for name in NAMES[at]:
            x = getattr(MODULES[at], name)
            found.append((name, x, pickle.dumps(x)))
            copy.deepcopy(x)
            assert is_by_value(x) or pickle.loads(found[-1][2]) == x, name
        return found

    for name, x, data in inside(work):
        y = pickle.loads(data)
        assert is_by_value(x) or y in (x, getattr(MODULES[at], name)), name


def is_by_value(x):
    """Whether pickle makes another object, which need not be equal."""
    return not isinstance(x, (types.FunctionType, type, np.ufunc))


@functools.lru_cache
def cached(n):
    return np.full(n, 3.0)


class Model:
    act = staticmethod(np.tanh)

    def __init__(self):
        self.make, self.dtype, self.kind = np.zeros, np.float64, np.ndarray
        self.norm, self.prior = scipy.stats.norm, scipy.stats.norm(0.0, 1.0)
        self.joint = scipy.stats.multivariate_normal([0.0])
        self.full = functools.partial(np.full, 1)
        self.table = {"sum": np.sum, "sin": math.sin, "cached": cached}

    def __call__(self, x):
        y, z = self.make(1, self.dtype), self.full(0.0)
        y[0], z[0] = x, self.table["sin"](x)
        x = self.table["sum"](y + z * self.table["cached"](1)) + self.act(x)
        return x + self.norm.logpdf(x) + self.prior.logpdf(y[0])


@pytest.mark.parametrize("again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_objects_that_hold_functions(again):
    """What is made of them inside keeps gradients, and outside it acts like NumPy."""
    expected = tracker.gradient(Model(), 2.0)
    assert tracker.gradient(lambda x: again(Model())(x), 2.0) == expected
    model = inside(lambda _: again(Model()))
    assert model(2.0) == Model()(2.0)
    assert type(model.make(2)) is np.ndarray
    assert tracker.gradient(model, 2.0) == expected


def test_what_is_pickled_inside_outside():
    data = inside(
        lambda _: pickle.dumps(
            [zeros, functools.partial(np.zeros, 3), np.float64, np.ndarray, cached, np.sin]
        )
    )
    make, part, kind, array, known, sin = pickle.loads(data)
    assert type(make(3)) is type(part()) is np.ndarray
    assert (kind, array) == (np.float64, np.ndarray)
    assert known is cached
    assert sin == np.sin
