"""Re-rolled loops that read and write slices of arrays, and what they carry."""

import numpy as np
import pytest
from compare import agree, loops, optimised, strided
from ir_programs import evaluate

import tracker
import tracker.numpy as tnp
from tracker.ir.passes.loops.slice_forwarding import reread_slices
from tracker.ir.text import parse

RNG = np.random.default_rng(0)
X = RNG.standard_normal(40)


def test_arrays_that_are_only_added_to_are_not_carried(eager_to_roll):
    gradient = optimised(lambda x: tracker.gradient(strided, x), X)
    bodies = [e.params["body"] for e in gradient.eqns if e.op.name == "loop"]
    assert bodies and all(not var.type.shape for body in bodies for var in body.inputs)


def test_a_slice_that_every_step_updates_is_carried_in_its_array():
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


def test_each_reader_reads_its_slice_of_a_written_array():
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
    after = reread_slices(before)
    assert [eqn.op.name for eqn in after.eqns] == [
        *("put", "getitem", "getitem", "multiply", "getitem", "add", "put", "add", "add")
    ]
    for have, want in zip(evaluate(after, [X, -X]), evaluate(before, [X, -X]), strict=True):
        np.testing.assert_array_equal(have, want)


def test_a_slice_of_a_slice_is_read_after_it():
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


def convolved(x, w, activate=lambda x: x):
    out = tnp.zeros((x.shape[0] - 1, x.shape[1] - 2, 9))
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = np.sum(activate(x[i : i + 2, j : j + 3, None] * w), axis=(0, 1))
    return out


def activated(x, w):
    """No sum of products, which would be a matrix product without a loop."""
    return convolved(x, w, np.tanh)


def test_sliding_slices_are_rows(eager_to_roll):
    x, w = RNG.standard_normal((14, 15)), RNG.standard_normal((2, 3, 9))
    found = optimised(activated, x, w)
    assert loops(found)
    assert not any(eqn.op.name == "put" and eqn.out.type.size < 99 for eqn in found.eqns)
    agree(lambda x, w: np.sum(activated(x, w) ** 2), x, w)


def test_constant_updates_are_deferred(eager_to_roll):
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


def test_a_loop_reads_stacks_of_one_earlier_loop(eager_to_roll):
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


def test_deferred_updates_leave_rows_equal_for_an_outer_loop(eager_to_roll):
    """What is only written in an inner loop is put where that ends, so the rows are alike."""
    x, w = RNG.standard_normal((24, 15)), RNG.standard_normal((2, 3, 9))
    found = optimised(activated, x, w)
    assert any(body.functions for body in found.functions.values())
    agree(lambda x, w: np.sum(activated(x, w) ** 2), x, w)


def test_a_constant_that_is_embedded_at_each_step_is_not_stacked(eager_to_roll):
    def f(x, c):
        total = 0 * x
        for i in range(24):
            slope = tracker.gradient(lambda x, i=i: np.sum(x[i] * c), x)[0]
            total = total + slope * slope * x
        return total

    x, c = RNG.standard_normal((24, 20)), np.arange(20.0)
    optimised(f, x, c)
    agree(lambda x, c: np.sum(f(x, c)), x, c)


def test_rows_of_slices_alone_may_be_joined():
    """Their loop has no steps of its own. The pullback of the products joins them."""

    def f(x, w):
        h, states = np.zeros(4), []
        for row in [*x]:
            h = np.tanh(row @ w + h * 0.5)
            states.append(h)
        return np.sum(np.stack(states) ** 2)

    agree(f, RNG.standard_normal((450, 4)), RNG.standard_normal((4, 4)) * 0.1)


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


def test_slices_that_no_later_step_updates_may_be_read_late(eager_to_roll):
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
def test_slices_that_later_steps_update_are_read_as_they_were(late, eager_to_roll):
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
def test_updates_that_move_differently(f, eager_to_roll):
    v = RNG.standard_normal((40, 3))
    found = optimised(f, v)
    assert f is not distances or loops(found)
    agree(lambda v: np.sum(f(v) * np.cos(np.arange(f(v).size)).reshape(f(v).shape)), v)
