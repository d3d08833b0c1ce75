"""The namespace `tracker.numpy`: NumPy's names; NumPy's objects outside of derivatives, trackable
ones inside."""

import inspect
import math
import pickle
import threading
from contextlib import nullcontext

import fresh_python
import numpy
import pytest

import tracker
import tracker.numpy as np
from tracker import ConversionError, Tracked, gradient, jit, param
from tracker.testing import gradcheck, ngradient


@pytest.fixture(autouse=True)
def explicit_spelling():
    """These tests compare `tracker.numpy` with NumPy, which has to stay what it is here."""
    with tracker.config(plain=False):
        yield


def test_every_name_is_there():
    for name in numpy.__all__:
        assert hasattr(np, name), name
    for own, ours in ((numpy.linalg, np.linalg), (numpy.fft, np.fft), (numpy.random, np.random)):
        for name in own.__all__:
            assert hasattr(ours, name), name
    assert set(dir(np)) >= set(numpy.__all__)
    assert np.testing is numpy.testing and np.__version__ == numpy.__version__
    with pytest.raises(AttributeError):
        np.no_such_name  # noqa: B018


def test_star_import_and_lazy_attribute():
    code = (
        "from tracker.numpy import *; import numpy\n"
        "assert float64 is numpy.float64 and sin == numpy.sin and pi == numpy.pi\n"
        "assert newaxis is None and ndarray is numpy.ndarray and type(zeros(3)) is ndarray\n"
        "import tracker; assert tracker.numpy.linalg.solve(eye(2), ones(2)).sum() == 2\n"
    )
    fresh_python.run(code)
    code = "import tracker; assert tracker.numpy.e > 2 and tracker.numpy.random.default_rng"
    fresh_python.run(code)


def test_outside_results_are_numpys_own():
    assert np.float64 is numpy.float64 and np.ndarray is numpy.ndarray and np.sin == numpy.sin
    for made in (
        *(np.zeros(2), np.ones((2, 2)), np.empty(1), np.full(2, 1.0), np.eye(2), np.identity(2)),
        *(np.array([1.0]), np.asarray([1, 2]), np.arange(3.0), np.linspace(0, 1, 3), np.r_[1:3, 5]),
        *(np.c_[[1, 2], [3, 4]], np.mgrid[0:2], np.fromiter([1.0], float), np.zeros_like([1.0])),
        *(np.concatenate([[1.0], [2.0]]), np.meshgrid([1.0], [2.0])[0], np.vectorize(abs)([-1.0])),
    ):
        assert type(made) is numpy.ndarray
    given = numpy.ones(3)
    assert np.asarray(given) is given and np.ascontiguousarray(given) is given
    assert np.array(given, copy=None) is given and np.array(given, ndmin=2).shape == (1, 3)
    with pytest.raises(ValueError, match="copy"):
        np.array([1.0], copy=False)
    assert type(np.ndenumerate([1.0])) is numpy.ndenumerate and np.isscalar(2.0)


@pytest.mark.parametrize("copy", [True, None, *numpy._CopyMode])
def test_copy_modes_of_tracked_arrays(copy):
    """NumPy's enumeration, which SciPy passes on, says what True, False and None say."""

    def f(x):
        y = np.array(x, copy=copy)
        assert (y is x) is (copy not in (True, numpy._CopyMode.ALWAYS))
        return np.sum(y * np.asarray(x, copy=copy))

    assert gradient(f, numpy.array([1.0, 3.0]))[0].tolist() == [2.0, 6.0]


def constructors(x):
    """All of them, each filled with or made of tracked values."""
    total = 0.0
    made = [np.zeros(3), np.ones(3), np.full(3, 7.0), np.eye(3)[0], np.identity(3)[1]]
    made += [
        np.arange(3.0),
        np.linspace(0, 1, 3),
        np.zeros_like([1.0, 2, 3]),
        np.array([1.0, 2, 3]),
    ]
    made += [np.copy(numpy.ones(3)), np.concatenate([[1.0], [2.0, 3.0]]), np.tile(1.0, 3)]
    made += [np.asarray([1.0, 2, 3]), np.array(range(3), float), np.fromiter([1, 2, 3], float)]
    made += [np.r_[1.0, 2.0, 3.0], np.c_[[1.0], [2.0], [3.0]][0], np.mgrid[0:1:3j], np.ogrid[0.0:3]]
    made += [np.full(3, x[0]), np.stack([1.0, 2.0, 3.0]), np.hanning(3), np.tri(3)[0]]
    made += [np.array(numpy.ones(3)), np.require([1.0, 2.0, 3.0]), np.asfortranarray([1.0, 2, 3])]
    made += [np.asarray_chkfinite([1.0, 2, 3]), np.ascontiguousarray([1.0, 2.0, 3.0])]
    for i, a in enumerate(made):
        a[1] = (i + 1) * x[1]
        total = total + numpy.sum(a)
    return total


def test_constructors_track_inside():
    x = numpy.array([0.5, 2.0])
    n = 28
    (slope,) = gradient(constructors, x)
    numpy.testing.assert_array_equal(slope, [2.0, n * (n + 1) / 2])
    value, compiled = tracker.value_and_grad(jit(constructors))(x)
    assert value == constructors(x)
    numpy.testing.assert_array_equal(compiled, slope)


def test_empty_holds_what_is_written():
    def f(x):
        y = np.empty((2, 2), dtype=np.float32)
        y[:] = x
        return np.sum(y * y)

    x = numpy.float32([1.0, 2.0])
    for g in (f, jit(f, strict=True)):
        (slope,) = gradient(g, x)
        assert slope.dtype == numpy.float32 and slope.tolist() == [4.0, 8.0]


def _filled(x):
    r, s, q = np.zeros(()), np.empty(()), np.full((), 2.0)
    r[...] = x
    r += x
    s.fill(2.0)
    s[()] = x * s
    q *= np.sum(np.array([x, x]), out=np.ones(()))
    return r * s + q


def _parts(x):
    r, s = np.zeros((), complex), np.zeros(3, complex)
    r.real = x
    r.imag = 2 * x
    s.real = x
    s.imag[1] = x
    return abs(r) ** 3 + np.sum(abs(s))


@pytest.mark.parametrize("f", [_filled, _parts])
def test_0d_arrays_are_filled(f):
    slope = ngradient(f, 3.0)
    numpy.testing.assert_allclose(gradient(f, 3.0), slope, rtol=1e-6)
    numpy.testing.assert_allclose(jit(lambda x: gradient(f, x))(3.0), slope, rtol=1e-6)
    numpy.testing.assert_allclose(jit(f)(3.0), f(3.0))


_TWO_NAMES_OF_ONE = {
    "zeros": lambda x: np.zeros(()),
    "zeros_like": lambda x: np.zeros_like(x[0]),
    "empty_like": lambda x: np.empty_like(np.sum(x)),
    "full_like": lambda x: np.full_like(x[0], 2.0),
    "array": lambda x: np.array(x[0]),
    "asarray": lambda x: np.asarray(2.0),
    "copy": lambda x: np.copy(x[0]),
    "where": lambda x: np.where(x[0] > 0, x[0], 0.0),
    "squeeze": lambda x: np.squeeze(x[:1].copy()),
    "a number": lambda x: x[0],
    "a number's copy": lambda x: x[0].copy(),
    "a sum": lambda x: np.sum(x),
}


@pytest.mark.parametrize("make", _TWO_NAMES_OF_ONE.values(), ids=_TWO_NAMES_OF_ONE)
def test_in_place_operators_change_0d_arrays_but_not_scalars(make):
    def f(x):
        a = make(x)
        if make is _TWO_NAMES_OF_ONE["empty_like"]:
            a[...] = x[1]
        b = a
        a += x[0] * x[1]
        b *= x[1]
        return 1.0 * a

    x = numpy.array([1.5, 2.0])
    (slope,) = ngradient(f, x)
    compiled = jit(f, strict=True)
    for value in (tracker.pullback(f, x)[0], compiled(x), compiled(x)):
        numpy.testing.assert_allclose(value, f(x), rtol=1e-14)
    for derivative in (gradient, jit(lambda g, x: gradient(g, x), static=(0,))):
        numpy.testing.assert_allclose(derivative(f, x)[0], slope, rtol=1e-6)


@pytest.mark.parametrize("x", [numpy.array(2.0), numpy.float64(2.0)])
def test_pythons_complex_times_one_number_is_compiled(x):
    def f(x):
        return 1j * x

    compiled = jit(f, strict=True)
    for value in (tracker.pullback(f, x)[0], compiled(x), compiled(x)):
        assert type(value) is type(f(x)) and value == 2j


def test_scalar_types_compare_with_dtypes():
    def f(x):
        kind = numpy.dtype("f4")
        assert np.float32 == kind
        assert kind == np.float32
        assert np.float64 != kind
        assert np.float32 in (numpy.float64, kind)
        assert np.float32 != 3
        return x

    assert gradient(f, 1.0) == (1.0,)


UNITS = {
    "timedelta64": lambda x, n: np.timedelta64(n, "D") / np.timedelta64(1, "h") * x,
    "two counts": lambda x, n: np.timedelta64(n, "h") / np.timedelta64(n + 1, "m") * x,
    "datetime64": lambda x, n: np.datetime64(n, "D").astype("M8[h]").astype(int) * x,
    "days": lambda x, n: (np.datetime64("2020-01-01") + np.timedelta64(n, "D")).astype(int) * x,
}


@pytest.mark.parametrize("name", UNITS)
def test_times_of_an_integer_keep_their_unit(name):
    f = UNITS[name]
    compiled = jit(f)
    for n in (1, 2, 1):
        assert compiled(2.0, n) == f(2.0, n)
        assert gradient(f, 2.0, n)[0] == f(1.0, n)
    assert compiled.cache_info().eager == 0


def test_joining_tracked_values():
    def f(x):
        a = np.array([[x[0], 1], [x[1] ** 2, x]][0] + [2.0])
        b = np.array([[x[0], 1.0], x], ndmin=3)
        c = np.r_["-1", x, 1:3, [x[0], 5.0]]
        d = np.c_[x, x * 2]
        e = np.r_["0,2", x, x]
        g = np.fromiter((x[i] for i in range(2)), float)
        h = np.array(x, dtype=np.float32)
        assert b.shape == (1, 2, 2) and c.shape == (6,) and d.shape == (2, 2) and e.shape == (2, 2)
        assert h.dtype == numpy.float32 and np.array(x) is not x and np.asarray(x) is x
        assert np.r_["1", [[1.0, 2.0]], [[3.0, 4.0]]].shape == (1, 4)
        parts = (a, b, c, d, e, g, np.astype(h, float), np.arange(x[0], x[1] + 2, 0.5))
        return sum(np.sum(p**2) for p in parts) + np.max([x[0], x[1]]) + np.float64(x[0])

    x = numpy.array([0.3, 1.2])
    assert tracker.gradcheck(f, x, rtol=1e-4, atol=1e-4)
    numpy.testing.assert_allclose(gradient(jit(f), x)[0], gradient(f, x)[0])


JOINED = {
    "append": lambda x, s: np.append(x, s),
    "append to a number": lambda x, s: np.append(s, x),
    "r_": lambda x, s: np.r_[x, s],
    "r_ of slices": lambda x, s: np.r_[s, 0:3, x],
    "c_": lambda x, s: np.c_[x[:1], s],
    "nan_to_num": lambda x, s: np.nan_to_num(x, nan=s, posinf=s),
    "nan_to_num of a number": lambda x, s: np.nan_to_num(x[0], neginf=s),
}


@pytest.mark.parametrize("name", JOINED)
@pytest.mark.parametrize("s", [2.5, 3, True, np.float64(2.5), np.int64(3)])
def test_arrays_joined_with_numbers_have_numpys_dtype(name, s):
    f = JOINED[name]
    for x in (
        np.array([np.nan, np.inf], np.float32),
        np.array([1, 2], np.int8),
        np.array([1j, np.nan], np.complex64),
    ):
        g = jit(f)
        for _ in range(2):
            got, want = g(x, s), f(x, s)
            assert got.dtype == want.dtype and type(got) is type(want)
            np.testing.assert_array_equal(got, want)


def test_outside_a_derivative_tracked_values_join_too():
    t, u = param(1.0), param([2.0, 3.0])
    assert repr(np.array([t, t * 2])) == "tracked(array([1., 2.]))"
    assert np.array([[t, 1.0], u]).shape == (2, 2)
    assert np.full(2, t).shape == (2,) and np.asarray(u) is u and np.r_[t, u].shape == (3,)
    assert isinstance(np.sum([t, t]), Tracked)
    with pytest.raises(ConversionError, match=r"np\.zeros\(n, like=t\)"):
        np.zeros(2)[0] = t  # no constructor can know what will be stored


def test_types():
    def f(x):
        assert isinstance(x, np.ndarray) and isinstance(np.zeros(2), np.ndarray)
        assert isinstance(x[0], np.float64) and isinstance(x[0], np.floating)
        assert not isinstance(x, np.float64) and isinstance(numpy.float64(1), np.float64)
        assert np.zeros(2, np.float32).dtype == np.float32 and np.dtype(np.float64) == np.float64
        assert np.issubdtype(x.dtype, np.float64) and np.issubdtype(x.dtype, np.floating)
        assert {numpy.float64: 1}[np.float64] == 1 and np.float64(2) == 2.0
        assert np.isscalar(x[0]) and not np.isscalar(x)
        assert np.int64(x[0]) == 1 and type(np.arange(3)) is numpy.ndarray
        y = np.float32(x[0])
        assert y.dtype == numpy.float32
        return np.complex128(x[1]).real * np.float64(y)

    numpy.testing.assert_array_equal(gradient(f, numpy.array([1.5, 2.0]))[0], [2.0, 1.5])


def test_constants_may_leave_numpy():
    """Allocated arrays without tracked contents have no gradient to lose."""

    def f(x):
        t = np.linspace(0, 1, 5)
        h = t[1] - t[0]
        grid = numpy.asarray(t * 2)  # any library
        assert type(grid) is numpy.ndarray and type(complex(h)) is complex
        return x * math.exp(h) + x * float(grid[1])

    for g in (f, jit(f)):
        assert gradient(g, 1.0)[0] == math.exp(0.25) + 0.5
    with pytest.raises(ConversionError, match=r"math"):
        gradient(lambda x: math.exp(np.array([x, 1.0])[0]), 1.0)
    t = param(2.0)
    with pytest.raises(ConversionError):
        gradient(lambda x: x * float(np.zeros(1)[0] + t), 1.0)


def test_asarray_keeps_aliases():
    """An array that NumPy would return itself is returned itself: writes reach its owner."""
    log = numpy.zeros(2)

    def f(x):
        kept = np.asarray(log)
        kept[0] += 1
        return x * kept[1]

    gradient(f, 1.0)
    assert log[0] == 1
    with pytest.raises(ConversionError, match=r"np\.asarray\(\.\.\.\)\.__setitem__ would store"):
        gradient(lambda x: np.asarray(log).__setitem__(0, x), 1.0)


def test_captured_arrays_are_read_by_compiled_code():
    table = numpy.ones(3)

    @jit
    def f(x):
        a = np.array(table)
        a[0] = x
        return np.sum(a)

    assert f(2.0) == 4.0
    table[1] = 5.0
    assert f(2.0) == 8.0 and table[0] == 1.0


def test_threads_do_not_see_each_other():
    seen = []

    def f(x):
        thread = threading.Thread(target=lambda: seen.append(type(np.zeros(1))))
        thread.start()
        thread.join()
        seen.append(type(np.zeros(1)))
        return x

    gradient(f, 1.0)
    assert seen == [numpy.ndarray, Tracked]
    with pytest.raises(ZeroDivisionError):
        gradient(lambda x: x / 0, 1.0)
    assert type(np.zeros(1)) is numpy.ndarray  # also after an exception


def test_params_and_implicit_style():
    w = param([1.0, 2.0])

    def loss():
        out = np.zeros(2)
        out[0] = w[1] ** 2
        return np.sum(out)

    numpy.testing.assert_array_equal(gradient(loss, tracker.Params([w]))[w], [0.0, 4.0])


def test_integers_stay_numpys():
    def f(x):
        order = np.argsort(x)
        count = np.zeros(3, int)
        for i in np.arange(3):
            count[i] = x[i] > 1
        return np.sum(x[order][np.array([0, 2])]) * count.sum()

    for g in (f, jit(f)):
        numpy.testing.assert_array_equal(gradient(g, numpy.array([3.0, 1.0, 2.0]))[0], [2, 2, 0])


def test_callbacks():
    def f(p):
        first = np.apply_along_axis(lambda row: row * p[0], 0, numpy.ones((2, 3)))
        second = np.vectorize(lambda u, v: (u * p[1], v))(numpy.ones(2), 3.0)
        both = np.vectorize(lambda u: u + p[0])(p)
        assert first.shape == (2, 3) and np.sum(second[1]) == 6.0
        at = dict(np.ndenumerate(p))
        return np.sum(first) + np.sum(second[0]) + np.sum(both) * at[0,]

    numpy.testing.assert_allclose(gradient(f, numpy.array([1.0, 2.0]))[0], [6 + 6 + 2, 3])


def test_ndarray_is_a_constructor_and_a_class():
    def f(x):
        made = np.ndarray(3, dtype=np.float64)
        made[:], made[0] = x, x[1] * x[2]
        assert isinstance(made, np.ndarray) and isinstance(numpy.ones(2), np.ndarray)
        assert not isinstance(2.0, np.ndarray) and np.ndarray == numpy.ndarray
        assert {np.ndarray: 1}[numpy.ndarray] == 1

        class Own(np.ndarray):
            pass

        assert Own.__mro__[:2] == (Own, numpy.ndarray) and issubclass(Own, np.ndarray)
        assert type(Own(2)) is Own and numpy.ones(2).view(np.ndarray).sum() == 2
        shared = numpy.arange(2.0)
        assert np.ndarray((2,), float, shared).sum() == 1 and np.ndarray(2, int).dtype == int
        return np.ndarray.sum(made) + np.ndarray.max(numpy.ones(2))

    assert np.ndarray is numpy.ndarray
    for g in (f, jit(f)):
        numpy.testing.assert_array_equal(gradient(g, numpy.array([0.0, 1.0, 2.0]))[0], [0, 3, 2])


@pytest.mark.parametrize("np", [numpy, np])
def test_arange_counts_with_an_integer_argument(np):
    """NumPy computes the length in floats, which must not lose a gradient."""

    def f(n, a):
        steps = np.arange(n, dtype=float) ** 2 + np.arange(1, n + 1)
        return (
            np.sum(a * steps)
            + np.sum(a * np.arange(0.0, n, 0.5))
            + a * np.sum(np.arange(n, 20, n))
            + a * np.sum(np.arange(n, 20, 2.0))
        )

    assert gradient(f, 3, 2.0) == (None, f(3, 1.0))
    compiled = jit(f)
    for n in (3, 5, 3, 1):
        assert compiled(n, 2.0) == pytest.approx(f(n, 2.0))
    assert gradient(compiled, 4, 2.0)[1] == pytest.approx(f(4, 1.0))


@pytest.mark.parametrize("dtype", [None, int, np.float32])
@pytest.mark.parametrize(
    "bounds", [(2, 5.5), (3.5,), (True, np.float32(3.0)), (0, 5.0, 2), (0.5, 3, 0.5), (0.1, 9, 0.7)]
)
def test_arange_between_floats_has_the_dtype_and_numbers_of_numpy(bounds, dtype):
    want = numpy.arange(*bounds, dtype=dtype)
    compiled = jit(lambda *args: np.arange(*args, dtype=dtype))
    for got in (compiled(*bounds), compiled(*bounds)):
        assert got.dtype == want.dtype
        numpy.testing.assert_allclose(got, want, rtol=1e-6)


def test_arange_of_a_float_and_float_of_an_integer_are_refused():
    for f in (lambda n, a: a * numpy.arange(a), lambda n, a: a * float(n)):
        with pytest.raises(ConversionError, match="lose its gradient"):
            gradient(f, 3, 2.0)
    with pytest.raises(ConversionError, match="lose its gradient"):
        gradient(lambda n, a: numpy.arange(float(n)) + a, 3, 2.0)


@pytest.mark.parametrize("name", ["zeros", "array", "asanyarray", "arange", "apply_along_axis"])
def test_signatures_are_numpys(name):
    def signature(function):
        try:
            return inspect.signature(function)
        except ValueError as error:  # older versions of NumPy do not say
            return type(error)

    assert signature(getattr(np, name)) == signature(getattr(numpy, name))


def test_a_ufunc_stands_for_numpys():
    assert isinstance(np.sin, numpy.ufunc) and np.sin == numpy.sin and {numpy.sin: 1}[np.sin] == 1
    assert np.sin != np.cos and np.sin != numpy.cos and numpy.sin == np.sin
    assert np.absolute is np.abs and np.add.nin == 2 and np.add.identity == 0
    assert repr(np.sin) == "<ufunc 'sin'>" and np.sin.__name__ == "sin"
    assert np.sin.__doc__ == numpy.sin.__doc__
    assert pickle.loads(pickle.dumps(np.sin)) == numpy.sin
    assert type(np.sin([0.0, 1.0])) is numpy.ndarray and type(np.sin(0.0)) is numpy.float64
    assert np.add.reduce([1, 2]) == 3 and np.vectorize(np.sin)(0.0) == 0.0
    with pytest.raises(TypeError, match="takes from 1 to 2 positional arguments but 0 were given"):
        np.sin()
    out = numpy.zeros(2)
    assert np.add([1.0, 2.0], 3.0, out) is out and out.tolist() == [4.0, 5.0]
    by_name = jit(lambda f, x: f(x))
    for _ in range(2):
        assert by_name(np.exp, 1.0) == by_name(numpy.exp, 1.0) == numpy.exp(1.0)


REFUSED = {
    r"numpy\.sqrt .* Use tracker\.numpy\.sqrt": lambda p: numpy.sqrt([p[0], p[1]]),
    r"np\.where\(mask, 0\.0, t\)": lambda p: numpy.ma.masked_array(p, [0, 1, 0]),
    r"np\.sum\(t, where=~mask\)": lambda p: np.ma.sum(p),
    r"one array for each field, in a dict": lambda p: p.astype([("a", float)])["a"],
    r"numbers into records": lambda p: np.array([(p[0], p[1])], [("a", float), ("b", float)]),
    r"numbers into an array of objects": lambda p: p.astype(object),
    r"numpy\.rec\.fromarrays .* Keep one array for each field": lambda p: numpy.rec.fromarrays(
        [p, p], names="a,b"
    ),
    r"np\.vectorize\(f\) follows f": lambda p: numpy.frompyfunc(abs, 1, 1)(p),
}


@pytest.mark.parametrize("says", REFUSED)
def test_containers_of_plain_numbers_raise_with_advice(says):
    with pytest.raises((ConversionError, tracker.UnsupportedError), match=says):
        gradient(lambda p: np.sum(REFUSED[says](p)), numpy.array([1.0, 2.0, 3.0]))


def test_a_resized_argument_runs_in_numpy():
    def f(v):
        v.resize(2, refcheck=False)
        return np.sum(v)

    compiled = jit(f)
    for first in (True, False):
        v = numpy.arange(3.0)
        says = r"of shape \(3,\), the shape \(2,\)"
        with pytest.warns(RuntimeWarning, match=says) if first else nullcontext():
            assert compiled(v) == 1.0 and v.shape == (2,)


@pytest.mark.parametrize("M", [0, 1, 2, 5, 8])
def test_kaiser_windows_follow_beta(M):
    found = tracker.data(np.kaiser(M, param(2.3)))
    numpy.testing.assert_allclose(found, numpy.kaiser(M, 2.3), rtol=1e-14)
    assert np.kaiser(M, 2.3).tolist() == numpy.kaiser(M, 2.3).tolist()
    if M:
        places = numpy.arange(M)
        assert gradcheck(lambda beta: np.kaiser(M, beta) * places, 2.3, order=2)
        compiled = jit(lambda beta: gradient(lambda b: np.sum(np.kaiser(M, b)), beta)[0])
        for beta in (2.3, 1.1):
            want = gradient(lambda b: np.sum(np.kaiser(M, b)), beta)[0]
            assert compiled(beta) == pytest.approx(want, rel=1e-13)
