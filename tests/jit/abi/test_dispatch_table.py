"""A function with many traces finds the entry for a call by the shapes of its arguments."""

import dataclasses
import enum
import itertools

import numpy as np
from concurrently import at_once

import tracker
from tracker.jit.abi import native_callable as native
from tracker.jit.abi.dispatch_table import DispatchTable, signature_hash
from tracker.jit.dispatch import specialization as families
from tracker.jit.guards.signature import signature_of
from tracker.jit.runtime.compile_queue import drain

SHAPES = [(), (0,), *((n,) for n in range(40, 60)), *((n, 41) for n in range(40, 50)), (41, 40)]
RNG = np.random.default_rng(0)


def check(fast, plain, calls):
    """Results of calls; machine code takes them all when they are repeated."""
    for again in range(3):  # the second time may wait for the compiling thread
        before = fast.cache_info().slow
        for args, kwargs in calls:
            np.testing.assert_array_equal(fast(*args, **kwargs), plain(*args, **kwargs))
        assert again == 0 or fast.cache_info().slow == before


def test_one_array_of_many_shapes():
    def f(x):
        return x * 2.0

    fast = tracker.jit(f)
    check(fast, f, [((RNG.standard_normal(shape),), {}) for shape in SHAPES])
    assert len(native.entries(fast)) == fast.cache_info().slow == len(SHAPES)


def test_arguments_of_every_kind():
    def f(x, p, n, *rest, scale=1.0):
        return x * 2.0 + n + p["w"][0] + sum(y[0] for y in rest) + scale

    calls = []
    for n, m in itertools.product((40, 41, 42), (50, 51)):
        x, w = RNG.standard_normal(n), RNG.standard_normal(m)
        calls.append(((x, {"w": w}, 2.0), {}))
        calls.append(((x, {"w": w}, 2, w), {"scale": 1.5}))
        calls.append(
            ((x, {"w": w}, 2.0, x, x), {"scale": np.float32(2.0)})
        )  # one array three times
        calls.append(((x[::2], {"w": x}, 2.0, w, x), {}))
    check(tracker.jit(f), f, calls)


def test_branches_of_many_shapes():
    def f(x):
        return x * 2.0 if np.sum(x) > 0 else x - 1.0

    calls = [((sign * np.ones(n),), {}) for n in range(40, 52) for sign in (1.0, -1.0)]
    check(tracker.jit(f), f, calls)


def test_methods_and_static_arrays():
    class Scale:
        @tracker.jit
        def by(self, x):
            return x * 3.0

        def plain(self, x):
            return x * 3.0

    scale = Scale()
    check(Scale.by, Scale.plain, [((scale, np.ones(n)), {}) for n in range(40, 52)])

    def f(x, table):
        return x * table[0]

    fast = tracker.jit(f, static=("table",))
    tables = [np.full(n, float(n)) for n in range(40, 52)]
    calls = [((np.ones(45), table), {}) for table in tables]
    check(fast, f, calls)
    for table in tables:
        table.shape = (1, -1)  # it is guarded by identity
    before = fast.cache_info().slow
    for (x, table), _ in calls:
        fast(x, table)
    assert fast.cache_info().slow == before


def test_removed_entries_are_not_found():
    def f(x):
        return x * 2.0

    fast = tracker.jit(f)
    calls = [((RNG.standard_normal(n),), {}) for n in range(40, 60)]
    check(fast, f, calls)
    made = native.entries(fast)
    native.remove_entries(fast, made[::2])
    assert native.entries(fast) == made[1::2]
    for (x,), _ in calls:
        np.testing.assert_array_equal(fast(x), f(x))
    native.remove_entries(fast, made[:-1])
    fast.clear_cache()
    assert native.entries(fast) == ()
    check(fast, f, calls[:2])


def test_not_all_traces_of_very_many_shapes_are_kept(monkeypatch, recwarn):
    monkeypatch.setattr(families, "_MAX_SIGNATURES", 24)
    fast = tracker.jit(lambda x: x * 2.0)
    arrays = [RNG.standard_normal(n) for n in range(40, 76)]
    slow = []
    for _ in range(4):
        for x in arrays:
            for _ in range(2):
                np.testing.assert_array_equal(fast(x), x * 2.0)
            assert len(fast._jitted.groups) <= 24
            assert len(native.entries(fast)) <= 24
        slow.append(fast.cache_info().slow)
    assert np.all(np.diff(slow) < 2 * len(arrays))  # some are found again
    assert not recwarn


def test_hashes_and_tables():
    def of(*args, **kwargs):
        return signature_hash(signature_of(args, kwargs)[0])

    x, y = np.ones((3, 4)), np.ones((4, 3))
    assert len({of(x), of(y), of(x, y), of(y, x), of(x[0], y), of(x.ravel()), of()}) == 7
    assert of(x, 1.0) == of(x, [y]) == of(x, key=y) == of(x.astype(np.float32))
    assert of(x, x) == of(x, x.copy())
    assert signature_hash(signature_of((x,), {}, frozenset([0]))[0]) is None
    table = DispatchTable(9, 77)
    slots = table.free
    assert table.insert(0, 5) == 77 and table.insert(0, 6) == 5
    assert table.insert(2**64 - 1, 7) == 77 and table.free == slots - 3


def test_objects_of_one_class():
    """Each is found by its address; numbers that differ are inputs, so all have the same code."""

    class Mass:
        def __init__(self, k):
            self.x, self.t, self.k = np.arange(3.0) + k, 0.0, 2.0 + k

        def step(self, dt):
            self.t += dt
            self.x = self.x - dt * self.k * self.t
            return np.sum(self.x)

    one, other = ([Mass(k) for k in range(20)] for _ in range(2))
    step = tracker.jit(Mass.step)
    for again in range(4):
        before = step.cache_info().slow
        for a, b in zip(one, other, strict=True):
            assert step(a, 0.25) == Mass.step(b, 0.25)
            assert (a.t, a.k) == (b.t, b.k)
            np.testing.assert_array_equal(a.x, b.x)
        assert again < 2 or step.cache_info().slow == before
    assert step.cache_info().traces == 20
    families = list(step._jitted.groups.values())
    texts = {str(family.specializations[0].trace.function) for family in families[6:]}
    assert len(texts) == 1
    table = native._entry_state(step).table
    assert table is not None and table.free > 0


def test_objects_compared_by_value():
    @dataclasses.dataclass
    class Pair:
        x: object
        n: int

    class Key(enum.Enum):
        A, B = 1, 2

    def f(pair, key, x):
        return pair.x * pair.n + (x if key is Key.A else -x)

    calls = []
    for n, key in itertools.product(range(40, 50), Key):
        calls.append(((Pair(np.ones(n), n), key, 1.0), {}))
        calls.append(((Pair(np.ones(n), 2), key, 1.0), {}))
    check(tracker.jit(f), f, calls)


def test_a_trace_that_fails_many_times_in_a_row_is_tried_last():
    f = tracker.jit(lambda x: x * 2.0 if x[0] > 0 else x * 3.0)
    often, seldom = np.ones(3), -np.ones(3)
    for x in (often, seldom, often, seldom):
        f(x)
        drain()
    slow = f.cache_info().slow
    newest, oldest = native.entries(f)
    for _ in range(31):
        f(often)
    assert native.entries(f) == (newest, oldest)
    f(seldom)  # not in a row
    for _ in range(40):
        assert np.all(f(often) == 2.0)
        assert np.all(f(seldom) == -3.0)
    assert native.entries(f) == (newest, oldest)
    for _ in range(100):
        assert np.all(f(often) == 2.0)
    assert native.entries(f) == (oldest, newest)
    assert np.all(f(seldom) == -3.0)
    assert f.cache_info().slow == slow


def test_entries_in_tables_are_reordered():
    def f(x):
        for k in tuple(range(6)):  # not rolled
            if x[0] < k:
                return x * k
        return -x

    g = tracker.jit(f)
    points = [np.full(n, k - 0.5) for k in range(7) for n in (1, 2)]
    for _ in range(2):
        for x in points:
            np.testing.assert_array_equal(g(x), f(x))
    drain()
    slow = g.cache_info().slow
    for x in points:
        for _ in range(70):
            np.testing.assert_array_equal(g(x), f(x))
    assert len(native.entries(g)) == 14
    assert g.cache_info().slow == slow


def test_threads_whose_calls_change_the_order():
    g = tracker.jit(lambda x: x * 2.0 if x[0] > 0 else x * 3.0)
    wrong = []

    def work(sign, factor):
        x = np.full(3, sign)
        wrong.extend(sign for _ in range(2000) if not np.all(g(x) == sign * factor))

    at_once(*([lambda: work(1.0, 2.0), lambda: work(-1.0, 3.0)] * 2))
    assert not wrong
