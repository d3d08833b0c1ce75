"""Python decisions that depend on values: each way through is compiled, results stay the plain
ones."""

import cmath
import dataclasses
import inspect
import math
import operator

import numpy as np
import pytest
from side_by_side import each, program

import tracker as tr
from tracker import gradient, jit
from tracker.jit.runtime.compile_queue import drain

LINE, INDEX = np.linspace(0.0, 1.0, 50), np.arange(0, 50, 7)
SINGULAR, REGULAR = np.ones((2, 2)), np.array([[2.0, 0.0], [1.0, 1.0]])


class Ways:
    @program(1.0, -3.0, 2.0, -5.0, 0.0, traces=2, signatures=1, slow=2, gradients=True)
    def two(x):
        return x * 2 if x > 0 else -x

    @program(*[(a, b) for a in (1.0, -1.0, 3.0) for b in (2.0, -2.0, 0.5, -0.5)], traces=5)
    def nested(x, y):
        if x > 0:
            if y > x:
                return x * y
            return x - y if y < -1 else x + y
        return np.sum(np.array([1.0, 2.0])) * (y if y > 0 else x)

    @program(LINE, LINE * 5, LINE - 3, LINE * 6)
    def by_arrays(x):
        y = x * 2
        if np.any(y > 5):
            y = y / np.max(y)
        return -y if np.all(x < 0) else y

    @program((2.0, 3), (1.0, 5), (1.0, 0), (3.0, 3))
    def a_range(x, n):
        return sum(x * i for i in range(n))

    @program(2.5, 4.1, 2.9)
    def a_rounded_range(x):
        return [x * i for i in range(int(np.floor(x)))]

    @program((LINE, INDEX), (LINE * 2, INDEX[::-1].copy()))
    def an_array_of_indices(x, i):
        return x[i] * 2

    @program(LINE - 0.5, LINE - 1.0, LINE + 4.5)
    def a_mask(x):
        return x[x > 0] * 2

    @program(LINE - 0.5, LINE - 0.7, gradients=True)
    def derivatives_of_a_mask(x):
        return np.sum(x[x > 0] ** 2)

    @program(LINE - 0.5, LINE - 1.0)
    def writes_by_a_mask(x):
        t = x * 1.0
        t[t < 0] = 0.0
        return t

    @program(np.arange(3), np.arange(3) * 2)
    def integers_that_leave(n):
        return [int(k) for k in n] + [len(n)]

    @program((2.0, np.arange(3)), (2.0, np.ones(3, int)))
    def a_list_that_leaves(x, n):
        return x * np.asarray(n).tolist()[1]

    @program(4.0, 0.0, -1.0, 9.0)
    def early_returns_and_exceptions(x):
        if x < 0:
            raise ValueError(f"negative: {x < 0}")
        return None if x == 0 else np.sqrt(x)

    @program(
        *[(np.array([0.0, 1.0]), REGULAR), (np.array([1.0, 0.0]), SINGULAR)],
        *[(np.array([1.0, 0.0]), REGULAR)],
    )
    def errors_of_the_way_that_is_taken_alone(x, a):
        return np.linalg.inv(a) if np.argmax(x) > 0 else a * 2

    @program(np.array([1.0, 2.0, 3.0]), np.array([1.0, -2.0, 3.0]))
    def after_writes(x):
        x[0] = 7.0
        if x[1] > 0:
            x[2] = x[0] + x[1]
        return np.sum(x)

    @program(np.array([0.5, 4.0]), np.array([2.0, 4.0]), np.array([3.0, 4.0]))
    def contains_and_chains(x):
        if 2.0 in x:
            return np.max(x)
        return x[0] if 0 < x[0] < 1 else x[1]

    @program(2.0, 3.0)
    def a_number_among_lists(x):
        return x * 2 if x in ([], (2.0,)) or x == [2.0] else x

    @program((np.ones(2), np.float16(2)), (np.ones(2), np.float16(3)))
    def a_half(x, n):
        return x * int(n)


@each(Ways)
def test_ways(row):
    row.check()


@pytest.mark.parametrize("convert", [int, np.floor, np.ceil, round, bool, hash])
def test_conversions(convert):
    program(2.7, 2.2, -2.7, -0.5, 0.5, 1.5, 2.5)(lambda x: x * int(convert(x)) + 1).check()


HELD = np.array([0.0, 1.0])


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
    x, one, two = np.sin(np.arange(64.0)).reshape(4, 4, 4), convert(1), convert(2)
    program((x, one), (x * 2, one), (x, two), (-x, one))(_AXES[name]).check()


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
    calls = [(1.0, 2.0), (2.0, 1.0), (-1.0, 2.0), (2.0, 2.0), (-1.0, -2.0)]
    program(*calls, gradients=True)(f).check()


@pytest.mark.parametrize("x", [2.0, 2, np.float32(2), np.array([2.0, 0.0])])
@pytest.mark.parametrize("other", [None, "auto", float, {}, set(), len])
def test_questions_whether_a_number_is_none(x, other):
    @program(x, x * 3)
    def asks(x):
        return (x * 2 if np.all(x != other) else x), x == other, other == x, x is other

    asks.check()
    if np.ndim(x) == 0:
        program(x, x * 3)(lambda x: x * 2 if x in (other, 2) else x).check()


@pytest.mark.parametrize("dtype", [np.float16, np.longdouble])
def test_guards_on_numbers_that_machine_code_has_not(dtype):
    calls = [np.ones(3), np.ones(4), np.ones(7), np.zeros(3), np.ones(3) * 1.5]

    @program(*calls)
    def f(x):
        narrow = np.sum(x.astype(dtype))
        return x * 2.0 if narrow > 5 else x * int(narrow) + (1.0 if narrow else 2.0)

    assert "guard: " in f.check().explain(np.ones(3))


# Too many ways, and their causes -----------------------------------------------------------------


def test_after_max_traces_plain_python_runs():
    def f(x):
        return x * int(x)

    g, line = jit(f, max_traces=3), inspect.getsourcelines(f)[1] + 1
    for x in (1.5, 2.5, 3.5):
        assert g(x) == f(x)
    with pytest.warns(
        RuntimeWarning, match=rf"plain Python.*3 traces.*test_branch_guards\.py:{line}"
    ):
        assert g(4.5) == f(4.5)
    for x in (5.5, 1.5, 9.5):
        assert g(x) == f(x)
    assert g.cache_info().eager == 1
    y = g(np.float64(2.5))  # another signature is compiled
    assert y == f(np.float64(2.5)) and type(y) is np.float64


def test_each_trace_has_a_cause():
    def f(x, n=1.0):
        return x * n if np.sum(x) > 0 else -x

    g, line = jit(f), inspect.getsourcelines(f)[1] + 1
    g(np.ones(3)), g(-np.ones(3)), g(np.ones(4)), g(np.ones(3), 2)
    text = g.explain(np.ones(3))
    assert "trace 1: the first call" in text
    assert f"trace 2: bool is False, not True, at {__file__}:{line}" in text
    assert "trace 1: argument 0 is float64[4], not float64[3]" in g.explain(np.ones(4))
    assert "argument 1 is there" in g.explain(np.ones(3), 2)


def test_a_global_is_named_as_the_cause():
    n, how = 1.0, "sum"
    g = jit(lambda x: getattr(np, how)(x) * n, max_traces=2)
    g(1.0)
    n = 2.0
    g(1.0)
    assert "trace 2: closure variable n is 2.0, not 1.0" in g.explain(1.0)
    how = "mean"
    with pytest.warns(RuntimeWarning, match=r"2 traces already .*closure variable n is 2\.0"):
        assert g(1.0) == 2.0


def _counts_in_python(x, s):
    s.n += 1
    return x * float(s.n)


def _makes_text_of_an_array(x, s):
    text = str(s.p * 2.0)
    s.p = s.p * 0.5
    return x * len(text)


def test_a_number_that_was_left_to_python_is_named_as_the_cause():
    why = r"3 traces already .*a number is \d, not \d, at .*:\d"
    row = program(1.0, times=8, state={"n": 0}, warns=why, options={"max_traces": 3})
    assert "another way through" not in row(_counts_in_python).check().explain(1.0)


def test_text_of_an_array_that_is_another_at_each_call_end_with_a_warning():
    why = r"3 traces.*an array, of which.*test_branch_guards.py"
    row = program(
        np.ones(2), times=8, state={"p": np.eye(2)}, warns=why, eager=1, options={"max_traces": 3}
    )
    row(_makes_text_of_an_array).check()


# What a call does besides ------------------------------------------------------------------------


class Plain:
    @program(
        (2.0, np.zeros(2)), (3.0, np.zeros(2)), state={"log": []}, warns=r"float\(t\)", eager=1
    )
    def a_float_that_leaves(x, out, s):
        s.log.append("in")
        out[0] = x * 2
        out[1] = y = np.float64(float(x))
        s.log.append("out")
        return y * 3, out

    @program(np.arange(3.0), state={"runs": 0}, warns="runs in plain Python from now on")
    def a_plain_buffer(x, s):
        s.runs += 1
        out = np.frombuffer(bytearray(24))
        for i in range(3):
            out[i] = x[i] * 2
        return out

    @program(np.arange(5.0), state={"runs": 0}, warns="plain Python.*tobytes")
    def a_function_without_a_rule(x, s):
        s.runs += 1
        return x.tobytes()


@each(Plain)
def test_a_function_that_cannot_be_traced_runs_once(row):
    row.check()


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


@dataclasses.dataclass
class _State:
    w: np.ndarray
    n: int = 0


def _given():
    g = np.ones(3)
    return {"w": np.arange(3.0), "g": g}, _State(np.ones(2)), [1.0, g]


class Left:
    @program(_given, slow=1)
    def in_containers(params, state, log):
        params["w"] = params["w"] - 0.5 * params["g"]
        params["new"] = [params["g"]]
        state.w = state.w * 2
        state.n += 1
        log.append(np.sum(params["w"]))
        log[0], log[1] = log[1], log[0]
        return params["w"]

    @program((np.zeros(3), []), (np.full(3, 5.0), []))
    def before_an_exception(x, log):
        log.append(1.0)
        x += 1.0
        if x[0] > 1:
            raise KeyError("big")
        return x


@each(Left)
def test_what_a_call_leaves_behind(row):
    row.check()


@pytest.mark.parametrize(
    ("setting", "options", "factor", "kept"),
    [("1", {"cache": False}, 2.0, 0), ("0", {}, 3.0, 0), ("0", {"cache": True}, 4.0, 1)],
)
def test_disk_cache_can_be_chosen_per_function(
    setting, options, factor, kept, tmp_path, monkeypatch
):
    jit(lambda x: x + 1.0)(1.0)  # compiles what all functions share
    drain()
    monkeypatch.setenv("TRACKER_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRACKER_CACHE", setting)
    jit(lambda x: np.sin(x) * factor, **options)(np.ones(50))
    drain()
    assert bool(list(tmp_path.iterdir())) == kept
