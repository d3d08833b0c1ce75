"""Containers and iterators of the standard library are read at each call; values are compared by
their parts.
"""

import array
import collections
import datetime
import decimal
import fractions
import itertools
import pathlib
import random
import threading
import types
import weakref
from dataclasses import dataclass

import numpy as np
import pytest
from pairwise_parameters import crossed
from side_by_side import program

from tracker import CompileError, gradient, jit

pytestmark = pytest.mark.filterwarnings("ignore:.*runs in plain Python:RuntimeWarning")
X = np.array([0.5, -1.0, 2.0])


def _ones():
    return np.ones(3)


class _Held:
    v = 2.0


@dataclass
class _Layer:
    w: float
    b: object


def _put(key, value):
    return lambda s: s.__setitem__(key, value)


def _set(name, value):
    return lambda s: setattr(s, name, value)


def _of_this_thread():
    held = threading.local()
    held.v = 2.0
    return held


def _reads(x, s):
    return x * s["a"] * s["b"]


# By name: what makes the object, what is computed of it, what is done to it between the calls.
def _counts(x, s):
    s.v = s.v + 1.0
    return x * s.v


def _spawns(x, s):
    return x * np.random.default_rng(s.spawn(1)[0]).normal()


HOLDERS = {
    "set": (lambda: {1.0}, lambda x, s: x * sum(s), [lambda s: s.add(2.0), lambda s: s.clear()]),
    "deque": (
        lambda: collections.deque([2.0, 3.0]),
        lambda x, s: x * s[0],
        [lambda s: s.appendleft(5.0), lambda s: s.pop()],
    ),
    "deque of arrays": (
        lambda: collections.deque([_ones(), 2.0]),
        lambda x, s: x * s[0] * s[1],
        [lambda s: s[0].fill(3.0), _put(1, 7.0), _put(0, X * 2), lambda s: s.append(1)],
    ),
    "bytearray": (lambda: bytearray(b"ab"), lambda x, s: x * s[0], [_put(0, 3)]),
    "array.array": (lambda: array.array("d", [1.0, 2.0]), lambda x, s: x * s[1], [_put(1, 3.0)]),
    "UserDict": (
        lambda: collections.UserDict(a=_ones(), b=2.0),
        _reads,
        [lambda s: s["a"].fill(3.0), _put("b", 5.0), _put("a", X * 2)],
    ),
    "ChainMap": (
        lambda: collections.ChainMap({"a": _ones()}, {"b": 2.0}),
        _reads,
        [lambda s: s["a"].fill(3.0), _put("b", 5.0), _put("a", X * 2)],
    ),
    "UserList": (
        lambda: collections.UserList([_ones(), 2.0]),
        lambda x, s: x * s[0] * s[1],
        [lambda s: s[0].fill(3.0), _put(1, 5.0)],
    ),
    "namespace": (
        lambda: types.SimpleNamespace(a=_ones(), b=2.0, rest=frozenset([1.0])),
        lambda x, s: x * s.a * s.b * sum(s.rest),
        [lambda s: s.a.fill(3.0), _set("b", 5.0), _set("a", X * 2), _set("rest", {2.0})],
    ),
    "objects in a namespace": (
        lambda: types.SimpleNamespace(layers={"in": [_Layer(2.0, _ones())]}),
        lambda x, s: x * s.layers["in"][0].w + s.layers["in"][0].b,
        [
            lambda s: setattr(s.layers["in"][0], "w", 5.0),
            lambda s: s.layers["in"][0].b.fill(4.0),
            lambda s: s.layers.__setitem__("in", [_Layer(7.0, X)]),
        ],
    ),
    "threading.local": (
        _of_this_thread,
        lambda x, s: x * s.v,
        [_set("v", 3.0), _set("v", _ones())],
    ),
    "threading.local, put": (_of_this_thread, _counts, [lambda s: None, _set("v", _ones())]),
    "SeedSequence": (lambda: np.random.SeedSequence(1), _spawns, [lambda s: s.spawn(2)]),
    "PCG64": (lambda: np.random.PCG64(1), lambda x, s: x * (s.random_raw() % 7), [lambda s: None]),
    "RandomState": (
        lambda: np.random.RandomState(1),
        lambda x, s: x * s.get_state()[2],
        [lambda s: s.rand(), lambda s: s.seed(3)],
    ),
    "random.Random": (lambda: random.Random(0), lambda x, s: x * s.random(), [lambda s: None] * 2),
    "count": (itertools.count, lambda x, s: x * next(s), [lambda s: None] * 3),
    "iterator": (lambda: iter([1.0, 2.0, 3.0, 4.0]), lambda x, s: x * next(s), [lambda s: None]),
    "generator": (lambda: (k * 2.0 for k in range(9)), lambda x, s: x * next(s), [lambda s: None]),
}


@pytest.mark.parametrize("given", [False, True], ids=["captured", "argument"])
@pytest.mark.parametrize("name", HOLDERS)
def test_changes_inside_are_seen(name, given):
    make, compute, changes = HOLDERS[name]
    program(X, state=make, given=given, changes=changes, warns=None)(compute).check()


def _keeps(x, kept=[]):  # noqa: B006
    kept.append(1.0)
    return x * sum(kept)


def _scales(x, *, options={"by": 2.0}):  # noqa: B006
    return x * options["by"]


def test_containers_as_defaults():
    fast = jit(lambda x: _keeps(x))
    plain = [_keeps(X, [1.0] * k) for k in range(4)]
    for want in plain:
        np.testing.assert_array_equal(fast(X), want)
    fast = jit(_scales)
    for by in (2.0, 3.0, 3.0):
        _scales.__kwdefaults__["options"]["by"] = by
        np.testing.assert_array_equal(fast(X), by * X)
    _scales.__kwdefaults__["options"]["by"] = 2.0


def test_attributes_of_functions_and_what_weak_references_lead_to():
    def helper(x):
        return x * helper.by

    held = _Held()
    reference = weakref.ref(held)
    helper.by = 2.0
    fast = jit(lambda x: helper(x) * reference().v)
    for by, v in ((2.0, 2.0), (3.0, 2.0), (3.0, 5.0), (3.0, 5.0)):
        helper.by, held.v = by, v
        np.testing.assert_array_equal(fast(X), X * by * v)


VALUES = {
    "slice": (lambda: slice(0, 2), lambda: slice(0, 2, 2)),
    "range": (lambda: range(2), lambda: range(3)),
    "fraction": (lambda: fractions.Fraction(1, 3), lambda: fractions.Fraction(2, 3)),
    "decimal": (lambda: decimal.Decimal("1.5"), lambda: decimal.Decimal("1.50")),
    "date": (lambda: datetime.date(2020, 1, 2), lambda: datetime.date(2020, 1, 3)),
    "path": (lambda: pathlib.Path("/a/b"), lambda: pathlib.Path("/a/c")),
    "frozenset": (lambda: frozenset([1, 2]), lambda: frozenset([1, 3])),
    "set": (lambda: {1, 2}, lambda: {1, 2, 3}),
    "structured dtype": (lambda: np.dtype("f4,i4"), lambda: np.dtype("f4,i8")),
    "byte order": (lambda: np.dtype(">f8"), lambda: np.dtype("<f8")),
}


@pytest.mark.parametrize("name", VALUES)
def test_equal_values_need_no_new_trace(name):
    one, other = VALUES[name]
    f = jit(lambda x, value: (x * 2, str(value)))
    for _ in range(3):
        for make in (one, other):
            np.testing.assert_array_equal(f(X, make())[0], X * 2)
            assert f(X, make())[1] == str(make())
    assert f.cache_info().traces == 2


def test_a_slice_of_other_types_is_another():
    f = jit(lambda x, s: x * s.stop.real + isinstance(s.stop, bool))
    for stop in (1, True, np.int8(1), 1):
        want = X * 1 + isinstance(stop, bool)
        np.testing.assert_array_equal(f(X, slice(stop)), want)


class _Model:
    def __init__(self, w):
        self.w = w

    def energy(self, x):
        return np.sum(self.w * x * x)


def test_methods_as_arguments():
    model, f = _Model(2.0), jit(lambda f, x: f(x) * 3)
    for w in (2.0, 2.0, 4.0, 4.0):
        model.w = w
        assert f(model.energy, X) == pytest.approx(3 * w * np.sum(X * X))
    assert f.cache_info().signatures == 1
    assert f(_Model(1.0).energy, X) == pytest.approx(3 * np.sum(X * X))
    gone = weakref.ref(model)
    del model
    assert gone() is None
    np.testing.assert_allclose(gradient(f, _Model(1.0).energy, X)[1], 6 * X)


class _Record:
    def __init__(self, v):
        self.v = v


@program(
    *[X, X + 1, X + 2],
    state=lambda: {"held": _Held(), "names": types.SimpleNamespace(), "log": []},
    warns=None,
)
def puts_attributes(x, s):
    s.held.last, s.names.twice, s.names.nested = x, x * 2, {"a": [x + 1, (x,)]}
    s.log.append(_Record(x * 3))
    return x * 2


def test_new_attributes_have_plain_data():
    puts_attributes.check()


def test_strict_functions_refuse_iterators():
    numbers = itertools.count()
    fast = jit(lambda x: x * next(numbers), strict=True)
    with pytest.raises(CompileError, match=r"of class itertools\.count"):
        fast(X)
    with pytest.raises(CompileError, match="of class list_iterator"):
        jit(lambda x, it: x * next(it), strict=True)(X, iter([1.0]))


# Classes that look attributes up themselves -------------------------------------------------------


class OwnLookUp:
    """Whose attributes are what its own code says."""

    def __init__(self):
        self.z, self.a, self.log = 2.0, np.arange(2.0), []

    def __getattribute__(self, name):
        return object.__getattribute__(self, name)


class FromItsDict(OwnLookUp):
    def __getattribute__(self, name):
        held = object.__getattribute__(self, "__dict__")
        return held.get("z" if name == "q" else name, 5.0)


class UnderAnotherName(OwnLookUp):
    def __getattribute__(self, name):
        return super().__getattribute__("z" if name == "q" else name)


def _asks_it(x, o):
    return x * o.q if type(o) is not OwnLookUp else x * o.z


def _counts_on_it(x, o):
    o.z = o.z + 1
    return x * o.z


def _writes_it(x, o):
    o.z = np.sum(x) + o.z
    o.a += x
    return x * o.z


def _appends_to_it(x, o):
    o.log.append(x * 2)
    return o.log[-1] + len(o.log)


@crossed(
    given=[False, True],
    f=[_asks_it, _counts_on_it, _writes_it, _appends_to_it],
    cls=[OwnLookUp, FromItsDict, UnderAnotherName],
)
def test_what_a_class_with_a_look_up_of_its_own_holds_is_seen(cls, f, given):
    changes = [lambda s, v=v: _own_of(s).update(z=v) for v in (3.0, np.ones(2), 4.0)]
    row = program(np.arange(2.0), np.ones(2), state=cls, given=given, changes=changes, warns=None)
    row(f).check()


def _own_of(x):
    return object.__getattribute__(x, "__dict__")
