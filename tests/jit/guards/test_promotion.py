"""Captured numbers that change: inputs of a trace, once they have."""

import datetime
import math

import numpy as np
import pytest
from equality import assert_same
from side_by_side import each, program

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


def sets(name, *values):
    return [lambda s, v=v: setattr(s, name, v) for v in values]


def _flags(k):
    def change(s):
        s.flag, s.n = np.bool_(k % 2), np.int64(k)

    return change


def _one_of_two(s):
    s.b = [7.0, np.zeros(3)]


def _shared():
    shared = [1.0, np.ones(3)]
    return {"a": shared, "b": shared}


def _leaving(n):
    def change(s):
        s.k, s.days = n / 2, n

    return change


def _scaled(s):
    s.model.k = s.model.k * 1.5


def _loss(m, x):
    return np.sum(m.plain(x) ** 2) * m.k


class Programs:
    @program(X, state={"n": 1}, changes=sets("n", *range(2, 40)), times=1, traces=3, eager=0)
    def integers_in_arithmetic(x, s):
        return x * s.n + s.n // 2 - s.n**2

    @program(2.0, state={"n": 1}, changes=sets("n", 2, 3, 2**80))
    def an_integer_that_outgrows_64_bits(x, s):
        return x * s.n + s.n // 2 - s.n**2

    @program(X, state={"n": 1}, changes=sets("n", 2, 3, 1, 2, 3, 2, 1), eager=0)
    def integers_that_count_index_and_choose(x, s):
        y = sum(x[i] for i in range(s.n)) + x[s.n - 1] + np.sum(np.ones((s.n, 2)))
        return y * {1: 2.0, 2: 3.0, 3: 4.0}[s.n] if s.n != 2 else -y

    @program(X, state={"k": 3, "other": 3}, changes=[*sets("k", 4, 5, 6, 3), *sets("other", 7)])
    def one_object_at_two_places(x, s):
        return x * s.k + s.other

    @program(
        *[X],
        state=_shared,
        changes=[lambda s, n=n: s.a.__setitem__(0, float(n)) for n in range(5)] + [_one_of_two],
    )
    def a_list_at_two_places(x, s):
        return x * s.a[0] + s.b[0] * s.b[1] + s.a[1]

    @program(X, state={"k": 0.5, "days": 1}, changes=[_leaving(n) for n in range(1, 8)])
    def numbers_that_leave_numpy(x, s):
        late = datetime.timedelta(days=s.days).total_seconds() * s.k
        return x * math.exp(s.k) + late + len(f"{s.k:.3f}") + float(s.k).is_integer()

    @program(X, state={"k": 0.5}, changes=sets("k", *(n / 7 for n in range(20))), traces=3)
    def branches(x, s):
        return x * s.k if s.k > 1 else x + s.k

    @program(X, state={"k": 0.5}, changes=sets("k", *(n / 3 for n in range(5))))
    def results(x, s):
        return s.k, x * s.k

    @program(
        *[X],
        state=lambda: {"model": Model()},
        changes=[_scaled] * 4,
        traces=2,
    )
    def derivatives(x, s):
        return gradient(lambda x: _loss(s.model, x), x)[0]

    @program(X, state={"k": 0.5}, changes=sets("k", *(n / 1.5 for n in range(5))))
    def exceptions(x, s):
        if s.k > 2:
            raise ValueError("too much")
        return x * s.k

    @program(X, state={"k": 0.5, "c": np.zeros(3)}, changes=sets("k", *(n / 3 for n in range(5))))
    def host_functions_and_writes(x, s):
        s.c[0] += s.k
        return np.fft.fft(x * s.k).real * s.k

    @program(
        *[X],
        state={"flag": np.True_, "n": np.int64(1)},
        changes=[_flags(k) for k in range(1, 6)],
    )
    def flags_and_numpy_integers(x, s):
        return (x * s.n if s.flag else -x) + np.sum(np.arange(s.n))


@each(Programs)
def test_numbers_that_change(row):
    row.check()


def test_globals_and_closure_variables(globals_restored):
    global rate, count
    k = 2.0
    f = lambda x: np.sin(x * rate) + k**2 + x * count  # noqa: E731
    g = jit(f)
    for n in range(40):
        rate, k, count = 1.0 / (n + 1), np.float32(n) if n > 20 else float(n), n
        assert_same(g(X), f(X))
    assert g.cache_info().traces <= 4 and g.cache_info().eager == 0
    text = g.explain(X)
    assert "closure variable k is 1.0, not 0.0" in text and "global rate: float" in text


def test_numbers_in_objects_containers_and_classes():
    m = Model()
    for n in range(40):
        m.k, m.parts["a"][1] = float(n), -float(n)
        m.parts["b"] = 0.5 * n, m.parts["b"][1]
        Model.offset = float(n)
        assert_same(m.step(X), m.plain(X))
        assert type(m.k) is type(m.parts["a"][1]) is type(m.parts["b"][0]) is float
    assert Model.step.cache_info().traces <= 3
    Model.offset = 1.0


def test_the_number_itself_is_returned():
    k = 0.5
    g = jit(lambda x: k)
    for n in range(5):
        k = n / 3
        assert g(X) is k


def test_derivatives_of_a_jitted_function():
    m = Model()
    f = jit(lambda x: _loss(m, x))
    for n in range(1, 6):
        m.k = n / 2
        assert_same(gradient(f, X), gradient(lambda x: _loss(m, x), X))
        assert_same(tr.hessian(f, X), tr.hessian(lambda x: _loss(m, x), X))
