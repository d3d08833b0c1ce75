"""`back`, which gives the history up as it goes where arrays are large, keeps it, or is `gradient`:
one sweep, and one result."""

import numpy as np
import pytest

from tracker import back, gradient, jit, param

RNG = np.random.default_rng(0)
LARGE = RNG.normal(size=(3000, 3)) + 3  # more than 64 KiB
SMALL = LARGE[:100].copy()
INDEX = np.array([0, 0, 5])
COUNTS = np.arange(3) % 2


def a_loop_of_rows(p):
    total = 0.0
    for row in p[:20]:
        total = total + np.sum(row) ** 2
    return total


def written(p):
    y = p * 2.0
    y[1:] = y[:-1] ** 2
    y[0] = p[3]
    return np.sum(y * p)


def symmetric(p):
    m = p.T @ p
    return np.sum(np.linalg.eigh(m + np.diag(np.arange(3.0)))[0] ** 2)


PROGRAMS = {
    "slice": lambda p: np.sum(p[1:] ** 2),
    "one element": lambda p: p[1, 2] ** 2,
    "row": lambda p: np.sum(p[0] ** 2),
    "column": lambda p: np.sum(p[:, 1] ** 2),
    "a slice alone": lambda p: np.sum(p[1:]),
    "an array of integers": lambda p: np.sum(p[INDEX] ** 2),
    "a mask": lambda p: np.sum(p[p > 3] ** 2),
    "two reads": lambda p: np.sum(p[1:] * p[:-1]),
    "read of a result": lambda p: np.sum((2 * p)[1] ** 2),
    "a read twice of a result": lambda p: (lambda y: np.sum(y[1] * y[2]) + np.sum(y))(np.sin(p)),
    "a read of a read": lambda p: np.sum(np.tanh(p)[1:][2:4] ** 2),
    "last state": lambda p: np.sum(np.tanh(p @ np.ones((3, 3)))[-1]),
    "rows": a_loop_of_rows,
    "written": written,
    "svd": lambda p: np.sum(np.linalg.svd(p, full_matrices=False)[1]),
    "all of svd": lambda p: sum(np.sum(part**2) for part in np.linalg.svd(p[:, :1], False)),
    "qr": lambda p: np.sum(np.linalg.qr(p)[1] ** 2),
    "eigh": symmetric,
    "lstsq": lambda p: np.sum(np.linalg.lstsq(p, p[:, 0] ** 2, rcond=None)[0]),
    "median": lambda p: np.sum(np.median(p, axis=0) ** 2),
    "percentile": lambda p: np.sum(np.percentile(p, [20, 70], axis=0) ** 2),
    "bincount": lambda p: np.sum(np.bincount(COUNTS, p[4]) ** 2) + np.sum(p),
    "strong zeros": lambda p: np.sum(np.where(p > 3, np.sqrt(np.maximum(p - 3, 0)), 0.0)[1:]),
    "strong zeros of a read": lambda p: np.sum(np.where(p < 0, np.sqrt(p - p), p)[0]),
    "strong zeros of parts": lambda p: np.sum(np.linalg.qr(p + np.sqrt(p * 0) * 0)[1]),
}
JITTED = {
    "two results": lambda p: (np.sum(p[1:] ** 2), p * 2),
    "one is read": lambda p: (np.tanh(p[:1]), p * p),
    "written": lambda p: (written(p), p),
}


def loss_of(f):
    def loss(p):
        first, second = f(p)
        return np.sum(first) + np.sum(second[1] ** 2)

    return loss


def accumulated(f, x, once):
    p = param(x)
    back(f(p), once=once)
    return p.grad


@pytest.mark.parametrize("x", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_backward_passes_agree(name, x):
    f = PROGRAMS[name]
    wanted = gradient(f, x)[0]
    assert np.all(np.isfinite(wanted))
    for once in (True, False):
        np.testing.assert_allclose(accumulated(f, x, once), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("x", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("name", JITTED)
def test_all_backward_passes_through_jitted_functions_agree(name, x):
    f, compiled = JITTED[name], jit(JITTED[name])
    wanted = gradient(loss_of(f), x)[0]
    for once in (True, False):
        found = accumulated(loss_of(compiled), x, once)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    np.testing.assert_allclose(gradient(loss_of(compiled), x)[0], wanted, rtol=1e-12)
