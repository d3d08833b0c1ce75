"""Ways by which a function reads and changes what it was not given, that no name in its code says.

Each program is made twice; the plain function and the compiled one do the same, call after call,
while others change what they read.
"""

import collections
import concurrent.futures
import contextvars
import ctypes
import dataclasses
import decimal
import enum
import functools
import queue
import threading
import types
import weakref

import numpy as np
import pytest
from scipy.interpolate import PPoly

from tracker import CompileError, jit
from tracker.tracked import Tracked

PROGRAMS = {}


def program(make):
    """`make()` gives a function, what somebody else does before call `i`, and what to look at."""
    PROGRAMS[make.__name__] = make
    return make


def nothing(i=0):
    pass


def shown(x):
    """What is seen of an object, in which there must be no handle of a trace."""
    assert type(x) is not Tracked
    if isinstance(x, dict):
        return type(x), [(key, shown(value)) for key, value in x.items()]
    if isinstance(x, (list, tuple, collections.deque)):
        return type(x), [shown(each) for each in x]
    if isinstance(x, np.ndarray) and x.dtype.hasobject:
        return [shown(each) for each in x.flat]
    return type(x), repr(x)


def calls(make, how):
    f, poke, state = make()
    fast, found = how(f), []
    for i, x in enumerate((1.0, 2.0, 3.0, 1.5, 2.0, 2.0)):
        if i:
            poke(i)
        found.append((fast(x), shown(state())))
    return found


# Objects of libraries: their methods read attributes that no code of the user's names ------------


@program
def a_flag_of_a_thread():
    event = threading.Event()

    def poke(i):
        (event.set if i % 2 else event.clear)()

    return lambda x: 2 * x if event.is_set() else x, poke, event.is_set


@program
def a_result_that_comes():
    future = concurrent.futures.Future()

    def poke(i):
        if i == 2:
            future.set_result(7.0)

    return lambda x: future.result() * x if future.done() else x, poke, nothing


@program
def a_polynomial():
    p = np.poly1d([1.0, 2.0])

    def poke(i):
        p.coeffs[0] = i

    return lambda x: p(2.0) * x, poke, nothing


@program
def a_polynomial_of_a_basis():
    p = np.polynomial.Chebyshev([1.0, 2.0])

    def poke(i):
        p.coef[0] = i

    return lambda x: p(2.0) * x, poke, nothing


@program
def a_polynomial_in_pieces():
    p = PPoly(np.ones((2, 1)), np.array([0.0, 1.0]))

    def poke(i):
        p.c[0, 0] = i

    return lambda x: float(p(0.5)) * x, poke, nothing


@program
def a_vectorized_function():
    scale = [1.0]
    each = np.vectorize(lambda y: y * scale[0])

    def poke(i):
        scale[0] = float(i)

    return lambda x: each(np.ones(2)).sum() * x, poke, nothing


@program
def indices_that_go_on():
    at = np.ndindex(3, 4)
    return lambda x: sum(next(at)) * x, nothing, nothing


@program
def items_that_go_on():
    a = np.arange(20.0)
    items = np.ndenumerate(a)

    def poke(i):
        a[:] += i

    return lambda x: next(items)[1] * x, poke, nothing


@program
def text_that_is_wrapped():
    text = collections.UserString("ab")

    def poke(i):
        text.data += "c"

    return lambda x: len(text) * x, poke, nothing


@program
def a_set_of_references():
    class Model:
        pass

    one, other = Model(), Model()
    one.k, other.k = 1.0, 3.0
    held = weakref.WeakSet([one])

    def poke(i):
        one.k += 1
        (held.add if i % 2 else held.discard)(other)

    return lambda x: sum(m.k for m in held) * x, poke, nothing


# Places that were empty, or not looked at -------------------------------------------------------


@program
def a_closure_variable_that_comes_and_goes():
    n = 1.0

    def f(x):
        nonlocal n
        try:
            found = n
        except NameError:
            found = 5.0
        n = 2.0
        del n
        return found * x

    def poke(i):
        nonlocal n
        if i == 2:
            n = 7.0

    return f, poke, nothing


@program
def attributes_of_a_partial():
    inner = functools.partial(lambda x: 2 * x)
    inner.calls = 1.0

    def f(x):
        inner.calls += 1
        return inner(x) * inner.calls

    def poke(i):
        inner.calls *= 2

    return f, poke, lambda: inner.calls


@program
def a_module_that_computes_its_names():
    module, scale = types.ModuleType("tracker_test_computed"), [1.0]
    module.__getattr__ = lambda name: scale[0]

    def poke(i):
        scale[0] = float(i)

    return lambda x: module.anything * x, poke, nothing


# What hides its contents ------------------------------------------------------------------------


@program
def a_pointer():
    a = np.arange(3.0)
    pointer = a.ctypes.data_as(ctypes.POINTER(ctypes.c_double))

    def poke(i):
        a[1] = i

    return lambda x: pointer[1] * x, poke, nothing


@program
def a_python_object_of_ctypes():
    numbers = [1.0]
    held = ctypes.py_object(numbers)

    def poke(i):
        numbers[0] = float(i)

    return lambda x: held.value[0] * x, poke, nothing


@program
def a_queue_in_c():
    numbers = queue.SimpleQueue()

    def f(x):
        numbers.put(x)
        return numbers.qsize() * x

    return f, nothing, lambda: [numbers.get() for _ in range(numbers.qsize())]


@program
def a_precision():
    context = decimal.Context(prec=3)

    def f(x):
        return float(context.divide(decimal.Decimal(1), decimal.Decimal(3))) * x

    def poke(i):
        context.prec = 2 + i

    return f, poke, nothing


@program
def a_ufunc_of_a_function():
    scale = [1.0]
    each = np.frompyfunc(lambda y: y * scale[0], 1, 1)

    def poke(i):
        scale[0] = float(i)

    return lambda x: each(2.0) * x, poke, nothing


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


# The test of all of them ------------------------------------------------------------------------


def test_what_hides_its_contents_is_refused_where_the_function_is_strict():
    context = decimal.Context(prec=3)
    with pytest.raises(CompileError, match="or what hides its contents"):
        jit(lambda x: x * context.prec, strict=True)(1.0)


@pytest.mark.filterwarnings("ignore:.*runs in plain Python:RuntimeWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_call_is_that_of_the_plain_function(name):
    assert calls(PROGRAMS[name], jit) == calls(PROGRAMS[name], lambda f: f)
