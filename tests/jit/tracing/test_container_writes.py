"""Dicts, sets and lists that a compiled function fills are left as the plain function leaves them:
with plain keys, and changed in both places where one was given twice."""

import copy
from collections import Counter, OrderedDict, defaultdict, deque

import numpy as np
import pytest

from tracker import gradient, jit, tree

cache, found = {}, set()


def _fills_global(n, x):
    cache[n] = x * n
    return cache[n] + len(cache)


def _collects(n, x):
    found.add(n)
    found.update((n + 1, n - 1))
    return x * n


def _counts_twice(n, x):
    return {n: x, n + 1: [x * n, {n - 1: x}]}


PROGRAMS = {"global dict": _fills_global, "global set": _collects, "result": _counts_twice}


def _classes(x):
    """What can be told of the keys and elements."""
    if isinstance(x, dict):
        return [(type(k), k, _classes(v)) for k, v in x.items()]
    if isinstance(x, (list, tuple, set)):
        return [_classes(y) for y in x]
    return type(x), x


@pytest.mark.filterwarnings("ignore:.*each call changes")
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_as_keys_are_plain(name):
    left = []
    for f in (PROGRAMS[name], jit(PROGRAMS[name])):
        cache.clear()
        found.clear()
        results = [_classes(f(n, x)) for n in (3, 4, 3) for x in (2.0, 0.5, 2.0)]
        left.append((results, _classes(cache), _classes(sorted(found))))
    assert left[0] == left[1]


@pytest.mark.parametrize(
    "d", [{}, OrderedDict(), defaultdict(list), Counter(), {"inner": {}}], ids=lambda d: str(d)
)
def test_keys_in_a_dict_that_was_given(d):
    def plain(d, n, x):
        into = d.get("inner", d)
        into[n] = x
        return x * n

    given, expected = copy.copy(d), copy.copy(d)
    f = jit(plain)
    for n in (3, 5, 3):
        assert f(given, n, 2.0) == plain(expected, n, 2.0)
        assert _classes(given) == _classes(expected) and type(given) is type(expected)


def test_a_set_that_was_given_and_a_memo_of_an_object():
    class Memo:
        def __init__(self):
            self.known = {}

        def fib(self, n):
            if n not in self.known:
                self.known[n] = n if n < 2 else self.fib(n - 1) + self.fib(n - 2)
            return self.known[n]

    def adds(members, n):
        members.add(n)
        return 2 * n

    plain, other, members = Memo(), Memo(), set()
    f, g = jit(other.fib), jit(adds)
    for n in (7, 5, 9):
        assert f(n) == plain.fib(n)
        assert _classes(other.known) == _classes(plain.known)
        with pytest.warns(RuntimeWarning, match="the function changes a set"):
            assert g(members, n) == 2 * n
    assert _classes(sorted(members)) == [(int, 5), (int, 7), (int, 9)]


def _appends(a, b, x):
    a.append(x)
    b.append(2 * x)
    return a is b, len(a), a[-1], b[0]


def _takes(a, b, x):
    a.extend(b)
    return a[2] + b[3] * x  # there are so many only if it is one list


def _fails(a, b, x):
    a.append(x)
    if len(b) > 2:
        raise ValueError(f"there are {len(b)}")
    return x


@pytest.mark.parametrize("plain", [_appends, _takes, _fails])
def test_a_list_that_is_given_twice(plain):
    x, ours, theirs = np.arange(2.0), [1.0, 2.0], [1.0, 2.0]
    f = jit(plain)
    for _ in range(5):
        outcomes = []
        for g, both in ((f, ours), (plain, theirs)):
            try:
                outcomes.append(repr(g(both, both, x)))
            except ValueError as error:
                outcomes.append(repr(error))
        assert outcomes[0] == outcomes[1]
        assert repr(ours) == repr(theirs)


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
