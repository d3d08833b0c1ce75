"""Lists that a function only appends to: one trace serves all calls, however long they grow."""

import collections
import dataclasses
import datetime
import enum
import itertools
import operator
import types
import weakref

import numpy as np
import pytest
from side_by_side import assert_alike, leaves

from tracker import jit, tree
from tracker.jit.tracing.placeholder_swap import contains_handle

GLOBAL_LOG = []
X = np.arange(3.0)


class Cell:
    rate = 2.0

    def __getattr__(self, name):
        return getattr(self, name.removeprefix("the_"))


class Record:
    pass


def nothing():
    pass


def reads_an_attribute(log, name="rate"):
    def f(x):
        log.append(np.sum(x))
        return np.sum(x) * getattr(Cell, name)

    return f


def reads_attributes_that_a_class_names(log):
    cell = Cell()

    def f(x):
        log.append(np.sum(x))
        return np.sum(x) * cell.the_rate

    return f


def reads_an_attribute_of_a_local_object(log, name="soc"):
    def f(x):
        cell = types.SimpleNamespace(soc=x)
        log.append(cell.soc[0])
        return np.sum(getattr(cell, name))

    return f


def appends_to_a_global(log, name="rate"):
    def f(x):
        GLOBAL_LOG.append(np.sum(x))
        return np.sum(x) * getattr(Cell, name)

    return f


@pytest.mark.parametrize(
    "make",
    [
        reads_an_attribute,
        reads_attributes_that_a_class_names,
        reads_an_attribute_of_a_local_object,
        appends_to_a_global,
    ],
)
def test_names_known_only_at_run_time_do_not_read_a_variable(make):
    log, other = [], []
    f, fast = make(log), jit(make(other), strict=True)
    GLOBAL_LOG.clear()
    for k in range(8):
        assert_alike(leaves(fast(k * X)), leaves(f(k * X)))
    assert_alike(leaves(other), leaves(log))
    assert_alike(leaves(GLOBAL_LOG[::2]), leaves(GLOBAL_LOG[1::2]))
    assert fast.cache_info().traces == 1


class Programs:
    """Each makes a list, and a function that appends to it and reads it by a name that is known
    only at run time."""

    def locals_by_name(name="log"):
        log = []

        def f(x):
            log.append(1.0)
            return np.sum(x) * len(locals()[name])

        return log, f

    def vars_by_name(name="log"):
        log = []

        def f(x):
            log.append(1.0)
            return np.sum(x) * len(vars()[name])

        return log, f

    def code(name="log"):
        log = []

        def f(x):
            log.append(1.0)
            return np.sum(x) * eval(f"len({name})")

        return log, f

    def globals_by_name(name="GLOBAL_LOG"):
        def f(x):
            GLOBAL_LOG.append(1.0)
            return np.sum(x) * len(globals()[name])

        return GLOBAL_LOG, f

    def globals_of_a_function(name="GLOBAL_LOG"):
        def f(x):
            GLOBAL_LOG.append(1.0)
            return np.sum(x) * len(nothing.__globals__[name])

        return GLOBAL_LOG, f

    def a_global_of_a_function():
        def f(x):
            GLOBAL_LOG.append(1.0)
            return np.sum(x) * len(nothing.__globals__["GLOBAL_LOG"])

        return GLOBAL_LOG, f

    def an_attribute_of_a_module(name="GLOBAL_LOG"):
        import sys

        module = sys.modules[__name__]

        def f(x):
            GLOBAL_LOG.append(1.0)
            return np.sum(x) * len(getattr(module, name))

        return GLOBAL_LOG, f

    def an_attribute_of_a_module_that_is_looked_up(name="GLOBAL_LOG"):
        import sys

        def f(x):
            GLOBAL_LOG.append(1.0)
            return np.sum(x) * len(getattr(sys.modules[__name__], name))

        return GLOBAL_LOG, f

    def an_attribute_of_an_object(name="log"):
        cell = Record()
        cell.log = []

        def f(x):
            cell.log.append(1.0)
            return np.sum(x) * len(getattr(cell, name))

        return cell.log, f

    def an_attribute_by_a_captured_class(name="log"):
        cell, getter = Record(), operator.attrgetter
        cell.log = []

        def f(x):
            cell.log.append(1.0)
            return np.sum(x) * len(getter(name)(cell))

        return cell.log, f

    def an_attribute_by_a_captured_class_of_the_same_name(name="log"):
        from operator import attrgetter

        cell = Record()
        cell.log = []

        def f(x):
            cell.log.append(1.0)
            return np.sum(x) * len(attrgetter(name)(cell))

        return cell.log, f


@pytest.mark.filterwarnings("ignore:.*runs in plain Python:RuntimeWarning")
@pytest.mark.parametrize("name", [name for name in vars(Programs) if not name.startswith("_")])
def test_what_is_read_by_a_name_known_only_at_run_time(name):
    log, f = getattr(Programs, name)()
    fast = jit(f)
    for run in (f, fast):
        log.clear()
        assert [run(X) for _ in range(6)] == [3.0 * k for k in range(1, 7)]


# What is appended ---------------------------------------------------------------------------------


@dataclasses.dataclass
class Step:
    at: float
    where: object


@dataclasses.dataclass(frozen=True)
class FrozenStep:
    at: float
    where: object


class Log:
    def __init__(self, at, where):
        self.at, self.where = at, where


class Slotted:
    __slots__ = ("at", "where")

    def __init__(self, at, where):
        self.at, self.where = at, where


class Mode(enum.Flag):
    SLOW = 1
    FAST = 2


ITEMS = {
    "a counter": lambda x: collections.Counter({"a": x[0], "b": 2}),
    "an ordered dict": lambda x: collections.OrderedDict(b=x, a=x[1]),
    "a dataclass": lambda x: Step(x[0], 2 * x),
    "a frozen dataclass": lambda x: FrozenStep(x[0], 2 * x),
    "an object": lambda x: Log(x[0], 2 * x),
    "an object with slots": lambda x: Slotted(x[0], 2 * x),
    "a namespace": lambda x: types.SimpleNamespace(at=x[0], where=[2 * x, (1, "a")]),
    "objects in objects": lambda x: Log(Log(x[0], None), [Slotted(1, x[:2] + 1), {"a": x}]),
    "a member": lambda x: Mode.SLOW | Mode.FAST,
    "a date": lambda x: (datetime.date(2024, 5, 1), datetime.timedelta(1), range(3)),
}


@pytest.mark.parametrize("what", ITEMS)
def test_each_call_appends_a_new_object(what):
    make, log, other = ITEMS[what], [], []

    def appends_to(log):
        def f(x):
            log.append(make(x))
            return np.sum(x)

        return f

    f, fast = appends_to(log), jit(appends_to(other), strict=True)
    for k in range(12):
        assert fast(k * X) == f(k * X)
    found, want = tree.flatten(other, objects=True), tree.flatten(log, objects=True)
    assert found[1] == want[1] and fast.cache_info().traces == 1
    for got, expected in zip(found[0], want[0], strict=True):
        assert type(got) is type(expected)
        np.testing.assert_array_equal(got, expected)


class Shared:
    """Each makes a function that appends to a list what can be told from a copy, and what tells."""

    def of_itself(log):
        def f(x):
            cell = Log(x, None)
            cell.where = cell
            log.append(cell)
            return np.sum(x)

        return f, lambda: all(each.where is each for each in log)

    def twice(log):
        def f(x):
            cell = Log(x, None)
            log.append(cell), log.append(cell)
            return np.sum(x)

        return f, lambda: [a is b for a, b in itertools.pairwise(log)]

    def in_a_set(log):
        known = {Log(1.0, 2.0)}

        def f(x):
            for cell in known:
                log.append(cell)
            return np.sum(x)

        return f, lambda: [each in known for each in log]

    def in_an_array(log):
        known = np.array([Log(1.0, 2.0), None])

        def f(x):
            log.append(known[0])
            return np.sum(x)

        return f, lambda: [each is known[0] for each in log]

    def in_a_weak_set(log):
        known = weakref.WeakSet()

        def f(x):
            cell = Log(x, None)
            known.add(cell), log.append(cell)
            return np.sum(x)

        return f, lambda: len(known)

    def at_another_source(log):
        last = types.SimpleNamespace(cell=None)

        def f(x):
            last.cell = Log(x, None)
            log.append(last.cell)
            return np.sum(x)

        return f, lambda: log[-1] is last.cell

    def from_before(log):
        cell = Log(1.0, 2.0)

        def f(x):
            cell.at = cell.at + x[0]
            log.append(cell)
            return np.sum(x) * cell.where

        return f, lambda: [(each is cell, float(each.at)) for each in log]

    def an_array_and_its_view(log):
        def f(x):
            y = 2 * x
            log.append(Log(y, y[:2]))
            return np.sum(y)

        return f, lambda: [np.shares_memory(each.at, each.where) for each in log]


@pytest.mark.filterwarnings("ignore:.*runs in plain Python:RuntimeWarning")
@pytest.mark.parametrize("name", [name for name in vars(Shared) if not name.startswith("_")])
def test_what_is_not_only_in_the_list_is_no_copy(name):
    found = []
    for transform in (jit, lambda f: f):
        log = []
        f, tell = getattr(Shared, name)(log)
        run = transform(f)
        found.append(([run(k * X) for k in range(8)], tell(), len(log)))
        assert not any(map(contains_handle, log))
    assert found[0] == found[1]


def test_items_of_a_list_that_is_read_are_guarded():
    log = [Log(1.0, None)]

    def f(x, grows=False):
        if grows:
            log.append(Log(x[0], None))
        return np.sum(x) * log[0].at

    fast = jit(f)
    for k in range(1, 6):
        log[0].at = float(k)
        assert fast(X) == 3.0 * k
