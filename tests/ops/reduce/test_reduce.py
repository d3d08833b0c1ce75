"""Rows of the reductions, and of what is composed of them."""

from itertools import product

import numpy as np
import pytest
from op_rows import row, sample, x, z

from tracker import jacobian, jit, jvp, pullback
from tracker.ops.reduce import short_axes

AXES = [
    sample(x(2, 3), axis=(0, 1), keepdims=False),
    sample(x(2, 3), axis=(1,), keepdims=True),
    sample(x(2, 3, 2), axis=(0, 2), keepdims=False),
    sample(x(3), axis=(0,), keepdims=False),
    sample(x(), axis=(), keepdims=False),
    sample(x(2, 1), axis=(), keepdims=True),
    sample(x(1, 3, 1), axis=(0, 2), keepdims=False),
]
EMPTY = [
    sample(x(0), axis=(0,), keepdims=False),
    sample(x(2, 0), axis=(1,), keepdims=True),
    sample(x(0, 3), axis=(1,), keepdims=False),
]
COMPLEX = [sample(z(2, 3), axis=(0, 1), keepdims=False), sample(z(2, 3), axis=(1,), keepdims=True)]
INTEGERS = [
    sample(np.arange(6).reshape(2, 3), axis=(0,), keepdims=False),
    sample(np.array([True, False]), axis=(0,), keepdims=False),
    sample(np.arange(6, dtype=np.int8).reshape(2, 3), axis=(0, 1), keepdims=False),
]
ZEROS = [
    sample(np.array([0.0, 2.0, 3.0]), axis=(0,), keepdims=False),
    sample(np.array([0.0, 2.0, 0.0, 3.0]), axis=(0,), keepdims=False),
    sample(np.array([[0.0, 2.0], [0.0, 0.0]]), axis=(1,), keepdims=False),
    sample(np.zeros(3), axis=(0,), keepdims=True),
]

ROWS = [
    row("sum", *AXES, *EMPTY, *COMPLEX, *INTEGERS),
    row("mean", *AXES, EMPTY[2], *COMPLEX, *INTEGERS),
    row("prod", *AXES, *EMPTY, *COMPLEX, *INTEGERS, *ZEROS),
    row("max", *AXES, *INTEGERS),
    row("min", *AXES, *INTEGERS),
]


SHORT = [((40, 5, 30, 3), (1, 3)), ((2000, 3), (1,)), ((3, 2000), (0,)), ((64, 64, 2, 2), (2, 3))]


@pytest.mark.parametrize("shape, axis", SHORT)
@pytest.mark.parametrize("kind", ["f8", "f4", "D", "i4", "?", "u1"])
def test_short_axes_of_large_arrays(shape, axis, kind):
    """Reduced slice by slice: NumPy's numbers, NaN included."""
    x = (np.random.default_rng(0).normal(size=shape) * 5).astype(kind)
    if kind == "f8":
        x[x > 8] = np.nan
    for ufunc in (np.maximum, np.minimum, *([np.add] if x.dtype.kind in "biu" else [])):
        for keepdims in (True, False):
            found = short_axes.reduce_short_axes(ufunc, x, axis, keepdims)
            want = ufunc.reduce(x, axis, keepdims=keepdims)
            np.testing.assert_array_equal(found, want)
            assert found.dtype == want.dtype


@pytest.mark.parametrize("f", [np.max, np.min])
def test_extremes_of_columns_are_stored_without_masks(f):
    x = np.random.default_rng(0).normal(size=(40, 300))
    x[4, 5] = np.nan
    columns = jit(lambda x: f(x, axis=0))
    np.testing.assert_array_equal(columns(x), f(x, axis=0))
    np.testing.assert_array_equal(columns(x), f(x, axis=0))
    assert "imum" in columns.llvm(x) and "masked.store" not in columns.llvm(x)


FOLDS = {
    "sum": (np.sum, ()),
    "mean": (np.mean, ()),
    "prod": (np.prod, ()),
    "nansum": (np.nansum, ()),
    "cumsum": (np.cumsum, (40,)),
    "cumprod": (np.cumprod, (40,)),
    "reduce": (np.add.reduce, ()),
    "hypot": (np.hypot.reduce, ()),
    "accumulate": (np.multiply.accumulate, (40,)),
    "reduceat": (lambda a, out: np.add.reduceat(a, [0, 7], out=out), (2,)),
    "of some": (lambda a, out: np.sum(a, where=a > 0, out=out), ()),
}


FOLDED = ["f4 f8", "f8 f4", "f4 D", "f2 f4", "i4 f8", "i1 i1"]
COMPLEX_HYPOT = ("hypot", "f4 D")  # NumPy has none


@pytest.mark.parametrize(
    "name, kinds", [each for each in product(FOLDS, FOLDED) if each != COMPLEX_HYPOT]
)
def test_folds_into_an_array_of_another_dtype(name, kinds):
    """NumPy adds up in the wider dtype: sums of float32 into float64 are not rounded to float32."""
    fold, shape = FOLDS[name]
    kind, wide = kinds.split()

    def f(a, start):
        out = np.zeros_like(start)
        fold(a, out=out)
        return out

    a = (np.random.default_rng(0).normal(size=40) * 3).astype(kind)
    expected = f(a, np.zeros(shape, wide))
    rtol = 16 * np.finfo(expected.dtype).eps if expected.dtype.kind in "fc" else 0
    for made in (f, jit(f)):
        found, _ = pullback(made, a, np.zeros(shape, wide))
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=rtol)


def test_gradients_of_extremes():
    """Ties share equally; other elements get 0 for any cotangent; NaN where the extreme is NaN."""
    x = np.array([[1.0, 3.0, 3.0, 2.0], [5.0, np.nan, 0.0, 5.0]])
    for f in (lambda x: np.max(x, axis=1), lambda x: -np.min(-x, axis=1, keepdims=True)[:, 0]):
        want = [[0, 0.5, 0.5, 0], [np.nan] * 4]
        for slope in (jacobian(f, x)[0], jacobian(jit(f), x)[0]):
            slope = np.reshape(slope, (2, 2, 4))
            np.testing.assert_array_equal(slope[0, 0], want[0])
            np.testing.assert_array_equal(slope[1, 1], want[1])
        _, pull = pullback(f, x)
        np.testing.assert_array_equal(pull(np.array([np.inf, 0]))[0][0], [0, np.inf, np.inf, 0])
    with np.errstate(invalid="ignore"):
        tangent = np.array([[np.inf, 2.0, 4.0, np.nan], [1.0] * 4])
        _, t = jvp(lambda x: np.max(x, axis=1), (x,), (tangent,))
    np.testing.assert_array_equal(t, [3.0, np.nan])
