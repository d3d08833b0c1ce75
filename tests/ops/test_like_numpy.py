"""Calls with NumPy's value, dtype and shape, in a derivative and compiled."""

import numpy
import pytest

import tracker.numpy as np
from tracker import gradcheck, gradient, jit, pullback
from tracker.scipy import integrate, special

F = numpy.linspace(-1.3, 2.1, 6)
S = F.astype(numpy.float32)
KNOTS = numpy.linspace(0.1, 1.9, 5).astype(numpy.float32)
PLACES = numpy.array([[1, 0], [2, 2]])
COLUMNS = numpy.array([[0, 1]])
INT8 = numpy.array([3, -2, 100, 5], numpy.int8)


def _multiplied(x, places, factors):
    y = np.array(x)
    np.multiply.at(y, (places, COLUMNS), factors)
    return y


def _added(x, mask):
    y = np.array(x)
    np.add.at(y, (mask,), x[:3] * 2)
    return y


def _put(x, v):
    y = np.array(x)
    np.put(y, [1, 2], v)
    return y


def _halves(x):
    y = np.empty_like(x)
    y[x > 1] = (x / 2)[x > 1]
    y[x <= 1] = x[x <= 1] * 2
    return np.stack([y])


CALLS = {
    "interp of float32": (lambda x: np.interp(x, KNOTS, x[:5]), S),
    "interp of complex64": (lambda x, f: np.interp(x, KNOTS, f), S, (S[:5] + 1j).astype("F")),
    "interp of integers": (lambda x: np.interp(x, [0, 1, 3], numpy.array([1, 5, 2])), S),
    "bin edges of float32": (lambda x: np.histogram_bin_edges(x, 4, (0, 10)), S),
    "bin edges of float16": (lambda x: np.histogram(x, 3, density=True), F.astype("e")),
    "bin edges of integers": (lambda x: np.histogram_bin_edges(x, 4), INT8),
    "one step": (lambda x: np.linspace(x, x + 1, 1, retstep=True), F),
    "steps": (lambda x: np.linspace(x, x + 1, 3, retstep=True), F),
    "correlate of int8": (lambda x: np.correlate(np.tile(x, 6), np.tile(x, 3)), INT8),
    "a few of int8": (lambda x: np.correlate(np.tile(x, 3), np.tile(x, 3)[1:]), INT8),
    "correlate of truths": (lambda x: np.correlate(np.tile(x > 4, 6), np.tile(x > 4, 3)), INT8),
    "poly of float32": (lambda x: np.poly(x), numpy.round(S)),  # exact, in any order of sums
    "poly of int8": (lambda x: np.poly(x), INT8),
    "poly of float16": (lambda x: np.poly(x[:3]), F.astype("e")),
    "poly of nothing": (lambda x: np.poly(x[:0]), F),
    "numbers joined to int8": (lambda x: np.concatenate([x, 100, True], axis=None), INT8),
    "numbers joined to float32": (lambda x: np.concatenate([0.5, x, 3, 1e30], axis=None), S),
    "put nothing": (_put, F, F[:0]),
    "put": (_put, F, F[:1]),
    "raveled places": (lambda x, i: x[np.ravel_multi_index((i, 1, COLUMNS), (2, 3, 2))],
                       numpy.arange(12.0), numpy.array([[0], [1]])),
    "sort_complex of rows": (lambda x: np.sort_complex(x.reshape(2, 3)), -F),
    "sort_complex of float32": (lambda x: np.sort_complex(x), S),
    "sort_complex of int8": (lambda x: np.sort_complex(x), INT8),
    "sort_complex of complex64": (lambda x: np.sort_complex(x + 1j), S),
    "frexp of a number": (lambda x: np.frexp(x), 0),
    "frexp": (lambda x: np.frexp(x), S),
    "take without a mode": (lambda x: np.take(x, [1, 2], mode=None), F),
    "roll by a float": (lambda x, n: np.roll(x, n / 2) + np.roll(x, (n, 1.5), (0, 0)), F, 3.0),
    "repeat a float's times": (lambda x, n: np.repeat(x, n), F, 2.0),
    "roots of one number": (lambda x: np.roots(x[:1]), S),
    "unwrap of int8": (lambda x: np.unwrap(x, period=6), INT8),
    "unwrap of float32": (lambda x: np.unwrap(x * 9), S),
    "trapezoid over other axes": (lambda y, x: np.trapezoid(y, x, axis=-2),
                                  numpy.arange(12.0).reshape(2, 3, 2), F.reshape(3, 2)),
    "at places that broadcast": (_multiplied, numpy.arange(1.0, 7.0).reshape(3, 2), PLACES,
                                 numpy.full((2, 2), 3.0)),
    "slogdet of no complex rows": (lambda x: np.linalg.slogdet(x), numpy.zeros((0, 0), complex)),
    "argmax of a number": (lambda x: np.argmax(x, 0, keepdims=True), numpy.array(2.0)),
    "how many of a number": (lambda x: np.count_nonzero(x, axis=-1), numpy.array(2.0)),
    "product over a given axis": (lambda x, axis: np.prod(x, axis), numpy.array(2.0), 0),
    "flags of a number": (_halves, numpy.array(2.0)),
    "quantiles of float32": (lambda x, q: np.quantile(x, q), S, S[3:5] / 2),
    "quantiles without NaN": (lambda x, q: np.nanquantile(x, q, method="weibull"), S, S[3:5] / 2),
    "least and greatest": (lambda x: np.percentile(x, [0, 100]), S),
    "whole quantiles": (lambda x: np.nanquantile(x, [0, 1]), S),
    "angle of flags": (lambda x: np.angle(x > 0), F),
    "angle of int8": (lambda x: np.angle(x), INT8),
    "angle of float32": (lambda x: np.angle(x, deg=True), S),
    "integrals of float32": (lambda x: integrate.cumulative_trapezoid(x, dx=3.0), S),
    "logsumexp of a number": (lambda x: special.logsumexp(x, axis=(0,)), numpy.array(2.0)),
    "logsumexp, axes kept": (lambda x: special.logsumexp(x, keepdims=True), numpy.array(2.0)),
    "a vector in Fortran's order": (lambda x: x.reshape(2, 3, order="F"), F),
    "a row in its order": (lambda x: x[None].reshape(2, 3, order="A"), F),
    "a matrix in its order": (lambda x: x.reshape(2, 3).T.reshape(2, 3, order="A"), F),
    "a number in Fortran's order": (lambda x: x.reshape(1, 1, order="F"), numpy.float64(2.0)),
    "how close to a number": (lambda x: np.isclose(x, 2, 1 - 1e-12, 0.0), 2 * S - S),
    "how close to a whole number": (
        lambda x: np.isclose(x, 2, rtol=0.4999999999999999, atol=0), numpy.float32(1.0)),
    "at a mask": (_added, F, numpy.array([True, False, True, False, True, False])),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_as_numpy(name):
    f, *args = CALLS[name]
    wanted = f(*args)
    fast = jit(f)
    for found in (pullback(f, *args)[0], fast(*args), fast(*args)):
        parts = [y if isinstance(y, tuple) else (y,) for y in (found, wanted)]
        for ours, plain in zip(*parts, strict=True):
            assert np.shape(ours) == np.shape(plain)
            assert np.result_type(ours) == np.result_type(plain)
            assert type(ours) is type(plain)
            numpy.testing.assert_allclose(ours, plain, rtol=2e-7)


def test_no_eigenvectors():
    w, back = pullback(lambda a: np.linalg.eig(a), numpy.zeros((2, 0, 0)))
    assert back(w)[0].shape == (2, 0, 0)


@pytest.mark.parametrize("order", [1.0, 1.5, 2.0, 3.0])
def test_norms_in_their_order(order):
    """Orders 1 and 2 are computed like any other where the order is differentiated."""
    assert gradcheck(lambda x, p: np.linalg.norm(x, p), F, order)
    assert gradcheck(lambda x, p: np.linalg.norm(x.reshape(2, 3), p, axis=1), F, order)
    fast = jit(lambda x, p: gradient(np.linalg.norm, x, p))
    for found, plain in zip(fast(F, order), gradient(np.linalg.norm, F, order), strict=True):
        numpy.testing.assert_allclose(found, plain, rtol=1e-12)
    assert np.linalg.norm(F, order) == pytest.approx(pullback(np.linalg.norm, F, order)[0])
