"""No Python function runs when an object dies, so that no interrupt is lost."""

import gc
import sys

import numpy as np
import pytest

from tracker import jit, param
from tracker.jit.abi.loader import _weak_cell
from tracker.jit.api import _LIVE
from tracker.jit.guards.constants import ConstantKey
from tracker.support.array_copies import _copies, snapshot
from tracker.support.weakrefs import WeakIdentityDict
from tracker.tape.tracing.placeholders import PLACEHOLDERS, add_placeholder
from tracker.tape.value import LazyCallbacks, _evictable, _thunks, evict, leaf, make_lazy


class Thing:
    pass


def test_entries_live_as_long_as_their_objects():
    table: WeakIdentityDict[str] = WeakIdentityDict()
    a, b = Thing(), Thing()
    table[a], table[b] = "a", "b"
    table[a] = "c"
    assert table[a] == table.get(a) == "c" and b in table and len(table) == 2
    assert list(table) == [a, b] and dict(table) == {a: "c", b: "b"}
    del a
    assert list(table.values()) == ["b"] and len(table) == 1
    del table[b]
    assert not table and b not in table and table.get(b) is None
    with pytest.raises(KeyError):
        table[b]


def test_keys_compare_by_identity():
    table: WeakIdentityDict[int] = WeakIdentityDict()
    a, b = np.float64, type("Float", (), {"__eq__": lambda *_: True, "__hash__": lambda _: 0})
    first, second = b(), b()
    table[first], table[a] = 1, 2
    assert second == first and second not in table and table[a] == 2


def test_a_cell_is_zeroed_once():
    thing = Thing()
    cell, alive = _weak_cell(ConstantKey(thing))
    assert cell.value == id(thing) and alive() is thing
    del thing
    assert cell.value is None and alive() is None


def _due_value():
    value = leaf(np.ones(3))
    make_lazy(value, np.sin, (np.ones(3),), (np.ones(3),), {}, TRACE)
    return value


def _met_value():
    value = _due_value()
    assert value.data[0] == np.sin(1.0)
    return value


def _due_again():
    value = _met_value()
    evict(value)
    return value


def _handle():
    handle = param(np.ones(3))
    add_placeholder(handle, np.ones(3))
    return handle


def _copied():
    array = np.ones(3000)
    snapshot(array)
    return array


TRACE = LazyCallbacks()
MAKE = [_due_value, _met_value, _due_again, _handle, _copied, lambda: jit(np.sin)]


@pytest.mark.parametrize("make", MAKE)
def test_no_python_function_runs_where_an_object_dies(make):
    ran = []
    gc.collect()
    sizes = [len(each) for each in (_thunks, _evictable, PLACEHOLDERS, _copies, _LIVE)]
    x = make()
    sys.setprofile(lambda frame, event, _: event == "call" and ran.append(frame.f_code))
    del x
    sys.setprofile(None)
    gc.collect()
    assert ran == []
    assert [len(each) for each in (_thunks, _evictable, PLACEHOLDERS, _copies, _LIVE)] == sizes


def test_a_jitted_function_that_is_compared_by_identity_forgets_an_object():
    f = jit(lambda thing, x: x * thing.factor)
    thing = Thing()
    thing.factor = 2.0
    assert f(thing, np.ones(2))[0] == f(thing, np.ones(2))[0] == 2.0
    ran = []
    sys.setprofile(lambda frame, event, _: event == "call" and ran.append(frame.f_code))
    del thing
    sys.setprofile(None)
    other = Thing()  # where the first one was, most likely
    other.factor = 3.0
    assert ran == [] and f(other, np.ones(2))[0] == 3.0
