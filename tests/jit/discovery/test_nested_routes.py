"""What is in containers that code does not name: behind views, exceptions, members, defaults; and
classes of the user's of arrays and numbers.
"""

import collections
import contextvars
import dataclasses
import enum
import mmap
import types

import numpy as np
import pytest
from read_routes import check, collector, nothing

PROGRAMS, program = collector()


# Containers behind views, exceptions, members, defaults ------------------------------------------


@program
def a_view_of_a_dict():
    held = {"k": 1.0, "log": [], "w": np.ones(2)}
    view = types.MappingProxyType(held)

    def f(x):
        view["log"].append(x)
        return np.sum(view["w"] * x) * view["k"]

    def poke(i):
        held["k"], held["w"][0] = float(i), i

    return f, poke, lambda: held


@program
def values_of_a_dict():
    held = {"a": [], "b": []}
    logs = held.values()

    def f(x):
        for log in logs:
            log.append(2 * x)
        return x * len(logs)

    def poke(i):
        held[f"new {i}"] = []

    return f, poke, lambda: held


@program
def a_value_of_a_member():
    Kind = enum.Enum("Kind", {"A": [1.0], "B": [2.0]})

    def f(x):
        Kind.B.value.append(x)
        return sum(kind.value[0] for kind in Kind) * x

    def poke(i):
        Kind.A.value[0] = float(i)

    return f, poke, lambda: [Kind.A.value, Kind.B.value]


@program
def members_by_name():
    Kind = enum.Enum("Kind", {"A": [1.0], "B": [2.0]})

    def f(x):
        return Kind["A"].value[0] * x + Kind([2.0]).value[0]

    def poke(i):
        Kind.A.value[0] = float(i)

    return f, poke, nothing


@program
def arguments_of_an_exception():
    error = ValueError(1.0, [])

    def f(x):
        try:
            raise error
        except ValueError as caught:
            caught.args[1].append(x)
            return caught.args[0] * x

    def poke(i):
        error.args = (float(i), error.args[1])

    return f, poke, lambda: error.args


@program
def defaults_of_a_namedtuple():
    Pair = collections.namedtuple("Pair", "a log", defaults=(1.0, []))

    def f(x):
        pair = Pair(x)
        pair.log.append(x)
        return pair.a * len(pair.log)

    return f, nothing, lambda: Pair().log


@program
def defaults_of_a_dataclass():
    @dataclasses.dataclass
    class Rate:
        k: float = 1.0

    def poke(i):
        Rate.__init__.__defaults__ = (float(i),)

    return lambda x: Rate().k * x, poke, nothing


@program
def a_context_variable_to_begin_with():
    begin = []
    log = contextvars.ContextVar("log", default=begin)

    def f(x):
        log.get().append(x)
        return len(log.get()) * x

    return f, nothing, log.get


@program
def another_context():
    rate = contextvars.ContextVar("rate", default=1.0)
    context = contextvars.copy_context()

    def more():
        rate.set(rate.get() + 1)
        return rate.get()

    return lambda x: context.run(more) * x, nothing, lambda: context[rate]


@program
def what_makes_defaults():
    scale = [1.0]
    made = collections.defaultdict(lambda: scale[0])

    def f(x):
        return made.pop("a", made["b"]) * x

    def poke(i):
        scale[0] = float(i)
        made.clear()
        if i == 4:
            made.default_factory = float

    return f, poke, lambda: made


@program
def a_class_of_some_type():
    class Rate:
        k = 1.0

        def __init__(self):
            self.here = Rate.k

    rates = types.GenericAlias(Rate, (int,))

    def poke(i):
        Rate.k = float(i)

    return lambda x: rates().here * x, poke, nothing


@program
def a_cell():
    cell = types.CellType(1.0)

    def f(x):
        cell.cell_contents += 1
        return cell.cell_contents * x

    def poke(i):
        cell.cell_contents *= 2

    return f, poke, lambda: cell.cell_contents


@program
def what_deletes():
    log = []

    class Model:
        @property
        def k(self):
            return 1.0

        @k.deleter
        def k(self):
            log.append(2.0)

    model = Model()

    def f(x):
        del model.k
        return x

    return f, log.append, lambda: log


# Arrays of objects, and classes of the user's of arrays and numbers ------------------------------


@program
def an_array_of_objects():
    held = np.empty(2, object)
    held[0] = {"log": []}

    def f(x):
        held[0]["log"].append(2 * x)
        held[1] = x * x
        return x

    return f, nothing, lambda: held


@program
def a_class_of_arrays():
    scale = [1.0]

    class Share(np.ndarray):
        def total(self):
            self.calls += 1
            return float(self.sum()) * scale[0] * self.calls

    share = np.ones(3).view(Share)
    share.calls = 1.0

    def poke(i):
        scale[0], share[0] = float(i), i
        share.calls *= 2

    return lambda x: share.total() * x, poke, lambda: share.calls


@program
def a_class_of_numbers():
    scale = [1.0]

    class Rate(float):
        def __mul__(self, x):
            return float(self) * x * scale[0]

    rate = Rate(2.0)

    def poke(i):
        scale[0] = float(i)

    return lambda x: rate * x, poke, nothing


@program
def a_member_that_is_a_number():
    Kind = enum.IntEnum("Kind", {"A": 1})
    Kind.A.log = [1.0]

    def f(x):
        Kind.A.log.append(x)
        return Kind.A * x * Kind.A.log[0]

    def poke(i):
        Kind.A.log[0] = float(i)

    return f, poke, lambda: Kind.A.log


@program
def keys_that_are_objects():
    class Model:
        k = 1.0

    model = Model()
    shares = {model: 2.0}

    def poke(i):
        model.k = float(i)

    return lambda x: sum(m.k * share for m, share in shares.items()) * x, poke, nothing


@program
def memory_of_a_file():
    held = mmap.mmap(-1, 16)

    def poke(i):
        held[0] = i

    return lambda x: held[0] * x, poke, nothing


# The test of all of them ------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*runs in plain Python:RuntimeWarning")
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_each_call_is_that_of_the_plain_function(make):
    check(make)
