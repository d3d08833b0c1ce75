"""Python decisions that depend on values: each way through is compiled, results stay the plain
ones."""

import cmath
import dataclasses
import inspect
import math
import operator
import warnings

import numpy as np
import pytest
from jit_programs import assert_same
from test_parity import agree, gradients_agree

import tracker as tr
from tracker import gradient, jit
from tracker.jit.runtime.compile_queue import drain

HELD = np.array([0.0, 1.0])


def _branch(x):
    if x > 0:
        return x * 2
    return -x


def test_both_branches_are_kept():
    f = agree(_branch, 1.0, others=[(-3.0,), (2.0,), (-5.0,), (0.0,)])
    info = f.cache_info()
    assert (info.traces, info.signatures, info.slow, info.eager) == (2, 1, 2, 0)
    for x in (4.0, -4.0):
        assert f(x) == _branch(x)
    assert f.cache_info() == info


def test_branches_of_gradients():
    gradients_agree(_branch, 1.0, others=[(-3.0,), (2.0,)])


def test_nested_branches():
    def f(x, y):
        if x > 0:
            if y > x:
                return x * y
            return x - y if y < -1 else x + y
        return np.sum(np.array([1.0, 2.0])) * (y if y > 0 else x)

    points = [(a, b) for a in (1.0, -1.0, 3.0) for b in (2.0, -2.0, 0.5, -0.5)]
    assert agree(f, *points[0], others=points * 2).cache_info().traces == 5


def test_branches_on_arrays():
    def f(x):
        y = x * 2
        if np.any(y > 5):
            y = y / np.max(y)
        if np.all(x < 0):
            return -y
        return y

    x = np.linspace(0.0, 1.0, 50)
    agree(f, x, others=[(x * 5,), (x - 3,), (x,), (x * 6,)])


def test_while_until_small():
    def root(a):
        x, steps = a, 0
        while abs(x * x - a) > 1e-10:
            x = 0.5 * (x + a / x)
            steps += 1
        return x, steps

    agree(root, 2.0, others=[(2.1,), (3.0,), (1.0,), (100.0,), (2.0,)])
    gradients_agree(lambda a: root(a)[0], 2.0, others=[(1.0,), (50.0,)])


def test_branches_inside_loops():
    def f(xs):
        total = 0.0
        for x in xs:
            if x > 0.5:
                continue
            if x < -2:
                break
            total = total + x * x
        else:
            return total
        return -total

    rng = np.random.default_rng(0)
    agree(f, rng.normal(size=4), others=[(rng.normal(size=4) * 2,) for _ in range(8)])


@pytest.mark.parametrize("convert", [int, np.floor, np.ceil, round, bool, hash])
def test_conversions(convert):
    def f(x):
        n = int(convert(x))
        return x * n + 1

    agree(f, 2.7, others=[(2.2,), (-2.7,), (-0.5,), (0.5,), (1.5,), (2.5,), (2.7,)])


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: round(x, 1),
        lambda x: next(iter({x: 1})),
        lambda x: x.hex(),
        lambda x: f"{HELD[0]}",
        lambda x: math.atan2(HELD[0], -1.0),
        lambda x: cmath.sqrt((HELD.astype(complex) * -1)[0]),
    ],
)
def test_guards_distinguish_signed_zeros(ask):
    compiled = jit(ask)
    for x in 0.0, -0.0, 0.0, 2.5, -0.0:
        HELD[0] = x
        for _ in range(2):
            assert str(compiled(x)) == str(ask(x))


def test_ranges():
    agree(lambda x, n: sum(x * i for i in range(n)), 2.0, 3, others=[(1.0, 5), (1.0, 0), (3.0, 3)])
    agree(lambda x, n: sum(x * i for i in range(int(n))), 2.0, 3.5, others=[(1.0, 5.9), (1.0, 0.1)])
    agree(lambda x: [x * i for i in range(int(np.floor(x)))], 2.5, others=[(4.1,), (2.9,)])


def test_lookups():
    table, keyed = [1.0, 10.0, 100.0], {0: "a", 1: "b", 2: "c", 7: "d"}

    def f(x, n):
        return x * table[n % 3], keyed.get(n, "none"), x * n

    agree(f, 2.0, 1, others=[(2.0, 2), (3.0, 7), (3.0, 1), (1.0, 5)])


def test_integers_that_index():
    x = np.linspace(0.0, 1.0, 50)
    agree(lambda x, i: x[i] * x[i:].sum(), x, 3, others=[(x * 2, 7), (x, -1), (x, 0), (x * 3, 3)])


_AXES = {
    "argmin": lambda x, n: np.argmin(x, axis=n),
    "argmax": lambda x, n: x.argmax(n, keepdims=True),
    "count_nonzero": lambda x, n: np.count_nonzero(x > 0, axis=(0, n)),
    "nanargmin": lambda x, n: np.nanargmin(x, axis=n),
    "lexsort": lambda x, n: np.lexsort((x[0], x[1]), axis=n - 1),
    "argpartition": lambda x, n: np.argpartition(x, 0, axis=n).shape,
    "diag": lambda x, n: np.diag(x[0, 0], n),
    "diagflat": lambda x, n: np.diagflat(x[0], -n),
}


@pytest.mark.parametrize("name", _AXES)
@pytest.mark.parametrize("convert", [int, lambda n: np.array([n])[0]])
def test_integers_that_are_axes(name, convert):
    x = np.sin(np.arange(64.0)).reshape(4, 4, 4)
    f = _AXES[name]
    agree(f, x, convert(1), others=[(x * 2, convert(1)), (x, convert(2)), (-x, convert(1))])


def test_integer_arrays_and_masks():
    x = np.linspace(-1.0, 1.0, 50)
    index = np.arange(0, 50, 7)
    agree(lambda x, i: x[i] * 2, x, index, others=[(x * 2, index[::-1].copy())])
    agree(lambda x: x[x > 0] * 2, x, others=[(x * 2,), (x - 0.5,), (x + 5,)])
    gradients_agree(lambda x: np.sum(x[x > 0] ** 2), x, others=[(x - 0.5,)])

    def clipped(x):
        t = x * 1.0
        t[t < 0] = 0.0
        return t

    agree(clipped, x, others=[(x - 0.5,)])


def test_integer_arrays_that_leave():
    agree(lambda n: [int(k) for k in n] + [len(n)], np.arange(3), others=[(np.arange(3) * 2,)])
    agree(
        lambda x, n: x * np.asarray(n).tolist()[1],
        2.0,
        np.arange(3),
        others=[(2.0, np.ones(3, int))],
    )


def test_early_returns_and_exceptions():
    def f(x):
        if x < 0:
            raise ValueError(f"negative: {x < 0}")
        if x == 0:
            return None
        return np.sqrt(x)

    g = jit(f)
    for _ in range(2):
        assert g(4.0) == 2.0
        assert g(0.0) is None
        with pytest.raises(ValueError, match="negative"):
            g(-1.0)
    assert g(9.0) == 3.0


def test_numpy_raises_only_where_the_plain_function_would():
    def f(x, a):
        if np.argmax(x) > 0:
            return np.linalg.inv(a) if np.linalg.matrix_rank(np.eye(2)) else a
        return a * 2

    singular, regular = np.ones((2, 2)), np.array([[2.0, 0.0], [1.0, 1.0]])
    up, down = np.array([0.0, 1.0]), np.array([1.0, 0.0])
    g = jit(lambda x, a: _chosen(x, a))
    for x, a in [(up, regular), (down, singular), (up, regular), (down, singular)]:
        assert_same(g(x, a), _chosen(x, a))
    assert f is not g


def _chosen(x, a):
    order = np.argsort(a[0])
    if np.argmax(x) > 0:
        return a[order]
    return a * 2


def test_after_max_traces_plain_python_runs():
    def f(x):
        n = int(x)
        return x * n

    g = jit(f, max_traces=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (1.5, 2.5, 3.5):
            assert g(x) == f(x)
    line = inspect.getsourcelines(f)[1] + 1
    with pytest.warns(
        RuntimeWarning, match=rf"plain Python.*3 traces.*test_branch_guards\.py:{line}"
    ):
        assert g(4.5) == f(4.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (5.5, 1.5, 9.5):
            assert g(x) == f(x)
    assert g.cache_info().eager == 1
    assert_same(g(np.float64(2.5)), f(np.float64(2.5)))  # another signature is compiled


def test_guards_after_writes():
    def f(x):
        x[0] = 7.0
        if x[1] > 0:
            x[2] = x[0] + x[1]
        return np.sum(x)

    agree(f, np.array([1.0, 2.0, 3.0]), others=[(np.array([1.0, -2.0, 3.0]),)] * 2)


def _matched(x, y):
    match (x > 0, x > y):
        case (True, True):
            return x * 3
        case (True, False):
            return x - y
    return x * y


@pytest.mark.parametrize(
    "f",
    [
        _matched,
        lambda x, y: x if (x > y) is True else y * 2,
        lambda x, y: x if (x > y) is not False else y * 2,
        lambda x, y: x * y if (x > 0) is (y > 0) else -x,
        lambda x, y: x if True is (x == y) else y * 2,
        lambda x, y: x if operator.is_(x > y, True) else y * 2,
        lambda x, y: x if (lambda flag: flag is True)(x > y) else y * 2,
    ],
)
def test_comparisons_of_pythons_numbers_are_true_itself(f):
    others = [(2.0, 1.0), (-1.0, 2.0), (2.0, 2.0), (-1.0, -2.0), (1.0, 2.0)]
    agree(f, 1.0, 2.0, others=others)
    gradients_agree(f, 1.0, 2.0, others=others)


def test_contains_and_comparison_chains():
    def f(x):
        if 2.0 in x:
            return np.max(x)
        return x[0] if 0 < x[0] < 1 else x[1]

    agree(f, np.array([0.5, 4.0]), others=[(np.array([2.0, 4.0]),), (np.array([3.0, 4.0]),)] * 2)


@pytest.mark.parametrize("x", [2.0, 2, np.float32(2), np.array([2.0, 0.0])])
@pytest.mark.parametrize("other", [None, "auto", float, {}, set(), len])
def test_questions_whether_a_number_is_none(x, other):
    def f(x):
        return (x * 2 if np.all(x != other) else x), x == other, other == x, x is other

    agree(f, x, others=[(x * 3,)])
    if np.ndim(x) == 0:
        agree(lambda x: x * 2 if x in (other, 2) else x, x, others=[(x * 3,)])


def test_a_number_of_pythons_is_no_list():
    agree(lambda x: x * 2 if x in ([], (2.0,)) or x == [2.0] else x, 2.0, others=[(3.0,)])


def test_each_trace_has_a_cause():
    def f(x, n=1.0):
        if np.sum(x) > 0:
            return x * n
        return -x

    g = jit(f)
    g(np.ones(3)), g(-np.ones(3)), g(np.ones(4)), g(np.ones(3), 2)
    line = inspect.getsourcelines(f)[1] + 1
    text = g.explain(np.ones(3))
    assert "trace 1: the first call" in text
    assert f"trace 2: bool is False, not True, at {__file__}:{line}" in text
    assert "trace 1: argument 0 is float64[4], not float64[3]" in g.explain(np.ones(4))
    assert "argument 1 is there" in g.explain(np.ones(3), 2)


def test_a_global_is_named_as_the_cause():
    n, how = 1.0, "sum"

    def f(x):
        return getattr(np, how)(x) * n

    g = jit(f, max_traces=2)
    g(1.0)
    n = 2.0
    g(1.0)
    assert "trace 2: closure variable n is 2.0, not 1.0" in g.explain(1.0)
    how = "mean"
    with pytest.warns(RuntimeWarning, match=r"2 traces already .*closure variable n is 2\.0"):
        assert g(1.0) == 2.0


def test_a_number_that_was_left_to_python_is_named_as_the_cause():
    held = {"n": 0}

    def f(x):
        held["n"] += 1
        return x * float(held["n"])

    g = jit(f, max_traces=3)
    with pytest.warns(RuntimeWarning, match=r"3 traces already .*a number is \d, not \d, at .*:\d"):
        for k in range(1, 9):
            assert g(1.0) == k
    assert "another way through" not in g.explain(1.0)


def test_plain_numbers_of_an_array_that_is_another_at_each_call_end_with_a_warning():
    state = {"p": np.eye(2)}

    def f(x):
        plain = np.array(state["p"] * 2.0)
        state["p"] = state["p"] * 0.5
        return plain @ x

    def follow(g):
        state["p"] = np.eye(2)
        return [g(np.ones(2)) for _ in range(8)]

    want, g = follow(f), jit(f, max_traces=3)
    with pytest.warns(RuntimeWarning, match=r"3 traces.*an array, of which.*test_branch_guards.py"):
        assert_same(follow(g), want)
    assert g.cache_info().eager == 1


# What a call does besides ------------------------------------------------------------------------


def test_a_function_that_cannot_be_traced_runs_once():
    log = []

    def f(x, out):
        log.append("in")
        out[0] = x * 2
        y = np.float64(float(x))  # leaves NumPy
        out[1] = y
        log.append("out")
        return y * 3, out

    g = jit(f)
    out = np.zeros(2)
    with pytest.warns(RuntimeWarning, match=rf"plain Python.*float\(t\).*{__file__}"):
        y, same = g(2.0, out)
    assert log == ["in", "out"] and y == 6.0 and same is out and out.tolist() == [4.0, 2.0]
    assert g(3.0, out)[0] == 9.0 and log == ["in", "out"] * 2


def test_plain_buffers_run_once():
    runs = []

    def f(x):
        runs.append(1)
        out = np.zeros(3)
        for i in range(3):
            out[i] = x[i] * 2
        return out

    g = jit(f)
    with pytest.warns(RuntimeWarning, match="plain Python"):
        assert_same(g(np.arange(3.0)), np.arange(3.0) * 2)
    assert len(runs) == 1


def test_refusals_still_keep_gradients():
    def f(x):
        return float(x) * x

    with pytest.raises(tr.ConversionError), pytest.warns(RuntimeWarning):
        gradient(jit(f), 2.0)
    with pytest.raises(tr.ConversionError), pytest.warns(RuntimeWarning):
        jit(lambda x: gradient(f, x))(2.0)
    p = tr.param(2.0)
    with pytest.raises(tr.ConversionError):
        jit(lambda x: x * float(p * 2))(1.0)


def test_functions_without_a_rule_run_once():
    runs = []

    def f(x):
        runs.append(1)
        return x.tobytes()

    g, x = jit(f), np.arange(5.0)
    want = f(x)
    runs.clear()
    with pytest.warns(RuntimeWarning, match="plain Python.*tobytes"):
        assert g(x) == want
    assert len(runs) == 1


def test_containers_that_a_function_changes():
    @dataclasses.dataclass
    class State:
        w: np.ndarray
        n: int = 0

    def f(params, state, log):
        params["w"] = params["w"] - 0.5 * params["g"]
        params["new"] = [params["g"]]
        state.w = state.w * 2
        state.n += 1
        log.append(np.sum(params["w"]))
        log[0], log[1] = log[1], log[0]
        return params["w"]

    def given():
        g = np.ones(3)
        return {"w": np.arange(3.0), "g": g}, State(np.ones(2)), [1.0, g]

    g = jit(f)
    for _ in range(5):
        plain, jitted = given(), given()
        assert_same(g(*jitted), f(*plain))
        assert_same(jitted[0], plain[0])
        assert_same((jitted[1].w, jitted[1].n), (plain[1].w, plain[1].n))
        assert_same(jitted[2], plain[2])
        assert jitted[0]["new"][0] is jitted[0]["g"] is jitted[2][0]
    assert g.cache_info().slow == 1


def test_what_was_done_before_an_exception_stays():
    def f(x, log):
        log.append(1.0)
        x += 1.0
        if x[0] > 1:
            raise KeyError("big")
        return x

    g = jit(f)
    for start in (0.0, 5.0, 0.0, 5.0):
        x, log = np.full(3, start), []
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                g(x, log)
        except KeyError:
            assert start == 5.0
        assert log == [1.0] and x[0] == start + 1.0


def test_disk_cache_can_be_chosen_per_function(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKER_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRACKER_CACHE", "1")
    jit(lambda x: np.sin(x) * 2.0, cache=False)(np.ones(50))
    drain()
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("TRACKER_CACHE", "0")
    jit(lambda x: np.sin(x) * 3.0)(np.ones(50))
    drain()
    assert not list(tmp_path.iterdir())
    jit(lambda x: np.sin(x) * 4.0, cache=True)(np.ones(50))
    drain()
    assert list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", [np.float16, np.longdouble])
def test_guards_on_numbers_that_machine_code_has_not(dtype):
    def f(x):
        narrow = np.sum(x.astype(dtype))
        if narrow > 5:
            return x * 2.0
        return x * int(narrow) + (1.0 if narrow else 2.0)

    fast = jit(f)
    for n in (3, 3, 4, 7, 3, 7):
        np.testing.assert_array_equal(fast(np.ones(n)), f(np.ones(n)))
    assert "guard: " in fast.explain(np.ones(3))
    for x in (np.zeros(3), np.ones(3), np.ones(3) * 1.5):
        for _ in range(2):
            np.testing.assert_array_equal(fast(x), f(x))


def test_a_guard_on_an_argument_that_machine_code_has_not():
    fast = jit(lambda x, n: x * int(n))
    for n in (2, 3, 2):
        assert fast(np.ones(2), np.float16(n)).tolist() == [n, n]
