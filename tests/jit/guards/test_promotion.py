"""Captured numbers that change: inputs of a trace, once they have."""

import datetime
import math

import numpy as np
import pytest
from jit_programs import assert_same

import tracker as tr
from tracker import gradient, jit

rate, count = 0.5, 1
X = np.arange(3.0)


@pytest.fixture
def globals_restored():
    kept = rate, count
    yield
    globals().update(rate=kept[0], count=kept[1])


class Model:
    offset = 1.0

    def __init__(self):
        self.w, self.k, self.parts = np.ones(3), 2.0, {"a": [1.0, 2.0], "b": (3.0, np.ones(3))}

    def plain(self, x):
        return self.w * x * self.k + self.parts["a"][1] + self.parts["b"][0] + self.offset

    step = jit(plain)


def test_a_number_that_changes_at_each_call_needs_two_traces(globals_restored):
    global rate
    k = 2.0

    def f(x):
        return np.sin(x * rate) + k**2

    g = jit(f)
    for n in range(40):
        rate, k = 1.0 / (n + 1), np.float32(n) if n > 20 else float(n)
        assert_same(g(X), f(X))
    assert g.cache_info().traces <= 4 and g.cache_info().eager == 0
    text = g.explain(X)
    assert "closure variable k is 1.0, not 0.0" in text and "global rate: float" in text


def test_numbers_in_objects_and_containers():
    m = Model()
    for n in range(40):
        m.k, m.parts["a"][1] = float(n), -float(n)
        m.parts["b"] = 0.5 * n, m.parts["b"][1]
        Model.offset = float(n)
        assert_same(m.step(X), m.plain(X))
        assert type(m.k) is type(m.parts["a"][1]) is type(m.parts["b"][0]) is float
    assert Model.step.cache_info().traces <= 3
    del Model.offset
    Model.offset = 1.0


def test_integers_used_in_arithmetic(globals_restored):
    global count
    f = lambda x: x * count + count // 2 - count**2  # noqa: E731
    g = jit(f)
    for n in range(1, 40):
        count = n
        assert_same(g(X), f(X))
    assert g.cache_info().traces == 3
    count = 2**80
    assert_same(g(2.0), f(2.0))


def test_integers_that_count_index_and_choose(globals_restored):
    global count

    def f(x):
        y = sum(x[i] for i in range(count)) + x[count - 1] + np.sum(np.ones((count, 2)))
        return y * {1: 2.0, 2: 3.0, 3: 4.0}[count] if count != 2 else -y

    g = jit(f)
    for n in (1, 2, 3, 1, 2, 3, 2, 1):
        count = n
        assert_same(g(X), f(X))
    assert g.cache_info().eager == 0


def test_one_object_at_two_places(globals_restored):
    """Both hold the number 3, the very object; one of them changes."""
    m = Model()
    m.k, m.shift = 3, 3
    f = lambda x: x * m.k + m.shift  # noqa: E731
    g = jit(f)
    for n in (3, 4, 5, 6, 3, 3):
        m.k = n
        assert_same(g(X), f(X))
    m.shift = 7
    assert_same(g(X), f(X))


def test_a_list_at_two_places():
    shared = [1.0, np.ones(3)]
    a, b = shared, shared

    def f(x):
        return x * a[0] + b[0] * b[1] + a[1]

    g = jit(f)
    for n in range(5):
        shared[0] = float(n)
        assert_same(g(X), f(X))
    assert type(shared[0]) is float and type(shared[1]) is np.ndarray
    b = [7.0, np.zeros(3)]
    assert_same(g(X), f(X))


def test_numbers_that_leave_numpy():
    """What needs a plain number gets one."""
    k, days = 0.5, 1

    def f(x):
        late = datetime.timedelta(days=days).total_seconds() * k
        return x * math.exp(k) + late + len(f"{k:.3f}") + float(k).is_integer()

    g = jit(f)
    for n in range(1, 8):
        k, days = n / 2, n
        assert_same(g(X), f(X))
    assert type(k) is float and type(days) is int


def test_branches_on_numbers_that_vary():
    k = 0.5

    def f(x):
        return x * k if k > 1 else x + k

    g = jit(f)
    for n in range(20):
        k = n / 7
        assert_same(g(X), f(X))
    assert g.cache_info().traces <= 4


def test_the_number_itself_is_returned():
    k = 0.5
    g = jit(lambda x: (k, x * k))
    for n in range(5):
        k = n / 3
        got = g(X)
        assert got[0] is k
        assert_same(got[1], X * k)


def test_derivatives():
    m = Model()

    def loss(x):
        return np.sum(m.plain(x) ** 2) * m.k

    f, whole = jit(loss), jit(lambda x: gradient(loss, x))
    for n in range(1, 6):
        m.k = n / 2
        assert_same(gradient(f, X), gradient(loss, X))
        assert_same(whole(X), gradient(loss, X))
        assert_same(tr.hessian(f, X), tr.hessian(loss, X))
    assert whole.cache_info().traces == 2


def test_an_exception_leaves_the_number():
    k = 0.5

    def f(x):
        if k > 2:
            raise ValueError("too much")
        return x * k

    g = jit(f)
    for n in range(5):
        k = n / 1.5
        if k > 2:
            with pytest.raises(ValueError, match="too much"):
                g(X)
        else:
            assert_same(g(X), f(X))
        assert type(k) is float


def test_host_functions_and_writes():
    k, c = 0.5, np.zeros(3)

    def f(x):
        c[0] += k
        return np.fft.fft(x * k).real * k

    g = jit(f)
    for n in range(5):
        k = n / 3
        c[:] = 0.0
        got = g(X)
        assert c[0] == k
        c[:] = 0.0
        assert_same(got, f(X))


def test_flags_and_numpy_integers_stay_constants_longer():
    flag, n = np.True_, np.int64(1)

    def f(x):
        return (x * n if flag else -x) + np.sum(np.arange(n))

    g = jit(f)
    for k in range(1, 6):
        flag, n = np.bool_(k % 2), np.int64(k)
        assert_same(g(X), f(X))
    assert type(n) is np.int64 and type(flag) is np.bool_
