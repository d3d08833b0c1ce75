"""What calls leave behind: writes into arguments, exceptions, threads, and what a function says of
itself."""

import contextlib
import gc
import math
import warnings
import weakref

import numpy as np
import pytest
from concurrently import at_once
from jit_programs import assert_same
from test_parity import agree, gradients_agree
from unusual import read_only

import tracker as tr
from tracker import CompileError, UnsupportedError, gradient, jit
from tracker.tape import observers
from tracker.tape.tracer import current_tracer

A = np.linspace(-1.0, 2.0, 40)


def test_views_of_what_a_call_writes_and_captures():
    c = np.zeros((2, 3))

    def f(x, locked):
        x[1] = 5.0
        return x[1:], c[0], locked[1:], np.fft.fft(x).real

    for g in (jit(f), jit(lambda x, locked: f(x, locked)[:3])):
        for k in range(3):
            x, locked = np.arange(3.0) + k, np.arange(3.0)
            locked.flags.writeable = False
            part, row, third = g(x, locked)[:3]
            assert_same(part, np.array([5.0, 2.0 + k]))
            part[:] = row[:] = k
            assert x[1] == k and c[0, 2] == k and not third.flags.writeable
            del x
            assert_same(part, np.full(2, float(k)))  # it keeps its memory alive


def test_writes_into_arguments():
    def f(x, y):
        x[::2] = y
        x += 1.0
        return np.sum(x)

    agree(f, A, 2.0, others=[(A * 2, 3.0), (A[:5], 1.0), (A[:5], 2.0)])


def test_writes_before_an_exception():
    def f(x):
        x[0] = 7.0
        if x[1] < 0:
            raise ValueError("negative")
        return x * 2

    g = jit(f)
    for second in (1.0, -1.0, 1.0, -1.0):
        x = np.array([0.0, second])
        if second < 0:
            with pytest.raises(ValueError, match="negative"):
                g(x)
        else:
            g(x)
        assert x[0] == 7.0


def test_writes_into_an_argument_given_twice():
    def f(x, y):
        x[0] = 5.0
        return np.sum(y)

    g = jit(f)
    for _ in range(3):
        one, two = np.ones(3), np.ones(3)
        assert g(one, two) == 3.0 and one[0] == 5.0 and two[0] == 1.0
        assert g(one, one) == 7.0
        whole = np.zeros(4)
        assert g(whole[:3], whole[:2]) == 5.0


@pytest.mark.filterwarnings("ignore:.*plain Python")
def test_writes_that_other_arguments_see_where_a_function_cannot_be_traced():
    def f(x, y):
        with contextlib.suppress(ValueError):
            np.array([y[0]])  # what a trace cannot follow
        y *= 2.0
        return x + 0.0

    def derived(x, y):
        with contextlib.suppress(ValueError):
            np.array([y[0]])
        return gradient(lambda a, b: np.sum(a * np.multiply(b, 2.0, out=b)), x, y)

    for pair in (lambda v: (v, v), lambda v: (v[::2], v[1:]), lambda v: (v[:1], v)):
        g = jit(f)
        for _ in range(3):
            ours, plain = np.arange(1.0, 5.0), np.arange(1.0, 5.0)
            assert_same(g(*pair(ours)), f(*pair(plain)))
            assert_same(ours, plain)
    with pytest.raises(UnsupportedError, match="shares memory"):
        jit(derived)(*(2 * [np.arange(4.0)]))


LAYOUTS = {
    "C": lambda x: x,
    "Fortran": np.asfortranarray,
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "backwards": lambda x: x[::-1, ::-1],
    "part": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "of one": lambda x: x[:1, :1],
    "empty": lambda x: x[:0],
    "0-d": lambda x: np.array(x[0, 0]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("big", [False, True])
def test_writes_are_machine_code(layout, big):
    lay = LAYOUTS[layout]

    def f(x, y):
        x += y
        if x.ndim == 2 and x.size:
            x[0, ::2] = np.sin(x[0, ::2]) * y
        return (np.sum(x) if x.size else 0.0) * y

    g = jit(f)
    start = np.arange(12.0 if not big else 600_000.0).reshape(3, -1)
    for y in (1.0, 2.0, 3.0):
        one, two = lay(start.copy()), lay(start.copy())
        assert_same(g(one, y), f(two, y))
        assert_same(one, two)
    assert g.cache_info().slow == 1


def test_writes_in_machine_code_keep_to_their_rules():
    def f(x, y):
        x[:2] = 2 * y[:2]
        return y.sum()

    g = jit(f)
    g(np.zeros(3), np.ones(3))
    for _ in range(3):
        whole, want = np.arange(8.0), np.arange(8.0)
        assert g(whole[2:5], whole[3:6]) == f(want[2:5], want[3:6])  # overlapping
        assert_same(whole, want)
        assert g(whole[:3], whole[3:6]) == f(want[:3], want[3:6])  # side by side
        assert_same(whole, want)
        assert g(whole[4::-2], whole[1:6:2]) == f(want[4::-2], want[1:6:2])  # interleaved
        assert_same(whole, want)
        with pytest.raises(ValueError, match="read-only"):
            g(read_only(np.zeros(3)), np.ones(3))
        assert g(np.zeros(3), read_only(np.ones(3))) == 3.0


def test_a_failing_guard_has_written_nothing():
    def f(x):
        x += 1.0
        if x[0] > 5:
            x *= 10.0
        return x

    g = jit(f)
    for start in (0.0, 9.0, 0.0, 9.0, 4.5):
        x, y = np.full(3, start), np.full(3, start)
        assert g(x) is x
        f(y)
        assert_same(x, y)
    assert g.cache_info().slow == 2


def test_exceptions_leave_no_state():
    def f(x):
        if x > 1:
            raise KeyError("no")
        return x

    g = jit(f)
    for _ in range(3):
        with pytest.raises(KeyError):
            g(2.0)
        with pytest.raises(KeyError):
            gradient(g, 2.0)
        assert not observers.observers and current_tracer() is None
    assert g(0.5) == 0.5


def test_nesting_of_jit_and_gradient():
    inner = jit(lambda x: np.sum(np.sin(x) ** 3))
    want = gradient(lambda x: np.sum(gradient(inner, x)[0] ** 2), A)
    forms = [
        jit(lambda x: gradient(lambda x: np.sum(gradient(inner, x)[0] ** 2), x)),
        jit(lambda x: gradient(jit(lambda x: np.sum(gradient(inner, x)[0] ** 2)), x)),
        lambda x: gradient(jit(lambda x: np.sum(jit(lambda x: gradient(inner, x))(x)[0] ** 2)), x),
    ]
    for form in forms:
        for _ in range(2):
            assert_same(form(A), want)


def test_recursion():
    @jit
    def power(x, n):
        return 1.0 if n == 0 else x * power(x, n - 1)

    for x, n in [(2.0, 3), (3.0, 5), (2.0, 0), (1.5, 3), (A, 2)]:
        for _ in range(2):
            assert_same(power(x, n), 1.0 if n == 0 else x**n * 1.0)


def test_threads_call_one_function_at_once():
    @jit
    def f(x):
        if x[0] > 0:
            return np.sum(np.sin(x)) * 2
        return np.sum(x)

    rng = np.random.default_rng(0)
    xs = [rng.normal(size=40 + k % 3) for k in range(30)]
    wrong = []

    def work():
        for x in xs:
            want = np.sum(np.sin(x)) * 2 if x[0] > 0 else np.sum(x)
            if not np.isclose(f(x), want, rtol=1e-12):
                wrong.append(x)

    at_once(*[work] * 4)
    assert not wrong
    assert not observers.observers


def test_functions_and_arguments_are_collectable():
    refs = []
    for _ in range(3):
        data = np.ones(50)
        f = jit(lambda x, data=data: x * data + 1.0)
        argument = np.ones(50)
        f(argument), f(argument), gradient(jit(lambda x: np.sum(x)), argument)
        refs += [weakref.ref(f), weakref.ref(argument)]
        del f, argument, data
    gc.collect()
    assert [ref() for ref in refs] == [None] * 6


def test_introspection():
    @jit
    def f(x, w):
        """The doc."""
        return np.tanh(x @ w) * 2

    x, w = np.ones((50, 40)), np.ones((40, 30))
    assert f.__name__ == "f" and f.__doc__ == "The doc." and repr(f) == "<jitted f>"
    assert "matmul" in str(f.ir(x, w))
    assert len(f.ir(x, w).outputs) == 1
    assert "define" in f.llvm(x, w)
    assert "gemm" in f.asm(x, w)
    text = f.explain(x, w)
    for word in (
        "one native call",
        "product: f64[50,40] @ f64[40,30]",
        "tanh",
        "test_call_effects.py",
        "times",
    ):
        assert word in text
    assert f.cache_info() == (1, 1, 0, 0)
    f(x, w)
    assert f.cache_info() == (1, 1, 0, 0)
    f.clear_cache()
    assert f.cache_info() == (0, 0, 0, 0)
    assert_same(f(x, w), np.tanh(x @ w) * 2)
    assert f.cache_info() == (1, 1, 1, 0)
    loss = jit(lambda x: np.sum(np.sin(x) ** 2))
    assert "cos" in str(loss.ir(A, pullback=True))


def test_host_calls_are_listed_and_strict_refuses_them():
    def f(x):
        return np.sum((np.sin(x).astype(np.longdouble) * 2).astype(float) * x)

    agree(f, A, others=[(A * 2,)])
    gradients_agree(f, A, others=[(A * 2,)])
    assert "host: multiply" in jit(f).explain(A)
    with pytest.raises(CompileError, match=r"strict.*astype"):
        jit(f, strict=True)(A)


def test_what_cannot_be_traced_runs_plainly_with_a_warning():
    def f(x):
        return float(x) * 2

    g = jit(f)
    with pytest.warns(RuntimeWarning, match="plain Python"):
        assert g(2.0) == 4.0
    assert g(3.0) == 6.0
    assert g.cache_info().eager == 1
    with pytest.raises(CompileError, match="traced"):
        jit(f, strict=True)(2.0)


def test_a_pullback_writes_into_copies():
    def f(x, parts):
        x[0] = 5.0 * x[1]
        parts["b"] *= 2.0
        return np.sum(x * x * parts["b"])

    compiled = tr.jit(f)
    want_y, want = tr.pullback(f, np.array([1.0, 2.0, 3.0]), {"b": np.ones(3)})
    for _ in range(3):
        x, parts = np.array([1.0, 2.0, 3.0]), {"b": np.ones(3)}
        y, pull = tr.pullback(compiled, x, parts)
        assert y == want_y
        for _ in range(2):
            np.testing.assert_equal(pull(1.0), want(1.0))
        np.testing.assert_array_equal(x, [1.0, 2.0, 3.0])
        np.testing.assert_array_equal(parts["b"], np.ones(3))


def test_a_pullback_of_a_jitted_function_is_compiled_within_another():
    @tr.jit
    def f(x):
        return np.sum(x * x)

    outer = tr.jit(lambda x: tr.pullback(f, x)[1](1.0)[0], strict=True)
    for _ in range(2):
        np.testing.assert_array_equal(outer(np.array([1.0, 2.0])), [2.0, 4.0])
    assert outer.cache_info().eager == 0


@pytest.mark.parametrize("row", [lambda m: m[1], lambda m: m[:, 0], lambda m: m.ravel()[2:6]])
def test_results_that_share_memory(row):
    """The trace's own run, whose arrays share nothing, is none to take the result from."""

    def f(x, m):
        m[:, 0] = 5.0
        m[1] *= 2
        y = x * 2
        return y * math.sin(y[0]), x

    fast = jit(f)
    for _ in range(3):
        ours, theirs = np.arange(12.0).reshape(3, 4), np.arange(12.0).reshape(3, 4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = fast(row(ours), ours)
        assert_same(got, f(row(theirs), theirs))
        assert_same(ours, theirs)


def _locked(x):
    x.flags.writeable = False
    return x


def _locked_by_name(x):
    x.flags["WRITEABLE"] = False
    x[0] = 5.0


def _locked_by_a_method(x):
    x.setflags(write=False)
    return x * 2


def _locked_result(x):
    y = x * 2
    y.flags.writeable = False
    return y


@pytest.mark.parametrize("f", [_locked, _locked_by_name, _locked_by_a_method, _locked_result])
def test_flags_that_are_set_are_the_plain_functions(f):
    def called(g):
        x = np.ones(3)
        try:
            y = g(x)
        except ValueError as error:
            y = str(error)
        return str(y), getattr(getattr(y, "flags", None), "writeable", None), x.flags.writeable

    with pytest.warns(RuntimeWarning, match="plain Python.*flags"):
        fast = jit(f)
        first = called(fast)
    assert [first, called(fast), called(fast)] == [called(f)] * 3
