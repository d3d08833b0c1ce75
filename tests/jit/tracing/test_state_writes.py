"""Functions that change what they read: attributes, globals, closures, items of containers. What a
call leaves behind is what the plain function leaves, and machine code leaves it."""

import gc
import math
import sys
import types
import warnings

import numpy as np
import pytest
from jit_programs import assert_same
from stateful_objects import MACHINES, Adam, Lent, Nested, Record, Slots, shown

import tracker as tr
from tracker import jit
from tracker.jit.abi import native_callable as native
from tracker.tape.placeholders import PLACEHOLDERS

table = {"x": 1.0, "v": np.ones(2)}
calls = 0


@pytest.fixture(autouse=True)
def _no_plain_runs():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def _called(step, machine, x):
    return step(machine, x + 1.0, x) if type(machine) is Adam else step(machine, x)


@pytest.mark.parametrize("cls", MACHINES)
def test_a_method_that_changes_its_object(cls):
    one, other, step = cls(), cls(), jit(cls.step)
    for k in range(1, 12):
        x, y = np.array([0.1, -0.2, 0.3]) * k, np.array([0.1, -0.2, 0.3]) * k
        want, got = _called(cls.step, one, x), _called(step, other, y)
        assert_same(got, want)
        assert_same(shown(other), shown(one))
        if k in (3, 6, 8) and cls is Adam:  # the user decays the rate
            one.lr = other.lr = one.lr / 2
    info = step.cache_info()
    assert info.eager == 0 and info.slow <= 7
    assert native.entries(step)
    gc.collect()  # of traces of other tests
    assert not PLACEHOLDERS and type(Lent.w) is np.ndarray


def _globals(x):
    global calls
    calls += 1
    table["x"] = table["x"] + x[0]
    table["v"] = table["v"] * x[0]
    return table["v"] * calls


def test_globals():
    global calls
    step, found = jit(_globals), []
    for f in (_globals, step):
        calls = 0
        table.update(x=1.0, v=np.ones(2))
        found.append([(f(np.ones(1) * k), dict(table), calls) for k in range(1, 8)])
    assert_same(*found)
    assert step.cache_info() == (1, 1, 3, 0) and type(calls) is int


def _makes_a_global(x):
    global made_here
    made_here = x + 1.0
    return x * made_here


def _adds_to_a_global(x):
    global made_here
    try:
        made_here = made_here + x
    except NameError:
        made_here = x * 1.0
    return made_here


def _gives_a_library_a_name(x):
    math.made_here = x + 1.0
    return x * math.made_here


@pytest.mark.parametrize(
    ("f", "space"),
    [
        (_makes_a_global, globals()),
        (_adds_to_a_global, globals()),
        (_gives_a_library_a_name, vars(math)),
    ],
)
def test_names_that_are_not_there_before_the_first_call(f, space):
    found = []
    for g in (f, jit(f)):
        shown = []
        for k in range(6):
            shown += g(np.ones(2) * k), space["made_here"]
            if k == 3:
                del space["made_here"]
        found.append(shown)
        del space["made_here"]
    assert_same(*found)


def test_closures():
    def made():
        n, total = 0, np.zeros(2)

        def f(x):
            nonlocal n, total
            n, total = n + 1, total + x
            return total * n

        return f, lambda: (n, total)

    (f, plain), (g, state) = made(), made()
    g = jit(g)
    for k in range(6):
        assert_same(g(np.ones(2) * k), f(np.ones(2) * k))
        assert_same(state(), plain())
    assert g.cache_info().slow == 2


@pytest.mark.parametrize("kind", [jit, lambda f: f])
def test_attributes_of_functions(kind):
    @kind
    def f(x):
        f.count += 1
        f.last = x * f.scale
        return f.last + 1

    for step in (jit(f), jit(lambda x: f(x))):
        f.count, f.scale, f.last = 0, 2.0, None
        for n in range(1, 8):
            f.scale = 2.0 + n // 4
            np.testing.assert_array_equal(step(np.ones(2) * n), np.ones(2) * n * f.scale + 1)
            np.testing.assert_array_equal(f.last, np.ones(2) * n * f.scale)
            assert f.count == n and type(f.last) is np.ndarray
        assert step.cache_info().slow <= 4


def test_arguments():
    def f(state, record, dt):
        state["x"] += dt
        state["new"] = [state["x"], record.v]
        state.pop("old", None)
        record.x, record.v = record.x + dt, record.v * dt
        return state["x"] * record.x

    g = jit(f)
    for k in range(1, 6):
        one, other = ({"old": 1.0, "x": 0.5}, Record()), ({"old": 1.0, "x": 0.5}, Record())
        held = other[0]
        assert_same(g(*other, 0.5 * k), f(*one, 0.5 * k))
        assert_same(other[0], one[0])
        assert_same(shown(other[1]), shown(one[1]))
        assert other[0] is held
    assert g.cache_info() == (1, 1, 1, 0)


class Abandoned:
    def __init__(self):
        self.n, self.log, self.made = 0, [0.0], {}

    def step(self, x, way):
        self.n += 1
        self.log[0] = self.log[0] + 1.0
        self.last = self.n
        if way == "leaves":
            return len(np.asarray(x).tobytes()) + self.n
        if way == "untraceable":
            return np.interp(x[0] * tr.param(1.0), [0.0, 1.0], [1.0, 2.0])
        return tr.gradient(lambda x: np.sum(np.where(x > 0, np.log(x), 0.0)), x)[0] * self.n


@pytest.mark.parametrize("way", ["leaves", "untraceable", "nans"])
@pytest.mark.parametrize("n", [3, 200_000])
def test_an_abandoned_run_is_taken_back(way, n):
    """What cannot be traced runs again, and a gradient with NaNs that was put off."""
    one, other, step = Abandoned(), Abandoned(), jit(Abandoned.step, static="way")
    x = np.zeros(n)
    x[2:] = 2.0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for _ in range(4):
            np.testing.assert_array_equal(tr.data(step(other, x, way)), tr.data(one.step(x, way)))
            assert (other.n, other.log, other.last) == (one.n, one.log, one.last)


def test_a_read_only_function_writes_nothing():
    m, step = Adam(), jit(Adam.step)
    p, g = np.ones(3), np.arange(3.0)
    assert "native call" in step.explain(m, p, g)
    assert "power" in str(step.ir(m, p, g))
    assert m.count == 0 and not np.any(m.m)
    step(m, p, g)
    before = m.m
    step.explain(m, p, g)
    assert m.count == 1 and m.m is before


class Norm:
    """Running statistics, which a derivative reads and changes."""

    def __init__(self):
        self.mean, self.n, self.training = np.zeros(3), 0, True

    def __call__(self, x):
        if not self.training:
            return x - self.mean
        self.n += 1
        self.mean = 0.9 * self.mean + 0.1 * np.mean(x, axis=0)
        return x - np.mean(x, axis=0) + self.mean


def test_derivatives_of_functions_that_change_what_they_read():
    x, w = np.arange(12.0).reshape(4, 3) ** 1.5, np.eye(3) + 0.1

    def run(wrap):
        norm, found = Norm(), []
        f = wrap(lambda x, w: np.sum(norm(x @ w) ** 2))
        for k in range(8):
            norm.training = k % 4 != 3
            found.append(tr.gradient(f, x + k, w))
            found.append(tr.value_and_grad(f)(x - k, w))
            norm.mean = tr.data(norm.mean)  # plain derivatives leave what they followed
            found.append((norm.mean, norm.n))
            value, back = tr.pullback(f, x, w)
            norm.mean = tr.data(norm.mean)
            found.append((value, norm.mean, norm.n))
            found.append(back(1.0))
            found.append((norm.mean, norm.n))
        return found

    for got, want in zip(run(jit), run(lambda f: f), strict=True):
        for a, b in zip(tr.tree.leaves(got), tr.tree.leaves(want), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10)


def test_a_jitted_function_within_another():
    class Outer:
        def __init__(self):
            self.n, self.a = 0, np.ones(2)

        def inner(self, x):
            self.n += 1
            self.a = self.a + x
            return self.a * self.n

        def step(self, x):
            y = self.inner(x)
            self.n += 1
            return y + self.inner(x)

    class Jitted(Outer):
        inner, step = jit(Outer.inner), jit(Outer.step)

    one, other = Outer(), Jitted()
    for k in range(6):
        assert_same(other.step(0.5 * k), one.step(0.5 * k))
        assert_same(other.inner(0.5 * k), one.inner(0.5 * k))
        assert_same(vars(other), vars(one))
    assert Jitted.step.cache_info().eager == Jitted.inner.cache_info().eager == 0


def _scanned(self, x):
    def body(carry, a):
        self.n += 1
        self.total = self.total + a
        return carry + a * self.n, carry

    return tr.scan(body, 0.0, x)[0]


def _repeated(self, x):
    def body(i, carry):
        self.n += i
        self.log.append(carry)
        return carry + x[i] * self.n

    return tr.fori_loop(0, 5, body, self.log.pop())


def _halved(self, x):
    n = 0

    def body(y):
        nonlocal n
        n += 1
        return y / 2

    return tr.while_loop(lambda y: y > 0.3, body, 4 + x[0]) + n


def _chosen(self, x):
    def up(y):
        self.n += 1
        return y + self.n

    def down(y):
        self.n -= 1
        return y - self.n

    return tr.cond(x[0] > 0, up, down, x[1])


@pytest.mark.parametrize("function", [_scanned, _repeated, _halved, _chosen])
def test_bodies_of_loops_and_branches_that_change_what_they_read(function):
    class Walker:
        def __init__(self):
            self.n, self.total, self.log = 0, 0.0, [1.0]

    one, other, f = Walker(), Walker(), jit(function)
    for k in (1.0, 2.0, -1.0, -0.5, 3.0, 2.0):
        x = np.arange(1.0, 7.0) * k
        np.testing.assert_allclose(f(other, x), function(one, x), rtol=1e-14)
        assert (other.n, other.total) == (one.n, one.total)
        del one.log[:-1], other.log[:-1]
        assert other.log == pytest.approx(one.log, rel=1e-14)


def test_what_one_trace_cannot_say_runs_plain():
    class Makes:
        obj = None

        def step(self, x):
            self.obj = types.SimpleNamespace(x=x)
            return x * 2

        def counts(self, x):
            type(self).n += 1
            return x * self.n

        n = 0

    for function in (Makes.step, Makes.counts):
        m, step = Makes(), jit(function)
        with pytest.warns(RuntimeWarning, match=r"plain Python.*changes"):
            for k in range(1, 6):
                assert step(m, float(k)) == (2.0 * k if function is Makes.step else k * k)
        assert m.obj is None or m.obj.x == 5.0
    assert Makes.n == 5


def test_references_and_memory_are_flat():
    m, s, step = Nested(), Slots(), jit(Nested.step)
    x, g = np.array([0.1, 0.2, 0.3]), jit(Slots.step)
    for _ in range(8):
        step(m, x)
        g(s, x)
    things = [m, m.rows, m.window, m.layers, s, x, None, Nested, Slots]
    gc.collect()
    before, blocks = [sys.getrefcount(t) for t in things], sys.getallocatedblocks()
    for _ in range(5000):
        step(m, x)
        g(s, x)
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 500
    after = [sys.getrefcount(t) for t in things]
    assert all(abs(a - b) < 20 for a, b in zip(after, before, strict=True))
    assert s.n == 5008


class _Single:
    held = None
    gain = 1.0

    def __new__(cls):
        if cls.held is None:
            cls.held = object.__new__(cls)
            cls.held.count = 0
        return cls.held

    def __class_getitem__(cls, k):
        return k * cls.gain


def test_what_new_reads_of_its_class():
    def f(x):
        one = _Single()
        one.count += 1
        return x * one.count + _Single[2.0]

    results, x = [], np.arange(3.0)
    for call in (f, jit(f)):
        _Single.held, _Single.gain = None, 1.0
        results.append([])
        for k in range(6):
            _Single.gain = 1.0 + k // 3
            results[-1].append((call(x), _Single.held.count))
    assert_same(*results)
