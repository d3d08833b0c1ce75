"""Complex numbers in order, compiled: comparisons, extremes, sorting, searching; their directions
and any powers. The numbers are NumPy's, with NaNs and infinities too."""

import numpy as np
import pytest
from test_complex import PARTS, SPECIAL, numbers, same
from test_native_ops import assert_native

from tracker import gradient, jit
from tracker.nn import sigmoid

PAIRS = {f.__name__: f for f in (np.less, np.less_equal, np.greater, np.greater_equal)}
PAIRS |= {f.__name__: f for f in (np.maximum, np.minimum, np.fmax, np.fmin)}
TIES = (np.round(numbers((60,)).real) + 1j * np.round(numbers((60,)).imag)).astype("D")


def agree(f, *arguments):
    """The compiled function's numbers and NumPy's, part by part."""
    compiled = jit(f)
    with np.errstate(all="ignore"):
        want = np.asarray(f(*arguments))
        for _ in range(2):
            got = np.asarray(compiled(*arguments))
            assert got.dtype == want.dtype
            assert got.shape == want.shape
            assert (same(got.real, want.real) & same(got.imag, want.imag)).all()
    assert_native(compiled, *arguments)


@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name):
    x, y = (v.ravel() for v in np.meshgrid(SPECIAL, SPECIAL))
    agree(PAIRS[name], x, y)
    agree(PAIRS[name], x.astype("F"), y.astype("F"))


@pytest.mark.parametrize("f", [np.sign, np.rint], ids=["sign", "rint"])
def test_unary(f):
    agree(f, SPECIAL)
    agree(f, 3 * numbers((5, 7)))


def test_powers():
    finite = SPECIAL[np.isfinite(SPECIAL) & (abs(SPECIAL) < 100) & (abs(SPECIAL) != 1e-200)]
    x, y = (v.ravel() for v in np.meshgrid(finite, finite))
    agree(np.power, x, y)
    agree(lambda z, n: z**n, numbers((5, 6)), np.arange(6) - 3)
    agree(lambda z, x: 2.5**z + z**0.3 + np.float_power(x, z), numbers((6,)), np.arange(6.0) + 1)


def test_logistic_function():
    agree(sigmoid, numbers((40,)))


@pytest.mark.parametrize("shape", [(60,), (5, 12), (12, 5), (3, 4, 5)])
@pytest.mark.parametrize("axis", [0, -1])
def test_sorting(shape, axis):
    for z in (TIES.reshape(shape), np.resize(SPECIAL, shape)):
        agree(lambda z: np.argsort(z, axis=axis, kind="stable"), z)
        agree(lambda z: np.sort(z, axis=axis), z)
        agree(lambda z: np.max(z, axis=axis) - np.min(z, axis=axis), z)


def test_searching():
    row = np.sort(TIES)
    for side in ("left", "right"):
        agree(lambda a, v, side=side: np.searchsorted(a, v, side), row, TIES[::-1].reshape(6, 10))
        agree(lambda a, v, side=side: np.searchsorted(a, v, side), row, 1.0 + 0j)
    agree(np.isin, TIES, TIES[:5])
    agree(lambda z: np.unique(z), TIES)
    agree(lambda z: np.lexsort((z, np.round(z.real / 2))), TIES)
    agree(lambda z: np.median(z), TIES)
    agree(lambda z: np.maximum.accumulate(z), TIES)
    agree(lambda z: np.count_nonzero(z, axis=1), TIES.reshape(6, 10))


def test_argmin_and_argmax():
    agree(lambda z: np.argmax(z, axis=1), TIES.reshape(6, 10))
    agree(lambda z: np.argmin(z), TIES)
    f = jit(lambda z: np.argmax(z))
    holes = np.array([1 + 1j, complex(0, np.nan), 3 - 1j, complex(np.nan, 5)])
    for z in (holes[::2], holes, holes):  # NumPy handles numbers with one NaN part
        assert f(z) == np.argmax(z)


def test_gradients():
    z = numbers((4, 6))

    def f(z):
        weights = np.arange(z.size).reshape(z.shape) + 1
        best = np.maximum(z, z[::-1] * 1.5) + np.sign(z) * z ** (0.5 + 0.5j)
        return np.sum(np.abs(np.sort(best, axis=0) * weights) ** 2) + np.abs(np.max(z)) ** 2

    slopes = jit(lambda z: gradient(f, z)[0])
    for given in (z, z, z[::-1].copy()):
        np.testing.assert_allclose(slopes(given), gradient(f, given)[0], rtol=1e-11)
    assert_native(slopes, z)


@pytest.mark.parametrize("part", PARTS)
def test_an_extreme_has_the_parts_that_it_had(part):
    z = np.array([complex(part, 1.0), complex(1.0, part), 0.5 + 0.5j])
    agree(lambda z: np.max(z), z[:1])
    agree(lambda z: np.minimum(z, z[::-1]), z)
