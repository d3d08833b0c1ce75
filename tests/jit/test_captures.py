"""What a function reads besides its arguments: each call sees it as the plain function does."""

import cmath
import dataclasses
import functools
import gc
import importlib
import math
import threading
import types
import warnings
import weakref

import numpy as np
import pytest
from jit_programs import assert_same
from test_parity import agree

import tracker as tr
from tracker import gradient, jit
from tracker.jit import reads
from tracker.jit.reads import places_of
from tracker.tracked import Tracked

A = np.linspace(-1.0, 2.0, 40)
scale, weights, offsets, chosen = 2.0, np.ones(3), {"a": np.zeros(3), "b": [1.0, 2.0]}, np.sin


def _same(f, plain, *args):
    """Twice, so that the second call is machine code."""
    for _ in range(3):
        assert_same(f(*args), plain(*args))


def _uses_globals(x):
    return chosen(x) * scale + weights + offsets["a"] * offsets["b"][0]


@pytest.fixture
def globals_restored():
    names = "scale", "weights", "offsets", "chosen"
    kept = {name: globals()[name] for name in names}
    yield
    globals().update(kept)


def test_globals_that_are_rebound(globals_restored):
    global scale, weights, offsets, chosen
    f, x = jit(_uses_globals), np.arange(3.0)
    _same(f, _uses_globals, x)
    scale = 3
    _same(f, _uses_globals, x)
    weights = np.arange(3.0)
    _same(f, _uses_globals, x)
    weights = np.arange(3)  # another dtype
    _same(f, _uses_globals, x)
    weights = 4.0
    _same(f, _uses_globals, x)
    chosen = np.cos
    _same(f, _uses_globals, x)
    offsets["a"] = np.full(3, 7.0)
    _same(f, _uses_globals, x)
    offsets["b"][0] = -1.0
    _same(f, _uses_globals, x)
    offsets = {"a": 1.0, "b": (2.0,)}
    _same(f, _uses_globals, x)


def test_arrays_rebound_at_each_call_need_one_trace(globals_restored):
    global weights
    f = jit(lambda x: x * weights + np.sum(weights**2))
    for k in range(40):
        weights = np.full(3, float(k))
        assert_same(f(2.0), 2.0 * weights + np.sum(weights**2))
    assert f.cache_info().traces == 1 and f.cache_info().slow == 1


def test_closure_variables_that_are_rebound():
    n, w, function = 2.0, np.ones(3), np.sin

    def f(x):
        return function(x * n) + w

    g = jit(f)
    x = np.arange(3.0)
    _same(g, f, x)
    n = 3.0
    _same(g, f, x)
    w = np.arange(3.0)
    _same(g, f, x)
    function = np.cos
    _same(g, f, x)
    n = np.float32(0.5)
    _same(g, f, x)
    n = float("nan")
    _same(g, f, x)
    n = -0.0
    assert np.signbit(jit(lambda x: x * n)(1.0))


def test_numbers_equal_to_what_they_were_are_no_new_trace():
    n = 0.5

    def f(x):
        return x * n

    g = jit(f)
    g(1.0)
    for _ in range(5):
        n = float("0.5")
        assert g(3.0) == 1.5
    assert g.cache_info().slow == 1


def test_plain_numpy_on_captured_arrays():
    c = np.array([1.0, 2.0, 3.0])
    n = np.array([4, 5, 6])

    def f(x):
        y = 2 * c
        if c[0] > 2:
            y = y + c.sum()
        return y * x + np.exp(c).max() + n[1] + c[n - 4][::-1]

    g = jit(f)
    for k in (1.0, 3.0, -1.0, 5.0):
        c[:] = np.array([1.0, 2.0, 3.0]) * k
        n[1] = 4 + int(k) % 3
        _same(g, f, 2.0)
    assert g.cache_info().traces >= 2


def test_captured_arrays_that_leave_numpy_are_compared():
    knots = np.array([0.0, 1.0, 2.0])

    def f(x):
        return np.interp(1.5, knots.tolist(), [3.0, 4.0, 5.0]) * x + float(knots[1])

    g = jit(f)
    for k in (1.0, 2.0, 1.0, 0.5):
        knots[1] = k
        _same(g, f, np.arange(3.0))


def test_captured_arrays_in_functions_without_a_rule():
    edges, values = np.array([0.0, 1.0, 2.0]), np.array([0.5, np.nan, 1.5])

    def f(x):
        return x * np.histogram(values[::2], edges)[0] + len(edges.tobytes()) + edges.tobytes()[0]

    g = jit(f)
    for last in (2.0, 1.2, 5.0):
        edges[2] = last
        _same(g, f, np.arange(2.0))
    assert gradient(jit(lambda x: np.sum(f(x))), np.arange(2.0))[0].tolist() == [1.0, 1.0]


def test_derivatives_in_captured_arrays_do_not_leave():
    w = np.ones(3)
    f = jit(lambda x: gradient(lambda w: float(w[0]) * np.sum(w), w)[0] * x)
    with pytest.warns(RuntimeWarning, match="plain Python"), pytest.raises(tr.ConversionError):
        f(2.0)


def test_writes_into_captured_arrays():
    c, d = np.zeros(3), np.zeros((2, 3))

    def f(x):
        c[0] += x
        c[1:] *= 2.0
        d.T[...] = c[:, None]
        return c.sum() + d[0, 0]

    g = jit(f)
    for k in range(5):
        c[:], d[...] = [1.0, 2.0, k], k
        want_c, want_d = c.copy(), d.copy()
        want_c[0] += 2.0
        want_c[1:] *= 2.0
        want_d.T[...] = want_c[:, None]
        assert_same(g(2.0), want_c.sum() + want_d[0, 0])
        assert_same((c, d), (want_c, want_d))


def test_a_counter_in_an_array():
    calls = np.zeros((), int)

    def f(x):
        calls[...] += 1
        return x * 2

    g = jit(f)
    for k in range(5):
        assert g(1.0) == 2.0 and calls == k + 1


def test_a_captured_array_that_is_returned_is_itself():
    c = np.ones(3)
    f = jit(lambda x: (c, x * c))
    for _ in range(3):
        assert f(2.0)[0] is c


def test_a_captured_array_as_argument():
    c = np.ones(3)

    def f(x):
        x[0] = 5.0
        c[1] += 1.0
        return x.sum() + 10 * c.sum()

    g = jit(f)
    for _ in range(3):
        for given in (c, np.zeros(3), c[:], c[::-1]):
            c[:] = 1.0
            want = f(given)
            left = c.copy(), given.copy()
            c[:] = 1.0
            given[:] = 0.0 if given.base is None and given is not c else 1.0
            assert_same(g(given), want)
            assert_same((c, given), left)


def test_one_array_in_two_places():
    c = np.ones(3)
    d = c

    def f(x):
        c[0] = x
        return d.sum()

    g = jit(f)
    for k in (2.0, 3.0):
        assert g(k) == k + 2.0
    d = np.full(3, 7.0)
    assert g(4.0) == 21.0 and c[0] == 4.0
    d = c[:2]
    assert g(5.0) == 6.0
    assert g(6.0) == 7.0


# Objects -----------------------------------------------------------------------------------------


class Model:
    shift = 1.0

    def __init__(self, n=3):
        self.w = np.ones(n)
        self.rate = 0.5
        self.layers = [np.ones(n), np.zeros(n)]
        self.named = {"b": np.full(n, 2.0)}
        self.activation = np.tanh

    def plain(self, x):
        y = self.activation(x * self.w) * self.rate + self.shift
        for layer in self.layers:
            y = 2 * layer + y
        return self.last(y)

    def last(self, y):
        return y + self.named["b"] * self.twice

    @property
    def twice(self):
        return 2 * self.rate

    @jit
    def step(self, x):
        return self.plain(x)

    def __call__(self, x):
        return self.plain(x) + 1.0


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
        _same(f, m.plain, x)
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
        _same(g, f, x)


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
    _same(g, f, x)
    proxy.k, items.a = 3.0, 5.0
    _same(g, f, x)
    h = jit(counted)
    assert [float(h(x)[1]) for _ in range(3)] == [40.0, 100.0, 240.0]
    assert proxy.k == 6.0 and items == {"a": 40.0}


def test_many_objects_of_one_class():
    models = [Model() for _ in range(5)]
    for k, m in enumerate(models):
        m.w *= k
    for _ in range(3):
        for m in models:
            assert_same(m.step(np.arange(3.0)), m.plain(np.arange(3.0)))


def test_objects_are_not_kept_alive():
    refs = []
    for _ in range(2):
        m = Model()
        m.step(np.arange(3.0)), m.step(np.arange(3.0))
        refs += [weakref.ref(m), weakref.ref(m.w)]
        del m
    gc.collect()
    assert [ref() for ref in refs] == [None] * 4


# Functions ---------------------------------------------------------------------------------------


def _helper(x):
    return x * weights.sum()


def test_helpers_are_followed(globals_restored):
    global weights, _helper
    f = jit(lambda x: _helper(x) + 1.0)
    weights[:] = 2.0
    assert f(1.0) == f(1.0) == 7.0
    weights[:] = 1.0
    assert f(1.0) == 4.0
    kept = _helper
    try:
        _helper = lambda x: x - 1.0  # noqa: E731
        assert f(1.0) == f(1.0) == 1.0
    finally:
        _helper = kept
    assert f(1.0) == 4.0


def _uses_a_module(x):
    return x * backend.sqrt(4.0)


def test_modules_that_are_rebound():
    global backend
    f, x = jit(_uses_a_module), np.ones(2)
    try:
        for module in (math, cmath, math):
            backend = module
            _same(f, _uses_a_module, x)
    finally:
        del backend
    with pytest.raises(NameError):
        f(x)


def test_functions_made_in_a_loop():
    made = [jit(lambda x, k=k: x * k) for k in range(4)]
    late = [jit(lambda x: x * k) for k in range(4)]  # noqa: B023 (late binding is the point)
    for _ in range(2):
        assert [f(2.0) for f in made] == [0.0, 2.0, 4.0, 6.0]
        assert [f(2.0) for f in late] == [6.0] * 4


def test_arrays_as_defaults_and_in_partials():
    c, k = np.ones(3), {"b": np.ones(3)}

    def f(x, c=c, *, extra=k):
        return 2 * c * x + 3 * extra["b"]

    g, h = jit(f), jit(functools.partial(f, 2.0, extra=k))
    for n in (1.0, 2.0, 3.0):
        c[:] = n
        k["b"][:] = -n
        _same(g, f, 2.0)
        _same(h, functools.partial(f, 2.0, extra=k))
    assert f.__defaults__[0] is c


def test_wrapped_and_recursive_functions():
    c = np.ones(3)

    def doubled(f):
        @functools.wraps(f)
        def call(*args):
            return 2 * f(*args)

        return call

    @doubled
    def f(x, n):
        return c.sum() * x if n == 0 else f(x, n - 1)

    @jit
    def power(x, n):
        return 2 * c[0] * x if n == 0 else x * power(x, n - 1)

    g = jit(f)
    for n in (1.0, 2.0):
        c[:] = n
        _same(g, f, 2.0, 3)
        assert power(2.0, 3) == power(2.0, 3) == 2 * n * 16.0


def test_inner_functions_and_comprehensions():
    c = [np.ones(3), np.ones(3)]

    def f(x):
        def inner(k):
            return sum(2 * w * k for w in c)

        return inner(x) + np.sum([3 * w for w in c][1])

    g = jit(f)
    for n in (1.0, 2.0):
        c[0][:] = n
        c[1] = np.full(3, 5 * n)
        _same(g, f, 2.0)


def test_long_lists_of_numbers():
    table = [float(k) for k in range(1000)]
    keyed = {k: float(k) for k in range(500)}

    def f(x):
        return x * table[700] + keyed[3]

    g = jit(f)
    _same(g, f, 2.0)
    table[700] = -1.0
    _same(g, f, 2.0)
    keyed[3] = 8
    _same(g, f, 2.0)


def test_large_lists_of_lists():
    """They are compared as a whole: code that looks at each number would be as long."""
    steps = [(k % 3, float(k), ("name", k)) for k in range(400)]
    layers = {"a": [[k, k + 1] for k in range(300)], "b": {"c": (True, None)}}

    def f(x):
        for kind, number, (_, last) in steps[:5]:
            x = x * number + last if kind else x - number
        return x * layers["a"][7][1] if layers["b"]["c"][0] else x

    g = jit(f)
    _same(g, f, 2.0)
    lines = sum(piece.modules[0].text.count("\n") for piece in _pieces(g))
    assert lines < 600
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
        _same(g, f, 2.0)
        assert g.cache_info().traces == min(traces, 9)
    steps[1] = tuple(steps[1])
    _same(g, f, 2.0)
    assert g.cache_info().traces == len(changes) + 1


def _pieces(g):
    (family,) = g._jitted.families.values()
    return [piece for special in family.specials for piece in special.compiled.pieces]


def test_lists_of_lists_with_arrays_are_taken_apart():
    table = [[float(k), np.full(3, float(k))] for k in range(300)]

    def f(x):
        return x * table[2][0] + table[3][1]

    g = jit(f, max_traces=20)
    _same(g, f, np.ones(3))
    table[3][1][0] = 7.0
    _same(g, f, np.ones(3))


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
    look = reads._Walk._object
    monkeypatch.setattr(reads._Walk, "_object", lambda self, x: looks.append(x) or look(self, x))
    counts = []
    for length in (40, 80):
        link = None
        for k in range(length):
            link = Link(float(k + 1), link)
        looks.clear()
        places = places_of(total(link))
        assert len(places) >= 2 * length
        counts.append(len(looks))
    assert counts[1] <= 2 * counts[0] + 4


# What a call changes -----------------------------------------------------------------------------


def test_state_that_each_call_changes():
    class Counter:
        n = 0
        last = None

    counter, log, total = Counter(), [], 0.0

    def f(x):
        nonlocal total
        counter.n += 1
        counter.last = x * 2
        log.append(x * 3)
        total = total + x
        return x * counter.n

    g = jit(f)
    for k in range(1, 8):
        assert_same(g(np.float64(k)), np.float64(k * k))
    assert counter.n == 7 and counter.last == 14.0 and total == 28.0
    assert log == [3.0 * k for k in range(1, 8)]
    for x in (counter.last, total, *log):
        assert type(x) is np.float64


def test_values_made_once():
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


def test_an_exception_leaves_no_stand_in():
    c, d, m = np.ones(3), [(np.ones(3), 1)], Model()
    pair = d[0]

    def f(x):
        y = 2 * c + d[0][0] + m.w
        if x > 1:
            raise KeyError("no")
        return y

    g = jit(f)
    for x in (0.0, 2.0, 0.0, 2.0):
        if x > 1:
            with pytest.raises(KeyError):
                g(x)
        else:
            g(x)
        assert type(c) is type(d[0][0]) is type(m.w) is np.ndarray
        assert d[0] is pair


def test_gradients_of_functions_with_captures():
    m, c = Model(), np.arange(3.0)

    def loss(x):
        return np.sum(m.plain(x) * (2 * c) ** 2)

    f = jit(loss)
    x = np.array([0.1, 0.2, 0.3])
    for _ in range(3):
        for g in (lambda x: gradient(f, x), jit(lambda x: gradient(loss, x))):
            assert_same(g(x), gradient(loss, x))
            assert_same(g(x), gradient(loss, x))
        c += 1.0
        m.w = m.w * 2.0
        m.rate *= 0.5


def test_gradients_in_captured_arrays():
    w = np.ones(3)

    def step(x):
        return gradient(lambda w: np.sum((w * x) ** 2), w)[0]

    g = jit(step)
    for k in range(3):
        w = np.full(3, float(k))
        _same(g, step, np.arange(3.0))


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


def test_values_followed_by_a_derivative_outside():
    def loss(w):
        inner = jit(lambda x: np.sum(2 * w * x))
        return inner(A) + inner(A)

    assert_same(gradient(loss, 3.0), (float(4 * np.sum(A)),))


def test_threads_see_no_stand_in():
    c = np.ones(40)
    wrong = []

    def work(k):
        functions = [jit(lambda x: (2 * c) @ x), jit(lambda x: np.sum(c * x) * 2)]
        for f in functions * 3:
            y = f(A + k)
            if isinstance(y, Tracked) or not np.isclose(y, 2 * np.sum(A + k)):
                wrong.append(y)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_functions_without_captures_look_at_their_code_only():
    f = jit(lambda x: np.sin(x) * 2.0 + abs(x))
    f(1.0)
    (family,) = f._jitted.families.values()
    assert [place.kind for place in family.specials[0].trace.call.places] == [
        "slot",
        "names",
        "names",
        "names",
    ]


def test_explain_names_captures():
    c = np.ones(3)
    text = jit(lambda x: x * c).explain(2.0)
    assert "closure variable c: f64[3]" in text
    agree(lambda x: x * c, 2.0)


def test_a_derivative_reads_what_its_function_reads():
    """The names in our own code cost a call nothing."""
    w = np.ones(3)
    f = jit(lambda x: np.sum(x * w))
    tr.value_and_grad(f)(w)
    (derived,) = f._jitted.derived.values()
    labels = [place.label for place in places_of(derived)]
    own = "names in test_captures"  # which module `np` is
    assert labels == ["code of <lambda>", "closure variable w", own, "names in numpy"]


def test_a_derivative_of_a_function_that_writes_minds_shared_memory():
    """Compiled for arrays apart, it is not used for arrays that share memory."""

    def f(x, y):
        x[0] = 5.0
        return np.sum(x * y)

    fast = jit(f)
    a, b = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    for _ in range(2):
        assert_same(gradient(fast, a, b), gradient(f, a, b))
    for x, y in ((a, a), (a, a[:]), (a[:2], a[1:])):
        for g in (f, fast):
            for _ in range(2):
                refused = pytest.raises(tr.UnsupportedError, match="shares memory with another")
                with refused, warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    gradient(g, x, y)
    assert_same(gradient(fast, a, b), gradient(f, a, b))


@pytest.mark.parametrize("directory", ["site-packages", "dist-packages"])
def test_what_is_installed_anywhere_is_not_followed(tmp_path, monkeypatch, directory):
    """The user's own directory of packages, and the system's, are no place of the interpreter's."""
    (tmp_path / directory).mkdir()
    text = "scale = [2.0]\n\ndef scaled(x):\n    return x * scale[0]\n"
    (tmp_path / directory / f"installed_{directory[:4]}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path / directory)
    library = importlib.import_module(f"installed_{directory[:4]}")

    def f(x):
        return library.scaled(x) + weights[0]

    labels = {place.label for place in places_of(f)}
    assert "global weights" in labels
    assert "global scale" not in labels


@pytest.mark.filterwarnings("ignore:.*runs in plain Python:RuntimeWarning")
@pytest.mark.parametrize("scale", [None, 3.0])
def test_a_param_made_in_a_jitted_function(scale):
    def f(x):
        p = tr.param(np.ones(3))
        tr.back(np.sum(p * (x if scale is None else scale)))
        return tr.grad(p)

    fast = tr.jit(f)
    for x in (np.arange(3.0), np.ones(3)):
        for _ in range(2):
            np.testing.assert_array_equal(fast(x), f(x))
    with pytest.raises(tr.CompileError, match="use tracker"):
        tr.jit(f, strict=True)(np.ones(3))


# Caches ------------------------------------------------------------------------------------------


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
def test_caches_that_are_asked_for_an_argument():
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
def test_a_cache_that_is_emptied_is_filled_anew(kind):
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
