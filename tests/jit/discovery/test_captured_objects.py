"""Objects that functions reach: attributes, slots, records, and long or deep containers."""

import dataclasses
import functools
import gc
import types
import weakref

import numpy as np
import pytest
from captured import Model
from compiled import calls_agree
from equality import assert_same

import tracker as tr
from tracker import gradient, jit
from tracker.jit.discovery import captured_state
from tracker.jit.discovery.captured_state import find_captured_state


def _changes(m):
    yield
    m.w[0] = 5.0
    yield
    m.w = np.arange(3.0)
    yield
    m.rate = 0.25
    yield
    m.layers[1] = np.full(3, 3.0)
    yield
    m.layers.append(np.ones(3))
    yield
    m.named["b"] = np.zeros(3)
    yield
    m.shift = 4.0
    yield
    Model.last = lambda self, y: y * self.named["b"]
    yield
    m.activation = np.sin
    yield


@pytest.mark.parametrize("how", ["method", "bound", "closure", "object", "partial", "argument"])
def test_attributes_of_objects(how, monkeypatch):
    monkeypatch.setattr(Model, "last", Model.last)
    m, x = Model(), np.arange(3.0)
    f = {
        "method": lambda: m.step,
        "bound": lambda: jit(m.plain),
        "closure": lambda: jit(lambda x: m.plain(x)),
        "object": lambda: jit(lambda x: m(x) - 1.0),
        "partial": lambda: jit(functools.partial(Model.plain, m)),
        "argument": lambda: functools.partial(jit(lambda m, x: m.plain(x)), m),
    }[how]()
    for _ in _changes(m):
        calls_agree(f, m.plain, x)
    assert type(m.w) is np.ndarray and all(type(v) is np.ndarray for v in m.layers)


class Slotted:
    __slots__ = ("n", "w")

    def __init__(self):
        self.w, self.n = np.ones(3), 2


@dataclasses.dataclass(frozen=True)
class Frozen:
    w: np.ndarray


def test_slots_frozen_dataclasses_and_modules():
    s, d, m = Slotted(), Frozen(np.ones(3)), types.ModuleType("settings")
    m.gain, m.table = 3.0, np.ones(3)

    def f(x):
        return x * s.w * s.n + d.w * m.gain + 2 * m.table

    g, x = jit(f), np.arange(3.0)
    for change in (
        lambda: None,
        lambda: setattr(s, "w", np.arange(3.0)),
        lambda: setattr(s, "n", 5),
        lambda: d.w.fill(4.0),
        lambda: setattr(m, "gain", -1.0),
        lambda: setattr(m, "table", np.zeros(3)),
    ):
        change()
        calls_agree(g, f, x)


class Named:
    def __init__(self, name):
        self.name = name

    def __call__(self, x):
        return getattr(np, self.name)(x)


class Answering:
    """A proxy: to every name that it has not, also to `__dict__`, it answers with a function."""

    __slots__ = ("k",)

    def __init__(self):
        self.k = 2.0

    def __getattr__(self, name):
        return Named(name)


class Items(dict):
    __slots__ = ()
    __setattr__ = dict.__setitem__
    __getattr__ = dict.__getitem__  # KeyError for `__dict__`


def test_objects_without_attributes_that_answer_to_every_name():
    proxy, items = Answering(), Items(a=2.0)

    def f(x):
        return proxy.sin(x) * proxy.k * items.a

    def counted(x):
        proxy.k, items.a = proxy.k + 1.0, items.a * 2.0
        return x * proxy.k * items.a

    g, x = jit(f), np.arange(3.0)
    calls_agree(g, f, x)
    proxy.k, items.a = 3.0, 5.0
    calls_agree(g, f, x)
    h = jit(counted)
    assert [float(h(x)[1]) for _ in range(3)] == [40.0, 100.0, 240.0]
    assert proxy.k == 6.0 and items == {"a": 40.0}


def test_objects_are_not_kept_alive():
    refs = []
    for _ in range(2):
        m = Model()
        m.step(np.arange(3.0)), m.step(np.arange(3.0))
        refs += [weakref.ref(m), weakref.ref(m.w)]
        del m
    gc.collect()
    assert [ref() for ref in refs] == [None] * 4


def test_long_lists_of_numbers():
    table = [float(k) for k in range(1000)]
    keyed = {k: float(k) for k in range(500)}

    def f(x):
        return x * table[700] + keyed[3]

    g = jit(f)
    calls_agree(g, f, 2.0)
    table[700] = -1.0
    calls_agree(g, f, 2.0)
    keyed[3] = 8
    calls_agree(g, f, 2.0)


def test_large_lists_of_lists():
    """Compared as one constant: checks of each number would be as long as the list."""
    steps = [(k % 3, float(k), ("name", k)) for k in range(400)]
    layers = {"a": [[k, k + 1] for k in range(300)], "b": {"c": (True, None)}}

    def f(x):
        for kind, number, (_, last) in steps[:5]:
            x = x * number + last if kind else x - number
        return x * layers["a"][7][1] if layers["b"]["c"][0] else x

    g = jit(f)
    calls_agree(g, f, 2.0)
    assert g.llvm(2.0).count("\n") < 600
    changes = [
        lambda: steps.__setitem__(1, (1, -2.0, ("name", 1))),
        lambda: steps.__setitem__(1, (1, -2, ("name", 1))),
        lambda: steps.__setitem__(1, (True, -2, ("name", 1))),
        lambda: steps.__setitem__(3, (1, 2.5, ("name", 1), 4)[:3]),
        lambda: layers["a"][7].__setitem__(1, -0.0),
        lambda: layers["a"][7].__setitem__(1, 0.0),
        lambda: layers["a"][7].append(5),
        lambda: layers["b"].__setitem__("c", (False, None)),
    ]
    for traces, change in enumerate(changes, 2):
        change()
        calls_agree(g, f, 2.0)
        assert g.cache_info().traces == min(traces, 9)
    steps[1] = tuple(steps[1])
    calls_agree(g, f, 2.0)
    assert g.cache_info().traces == len(changes) + 1


def test_lists_of_lists_with_arrays_are_flattened():
    table = [[float(k), np.full(3, float(k))] for k in range(300)]

    def f(x):
        return x * table[2][0] + table[3][1]

    g = jit(f, max_traces=20)
    calls_agree(g, f, np.ones(3))
    table[3][1][0] = 7.0
    calls_agree(g, f, np.ones(3))


def test_a_long_chain_of_objects_is_looked_at_once(monkeypatch):
    class Link:
        def __init__(self, weight, next):
            self.weight, self.next = weight, next

    def total(link):
        def f(x):
            at = link
            while at.next is not None:
                at = at.next
            return x * at.weight

        return f

    looks = []
    look = captured_state._Walker._visit_object
    monkeypatch.setattr(
        captured_state._Walker, "_visit_object", lambda self, x: looks.append(x) or look(self, x)
    )
    counts = []
    for length in (40, 80):
        link = None
        for k in range(length):
            link = Link(float(k + 1), link)
        looks.clear()
        places = find_captured_state(total(link)).sources
        assert len(places) >= 2 * length
        counts.append(len(looks))
    assert counts[1] <= 2 * counts[0] + 4


class _Node:
    def __init__(self, value, children=()):
        self.value, self.children = value, children

    def total(self, x):
        return x * sum(child.value for child in self.children)


def test_more_objects_than_a_call_can_compare():
    root = _Node(0.0, [_Node(1.0) for _ in range(8000)])
    fast = jit(root.total)
    with pytest.warns(RuntimeWarning, match="it can read more than 20,000 names and attributes"):
        assert fast(2.0) == 16_000.0
    root.children[7].value = 3.0
    assert fast(2.0) == 16_004.0


def test_params_in_objects():
    m = Model()
    m.w = tr.param(m.w)
    f = jit(lambda x: np.sum(m.plain(x)))
    x = np.arange(3.0)
    for _ in range(2):
        tr.back(f(x))
        got = tr.grad(m.w).copy()
        tr.zero_grad(m.w)
        tr.back(np.sum(m.plain(x)))
        assert_same(got, tr.grad(m.w))
        tr.zero_grad(m.w)
        want = gradient(lambda x: np.sum(m.plain(x)), x)
        assert_same(gradient(f, x), tr.tree.map(tr.data, want))
        tr.update(m.w, 0.5 * np.ones(3))


class _Holder:
    def __init__(self):
        self.a, self.b = np.arange(4.0), 2.0


def _called_with(get, name):
    return lambda: get(name)


BY_TEXT = {
    "getattr": lambda o: functools.partial(getattr, o, "a"),
    "a number": lambda o: functools.partial(getattr, o, "b"),
    "object's": lambda o: functools.partial(object.__getattribute__, o, "a"),
    "in two steps": lambda o: functools.partial(functools.partial(getattr, o), "a"),
    "named later": lambda o: _called_with(functools.partial(getattr, o), "a"),
    "a default": lambda o: functools.partial(getattr, o, "c", 1.0),
    "get of a dict": lambda o: functools.partial(vars(o).get, "a"),
    "get, named later": lambda o: _called_with(vars(o).get, "b"),
}


def _writing_then_reading(get):
    def f(x):
        x[0] = x[1] * 10
        return np.sum(get()) * x

    return f


@pytest.mark.parametrize("name", BY_TEXT)
def test_what_a_builtin_function_finds_by_a_bound_text(name):
    o = _Holder()
    f = _writing_then_reading(BY_TEXT[name](o))
    fast = jit(f)
    x, y = np.arange(4.0), np.arange(4.0)
    for step in range(4):
        np.testing.assert_array_equal(fast(y), f(x))
        o.a[1] += step
        if step == 1:
            o.a, o.b = o.a + 1.0, 5.0


@pytest.mark.parametrize("name", BY_TEXT)
def test_it_sees_what_is_written_into_an_argument_that_is_the_same_array(name):
    def results(compile):
        o = _Holder()
        f = compile(_writing_then_reading(BY_TEXT[name](o)))
        return [f(o.a).copy(), f(o.a[1:]).copy(), f(o.a).copy()]

    for ours, plain in zip(results(jit), results(lambda f: f), strict=True):
        np.testing.assert_array_equal(ours, plain)
