"""Names given as text: reads by reflection, and attributes named like reflection functions."""

import array
import collections
import contextvars
import ctypes
import dataclasses
import dis
import importlib
import inspect
import operator
import os
import queue
import sys
import threading
import types
import warnings
import weakref

import few_names
import numpy as np
import pytest
from compiled import calls_agree
from equality import assert_same

from tracker import gradient, jit
from tracker.jit.discovery.bytecode import instructions, referenced_names
from tracker.jit.discovery.captured_state import find_captured_state

X = np.arange(1.0, 4.0)
factor, which = 2.0, "factor"
HERE = sys.modules[__name__]


class _Held:
    """An object with some attributes."""

    def __init__(self, **attributes):
        vars(self).update(attributes)

    def get(self):
        return self.v


class _Meta(type):
    v = 2.0

    @property
    def by_property(cls):
        return cls.v

    def by_method(cls):
        return cls.v

    def __getitem__(cls, key):
        return cls.v * key


class _Described:
    """A descriptor that reads a global."""

    def __get__(self, instance, owner):
        return factor


@dataclasses.dataclass
class _Settings:
    v: float = 2.0
    n: int = 3


class _Answering:
    gain = 1.0

    def __init__(self):
        self.b = 1.0

    def __getattr__(self, name):
        if name == "virtual":
            return 7.0 * self.b
        raise AttributeError(name)

    def named(self, name):
        return getattr(self, name)


def _rebinds(*values):
    """Changes of the global `factor`."""
    return [lambda s, v=v: globals().update(factor=v) for v in values]


def _sets(*values, name="v"):
    return [lambda s, v=v: setattr(s, name, v) for v in values]


def _puts(key, *values):
    return [lambda s, v=v: operator.setitem(s, key, v) for v in values]


def _by_import(x, s):
    import test_bytecode as test_reflection

    return x * test_reflection.factor


def _by_from(x, s):
    from test_bytecode import factor as scale

    return x * scale


def _defaulting(x, k=2.0, *, n=3.0):
    return x * k * n


def _replaced(x):
    return x * 2.0


def _with_code_made_by_exec():
    space = {}
    exec("def scaled(self, x): return x * self.v", space)
    return _Held(v=2.0, scaled=space["scaled"])


def _by_default(x, s):
    return x * inspect.signature(_defaulting).parameters["k"].default


# What it reads, how, what changes.
READS = {
    "globals()[]": (lambda: 0, lambda x, s: x * globals()["factor"], _rebinds(3.0, 2.0)),
    "globals().get": (lambda: 0, lambda x, s: x * globals().get("factor"), _rebinds(3.0, 2.0)),
    "globals()[name]": (lambda: few_names, few_names.by_name, _sets(3.0, 2.0, name="factor")),
    "vars(module)": (lambda: 0, lambda x, s: x * vars(HERE)["factor"], _rebinds(3.0)),
    "module.__dict__": (lambda: 0, lambda x, s: x * HERE.__dict__["factor"], _rebinds(3.0)),
    "getattr of a module": (lambda: 0, lambda x, s: x * getattr(HERE, "factor"), _rebinds(3.0)),  # noqa: B009
    "getattr by a name": (lambda: 0, lambda x, s: x * getattr(HERE, which), _rebinds(3.0)),
    "sys.modules": (lambda: 0, lambda x, s: x * sys.modules[__name__].factor, _rebinds(3.0)),
    "import": (lambda: 0, _by_import, _rebinds(3.0)),
    "from": (lambda: 0, _by_from, _rebinds(3.0)),
    "import_module": (
        lambda: 0,
        lambda x, s: x * importlib.import_module("test_bytecode").factor,
        _rebinds(3.0),
    ),
    "eval": (lambda: 0, lambda x, s: x * eval("factor + 1"), _rebinds(3.0)),
    "eval of text": (lambda: few_names, few_names.evaluated, _sets(3.0, name="factor")),
    "exec": (lambda: few_names, few_names.executed, _sets(3.0, name="factor")),
    "getattr": (lambda: _Held(v=2.0), lambda x, s: x * getattr(s, "v"), _sets(3.0)),  # noqa: B009
    "getattr, default": (_Held, lambda x, s: x * getattr(s, "v", 7.0), _sets(3.0, 4.0)),
    "getattr in a loop": (
        lambda: _Held(v=2.0, n=3.0),
        lambda x, s: x * sum(getattr(s, k) for k in ("v", "n")),
        _sets(3.0),
    ),
    "getattr by made-up names": (
        lambda: _Held(v1=2.0),
        lambda x, s: x * getattr(s, f"v{1}"),
        _sets(3.0, name="v1"),
    ),
    "hasattr": (
        _Held,
        lambda x, s: x * (2.0 if hasattr(s, "v") else 3.0),
        [*_sets(1), lambda s: delattr(s, "v"), *_sets(1)],
    ),
    "vars": (
        lambda: _Held(v=2.0),
        lambda x, s: x * sum(vars(s).values()),
        [*_sets(3.0), *_sets(3.0, name="new")],
    ),
    "__dict__": (lambda: _Held(v=2.0), lambda x, s: x * s.__dict__["v"], _sets(3.0)),
    "an array in __dict__": (
        lambda: _Held(v=np.ones(3)),
        lambda x, s: x * (2 * s.__dict__["v"]),
        [*_sets(np.full(3, 2.0)), lambda s: s.v.fill(7.0)],
    ),
    "dir": (
        lambda: _Held(v=2.0),
        lambda x, s: x * len([n for n in dir(s) if not n.startswith("_")]),
        _sets(3.0, name="new"),
    ),
    "asdict": (_Settings, lambda x, s: x * dataclasses.asdict(s)["v"], _sets(3.0)),
    "attrgetter": (
        lambda: (_Held(v=2.0), operator.attrgetter("v")),
        lambda x, s: x * s[1](s[0]),
        [lambda s: setattr(s[0], "v", 3.0)],
    ),
    "methodcaller": (
        lambda: (_Held(v=2.0), operator.methodcaller("get")),
        lambda x, s: x * s[1](s[0]),
        [lambda s: setattr(s[0], "v", 3.0)],
    ),
    "methodcaller within": (
        lambda: _Held(v=2.0),
        lambda x, s: x * operator.methodcaller("get")(s),
        _sets(3.0),
    ),
    "a descriptor": (
        lambda: type("Owner", (), {"v": _Described()})(),
        lambda x, s: x * s.v,
        _rebinds(3.0),
    ),
    "a metaclass": (
        lambda: _Meta("Owner", (), {}),
        lambda x, s: x * s.by_property * s.by_method() * s[2],
        [lambda s: setattr(_Meta, "v", 3.0), *_sets(5.0), lambda s: setattr(_Meta, "v", 2.0)],
    ),
    "context variable": (
        lambda: contextvars.ContextVar("v", default=2.0),
        lambda x, s: x * s.get(),
        [lambda s: s.set(3.0), lambda s: s.set(2.0)],
    ),
    "an array in a context variable": (
        lambda: contextvars.ContextVar("v", default=np.ones(3)),  # noqa: B039
        lambda x, s: x * (2 * s.get()),
        [lambda s: s.get().fill(5.0), lambda s: s.set(np.full(3, 4.0)), lambda s: s.set(1.5)],
    ),
    "context variable without a value": (
        lambda: contextvars.ContextVar("v"),
        lambda x, s: x * s.get(7.0),
        [lambda s: s.set(3.0)],
    ),
    "os.environ[]": (
        lambda: os.environ,
        lambda x, s: x * float(os.environ["TRIED"]),
        _puts("TRIED", "3", "2"),
    ),
    "os.environ.get": (
        lambda: os.environ,
        lambda x, s: x * float(os.environ.get("OTHER", "5")),
        _puts("OTHER", "3"),
    ),
    "os.getenv": (
        lambda: os.environ,
        lambda x, s: x * float(os.getenv("TRIED")),
        _puts("TRIED", "3", "2"),
    ),
    "the environment by a name": (
        lambda: "TRIED",
        lambda x, s: x * float(os.environ[s]),
        [lambda s: operator.setitem(os.environ, s, "3")],
    ),
    "a list of a library": (
        lambda: sys.argv,
        lambda x, s: x * len(sys.argv),
        [lambda s: s.append("more"), lambda s: s.pop()],
    ),
    "memoryview": (
        lambda: memoryview(np.ones(3)),
        lambda x, s: x * s[1],
        [*_puts(1, 3.0), lambda s: np.asarray(s).fill(5.0)],
    ),
    "memoryview of bytes": (
        lambda: memoryview(bytearray(b"abc")),
        lambda x, s: x * s[1],
        _puts(1, 3),
    ),
    "ctypes number": (
        lambda: ctypes.c_double(2.0),
        lambda x, s: x * s.value,
        _sets(3.0, name="value"),
    ),
    "ctypes array": (
        lambda: (ctypes.c_double * 3)(1.0, 2.0, 3.0),
        lambda x, s: x * s[1],
        _puts(1, 7.0),
    ),
    "array.array": (lambda: array.array("d", [1.0]), lambda x, s: x * s[0], _puts(0, 7.0)),
    "array of objects": (
        lambda: np.array([2.0, "text"], dtype=object),
        lambda x, s: x * s[0],
        _puts(0, 3.0),
    ),
    "array of records": (
        lambda: np.ones(2, [("u", float), ("v", int)]),
        lambda x, s: x * s["u"][1],
        [lambda s: s["u"].fill(3.0)],
    ),
    "a record": (lambda: np.ones(1, [("u", float)])[0], lambda x, s: x * s["u"], _puts("u", 3.0)),
    "array of text": (
        lambda: np.array(["1.5", "2"]),
        lambda x, s: x * float(s[0]),
        _puts(0, "3.5"),
    ),
    "array of dates": (
        lambda: np.array(["2020-01-01"], "M8[D]"),
        lambda x, s: x * (s[0] - np.datetime64("2019-01-01")).astype(int),
        _puts(0, np.datetime64("2021-01-01")),
    ),
    "masked array": (
        lambda: np.ma.masked_array([1.0, 2.0, 3.0], mask=[0, 0, 1]),
        lambda x, s: x * float(s.sum()),
        [*_puts(0, 5.0), lambda s: setattr(s, "mask", [0, 1, 0])],
    ),
    "array of another class": (
        lambda: np.ones(3).view(type("Special", (np.ndarray,), {})),
        lambda x, s: x * float(s[0]),
        _puts(0, 5.0),
    ),
    "mapping proxy": (
        lambda: _Held(d=(d := {"a": 2.0}), p=types.MappingProxyType(d)),
        lambda x, s: x * s.p["a"],
        [lambda s: s.d.update(a=3.0), lambda s: s.d.update(b=3.0)],
    ),
    "views of a dict": (
        lambda: _Held(d=(d := {"a": 2.0}), k=d.keys(), v=d.values(), i=d.items()),
        lambda x, s: x * sum(s.v) * len(s.k) * sum(v for _, v in s.i),
        [lambda s: s.d.update(a=3.0), lambda s: s.d.update(b=3.0)],
    ),
    "weak values": (
        lambda: _Held(o=(o := _Held(v=2.0)), w=weakref.WeakValueDictionary({"a": o})),
        lambda x, s: x * s.w["a"].v,
        [lambda s: setattr(s.o, "v", 3.0)],
    ),
    "queue": (
        lambda: _Held(q=queue.Queue()),
        lambda x, s: x * s.q.qsize(),
        [lambda s: s.q.put(1), lambda s: s.q.get()],
    ),
    "attributes of a function": (
        lambda: _replaced,
        lambda x, s: x * _replaced.__dict__.get("v", 1.0),
        _sets(3.0, 4.0),
    ),
    "defaults of a function": (
        lambda: 0,
        lambda x, s: x * _defaulting.__defaults__[0],
        [lambda s: setattr(_defaulting, "__defaults__", (3.0,))],
    ),
    "its signature": (
        lambda: 0,
        _by_default,
        [lambda s: setattr(_defaulting, "__defaults__", (3.0,))],
    ),
    "a counter": (
        lambda: collections.Counter("aab"),
        lambda x, s: x * s["a"],
        [lambda s: s.update("a")],
    ),
    "an attribute in front of what __getattr__ answers": (
        _Answering,
        lambda x, s: x * s.virtual + s.named("gain"),
        [*_sets(3.0, name="b"), *_sets(4.0, name="virtual"), *_sets(5.0, name="gain")],
    ),
    "code made by exec": (_with_code_made_by_exec, lambda x, s: s.scaled(s, x), _sets(3.0)),
}


@pytest.fixture
def restored(monkeypatch):
    monkeypatch.setattr(HERE, "factor", 2.0)
    monkeypatch.setattr(few_names, "factor", 2.0)
    monkeypatch.setattr(_Meta, "v", 2.0)
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    monkeypatch.setenv("TRIED", "2")
    monkeypatch.delenv("OTHER", raising=False)
    code, given, named = _replaced.__code__, _defaulting.__defaults__, _defaulting.__kwdefaults__
    yield
    vars(_replaced).clear()
    _replaced.__code__ = code
    _defaulting.__defaults__, _defaulting.__kwdefaults__ = given, named


@pytest.mark.parametrize("name", READS)
def test_what_is_read_by_text_is_seen(name, restored):
    make, compute, changes = READS[name]
    s = make()

    def plain(x):
        return compute(x, s)

    fast = jit(plain)
    calls_agree(fast, plain, X)
    for change in changes:
        change(s)
        calls_agree(fast, plain, X)
    assert fast.cache_info().eager == 0
    assert fast.cache_info().traces <= len(changes) + 1


def test_code_and_defaults_that_are_replaced(restored):
    """Reloading a module in place replaces them."""
    for fast, plain in ((jit(_replaced), _replaced), (jit(lambda x: _replaced(x) + 1), None)):
        plain = plain or (lambda x: _replaced(x) + 1)
        calls_agree(fast, plain, X)
        kept, _replaced.__code__ = _replaced.__code__, (lambda x: x * 3.0).__code__
        calls_agree(fast, plain, X)
        _replaced.__code__ = kept
        calls_agree(fast, plain, X)
        assert fast.cache_info().traces == 2
    fast = jit(_defaulting)
    calls_agree(fast, _defaulting, X)
    _defaulting.__defaults__ = (5.0,)
    calls_agree(fast, _defaulting, X)
    _defaulting.__kwdefaults__ = {"n": 7.0}
    calls_agree(fast, _defaulting, X)


def test_a_context_variable_has_a_value_in_each_context():
    v = contextvars.ContextVar("v", default=2.0)
    fast = jit(lambda x: x * v.get())
    calls_agree(fast, lambda x: x * 2.0, X)

    def inside():
        v.set(5.0)
        calls_agree(fast, lambda x: x * 5.0, X)

    contextvars.copy_context().run(inside)
    calls_agree(fast, lambda x: x * 2.0, X)
    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    calls_agree(fast, lambda x: x * 2.0, X)


def test_text_of_what_no_derivative_follows_is_the_plain_one():
    """Within a gradient, too, a promoted number is formatted as a plain number."""
    n = 3

    def f(x, k):
        return x * len(f"{n}") * len(str(k))

    slope = jit(lambda x, k: gradient(lambda x: f(x, k), x)[0])
    for n in (3, 100, 5, 7, 1234):
        assert slope(2.0, 10) == slope(2.0, 11) == 2.0 * len(str(n))


def test_what_only_looks_like_reflection_costs_nothing():
    """A name in the code says which attribute: the others are not looked at."""
    s = _Held(v=2.0, seen=0)
    fast = jit(lambda x: x * getattr(s, "v"))  # noqa: B009
    labels = {place.label for place in find_captured_state(fast).sources}
    labels = {name for name in labels if " lends" not in name and "names in" not in name}
    assert labels == {
        *("code of <lambda>", "closure variable s", "code of __init__", "_Held.v"),
        *("class of a _Held", "what a function has in front of its class"),
        "what a Jitted has in front of its class",
    }
    for k in range(5):
        s.seen = k
        calls_agree(fast, lambda x: x * 2.0, X, times=1)
    assert fast.cache_info().traces == 1


NAMES = {
    "an expression": (lambda o: getattr(o.a + 1, "k"), {"k", "a"}, False),  # noqa: B009
    "a default": (lambda o, f: getattr(o, "k", f(3, y=4)), {"k"}, False),
    "a call before": (lambda o, f: getattr(f(o, x=2), "k"), {"k"}, False),  # noqa: B009
    "dotted": (lambda: operator.attrgetter("k.j"), {"k", "j"}, False),
    "a variable": (lambda o, n: getattr(o, n), set(), True),
    "joined": (lambda o: getattr(o, "k" + o), set(), True),
    "formatted": (lambda o: getattr(o, f"k{o}"), set(), True),
    "either": (lambda o: getattr(o, "k" if o else "j"), {"k", "j"}, True),
    "unpacked": (lambda o: getattr(*o), set(), True),
    "handed on": (lambda o: map(getattr, o, "k"), {"k"}, True),
}


@pytest.mark.parametrize("name", NAMES)
def test_names_in_text(name):
    f, attributes, every = NAMES[name]
    names = referenced_names(f.__code__)
    assert names.attributes >= attributes and names.reads_any_attribute == every


def test_instructions_are_those_of_dis():
    """Also of code with more names than an argument of one byte can tell."""
    long = "def f(x):\n" + "\n".join(f"    x.a{n} = g{n}(x.b{n}, {n}.5)" for n in range(300))
    codes = [f.__code__ for f in vars(dataclasses).values() if inspect.isfunction(f)]
    codes.append(compile(long, "", "exec").co_consts[0])
    valued = {*dis.hasname, *dis.hasconst, *dis.hasfree} - {dis.opmap.get("KW_NAMES")}
    for code in codes:
        expected = [s for s in dis.get_instructions(code) if s.opname != "EXTENDED_ARG"]
        found = instructions(code)
        assert [s.opname for s in found] == [s.opname for s in expected]
        assert [repr(s.argval) for s in found if s.opcode in valued] == [
            repr(s.argval) for s in expected if s.opcode in valued
        ]


def test_keys_in_text():
    assert referenced_names((lambda: os.environ["A"]).__code__).environment_keys == {"A"}
    assert referenced_names((lambda: os.getenv("A", "2")).__code__).environment_keys == {"A"}
    assert referenced_names((lambda: "A" in os.environ).__code__).reads_any_environment_key
    assert referenced_names((lambda n: os.getenv(n)).__code__).reads_any_environment_key
    assert not referenced_names((lambda: globals()["A"]).__code__).reads_any_global
    assert referenced_names((lambda n: globals()[n]).__code__).reads_any_global


# Attributes named like reflection functions: `ray.dir` --------------------------------------------


class Fields:
    """Fields on a grid, known by name as well."""

    def __init__(self):
        self.dir, self.vars = np.array([0.0, 1.0, 0.5]), [np.ones(3)]
        self.fields = {"E": self.dir + 1.0, "H": self.dir + 2.0}

    def step(self, k):
        self.fields["E"] = self.fields["E"] + k * self.fields["H"]
        self.vars[0] = self.fields["E"] * self.dir
        self.dir = self.dir / np.sqrt(self.dir @ self.dir)
        return self.fields


def test_state_under_names_of_reflection_functions():
    plain, held = Fields(), Fields()
    fast = jit(held.step)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for k in (1.0, 2.0, 0.5, 0.25, 3.0, 1.5):
            assert_same(fast(k), plain.step(k))
            assert fast(0.0) is held.fields
            plain.step(0.0)
            assert_same(held.fields["E"], plain.fields["E"])
            assert_same(held.vars[0], plain.vars[0])
            assert_same(held.dir, plain.dir)


def _imported(x):
    import dataclasses as d

    kept = d.fields
    return kept(x)


PLAIN_NAMES = {
    "looked up": (lambda o: o.a.fields["k"], False),
    "looked up in a list": (lambda o, i: o.vars[i], False),
    "asked": (lambda o: o.fields.items(), False),
    "returned": (lambda o: o.dir, False),
    "computed with": (lambda o: o.dir * 2.0 + o.x.dir, False),
    "of a global": (lambda: Fields.fields["k"], False),
    "called": (lambda o: dataclasses.fields(o), True),
    "called with many": (lambda m, o: m.fields(*o), True),
    "called by keywords": (lambda m, o: m.asdict(o, dict_factory=dict), True),
    "kept": (lambda: dataclasses.astuple, True),
    "its method": (lambda o: inspect.getmembers.__call__(o), True),
    "imported": (_imported, True),
    "a function": (lambda o: dir(o), True),
    "all there is": (lambda o: o.__dict__["k"], True),
}


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_attributes_named_like_reflection_functions(name):
    f, whole = PLAIN_NAMES[name]
    assert referenced_names(f.__code__).lists_attributes is whole
