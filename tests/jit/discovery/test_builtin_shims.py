"""Compiled code answers questions about values and objects as the plain function does: of what
class a value is, which attributes something has, and which of several numbers is the largest."""

import copy
import dataclasses
import functools
import itertools
import numbers
import operator
import threading
import warnings
from collections.abc import Iterable, Sized

import numpy as np
import pytest
from pairwise_parameters import crossed
from side_by_side import each, program

import tracker.numpy as tnp
from tracker import gradient, jit, jvp, pullback, value_and_grad

VALUES = [2.5, 3, 2 + 1j, np.float64(2.5), np.float32(2.5), np.int64(3), np.array(2.5)]
VALUES += [np.arange(6.0).reshape(2, 3), np.array([1, 2])]


def _kind(x):
    match x:
        case float():
            return "float"
        case int():
            return "int"
        case np.ndarray(ndim=2):
            return "matrix"
        case _:
            return "other"


class _Is(type):
    def __instancecheck__(cls, x):
        return type(x) is float


class _Exactly(metaclass=_Is):
    """What is a float, and of no class derived from it."""


QUESTIONS = {
    "name": lambda x: type(x).__name__,
    "exactly": lambda x: type(x) is float or type(x) == np.ndarray,  # noqa: E721
    "table": lambda x: {float: 1, int: 2, np.ndarray: 3}.get(type(x), 4),
    "module": lambda x: type(x).__module__,
    "subclass": lambda x: issubclass(type(x), (np.ndarray, np.generic)),
    "subdtype": lambda x: np.issubdtype(type(x), np.floating),
    "sized": lambda x: isinstance(x, Sized),
    "iterable": lambda x: isinstance(x, Iterable),
    "number": lambda x: (isinstance(x, numbers.Real), isinstance(x, (int, np.integer))),
    "own check": lambda x: isinstance(x, _Exactly),
    "has shape": lambda x: hasattr(x, "shape"),
    "has len": lambda x: hasattr(x, "__len__") or hasattr(x, "__iter__"),
    "has method": lambda x: hasattr(x, "is_integer"),
    "rank": lambda x: getattr(x, "ndim", -1),
    "match": _kind,
    "class of a class": lambda x: (type(type(x)) is type, isinstance(type(x), type)),
}


IDS = [f"{type(x).__name__}{np.shape(x)}" for x in VALUES]


@pytest.mark.parametrize("x", VALUES, ids=IDS)
def test_questions_about_values(x):
    program(x)(lambda x: {name: ask(x) for name, ask in QUESTIONS.items()}).check()


OF_ATTRIBUTES = ("has shape", "has len", "has method", "rank")
OF_CLASSES = ("name", "exactly", "table", "module", "subclass", "subdtype", "class of a class")


@pytest.mark.parametrize("x", VALUES, ids=IDS)
def test_questions_within_a_derivative(x):
    def answers(x):
        return {name: QUESTIONS[name](x) for name in names}

    def f(x):
        return np.sum(np.real(x)) * (2.0 if answers(x) == plain else 3.0)

    names = *OF_CLASSES, *OF_ATTRIBUTES, "own check", "number", "match"
    plain = answers(x)
    for value, _ in (value_and_grad(f)(x), value_and_grad(jit(f))(x), pullback(f, x)):
        assert value == f(x)
    assert jvp(f, (x,), (x,))[0] == f(x)
    assert not {"type", "hasattr", "getattr"} & globals().keys()


@pytest.mark.parametrize("f", [copy.copy, copy.deepcopy, operator.pos], ids=lambda f: f.__name__)
@pytest.mark.parametrize("x", VALUES, ids=IDS)
def test_copies_are_of_the_same_class(f, x):
    @program(x)
    def copied(x):
        y = f(x)
        y *= 2
        return y, x

    copied.check()


class Programs:
    @program(2.5, np.arange(3.0))
    def classes_that_type_makes(x):
        class Meta(type):
            def __new__(mcs, name, bases, space):
                return type.__new__(mcs, name, bases, space)

        class A(metaclass=Meta):
            factor = 2.0

        made = type("B", (A,), {"more": 3.0})
        return x * made.factor * made.more, isinstance(A, type), type(A) is Meta, type(Meta) is type

    @program(2.0, state={"c": np.arange(3.0)})
    def captured_arrays_and_results(x, s):
        y = s.c * x
        return type(s.c) is np.ndarray, type(y) is type(s.c), type(np.sum(y)) is np.float64, y

    @program(np.arange(3.0))
    def classes_of_the_drop_in(x):
        known = type(x) is tnp.ndarray, type(tnp.sum(x)) is tnp.float64, type(x) is not tnp.float32
        return *known, type(x) in (tnp.ndarray, tnp.float64), tnp.float64(x[0]) * 2

    @program(np.arange(3.0), gradients=True)
    def derivatives(x):
        return np.sum(x * x) if type(x) is np.ndarray else 3.0 * np.sum(x)


@each(Programs)
def test_programs(row):
    row.check()
    assert "type" not in globals() and "isinstance" not in globals()


def _extremes(a, b, c):
    return min(a, b), max(b, c), max([a, b, c]), min((a, 2 * b)), max(a, min(b, c), c)


@pytest.mark.parametrize("cls", [float, np.float64, np.float32])
def test_extremes_of_floats_are_no_branches(cls):
    f = jit(_extremes)
    for given in itertools.product([1.0, -2.0, 0.0, -0.0, np.nan], repeat=3):
        given = [*map(cls, given)]
        want, have = _extremes(*given), f(*given)
        assert [*map(repr, have)] == [*map(repr, want)]
    assert f.cache_info().traces == 1


@pytest.mark.parametrize("numbers", [(1, 2), (2, 1), (2.5, 3), (3.5, 3), (1.0, np.float64(2.0))])
def test_extremes_of_other_numbers(numbers):
    @program(*numbers)
    def f(a, b):
        of_one = max([a * 1.0]), min(iter([a, b])), max(a, b, key=lambda x: -x), max([], default=a)
        return min(a, b), max(a, 0, b), *of_one

    f.check()


def test_derivatives_of_extremes():
    """At ties, the first one's; of what is not selected, none."""

    def f(x):
        peak, drop = x[0], x[0] * 0.0
        for i in range(1, len(x)):
            peak = max(peak, x[i])
            drop = max(drop, peak - x[i])
        return drop * peak + max(x[0] + 1.0, np.sqrt(x[1])) + max(x[2] * 2.0, x[2] + x[2])

    compiled = jit(f)
    points = np.array([[1.0, 0.0, 2.0, 2.0], [0.5, 0.0, -1.0, 1.0], [3.0, 1.0, 1.0, 3.0]])
    assert [compiled(x) for x in points] == [f(x) for x in points]
    assert compiled.cache_info().traces == 1
    with np.errstate(divide="ignore"):
        for x in points:
            np.testing.assert_array_equal(gradient(compiled, x), gradient(f, x))


def test_a_derivative_in_another_thread_is_answered_after_a_trace():
    inside, entered, traced = threading.Event(), threading.Event(), threading.Event()
    answered = []

    def f(x):
        entered.set()
        traced.wait(10)
        answered.append(type(x) is np.ndarray)
        return np.sum(x)

    def asks(x):
        inside.set()
        entered.wait(10)
        return x * 2 if type(x) is np.ndarray else x * 3

    def other():
        inside.wait(10)
        gradient(f, np.ones(2))

    thread = threading.Thread(target=other)
    thread.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # it waits, which no trace can do again
        assert jit(asks)(np.ones(2)).tolist() == [2.0, 2.0]
    traced.set()
    thread.join(10)
    assert answered == [True] and "type" not in globals()


def test_a_question_in_an_eager_derivative():
    held = np.ones(2)
    assert gradient(lambda x: x * 2 if type(held) is tnp.ndarray else x, 1.0) == (2.0,)


def test_other_threads_are_answered_as_ever():
    inside, answered = threading.Event(), threading.Event()
    found = []

    def asks(x):
        return type(x) is np.ndarray, isinstance(x, Sized), getattr(x, "ndim", None)

    def plain(x):
        inside.set()
        answered.wait(10)
        return asks(x)

    def other():
        inside.wait(10)
        found.append((asks(np.ones(2)), asks(3.0), type("A", (), {}).__name__))
        answered.set()

    thread = threading.Thread(target=other)
    thread.start()
    assert jit(plain)(np.ones(2)) == (True, True, 1)
    thread.join()
    assert found == [((True, True, 1), (False, False, None), "A")]


# Attributes ---------------------------------------------------------------------------------------


class Model:
    scale = 2.0

    def __init__(self):
        self.a = 1.0
        self.w = np.ones(2)


class Open(Model):
    """A class that makes up attributes, as a network's modules do."""

    def __init__(self):
        super().__init__()
        self.held = {"b": 5.0}

    def __getattr__(self, name):
        if name in self.__dict__.get("held", {}):
            return self.held[name]
        raise AttributeError(name)


@dataclasses.dataclass
class Data:
    a: float = 1.0
    w: object = None


def _tried(o, x):
    try:
        return x * o.b
    except AttributeError:
        return x


def _matched(o, x):
    match o:
        case Model(b=3.0):
            return x * 7.0
        case Data(a=1.0) | Model(a=1.0):
            return x
        case _:
            return x * 2.0


READERS = {
    "default": lambda o, x: x * getattr(o, "b", 2.0),
    "has": lambda o, x: x * (1.0 if hasattr(o, "b") else 2.0),
    "had": lambda o, x: x * (1.0 if hasattr(o, "a") else 2.0),
    "tried": _tried,
    "matched": _matched,
    "vars": lambda o, x: x * sum(v for v in vars(o).values() if isinstance(v, float)),
    "dict": lambda o, x: x * o.__dict__.get("b", 5.0),
    "items": lambda o, x: x * len(o.__dict__),
    "text": lambda o, x: x * getattr(o, "".join("a"), 9.0),
    "array": lambda o, x: x * getattr(o, "".join("w")),
    "attrgetter": lambda o, x: x * operator.attrgetter("a")(o),
    "of the class": lambda o, x: x * getattr(type(o), "scale", 1.0),
    "in a loop": lambda o, x: sum((getattr(o, n) for n in ("a", "w") if hasattr(o, n)), x),
}


def _shadowed(scale):
    """A class attribute of the object's own class, so that each has one."""
    return lambda o: setattr(type(o), "scale", scale)


CHANGES = [
    lambda o: setattr(o, "b", 3.0),
    lambda o: setattr(o, "a", 4.0),
    lambda o: setattr(o, "w", np.full(2, 9.0)),
    lambda o: o.w.fill(3.0),
    lambda o: delattr(o, "b"),
    lambda o: isinstance(o, Data) or delattr(o, "a"),
    lambda o: (setattr(o, "a", 5.5), _shadowed(8.0)(o)),
    _shadowed(2.0),
]


def _capture(read, o):
    return lambda x: read(o, x)


@crossed(
    bind=[_capture, functools.partial],
    name=READERS,
    make=[Model, Open, functools.partial(Data, w=np.ones(2))],
)
def test_attributes_that_come_and_go(bind, name, make):
    row = program(np.arange(2.0), state=make, bind=bind, changes=CHANGES, warns=None)
    row(READERS[name]).check()


def test_names_of_attributes_that_are_data():
    o, names = Model(), ["a", "scale"]
    f = jit(lambda x: sum(x * getattr(o, name) for name in names))
    for k in range(8):
        o.a = float(k % 2)
        assert f(2.0) == 2.0 * (o.a + o.scale)
    assert f.cache_info().slow <= 4
    assert f.cache_info().eager == 0
