"""Parallel loops: the same numbers on any number of threads."""

import math
import os
from concurrent.futures import ThreadPoolExecutor

import fresh_python
import numpy as np
import pytest
from pairwise_parameters import crossed

import tracker
from tracker.jit.runtime import thread_pool

pytestmark = pytest.mark.optimised

N = 300_001


def mixed(x, w):
    y = np.tanh(x * w) * np.exp(-(x**2))
    return np.sum(y), np.max(y), np.mean(y * x), y


def slices(x):
    return np.sum(np.tanh(x[1:] - x[:-1]) ** 2) + np.prod(1.0 + 1e-7 * np.sin(x))


def softmax(x, b, c):
    z = np.tanh(x * c + b)
    e = np.exp(z - np.max(z, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def rows_and_all(x, b, c):
    y = np.tanh(x + b) * np.exp(-(c**2))
    return np.sum(y, axis=1), np.sum(y), np.max(y[:, 3:-2] * x[:, ::-1][:, 5:]), np.prod(y, axis=1)


def transposed(x, b, c):
    return np.exp(np.sin(x.T * b[:, None])) * np.tanh(c[:, 0])


def shared(f, threads):
    with tracker.config(threads=threads):
        fast = tracker.jit(f)
        fast(*ARGUMENTS[f])
    return fast


RNG = np.random.default_rng(0)
ROWS = (RNG.standard_normal((500, 601)), RNG.standard_normal(601), RNG.standard_normal((500, 1)))
ARGUMENTS = {
    mixed: (RNG.standard_normal(N), RNG.standard_normal(N)),
    slices: (RNG.standard_normal(N),),
    **dict.fromkeys((softmax, rows_and_all, transposed), ROWS),
}


@crossed(f=ARGUMENTS, threads=[1, 2, 3, 7], dtype=[np.float64, np.float32])
def test_any_number_of_threads_gives_the_plain_result(f, threads, dtype):
    arguments = [a.astype(dtype) for a in ARGUMENTS[f]]
    single = 2e-4 if ARGUMENTS[f] is ROWS else 2e-5
    tolerance = 1e-11 if dtype is np.float64 else single
    with tracker.config(threads=threads):
        fast = tracker.jit(f)
        fast(*arguments)
    assert ("tk.parallel" in fast.llvm(*arguments)) == (threads > 1)
    for given in (arguments, [a * dtype(0.7) for a in arguments]):
        got, expected = fast(*given), f(*given)
        got, expected = (v if isinstance(v, tuple) else (v,) for v in (got, expected))
        for a, b in zip(got, expected, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


LONG = np.full(1_000_003, 0.1)


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize(
    "f, want",
    [
        (np.sum, math.fsum(LONG)),
        (np.mean, 0.1),
        (lambda x: np.sum(x * (1 + 2j)), math.fsum(LONG) * (1 + 2j)),
        (lambda x: np.sum(x * np.ones((2, 1)), axis=1)[1], math.fsum(LONG)),
        (lambda x: np.sum(x[3:].reshape(-1, 10) * np.ones(10)), math.fsum(LONG[3:])),
        (lambda x: np.sum(x[3:].reshape(-1, 4) * np.ones(4)), math.fsum(LONG[3:])),
        (lambda x: tracker.gradient(lambda c: np.sum(x * c), 1.0)[0], math.fsum(LONG)),
    ],
)
def test_long_sums_are_exact_to_a_few_digits(f, want, threads):
    """They are added up by blocks."""
    with tracker.config(threads=threads):
        fast = tracker.jit(f)
        for _ in range(2):
            np.testing.assert_allclose(fast(LONG), want, rtol=2e-14)


def test_long_sums_of_infinities():
    fast = tracker.jit(np.sum)
    for values, want in (([np.inf], np.inf), ([np.inf, -np.inf], np.nan), ([1e308] * 3, np.inf)):
        x = np.zeros(30_000)
        x[[5, 20_000, 29_999][: len(values)]] = values
        for _ in range(2):
            np.testing.assert_equal(fast(x), want)


@pytest.mark.parametrize("threads", [2, 5])
def test_gradients(threads):
    x = ARGUMENTS[slices][0]
    with tracker.config(threads=threads):
        fast = tracker.value_and_grad(tracker.jit(slices))
        fast(x)
    value, gradient = tracker.value_and_grad(slices)(x * 0.5)
    for _ in range(3):
        again, compiled = fast(x * 0.5)
        np.testing.assert_allclose(again, value, rtol=1e-11)
        np.testing.assert_allclose(compiled, gradient, rtol=1e-9, atol=1e-12)


def test_results_do_not_depend_on_the_threads():
    fast = shared(mixed, 3)
    first = fast(*ARGUMENTS[mixed])
    with ThreadPoolExecutor(6) as pool:
        others = list(pool.map(lambda _: fast(*ARGUMENTS[mixed]), range(24)))
    for other in others:
        for a, b in zip(first, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_far_argument_in_one_part_only():
    fast = shared(slices, 2)
    x = ARGUMENTS[slices][0].copy()
    x[N - 3] = 1e300
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(fast(x), slices(x), rtol=1e-11)


def test_short_loops_run_on_the_calling_thread():
    with tracker.config(threads=4):
        fast = tracker.jit(np.sin)
        fast(np.ones(1000))
    assert "tk.parallel" not in fast.llvm(np.ones(1000))


def test_how_many_threads():
    with tracker.config(threads=3):
        assert thread_pool.thread_count() == 3
    with tracker.config(threads=1000):
        assert thread_pool.thread_count() == thread_pool.MAX_THREADS
    with tracker.config(threads=0):
        assert 1 <= thread_pool.thread_count() <= thread_pool.MAX_THREADS


FORKING = """
import os, sys
import numpy as np, tracker
with tracker.config(threads=3):
    f = tracker.jit(lambda x: np.sum(np.tanh(x) * np.exp(x)))
    x = np.linspace(0.0, 1.0, 400_000)
    expected = f(x)
    expected = f(x)
for _ in range(3):
    child = os.fork()
    if child == 0:
        os._exit(0 if f(x) == expected else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
assert f(x) == expected
print("ok")
"""


@pytest.mark.parametrize("run", range(3))
def test_forked_processes_and_clean_exits(run):
    assert fresh_python.run(FORKING, TRACKER_CACHE="0").stdout == "ok\n"


@pytest.mark.parametrize("threads", [2, 3])
def test_gradients_over_rows(threads):
    def loss(x, b, c):
        return np.sum(softmax(x, b, c) * x)

    with tracker.config(threads=threads):
        fast = tracker.jit(lambda *a: tracker.gradient(loss, *a))
        fast(*ROWS)
    assert "tk.parallel" in fast.llvm(*ROWS)
    for a, b in zip(fast(*ROWS), tracker.gradient(loss, *ROWS), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_processors_are_counted_where_a_process_has_no_set_of_them(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    with tracker.config(threads=0):
        assert thread_pool.thread_count() == 3
