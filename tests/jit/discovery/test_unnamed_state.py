"""State that code reads and changes without naming it: behind views, exceptions and defaults, in
objects of libraries, through tools under other names, and in opaque objects.

Each program is run compiled and plain, while its state is changed between the calls.
"""

import collections
import concurrent.futures
import contextvars
import ctypes
import dataclasses
import decimal
import enum
import functools
import itertools
import mmap
import operator
import os
import queue
import threading
import types
import weakref

import numpy as np
import pytest
from scipy.interpolate import PPoly
from side_by_side import assert_alike, leaves

from tracker import CompileError, jit


def nothing(i=0):
    pass


def puts(container, key):
    """Put another number under a key before each call."""
    return lambda i: container.__setitem__(key, float(i))


def sets(x, name):
    """Set an attribute to another number before each call."""
    return lambda i: setattr(x, name, float(i))


def check(make):
    """Each call of the compiled function is that of the plain one."""
    (f, poke, state), (g, poke_other, other) = make(), make()
    fast = jit(g)
    for i, x in enumerate((1.0, 2.0, 3.0, 1.5, 2.0, 2.0)):
        if i:
            poke(i), poke_other(i)
        assert_alike(leaves((fast(x), other())), leaves((f(x), state())))


def tools(get=getattr, put=setattr, has=hasattr, of=vars, getter=operator.attrgetter):
    """What reads and sets attributes by text, by other names: `name` is in no code."""
    name = ["ra" + "te"]
    yield lambda o: get(o, name[0])
    yield lambda o: of(o)[name[0]]
    yield lambda o: getter(name[0])(o)
    yield lambda o: (put(o, name[0], get(o, name[0]) + 1), get(o, name[0]))[1]
    yield lambda o: 2.0 if has(o, name[0]) else 1.0
    held = {"get": get}
    yield lambda o: held["get"](o, name[0])


class Slotted:
    __slots__ = ("rate",)

    def __init__(self):
        self.rate = 1.0


def meanwhile(model):
    """What changes a model before each call, and the state to compare."""

    def poke(i):
        model.rate *= 2

    return poke, lambda: model.rate


class Programs:
    """Each makes a function, what is done before call `i`, and what returns the state."""

    # Containers behind views, exceptions, members, defaults -----------------------------------

    def a_view_of_a_dict():
        held = {"k": 1.0, "log": [], "w": np.ones(2)}
        view = types.MappingProxyType(held)

        def f(x):
            view["log"].append(x)
            return np.sum(view["w"] * x) * view["k"]

        def poke(i):
            held["k"], held["w"][0] = float(i), i

        return f, poke, lambda: held

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

    def a_value_of_a_member():
        Kind = enum.Enum("Kind", {"A": [1.0], "B": [2.0]})

        def f(x):
            Kind.B.value.append(x)
            return sum(kind.value[0] for kind in Kind) * x

        return f, puts(Kind.A.value, 0), lambda: [Kind.A.value, Kind.B.value]

    def members_by_name():
        Kind = enum.Enum("Kind", {"A": [1.0], "B": [2.0]})

        def f(x):
            return Kind["A"].value[0] * x + Kind([2.0]).value[0]

        return f, puts(Kind.A.value, 0), nothing

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

    def defaults_of_a_namedtuple():
        Pair = collections.namedtuple("Pair", "a log", defaults=(1.0, []))

        def f(x):
            pair = Pair(x)
            pair.log.append(x)
            return pair.a * len(pair.log)

        return f, nothing, lambda: Pair().log

    def defaults_of_a_dataclass():
        @dataclasses.dataclass
        class Rate:
            k: float = 1.0

        def poke(i):
            Rate.__init__.__defaults__ = (float(i),)

        return lambda x: Rate().k * x, poke, nothing

    def a_context_variable_to_begin_with():
        begin = []
        log = contextvars.ContextVar("log", default=begin)

        def f(x):
            log.get().append(x)
            return len(log.get()) * x

        return f, nothing, log.get

    def another_context():
        rate = contextvars.ContextVar("rate", default=1.0)
        context = contextvars.copy_context()

        def more():
            rate.set(rate.get() + 1)
            return rate.get()

        return lambda x: context.run(more) * x, nothing, lambda: context[rate]

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

    def a_class_of_some_type():
        class Rate:
            k = 1.0

            def __init__(self):
                self.here = Rate.k

        rates = types.GenericAlias(Rate, (int,))

        return lambda x: rates().here * x, sets(Rate, "k"), nothing

    def a_cell():
        cell = types.CellType(1.0)

        def f(x):
            cell.cell_contents += 1
            return cell.cell_contents * x

        def poke(i):
            cell.cell_contents *= 2

        return f, poke, lambda: cell.cell_contents

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

    # Arrays of objects, and classes of the user's of arrays and numbers -----------------------

    def an_array_of_objects():
        held = np.empty(2, object)
        held[0] = {"log": []}

        def f(x):
            held[0]["log"].append(2 * x)
            held[1] = x * x
            return x

        return f, nothing, lambda: held

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

    def a_class_of_numbers():
        scale = [1.0]

        class Rate(float):
            def __mul__(self, x):
                return float(self) * x * scale[0]

        rate = Rate(2.0)

        return lambda x: rate * x, puts(scale, 0), nothing

    def a_member_that_is_a_number():
        Kind = enum.IntEnum("Kind", {"A": 1})
        Kind.A.log = [1.0]

        def f(x):
            Kind.A.log.append(x)
            return Kind.A * x * Kind.A.log[0]

        return f, puts(Kind.A.log, 0), lambda: Kind.A.log

    def keys_that_are_objects():
        class Model:
            k = 1.0

        model = Model()
        shares = {model: 2.0}

        return (
            lambda x: sum(m.k * share for m, share in shares.items()) * x,
            sets(model, "k"),
            nothing,
        )

    def memory_of_a_file():
        held = mmap.mmap(-1, 16)

        return lambda x: held[0] * x, lambda i: operator.setitem(held, 0, i), nothing

    # Objects of libraries: their methods read attributes that no code of the user's names -----

    def a_flag_of_a_thread():
        event = threading.Event()

        def poke(i):
            (event.set if i % 2 else event.clear)()

        return lambda x: 2 * x if event.is_set() else x, poke, event.is_set

    def a_result_that_comes():
        future = concurrent.futures.Future()

        def poke(i):
            if i == 2:
                future.set_result(7.0)

        return lambda x: future.result() * x if future.done() else x, poke, nothing

    def a_polynomial():
        p = np.poly1d([1.0, 2.0])

        return lambda x: p(2.0) * x, puts(p.coeffs, 0), nothing

    def a_polynomial_of_a_basis():
        p = np.polynomial.Chebyshev([1.0, 2.0])

        return lambda x: p(2.0) * x, puts(p.coef, 0), nothing

    def a_polynomial_in_pieces():
        p = PPoly(np.ones((2, 1)), np.array([0.0, 1.0]))

        return lambda x: float(p(0.5)) * x, puts(p.c, (0, 0)), nothing

    def a_vectorized_function():
        scale = [1.0]
        each = np.vectorize(lambda y: y * scale[0])

        return lambda x: each(np.ones(2)).sum() * x, puts(scale, 0), nothing

    def indices_that_go_on():
        at = np.ndindex(3, 4)
        return lambda x: sum(next(at)) * x, nothing, nothing

    def items_that_go_on():
        a = np.arange(20.0)
        items = np.ndenumerate(a)

        def poke(i):
            a[:] += i

        return lambda x: next(items)[1] * x, poke, nothing

    def text_that_is_wrapped():
        text = collections.UserString("ab")

        def poke(i):
            text.data += "c"

        return lambda x: len(text) * x, poke, nothing

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

    # Places that were empty, or not looked at -------------------------------------------------

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

    def attributes_of_a_partial():
        inner = functools.partial(lambda x: 2 * x)
        inner.calls = 1.0

        def f(x):
            inner.calls += 1
            return inner(x) * inner.calls

        def poke(i):
            inner.calls *= 2

        return f, poke, lambda: inner.calls

    def a_module_that_computes_its_names():
        module, scale = types.ModuleType("tracker_test_computed"), [1.0]
        module.__getattr__ = lambda name: scale[0]

        return lambda x: module.has_requirements * x, puts(scale, 0), nothing

    # What hides its contents ------------------------------------------------------------------

    def a_pointer():
        a = np.arange(3.0)
        pointer = a.ctypes.data_as(ctypes.POINTER(ctypes.c_double))

        return lambda x: pointer[1] * x, puts(a, 1), nothing

    def a_python_object_of_ctypes():
        numbers = [1.0]
        held = ctypes.py_object(numbers)

        return lambda x: held.value[0] * x, puts(numbers, 0), nothing

    def a_queue_in_c():
        numbers = queue.SimpleQueue()

        def f(x):
            numbers.put(x)
            return numbers.qsize() * x

        return f, nothing, lambda: [numbers.get() for _ in range(numbers.qsize())]

    def a_precision():
        context = decimal.Context(prec=3)

        def f(x):
            return float(context.divide(decimal.Decimal(1), decimal.Decimal(3))) * x

        def poke(i):
            context.prec = 2 + i

        return f, poke, nothing

    def a_ufunc_of_a_function():
        scale = [1.0]
        each = np.frompyfunc(lambda y: y * scale[0], 1, 1)

        return lambda x: each(2.0) * x, puts(scale, 0), nothing

    def methods_in_c_that_are_kept():
        model = types.SimpleNamespace(rate=1.0)
        get, put = model.__getattribute__, model.__setattr__

        def f(x):
            put("rate", get("rate") + x)
            return get("rate") * x

        return f, *meanwhile(model)

    def a_slot_that_is_kept():
        model = Slotted()
        get, put = Slotted.rate.__get__, Slotted.rate.__set__

        def f(x):
            put(model, get(model) + 1)
            return get(model) * x

        return f, *meanwhile(model)

    def a_slot_whose_descriptor_is_kept():
        model = Slotted()
        slot = Slotted.rate

        def f(x):
            slot.__set__(model, slot.__get__(model) + x)
            return slot.__get__(model) * x

        return f, *meanwhile(model)

    def methods_in_c_of_the_class_of_all():
        model = types.SimpleNamespace(rate=1.0)
        get, put = object.__getattribute__, object.__setattr__
        name = ["ra" + "te"]

        def f(x):
            put(model, name[0], get(model, name[0]) + x)
            return get(model, name[0]) * x

        return f, *meanwhile(model)

    def the_class_above_that_is_kept():
        class Model:
            def step(self, x):
                return self.rate * x

        class Other(Model):
            def step(self, x):
                return 0.0

        model = Other()
        model.rate = 1.0
        above = super(Other, model)

        return lambda x: above.step(x), sets(model, "rate"), nothing


@pytest.mark.filterwarnings("ignore:.*runs in plain Python:RuntimeWarning")
@pytest.mark.parametrize("name", [name for name in vars(Programs) if not name.startswith("_")])
def test_each_call_is_that_of_the_plain_function(name):
    check(getattr(Programs, name))


def test_what_hides_its_contents_is_refused_where_the_function_is_strict():
    context = decimal.Context(prec=3)
    with pytest.raises(CompileError, match=r"context, of class decimal\.Context, whose"):
        jit(lambda x: x * context.prec, strict=True)(1.0)


def test_a_fallback_names_the_opaque_object():
    numbers = itertools.count()
    f = jit(lambda x: x + next(numbers))
    with pytest.warns(RuntimeWarning, match=r"variable numbers, of class itertools\.count, whose"):
        f(1.0)
    assert f(1.0) == 2.0
    f = jit(lambda x, steps: x * sum(steps), strict=True)
    with pytest.raises(CompileError, match="argument 1, of class generator, whose"):
        f(1.0, (i for i in range(3)))


@pytest.mark.filterwarnings("ignore:.*runs in plain Python:RuntimeWarning")
@pytest.mark.parametrize("which", range(6))
def test_tools_by_other_names(which):
    read = list(tools())[which]

    def make():
        model = types.SimpleNamespace(rate=1.0)

        def poke(i):
            model.rate = float(i)
            if which == 4 and i % 2:
                del model.rate

        return lambda x: read(model) * x, poke, lambda: vars(model)

    check(make)


def test_the_environment_by_other_names(monkeypatch):
    name = ["TRACKER_TEST" + "_ROUTES"]
    monkeypatch.setenv(name[0], "1.0")

    def make():
        variables, get, ask = os.environ, os.environ.get, os.getenv
        variables[name[0]] = "1.0"

        def f(x):
            return len(variables[name[0]]) * float(get(name[0])) * float(ask(name[0])) * x

        def poke(i):
            variables[name[0]] = str(i)

        return f, poke, nothing

    check(make)
