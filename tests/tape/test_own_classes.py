"""Objects of the user's own classes as operands beside tracked values: array-likes, and classes
with operators of their own."""

import warnings

import numpy as np
import pytest
from outcomes import outcomes

import tracker
import tracker.numpy as tnp

X = np.array([1.0, 2.0, 3.0])


class Copied:
    """An array to NumPy, each time a new one."""

    def __init__(self, numbers=(2.0, 3.0, 4.0)):
        self.numbers = np.asarray(numbers)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.numbers, dtype)


class Lent(Copied):
    def __array__(self, dtype=None, copy=None):
        return self.numbers


class Interface:
    def __init__(self):
        self.numbers = np.array([2.0, 3.0, 4.0])
        self.__array_interface__ = self.numbers.__array_interface__


class Sequence:
    def __len__(self):
        return 3

    def __getitem__(self, place):
        return [2.0, 3.0, 4.0][place]


ARRAYS = [Copied, Lent, Interface, Sequence, lambda: range(3)]
CALLS = {
    "add": lambda x, v: x + v,
    "reflected": lambda x, v: v - x,
    "power": lambda x, v: x**v,
    "in place": lambda x, v: (x * 1).__iadd__(v),
    "matmul": lambda x, v: x @ v,
    "reflected matmul": lambda x, v: v @ x,
    "less": lambda x, v: x < v,
    "equal": lambda x, v: x == v,
    "ufunc": lambda x, v: np.maximum(v, x),
    "keywords": lambda x, v: np.add(x, v, dtype="f4"),
    "where": lambda x, v: np.where(x > 1, v, x),
    "clip": lambda x, v: np.clip(x, 0, v),
    "dot": lambda x, v: np.dot(v, x),
    "linspace": lambda x, v: np.linspace(v, x, 3),
    "array": lambda x, v: tnp.asarray(v) * x,
    "assigned": lambda x, v: (x * 1).__setitem__(slice(None), v),
    "copied into": lambda x, v: np.copyto(x * 1, v),
}


@pytest.mark.parametrize("make", ARRAYS)
@pytest.mark.parametrize("name", CALLS)
def test_array_likes_beside_tracked_values(name, make):
    v = make()
    plain, *ours = outcomes(lambda x: CALLS[name](x, v), X)
    assert ours == [plain] * 3


@pytest.mark.parametrize("make", [Copied, Lent])
@pytest.mark.parametrize("name", ["add", "where", "dot", "less"])
def test_array_likes_are_read_at_each_compiled_call(name, make):
    v = make()
    f = tracker.jit(lambda x: CALLS[name](x, v))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            np.testing.assert_array_equal(f(X), CALLS[name](X, v))
        v.numbers[0] = -10.0
        np.testing.assert_array_equal(f(X), CALLS[name](X, v))
        v.numbers = np.array([7.0, 8.0, 9.0])
        np.testing.assert_array_equal(f(X), CALLS[name](X, v))


def test_tracked_data_of_array_likes_is_differentiated():
    def f(x):
        v = Lent()
        v.numbers = x * 2
        return np.sum(x * v) + np.dot(v, x) + tnp.asarray(v)[0]

    for g in (f, tracker.jit(f)):
        (slope,) = tracker.gradient(g, X)
        np.testing.assert_allclose(slope, 8 * X + [2, 0, 0])


@pytest.mark.filterwarnings("ignore:.*not producing an array:RuntimeWarning")
def test_array_likes_without_a_copy_run_as_plain_python():
    v = Lent()
    f = tracker.jit(lambda x: np.asarray(v) * x)
    for _ in range(2):
        np.testing.assert_array_equal(f(X), v.numbers * X)


class Pair:
    """Has operators of its own, and is no array."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __mul__(self, by):
        return Pair(self.x * by, self.y * by)

    __rmul__ = __mul__

    def __rsub__(self, other):
        return Pair(other - self.x, other - self.y)

    def __gt__(self, other):
        return self.x > other

    def __eq__(self, other):
        return self.y == other

    __hash__ = None


class First(Copied, Pair):
    """An array whose own operators take precedence."""

    __array_priority__ = 10.0

    def __init__(self):
        Copied.__init__(self)
        Pair.__init__(self, 2.0, 3.0)


class Apart(Pair):
    __array_ufunc__ = None


class Both(First):
    __array_priority__ = 0.0


OPERATORS = {
    "*": lambda x, p: x * p,
    "reflected *": lambda x, p: p * x,
    "-": lambda x, p: x - p,
    "<": lambda x, p: x < p,
    "==": lambda x, p: x == p,
}


def _without_types(outcome):
    """NumPy gives its scalars to the object as Python numbers; tracked ones keep their class."""
    if isinstance(outcome, list):
        return [_without_types(each) for each in outcome]
    return outcome.partition("(")[2] if isinstance(outcome, str) else outcome


def _numbers(x):
    return [x.x * 1, x.y * 1] if isinstance(x, Pair) else x


@pytest.mark.parametrize("p", [Pair(2.0, 3.0), First(), Apart(2.0, 3.0), Both()], ids=type)
@pytest.mark.parametrize("x", [1.5, 3, np.float64(1.5), np.array(1.5)], ids=repr)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_defer_to_objects_as_those_of_numbers(name, x, p):
    plain, *ours = map(_without_types, outcomes(lambda x: _numbers(OPERATORS[name](x, p)), x))
    assert ours == [plain] * 3


def test_operators_of_objects_are_differentiated():
    p = Pair(2.0, 3.0)
    for f in (lambda a: (a * p).y, tracker.jit(lambda a: (a * p).y)):
        assert tracker.gradient(f, 1.5) == (3.0,)
    with pytest.raises(tracker.UnsupportedError, match="add got a Pair beside a tracked value"):
        tracker.gradient(lambda a: (a + p).y, 1.5)
    with pytest.raises(tracker.UnsupportedError, match="add got a Copied beside a tracked value"):
        tracker.gradient(lambda a: np.sum(a + Copied()), 1.5)
