"""Identity tests and memory queries of arrays agree with the plain function."""

import enum
import functools
import operator

import numpy as np
import pytest
from compiled import agree

from tracker import CompileError, UnsupportedError, gradient, jit, value_and_grad

W, V = np.ones(4), np.full(4, 2.0)
OTHER, WHOLE = np.ones(4), np.arange(6.0)
PART, LATER = WHOLE[:4], WHOLE[2:]
LOCKED = np.ones(4)
LOCKED.setflags(write=False)
NAN, ANOTHER_NAN = np.array([np.nan]), np.array([np.nan])
LISTED = [W, V]
TURNS = [(OTHER,), (OTHER,), (W,), (W,), (OTHER,), (V,), (W,)]
LOCKS = [(LOCKED,), (OTHER,), (LOCKED,), (PART,)]
OWNERS = [(PART,), (OTHER,), (PART,), (LOCKED,)]
NANS = [(NAN,), (ANOTHER_NAN,), (ANOTHER_NAN,), (NAN,)]


def helped(x):
    return W is x


def after(x):
    """A view of what is computed, of which neither is the caller's."""
    y = 2 * x
    return np.shares_memory(y[:2], y[1:]) and not np.shares_memory(y, x)


# What is asked, and the calls. The first are answered in derivatives, too; of the others, the
# copies that a derivative hands its function tell nothing, and it refuses where that matters.
MEMORY = {
    "two arguments": (
        lambda x, y: np.shares_memory(x, y),
        [(PART, LATER), (PART, V), (PART, V), (PART, LATER), (W, V), (PART, PART)],
    ),
    "interleaved": (
        lambda x, y: (np.may_share_memory(x, y), np.shares_memory(x, y)) == (True, False),
        [(WHOLE[::2], WHOLE[1::2]), (WHOLE[:3], WHOLE[3:]), (WHOLE[::2], WHOLE[1::2])],
    ),
    "captured": (
        lambda x: np.may_share_memory(x, W),
        [(W[:3],), (np.ones(3),), (np.ones(3),), (W[:3],), (W[1:],), (W,)],
    ),
    "two captured": (lambda x: np.shares_memory(V, W), TURNS[:3]),
    "views": (lambda x: np.shares_memory(x.reshape(2, 2).T[1], x[1:2]), [(PART,), (V,)]),
    "computed": (after, [(PART,), (V,)]),
    "writeable": (lambda x: x.flags.writeable, LOCKS),
    "by key": (lambda x: x.flags["WRITEABLE"], LOCKS),
    "of a view": (lambda x: x[1:].flags.writeable and not x[1:].flags.owndata, LOCKS),
    "of a captured array": (lambda x: LOCKED.flags.writeable, LOCKS),
    "behaved": (lambda x: x.flags.behaved and x.flags.carray, LOCKS),
    "all": (lambda x: x.flags == LOCKED.flags, LOCKS),
    "owner": (lambda x: x.flags.owndata, OWNERS),
    "contiguous": (lambda x: x.flags.c_contiguous, [(WHOLE[::2],), (WHOLE[:3],), (WHOLE[::2],)]),
    "strides": (lambda x: x.strides[0] > 16, [(WHOLE[::2],), (WHOLE[::3],), (WHOLE[:2],)]),
    "strides of a view": (lambda x: x[::2].strides[0] > 32, [(WHOLE[::3],), (V,)]),
}
IDENTITY = {
    "captured": (lambda x: x is W, TURNS),
    "not": (lambda x: x is not W, TURNS),
    "first": (lambda x: W is x, TURNS),
    "function": (lambda x: operator.is_(x, W), TURNS),
    "one of": (lambda x: any(x is w for w in LISTED), TURNS),
    "elsewhere": (lambda x: helped(x), TURNS),
    "two arguments": (lambda x, y: x is y, [(W, V), (V, V), (W, W), (W, V)]),
    "in": (lambda x: x in [NAN], NANS),
    "equal": (lambda x: [x] == [NAN], NANS),
}


def weighted(ask):
    return lambda *xs: (2.0 if ask(*xs) else 1.0) * sum(np.sum(np.nan_to_num(x) ** 2) for x in xs)


@pytest.mark.parametrize("name", [*MEMORY, *(f"is {name}" for name in IDENTITY)])
def test_compiled_code_answers_as_plain_code(name):
    ask, calls = MEMORY[name] if name in MEMORY else IDENTITY[name.removeprefix("is ")]
    f = weighted(ask)
    g = jit(f)
    assert [g(*xs) for xs in calls] == [f(*xs) for xs in calls]
    assert g.cache_info().traces > 0


@pytest.mark.parametrize("name", MEMORY)
def test_derivatives_answer_as_plain_code(name):
    ask, calls = MEMORY[name]
    f = weighted(ask)
    ways = [f, jit(f)]
    grads = [functools.partial(gradient, each) for each in ways]
    grads.append(jit(lambda *xs: gradient(f, *xs)))
    for xs in calls:
        want = [2 * (2.0 if ask(*xs) else 1.0) * x for x in xs]
        for grad in grads:
            np.testing.assert_array_equal(grad(*xs), want)


@pytest.mark.parametrize("name", IDENTITY)
@pytest.mark.filterwarnings("ignore:.*runs in plain Python")
def test_derivatives_refuse_what_copies_do_not_tell(name):
    ask, calls = IDENTITY[name]
    f = weighted(ask)
    grads = [functools.partial(gradient, each) for each in (f, jit(f))]
    grads.append(jit(lambda *xs: gradient(f, *xs)))
    for xs in calls:
        same = len(set(map(id, xs))) < len(xs) or (len(xs) == 1 and ask(xs[0]) != ask(xs[0].copy()))
        for grad in grads:
            if same:
                with pytest.raises(UnsupportedError, match="compares objects by identity"):
                    grad(*xs)
            else:
                want = [2 * (2.0 if ask(*xs) else 1.0) * np.nan_to_num(x) for x in xs]
                np.testing.assert_array_equal(grad(*xs), want)


class Remembers:
    """An objective of SciPy's, which is asked for several things at one point."""

    def __init__(self):
        self.last = self.before = None
        self.count = 0.0

    def __call__(self, x):
        if x is not self.last and x is not self.before:
            self.before, self.last = self.last, x
            self.count += 1
        inside = x["w"] if isinstance(x, dict) else x[0] if isinstance(x, tuple) else x
        return np.sum(inside) * self.count


@pytest.mark.parametrize("kind", ["array", "dict", "tuple", "float"])
def test_what_an_object_remembers_by_identity(kind):
    made = {"array": lambda k: np.full(2, k), "dict": lambda k: {"w": np.full(2, k)}, "float": abs}
    made["tuple"] = lambda k: (np.full(2, k), k)
    a, b, c = (made[kind](k) for k in (1.0, 2.0, 3.0))
    plain, compiled = Remembers(), Remembers()
    f = jit(compiled.__call__)
    for x in (a, a, b, b, a, c, c, c, a, b, b, a, a):
        assert f(x) == plain(x)
        assert compiled.last is plain.last and compiled.before is plain.before


def test_a_remembered_array_that_is_changed_in_place():
    class Point:
        last = value = None

        def __call__(self, x):
            if x is not self.last:
                self.last, self.value = x, np.sum(x**2)
            return self.value + 0 * x[0]

    plain, compiled = Point(), Point()
    f, x, y = jit(compiled.__call__), np.ones(3), np.full(3, 5.0)
    for point in (x, x, y, x, x, y, y):
        assert f(point) == plain(point)
        point += 1.0
        assert compiled.last is point


def test_a_derivative_of_what_remembers_takes_each_call_for_another_point():
    grads, x = [], np.ones(3)
    for f in (Remembers(), jit(Remembers())):
        both = value_and_grad(f)
        grads.append([both(x)[1].tolist() for _ in range(3)])
    assert grads[0] == grads[1] == [[1.0] * 3, [2.0] * 3, [3.0] * 3]


class Mode(enum.Enum):
    LEAST = 1
    OTHER = 2


class Distance:
    """It compares, but nothing that is compared can be the argument."""

    def __init__(self):
        self.mode, self.last = Mode.LEAST, None

    def __call__(self, x, mode=Mode.LEAST, more=None):
        same = mode is self.mode and self.mode is Mode.LEAST and more is None
        return np.sum((x - W) ** 2) if same and self.last is None else 0.0


def test_comparisons_of_other_things_are_no_question_about_arrays():
    for f in (Distance(), Distance().__call__, jit(Distance())):
        for _ in range(2):
            np.testing.assert_array_equal(gradient(f, W), [np.zeros(4)])
    f = jit(Distance())
    assert [f(x) for (x,) in TURNS] == [Distance()(x) for (x,) in TURNS]


REFUSED = {
    "id": (lambda x: id(x) == id(W), r"id\(\) of a ndarray differs"),
    "ids": (lambda x: len(set(map(id, (x, W)))) == 1, r"id\(\) of a ndarray differs"),
    "base": (lambda x: x.base is WHOLE, "is a view of an array that is not tracked"),
    "address": (lambda x: x.ctypes.data != 0, "ctypes is not supported"),
    "interface": (lambda x: x.__array_interface__["data"][1], "the address of a tracked value"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_addresses_are_refused(name):
    ask, why = REFUSED[name]
    f = weighted(ask)
    g, calls = jit(f), [PART, W, PART, V]
    with pytest.warns(RuntimeWarning, match=f"runs in plain Python.*{why}") as told:
        assert [g(x) for x in calls] == [f(x) for x in calls]
    assert len(told) == 1


@pytest.mark.parametrize("ask", [REFUSED["address"], REFUSED["interface"]])
def test_derivatives_have_no_addresses(ask):
    with pytest.raises(UnsupportedError, match=ask[1]):
        gradient(weighted(ask[0]), V)


def test_the_base_of_an_array_that_owns_its_memory():
    f = jit(lambda x: np.sum(x) * (2.0 if x.base is None else 1.0))
    assert f(V) == f(V.copy()) == 16.0
    with pytest.warns(RuntimeWarning, match=r"is a view.*Ask x\.flags\.owndata, or pass"):
        assert f(PART) == 6.0
    with pytest.raises(UnsupportedError, match=r"an argument of shape .* is a view"):
        gradient(lambda x: np.sum(x) if x.base is None else 0.0, PART)


@pytest.mark.parametrize("ask", [lambda x: x.flags.owndata, lambda x: x.strides[0] > 8])
def test_arrays_of_another_byte_order(ask):
    f, swapped = weighted(ask), np.arange(4.0).astype(">f8")
    g = jit(f)
    for x in (swapped, swapped[::2], swapped[:2], swapped):
        assert g(x) == f(x)


def test_arrays_in_containers_and_beneath_other_derivatives():
    def f(p):
        return np.sum(p["w"] ** 2) * (2.0 if p["w"].flags.writeable else 1.0)

    def nested(x):
        return np.sum(gradient(f, {"w": x})[0]["w"])

    g, grad = jit(f), jit(lambda x: gradient(nested, x)[0])
    for x in (LOCKED, OTHER, LOCKED):
        scale = 2.0 if x is OTHER else 1.0
        assert g({"w": x}) == f({"w": x}) == 4.0 * scale
        for found in (gradient(f, {"w": x})[0]["w"], gradient(nested, x)[0], grad(x)):
            np.testing.assert_array_equal(found, 2 * scale * x)


def test_memory_that_is_no_argument_is_refused():
    f = jit(lambda x: np.sum(x) * (2.0 if np.shares_memory(x, np.arange(4)) else 1.0))
    with pytest.warns(RuntimeWarning, match=r"whether arrays share memory, one of which is not"):
        assert [f(V), f(V)] == [8.0, 8.0]


def test_many_alike_arrays_that_are_compared():
    def f(xs):
        return sum(x for x in xs if x is not xs[0])

    xs = [np.full(2, float(i)) for i in range(20)]
    g = agree(f, xs, others=[(xs[::-1],), (xs[:19] + xs[:1],), (xs,)], tolerance=0)
    assert g.cache_info().traces == 1


def test_an_argument_that_is_read_elsewhere_too_is_the_reason_given():
    rate = 0.5
    f = jit(lambda x, r: x * r * rate if x is not r else x)
    assert f(1.0, rate) == 0.25
    with pytest.raises(CompileError, match=r"plain Python .* is also what it reads elsewhere"):
        f.ir(1.0, rate)
    assert "why: one of them is also what it reads elsewhere" in f.explain(1.0, rate)
    assert f(1.0, rate * 1.0) == 0.25 and "trace" in f.explain(1.0, rate * 1.0)
