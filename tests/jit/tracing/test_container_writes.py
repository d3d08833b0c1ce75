"""Dicts, sets and lists that a compiled function fills are left as the plain function leaves them:
with plain keys, and changed in both places where one was given twice."""

from collections import Counter, OrderedDict, defaultdict, deque

import numpy as np
import pytest
from side_by_side import assert_alike, each, leaves, program

from tracker import gradient, jit, tree

cache, found = {}, set()
KEYS = [(n, x) for n in (3, 4, 3) for x in (2.0, 0.5, 2.0)]


def into(d):
    """A program that writes into a dict that it is given, or a dict in that."""
    return program((d, 3, 2.0), (d, 5, 2.0), warns=None)(_writes)


def _writes(d, n, x):
    d.get("inner", d)[n] = x
    return x * n


class Memo:
    def __init__(self):
        self.known = {}

    def fib(self, n):
        if n not in self.known:
            self.known[n] = n if n < 2 else self.fib(n - 1) + self.fib(n - 2)
        return self.known[n]


def _twice():
    return (a := [1.0, 2.0]), a, np.arange(2.0)


class Containers:
    """With plain keys, and changed in both places where one was given twice."""

    @program(*KEYS, state={"cache": {}}, warns=None)
    def a_dict(n, x, s):
        s.cache[n] = x * n
        return s.cache[n] + len(s.cache)

    @program(*KEYS, state={"found": set()}, warns=None)
    def a_set(n, x, s):
        s.found.add(n)
        s.found.update((n + 1, n - 1))
        return x * n

    @program(*KEYS)
    def a_result(n, x):
        return {n: x, n + 1: [x * n, {n - 1: x}]}

    given = into({})
    given_ordered = into(OrderedDict())
    given_with_defaults = into(defaultdict(list))
    given_counter = into(Counter())
    given_within = into({"inner": {}})

    @program(({1}, 7), warns="the function changes a set")
    def a_given_set(members, n):
        members.add(n)
        return 2 * n

    @program(7, 5, 9, state=Memo)
    def a_memo(n, s):
        return s.fib(n)

    @program(_twice, warns=None)
    def appended_twice(a, b, x):
        a.append(x)
        b.append(2 * x)
        return a is b, len(a), a[-1], b[0]

    @program(_twice, warns=None)
    def extended_by_itself(a, b, x):
        a.extend(b)
        return a[2] + b[3] * x  # there are so many only if it is one list

    @program(_twice, warns=None)
    def appended_before_an_error(a, b, x):
        a.append(x)
        if len(b) > 2:
            raise ValueError(f"there are {len(b)}")
        return x


@each(Containers)
def test_containers(row):
    row.check()


def _fills_globals(n, x):
    cache[n] = x * n
    found.update((n, n + 1))
    return cache[n] + len(cache)


@pytest.mark.filterwarnings("ignore:.*each call changes")
def test_global_containers():
    seen = []
    for f in (_fills_globals, jit(_fills_globals)):
        cache.clear(), found.clear()
        seen.append(leaves(([f(*call) for call in KEYS], dict(cache), sorted(found))))
    assert_alike(*seen)


def test_a_list_that_is_given_twice_and_left_alone_is_compiled():
    f = jit(lambda a, b: np.sum(a["w"] * b["w"]) + a["k"])
    p, q = {"w": np.arange(3.0), "k": 1.0}, {"w": np.ones(3), "k": 5.0}
    for a, b in ((p, p), (p, q), (q, p), (q, q), (p, p)):
        assert f(a, b) == np.sum(a["w"] * b["w"]) + a["k"]
        gradient(f, a, b)
    assert f.cache_info().eager == 0


class _Result:
    def __init__(self):
        self.text = "done"


MADE = {
    "array": lambda x: np.zeros(3),
    "part of an array": lambda x: (x * 2.0, np.arange(6.0).reshape(2, 3)[:, 1:]),
    "integers": lambda x: {"a": [np.arange(3), x]},
    "set": lambda x: {1, 2},
    "deque": lambda x: (deque([1]), x),
    "bytes": lambda x: bytearray(b"ab"),
    "iterator": lambda x: iter([1, 2]),
    "object": lambda x: [_Result(), x],
}


@pytest.mark.filterwarnings("ignore:.*that it makes at each call")
@pytest.mark.parametrize("name", MADE)
def test_what_a_function_makes_is_another_at_each_call(name):
    f = jit(MADE[name])
    for compiled in (f, jit(lambda x: f(x))):
        results = [leaf for _ in range(4) for leaf in tree.leaves(compiled(1.5))]
        mutable = [x for x in results if not isinstance(x, float)]
        assert len({id(x) for x in mutable}) == len(mutable) == 4
        arrays = [x for x in mutable if isinstance(x, np.ndarray)]
        for x in arrays:
            x += 1  # the next must not show it
        for x in tree.leaves(compiled(1.5)) if arrays else ():
            if isinstance(x, np.ndarray):
                np.testing.assert_array_equal(x + 1, arrays[0])
    assert f.cache_info().eager == (name not in ("array", "part of an array", "integers"))


def test_what_was_there_before_is_the_same_object():
    kept, table = {1, 2}, np.arange(3.0)
    f = jit(lambda x: (kept, table, x * 2.0))
    for _ in range(3):
        a, b, _ = f(1.0)
        assert a is kept and b is table
    assert f.cache_info().eager == 0


class _Fixed(list):
    def __setitem__(self, key, value):
        raise TypeError("fixed")


class _Counting(dict):
    writes = 0

    def __setitem__(self, key, value):
        self.writes += 1
        super().__setitem__(key, value)


def test_what_classes_do_when_they_are_written_is_not_run_for_a_trace():
    fixed, counting = _Fixed([np.ones(3), np.arange(3.0)]), _Counting(w=np.ones(3))

    def f(x):
        return x * fixed[0] + fixed[1] * counting["w"]

    compiled, x = jit(f), np.arange(3.0)
    for _ in range(3):
        np.testing.assert_array_equal(compiled(x), f(x))
        np.add(fixed[0], 1.0, out=fixed[0])
    assert counting.writes == 0 and type(fixed[0]) is type(counting["w"]) is np.ndarray
