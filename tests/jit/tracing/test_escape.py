"""Traced values that escape into plain Python."""

import ctypes
import fractions
import gc
import hashlib
import json
import pickle
import statistics
import struct
import warnings

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from side_by_side import each, program

from tracker import data, gradient, jit, jvp, param, pullback, scan, value_and_grad, vmap
from tracker.errors import CompileError, ConversionError
from tracker.tape.value import Value

pytestmark = pytest.mark.filterwarnings("ignore:.*runs in plain Python:RuntimeWarning")


CALLS = [(np.arange(1.0, 4.0) + k, np.array([2, 1, 0])) for k in range(3)]
escapes, compiled = program(*CALLS, warns=None), program(*CALLS)


def through(convert):
    """A function that writes into what `convert` makes of an array that it computed."""

    def f(x, i):
        y = x * 2
        convert(y)[0] = 100
        return y

    return escapes(f)


class Programs:
    through_asarray = through(np.asarray)
    through_ascontiguousarray = through(np.ascontiguousarray)
    through_array = through(lambda y: np.array(y, copy=False))
    through_require = through(lambda y: np.require(y, requirements="W"))
    through_ctypeslib = through(np.ctypeslib.as_array)
    through_frombuffer = through(np.frombuffer)
    through_a_pointer = through(
        lambda y: ctypes.cast(y.ctypes.data, ctypes.POINTER(ctypes.c_double))
    )

    @escapes
    def argument(x, i):
        np.asarray(x)[0] = 100
        return x * 2

    @escapes
    def integers(x, i):
        np.asarray(i)[0] = 1
        return x * i

    @escapes
    def a_view(x, i):
        part = (x * 2)[1:]
        np.asarray(part)[0] = 77
        return part

    @program(*CALLS, warns=None, state={"numbers": np.arange(3.0), "counts": np.arange(3)})
    def captured(x, i, s):
        np.asarray(s.numbers)[0] += 5
        return x * s.numbers

    @program(*CALLS, warns=None, state={"numbers": np.arange(3.0), "counts": np.arange(3)})
    def captured_integers(x, i, s):
        np.asarray(s.counts)[0] += 5
        return x * s.counts

    # what NumPy and machine code add up in other orders is not compared
    @program(2.0, times=3, slow=1, state={"numbers": np.sin(np.arange(203.0))})
    def moments_of_captured(x, s):
        mean, deviation = float(np.mean(s.numbers)), float(np.std(s.numbers))
        return np.sum(((s.numbers - mean) / deviation - x) ** 2)

    @escapes
    def written_later(x, i):
        y = x * 2
        seen = np.asarray(y)
        y[0] = 100
        return seen * 1.0

    @escapes
    def written_through_its_view(x, i):
        y = x * 2
        seen = np.asarray(y)
        y[1:][0] = 100
        return seen * 1.0

    @escapes
    def written_around_a_view(x, i):
        part = x[1:]
        seen = np.asarray(part)
        x[1] = 2
        return x + seen.sum()

    @escapes
    def in_place(x, i):
        y = x * 2
        seen = np.asanyarray(y)
        seen *= 3
        return y

    @escapes
    def iterated(x, i):
        y = x * 2
        for part in np.nditer(y, op_flags=["readwrite"]):
            part[...] = 3 * part
        return y

    @escapes
    def shuffled(x, i):
        np.random.default_rng(0).shuffle(np.asarray(x))
        return x * 1.0

    @escapes
    def a_copy(x, i):
        seen = np.array(x)
        seen[0] = 3
        return seen, x * 2

    @compiled
    def of_another_type(x, i):
        seen = np.asarray(i, dtype=float)
        seen[0] = 3
        return seen, i * 2

    @escapes
    def strided(x, i):
        y = x * 2
        twice = as_strided(np.concatenate([y, y])[2:], (2, 2), (-8, 8))
        return twice.copy()

    @compiled
    def negated_at(x, i):
        y = x.copy()
        np.negative.at(y, i)
        return y

    @escapes
    def of_another_shape(x, i):
        x.shape = (3, 1)
        return x * 2

    @escapes
    def of_another_size(x, i):
        x.resize((2, 2), refcheck=False)
        return x * 2

    @escapes
    def encoded(x, i):
        return x * len(json.dumps(x.tolist()))

    @escapes  # a fraction has no derivative
    def a_fraction(x, i):
        return x * float(fractions.Fraction(x[1]) / 3)

    @escapes
    def a_mean(x, i):
        return x * statistics.mean(x.tolist())

    @escapes
    def packed(x, i):
        return x * struct.unpack("d", struct.pack("d", x[0]))[0]

    @escapes
    def of_bytes(x, i):
        return x * np.frombuffer(memoryview(x * 2))[0]


@each(Programs)
def test_what_plain_numpy_does_to_a_value_is_done_to_the_array(row):
    row.check()


@pytest.mark.parametrize(
    "f", [lambda x: np.asarray(x * 2), lambda x: np.asarray(x * 2)[1:], lambda x: np.array(x)]
)
def test_what_has_left_can_be_written_into_by_the_caller(f):
    compiled, x = jit(f), np.arange(3.0)
    for _ in range(3):
        y = compiled(x)
        np.testing.assert_array_equal(y, f(x))
        y[0] = 7.0


@pytest.mark.parametrize("kind", [int, float])
@pytest.mark.parametrize("whole", [True, False])
def test_an_array_that_comes_back_by_way_of_plain_numpy_is_the_caller_s(kind, whole):
    def f(x):
        back = np.ascontiguousarray(x)
        return (x * 2, back if whole else back[1:])

    compiled = jit(f)
    for x in (np.arange(3).astype(kind), np.arange(6).astype(kind)[::2]):
        for _ in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                back = compiled(x)[1]
            assert np.shares_memory(back, x) == np.shares_memory(f(x)[1], x)
            np.testing.assert_array_equal(back, x if whole else x[1:])


def test_an_error_of_the_function_s_own_is_its_own():
    @jit
    def f(x):
        if np.asarray(x)[0] < 0:
            raise ValueError("negative numbers are read-only here")
        return x * 2

    with pytest.raises(ValueError, match="negative numbers"):
        f(np.array([-1.0]))
    np.testing.assert_array_equal(f(np.array([1.0])), [2.0])


class Running:
    def __init__(self):
        self.mean = np.zeros(3)

    def __call__(self, x):
        y = x * 2
        self.mean = 0.5 * self.mean + data(y)
        return np.sum(y * y)


def looked_at_in_steps(x):
    last, rows = scan(lambda c, row: (c + row * data(c), row * data(row * 2)), 0.5, x)
    return np.sum(rows) + last


DATA = {
    "function": lambda x: np.sum(x * data(x * 2)),
    "argument": lambda x: np.sum(x * data(x)),
    "branch": lambda x: np.sum(x**2) if data(x)[0] > 1 else np.sum(x),
    "place": lambda x: x[int(data(x)[1]) % 3] * 2.0,
    "rows": lambda x: np.sum(vmap(lambda r: r * data(r))(x)),
    "steps": looked_at_in_steps,
}


@pytest.mark.parametrize("name", DATA)
def test_the_data_of_a_traced_value_are_no_constants(name):
    f, compiled = DATA[name], jit(DATA[name])
    pulled, pushed = jit(lambda x: gradient(f, x)[0]), jit(lambda x: jvp(f, (x,), (np.ones(3),)))
    for k in range(4):
        x = np.arange(3.0) + 0.7 * k
        np.testing.assert_allclose(compiled(x), f(x), rtol=1e-14)
        (want,) = gradient(f, x)
        np.testing.assert_allclose(gradient(compiled, x)[0], want, rtol=1e-14)
        np.testing.assert_allclose(pulled(x), want, rtol=1e-14)
        np.testing.assert_allclose(pushed(x), jvp(f, (x,), (np.ones(3),)), rtol=1e-14)
    if name == "argument":
        np.testing.assert_allclose(want, x, rtol=1e-14)


def test_the_data_attribute_is_followed_as_the_function_is():
    """Within a derivative: a plain array's own `data` is its memory."""
    pulled = jit(lambda x: gradient(lambda z: np.sum(z * z.data), x)[0])
    for k in range(3):
        np.testing.assert_array_equal(pulled(np.arange(3.0) + k), np.arange(3.0) + k)


def test_rows_have_their_own_data():
    x = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(vmap(lambda r: r * data(r + 1))(x), x * (x + 1))


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: lambda x: gradient(f, x)[0]])
def test_running_statistics_are_kept_as_data(wrap):
    eager, traced = Running(), Running()
    f, compiled = wrap(eager), wrap(jit(traced))
    for k in range(5):
        x = np.arange(3.0) + k
        np.testing.assert_allclose(compiled(x), f(x), rtol=1e-14)
        np.testing.assert_allclose(traced.mean, eager.mean, rtol=1e-14)
        assert type(traced.mean) is np.ndarray


def test_memory_around_a_tracked_value_is_not_read():
    with pytest.raises(ConversionError, match="sliding_window_view"):
        as_strided(param([1.0, 2.0])[1:], (2,), (-8,))


def test_an_aborted_trace_holds_no_history():
    """What goes on is a plain run: after n steps each reads and writes what it did after one."""
    living = []

    def f(x, n):
        early = [x[i % 3] * 1.5 for i in range(n)]
        for i in range(n):
            x[i % 3] = x[(i + 1) % 3] * 1.01
        y = np.zeros(2)
        assert f"{y + x[0]}"  # aborts the trace
        for i in range(n):
            y[i % 2] = x[i % 3] + early[i]
            x[i % 3] = 0.9 * x[(i + 1) % 3]
        del early
        gc.collect()
        living.append(sum(type(o) is Value for o in gc.get_objects()))
        return np.sum(y) + x[0]

    for n in 20, 200:
        x, given = np.array([0.3, 0.5, 0.7]), np.array([0.3, 0.5, 0.7])
        result = jit(f)(x, n)
        assert result == f(given, n)
        np.testing.assert_array_equal(x, given)
    traced, _, longer, _ = living
    assert longer <= traced + 2


def test_derivatives_in_an_aborted_trace():
    def f(x):
        y = np.zeros(2)
        y[0] = x[0] * 2
        assert f"{y}"  # aborts the trace
        (g,) = gradient(lambda z: np.sum(np.sin(z) * x), x)
        power, back = pullback(lambda z: np.sum(z * x * z), x)
        y[1] = np.sum(g * x) + power
        (h,) = gradient(lambda z: np.sum(gradient(lambda u: np.sum(u**3), z)[0] * g), x * y[1])
        return y, g * h, back(2.0)[0]

    result = jit(f)(np.arange(3.0))
    for ours, theirs in zip(result, f(np.arange(3.0)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_strict_functions_do_not_fall_back():
    with pytest.raises(RuntimeError, match="cannot be traced"):
        jit(Programs.of_bytes.f, strict=True)(np.arange(3.0), np.arange(3))


@pytest.mark.parametrize("x", [np.arange(3), np.arange(3.0), np.array(3), np.int8(3), 3])
def test_bytes_are_those_of_the_array(x):
    fast = jit(lambda x: bytes(x))
    for _ in range(3):
        assert fast(x) == bytes(x)


def test_c_code_that_refuses_a_traced_value_in_warm_code():
    def f(x):
        return hashlib.md5(x).hexdigest()

    x = np.arange(3.0)
    for _ in range(100):  # Python specialises the call
        want = f(x)
    fast = jit(f)
    for _ in range(3):
        assert fast(x) == want


@pytest.mark.parametrize("write", [np.array2string, np.array_repr, np.array_str, str, repr])
def test_text_of_an_array_is_that_of_each_call(write):
    whole = jit(lambda x: write(x[::-1]))
    for x in np.arange(3), np.arange(3), np.array([4, 5, 6]), np.arange(3):
        assert whole(x) == write(x[::-1])
    half = jit(lambda x: write(x / 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # it runs in plain Python
        for x in np.arange(3.0), np.arange(3.0) + 4:
            assert half(x) == write(x / 2)


def test_what_was_pickled_follows_what_it_was():
    held = {"rate": 1.0}

    def f(x):
        return pickle.loads(pickle.dumps(held))["rate"] * x

    fast = value_and_grad(jit(f))
    for i, x in enumerate((1.0, 2.0, 3.0, 1.5, 2.0, 2.0)):
        held["rate"] = float(i)
        assert fast(x) == (i * x, float(i))


def test_pickling_an_argument_is_refused_where_the_function_is_strict():
    fast = jit(lambda x: pickle.loads(pickle.dumps(x)) * 2, strict=True)
    with pytest.raises(CompileError, match=r"pickling a tracked value, .* copy\.deepcopy"):
        fast(2.0)
    with pytest.warns(RuntimeWarning, match="pickling a tracked value"):
        assert jit(lambda x: pickle.loads(pickle.dumps(x)) * 2)(2.0) == 4.0
