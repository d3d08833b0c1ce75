"""Caches of `functools.lru_cache` in compiled functions: filled as by the plain function, plain
data only.
"""

import functools
import gc
import weakref

import numpy as np
import pytest
from equality import assert_same

from tracker import gradient, jit


def test_values_computed_once():
    class Lazy:
        table = None

        def get(self):
            if self.table is None:
                self.table = np.arange(3.0)
            return self.table

    lazy = Lazy()
    f = jit(lambda x: x * lazy.get() + 2 * lazy.get())
    for _ in range(4):
        assert_same(f(2.0), 4.0 * np.arange(3.0))
    lazy.table = np.ones(3)
    assert_same(f(2.0), 4.0 * np.ones(3))
    assert f.cache_info().eager == 0


def _with_a_cache():
    w, calls = np.ones(3), []

    @functools.lru_cache
    def scaled(n):
        calls.append(n)
        return w * n

    def f(x, n=2):
        return x * scaled(len(x) - 1) + w * n

    return f, w, scaled, calls


def test_what_a_cache_keeps_is_plain_and_stays():
    (f, w, plain, want), (g, v, kept, calls) = _with_a_cache(), _with_a_cache()
    g = jit(g)
    for _ in range(6):
        assert_same(g(np.arange(3.0)), f(np.arange(3.0)))
        w += 1.0
        v += 1.0
        assert type(kept(2)) is np.ndarray
    assert_same((kept(2), calls), (plain(2), want))
    assert g.cache_info().traces == 1


@pytest.mark.filterwarnings("ignore:.*fills a cache")
def test_caches_keyed_by_an_argument():
    _, _, scaled, _ = _with_a_cache()
    f = jit(lambda x, n: x * scaled(n))
    sizes = jit(lambda x, n: x * identity(n)[0, 0])
    identity = functools.cache(lambda n: np.eye(n))
    for n in (1, 1, 2, 2, 3, 3, 1, 2):
        assert_same(f(np.arange(3.0), n), np.arange(3.0) * n)
        assert_same(sizes(np.arange(3.0), n), np.arange(3.0))
        assert type(scaled(n)) is np.ndarray
    assert not sizes.cache_info().eager


@pytest.mark.parametrize("kind", [functools.cache, functools.lru_cache, functools.lru_cache(3)])
def test_a_cleared_cache_is_filled_again(kind):
    known = {}
    get = known.get  # what stands behind a method that is no Python code, nobody can look at

    @kind
    def scaled(n):
        return get(n)

    f = lambda x: x * scaled(1)  # noqa: E731
    fast = jit(f)
    for value in (2.0, 3.0, 5.0, 7.0):
        known[1] = value
        scaled.cache_clear()
        for _ in range(int(value) - 2):  # by others, who may ask as often as had been asked
            assert scaled(1) == value
        for n in range(2, 6):
            assert_same(fast(np.ones(3)), np.full(3, value))
            if kind is functools.cache:
                scaled(n)  # another thing that is kept says nothing of the first
    assert not fast.cache_info().eager
    if kind is functools.cache:
        assert fast.cache_info().traces <= 4


def test_a_cache_goes_with_what_it_belongs_to():
    def made():
        class Model:
            @functools.cache  # noqa: B019
            def double(self, n):
                return {"n": 2.0 * n, "of": self}

        model = Model()
        assert jit(lambda x: x * model.double(2)["n"], strict=True)(1.0) == 4.0
        return weakref.ref(Model)

    found = made()
    gc.collect()
    assert found() is None


def test_caches_of_methods_within_derivatives():
    class Model:
        def __init__(self):
            self.w = np.arange(3.0)

        @functools.cache  # noqa: B019 (the model lives as long as the test)
        def outer(self, n):
            return np.outer(self.w, self.w) * n

        def __call__(self, x):
            return np.sum((self.outer(2) @ x) ** 2)

    one, other = Model(), Model()
    f = jit(lambda x: gradient(other, x)[0])
    for _ in range(4):
        assert_same(f(np.ones(3)), gradient(one, np.ones(3))[0])
        assert type(other.outer(2)) is np.ndarray
    assert f.cache_info().traces == 1


@pytest.mark.filterwarnings("ignore:.*fills a cache")
@pytest.mark.parametrize("room", [None, 2, 128])
def test_what_a_cache_gets_later_is_plain(room):
    w, n = np.ones(3), [1]
    scaled = functools.lru_cache(maxsize=room)(lambda n: w * n)
    f = jit(lambda x: np.sum(scaled(n[0]) * x))
    for n[0] in range(1, 9):
        assert f(2.0) == 6.0 * n[0]
        assert type(scaled(n[0])) is np.ndarray


@pytest.mark.filterwarnings("ignore:.*each call changes")
def test_a_function_that_writes_into_an_array_of_a_cache():
    def make():
        counts = functools.lru_cache(lambda n: np.zeros(n))

        def f(x):
            counts(3)[0] += 1
            return np.sum(counts(3) * x)

        return f, counts

    (f, plain), (g, kept) = make(), make()
    g = jit(g)
    for x in (1.0, 2.0, 3.0, 1.5, 2.0, 2.0):
        assert g(x) == f(x)
        assert_same(kept(3), plain(3))


@pytest.mark.parametrize("room", [None, 128])
def test_others_write_into_an_array_of_a_cache(room):
    table = functools.lru_cache(maxsize=room)(lambda n: np.arange(float(n)))
    f = jit(lambda x: table(3)[0] * x)
    for i in range(4):
        table(3)[0] = i
        assert f(2.0) == 2.0 * i
    for _ in range(4):
        f(3.0)
    assert f.cache_info().eager == 0
