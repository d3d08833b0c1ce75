"""Re-rolling: which repetition becomes loops, with what operands, and with equal results."""

import numpy as np
import pytest
from compare import agree, loops, optimised, strided
from counting import lines_run
from hypothesis import given, settings
from hypothesis import strategies as st

import tracker
import tracker.numpy as tnp
from tracker.ir.passes import loop_limits
from tracker.ir.passes.loops import recurrences, repeat_detection
from tracker.ir.passes.loops.repeat_detection import Run, find_runs
from tracker.ir.passes.loops.reroll import roll
from tracker.ir.text import parse

RNG = np.random.default_rng(0)
X = RNG.standard_normal(40)
W = RNG.standard_normal((6, 6)) * 0.4
ROWS = RNG.standard_normal((40, 6))


# Repeat detection --------------------------------------------------------------------------------


def runs_of(f, *args):
    return find_runs(tracker.trace(f, *args).body, lambda eqn: True)


def test_a_run_begins_with_the_first_equal_step():
    def f(x):
        y = np.exp(x)
        for _ in range(60):
            y = np.sin(y) * x + 1.0
        return np.cos(y)

    assert runs_of(f, 0.3) == [Run(1, 3, 60)]


def test_steps_with_other_types_params_or_literals_differ():
    def types(x):
        for n in range(1, 90):
            x = x + np.sum(np.zeros(n) + x)
        return x

    def params(x):
        for n in range(90):
            x = np.reshape(x, (1, 2) if n % 3 == 0 else (2, 1)) if n % 2 else np.sum(x) + x
        return x

    def literals(x):
        for n in range(90):
            x = x * 2.0 if n * n % 7 == 1 else x * x
        return x

    assert runs_of(types, np.array(0.3)) == []
    assert runs_of(literals, 0.3) == []
    assert all(run.period % 6 == 0 for run in runs_of(params, np.ones(2)))


def test_an_equation_that_does_not_fit_ends_a_run():
    def f(x):
        for n in range(150):
            x = np.sin(x) * 1.5
            if n == 90:
                x = np.exp(x)
        return x

    function = tracker.trace(f, 0.3)
    assert find_runs(function.body, lambda e: True) == [Run(1, 2, 90)]
    assert find_runs(function.body, lambda e: e.op.name != "multiply") == []


def comparisons(n):
    """Lines of Python that it takes to find the runs of a body of n steps, at its worst: blocks
    that come twice."""
    names = ["sin", "cos", "exp", "tanh"]
    block = [names[i] for i in np.random.default_rng(0).integers(0, 4, n // 2)]
    lines = [f"  v{k + 1}: f64[] = {name} v{k}" for k, name in enumerate([*block, *block])]
    text = "\n".join(["function f(v0: f64[]) {", *lines, f"  return (v{len(lines)})", "}"])
    body = parse(text).body
    return lines_run(lambda: find_runs(body, lambda eqn: True))


def test_run_detection_takes_linear_time():
    assert comparisons(4000) < 2.5 * comparisons(2000)


# Loops -------------------------------------------------------------------------------------------

BEFORE = """
function f(x: float, y: float) {
%s
  return (%s)
}"""


def test_text_before_and_after(eager_to_roll):
    lines, last = [], "x"
    for k in range(8):
        lines += [f"  a{k}: float = sin {last}  # m.py:2", f"  b{k}: float = multiply a{k} y"]
        lines += [f"  c{k}: float = add b{k} {k}.0  # m.py:3"]
        last = f"c{k}"
    function = parse(BEFORE % ("\n".join(lines), f"{last}, a3"))
    done = roll(lambda eqn: True)(function)
    assert str(done) == str(
        parse(
            """
function f(x: float, y: float) {
  function rolled1(a: float, b: float, c: f64[]) {
    d: float = sin b  # m.py:2
    e: float = multiply d a
    f: float = item c  # m.py:2
    g: float = add e f  # m.py:3
    return (g, d)
  }
  a: f64[8] = table {values=(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0), dtype=f64}  # m.py:2
  b: (float, f64[8]) = loop 8 y x a {LOOP, length=8, reverse=False, keep=()}  # m.py:2
  c: float = pick b {at=0}  # m.py:2
  d: f64[8] = pick b {at=1}  # m.py:2
  e: f64[] = getitem d {index=(3,)}  # m.py:2
  f: float = item e  # m.py:2
  return (c, f)
}""".replace("LOOP", "body=@rolled1, consts=1, carries=1")
        )
    )


def carried(x, y):
    for k in range(100):
        y = np.sin(y) * 1.01 + x
        y = y - 0.1 * k
    return y


def reading(x):
    y = 0.5
    for k in range(40):
        y = np.sin(y) * x[k] + x[k] ** 2
    return y


def writing(x):
    out = tnp.zeros((40, 2))
    for k in range(40):
        out[k] = np.tanh(x[k]) * x[:2]
    return tnp.sum(out * out * 1.5)


def columns(x):
    m = tnp.ones((6, 40))
    h = x[:6]
    for k in range(39, -1, -1):
        h = np.tanh(h + x[k])
        m[:, k] = h
    return tnp.sum(m**2)


def network(w, rows):
    h = np.zeros(6)
    total = 0.0
    for t in range(40):
        h = np.tanh(rows[t] @ w + h)
        total = total + np.sum(h * h)
    return total


def two_back(x):
    u = v = x
    for _ in range(60):
        u, v = 2 * u - v + 0.1 * (np.roll(u, 1) - 2 * u + np.roll(u, -1)), u
    return np.sum(u * v)


def around(x):
    total = 0.0
    for i in range(20):
        y = x[i]
        for j in range(30):
            y = np.sin(y) * 1.1 + x[j]
        total = total + y * y
    return total


def python_integers(x):
    k, y = 1, x
    for _ in range(120):
        k = (k * 3 + 1) % 1000
        y = np.sin(y + k)
    return y


def of_other_dtypes(x):
    y, z = np.astype(x, np.float32), x * (1 + 2j)
    for k in range(60):
        y = np.cos(y * np.float32(0.5)) + y
        z = np.where(y > k, z * 0.5, z * (0.9 + 0.1j))
    return np.sum(np.abs(z)) + np.sum(y)


CASES = [
    (carried, (0.3, 0.2), [(99, 1, 0, False)]),
    (reading, (X,), [(38, 1, 0, False)]),
    (strided, (X,), [(17, 2, 0, True)]),
    (writing, (X,), [(38, 0, 1, False)]),
    (columns, (X,), [(39, 1, 1, True)]),
    (network, (W, ROWS), [(39, 2, 0, False)]),
    (two_back, (X,), [(30, 2, 0, False)]),
    (python_integers, (0.3,), [(119, 1, 0, False)]),
    (of_other_dtypes, (X,), [(60, 2, 0, False)]),
]


@pytest.mark.parametrize(("f", "args", "found"), CASES, ids=[case[0].__name__ for case in CASES])
def test_loops(f, args, found, eager_to_roll):
    assert loops(optimised(f, *args)) == found
    agree(f, *args, rtol=1e-5 if f is of_other_dtypes else 1e-11)


def test_loops_in_loops(eager_to_roll):
    function = optimised(around, X)
    (outer,) = [e for e in function.eqns if e.params.get("body") and e.params["body"].functions]
    inner = [e.op.name for e in outer.params["body"].eqns]
    assert inner.count("loop") == 1 and outer.params["length"] > 10
    agree(around, X)


def test_guards_in_loops_hold_in_every_step(eager_to_roll):
    def f(x):
        y = x
        for k in range(60):
            y = y * 1.01 if y > 0.1 * k - 8.0 else y - 1.0
        return y

    fast = tracker.jit(f)
    assert loops(optimised(f, 0.3)) == [(60, 1, 0, False)]
    for x in (0.3, 0.4, -1.5, -3.5, 0.5):  # some go another way, from some step on
        assert fast(x) == f(x)


def test_lines_of_the_loop_are_those_of_the_source(eager_to_roll):
    fast = tracker.jit(carried)
    fast(0.3, 0.2)
    assert "loop" in fast.explain(0.3, 0.2)
    body = optimised(carried, 0.3, 0.2).functions["rolled1"]
    first = carried.__code__.co_firstlineno
    assert {int(e.where.rsplit(":", 1)[1]) - first for e in body.eqns} == {2, 3}


def test_a_pullback_reads_the_stacks_in_reverse(eager_to_roll):
    gradient = optimised(lambda x, y: tracker.gradient(carried, x, y), 0.3, 0.2)
    assert [(n, reverse) for n, _, _, reverse in loops(gradient)] == [(99, False), (97, True)]


def test_short_rows_of_a_long_run_are_loops(monkeypatch):
    """A table of 30 x 20 that is filled in two loops: each row is shorter than a loop that pays."""

    def f(x, w):
        out = tnp.zeros((30, 20, 18))
        for i in range(30):
            for j in range(20):
                out[i, j] = np.sin(x[i, j] * w)
        return np.sum(out**2)

    monkeypatch.setattr("tracker.ir.passes.loops.batch._CACHED_SIZE", 0)
    x, w = RNG.standard_normal((30, 20)), RNG.standard_normal(18)
    assert loops(optimised(f, x, w))
    agree(f, x, w)


def test_short_programs_stay_as_they_are():
    assert loops(optimised(reading, X)) == []


def test_arrays_that_fit_into_registers_stay_unrolled():
    def steps(x):
        for _ in range(200):
            x = np.sin(x) * 1.1 + 0.1
        return x

    assert loops(optimised(steps, X[:3])) == []
    assert loops(optimised(steps, X)) == [(200, 1, 0, False)]
    many = np.linspace(0.1, 0.2, 11)  # 600 equations, of more elements together than there is room
    assert loops(optimised(lambda x: (steps(x), steps(x * 2)), many)) == [(200, 1, 0, False)] * 2


def test_large_arrays_are_rolled_beside_small_ones():
    """The edges of a field are small, and most of each step is not."""

    def field(u):
        total = 0.0
        for _ in range(60):
            left, right = u[-1:], u[:1]
            u = u + 0.1 * np.sin(
                np.concatenate([left, u[:-1]]) - u * np.concatenate([u[1:], right])
            )
            u = np.tanh(u * 1.1) + np.cos(u) * 0.01
            total = total + np.sum(u[3:7] ** 2)
        return total

    assert [steps for steps, *_ in loops(optimised(field, X))] == [58]
    agree(field, X)


# Any program --------------------------------------------------------------------------------------

UNARY = st.sampled_from([np.sin, np.tanh, lambda v: v * 0.9, lambda v: 0.5 - v])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *("carry", "read", "old", "write", "constant", "own", "row", "branch", "window"),
                *("wide", "fill", "same"),
            ]
        ),
        st.integers(0, 3),
        UNARY,
    ),
    min_size=1,
    max_size=5,
)


@st.composite
def programs(draw):
    """A loop that carries two numbers and an array, reads and writes, forwards or backwards."""
    count = draw(st.integers(8, 14))
    stride = draw(st.sampled_from([1, 1, 2, -1, -2]))
    steps = draw(STEPS)
    inner = draw(st.sampled_from([0, 0, 9]))

    def f(x, m):
        places = [4 + abs(stride) * k for k in range(count)][:: 1 if stride > 0 else -1]
        out = tnp.zeros(40)
        y, z, h = x[0], 0.25, m[0]
        for k, i in enumerate(places):
            for kind, n, g in steps:
                if kind == "carry":
                    y, z = g(z) * 0.5 + y * 0.4, y
                elif kind == "read":
                    y = g(y) * 0.9 + x[i - n]
                elif kind == "old":
                    z = g(y + z) * 0.5
                elif kind == "write":
                    out[i - n] = g(y)
                elif kind == "constant":
                    y = g(y * (0.05 * k + n / 4))
                elif kind == "own":
                    out[i + n] = out[i + n - 1] + g(z)
                elif kind == "row":
                    h = g(h + m[i % 40 if n else i // 2]) * np.tanh(y)
                elif kind == "window":
                    y = g(y) * 0.9 + np.sum(x[i - n : i + 2] * x[1])
                elif kind == "fill":
                    out[i - n] = 0.5
                elif kind == "same":
                    out[i : i + n + 1] += x[: n + 1]
                elif kind == "wide":
                    out[i : i + n + 1] += g(y) * x[: n + 1]
                elif z > 4.0 - 0.01 * n:
                    z = g(z) - 4.0
            for j in range(inner):
                z = np.cos(z) * x[j]
        return np.sum(out * x) + y * z + np.sum(h**2)

    return f


@settings(deadline=None, max_examples=2 * settings.default.max_examples)
@given(programs(), st.integers(0, 100))
def test_any_loop(f, seed):
    rng = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        for where in (repeat_detection, recurrences):
            patch.setattr(where, "MIN_STEPS", 10)
        patch.setattr(loop_limits, "MIN_BODY", 10)
        patch.setattr(recurrences, "_MAX_IN_REGISTERS", 1)
        agree(f, rng.uniform(-1, 1, 40), rng.uniform(-1, 1, (40, 3)))
