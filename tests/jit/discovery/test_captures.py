"""Captured state: each call reads it as the plain function does."""

import cmath
import functools
import importlib
import math
import warnings

import numpy as np
import pytest
from captured import Model, same
from concurrently import at_once
from jit_programs import assert_same
from test_parity import agree

import tracker as tr
from tracker import gradient, jit
from tracker.jit.discovery.discovery import find_sources
from tracker.jit.guards.source import FunctionSource, NamespaceSource
from tracker.tape.tracked import Tracked

A = np.linspace(-1.0, 2.0, 40)
scale, weights, offsets, chosen = 2.0, np.ones(3), {"a": np.zeros(3), "b": [1.0, 2.0]}, np.sin


def _uses_globals(x):
    return chosen(x) * scale + weights + offsets["a"] * offsets["b"][0]


@pytest.fixture
def globals_restored():
    names = "scale", "weights", "offsets", "chosen"
    kept = {name: globals()[name] for name in names}
    yield
    globals().update(kept)


def test_globals_that_are_rebound(globals_restored):
    f = jit(_uses_globals)
    for change in (
        {},
        {"scale": 3},
        {"weights": np.arange(3.0)},
        {"weights": np.arange(3)},  # another dtype
        {"weights": 4.0},
        {"chosen": np.cos},
        {"offsets": {"a": np.full(3, 7.0), "b": [1.0, 2.0]}},
        {"offsets": {"a": np.full(3, 7.0), "b": [-1.0, 2.0]}},
        {"offsets": {"a": 1.0, "b": (2.0,)}},
    ):
        globals().update(change)
        same(f, _uses_globals, np.arange(3.0))
    offsets["a"] = np.zeros(3)
    same(f, _uses_globals, np.arange(3.0))


def test_arrays_rebound_at_each_call_need_one_trace(globals_restored):
    global weights
    f = jit(lambda x: x * weights + np.sum(weights**2))
    for k in range(40):
        weights = np.full(3, float(k))
        assert_same(f(2.0), 2.0 * weights + np.sum(weights**2))
    assert f.cache_info().traces == 1 and f.cache_info().slow == 1


def test_closure_variables_that_are_rebound():
    n, w, function = 2.0, np.ones(3), np.sin

    def f(x):
        return function(x * n) + w

    g = jit(f)
    x = np.arange(3.0)
    same(g, f, x)
    n = 3.0
    same(g, f, x)
    w = np.arange(3.0)
    same(g, f, x)
    function = np.cos
    same(g, f, x)
    n = np.float32(0.5)
    same(g, f, x)
    n = float("nan")
    same(g, f, x)
    n = -0.0
    assert np.signbit(jit(lambda x: x * n)(1.0))


def test_numbers_equal_to_what_they_were_are_no_new_trace():
    n = 0.5

    def f(x):
        return x * n

    g = jit(f)
    g(1.0)
    for _ in range(5):
        n = float("0.5")
        assert g(3.0) == 1.5
    assert g.cache_info().slow == 1


def test_plain_numpy_on_captured_arrays():
    c = np.array([1.0, 2.0, 3.0])
    n = np.array([4, 5, 6])

    def f(x):
        y = 2 * c
        if c[0] > 2:
            y = y + c.sum()
        return y * x + np.exp(c).max() + n[1] + c[n - 4][::-1]

    g = jit(f)
    for k in (1.0, 3.0, -1.0, 5.0):
        c[:] = np.array([1.0, 2.0, 3.0]) * k
        n[1] = 4 + int(k) % 3
        same(g, f, 2.0)
    assert g.cache_info().traces >= 2


def test_captured_arrays_that_leave_numpy_are_compared():
    knots = np.array([0.0, 1.0, 2.0])

    def f(x):
        return np.interp(1.5, knots.tolist(), [3.0, 4.0, 5.0]) * x + float(knots[1])

    g = jit(f)
    for k in (1.0, 2.0, 1.0, 0.5):
        knots[1] = k
        same(g, f, np.arange(3.0))


def test_captured_arrays_in_functions_without_a_rule():
    edges, values = np.array([0.0, 1.0, 2.0]), np.array([0.5, np.nan, 1.5])

    def f(x):
        return x * np.histogram(values[::2], edges)[0] + len(edges.tobytes()) + edges.tobytes()[0]

    g = jit(f)
    for last in (2.0, 1.2, 5.0):
        edges[2] = last
        same(g, f, np.arange(2.0))
    assert gradient(jit(lambda x: np.sum(f(x))), np.arange(2.0))[0].tolist() == [1.0, 1.0]


def test_derivatives_in_captured_arrays_do_not_leave():
    w = np.ones(3)
    f = jit(lambda x: gradient(lambda w: float(w[0]) * np.sum(w), w)[0] * x)
    with pytest.warns(RuntimeWarning, match="plain Python"), pytest.raises(tr.ConversionError):
        f(2.0)


def test_writes_into_captured_arrays():
    c, d = np.zeros(3), np.zeros((2, 3))

    def f(x):
        c[0] += x
        c[1:] *= 2.0
        d.T[...] = c[:, None]
        return c.sum() + d[0, 0]

    g = jit(f)
    for k in range(5):
        c[:], d[...] = [1.0, 2.0, k], k
        want_c, want_d = c.copy(), d.copy()
        want_c[0] += 2.0
        want_c[1:] *= 2.0
        want_d.T[...] = want_c[:, None]
        assert_same(g(2.0), want_c.sum() + want_d[0, 0])
        assert_same((c, d), (want_c, want_d))


def test_a_counter_in_an_array():
    calls = np.zeros((), int)

    def f(x):
        calls[...] += 1
        return x * 2

    g = jit(f)
    for k in range(5):
        assert g(1.0) == 2.0 and calls == k + 1


def test_a_captured_array_that_is_returned_is_itself():
    c = np.ones(3)
    f = jit(lambda x: (c, x * c))
    for _ in range(3):
        assert f(2.0)[0] is c


def test_a_captured_array_as_argument():
    c = np.ones(3)

    def f(x):
        x[0] = 5.0
        c[1] += 1.0
        return x.sum() + 10 * c.sum()

    g = jit(f)
    for _ in range(3):
        for given in (c, np.zeros(3), c[:], c[::-1]):
            c[:] = 1.0
            want = f(given)
            left = c.copy(), given.copy()
            c[:] = 1.0
            given[:] = 0.0 if given.base is None and given is not c else 1.0
            assert_same(g(given), want)
            assert_same((c, given), left)


def test_one_array_in_two_places():
    c = np.ones(3)
    d = c

    def f(x):
        c[0] = x
        return d.sum()

    g = jit(f)
    for k in (2.0, 3.0):
        assert g(k) == k + 2.0
    d = np.full(3, 7.0)
    assert g(4.0) == 21.0 and c[0] == 4.0
    d = c[:2]
    assert g(5.0) == 6.0
    assert g(6.0) == 7.0


# Functions ---------------------------------------------------------------------------------------


def _helper(x):
    return x * weights.sum()


def test_helpers_are_followed(globals_restored):
    global weights, _helper
    f = jit(lambda x: _helper(x) + 1.0)
    weights[:] = 2.0
    assert f(1.0) == f(1.0) == 7.0
    weights[:] = 1.0
    assert f(1.0) == 4.0
    kept = _helper
    try:
        _helper = lambda x: x - 1.0  # noqa: E731
        assert f(1.0) == f(1.0) == 1.0
    finally:
        _helper = kept
    assert f(1.0) == 4.0


def _uses_a_module(x):
    return x * backend.sqrt(4.0)


def test_modules_that_are_rebound():
    global backend
    f, x = jit(_uses_a_module), np.ones(2)
    try:
        for module in (math, cmath, math):
            backend = module
            same(f, _uses_a_module, x)
    finally:
        del backend
    with pytest.raises(NameError):
        f(x)


def test_functions_made_in_a_loop():
    made = [jit(lambda x, k=k: x * k) for k in range(4)]
    late = [jit(lambda x: x * k) for k in range(4)]  # noqa: B023 (late binding is the point)
    for _ in range(2):
        assert [f(2.0) for f in made] == [0.0, 2.0, 4.0, 6.0]
        assert [f(2.0) for f in late] == [6.0] * 4


def test_arrays_as_defaults_and_in_partials():
    c, k = np.ones(3), {"b": np.ones(3)}

    def f(x, c=c, *, extra=k):
        return 2 * c * x + 3 * extra["b"]

    g, h = jit(f), jit(functools.partial(f, 2.0, extra=k))
    for n in (1.0, 2.0, 3.0):
        c[:] = n
        k["b"][:] = -n
        same(g, f, 2.0)
        same(h, functools.partial(f, 2.0, extra=k))
    assert f.__defaults__[0] is c


def test_wrapped_and_recursive_functions():
    c = np.ones(3)

    def doubled(f):
        @functools.wraps(f)
        def call(*args):
            return 2 * f(*args)

        return call

    @doubled
    def f(x, n):
        return c.sum() * x if n == 0 else f(x, n - 1)

    @jit
    def power(x, n):
        return 2 * c[0] * x if n == 0 else x * power(x, n - 1)

    g = jit(f)
    for n in (1.0, 2.0):
        c[:] = n
        same(g, f, 2.0, 3)
        assert power(2.0, 3) == power(2.0, 3) == 2 * n * 16.0


def test_inner_functions_and_comprehensions():
    c = [np.ones(3), np.ones(3)]

    def f(x):
        def inner(k):
            return sum(2 * w * k for w in c)

        return inner(x) + np.sum([3 * w for w in c][1])

    g = jit(f)
    for n in (1.0, 2.0):
        c[0][:] = n
        c[1] = np.full(3, 5 * n)
        same(g, f, 2.0)


# What a call changes -----------------------------------------------------------------------------


def test_state_that_each_call_changes():
    class Counter:
        n = 0
        last = None

    counter, log, total = Counter(), [], 0.0

    def f(x):
        nonlocal total
        counter.n += 1
        counter.last = x * 2
        log.append(x * 3)
        total = total + x
        return x * counter.n

    g = jit(f)
    for k in range(1, 8):
        assert_same(g(np.float64(k)), np.float64(k * k))
    assert counter.n == 7 and counter.last == 14.0 and total == 28.0
    assert log == [3.0 * k for k in range(1, 8)]
    for x in (counter.last, total, *log):
        assert type(x) is np.float64


def test_an_exception_leaves_no_placeholder():
    c, d, m = np.ones(3), [(np.ones(3), 1)], Model()
    pair = d[0]

    def f(x):
        y = 2 * c + d[0][0] + m.w
        if x > 1:
            raise KeyError("no")
        return y

    g = jit(f)
    for x in (0.0, 2.0, 0.0, 2.0):
        if x > 1:
            with pytest.raises(KeyError):
                g(x)
        else:
            g(x)
        assert type(c) is type(d[0][0]) is type(m.w) is np.ndarray
        assert d[0] is pair


def test_gradients_of_functions_with_captures():
    m, c = Model(), np.arange(3.0)

    def loss(x):
        return np.sum(m.plain(x) * (2 * c) ** 2)

    f = jit(loss)
    x = np.array([0.1, 0.2, 0.3])
    for _ in range(3):
        for g in (lambda x: gradient(f, x), jit(lambda x: gradient(loss, x))):
            assert_same(g(x), gradient(loss, x))
            assert_same(g(x), gradient(loss, x))
        c += 1.0
        m.w = m.w * 2.0
        m.rate *= 0.5


def test_gradients_in_captured_arrays():
    w = np.ones(3)

    def step(x):
        return gradient(lambda w: np.sum((w * x) ** 2), w)[0]

    g = jit(step)
    for k in range(3):
        w = np.full(3, float(k))
        same(g, step, np.arange(3.0))


def test_values_followed_by_a_derivative_outside():
    def loss(w):
        inner = jit(lambda x: np.sum(2 * w * x))
        return inner(A) + inner(A)

    assert_same(gradient(loss, 3.0), (float(4 * np.sum(A)),))


def test_threads_see_no_placeholder():
    c = np.ones(40)
    wrong = []

    def work(k):
        functions = [jit(lambda x: (2 * c) @ x), jit(lambda x: np.sum(c * x) * 2)]
        for f in functions * 3:
            y = f(A + k)
            if isinstance(y, Tracked) or not np.isclose(y, 2 * np.sum(A + k)):
                wrong.append(y)

    at_once(*(functools.partial(work, k) for k in range(4)))
    assert not wrong


def test_functions_without_captures_look_at_their_code_only():
    f = jit(lambda x: np.sin(x) * 2.0 + abs(x))
    f(1.0)
    (family,) = f._jitted.groups.values()
    kinds = [type(source) for source in family.specializations[0].trace.signature.sources]
    assert kinds == [FunctionSource, NamespaceSource, NamespaceSource, NamespaceSource]


def test_explain_names_captures():
    c = np.ones(3)
    text = jit(lambda x: x * c).explain(2.0)
    assert "closure variable c: f64[3]" in text
    agree(lambda x: x * c, 2.0)


def test_a_derivative_reads_what_its_function_reads():
    """The names in our own code cost a call nothing."""
    w = np.ones(3)
    f = jit(lambda x: np.sum(x * w))
    tr.value_and_grad(f)(w)
    (derived,) = f._jitted.derivatives.values()
    labels = [place.label for place in find_sources(derived)]
    own = "names in test_captures"  # which module `np` is
    assert labels == ["code of <lambda>", "closure variable w", own, "names in numpy"]


def test_a_derivative_of_a_function_that_writes_minds_shared_memory():
    """Compiled for arrays apart, it is not used for arrays that share memory."""

    def f(x, y):
        x[0] = 5.0
        return np.sum(x * y)

    fast = jit(f)
    a, b = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    for _ in range(2):
        assert_same(gradient(fast, a, b), gradient(f, a, b))
    for x, y in ((a, a), (a, a[:]), (a[:2], a[1:])):
        for g in (f, fast):
            for _ in range(2):
                refused = pytest.raises(tr.UnsupportedError, match="shares memory with another")
                with refused, warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    gradient(g, x, y)
    assert_same(gradient(fast, a, b), gradient(f, a, b))


@pytest.mark.parametrize("directory", ["site-packages", "dist-packages"])
def test_what_is_installed_anywhere_is_not_followed(tmp_path, monkeypatch, directory):
    """Also in the user's and the system's own package directories."""
    (tmp_path / directory).mkdir()
    text = "scale = [2.0]\n\ndef scaled(x):\n    return x * scale[0]\n"
    (tmp_path / directory / f"installed_{directory[:4]}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path / directory)
    library = importlib.import_module(f"installed_{directory[:4]}")

    def f(x):
        return library.scaled(x) + weights[0]

    labels = {place.label for place in find_sources(f)}
    assert "global weights" in labels
    assert "global scale" not in labels


@pytest.mark.filterwarnings("ignore:.*runs in plain Python:RuntimeWarning")
@pytest.mark.parametrize("scale", [None, 3.0])
def test_a_param_made_in_a_jitted_function(scale):
    def f(x):
        p = tr.param(np.ones(3))
        tr.back(np.sum(p * (x if scale is None else scale)))
        return tr.grad(p)

    fast = tr.jit(f)
    for x in (np.arange(3.0), np.ones(3)):
        for _ in range(2):
            np.testing.assert_array_equal(fast(x), f(x))
    with pytest.raises(tr.CompileError, match="use tracker"):
        tr.jit(f, strict=True)(np.ones(3))
