"""Errors that a jitted function raises are the plain function's: class, text, what they hold, and
what had been written by then."""

import cmath
import math

import numpy as np
import pytest
from scipy.linalg import solve_sylvester
from scipy.sparse import csc_array
from scipy.sparse.linalg import splu
from side_by_side import each, program
from tables import functions_of

from tracker import fori_loop, gradient, ignore_derivatives, istracked, jit
from tracker.jit.runtime.compile_queue import drain

X = np.array([1.0, 2.0, 3.0])


class _Own(Exception):
    def __init__(self, value):
        super().__init__("own", value)
        self.value = {"twice": [value * 2]}


@pytest.mark.parametrize("index", [2.0, 0.5, 1j, slice(0.0, 2), slice(None, 1.5), "a"])
def test_what_is_no_index_raises_numpys_error(index):
    def f(x, i):
        return x[i]

    with pytest.raises((IndexError, TypeError)) as want:
        f(X, index)
    loss = lambda x: np.sum(f(x, index))  # noqa: E731
    for g in (jit(f), lambda x, _: gradient(loss, x), lambda x, _: gradient(jit(loss), x)):
        for _ in range(2):
            with pytest.raises(want.type, match=str(want.value)[:20]):
                g(X, index)


class Holding:
    """What an error holds is plain."""

    def a_key(x):
        return {1: x}[int(x[2])]

    def a_value(x):
        raise _Own(x[0])

    def an_argument(x):
        raise ValueError("text", [x, (x * 2,)])

    def a_cause(x):
        try:
            raise KeyError(x[1])
        except KeyError as error:
            raise _Own(x[2]) from error

    def an_assertion(x):
        assert x[0] < 0, x


@functions_of(Holding)
def test_what_an_error_holds_is_plain(f):
    fast = jit(f)
    for _ in range(2):
        x = X.copy()
        with pytest.raises(Exception) as want:
            f(x)
        with pytest.raises(type(want.value)) as got:
            fast(x)
        pairs = [(got.value, want.value), (got.value.__cause__, want.value.__cause__)]
        for one, other in pairs:
            assert repr(one) == repr(other)
            assert other is None or repr(vars(one)) == repr(vars(other))
    if f is Holding.an_argument:
        assert got.value.args[1][0] is x


def parts(*pick):
    """Calls with parts of one array, which comes last."""
    return [lambda pick=pick: (*pick(a := np.arange(1.0, 13.0)), a) for pick in pick]


class Written:
    """What had been written by then, where arguments share memory."""

    @program(
        *parts(lambda a: (a[:8], a[4:]), lambda a: (a, a[::-1])),
        *parts(lambda a: (a[::2], a[2::2]), lambda a: (a[:6], a[6:])),
    )
    def overlapping(x, y, a):
        x[...] = x * 2
        y[1] = x[0] + y[2]
        x[1] = y[1]
        if x[0] > 0:
            raise ValueError("too late")

    @program(*parts(lambda a: (a, a, a), lambda a: (a, a, np.zeros(12))))
    def one_array(x, y, z, a):
        x += 1
        y += 2
        z += 3
        if y.sum() > 8:
            raise ValueError(f"{y} {z}")


@each(Written)
def test_writes_before_an_error(row):
    row.check()


def _through(x, i):
    for k in range(300):
        x = x + 1.0 / (i - k)


UNUSED = {
    "float": (lambda x, i: 1.0 / i, 2.0, 0.0),
    "modulo": (lambda x, i: 7 % i, 2, 0),
    "shift": (lambda x, i: 1 << i, 2, -1),
    "power": (lambda x, i: 2.0**i, 2.0, 1e9),
    "index": (lambda x, i: x[i], 1, 7),
    "fits": (lambda x, i: x.astype("u1") + i, 3, -3),
    "in a loop": (lambda x, i: fori_loop(0, 3, lambda k, c: c + 1.0 / i, 0.0), 2.0, 0.0),
    "in a rolled loop": (_through, 0.5, 3.0),
    "singular": (lambda x, i: np.linalg.inv(np.eye(2) * i), 2.0, 0.0),
    "indefinite": (lambda x, i: np.linalg.cholesky(np.eye(2) * i), 2.0, -1.0),
    "not finite": (lambda x, i: np.linalg.svd(np.eye(2) * i), 2.0, np.nan),
}


@pytest.mark.parametrize("name", UNUSED)
@pytest.mark.parametrize("derive", [False, True], ids=["result", "gradient"])
def test_unused_values_raise(name, derive):
    step, good, bad = UNUSED[name]

    def f(x, i):
        step(x, i)
        return np.sum(x * x)

    plain = (lambda x, i: gradient(lambda x: f(x, i), x)[0]) if derive else f
    fast = jit(plain)
    for _ in range(2):
        np.testing.assert_array_equal(fast(X, good), plain(X, good))
    with pytest.raises(Exception) as want:
        plain(X, bad)
    with pytest.raises(type(want.value)) as got:
        fast(X, bad)
    assert str(got.value) == str(want.value)


def _draws(r, x):
    return sum(r.normal(0.0, x - 0.1 * k) for k in range(9))


CAUGHT = {
    "square root": (lambda x, r: math.sqrt(x), 4.0, -1.0),
    "pole": (lambda x, r: math.log(x) + math.lgamma(x), 2.0, 0.0),
    "overflow": (lambda x, r: math.exp(x), 1.0, 1000.0),
    "remainder": (lambda x, r: math.fmod(1.0, x), 0.3, 0.0),
    "items": (lambda x, r: math.fsum([x, -x]), 1.0, np.inf),
    "infinite items": (lambda x, r: 1.0 / math.fsum([x, 1.0, -np.inf]), 1.0, np.inf),
    "complex logarithm": (lambda x, r: cmath.log(x).real, 2.0, 0.0),
    "of a derivative": (lambda x, r: gradient(lambda z: z * math.sqrt(z), x)[0], 4.0, -1.0),
    "draw": (lambda x, r: r.normal(0.0, x), 1.0, -1.0),
    "second draw": (lambda x, r: r.normal() + r.normal(0.0, x), 1.0, -1.0),
    "draws in a loop": (lambda x, r: _draws(r, x), 1.0, 0.35),
    "choice": (lambda x, r: x * r.choice(2, p=[x, 0.5]), 0.5, 0.9),
    "many numbers drawn": (lambda x, r: np.sum(r.normal(0.0, x, 9_000)), 1.0, -1.0),
    "singular factor": (lambda x, r: splu(csc_array(np.eye(2) * x)).solve(X[:2])[1], 2.0, 0.0),
    "not finite": (
        lambda x, r: solve_sylvester(np.eye(2) * x, np.eye(2), np.eye(2))[0, 0],
        2.0,
        np.nan,
    ),
}


@pytest.mark.filterwarnings("ignore:.*cannot be traced", "ignore:invalid value", "ignore:divide by")
@pytest.mark.parametrize("name", CAUGHT)
@pytest.mark.parametrize("derive", [False, True], ids=["result", "gradient"])
def test_an_error_because_of_a_value_is_caught(name, derive):
    """Whether it comes while the function is traced, or in a later call. What was drawn and
    written before is drawn and written once."""
    step, good, bad = CAUGHT[name]

    def f(x, r, log):
        log += 1
        y = r.random()
        try:
            return step(x, r) + y
        except (ArithmeticError, ValueError, RuntimeError):
            return 3.0 * np.clip(np.nan_to_num(x), -1.0, 1.0) + 2.0 * y

    plain = (lambda *args: gradient(f, *args)[0]) if derive else f
    for order in ([bad, good, bad, good], [good, good, bad, good, bad]):
        fast, results, ends = jit(plain), [], []
        for g in (plain, fast):
            r, log = np.random.default_rng(0), np.zeros(1)
            results.append([g(x, r, log) for x in order])
            ends.append((r.random(), *log))
        np.testing.assert_allclose(results[1], results[0], 1e-12)
        assert ends[1] == ends[0]


@pytest.mark.filterwarnings("ignore:.*cannot be traced")
def test_whether_a_matrix_is_positive_definite():
    @jit
    def is_definite(a):
        try:
            np.linalg.cholesky(a)
        except np.linalg.LinAlgError:
            return False
        return True

    assert [is_definite(np.eye(2) * k) for k in (1.0, 2.0, -1.0, 3.0)] == [True, True, False, True]


def test_an_error_because_of_a_value_without_derivative():
    def f(x):
        try:
            return np.sum(np.linalg.inv(ignore_derivatives(x)) * x)
        except np.linalg.LinAlgError:
            return -np.sum(x)

    fast = jit(f)
    with pytest.warns(RuntimeWarning, match="goes on after an error that depends on values"):
        assert fast(np.ones((2, 2))) == -4.0
    assert fast(np.eye(2)) == 2.0


def test_a_function_that_raises_each_time_is_not_traced_each_time():
    calls = []

    def f(x):
        calls.append(istracked(x))
        if x[0] < 0:
            raise ValueError("negative")
        return x * 2.0 if x[0] < 5 else x * 3.0

    g = jit(f)
    for _ in range(20):
        with pytest.raises(ValueError, match="negative"):
            g(-np.ones(3))
    assert sum(calls) == 3 and len(calls) == 20
    for k in range(4):  # what does not raise is compiled all the same
        assert np.all(g(np.ones(3)) == 2.0)
        assert np.all(g(6 * np.ones(3)) == 18.0), k
    drain()
    slow = g.cache_info().slow
    assert np.all(g(np.ones(3)) == 2.0)
    assert np.all(g(6 * np.ones(3)) == 18.0)
    assert g.cache_info() == (2, 1, slow, 0)
