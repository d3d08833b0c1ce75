"""Loops that carry nothing and sum products: as matrix products, and the same values."""

import numpy as np
import pytest
from compare import agree, compiled, loops, optimised

from tracker import gradient, scan

pytestmark = pytest.mark.usefixtures("short_loops_stay")
RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape)


def convolved(x, w):
    """As a convolution is written with loops: images, rows, columns and channels."""
    k, _, _, many = w.shape
    n, height, width, _ = x.shape
    out = np.empty((n, height - k + 1, width - k + 1, many), x.dtype)
    for i in range(out.shape[1]):
        for j in range(out.shape[2]):
            part = x[:, i : i + k, j : j + k, :, np.newaxis]
            out[:, i, j, :] = np.sum(part * w[np.newaxis], axis=(1, 2, 3))
    return out


def rows(row):
    out = np.empty((30, *row(0).shape))
    for i in range(30):
        out[i] = row(i)
    return out


def filtered(x, w):
    return rows(lambda i: np.sum(x[i : i + 8, None] * w, axis=0))


def filtered_rows(x, w):
    return rows(lambda i: np.sum(np.sin(x[i]) * w.T, axis=1))


def scaled(x, w):
    """A factor that is the same in each step, computed there."""
    return rows(lambda i: np.sum(x[i : i + 8, None] * np.exp(w), axis=0))


def joined(x, w):
    rows = []
    for i in range(30):
        part = np.concatenate([x[i : i + 4], x[i + 20 : i + 24]])
        rows.append(np.sum(part[:, None] * w, axis=0))
    return np.stack(rows)


IMAGES, WEIGHTS = normal(2, 15, 16, 3), normal(2, 2, 3, 5)
SIGNAL, TAPS, TABLE = normal(60), normal(8, 10), normal(40, 8)


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (convolved, (IMAGES, WEIGHTS)),
        (filtered, (SIGNAL, TAPS)),
        (filtered_rows, (TABLE, TAPS)),
        (scaled, (SIGNAL, TAPS)),
        (joined, (SIGNAL, TAPS)),
    ],
)
def test_a_loop_that_sums_products_is_a_matrix_product(f, args, monkeypatch):
    monkeypatch.setattr("tracker.ir.passes.contractions._MIN_WORK", 100)
    found = optimised(f, *args)
    assert not loops(found)
    assert found.has_op("matmul")
    agree(lambda *a: np.sum(np.tanh(f(*a))), *args)


def outer_products(x, w):
    total = w[:, :8]
    for i in range(30):
        total = total + np.tanh(x[i])[:, None] * x[i]
    return total


def reversed_sum(x, w):
    total = np.zeros((8, 10))
    for i in range(29, -1, -1):
        total = x[i : i + 8, None] * w + total
    return total


@pytest.mark.parametrize(("f", "x"), [(outer_products, TABLE), (reversed_sum, SIGNAL)])
def test_a_loop_that_adds_products_up_is_a_sum(f, x):
    assert not loops(optimised(f, x, TAPS))
    agree(lambda *a: np.sum(np.sin(f(*a))), x, TAPS)


def test_small_floats_and_complex_numbers():
    for dtype, rtol in ((np.float32, 2e-4), (np.complex128, 1e-11)):
        given = [a.astype(dtype) for a in (IMAGES, WEIGHTS)]
        assert optimised(convolved, *given).has_op("matmul")
        agree(lambda *a: np.sum(np.abs(convolved(*a)) ** 2), *given, rtol=rtol)


@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_infinite_numbers_and_nans_stay_in_their_windows(number):
    x = IMAGES.copy()
    x[1, 3, 4, 2] = number
    with np.errstate(invalid="ignore"):
        found = compiled(convolved, x, WEIGHTS)(x, WEIGHTS)
    assert np.count_nonzero(~np.isfinite(found)) == 4 * 5


def carried(x, w):
    total = np.zeros(10)
    for i in range(30):
        total = np.sum(x[i : i + 8, None] * w, axis=0) + np.tanh(total)
    return total


def without_broadcasting(x, w):
    total = w[0, :8]
    for i in range(30):
        total = total + np.tanh(x[i]) * x[i]
    return total


def without_product(x, w):
    return rows(lambda i: np.sum(np.hypot(x[i : i + 8, None], w), axis=0))


@pytest.mark.parametrize(
    ("f", "x"), [(carried, SIGNAL), (without_product, SIGNAL), (without_broadcasting, TABLE)]
)
def test_other_loops_stay(f, x):
    assert loops(optimised(f, x, TAPS))
    agree(lambda *a: np.sum(f(*a)), x, TAPS)


def counted(x, w):
    """Python's numbers, which raise."""
    total = 0.0
    for i in range(30):
        total += x[i].item() / w[0, 0].item()
    return total


def test_small_loops_are_batched(monkeypatch):
    monkeypatch.setattr("tracker.ir.passes.loops.batch._CACHED_SIZE", 10**5)
    for f, x in ((without_product, SIGNAL), (without_broadcasting, TABLE)):
        assert not loops(optimised(f, x, TAPS))
        agree(lambda *a, f=f: np.sum(f(*a)), x, TAPS)
    assert loops(optimised(carried, SIGNAL, TAPS))
    agree(lambda *a: np.sum(carried(*a)), SIGNAL, TAPS)
    agree(counted, SIGNAL, TAPS)
    with pytest.raises(ZeroDivisionError):
        compiled(counted, SIGNAL, 0 * TAPS)


def test_what_a_loop_carries_and_never_changes():
    """The cotangent of a sum is the same in all steps."""

    def summed(x, w):
        return scan(lambda total, row: (total + np.sin(row) * w[0], row), np.zeros(10), x)[0]

    def slope(x, w):
        return gradient(lambda x: np.sum(np.cos(summed(x, w))), x)[0]

    assert not loops(optimised(slope, SIGNAL, TAPS))
    agree(lambda *a: np.sum(slope(*a) ** 2), SIGNAL, TAPS)


def test_loops_over_much_data_stay(monkeypatch):
    monkeypatch.setattr("tracker.ir.passes.loops.batch._MAX_SIZE", 1000)
    assert loops(optimised(filtered, SIGNAL, TAPS))
    compiled(filtered, SIGNAL, TAPS)


# Gathers ------------------------------------------------------------------------------------------

PLACES, BOUNDS = RNG.integers(-60, 60, (30, 5)), np.cumsum(RNG.integers(0, 5, 31))
VALUES, COLUMNS = normal(BOUNDS[-1]), RNG.integers(0, 60, BOUNDS[-1])


def gathered(x, w):
    """Rows at places, of one array and of two axes of another."""
    return rows(lambda i: x[PLACES[i]] * w[PLACES[i] % 8, PLACES[i] % 3])


def gathered_rows(x, w):
    return rows(lambda i: np.sum(np.exp(w[PLACES[i, :3] % 8]), axis=0) * x[i])


def spread(x, w):
    """Cotangents go to two arrays, to one of them from two places."""
    total = w[0, 0]
    for i in range(30):
        total = (
            total + np.sum(np.sin(x[PLACES[i]]) * w[PLACES[i] % 8, 2]) + np.prod(x[PLACES[i] % 7])
        )
    return total


def sparse_product(values, x):
    out = np.empty(30)
    for i in range(30):
        row = slice(BOUNDS[i], BOUNDS[i + 1])
        out[i] = values[row] @ x[COLUMNS[row]]
    return out


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (gathered, (SIGNAL, TAPS)),
        (gathered_rows, (SIGNAL, TAPS)),
        (spread, (SIGNAL, TAPS)),
        (sparse_product, (VALUES, SIGNAL)),
    ],
)
def test_loops_over_small_rows_that_gather_are_batched(f, args):
    def slopes(*args):
        return gradient(lambda *a: np.sum(np.tanh(f(*a))), *args)

    assert not loops(optimised(slopes, *args))
    agree(lambda *a: np.sum(np.tanh(f(*a))), *args)


def test_a_batched_pullback_reads_what_the_loop_has_read():
    def slopes(*args):
        return gradient(lambda *a: np.sum(np.tanh(sparse_product(*a))), *args)

    taken = [eqn for eqn in optimised(slopes, VALUES, SIGNAL).eqns if eqn.op.name == "taken"]
    assert sum(eqn.operands[0].type.dtype.kind == "i" for eqn in taken) == 1


def test_places_of_each_row_are_checked():
    def f(x, places):
        return rows(lambda i: np.tanh(x[places[i]]))

    fast = compiled(f, SIGNAL, PLACES)
    assert not loops(optimised(f, SIGNAL, PLACES))
    wrong = PLACES.copy()
    wrong[29, 3] = 60
    with pytest.raises(IndexError, match="60"):
        fast(SIGNAL, wrong)


def test_large_rows_that_gather_stay():
    many = RNG.integers(0, 60, (30, 40))

    def f(x):
        return rows(lambda i: np.tanh(x[many[i]]))

    assert loops(optimised(f, SIGNAL))
    agree(lambda x: np.sum(f(x)), SIGNAL)


# Sums of products ---------------------------------------------------------------------------------

A, B = normal(30, 20), normal(20, 25)


def summed_twice(a, b):
    """As the pullback of a loop over images sums: over each image, then over the images."""
    each = np.sum(a.reshape(5, 6, 20, 1) * b.reshape(5, 6, 1, 25), axis=1)
    return np.sum(each[::-1], axis=0)


def summed_from_zero(a, b):
    """As the pullbacks of nested loops sum: each inner one starts with zeros."""
    each = np.sum(a.reshape(5, 6, 20, 1) * b.reshape(5, 6, 1, 25), axis=1, keepdims=True)
    return np.sum(np.zeros((5, 1, 20, 25)) + each, axis=(0, 1))


@pytest.mark.parametrize(
    ("f", "args", "count"),
    [
        (lambda a, b: np.sum(a[:, :, None] * b, axis=1), (A, B), 1),
        (lambda a, b: np.sum(b * a[:, :, None], axis=1), (A, B), 1),
        (lambda a, b: np.sum(a.T[:, :, None] * b[:, None], axis=0), (A, B), 1),
        (lambda a, b: np.sum(a[:, None] * b.T, axis=-1), (A, B), 1),
        (lambda a, b: np.sum(b.T[:, None] * a, axis=2), (A, B), 1),
        (summed_twice, (A, normal(30, 25)), 1),
        (summed_from_zero, (A, normal(30, 25)), 1),
        (lambda a, b: np.sum(a[:, :, None] * b, axis=1, keepdims=True), (A, B), 1),
        (lambda a, b: np.sum(a[:, :, None] * b, axis=0), (A, B), 0),  # a column's sum times a row
        (lambda a, b: np.sum(a[:, :, None] * b[:, :3], axis=1), (A, B), 0),  # narrow
        (lambda a, b: np.sum(a[:3, :, None] * b, axis=1), (A, B), 0),
        (lambda a, b: np.sum(a * b.T[:5, None], axis=1), (A[:20].T[:20], B), 0),
    ],
)
def test_sums_of_products_are_matrix_products(f, args, count):
    found = optimised(f, *args)
    assert sum(eqn.op.name == "matmul" for eqn in found.eqns) == count
    agree(lambda *a: np.sum(np.sin(f(*a))), *args)
