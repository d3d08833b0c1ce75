"""Tools that read and set attributes by text, and methods in C, by other names than their own."""

import operator
import os
import types

import pytest
from read_routes import check, collector, nothing

PROGRAMS, program = collector()


# Tools by other names ---------------------------------------------------------------------------


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
    """What somebody else does to a model before a call, and what to look at."""

    def poke(i):
        model.rate *= 2

    return poke, lambda: model.rate


@program
def methods_in_c_that_are_kept():
    model = types.SimpleNamespace(rate=1.0)
    get, put = model.__getattribute__, model.__setattr__

    def f(x):
        put("rate", get("rate") + x)
        return get("rate") * x

    return f, *meanwhile(model)


@program
def a_slot_that_is_kept():
    model = Slotted()
    get, put = Slotted.rate.__get__, Slotted.rate.__set__

    def f(x):
        put(model, get(model) + 1)
        return get(model) * x

    return f, *meanwhile(model)


@program
def a_slot_whose_descriptor_is_kept():
    model = Slotted()
    slot = Slotted.rate

    def f(x):
        slot.__set__(model, slot.__get__(model) + x)
        return slot.__get__(model) * x

    return f, *meanwhile(model)


@program
def methods_in_c_of_the_class_of_all():
    model = types.SimpleNamespace(rate=1.0)
    get, put = object.__getattribute__, object.__setattr__
    name = ["ra" + "te"]

    def f(x):
        put(model, name[0], get(model, name[0]) + x)
        return get(model, name[0]) * x

    return f, *meanwhile(model)


@program
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

    def poke(i):
        model.rate = float(i)

    return lambda x: above.step(x), poke, nothing


# The test of all of them ------------------------------------------------------------------------


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


@pytest.mark.filterwarnings("ignore:.*runs in plain Python:RuntimeWarning")
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_each_call_is_that_of_the_plain_function(make):
    check(make)
