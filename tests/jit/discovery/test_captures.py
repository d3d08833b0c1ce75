"""Captured state: each call reads it as the plain function does."""

import cmath
import functools
import importlib
import math
import warnings

import numpy as np
import pytest
from captured import Model
from compiled import agree, calls_agree
from equality import assert_same
from side_by_side import each, program

import tracker as tr
from tracker import gradient, jit
from tracker.jit.discovery.captured_state import find_captured_state
from tracker.jit.guards.source import FunctionSource, NamespaceSource

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
        calls_agree(f, _uses_globals, np.arange(3.0))
    offsets["a"] = np.zeros(3)
    calls_agree(f, _uses_globals, np.arange(3.0))


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
    calls_agree(g, f, x)
    n = 3.0
    calls_agree(g, f, x)
    w = np.arange(3.0)
    calls_agree(g, f, x)
    function = np.cos
    calls_agree(g, f, x)
    n = np.float32(0.5)
    calls_agree(g, f, x)
    n = float("nan")
    calls_agree(g, f, x)
    n = -0.0
    assert np.signbit(jit(lambda x: x * n)(1.0))


def _times(k):
    """Numbers in place of those in all captured arrays."""

    def change(s):
        for x in vars(s).values():
            if isinstance(x, np.ndarray):
                x[...] = x * k

    return change


def _another_half(s):
    s.n = float("0.5")


def _both(s):
    s.c[:], s.d[...] = [1.0, 2.0, 3.0], 4.0


def _replaced(s):
    s.c, s.d = np.full(3, 5.0), [np.ones(3), np.full(3, 10.0)]


def _decayed(s):
    s.c += 1.0
    s.m.w = s.m.w * 2.0
    s.m.rate *= 0.5


def _doubled(f):
    @functools.wraps(f)
    def call(*args):
        return 2 * f(*args)

    return call


C, D, STEPS = np.array([1.0, 2.0, 3.0]), np.array([4, 5, 6]), [_times(k) for k in (3, -1, 2)]


class Programs:
    @program(2.0, state={"c": C, "n": D}, changes=[_times(3)], traces=2, eager=0)
    def plain_numpy(x, s):
        y = 2 * s.c
        if s.c[0] > 2:
            y = y + s.c.sum()
        return y * x + np.exp(s.c).max() + s.n[1] + s.c[s.n % 3][::-1]

    @program(np.arange(3.0), state={"knots": np.array([0.0, 1.0, 2.0])}, changes=STEPS[::2])
    def what_leaves_numpy(x, s):
        return np.interp(1.5, s.knots.tolist(), [3.0, 4.0, 5.0]) * x + float(s.knots[1])

    @program(
        *[np.arange(2.0)],
        state={"edges": np.array([0.0, 1.0, 2.0]), "values": np.array([0.5, np.nan, 1.5])},
        changes=[_times(0.5), _times(3)],
    )
    def functions_without_a_rule(x, s):
        counts = np.histogram(s.values[::2], s.edges)[0]
        return x * counts + len(s.edges.tobytes()) + s.edges.tobytes()[0]

    @program(2.0, state={"c": np.zeros(3), "d": np.zeros((2, 3))}, changes=[_both, _both])
    def writes(x, s):
        s.c[0] += x
        s.c[1:] *= 2.0
        s.d.T[...] = s.c[:, None]
        return s.c.sum() + s.d[0, 0]

    @program(1.0, times=5, state={"calls": np.zeros((), int)}, slow=1)
    def a_counter_in_an_array(x, s):
        s.calls[...] += 1
        return x * 2

    @program(2.0, state={"c": np.ones(3)})
    def results(x, s):
        return s.c, x * s.c

    @program(2.0, 3.0, times=5, state={"n": 0.5}, changes=[_another_half], slow=1)
    def numbers_equal_to_what_they_were(x, s):
        return x * s.n

    @program((2.0, 3), state={"c": C}, changes=STEPS)
    def wrapped_and_recursive(x, n, s):
        @_doubled
        def f(x, n):
            return s.c.sum() * x if n == 0 else f(x, n - 1)

        return f(x, n)

    @program(2.0, state={"d": [np.ones(3), np.ones(3)]}, changes=[_replaced])
    def inner_functions_and_comprehensions(x, s):
        def inner(k):
            return sum(2 * w * k for w in s.d)

        return inner(x) + np.sum([3 * w for w in s.d][1])

    @program(
        *[np.float64(k) for k in range(1, 8)],
        times=1,
        state={"n": 0, "last": None, "log": [], "total": 0.0},
        eager=0,
    )
    def attributes_and_lists(x, s):
        s.n += 1
        s.last = x * 2
        s.log.append(x * 3)
        s.total = s.total + x
        return x * s.n

    @program(0.0, 2.0, state=lambda: {"c": np.ones(3), "d": [(np.ones(3), 1)], "m": Model()})
    def nothing_after_an_exception(x, s):
        y = 2 * s.c + s.d[0][0] + s.m.w
        if x > 1:
            raise KeyError("no")
        return y

    @program(
        *[np.array([0.1, 0.2, 0.3])],
        state=lambda: {"m": Model(), "c": np.arange(3.0)},
        changes=[_decayed, _decayed],
        gradients=True,
    )
    def gradients(x, s):
        return np.sum(s.m.plain(x) * (2 * s.c) ** 2)

    @program(np.arange(3.0), state={"w": np.ones(3)}, changes=STEPS)
    def gradients_in_captured_arrays(x, s):
        return gradient(lambda w: np.sum((w * x) ** 2), s.w)[0]


@each(Programs)
def test_captured_state_is_read_at_each_call(row):
    row.check()


def test_arrays_as_defaults_and_in_partials():
    c, k = np.ones(3), {"b": np.ones(3)}

    def f(x, c=c, *, extra=k):
        return 2 * c * x + 3 * extra["b"]

    g, h = jit(f), jit(functools.partial(f, 2.0, extra=k))
    for n in (1.0, 2.0, 3.0):
        c[:] = n
        k["b"][:] = -n
        calls_agree(g, f, 2.0)
        calls_agree(h, functools.partial(f, 2.0, extra=k))
    assert f.__defaults__[0] is c


def test_a_gradient_beside_captures_without_a_rule():
    edges = np.array([0.0, 1.0, 2.0])
    f = jit(lambda x: np.sum(x * np.histogram([0.5, 1.5], edges)[0]) + len(edges.tobytes()))
    assert gradient(f, np.arange(2.0))[0].tolist() == [1.0, 1.0]


def test_a_captured_array_as_argument():
    """Itself, another one, and parts of it."""

    def f(x, c):
        x[0] = 5.0
        c[1] += 1.0
        return x.sum() + 10 * c.sum()

    ours, plain = np.ones(3), np.ones(3)
    g = jit(lambda x: f(x, ours))
    for part in [lambda c: c, lambda c: np.zeros(3), lambda c: c[:], lambda c: c[::-1]] * 3:
        ours[:] = plain[:] = 1.0
        given, other = part(ours), part(plain)
        assert_same(g(given), f(other, plain))
        assert_same((ours, given), (plain, other))


def test_derivatives_in_captured_arrays_do_not_leave():
    w = np.ones(3)
    f = jit(lambda x: gradient(lambda w: float(w[0]) * np.sum(w), w)[0] * x)
    with pytest.warns(RuntimeWarning, match="plain Python"), pytest.raises(tr.ConversionError):
        f(2.0)


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
            calls_agree(f, _uses_a_module, x)
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
    labels = [place.label for place in find_captured_state(derived).sources]
    own = "names in test_captures"  # which module `np` is
    assert labels == ["code of <lambda>", "closure variable w", own, "names in numpy"]


@tr.custom_gradient
def _own_slope(x):
    return np.sin(x), lambda g: (g * scale,)


def _slope_by_rule(x):
    return np.sin(x)


def _slope_by_forward_rule(x):
    return np.sin(x)


def _slope_by_partial(x):
    return np.sin(x)


@tr.rrule(_slope_by_rule)
def _(x):
    return np.sin(x), lambda g: (g * scale,)


@tr.frule(_slope_by_forward_rule)
def _(tangents, x):
    return np.sin(x), tangents[0] * scale


tr.scalar_rule(_slope_by_partial, lambda x: scale)
tr.rrule(math.ulp)(lambda x: (np.spacing(x), lambda g: (g * scale,)))  # of a library
aliased = _slope_by_rule
RULES = {
    "custom_gradient": lambda x: gradient(_own_slope, x)[0],
    "rrule": lambda x: gradient(lambda y: tr.track(_slope_by_rule, y), x)[0],
    "rrule under another name": lambda x: gradient(lambda y: tr.track(aliased, y), x)[0],
    "rrule of a library's function": lambda x: gradient(lambda y: tr.track(math.ulp, y), x)[0],
    "frule": lambda x: tr.jvp(lambda y: tr.track(_slope_by_forward_rule, y), (x,), (1.0,))[1],
    "scalar_rule": lambda x: gradient(lambda y: tr.track(_slope_by_partial, y), x)[0],
}


@pytest.mark.parametrize("name", RULES)
def test_rules_read_state_at_each_call(name, globals_restored):
    f, plain = jit(RULES[name]), RULES[name]
    for change in (2.0, 3.0, 3.0, 4):
        globals()["scale"] = change
        assert f(1.5) == plain(1.5) == change


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

    labels = {place.label for place in find_captured_state(f).sources}
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
