"""Large blocks are reused, and never while they are in use."""

import ctypes
import gc
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tracker
from tracker.jit.runtime import allocator, c_symbols


@pytest.fixture(
    params=[
        allocator.MIN_BLOCK,
        allocator.HUGE_PAGE - allocator.BLOCK_UNIT + 8,
        allocator.HUGE_PAGE,
    ]
)
def N(request):
    return request.param // 8 + 1000


def address(array):
    return array.__array_interface__["data"][0]


@pytest.fixture
def double(N):
    f = tracker.jit(lambda x: x * 2.0)
    f(np.ones(N))
    return f


@pytest.fixture
def blocks():
    """take(size) and give(address, size)."""
    take = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int64)(c_symbols.address_of("tk.take"))
    give = ctypes.CFUNCTYPE(None, ctypes.c_size_t, ctypes.c_int64)(c_symbols.address_of("tk.give"))
    return take, give


def test_the_memory_of_a_freed_result_is_reused(double, N):
    x = np.arange(float(N))
    places = set()
    for k in range(6):
        y = double(x + k)
        assert np.array_equal(y, (x + k) * 2.0)
        assert y.flags.owndata and y.base is None
        places.add(address(y))
        del y
    assert len(places) == 1


def test_live_results_keep_their_memory(double, N):
    x = np.arange(float(N))
    kept = [double(x + k) for k in range(2 * allocator.MAX_BLOCKS)]
    assert len({address(y) for y in kept}) == len(kept)
    for k, y in enumerate(kept):
        assert np.array_equal(y, (x + k) * 2.0)
    views = [y[5:] for y in kept]
    del kept, y
    gc.collect()
    fresh = double(x)
    for k, view in enumerate(views):
        assert np.array_equal(view, (x[5:] + k) * 2.0)
        assert not np.shares_memory(view, fresh)


def test_a_result_can_be_resized(double, N):
    y = double(np.arange(float(N)))
    for size in (3 * N, 10, 2 * N):
        y.resize(size, refcheck=False)
        y[-1] = 7.0
        assert y[1] == 2.0 and y[-1] == 7.0
    del y
    assert double(np.ones(N))[-1] == 2.0


def test_results_are_seen_by_tracemalloc(double, N):
    x = np.ones(N)
    tracemalloc.start()
    try:
        y = double(x)
        assert tracemalloc.get_traced_memory()[0] >= y.nbytes
        del y
        assert tracemalloc.get_traced_memory()[0] < x.nbytes
    finally:
        tracemalloc.stop()


def test_large_scratch_comes_from_the_allocator():
    def f(x):
        return np.sum(np.sort(np.exp(x) @ x)) + np.sum(np.exp(x) @ np.tanh(x))

    x = np.random.default_rng(0).standard_normal((700, 700)) * 0.1
    fast = tracker.jit(f)
    fast(x)
    for k in range(3):
        np.testing.assert_allclose(fast(x + k), f(x + k), rtol=1e-12)
    assert "@tk.take" in fast.llvm(x)


def test_many_threads(double, N):
    def work(k):
        x = np.full(N, float(k))
        return all(bool((double(x + i) == 2.0 * (k + i)).all()) for i in range(20))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


@pytest.mark.parametrize("unit", [allocator.MIN_BLOCK, allocator.HUGE_PAGE])
def test_blocks_of_many_sizes(blocks, unit):
    take, give = blocks
    for k in range(1, 3 * allocator.MAX_BLOCKS):
        size = k * unit
        block = take(size)
        assert block
        ctypes.memset(block, k % 256, size)
        give(block, size)
    last = take(size)
    assert last == block
    give(last, size)


def test_a_slightly_longer_block_is_reused(blocks):
    take, give = blocks
    unit = allocator.HUGE_PAGE
    others = [take(16 * unit) for _ in range(allocator.MAX_BLOCKS)]  # left by earlier tests
    long, longer = take(17 * unit), take(20 * unit)
    give(longer, 20 * unit)
    short = take(16 * unit)
    assert short != longer  # much longer: too much would be unused
    give(long, 17 * unit)
    assert take(16 * unit - 5) == long
    give(long, 16 * unit - 5)
    assert take(16 * unit) == long  # it counts as no longer than its last request
    for block in (long, short, *others):
        ctypes.memset(block, 1, 1)
        give(block, 16 * unit)


def test_nothing_is_kept_where_pages_cannot_be_given_back(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert allocator._kept_bytes_limit() == 0


def test_no_more_is_kept_than_the_limit(blocks):
    take, give = blocks
    limit = allocator._kept_bytes_limit()
    assert limit > 0 or sys.platform != "linux"
    size = limit // 4
    held = [take(size) for _ in range(6)]
    for block in held:
        ctypes.memset(block, 7, 1)
        give(block, size)
    again = [take(size) for _ in range(6)]
    # Memory from the system is zero, even at the address of a former block.
    assert sum(ctypes.string_at(block, 1) == b"\7" for block in again) == 4 or not limit
    for block in again:
        give(block, size)
    huge = take(limit + 1)
    give(huge, limit + 1)


def test_small_requests_go_to_the_c_library(blocks):
    take, give = blocks
    block = take(100)
    ctypes.memset(block, 1, 100)
    give(block, 100)
