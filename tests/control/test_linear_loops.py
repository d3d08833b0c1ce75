"""What the pullback of a loop does not read is neither saved nor carried backwards."""

import numpy as np
import pytest

import tracker
from tracker import fori_loop, scan, trace

A = np.arange(64.0).reshape(8, 8) + 1.0
PLACES = np.random.default_rng(0).integers(0, 200, 60)


def _writes_rows_and_columns(a):
    def step(i, a):
        a[:, i] = 0.5 * a[i - 1] + a[0, i]
        return a

    return fori_loop(1, 8, step, a.copy())


def _selects(a):
    def step(i, a):
        a[i] = np.where(np.arange(8) < i, a[i - 1], -a[i] / 3.0)
        return a

    return fori_loop(1, 8, step, a.copy())


def _adds_rows(a):
    return scan(lambda s, row: (s + row[::-1], None), np.zeros(8), a)[0]


def _joins_rows(a):
    return scan(lambda s, row: (np.concatenate([row[:3], s[3:]]), None), np.zeros(8), a)[0]


def _adds_up(a):
    def step(i, a):
        np.add.at(a, np.array([i, 0, 0]), a[i - 1])
        return a

    return fori_loop(1, 8, step, a.copy())


def _multiplies_rows(a):
    return scan(lambda s, row: (s * row, None), np.ones(8), a / 8.0)[0]


LINEAR = [_writes_rows_and_columns, _selects, _adds_rows, _joins_rows, _adds_up]


def _slope(f):
    return lambda a: tracker.gradient(lambda a: np.sum(f(a) ** 2), a)[0]


def _count_floats_of_pullback(f):
    """How many arrays of floats the forward loop saves, and how many the reverse loop takes."""
    forward, backward = [e for e in trace(_slope(f), A).eqns if e.op.name == "loop"]
    saved = forward.out.type.parts[len(forward.params["body"].outputs) :]
    taken = [x.type for x in backward.operands]
    return [sum(t.dtype.kind == "f" for t in types) for types in (saved, taken)]


@pytest.mark.parametrize("f", LINEAR)
def test_pullbacks_of_linear_steps_take_cotangents_alone(f):
    assert _count_floats_of_pullback(f) == [0, 1]


def test_other_pullbacks_take_numbers():
    saved, taken = _count_floats_of_pullback(_multiplies_rows)
    assert saved == 1 and taken == 3


@pytest.mark.parametrize("f", [*LINEAR, _multiplies_rows])
def test_derivatives(f):
    slope = _slope(f)
    compiled, want = tracker.jit(slope), slope(A)
    for _ in range(2):
        np.testing.assert_allclose(compiled(A), want, rtol=1e-12)
    tracker.testing.gradcheck(lambda a: np.sum(f(a) ** 2), A / 8.0)
    (curved,) = tracker.gradient(lambda a: np.sum(slope(a) ** 2), A)
    (same,) = tracker.jit(lambda a: tracker.gradient(lambda a: np.sum(slope(a) ** 2), a))(A)
    np.testing.assert_allclose(same, curved, rtol=1e-9)


def test_an_outer_loop_can_undo_what_an_inner_one_only_moves():
    def f(x):
        a, s = np.zeros(3000), 0.0
        for i in range(40):
            for j in range(60):
                a[PLACES[j]] = a[PLACES[j - 1]] + x[j]
            s = s + a[3] ** 2 * a[PLACES[i]]
        return s

    x = np.linspace(1.0, 2.0, 60)
    compiled = tracker.jit(lambda x: tracker.gradient(f, x)[0])
    np.testing.assert_allclose(compiled(x), tracker.gradient(f, x)[0], rtol=1e-12)
    assert "f64[39,3000]" not in str(compiled.ir(x))
