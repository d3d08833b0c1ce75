"""What calls leave behind: writes into arguments, exceptions, threads, and what a function says of
itself."""

import contextlib
import gc
import weakref

import numpy as np
import pytest
from compiled import agree, gradients_agree
from equality import assert_same
from side_by_side import each, program
from unusual import read_only

import tracker as tr
from tracker import CompileError, UnsupportedError, gradient, jit

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


def laid_out(lay):
    """Calls with arrays in a layout, small and big."""
    return [
        lambda n=n, y=y: (lay(np.arange(n).reshape(3, -1)), y)
        for n in (12.0, 600_000.0)
        for y in (1.0, 2.0)
    ]


def into(lay):
    return program(*laid_out(lay), slow=2)(_writes)


def _writes(x, y):
    x += y
    if x.ndim == 2 and x.size:
        x[0, ::2] = np.sin(x[0, ::2]) * y
    return (np.sum(x) if x.size else 0.0) * y


class Layouts:
    """Writes are machine code, whatever the layout."""

    c = into(lambda x: x)
    fortran = into(np.asfortranarray)
    transposed = into(lambda x: np.ascontiguousarray(x.T).T)
    backwards = into(lambda x: x[::-1, ::-1])
    part = into(lambda x: np.repeat(x, 2, axis=1)[:, ::2])
    of_one = program(*laid_out(lambda x: x[:1, :1]), slow=1)(_writes)
    empty = into(lambda x: x[:0])
    scalar = program(*laid_out(lambda x: np.array(x[0, 0])), slow=1)(_writes)


def pairs(*parts, n=8):
    """Calls with two parts of one array, which they return, too."""
    return [lambda part=part: (*part(a := np.arange(float(n))), a) for part in parts]


def shares(row):
    """A result shares memory with an argument that is written."""

    @program(lambda: (row(m := np.arange(12.0).reshape(3, 4)), m), warns="plain Python")
    def shared(x, m):
        m[:, 0] = 5.0
        m[1] *= 2
        y = x * 2
        return y * float(y[0]), x

    return shared


def locks(f):
    return program(np.ones(3), warns="plain Python.*flags")(f)


class Programs:
    @program((A, 2.0), (A * 2, 3.0), (A[:5], 1.0), (A[:5], 2.0), slow=2)
    def writes(x, y):
        x[::2] = y
        x += 1.0
        return np.sum(x)

    @program(np.array([0.0, 1.0]), np.array([0.0, -1.0]))
    def writes_before_an_exception(x):
        x[0] = 7.0
        if x[1] < 0:
            raise ValueError("negative")
        return x * 2

    @program(
        *pairs(lambda a: (a[:3], a[3:6]), lambda a: (a[:3], a[:3]), lambda a: (a[:3], a[:2])),
        lambda: ((x := np.ones(3)), x, x),
    )
    def writes_into_an_argument_given_twice(x, y, a):
        x[0] = 5.0
        return np.sum(y)

    @program(
        *pairs(lambda a: (a[:3], a[3:6])),  # side by side
        *pairs(lambda a: (a[2:5], a[3:6])),  # overlapping
        *pairs(lambda a: (a[4::-2], a[1:6:2])),  # interleaved
        lambda: (read_only(np.zeros(3)), np.ones(3), None),
        lambda: (np.zeros(3), read_only(np.ones(3)), None),
    )
    def writes_that_overlap(x, y, a):
        x[:2] = 2 * y[:2]
        return y.sum()

    @program(*[np.full(3, start) for start in (0.0, 9.0, 4.5)], slow=2)
    def writes_of_a_failing_guard(x):
        x += 1.0
        if x[0] > 5:
            x *= 10.0
        return x

    @program(2.0, 3.0, warns="plain Python", eager=1)
    def a_number_that_leaves(x):
        return float(x) * 2

    a_row = shares(lambda m: m[1])
    a_column = shares(lambda m: m[:, 0])
    a_flat_part = shares(lambda m: m.ravel()[2:6])

    @locks
    def locked(x):
        x.flags.writeable = False
        return x, x.flags.writeable

    @locks
    def locked_by_name(x):
        x.flags["WRITEABLE"] = False
        x[0] = 5.0

    @locks
    def locked_by_a_method(x):
        x.setflags(write=False)
        return x * 2

    @locks
    def locked_result(x):
        y = x * 2
        y.flags.writeable = False
        return y, y.flags.writeable


@each(Programs, Layouts)
def test_programs(row):
    row.check()


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
