"""Attributes that a call reads in the dicts of objects: each change is seen at the next call."""

import functools
import threading

import numpy as np
import pytest
from equality import assert_same

from tracker import jit

X = np.arange(1.0, 4.0)


class _Layer:
    shift = 0.5

    def __init__(self):
        self.w, self.rate = np.ones(3), 2.0

    def __call__(self, x):
        return self.inner(x) * self.rate + self.shift

    def inner(self, x):
        return 2 * self.w * x


def _own_class(layer):
    """A class for this object alone, which a change may modify."""
    layer.__class__ = type("Layer", (_Layer,), {})


def _puts_property(name):
    return lambda s: setattr(type(s), name, property(lambda self: 7.0))


def _drops(name):
    return lambda s: delattr(s, name)


def _sets(name, value):
    return lambda s: setattr(s, name, value)


CHANGES = {
    "another array": _sets("w", np.full(3, 4.0)),
    "an array of another shape": _sets("w", np.full((2, 3), 4.0)),
    "numbers in the array": lambda s: s.w.fill(5.0),
    "the shape of the array": lambda s: setattr(s.w, "shape", (3, 1)),
    "a number for an array": _sets("w", 3.0),
    "another number": _sets("rate", 3.0),
    "through the dict": lambda s: vars(s).update(rate=4.0, w=np.zeros(3)),
    "another dict": lambda s: setattr(s, "__dict__", {"w": np.full(3, 6.0), "rate": 1.0}),
    "in front of the class": _sets("shift", 1.5),
    "a method of the object's own": _sets("inner", lambda x: x - 1.0),
    "a class attribute instead": lambda s: (setattr(type(s), "rate", 9.0), _drops("rate")(s)),
    "a property in front of it": _puts_property("rate"),
    "another class": lambda s: setattr(s, "__class__", type("Other", (_Layer,), {"shift": 2.0})),
    "getting by a method": lambda s: setattr(
        type(s), "__getattribute__", lambda self, name: object.__getattribute__(self, name)
    ),
    "nothing there": lambda s: (_drops("rate")(s), _sets("rate", 8.0)(s)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_is_seen(name):
    layer, plain = _Layer(), _Layer()
    fast = jit(lambda x: layer(x))
    for each in (layer, plain):
        _own_class(each)
    for _ in range(3):
        assert_same(fast(X), plain(X))
    for each in (layer, plain):
        CHANGES[name](each)
    for _ in range(3):
        assert_same(fast(X), plain(X))


def test_an_attribute_that_is_gone_raises_as_usual():
    layer = _Layer()
    fast = jit(lambda x: layer(x))
    fast(X), fast(X)
    del layer.w
    with pytest.raises(AttributeError, match="w"):
        fast(X)


def test_rebinding_attributes_needs_one_trace():
    layers = [_Layer() for _ in range(3)]
    fast = jit(lambda x: functools.reduce(lambda x, layer: layer(x), layers, x))
    fast(X)
    for k in range(5):
        for layer in layers:
            layer.w, layer.seen = np.full(3, float(k)), k
        assert_same(fast(X), functools.reduce(lambda x, layer: layer(x), layers, X))
    assert fast.cache_info().traces == fast.cache_info().slow == 1


def test_an_object_without_a_dict_has_nothing_there():
    state = threading.local()
    fast = jit(lambda x: x * (3.0 if hasattr(state, "seen") else 2.0))
    for _ in range(3):
        assert_same(fast(X), 2.0 * X)
    assert fast.cache_info().slow == 1
    state.seen = True
    assert_same(fast(X), 3.0 * X)
