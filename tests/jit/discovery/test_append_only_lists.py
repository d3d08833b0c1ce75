"""Lists that a function only appends to: one trace serves all calls, however long they grow."""

import operator
import types

import numpy as np
import pytest
from side_by_side import assert_alike, leaves

from tracker import jit

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
