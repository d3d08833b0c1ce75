"""Complex numbers in order, compiled: comparisons, extremes, sorting, searching; their directions
and any powers. The numbers are NumPy's, with NaNs and infinities too."""

import numpy as np
import pytest
from compiled import agree, assert_native
from test_complex import PARTS, SPECIAL, numbers, same

from tracker import gradient, jit
from tracker.nn import sigmoid

PAIRS = {f.__name__: f for f in (np.less, np.less_equal, np.greater, np.greater_equal)}
PAIRS |= {f.__name__: f for f in (np.maximum, np.minimum, np.fmax, np.fmin)}
TIES = (np.round(numbers((60,)).real) + 1j * np.round(numbers((60,)).imag)).astype("D")


def by_parts(f, *arguments):
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
    by_parts(PAIRS[name], x, y)
    by_parts(PAIRS[name], x.astype("F"), y.astype("F"))


@pytest.mark.parametrize("f", [np.sign, np.rint], ids=["sign", "rint"])
def test_unary(f):
    by_parts(f, SPECIAL)
    by_parts(f, 3 * numbers((5, 7)))


def test_powers():
    finite = SPECIAL[np.isfinite(SPECIAL) & (abs(SPECIAL) < 100) & (abs(SPECIAL) != 1e-200)]
    x, y = (v.ravel() for v in np.meshgrid(finite, finite))
    by_parts(np.power, x, y)
    by_parts(lambda z, n: z**n, numbers((5, 6)), np.arange(6) - 3)
    by_parts(lambda z, x: 2.5**z + z**0.3 + np.float_power(x, z), numbers((6,)), np.arange(6.0) + 1)


def test_logistic_function():
    by_parts(sigmoid, numbers((40,)))


@pytest.mark.parametrize("shape", [(60,), (5, 12), (12, 5), (3, 4, 5)])
@pytest.mark.parametrize("axis", [0, -1])
def test_sorting(shape, axis):
    for z in (TIES.reshape(shape), np.resize(SPECIAL, shape)):
        by_parts(lambda z: np.argsort(z, axis=axis, kind="stable"), z)
        by_parts(lambda z: np.sort(z, axis=axis), z)
        by_parts(lambda z: np.max(z, axis=axis) - np.min(z, axis=axis), z)


def test_searching():
    row = np.sort(TIES)
    for side in ("left", "right"):
        by_parts(
            lambda a, v, side=side: np.searchsorted(a, v, side), row, TIES[::-1].reshape(6, 10)
        )
        by_parts(lambda a, v, side=side: np.searchsorted(a, v, side), row, 1.0 + 0j)
    by_parts(np.isin, TIES, TIES[:5])
    by_parts(lambda z: np.unique(z), TIES)
    by_parts(lambda z: np.lexsort((z, np.round(z.real / 2))), TIES)
    by_parts(lambda z: np.median(z), TIES)
    by_parts(lambda z: np.maximum.accumulate(z), TIES)
    by_parts(lambda z: np.count_nonzero(z, axis=1), TIES.reshape(6, 10))


def test_argmin_and_argmax():
    by_parts(lambda z: np.argmax(z, axis=1), TIES.reshape(6, 10))
    by_parts(lambda z: np.argmin(z), TIES)
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

    agree(lambda z: gradient(f, z)[0], z, others=[(z[::-1].copy(),)], tolerance=1e-11, native=True)


@pytest.mark.parametrize("part", PARTS)
def test_an_extreme_has_the_parts_that_it_had(part):
    z = np.array([complex(part, 1.0), complex(1.0, part), 0.5 + 0.5j])
    by_parts(lambda z: np.max(z), z[:1])
    by_parts(lambda z: np.minimum(z, z[::-1]), z)
