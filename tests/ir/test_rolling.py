"""Repetition in traces becomes loops: which, with what in them, and with the same results."""

import numpy as np
import pytest
from counting import lines_run
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_programs import evaluate

import tracker
import tracker.numpy as tnp
from tracker.ir import periods, repeats
from tracker.ir.repeats import Run, find_runs
from tracker.ir.rereading import reread
from tracker.ir.rolling import roll
from tracker.ir.text import parse
from tracker.jit import pipeline

RNG = np.random.default_rng(0)
X = RNG.standard_normal(40)
W = RNG.standard_normal((6, 6)) * 0.4
ROWS = RNG.standard_normal((40, 6))


def optimised(f, *args):
    """The IR of a function after all passes."""
    return pipeline.optimise(tracker.trace(f, *args))


def loops(function):
    """(steps, carries, results that are stacked, reverse) of each loop."""
    return [
        (e.params["length"], e.params["carries"], len(e.out.type.parts) - e.params["carries"],
         e.params["reverse"])
        for e in function.eqns
        if e.op.name == "loop"
    ]  # fmt: skip


@pytest.fixture
def eager_to_roll(monkeypatch):
    """Short programs are rolled, too."""
    monkeypatch.setattr(repeats, "SHORT", 10)
    monkeypatch.setattr(repeats, "PAYS", 10)
    monkeypatch.setattr(periods, "PAYS", 10)
    monkeypatch.setattr(periods, "_IN_REGISTERS", 1)


# Where it repeats itself --------------------------------------------------------------------------


def runs_of(f, *args):
    return find_runs(tracker.trace(f, *args).body, lambda eqn: True)


def test_a_run_begins_with_the_first_step_that_is_alike():
    def f(x):
        y = np.exp(x)
        for _ in range(60):
            y = np.sin(y) * x + 1.0
        return np.cos(y)

    assert runs_of(f, 0.3) == [Run(1, 3, 60)]


def test_steps_of_other_types_params_or_literals_are_not_alike():
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


def test_finding_is_linear():
    assert comparisons(4000) < 2.5 * comparisons(2000)


# What becomes of it -------------------------------------------------------------------------------

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


def agree(f, *args, rtol=1e-11):
    """The same values and gradients, compiled and eagerly."""
    fast = tracker.jit(lambda *a: tracker.withgradient(f, *a))
    for given_ in (args, [np.multiply(a, 0.75) for a in args]):
        (value, grads), (expected, wanted) = fast(*given_), tracker.withgradient(f, *given_)
        for got, want in zip([value, *grads], [expected, *wanted], strict=True):
            np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)
            assert np.result_type(got) == np.result_type(want)


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


def strided(x):
    total = 0.0
    for k in range(38, 2, -2):
        total = total + (x[k] - 2 * x[k - 1] + x[k + 1]) ** 2 * np.cos(total)
    return total


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


def test_the_steps_of_a_pullback_read_what_the_steps_left(eager_to_roll):
    gradient = optimised(lambda x, y: tracker.gradient(carried, x, y), 0.3, 0.2)
    assert [(n, reverse) for n, _, _, reverse in loops(gradient)] == [(99, False), (97, True)]


def test_arrays_that_are_only_added_to_are_no_carries(eager_to_roll):
    gradient = optimised(lambda x: tracker.gradient(strided, x), X)
    bodies = [e.params["body"] for e in gradient.eqns if e.op.name == "loop"]
    assert bodies and all(not var.type.shape for body in bodies for var in body.inputs)


def test_a_part_that_every_step_updates_is_handed_on_in_its_array():
    """The step reads what the one before wrote from the array, which is the one carry of each."""

    def f(x, y):
        x, y = x.copy(), y.copy()
        for _ in range(60):
            y[1:] -= 0.5 * (x[1:] - x[:-1])
            x[:-1] -= 0.7 * (y[1:] - y[:-1])
        return x, y

    rows = RNG.standard_normal((12, 10))
    found = loops(optimised(f, rows, rows * 2.0))
    assert [carries for _, carries, _, _ in found] == [2]
    for have, want in zip(tracker.jit(f)(rows, rows * 2.0), f(rows, rows * 2.0), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-12)


def test_every_reader_takes_its_part_of_what_is_written():
    """But not where the array would have to be kept for it."""
    text = """
    function f(u: f64[40], v: f64[40]) {
      x: f64[40] = put u 1.0 {index=(1,)}
      a: f64[35] = getitem x {index=(slice(0, 35, 1),)}
      b: f64[35] = getitem v {index=(slice(2, 37, 1),)}
      c: f64[35] = multiply b a
      d: f64[35] = add c a
      y: f64[40] = put x b {index=(slice(1, 36, 1),)}
      e: f64[35] = add d a
      f: f64[35] = add e b
      return (f, y)
    }
    """
    before = parse(text)
    after = reread(before)
    assert [eqn.op.name for eqn in after.eqns] == [
        *("put", "getitem", "getitem", "multiply", "getitem", "add", "put", "add", "add")
    ]
    for have, want in zip(evaluate(after, [X, -X]), evaluate(before, [X, -X]), strict=True):
        np.testing.assert_array_equal(have, want)


def test_a_part_of_a_part_is_taken_after_it():
    """A view that is written into is a part of its array, and what is read of it another."""

    def f(x, y):
        x = x.copy()
        back = x[::-1]
        for i in range(56, 2, -1):
            back[i] = 0.5 * (y[i] + back[i + 1]) - 0.1 * back[i + 1]
        return x

    x, y = RNG.standard_normal((60, 40)), RNG.standard_normal((60, 40))
    (found,) = evaluate(optimised(f, x, y), [x, y])
    np.testing.assert_allclose(found, f(x, y), rtol=1e-12)


def convolved(x, w):
    out = tnp.zeros((x.shape[0] - 1, x.shape[1] - 2, 9))
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = np.sum(x[i : i + 2, j : j + 3, None] * w, axis=(0, 1))
    return out


def test_windows_that_slide_over_an_array_are_rows(eager_to_roll):
    x, w = RNG.standard_normal((14, 15)), RNG.standard_normal((2, 3, 9))
    found = optimised(convolved, x, w)
    assert loops(found)
    assert not any(eqn.op.name == "put" and eqn.out.type.size < 99 for eqn in found.eqns)
    agree(lambda x, w: np.sum(convolved(x, w) ** 2), x, w)


def test_pieces_that_are_the_same_in_every_step_are_put_after_the_loop(eager_to_roll):
    """As the pullback of a plain sum has them, or an array that is filled with a constant."""
    x, w = RNG.standard_normal((14, 15)), RNG.standard_normal((2, 3, 9))
    both = optimised(lambda *a: tracker.gradient(lambda x, w: np.sum(convolved(x, w)), *a), x, w)
    assert len(both.body) < 300
    agree(lambda x, w: np.sum(convolved(x, w)), x, w)

    def filled(x):
        out = x.copy()
        for i in range(30):
            out[i + 2] = 0.25
        return np.sum(out * x)

    assert not any(eqn.op.name in ("loop", "embed") for eqn in optimised(filled, X).eqns)
    agree(filled, X)


def test_loops_begin_where_all_that_they_read_is_of_one_loop(eager_to_roll):
    """A second loop goes down the columns that the first one read, but for the last one: as rows of
    what that left, not as numbers that are handed on."""

    def filtered(x, k):
        up, down = np.empty_like(x), np.empty_like(x)
        up[:, 0] = k * x[:, 0]
        up[:, 1] = k * x[:, 1] + 0.3 * x[:, 0] + 0.2 * up[:, 0]
        for j in range(2, 30):
            up[:, j] = k * x[:, j] + 0.3 * x[:, j - 1] + 0.2 * up[:, j - 1] + 0.1 * up[:, j - 2]
        down[:, -1] = 0.0
        down[:, -2] = 0.4 * x[:, -1]
        for j in range(27, -1, -1):
            down[:, j] = 0.4 * x[:, j + 1] + 0.6 * x[:, j + 2] + 0.2 * down[:, j + 1]
            down[:, j] += 0.1 * down[:, j + 2]
        return np.sum((up + down) ** 2)

    x = RNG.standard_normal((18, 30))
    assert [carries for _, carries, _, _ in loops(optimised(filtered, x, 0.3))] == [3, 2]
    agree(filtered, x, 0.3)


def test_rows_of_loops_are_loops_of_loops(eager_to_roll):
    """What is only written in an inner loop is put where that ends, so the rows are alike."""
    x, w = RNG.standard_normal((24, 15)), RNG.standard_normal((2, 3, 9))
    found = optimised(convolved, x, w)
    assert any(body.functions for body in found.functions.values())
    agree(lambda x, w: np.sum(convolved(x, w) ** 2), x, w)


def test_a_constant_that_is_embedded_at_each_step_is_no_row_of_it(eager_to_roll):
    def f(x, c):
        total = 0 * x
        for i in range(24):
            slope = tracker.gradient(lambda x, i=i: np.sum(x[i] * c), x)[0]
            total = total + slope * slope * x
        return total

    x, c = RNG.standard_normal((24, 20)), np.arange(20.0)
    optimised(f, x, c)
    agree(lambda x, c: np.sum(f(x, c)), x, c)


def _of_itself(x):
    y = x.copy()
    return y, y, y


def _turned(x):
    y = x.copy()
    return y, y[::-1], y[::-1]


def _shifted(x):
    y = x.copy()
    return y, y[1:], np.concatenate([y[:1], y[1:] * 0.5])


def _columns(x):
    y = x.reshape(-1, 3).copy()
    return y, y[:, 1], y[:, 1]


@pytest.mark.parametrize("views", [_of_itself, _turned, _shifted, _columns])
def test_writes_through_views_are_loops_in_both_directions(views, eager_to_roll):
    def f(x):
        whole, z, before = views(x)
        for i in range(1, len(z)):
            z[i] = np.tanh(before[i - 1]) * 0.5 + z[i]
        return np.sum(whole * whole)

    x = RNG.standard_normal(300)
    gradient = optimised(lambda x: tracker.gradient(f, x), x)
    assert [n > 50 for n, _, _, _ in loops(gradient)] == [True, True]
    agree(f, x)


def test_parts_that_no_later_step_writes_may_be_read_late(eager_to_roll):
    """Of the row above, which is complete but for its last element where it is read."""

    def f(x):
        y = np.reshape(x, (9, 60)) * 1.0
        for i in range(1, 9):
            y[i, 1:-1] += y[i - 1, :-2] * y[i - 1, 2:]
            for j in range(1, 59):
                y[i, j] = (y[i, j] + y[i, j - 1]) / 3.0
        return np.sum(y * y)

    x = RNG.standard_normal(540)
    assert len(loops(optimised(f, x))) == 8
    assert len(loops(optimised(lambda x: tracker.gradient(f, x), x))) == 16
    agree(f, x)


@pytest.mark.parametrize("late", range(6))
def test_parts_that_later_steps_write_are_read_as_they_were(late, eager_to_roll):
    def f(x):
        y, seen = x.copy(), 0.0
        for i in range(1, 120):
            y[i] = np.sin(y[i - 1]) + y[i]
            if i == 119 - late:
                seen = y[110:118] * 1.0
        return np.sum(y * y) + np.sum(seen * y[:8])

    agree(f, RNG.standard_normal(120))


def distances(v):
    n = len(v)
    r = tnp.zeros((n, n))
    for i in range(n):
        for j in range(i, n):
            r[i, j] = r[j, i] = np.sqrt(np.sum((v[i] - v[j]) ** 2) + 0.1)
    return r


def crossing(v):
    """Each place of the lower half is written twice, by one of two writes first."""
    r = tnp.zeros((6, 300))
    for j in range(150):
        r[2, j] = np.sin(v[j % 40, 0]) * j
        r[2, 100 - j] = np.cos(v[j % 40, 1]) + j
    return r


def following(v):
    """Each place is written twice, by the second write first where it runs ahead."""
    r = tnp.zeros((6, 300))
    for j in range(150):
        r[2, j] = np.sin(v[j % 40, 0]) * j
        r[2, j + 7] = np.cos(v[j % 40, 1]) + j
        r[j % 2, 299 - j] = 1.0
    return r


@pytest.mark.parametrize("f", [distances, crossing, following])
def test_writes_that_move_apart(f, eager_to_roll):
    v = RNG.standard_normal((40, 3))
    found = optimised(f, v)
    assert f is not distances or loops(found)
    agree(lambda v: np.sum(f(v) * np.cos(np.arange(f(v).size)).reshape(f(v).shape)), v)


def test_short_rows_of_a_long_run_are_loops():
    """A table of 30 x 20 that is filled in two loops: each row is shorter than a loop that pays."""

    def f(x, w):
        out = tnp.zeros((30, 20, 18))
        for i in range(30):
            for j in range(20):
                out[i, j] = np.sin(x[i, j] * w)
        return np.sum(out**2)

    x, w = RNG.standard_normal((30, 20)), RNG.standard_normal(18)
    assert loops(optimised(f, x, w))
    agree(f, x, w)


def test_short_programs_stay_as_they_are():
    assert loops(optimised(reading, X)) == []


def test_arrays_that_fit_into_registers_stay_there():
    def steps(x):
        for _ in range(200):
            x = np.sin(x) * 1.1 + 0.1
        return x

    assert loops(optimised(steps, X[:3])) == []
    assert loops(optimised(steps, X)) == [(200, 1, 0, False)]
    many = np.linspace(0.1, 0.2, 11)  # 600 equations, of more elements together than there is room
    assert loops(optimised(lambda x: (steps(x), steps(x * 2)), many)) == [(200, 1, 0, False)] * 2


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


@settings(deadline=None, max_examples=max(settings.default.max_examples, 40))
@given(programs(), st.integers(0, 100))
def test_any_loop(f, seed):
    rng = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        for where in (repeats, periods):
            patch.setattr(where, "PAYS", 10)
        patch.setattr(repeats, "SHORT", 10)
        patch.setattr(periods, "_IN_REGISTERS", 1)
        agree(f, rng.uniform(-1, 1, 40), rng.uniform(-1, 1, (40, 3)))
