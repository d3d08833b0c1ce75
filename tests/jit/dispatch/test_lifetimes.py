"""What a jitted function keeps alive, and for how long."""

import weakref

import numpy as np
import pytest

import tracker
from tracker.jit.abi import native_callable as native
from tracker.jit.dispatch import specialization
from tracker.jit.runtime.compile_queue import drain

X = np.ones(3)
BOUND = 12


@pytest.fixture
def bounded(monkeypatch):
    monkeypatch.setattr(specialization, "_MAX_SIGNATURES", BOUND)
    monkeypatch.setattr(specialization, "_INITIAL_CAPACITY", BOUND)


def probes(fast):
    """References to what a jitted function has made."""
    specials = [s for family in fast._jitted.groups.values() for s in family.specializations]
    made = [x for special in specials for x in (special.compiled.entry, special.job)]
    modules = [entry.module for entry in native.entries(fast)]
    return [weakref.ref(x) for x in (*made, *modules)]


def total(x):
    return np.sum(x[1:] * 2.0)


@pytest.mark.parametrize(
    "call",
    [lambda f: f(X), lambda f: tracker.gradient(f, X), lambda f: tracker.value_and_grad(f)(X)],
    ids=["value", "gradient", "both"],
)
def test_a_dropped_function_is_freed_with_its_code(call, uncollected):
    fast = tracker.jit(lambda x: total(x))
    for _ in range(2):
        call(fast)
        drain()
    fast(X)
    drain()
    derived = list(fast._jitted.derivatives.values())
    gone = [probe for f in (fast, *derived) for probe in (weakref.ref(f), *probes(f))]
    gone += [weakref.ref(fast.__wrapped__), weakref.ref(fast.__wrapped__.__code__)]
    assert len(gone) > 5
    del fast, derived
    drain()
    # the code is a constant of this test, too
    assert [probe() for probe in gone[:-1]] == [None] * (len(gone) - 1)


DISTINCT = {
    "strings": lambda k: (X, f"number {k}"),
    "keys": lambda k: (X, {f"key {k}": X}),
    "shapes": lambda k: (np.ones(k + 50), None),
    "ranks": lambda k: (np.ones((1,) * k), None),
    "flags": lambda k: (X, (k,) * k),
}


@pytest.mark.parametrize("name", DISTINCT)
def test_of_very_many_signatures_those_used_last_are_kept(name, bounded, uncollected):
    make = DISTINCT[name]
    fast = tracker.jit(lambda x, other: x * 2.0)

    def call(k):
        for _ in range(2):
            np.testing.assert_array_equal(fast(*make(k)), make(k)[0] * 2.0)
            drain()

    first = make(0)
    call(0)
    often = native.entries(fast)
    call(1)
    (seldom,) = set(native.entries(fast)) - set(often)
    gone = [weakref.ref(x) for x in (seldom, seldom.module)]
    del seldom
    for k in range(2, 3 * BOUND):
        call(k)
        assert len(fast._jitted.groups) <= BOUND
        assert len(native.entries(fast)) <= BOUND
        fast(*first)  # by machine code: nobody else sees that it is used
    assert set(often) <= set(native.entries(fast))
    assert [probe() for probe in gone] == [None, None]
