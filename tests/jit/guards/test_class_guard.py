"""What classes lend their objects, what abstract classes and libraries have: changes are seen."""

import abc
import builtins
import collections
import functools
import gc
import sys
import types
import typing
import weakref

import numpy as np
import pytest

from tracker import gradient, jit

SETUP = """
class K:
    c = 2.0
    def __init__(self): self.w = 3.0
    def m(self, x): return x * 2.0
    @classmethod
    def cm(cls, x): return x * 3.0
    @staticmethod
    def sm(x): return x * 4.0
    @property
    def p(self): return self.w * 2
    def __call__(self, x): return x * 5.0
    def __add__(self, x): return x * 6.0
    def __getitem__(self, i): return 7.0
class K2(K):
    c = 20.0
    def m(self, x): return x * 20.0
    @classmethod
    def cm(cls, x): return x * 30.0
    @property
    def p(self): return self.w * 20
    def __call__(self, x): return x * 50.0
class S(K):
    def up(self, x): return super().m(x) * 2
o = S()
class D:
    def __init__(self, k): self.k = k
    def __get__(self, o, t=None): return self.k
class V:
    v = D(2.0)
class U(V): pass
u = U()
class G:
    def __getattr__(self, name): return 2.0
g = G()
class Meta(type):
    def mm(cls, x): return x * 3
class Meta2(Meta):
    def mm(cls, x): return x * 4
class Made(metaclass=Meta): pass
class T(abc.ABC): pass
class P(typing.Protocol):
    def there(self): ...
P = typing.runtime_checkable(P)
@functools.singledispatch
def told(o, x): return x * 2
class Q:
    def kept(self, k, x): return k * x * self.n
    n = 3.0
    of_two = functools.partialmethod(kept, 2.0)
    @functools.singledispatchmethod
    def told(self, o, x): return x * 2
q = Q()
class L(list): pass
class DD(dict): pass
class UD(collections.UserDict): pass
items, pairs, held = L([1.0, 2.0]), DD(), UD(a=1.0)
Point = collections.namedtuple("Point", "a b")
point = Point(1.0, 2.0)
def defaults(x, *, k=2.0): return x * k
def counted(x): return x * getattr(counted, "n", 1.0)
"""
CHANGES = {
    "methods": ("o.m(x) + o.cm(x)", "o.m = lambda x: x * 7", "o.cm = o.m", "del o.m", "del o.cm"),
    "statics": ("o.sm(x)", "o.sm = lambda x: x * 7", "S.sm = staticmethod(abs)", "del o.sm"),
    "classes": ("o.m(x) * o.c", "o.__class__ = K2", "o.__class__ = K", "o.__dict__ = {'m': abs}"),
    "kinds": ("x * (2 if isinstance(o, S) else 3)", "o.__class__ = K2", "o.__class__ = S"),
    "properties": ("x * o.p", "S.p = property(lambda o: 1.0)", "del S.p", "K.p = K2.p"),
    "special": ("o(x) + (o + x) * o[0]", "S.__call__ = lambda o, x: x", "S.__bases__ = (K2,)"),
    "truth": ("x * (2 if o else 3)", "K.__bool__ = lambda o: False", "del K.__bool__"),
    "bases": ("o.m(x) + o.up(x)", "S.__bases__ = (K2,)", "K2.m = lambda o, x: x", "del K2.m"),
    "descriptors": ("x * u.v", "U.v = D(8.0)", "u.v = 1.0", "D.__get__ = lambda d, o, t: 5.0"),
    "absent": ("x * g.a", "g.a = 3.0", "del g.a", "G.a = 4.0"),
    "metaclasses": ("Made.mm(x)", "Made.__class__ = Meta2", "Made.mm = lambda x: x * 9"),
    "registered": ("x * (2 if isinstance(o, T) else 3)", "T.register(S)"),
    "subclasses": ("x * (2 if issubclass(S, (int, T)) else 3)", "T.register(K)"),
    "protocols": ("x * (2 if isinstance(o, P) else 3)", "o.there = 1", "del o.there"),
    "dispatch": ("told(o, x)", "told.register(S, lambda o, x: x)"),
    "abstract dispatch": ("told(u, x)", "told.register(T, lambda o, x: x)", "T.register(U)"),
    "method dispatch": ("q.told(o, x)", "vars(Q)['told'].register(S, lambda q, o, x: x)"),
    "partial methods": ("q.of_two(x)", "Q.n = 5.0", "Q.of_two = abs"),
    "lists": ("x * len(items)", "L.__len__ = lambda items: 7"),
    "empty dicts": ("x * len(pairs)", "pairs['a'] = 1.0", "pairs['b'] = 1.0", "pairs.clear()"),
    "held dicts": ("x * held['a']", "held['a'] = 4.0", "UD.__getitem__ = lambda d, k: 5.0"),
    "named tuples": ("x * point.a", "Point.a = property(lambda p: 5.0)"),
    "defaults": ("defaults(x)", "defaults.__kwdefaults__['k'] = 5.0"),
    "function attributes": ("counted(x)", "counted.n = 4.0", "del counted.n"),
    "imports": ("x * __import__('made_up').k", "sys.modules['made_up'] = other"),
    "numpy": ("np.square(x)", "np.square = np.abs", "np.square = square"),
    "modules": ("np.linalg.norm(x)", "np.linalg.norm = np.sum", "np.linalg.norm = norm"),
    "constants": ("x * np.e", "np.e = 3.0", "np.e = e"),
    "library": ("x * getattr(np, 'made_up', 1.0)", "np.made_up = 4.0", "del np.made_up"),
    "builtins": ("x * pow(2.0, 1.0)", "builtins.pow = min", "builtins.pow = pow_"),
    "globals": ("x * pow(2.0, 3.0)", "pow = min", "del pow"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_is_seen(name, monkeypatch):
    """At once, in a method that calls what reads it, or its gradient."""
    one, other = types.ModuleType("made_up"), types.ModuleType("made_up")
    one.k, other.k = 2.0, 3.0
    monkeypatch.setitem(sys.modules, "made_up", one)
    known = {"square": np.square, "norm": np.linalg.norm, "e": np.e, "pow_": pow, "other": other}
    modules = {module.__name__: module for module in (abc, builtins, collections, functools, sys)}
    space = {"__name__": __name__, "np": np, "typing": typing, **modules, **known}
    exec(SETUP, space)
    expression, *changes = CHANGES[name]
    exec(f"def f(x): return {expression}", space)
    f = space["f"]

    class Holder:
        n = 2.0

        @jit
        def method(self, x):
            return f(x) * self.n if name != "bases" else gradient(f, x)[0] * self.n

    holder = Holder()
    for change in ("", *changes):
        exec(change, space)
        want = (f(1.5) if name != "bases" else gradient(f, 1.5)[0]) * 2.0
        assert holder.method(1.5) == holder.method(1.5) == want


def test_what_changes_elsewhere_needs_no_new_trace():
    """Another attribute of the class, another global: Python looks once, and the trace holds."""
    space = {"__name__": __name__, "abc": abc, "collections": collections, "functools": functools}
    space["typing"] = typing
    exec(SETUP, space)
    o, f = space["o"], jit(lambda x: o.m(x) * o.w)
    f(1.0)
    for k in range(5):
        space["S"].counter = space["K"].counter = k
        o.other = k
        assert f(2.0) == 12.0
    assert f.cache_info().slow == 1


def test_a_namespace_that_gets_an_attribute():
    o = types.SimpleNamespace(a=1.0)
    f = jit(lambda x: x * o.a * hasattr(o, "b"))
    assert f(2.0) == f(2.0) == 0.0
    o.b = 1
    assert f(2.0) == f(2.0) == 2.0


def test_classes_are_not_kept_alive():
    def made():
        class K:
            def m(self, x):
                return x * 2.0

        o = K()
        f = jit(lambda x: o.m(x))
        f(1.0), f(1.0)
        return weakref.ref(K)

    ref = made()
    gc.collect()
    assert ref() is None
