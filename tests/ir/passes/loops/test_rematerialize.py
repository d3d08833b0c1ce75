"""Rematerialisation: which results a loop stacks for its pullback, with equal gradients."""

import numpy as np
import pytest
from compare import agree
from counting import lines_run
from hypothesis import given, settings
from hypothesis import strategies as st

import tracker
from tracker.ir.lowering import Loop
from tracker.ir.passes.dead_code import dead_code
from tracker.ir.passes.loops import rematerialize as residuals_file
from tracker.ir.passes.loops.rematerialize import rematerialize
from tracker.ir.passes.manager import run
from tracker.ir.text import parse
from tracker.jit.pipeline import pass_order

N = 50
RNG = np.random.default_rng(0)
V, C = RNG.uniform(0.2, 1.0, (2, N))
ROWS = RNG.standard_normal((30, N)) * 0.1


pytestmark = pytest.mark.usefixtures("eager_to_roll")


def stacks(f, *args):
    """How many arrays a step of each loop leaves for others, carries not counted."""
    function = pass_order.optimise(tracker.trace(lambda *a: tracker.gradient(f, *a), *args))
    return [
        len(eqn.out.type.parts) - eqn.params["carries"]
        for eqn in function.eqns
        if isinstance(eqn.op.lower, Loop)
    ]


def logistic(v, c):
    for _ in range(30):
        kept = np.maximum(v, 0.1)
        v = v + 0.1 * kept * (c - kept)
    return np.sum(v)


def neighbours(v, c):
    for _ in range(30):
        w = np.sin(v) + c
        v = v + np.concatenate([0.1 * np.maximum(w[1:], w[:-1]), v[:1]])
    return np.sum(v)


def of_rows(v, rows):
    for row in rows:
        v = np.sin(v * (2.0 * row + 1.0))
    return np.sum(v)


def doubled(v, c):
    for _ in range(30):
        e = np.exp(-v)
        v = 0.5 * e * (c + e) + 0.1 * v
    return np.sum(v)


@pytest.mark.parametrize(
    "f, args, forward",
    [
        (logistic, (V, C), 1),  # v; not the maximum, nor the difference
        (neighbours, (V, C), 2),  # v and its sine's sum; not two slices of it
        (of_rows, (V, ROWS), 1),  # v; not its product with a row, which is there
        (doubled, (V, C), 1),  # the exponential; not its sum with c
    ],
)
def test_number_of_stacks_of_the_forward_loop(f, args, forward):
    assert stacks(f, *args)[0] == forward
    agree(f, *args)


def test_without_the_pass_more_is_stacked(monkeypatch):
    monkeypatch.setattr(
        pass_order, "PASSES", tuple(each for each in pass_order.PASSES if each is not rematerialize)
    )
    assert [stacks(f, V, C)[0] for f in (logistic, neighbours, doubled)] == [3, 3, 3]


TEXT = """
function f(x: f64[5], a: f64[5,40], c: f64[40]) {
  function step(c: f64[40], v: f64[40], r: f64[40]) {
    d: f64[40] = sin v
    e: f64[40] = add d c
    g: f64[40] = multiply e r
    return (d, e, g, d)
  }
  function back(t: f64[40], e: f64[40], g: f64[40]) {
    u: f64[40] = multiply t e
    w: f64[40] = add u g
    return (w)
  }
  l: (f64[40], f64[5,40], f64[5,40], f64[5,40]) = loop 5 c c a {body=@step, consts=1, carries=1, length=5, reverse=False, keep=()}
  p: f64[5,40] = pick l {at=1}
  q: f64[5,40] = pick l {at=2}
  s: f64[5,40] = pick l {at=3}
  %s
  m: (f64[40]) = loop 4 z %s {body=@back, consts=0, carries=1, length=4, reverse=True, keep=()}
  o: f64[40] = pick m {at=0}
  %s
}
"""  # noqa: E501
CUT = """p0: f64[4,40] = getitem p {index=(slice(0, 4, 1), slice(0, 40, 1))}
  q0: f64[4,40] = getitem q {index=(slice(0, 4, 1), slice(0, 40, 1))}
  y: f64[40] = getitem p {index=(4, slice(0, 40, 1))}
  z: f64[40] = multiply y c"""


def after(*parts):
    return run(parse(TEXT % parts), [rematerialize, dead_code], check=True)


def results(function):
    first = next(eqn for eqn in function.eqns if eqn.op.name == "loop")
    return len(first.out.type.parts)


def test_loops_and_single_rows_derive_results():
    assert results(after(CUT, "p0 q0", "return (o, s)")) == 2  # the carry, and the sine


def test_stacks_with_other_readers_stay():
    assert results(after(CUT, "p0 q0", "return (o, s, q)")) == 3
    assert results(after(CUT, "p0 q0", "h: f64[5,40] = exp p\n  return (o, s, h)")) == 3


def test_results_that_need_two_more_values_stay():
    assert results(after(CUT.replace("getitem q", "getitem s"), "p0 q0", "return (o)")) == 2


def test_an_empty_index_reads_no_row():
    """An empty index, which `simplify` would have removed."""
    parts = (
        CUT + "\n  e: f64[] = sum y {axis=(0,), keepdims=False}\n  h: f64[] = getitem e {index=()}"
    )
    assert results(after(parts, "p0 q0", "return (o, s, h)")) == 2


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["sum", "product", "maximum", "root", "exp", "shift", "row", "past"]),
            st.integers(0, 3),
            st.integers(0, 3),
        ),
        min_size=2,
        max_size=7,
    )
)
def test_any_step(steps):
    def f(v, rows):
        w = v[::-1]
        for row in rows:
            made = [v, w, v * 0.5, w]
            for kind, i, j in steps:
                a, b = made[-1 - i], made[-1 - j]
                if kind == "sum":
                    a = a + 0.3 * b
                elif kind == "product":
                    a = a * b * 0.5
                elif kind == "maximum":
                    a = np.maximum(a, b - 0.1)
                elif kind == "root":
                    a = np.sqrt(a * a + 1.0) / (b * b + 2.0)
                elif kind == "exp":
                    a = np.exp(-a * a) * b
                elif kind == "shift":
                    a = np.concatenate([a[3:], b[:3]])
                elif kind == "row":
                    a = a * (row + 0.5)
                else:
                    w = a * 0.9
                made.append(a)
            v = np.tanh(made[-1]) + 0.1 * v
        return np.sum(v * w)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(residuals_file, "_MIN_SIZE", 1)
        agree(f, V[:12], ROWS[:9, :12])


def cost(n):
    """Lines run for a loop of n sums, each of which a later loop reads."""
    body = "\n".join(f"v{k + 1}: f64[40] = sin v{k}\nw{k}: f64[40] = add v{k} c" for k in range(n))
    names, parts = ", ".join(f"w{k}" for k in range(n)), ", f64[5,40]" * n
    read = ", ".join(f"r{k}: f64[40]" for k in range(n))
    lines = [
        "function f(c: f64[40]) {",
        f"function step(c: f64[40], v0: f64[40]) {{\n{body}\nreturn (v{n}, {names})\n}}",
        f"function back(t: f64[40], {read}) {{\nreturn (t)\n}}",
        f"l: (f64[40]{parts}) = loop 5 c c {{body=@step, consts=1, carries=1, length=5,"
        " reverse=False, keep=()}",
        *(f"p{k}: f64[5,40] = pick l {{at={k + 1}}}" for k in range(n)),
        f"m: (f64[40]) = loop 5 c {' '.join(f'p{k}' for k in range(n))} {{body=@back, consts=0,"
        " carries=1, length=5, reverse=True, keep=()}",
        "o: f64[40] = pick m {at=0}",
        "return (o)\n}",
    ]
    function = parse("\n".join(lines))
    return lines_run(lambda: rematerialize(function))


def test_derivations_take_linear_time():
    assert cost(200) < 2.5 * cost(100)
