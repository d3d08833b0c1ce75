"""Bound methods that a function captures: `add = history.append`."""

import functools
import random
from collections import Counter, defaultdict, deque

import numpy as np
import pytest

from tracker import gradient, jit


class Notes(list):
    def add(self, x):
        self.append(x)


class Shares(np.ndarray):
    def above(self, x):
        return self.sum() + x


def told(call):
    """A function that tells a kept method something, and its result."""
    return lambda method: lambda x: (call(method, x), 2 * x)[1]


OF_CONTAINERS = {
    "list.append": (lambda: [].append, told(lambda add, x: add(x + 1))),
    "list.extend": (lambda: [].extend, told(lambda add, x: add([x, x]))),
    "list.insert": (lambda: [].insert, told(lambda add, x: add(0, x))),
    "list.pop": (lambda: [1.0, 2.0, 3.0, 4.0].pop, lambda take: lambda x: take() * x),
    "list.index": (lambda: [3.0, 1.0].index, lambda find: lambda x: find(1.0) * x),
    "list.__setitem__": (lambda: [0.0].__setitem__, told(lambda put, x: put(0, x))),
    "deque.append": (lambda: deque(maxlen=3).append, told(lambda add, x: add(x))),
    "deque.appendleft": (lambda: deque(maxlen=3).appendleft, told(lambda add, x: add(x))),
    "set.add": (lambda: set().add, told(lambda add, x: add(int(x)))),
    "dict.update": (lambda: {"a": 1.0}.update, told(lambda put, x: put(a=x))),
    "dict.setdefault": (lambda: {}.setdefault, lambda get: lambda x: get("a", x) * x),
    "dict.__setitem__": (lambda: {}.__setitem__, told(lambda put, x: put("a", x))),
    "defaultdict": (lambda: defaultdict(list).__getitem__, told(lambda get, x: get("a").append(x))),
    "Counter.update": (lambda: Counter().update, told(lambda count, x: count("ab"))),
    "bytearray.append": (lambda: bytearray(b"a").append, told(lambda add, x: add(65))),
    "of a list's class": (lambda: Notes().add, told(lambda add, x: add(x))),
    "iterator": (lambda: iter([1.0, 2.0, 3.0, 4.0]).__next__, lambda step: lambda x: step() * x),
}
OF_ARRAYS = {
    "sum": (lambda: np.arange(3.0).sum, lambda get: lambda x: get() * x),
    "item": (lambda: np.arange(3.0).item, lambda get: lambda x: get(1) * x),
    "__getitem__": (lambda: np.arange(3.0).__getitem__, lambda get: lambda x: get(1) * x),
    "__setitem__": (lambda: np.zeros(3).__setitem__, told(lambda put, x: put(1, x))),
    "fill": (lambda: np.zeros(3).fill, told(lambda fill, x: fill(x))),
    "dot": (lambda: np.eye(3).dot, lambda dot: lambda x: dot(x * np.ones(3)).sum()),
    "of a class of arrays": (lambda: np.arange(3.0).view(Shares).above, lambda f: lambda x: f(x)),
}
DRAWS = {
    "Generator": (lambda: np.random.default_rng(0).normal, lambda draw: lambda x: draw() * x),
    "RandomState": (lambda: np.random.RandomState(0).normal, lambda draw: lambda x: draw(x)),
    "Random": (lambda: random.Random(0).gauss, lambda draw: lambda x: draw(0, 1) * x),
}


def calls(method, f):
    """The result of each call and the state of the method's owner (an iterator's type)."""
    owner, found = method.__self__, []
    for x in (1.0, 2.0, 3.0, 4.0):
        if isinstance(owner, np.ndarray):
            owner[0] = x  # is noticed
        found.append((f(x), repr(owner).partition(" at 0x")[0]))
    return found


@pytest.mark.filterwarnings("ignore:.*runs in plain Python:RuntimeWarning")
@pytest.mark.parametrize("name", [*OF_CONTAINERS, *OF_ARRAYS, *DRAWS])
def test_a_captured_bound_method_runs_at_each_call(name):
    make, f = {**OF_CONTAINERS, **OF_ARRAYS, **DRAWS}[name]
    kept, other = make(), make()
    assert calls(kept, jit(f(kept))) == calls(other, f(other))


@pytest.mark.parametrize("name", ["sum", "item", "__getitem__", "dot", "Generator", "RandomState"])
def test_a_captured_method_of_an_array_or_a_generator_is_compiled(name):
    make, f = {**OF_ARRAYS, **DRAWS}[name]
    kept = make()
    fast = jit(f(kept))
    calls(kept, fast)
    assert fast.explain(1.0).startswith("function: 1 trace(s)")


def test_a_captured_append_needs_one_trace():
    history = []
    add = history.append
    fast = jit(lambda x: (add(x), 2 * x)[1], strict=True)
    for x in range(20):
        fast(float(x))
    assert history == list(range(20))
    assert fast.explain(1.0).startswith("function: 1 trace(s)")


def test_an_array_method_in_a_partial_and_as_an_argument():
    a = np.arange(3.0)
    dot, inner = a.dot, functools.partial(a.dot, np.ones(3))
    fast = jit(lambda x, method: inner() * x + method(x * np.ones(3)), strict=True)
    for x in (1.0, 2.0, 3.0):
        a[0] = x
        assert fast(x, dot) == inner() * x + dot(x * np.ones(3))


def test_a_method_argument_has_no_gradient():
    a = np.arange(3.0)
    assert gradient(lambda x, total: x * total(), 2.0, a.sum) == (3.0, None)


def test_a_generator_method_argument_takes_tracked_values():
    def slope(draw):
        return gradient(lambda s, draw: draw(0.0, s), 2.0, draw)

    want = np.random.default_rng(0).normal(0.0, 1.0)
    assert slope(np.random.default_rng(0).normal) == pytest.approx((want, None))


def test_draws_by_a_function_of_its_own_name():
    from numpy.random import normal

    fast = jit(lambda x: normal() * x)
    np.random.seed(0)
    found = [fast(1.0) for _ in range(3)]
    np.random.seed(0)
    assert found == [normal() for _ in range(3)]
