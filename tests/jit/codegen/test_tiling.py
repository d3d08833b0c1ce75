"""Loop tiling: which kernels are tiled, and that each point comes once."""

import importlib

import numpy as np
import pytest
from compiled import agree
from pairwise_parameters import crossed

import tracker
from tracker.jit.codegen.loop_order import BLOCK, STRIP, can_tile, choose_tile

TILE = STRIP.columns


@pytest.mark.parametrize(
    ("space", "reads", "writes", "tile"),
    [
        ((300, 300), [{0: 300, 1: 1}, {0: 1, 1: 300}], [{0: 300, 1: 1}], None),  # only read across
        ((900, 900), [{0: 900, 1: 1}, {0: 1, 1: 900}], [{0: 900, 1: 1}], None),
        ((300, 300), [{0: 300, 1: 1}, {0: 1, 1: 300}], [{0: 1, 1: 300}], STRIP),
        ((512, 512), [{0: 512, 1: 1}, {0: 1, 1: 512}], [{0: 512, 1: 1}], BLOCK),  # whole pages
        ((512, 512), [{0: 512, 1: 1}, {0: 1, 1: 512}], [{0: 1, 1: 512}], STRIP),
        ((512, 4 * TILE - 1), [{0: 1, 1: 512}], [{0: 1, 1: 512}], None),  # too few columns
        ((TILE - 1, 512), [{0: 1, 1: 512}], [{0: 1, 1: 512}], None),  # too few rows
        ((300, 300), [{0: 1, 1: 300}] * 2, [{0: 300, 1: 1}], STRIP),  # their lines leave the cache
        ((300, 200), [{0: 1, 1: 300}] * 2, [{0: 200, 1: 1}], None),
        ((300, TILE), [{0: 1, 1: 300}] * 9, [{0: TILE, 1: 1}], None),  # a single strip
        ((512, 512), [{0: 512, 1: 1}], [{1: 512}], None),  # the same for all rows
        ((512,), [{0: 512}], [{0: 512}], None),
    ],
)
def test_transposed_writes_several_reads_and_page_strides_are_tiled(space, reads, writes, tile):
    order = tuple(range(len(space)))
    assert choose_tile(space, [*reads, *writes], writes, order) is tile


loops = importlib.import_module("tracker.jit.codegen.loop_nest")  # `tracker.jit` is the function


@pytest.fixture
def cut(monkeypatch):
    """Whether each kernel that should be tiled was tiled, in the order of emission."""
    found = []

    def asked(*args):
        found.append(can_tile(*args))
        return found[-1]

    monkeypatch.setattr(loops, "can_tile", asked)
    return found


def crossing(a, b):
    return np.tanh(a) * b.T + a


@crossed(
    dtype=[np.float64, np.float32, np.complex128, np.int64],
    shape=[(512, 4 * TILE), (512, 4 * TILE + 3), (1024, 321)],
    threads=[1, 2],
)
def test_every_point_comes_once(dtype, shape, threads, cut):
    rng = np.random.default_rng(1)
    a = rng.uniform(1, 9, shape).astype(dtype)
    b = rng.uniform(1, 9, shape[::-1]).astype(dtype)
    f = tracker.jit(crossing)
    with tracker.config(threads=threads):
        for _ in range(2):
            np.testing.assert_allclose(f(a, b), crossing(a, b), rtol=1e-5)
    assert all(cut)
    assert cut


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_sums_are_those_of_numpy(axis, threads):
    rng = np.random.default_rng(2)
    a = rng.uniform(0, 1, (512, 1030)).astype(np.float32)
    b = rng.uniform(0, 1, (1030, 512)).astype(np.float32)
    f = tracker.jit(lambda a, b: np.sum(a * b.T, axis=axis))
    exact = np.sum(a.astype(float) * b.T, axis=axis)
    with tracker.config(threads=threads):
        for _ in range(2):
            np.testing.assert_allclose(f(a, b), exact, rtol=5e-6)


@pytest.mark.parametrize("n", [4 * TILE, 4 * TILE + 1, 515])
def test_gradients_with_transposed_writes(n, cut):
    a, b = np.random.default_rng(3).normal(size=(2, n, n))

    def loss(a, b):
        return np.sum(np.tanh(a) * b.T)

    f = tracker.jit(tracker.value_and_grad(loss, argnums=(0, 1)))
    for _ in range(2):
        value, (da, db) = f(a, b)
        np.testing.assert_allclose(value, loss(a, b), rtol=1e-9)
        np.testing.assert_allclose(da, b.T / np.cosh(a) ** 2, rtol=1e-9)
        np.testing.assert_allclose(db, np.tanh(a).T, rtol=1e-9)
    assert any(cut)


def test_the_parts_of_a_loop_that_is_split_are_tiled(cut):
    a, b = np.random.default_rng(5).normal(size=(2, 300, 400))

    def frames(a, b):
        x = np.zeros((400, 300))
        x[1:-1] = a.T[2:] + b.T[:-2]
        x[:, 0] = a[0] * b[0]
        x[:, 2:] = x[:, 2:] - (a * b).T[:, :-2]
        return x

    agree(frames, a, b, tolerance=0)
    assert any(cut)
    agree(lambda a, b: tracker.gradient(lambda a, b: np.sum(frames(a, b) ** 2), a, b), a, b)


def test_tiles_at_the_ends_of_rows_and_columns_are_smaller(cut):
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=(509, 331)), rng.normal(size=(340, 512))
    agree(lambda a, b: a + b[:331, :509].T, a, b, tolerance=0)
    agree(lambda a, b: np.sum(a * b[:331, :509].T, axis=0), a, b, tolerance=1e-12)
    assert any(cut)


def test_each_matrix_of_a_stack_is_tiled(cut):
    a = np.random.default_rng(4).normal(size=(3, 512, 512))
    agree(lambda a: a + a.transpose(0, 2, 1), a, tolerance=0)
    assert any(cut)
