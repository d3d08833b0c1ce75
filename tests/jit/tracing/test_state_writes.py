"""Functions that change what they read: attributes, globals, closures, items of containers. What a
call leaves behind is what the plain function leaves, and machine code leaves it."""

import argparse
import colorsys
import gc
import threading
import types

import numpy as np
import pytest
from equality import assert_same
from side_by_side import each, program
from stateful_objects import MACHINES, Adam, Lent, Record

import tracker as tr
from tracker import istracked, jit
from tracker.jit.abi import native_callable as native
from tracker.tape.tracing.placeholders import PLACEHOLDERS

table, logged = {"x": 1.0, "v": np.ones(2)}, []
calls = 0


@pytest.fixture(autouse=True)
def alone():
    """Threads of other tests have ended: what another thread may write is traced twice."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(20.0)


def _decayed(s):
    """The user changes something."""
    if type(s) is Adam:
        s.lr = s.lr / 2


@pytest.mark.parametrize("cls", MACHINES)
def test_a_method_that_changes_its_object(cls):
    calls = [np.array([0.1, -0.2, 0.3]) * k for k in (1, 2, 3, 4)]
    row = program(*calls, times=1, state=cls, given=True, changes=[_decayed] * 2, eager=0)
    if cls is Adam:
        step = row(lambda x, machine: machine.step(x + 1.0, x)).check()
    else:
        step = row(lambda x, machine: machine.step(x)).check()
    assert step.cache_info().slow <= 7
    assert native.entries(step)
    gc.collect()  # of traces of other tests
    assert not PLACEHOLDERS and type(Lent.w) is np.ndarray


def _globals(x):
    global calls
    calls += 1
    table["x"] = table["x"] + x[0]
    table["v"] = table["v"] * x[0]
    logged.append(x[0])
    return table["v"] * calls


def test_globals():
    global calls
    step, found = jit(_globals), []
    for f in (_globals, step):
        calls = 0
        table.update(x=1.0, v=np.ones(2))
        logged.clear()
        found.append([(f(np.ones(1) * k), dict(table), calls, [*logged]) for k in range(1, 8)])
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
    colorsys.made_here = x + 1.0
    return x * colorsys.made_here


@pytest.mark.parametrize(
    ("f", "space"),
    [
        (_makes_a_global, globals()),
        (_adds_to_a_global, globals()),
        (_gives_a_library_a_name, vars(colorsys)),
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


def _mapping_and_record(dt):
    return {"old": 1.0, "x": 0.5}, Record(), dt


class Abandoned:
    def __init__(self):
        self.n, self.log, self.made = 0, [0.0], {}


def _abandoned(n, **expected):
    x = np.zeros(n)
    x[2:] = 2.0
    return program(x, times=4, state=Abandoned, given=True, **expected)


def _counted(s):
    s.n += 1
    s.log[0] = s.log[0] + 1.0
    s.last = s.n


def _leaves(x, s):
    _counted(s)
    return len(np.asarray(x).tobytes()) + s.n


def _untraceable(x, s):
    _counted(s)
    return tr.data(np.interp(x[0] * tr.param(1.0), [0.0, 1.0], [1.0, 2.0]))


def _nans(x, s):
    _counted(s)
    with np.errstate(all="ignore"):
        return tr.gradient(lambda x: np.sum(np.where(x > 0, np.log(x), 0.0)), x)[0] * s.n


@pytest.mark.parametrize("f", [_leaves, _untraceable, _nans])
@pytest.mark.parametrize("n", [3, 200_000])
def test_an_abandoned_run_is_taken_back(f, n):
    """What cannot be traced runs again, and a gradient with NaNs that was put off."""
    _abandoned(n, warns="plain Python" if f is _leaves else "")(f).check()


class Single:
    def __init__(self):
        self.gain = 1.0

        class One:
            held, gain = None, 1.0

            def __new__(cls):
                if cls.held is None:
                    cls.held = object.__new__(cls)
                    cls.held.count = 0
                return cls.held

            def __class_getitem__(cls, k):
                return k * cls.gain

        self.cls = One


def _put_on_its_class(s):
    s.cls.gain = 2.0


class Makes:
    n = 0

    def __init__(self):
        self.obj = None


class Programs:
    @program(*[lambda k=k: _mapping_and_record(0.5 * k) for k in range(1, 6)], traces=1, slow=1)
    def arguments(state, record, dt):
        state["x"] += dt
        state["new"] = [state["x"], record.v]
        state.pop("old", None)
        record.x, record.v = record.x + dt, record.v * dt
        return state["x"] * record.x

    @program(np.arange(3.0), times=3, state=Single, changes=[_put_on_its_class])
    def what_new_reads_of_its_class(x, s):
        one = s.cls()
        one.count += 1
        return x * one.count + s.cls[2.0], one.count

    @program(*[np.arange(1.0, 7.0) * k for k in (1.0, 2.0, -1.0)], state={"n": 0, "total": 0.0})
    def a_scan(x, s):
        def body(carry, a):
            s.n += 1
            s.total = s.total + a
            return carry + a * s.n, carry

        return tr.scan(body, 0.0, x)[0]

    @program(*[np.arange(1.0, 7.0) * k for k in (1.0, 2.0, -1.0)], state={"n": 0, "log": [1.0]})
    def a_counted_loop(x, s):
        def body(i, carry):
            s.n += i
            s.log.append(carry)
            return carry + x[i] * s.n

        carry = tr.fori_loop(0, 5, body, s.log.pop())
        del s.log[:-1]
        return carry

    @program(*[np.arange(1.0, 7.0) * k for k in (1.0, 2.0, -1.0)])
    def a_loop_with_a_condition(x):
        n = 0

        def body(y):
            nonlocal n
            n += 1
            return y / 2

        return tr.while_loop(lambda y: y > 0.3, body, 4 + x[0]) + n

    @program(*[np.arange(1.0, 7.0) * k for k in (1.0, 2.0, -1.0, -0.5, 3.0)], state={"n": 0})
    def branches(x, s):
        def up(y):
            s.n += 1
            return y + s.n

        def down(y):
            s.n -= 1
            return y - s.n

        return tr.cond(x[0] > 0, up, down, x[1])

    @program(1.0, 2.0, state=lambda: type("Counts", (Makes,), {})(), given=True, warns="changes")
    def a_class_that_is_changed(x, s):
        type(s).n += 1
        return x * s.n


@each(Programs)
def test_what_is_changed(row):
    row.check()


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


@pytest.mark.parametrize("cls", [types.SimpleNamespace, argparse.Namespace])
def test_an_object_that_is_made_and_kept(cls):
    def step(s, x):
        s.obj = cls(x=x)
        return x * 2

    m, step = Makes(), jit(step)
    with pytest.warns(RuntimeWarning, match=r"plain Python.*changes"):
        for k in range(1, 6):
            assert step(m, float(k)) == 2.0 * k and m.obj.x == k
            assert not istracked(m.obj.x)
