"""What jitted functions take, give, capture and change, and how they behave as objects."""

import array
import collections
import dataclasses
import gc
import itertools
import math
import operator

import numpy as np
import pandas as pd
import pytest
from compiled import agree
from equality import assert_same
from side_by_side import each, program
from unusual import read_only, unaligned

import tracker as tr
from tracker import gradient, jit

Pair = collections.namedtuple("Pair", "left right")

A, ROW = np.linspace(-1.0, 2.0, 40), np.arange(3.0)


@dataclasses.dataclass
class Model:
    w: np.ndarray
    b: float
    name: str = "model"

    @jit
    def predict(self, x):
        return np.tanh(x @ self.w + self.b)

    def plain(self, x):
        return np.tanh(x @ self.w + self.b)


# Arguments and results
# ------------------------------------------------------------------------------


class Special(np.ndarray):
    pass


def _lists_of_arrays(k):
    return {"w": A * k, "b": k}, Pair(A[:3] * k, k)


def by_identity(x, y):
    return x * y if x is y else x + y


def one_or_two_arrays():
    """Of two arrays, and of an array and a number."""
    b = A + 1
    calls = ((A, b), (A, A), (b, A), (b, b), (lambda: (a := A.copy(), a[:])), (A, 2.0))
    return program(*calls, traces=2, warns="")


def _laid_out(lay_out):
    return lambda: (lay_out(A.copy()), {"w": np.arange(6.0).reshape(2, 3)})


def _changed(make, change):
    """A container that is not flattened, which each call changes."""
    row = program(*[lambda k=k: (make(), float(k)) for k in range(4)], times=1, warns=None)
    return row(lambda s, x: (change(s, x), x * 2)[1])


class Programs:
    @program(*map(_lists_of_arrays, (1.0, 2.0, 3.0)))
    def nested_structures(p, q):
        return {"a": [p["w"] * 2, (p["b"], q.left)], "b": Pair(q.right + 1.0, None)}, "text"

    @program((A, np.sin, "double"), (A, np.cos, "double"), (A, np.sin, "single"))
    def text_and_functions(x, function, how, nothing=None):
        assert nothing is None
        return function(x) * (2.0 if how == "double" else 1.0)

    @program(Model(A, 0.5, "other"))
    def a_dataclass(m):
        return Model(m.w * 2, m.b)

    @program(ROW.view(Special))
    def an_array_of_another_class(x):
        return x * 2

    @program(2**70, "ab", np.array([1, "a"], object))
    def big_ints_text_and_objects(x):
        return x * 2

    @program((A, A), lambda: (a := A.copy(), a.copy()))
    def the_same_array_twice(x, y):
        return x * y, x + 1

    @program((A, A), lambda: (a := A.copy(), a))
    def gradients_in_the_same_array_twice(x, y):
        return gradient(lambda a, b: np.sum(a * b * b), x, y)

    identity = one_or_two_arrays()(by_identity)
    identity_in_a_helper = one_or_two_arrays()(lambda x, y: by_identity(x, y))
    not_identity = one_or_two_arrays()(lambda x, y: x * y if x is not y else x)
    identity_by_a_function = one_or_two_arrays()(lambda x, y: x * y if operator.is_(x, y) else x)
    identity_in_a_loop = one_or_two_arrays()(
        lambda x, y: sum(a * 2 if a is y else a for a in (x, y, x))
    )

    @program(*map(_laid_out, (np.array, lambda a: np.repeat(a, 2)[::2], lambda a: a[::-1])))
    def views_of_arguments(x, p):
        """They share the argument's memory; what is computed has its own."""
        w, rows = p["w"], (x[1:], np.reshape(x, (-1, 1)), x.T, x[::-2][1:], x[1:] * 1)
        parts = (*rows, w[1, 2, ...], w.T[1], w.ravel(), w[None])
        return parts, [y.strides for y in parts], [y.flags.writeable for y in parts]

    @program(np.array([1.0, 3.0]), gradients=True)
    def derivatives_do_not_write(x):
        x[0] = 2.0
        x *= x
        return np.sum(x)

    @program(lambda: [np.full(2, float(i)) for i in range(350)], warns="given many arrays")
    def many_arrays_that_may_be_one(xs):
        return sum(x for x in xs if x is not xs[0])

    a_set = _changed(lambda: {0.5}, lambda s, x: s.add(1.5))
    a_set_within = _changed(lambda: {"a": [{0.5}]}, lambda s, x: s["a"][0].discard(0.5))
    bytes = _changed(lambda: bytearray(b"ab"), lambda s, x: s.append(99))
    numbers = _changed(lambda: array.array("d", [1.0]), lambda s, x: s.__setitem__(0, s[0] + 1))
    a_deque = _changed(lambda: collections.deque([1.0]), lambda s, x: s.appendleft(2.0))
    a_deque_of_values = _changed(lambda: collections.deque([1.0]), lambda s, x: s.append(np.sin(x)))
    a_set_of_values = _changed(lambda: {0.5}, lambda s, x: s.add(x))

    @program(({1}, 2.0), warns="the function changes a set that it is given")
    def a_set_that_is_warned_of(s, x):
        s.add(3)
        return x

    @program((A, 2.0), (A * 2, 3.0))
    def results_that_are_arguments_and_constants(x, y):
        return x, y, None, "text", 3, x, y * 2

    @program(A)
    def the_same_result_twice(x):
        y = np.sin(x)
        return y, [y], np.sin(x), y[2:5]

    @program(
        *[ROW],
        state={"w": np.ones(3), "big": np.ones(100), "tiny": np.array(2.0)},
        changes=[lambda s: (s.w.fill(4), s.big.fill(5), s.tiny.fill(6))],
        traces=1,
    )
    def captured_arrays(x, s):
        return x * s.w + np.sum(s.big * x[1]) * (x[2] * s.tiny)

    @program(A, A * 2, A - 1)
    def arrays_made_in_the_body(x):
        t = np.linspace(0.0, 1.0, 40)
        buffer = np.zeros(3)
        total = 0.0
        for i in range(3):
            buffer[:] = i  # scratch paper: another content for each read
            total = total + np.sum(buffer * x[:3])
        return np.sin(t * x) + total, np.arange(3.0) * x[0]

    @program((70, 2.0), (3, 2.0))
    def an_int_that_outgrows_64_bits(n, x):
        return (2**n) * x

    @program(([1.0, 2.0, 3.0], 2), warns="cannot be traced: TypeError: Expected int as r")
    def a_function_in_c_that_takes_ints_alone(xs, n):
        return sum(a * b for a, b in itertools.permutations(xs, n))

    @program((2.0, 2), (3.0, 2), warns="cannot be traced: ValueError: window must be an integer")
    def a_library_that_takes_ints_alone(x, n):
        return x * pd.Series([1.0, 2.0, 4.0]).rolling(n).sum().iloc[-1]

    @program((2.0, 2), (3.0, 2), warns="cannot be traced: ValueError: Cannot pass both")
    def a_class_in_cython_that_takes_ints_alone(x, n):
        return x * pd.Timestamp(2024, n, 1).month

    @program((2.0, 2), (3.0, 2), warns="cannot be traced: TypeError: SeedSequence expects int")
    def a_sequence_of_seeds(x, n):
        return x * np.random.default_rng(np.random.SeedSequence(n)).normal()

    @program((2.0, 1), (2.0, 4), (2.0, 1), eager=0)
    def an_error_that_a_library_raises_for_plain_numbers_too(x, n):
        return x * pd.Series([1.0, 2.0])[n]

    the_wrong_type_in_c = program(2, eager=0)(lambda x: math.gcd(x, "a"))
    no_length = program(2, eager=0)(lambda x: len(x))
    no_text = program(2, eager=0)(lambda x: "a".join([x]))


@each(Programs)
def test_programs(row):
    row.check()


def test_views_that_depend_on_values_are_copies():
    x = np.arange(6.0).reshape(2, 3)
    agree(lambda x, i: (x[i], x[[0, 1]], x[x > 0]), x, 0, others=[(x, 1), (x, 0)])


def test_results_have_memory_of_their_own():
    g = jit(Programs.the_same_result_twice.f)
    for _ in range(3):
        a, _, c, d = g(A)
        a[...] = 0
        assert_same((c, d, g(A)[0]), (np.sin(A), np.sin(A)[2:5], np.sin(A)))


def test_a_number_that_is_returned_is_the_argument():
    f = jit(lambda y: (y, y * 2))
    assert all(f(y)[0] is y for y in (2.0, 3.5, 2.0))


def test_arrays_made_in_the_body_are_kept():
    compiled = Programs.arrays_made_in_the_body.check()
    gc.collect()
    rubbish = [np.full(40, 9.0) for _ in range(100)]
    assert_same(compiled(A), Programs.arrays_made_in_the_body.f(A))
    assert len(rubbish) == 100


def _with_keywords(x, y=2.0, *rest, scale=1.0, **others):
    return x * y * scale + sum(rest) + sum(others.values())


def test_keywords_and_defaults():
    calls = [
        *(lambda f: f(A), lambda f: f(A, 3.0), lambda f: f(A, y=4.0), lambda f: f(x=A, scale=0.5)),
        lambda f: f(A, 1.0, 2.0, 3.0, scale=A, z=1.5),
    ]
    g = jit(_with_keywords)
    for call in calls * 2:
        assert_same(call(g), call(_with_keywords))


def _repeated(x, n, how="sin"):
    assert type(n) is int
    return sum(getattr(np, how)(x) * i for i in range(n))


def test_static_arguments():
    g = jit(_repeated, static=("n",))
    for n, how in [(2, "sin"), (2, "cos"), (3, "sin"), (3, "cos"), (2, "sin")]:
        assert_same(g(A, n, how), _repeated(A, n, how))
    assert_same(g(A, n=4), _repeated(A, 4))
    for which in (1, -2):
        assert_same(jit(_repeated, static=which)(A, 2), _repeated(A, 2))


@pytest.mark.parametrize(
    ("f", "which"),
    [
        *((lambda x, n: x, which) for which in (2, -3, "m", "xs")),
        *((lambda x, *xs: x, which) for which in (-1, "xs")),
        (lambda x, **named: x, "named"),
    ],
)
def test_what_cannot_be_static(f, which):
    with pytest.raises(tr.UnsupportedError, match=r"no argument .* Give names among \['x'"):
        jit(f, static=which)


def test_dataclasses_and_methods():
    x = np.ones((5, 40))
    for k in (1.0, 2.0):
        model = Model(A * k, k)
        for _ in range(2):
            assert_same(model.predict(x), model.plain(x))
            assert_same(Model.predict(model, x), model.plain(x))

    def loss(model, x):
        return np.sum(model.predict(x) ** 2)

    got, want = (gradient(f, Model(A, 0.5), x)[0] for f in (jit(loss), loss))
    assert type(got) is Model
    assert_same((got.w, got.b, got.name), (want.w, want.b, want.name))


ARRAYS = {
    "strided": np.arange(80.0)[::2],
    "backwards": np.arange(40.0)[::-1],
    "Fortran": np.asfortranarray(np.arange(60.0).reshape(5, 12)),
    "transposed": np.arange(60.0).reshape(5, 12).T,
    "broadcast": np.broadcast_to(np.arange(5.0), (8, 5)),
    "byte-swapped": np.arange(40.0).astype(">f8"),
    "unaligned": unaligned(np.arange(40.0)),
    "empty": np.zeros((0, 3)),
    "0-d": np.array(2.5),
    "read-only": read_only(np.arange(40.0)),
    "float16": np.arange(40, dtype="f2"),
    "long double": np.arange(40, dtype=np.longdouble),
    "complex": np.arange(40) * (1 + 2j),
    "complex64": (np.arange(40) * (1 + 2j)).astype("c8"),
    "bool": np.arange(40) % 3 == 0,
    "uint8": np.arange(40, dtype="u1"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_every_kind(name):
    x = ARRAYS[name]
    axis = 0 if x.ndim else None
    tolerance = 1e-3 if name == "float16" else 1e-12
    agree(lambda x: (x * 2 + 1, np.sum(x, axis=axis)), x, tolerance=tolerance)


@pytest.mark.parametrize("dtype", [">f8", ">f4", ">i8"])
def test_captured_arrays_of_another_byte_order_are_sorted(dtype):
    x = np.array([3, -1, 2, 0, -5]).astype(dtype)
    f = jit(lambda s: (np.sort(x), np.argsort(x), s * 2))
    for _ in range(2):
        assert [y.tolist() for y in f(ROW)] == [[-5, -1, 0, 2, 3], [4, 1, 3, 2, 0], [0, 2, 4]]


@pytest.mark.parametrize("name", ARRAYS)
def test_copies_of_arrays_of_every_kind(name):
    """What comes out as it went in needs no machine code, and has memory of its own."""
    x = ARRAYS[name]
    given, captured = jit(lambda s, x: (s * 2, x.copy())), jit(lambda s: (s * 2, np.copy(x)))
    for _ in range(2):
        for doubled, copy in (given(ROW, x), captured(ROW)):
            assert doubled.tolist() == (ROW * 2).tolist()
            assert copy.tolist() == x.tolist()
            assert np.result_type(copy) == np.result_type(x)
            assert not np.shares_memory(copy, x)
    alone = jit(np.copy)
    assert all(alone(x).tolist() == x.tolist() for _ in range(2))


@pytest.mark.parametrize("name", [n for n in ARRAYS if ARRAYS[n].dtype == np.float64])
def test_captured_arrays_of_every_kind(name):
    x = ARRAYS[name]
    agree(lambda s: (x * s + 1, np.sum(x.T, axis=0) * s), 2.0, others=[(3.0,), (4.0,)])


# Captures
# -------------------------------------------------------------------------------------------


def test_branches_on_captured_params():
    p = tr.param(1.0)
    f = jit(lambda x: x * 2 if p > 0 else -x)
    assert tr.data(f(3.0)) == 6.0
    tr.update(p, -5.0)
    assert tr.data(f(3.0)) == -3.0


def test_values_that_a_derivative_follows_keep_their_gradient():
    inner = None

    def loss(w):
        nonlocal inner
        inner = inner or jit(lambda x: np.sum(x * x))
        return inner(w * A) + jit(lambda x: np.sum(x * w))(A)

    assert_same(gradient(loss, 2.0), (4 * float(np.sum(A * A)) + float(np.sum(A)),))
    assert_same(gradient(jit(loss), 2.0), (4 * float(np.sum(A * A)) + float(np.sum(A)),))


# Unusual arguments
# --------------------------------------------------------------------------------


def test_a_list_of_numbers_is_an_array_to_compiled_derivatives():
    def f(p, rows):
        return np.sum(p * np.array([1.0, 2.0, 3.0]) ** 2) * rows["m"][1, 0]

    args = [1.0, 2.0, 3.0], {"m": [[1.0, 2.0], [3.0, 4.0]]}
    want = gradient(f, *args)
    for derivative in (lambda *a: gradient(tr.jit(f), *a), tr.jit(lambda *a: gradient(f, *a))):
        for _ in range(2):
            found = derivative(*args)
            assert type(found[0]) is np.ndarray and type(found[1]["m"]) is np.ndarray
            assert_same(found, want, "gradient")


def test_static_containers_are_known_by_what_is_in_them():
    def f(x, c):
        c["count"] = c.get("count", 0) + 1
        return x * c["k"] + c["b"] + len(c["l"]) + c["count"]

    def fresh():
        return {"k": 2.0, "b": np.ones(3), "l": [1, 2], "s": {1}}

    changes = [
        lambda c: None,
        lambda c: c.update(k=3.0),
        lambda c: c["l"].append(3),
        lambda c: c.update(b=np.zeros(3)),
        lambda c: c["b"].__setitem__(0, 5.0),
    ]
    x, results = np.arange(3.0), []
    for call in (f, jit(f, static="c")):
        given = fresh()
        results.append([])
        for change in changes:
            change(given)
            results[-1] += [call(x, given), call(x, given), given["count"]]
    assert_same(*results)


def test_a_static_set_may_grow():
    held, fast = {1}, jit(lambda x, s: x * len(s), static="s")
    for k in range(3):
        held.add(k)
        for _ in range(2):
            np.testing.assert_array_equal(fast(np.ones(2), held), np.ones(2) * len(held))


def test_static_arguments_beside_many():
    calls = [
        (jit(lambda *xs: xs[0] ** xs[1], static=1), lambda n: ((A, n), {})),
        (jit(lambda x, *xs, k=1: x ** (xs[0] * k), static=(1, "k")), lambda n: ((A, 1), {"k": n})),
        (jit(lambda x, **named: x ** named["k"], static="k"), lambda n: ((A,), {"k": n})),
    ]
    for f, given in calls:
        for n in (2, 3, 2):
            args, kwargs = given(n)
            assert_same(f(*args, **kwargs), A**n)
        assert f.cache_info().traces == 2
    g = jit(lambda *xs: np.sum(xs[0] ** xs[1]), static=1)
    assert_same(gradient(g, A, 3)[0], 3 * A**2)
    h = jit(lambda *xs, k: xs[0] * xs[1] * k, static="k")  # the name says nothing of positions
    assert_same([h(A, n, k=2) for n in (1, 2, 3)], [2 * A, 4 * A, 6 * A])
    assert h.cache_info().traces == 1
