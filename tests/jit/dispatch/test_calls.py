"""What jitted functions take, give, capture and change, and how they behave as objects."""

import array
import collections
import dataclasses
import gc
import itertools
import math
import operator
import re
import warnings

import numpy as np
import pytest
from jit_programs import assert_same
from test_parity import agree
from unusual import read_only

import tracker as tr
from tracker import gradient, jit

Pair = collections.namedtuple("Pair", "left right")

A = np.linspace(-1.0, 2.0, 40)


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


def test_nested_structures():
    def f(p, q):
        return {"a": [p["w"] * 2, (p["b"], q.left)], "b": Pair(q.right + 1.0, None)}, "text"

    p = {"w": A, "b": 2.0}
    compiled = jit(f)
    for scale in (1.0, 2.0, 3.0):
        given = {"w": A * scale, "b": scale}, Pair(A[:3] * scale, [scale])
        given = given[0], Pair(given[1].left, scale)
        assert_same(compiled(*given), f(*given))
    assert p["b"] == 2.0


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
    back = jit(lambda m: Model(m.w * 2, m.b))
    for _ in range(2):
        made = back(Model(A, 0.5, "other"))
        assert_same((made.w, made.b), (A * 2, 0.5))


def test_keywords_and_defaults():
    def f(x, y=2.0, *rest, scale=1.0, **others):
        return x * y * scale + sum(rest) + sum(others.values())

    g = jit(f)
    for _ in range(2):
        assert_same(g(A), f(A))
        assert_same(g(A, 3.0), f(A, 3.0))
        assert_same(g(A, y=4.0), f(A, y=4.0))
        assert_same(g(A, 1.0, 2.0, 3.0, scale=A, z=1.5), f(A, 1.0, 2.0, 3.0, scale=A, z=1.5))
        assert_same(g(x=A, scale=0.5), f(x=A, scale=0.5))


def test_static_arguments():
    def f(x, n, how="sin"):
        assert type(n) is int
        return sum(getattr(np, how)(x) * i for i in range(n))

    g = jit(f, static=("n",))
    for n in (2, 3, 2):
        for how in ("sin", "cos"):
            assert_same(g(A, n, how), f(A, n, how))
    assert_same(g(A, n=4), f(A, n=4))
    assert_same(jit(f, static=1)(A, 2), f(A, 2))


def test_text_none_and_functions_as_arguments():
    def f(x, how, function, nothing):
        assert nothing is None
        return function(x) * (2.0 if how == "double" else 1.0)

    g = jit(f)
    for _ in range(2):
        for how in ("double", "single"):
            for function in (np.sin, np.cos):
                assert_same(g(A, how, function, None), f(A, how, function, None))


def _unaligned(x):
    raw = np.zeros(x.nbytes + 1, np.uint8)
    out = raw[1:].view(x.dtype)
    out[...] = x
    return out


class Special(np.ndarray):
    pass


ROW = np.arange(3.0)
ARRAYS = {
    "strided": np.arange(80.0)[::2],
    "backwards": np.arange(40.0)[::-1],
    "Fortran": np.asfortranarray(np.arange(60.0).reshape(5, 12)),
    "transposed": np.arange(60.0).reshape(5, 12).T,
    "broadcast": np.broadcast_to(np.arange(5.0), (8, 5)),
    "byte-swapped": np.arange(40.0).astype(">f8"),
    "unaligned": _unaligned(np.arange(40.0)),
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
    f = jit(lambda x: (x * 2 + 1, np.sum(x, axis=axis)))
    for _ in range(3):
        want = x * 2 + 1, np.sum(x, axis=axis)
        assert_same(f(x), want, tolerance=1e-3 if name == "float16" else 1e-12)


@pytest.mark.parametrize("dtype", [">f8", ">f4", ">i8"])
def test_captured_arrays_of_another_byte_order_are_sorted(dtype):
    x = np.array([3, -1, 2, 0, -5]).astype(dtype)
    f = jit(lambda s: (np.sort(x), np.argsort(x), s * 2))
    for _ in range(2):
        assert [y.tolist() for y in f(ROW)] == [
            y.tolist() for y in (np.sort(x), x.argsort(), ROW * 2)
        ]


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
    f = jit(lambda s: (x * s + 1, np.sum(x.T, axis=0) * s))
    for s in (2.0, 3.0, 4.0):
        assert_same(f(s), (x * s + 1, np.sum(x.T, axis=0) * s))


def test_subclasses_run_plainly():
    x = np.arange(3.0).view(Special)
    f = jit(lambda x: x * 2)
    for _ in range(2):
        assert type(f(x)) is Special


def test_object_arrays_and_big_ints_run_plainly():
    f = jit(lambda x: x * 2)
    for _ in range(2):
        assert f(2**70) == 2**71
        assert f("ab") == "abab"
        assert list(f(np.array([1, "a"], object))) == [2, "aa"]


def test_the_same_array_twice():
    agree(lambda x, y: (x * y, x + 1), A, A)
    f = jit(lambda x, y: gradient(lambda a, b: np.sum(a * b * b), x, y))
    for _ in range(2):
        assert_same(f(A, A), (A * A, 2 * A * A))


def by_identity(x, y):
    return x * y if x is y else x + y


@pytest.mark.parametrize(
    "f",
    [
        by_identity,
        lambda x, y: by_identity(x, y),
        lambda x, y: x * y if x is not y else x,
        lambda x, y: x * y if operator.is_(x, y) else x,
        lambda x, y: sum(a * 2 if a is y else a for a in (x, y, x)),
    ],
)
def test_whether_two_arguments_are_one_array(f):
    g, b = jit(f), A + 1
    for x, y in ((A, b), (A, A), (b, A), (b, b), (A, A[:]), (A, 2.0)):
        assert_same(g(x, y), f(x, y))
    assert g.cache_info().traces == 2, "of two arrays, and of an array and a number"


def test_many_arrays_that_may_be_one_run_plain():
    def f(xs):
        return sum(x for x in xs if x is not xs[0])

    g, xs = jit(f), [np.full(2, float(i)) for i in range(350)]
    with pytest.warns(RuntimeWarning, match="compares objects, and is given many arrays"):
        assert_same(g(xs), f(xs))
    assert_same(g(xs[:5] * 70), f(xs[:5] * 70))


def test_results_that_are_arguments_and_constants():
    f = jit(lambda x, y: (x, y, None, "text", 3, x, y * 2))
    for x, y in ((A, 2.0), (A * 2, 3.0), (A, 2.0)):
        got = f(x, y)
        assert got[0] is x and got[5] is x and got[1] is y
        assert got[2:5] == (None, "text", 3) and got[6] == 2 * y


def test_the_same_result_twice():
    def f(x):
        y = np.sin(x)
        return y, [y], np.sin(x), y[2:5]

    g = jit(f)
    for _ in range(3):
        a, (b,), c, d = g(A)
        assert a is b and a is not c
        assert_same((a, c, d), (np.sin(A), np.sin(A), np.sin(A)[2:5]))
        a[...] = 0
        assert_same((c, g(A)[0]), (np.sin(A), np.sin(A)))


def test_results_that_are_views_of_arguments():
    """As plain: they share the argument's memory; what is computed has its own."""

    def f(x, p):
        w = p["w"]
        return (
            x[1:],
            np.reshape(x, (-1, 1)),
            x.T,
            x[::-2][1:],
            w[1, 2, ...],
            w.T[1],
            w.ravel(),
            w[None],
            x[1:] * 1,
        )

    g = jit(f)
    for lay_out in (np.array, lambda a: np.repeat(a, 2)[::2], lambda a: a.copy()[::-1]):
        for _ in range(3):
            x, p = lay_out(A), {"w": np.arange(6.0).reshape(2, 3)}
            want = f(x, p)
            for at, (one, other) in enumerate(zip(g(x, p), want, strict=True)):
                assert_same(one, other)
                assert one.strides == other.strides and one.flags.writeable
                memory = x if at < 4 or at == 8 else p["w"]
                assert np.shares_memory(one, memory) == np.shares_memory(other, memory)
                one[...] = at + 50.0
            assert x[5] == 53.0 and np.all(p["w"] == 57.0)


def test_views_that_depend_on_values_are_copies():
    f = jit(lambda x, i: (x[i], x[[0, 1]], x[x > 0]))
    x = np.arange(6.0).reshape(2, 3)
    for i in (0, 1, 0):
        for one, other in zip(f(x, i), (x[i], x[[0, 1]], x[x > 0]), strict=True):
            assert_same(one, other)


# Captures
# -------------------------------------------------------------------------------------------


def test_captured_arrays_are_read_at_each_call():
    w, big, tiny = np.ones(3), np.ones(100), np.array(2.0)
    f = jit(lambda x: x * w + np.sum(big * x[1]) * (x[2] * tiny))
    x = np.arange(3.0)
    for k in range(4):
        w[:], big[:], tiny[...] = k, 2 * k, 3 * k
        assert_same(f(x), x * w + np.sum(big * x[1]) * (x[2] * tiny))


def test_arrays_made_in_the_body_are_constants():
    def f(x):
        t = np.linspace(0.0, 1.0, 40)
        buffer = np.zeros(3)
        total = 0.0
        for i in range(3):
            buffer[:] = i  # scratch paper: another content for each read
            total = total + np.sum(buffer * x[:3])
        return np.sin(t * x) + total, np.arange(3.0) * x[0]

    agree(f, A, others=[(A * 2,), (A - 1,)])
    compiled = agree(f, A)
    gc.collect()
    rubbish = [np.full(40, 9.0) for _ in range(100)]
    assert_same(compiled(A), f(A))
    assert len(rubbish) == 100


def test_captured_params_are_read_at_each_call():
    p, s = tr.param(A), tr.param(2.0)
    f = jit(lambda x: np.sum(p * x) * s)
    for k in range(3):
        assert np.isclose(tr.data(f(A)), np.sum(tr.data(p) * A) * tr.data(s), rtol=1e-12)
        tr.update(p, 0.1 * A * k)
        tr.update(s, 0.5)


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


# Derivatives
# --------------------------------------------------------------------------------


def test_derivatives_do_not_write():
    def f(x):
        x[0] = 2.0
        x *= x
        return np.sum(x)

    for g in (f, jit(f)):
        for _ in range(3):
            x = np.array([1.0, 3.0])
            assert_same(gradient(g, x), (np.array([0.0, 6.0]),))
            assert_same(x, np.array([1.0, 3.0]))


# Unusual arguments
# --------------------------------------------------------------------------------


def test_a_python_int_that_outgrows_64_bits_on_the_way():
    def f(n, x):
        return (2**n) * x

    compiled = tr.jit(f)
    for n in (70, 70, 3, 70):
        assert compiled(n, 2.0) == f(n, 2.0)


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


CHANGED = {
    "set": (lambda: {0.5}, lambda s, x: s.add(1.5)),
    "set within": (lambda: {"a": [{0.5}]}, lambda s, x: s["a"][0].discard(0.5)),
    "bytes": (lambda: bytearray(b"ab"), lambda s, x: s.append(99)),
    "array": (lambda: array.array("d", [1.0]), lambda s, x: s.__setitem__(0, s[0] + 1)),
    "deque": (lambda: collections.deque([1.0]), lambda s, x: s.appendleft(2.0)),
    "deque of values": (lambda: collections.deque([1.0]), lambda s, x: s.append(np.sin(x))),
    "set of values": (lambda: {0.5}, lambda s, x: s.add(x)),
}


@pytest.mark.parametrize("name", CHANGED)
def test_containers_that_are_not_flattened_change_at_each_call(name):
    make, change = CHANGED[name]
    f = jit(lambda s, x: (change(s, x), x * 2)[1])
    for k in range(4):
        one, other = make(), make()
        change(one, float(k))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            assert f(other, float(k)) == 2.0 * k
        assert other == one and str(other) == str(one)


def test_a_set_that_is_changed_is_warned_of():
    f = jit(lambda s, x: (s.add(3), x)[1])
    with pytest.warns(RuntimeWarning, match="the function changes a set that it is given"):
        f(set(), 2.0)


def test_functions_in_c_that_take_numbers_of_python_alone():
    def pairs(xs, n):
        return sum(a * b for a, b in itertools.permutations(xs, n))

    f = jit(pairs)
    with pytest.warns(RuntimeWarning, match="cannot be traced: TypeError: Expected int as r"):
        assert f([1.0, 2.0, 3.0], 2) == f([1.0, 2.0, 3.0], 2) == 22.0
    for wrong in (lambda x: math.gcd(x, "a"), lambda x: len(x), lambda x: "a".join([x])):
        g = jit(wrong)
        for _ in range(2):
            with pytest.raises(TypeError) as caught:
                g(2)
            with pytest.raises(TypeError, match=re.escape(str(caught.value))):
                wrong(2)
        assert g.cache_info().eager == 0


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


def test_static_positions():
    def f(x, n):
        return x * len(n)

    assert_same(jit(f, static=-1)(A, "abc"), f(A, "abc"))
    assert jit(f, static=-1)._jitted.options.static == jit(f, static="n")._jitted.options.static
    for which in (2, -3, "m"):
        with pytest.raises(tr.UnsupportedError, match="no argument"):
            jit(f, static=which)


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


def test_what_cannot_be_static():
    for f, which in (
        (lambda x, n: x, 2),
        (lambda x, n: x, "xs"),
        (lambda x, *xs: x, -1),
        (lambda x, *xs: x, "xs"),
        (lambda x, **named: x, "named"),
    ):
        with pytest.raises(tr.UnsupportedError, match=r"no argument .* Give names among \['x'"):
            jit(f, static=which)
