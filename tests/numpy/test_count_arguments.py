"""Integer arguments that count: how often, how many, which axis.

Each is a number for the plain function, in a derivative and in compiled code, and another value is
noticed on the next call. So is a tolerance, which has no derivative.
"""

import numpy
import pytest

import tracker.numpy as np
from tracker import gradient, jit, pullback
from tracker.scipy import ndimage, special

V = numpy.array([0.3, 1.1, 0.7, 0.4, 0.9, 0.2])
M = numpy.array([[1.0, 0.2, 0.1], [0.3, 2.0, 0.4], [0.1, 0.6, 3.0]])
D = numpy.diag([3.0, 1e-3, 1e-6])


def _rest(x, n):
    y = np.array(x)
    y[n:] = 5.0 * y[0]
    return y


COUNTS = {
    "array_split": (lambda x, n: np.array_split(x, n), V, 2, 3),
    "split": (lambda x, n: np.split(x, n), V, 2, 3),
    "hsplit": (lambda x, n: np.hsplit(x, n), V, 2, 3),
    "split at": (lambda x, n: np.split(x, [1, n]), V, 2, 3),
    "repeat": (lambda x, n: np.repeat(x, n), V, 2, 3),
    "repeat each": (lambda x, n: np.repeat(x[:2], [n, 1]), V, 2, 3),
    "reshape": (lambda x, n: np.reshape(x, (n, -1)), V, 2, 3),
    "squeeze": (lambda x, n: np.squeeze(np.reshape(x, (1, 6, 1)), (n,)), V, 0, 2),
    "tri": (lambda x, n: np.tri(n) * x[0], V, 2, 3),
    "eye": (lambda x, n: np.eye(n) * x[0], V, 2, 3),
    "indices": (lambda x, n: np.indices((n, 2)) * x[0], V, 2, 3),
    "fromfunction": (lambda x, n: np.fromfunction(lambda i: i * x[0], (n,)), V, 2, 3),
    "tril_indices": (lambda x, n: x[np.tril_indices(n)], M, 2, 3),
    "diag_indices": (lambda x, n: x[np.diag_indices(n)], M, 2, 3),
    "linspace": (lambda x, n: np.linspace(0, x[0], n), V, 3, 5),
    "logspace": (lambda x, n: np.logspace(0, x[0], n), V, 3, 5),
    "geomspace": (lambda x, n: np.geomspace(1, x[0], n), V, 3, 5),
    "hamming": (lambda x, n: np.hamming(n) * x[0], V, 4, 5),
    "fftfreq": (lambda x, n: np.fft.fftfreq(n) * x[0], V, 4, 5),
    "windows": (lambda x, n: np.lib.stride_tricks.sliding_window_view(x, n), V, 2, 3),
    "r_": (lambda x, n: np.r_[x, 0:n], V, 2, 3),
    "ogrid": (lambda x, n: np.ogrid[0:n] * x[0], V, 2, 3),
    "delete": (lambda x, n: np.delete(x, n), V, 2, 3),
    "insert": (lambda x, n: np.insert(x, n, 2.0), V, 2, 3),
    "matrix_power": (lambda x, n: np.linalg.matrix_power(x, n), M, 2, -3),
    "bincount": (lambda x, n: np.bincount([0, 1, 1], weights=x[:3], minlength=n), V, 2, 5),
    "ndmin": (lambda x, n: np.array(x, ndmin=n), V, 2, 3),
    "write": (_rest, V, 2, 3),
    "list of values": (lambda x, n: np.array([x[0], 1.0] * n), V, 2, 3),
    "list of numbers": (lambda x, n: np.array(n * [1.0, 2.0]) * x[0], V, 2, 3),
    "tuple": (lambda x, n: np.reshape(x, (1,) * n + (-1,)), V, 2, 3),
    "multigammaln": (lambda x, n: special.multigammaln(x[0] + 5, n), V, 2, 3),
}
TOLERANCES = {
    "matrix_rank": (lambda x, t: np.linalg.matrix_rank(x, tol=t), D, 1e-2, 1e-4),
    "relative rank": (lambda x, t: np.linalg.matrix_rank(x, rtol=t), D, 1e-2, 1e-4),
    "pinv": (lambda x, t: np.linalg.pinv(x, rcond=t), D, 1e-2, 1e-4),
    "lstsq": (lambda x, t: np.linalg.lstsq(x, x[0], rcond=t)[0], D, 1e-2, 1e-4),
    "zoom": (lambda x, t: ndimage.zoom(x, t, order=1), V, 2.0, 1.5),
    "reach": (lambda x, t: ndimage.gaussian_filter(x, t), V, 0.5, 1.5),
    "any reach": (lambda x, t: ndimage.gaussian_filter(x, t), V, 0.0, 1.5),
}
_OF_INTEGERS = ("fftfreq", "list of values", "list of numbers", "tuple")  # not of 0-d arrays
OF_TYPES = (int, numpy.int64, numpy.array)


def _parts(y):
    return y if isinstance(y, list) else [y]


def _check(found, wanted):
    for ours, plain in zip(_parts(found), _parts(wanted), strict=True):
        assert np.shape(ours) == np.shape(plain)
        np.testing.assert_allclose(ours, plain, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name):
    f, x, *counts = COUNTS[name]
    for of_type in OF_TYPES:
        if of_type is numpy.array and name in _OF_INTEGERS:
            continue
        fast = jit(f)
        for n in (*counts, counts[0]):
            _check(pullback(f, x, of_type(n))[0], f(x, of_type(n)))
            _check(fast(x, of_type(n)), f(x, of_type(n)))


@pytest.mark.parametrize("name", COUNTS)
def test_gradients_of_counted(name):
    f, x, *counts = COUNTS[name]

    def total(x, n):
        return sum(np.sum(y**2) for y in _parts(f(x, n)))

    fast = jit(lambda x, n: gradient(total, x, n)[0])
    for n in (*counts, counts[0]):
        plain = gradient(lambda x: total(x, n), x)[0]  # noqa: B023
        np.testing.assert_allclose(gradient(total, x, n)[0], plain)
        np.testing.assert_allclose(fast(x, n), plain, rtol=1e-12)


@pytest.mark.parametrize("name", TOLERANCES)
def test_tolerances(name):
    f, x, *tolerances = TOLERANCES[name]
    fast = jit(f)
    for t in (*tolerances, tolerances[0]):
        _check(pullback(f, x, t)[0], f(x, t))
        _check(fast(x, t), f(x, t))


def test_text_and_lists_are_said_several_times():
    def f(x, n):
        return x * len("ab" * n + "c" * n), n * [None], (1, 2) * n

    for fast in (f, jit(f)):
        for n in (2, 3):
            y, nothing, pairs = fast(1.5, n)
            assert (y, nothing, pairs) == (1.5 * 3 * n, [None] * n, (1, 2) * n)
    assert gradient(lambda x, n: f(x, n)[0], 1.5, 2)[0] == 6


def test_an_array_of_one_integer_multiplies_a_list():
    x = numpy.arange(3.0)
    y, _ = pullback(lambda x, n: (np.sum(x) + [1, 2] * n, x * (1, 2, 3)), x, numpy.array(2))
    _check(list(y), [numpy.array([5.0, 7.0]), x * (1, 2, 3)])


@pytest.mark.parametrize("of_type", OF_TYPES)
def test_an_integer_exponent_that_becomes_zero(of_type):
    """Not 1/2, for which compiled powers take roots."""
    fast = jit(lambda x, n: x**n)
    for n in (2, 0, -1, 1):
        np.testing.assert_allclose(fast(V, of_type(n)), V**n)


def test_finite_numbers_are_looked_for_on_each_call():
    fast = jit(lambda x: np.asarray_chkfinite(x) * 2)
    fast(V)
    with pytest.raises(ValueError, match="infs or NaNs"):
        fast(np.where(V > 1, np.inf, V))
