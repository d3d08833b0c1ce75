"""Dead store elimination: the number of writes that are left, and equal values and gradients."""

import functools

import numpy as np
import pytest
from compare import agree as agree_within
from hypothesis import given, settings
from hypothesis import strategies as st

import tracker
from tracker.ir.passes.common_subexpressions import common_subexpressions
from tracker.ir.passes.dead_code import dead_code
from tracker.ir.passes.dead_stores import eliminate_dead_stores
from tracker.ir.passes.manager import run
from tracker.ir.passes.simplify import simplify

agree = functools.partial(agree_within, rtol=1e-12)
PASSES = [common_subexpressions, simplify, common_subexpressions, dead_code, eliminate_dead_stores]
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((2, 6, 7))


def writes(f, *args):
    """How many writes are left."""
    function = run(tracker.trace(f, *args), [*PASSES, dead_code], check=True)
    return sum(eqn.op.name == "put" for eqn in function.eqns)


def updated_often(x, y):
    x = x.copy()
    for k in range(6):
        x[2, :3] += y[k, :3] * y[k, 3]
    return x


def overwritten_once_read(x, y):
    x = x.copy()
    x[1:] = y[1:]
    total = np.sum(x * x)
    x[1:] = np.sin(y[1:]) * total
    return x


def overwritten_elsewhere(x, y):
    x = x.copy()
    x[1:] = y[1:]
    x[2:] = np.sin(y[2:])
    return x


@pytest.mark.parametrize(
    ("f", "left"), [(updated_often, 1), (overwritten_once_read, 2), (overwritten_elsewhere, 2)]
)
def test_overwritten_stores_are_dead(f, left):
    assert writes(f, X, Y) == left
    agree(lambda x, y: np.sum(f(x, y) * y), X, Y)


def stencil(x, y):
    x, y = x.copy(), y.copy()
    y[1:] -= 0.5 * (x[1:] - x[:-1])
    x[:-1, :-1] -= 0.7 * (y[1:, :-1] - y[:-1, :-1])
    return np.sum(x * y)


def test_the_pullback_of_updates_by_neighbours():
    """The cotangent of what is added to comes back as it was, so that nothing is written."""
    assert writes(lambda x, y: tracker.gradient(stencil, x, y), X, Y) == 2  # those of the stencil
    agree(stencil, X, Y)


def swept(x, y):
    """Seidel's sweep: each element is made of itself and of the one before."""
    x = x.copy()
    for i in range(1, 6):
        for j in range(1, 7):
            x[i, j] += 0.5 * x[i, j - 1]
            x[i, j] /= y[i, j] + 9.0
    return np.sum(x * y)


def test_the_pullback_of_a_sweep_writes_each_element_once():
    found = run(tracker.trace(lambda x, y: tracker.gradient(swept, x, y), X, Y), PASSES)
    names = [
        eqn.op.name for eqn in run(found, [dead_code]).eqns if eqn.out.type == found.inputs[0].type
    ]
    assert names.count("put") <= 2 * 30
    assert names.count("embed") <= 30 + 5  # of y, and at the ends of rows
    agree(swept, X, Y)


def halved(x, y):
    """The same where what comes of an element is made after its cotangent was taken away."""
    x = x.copy()
    for i in range(1, 6):
        for j in range(1, 7):
            x[i, j] = (x[i, j] + x[i, j - 1]) / 3.0
    return np.sum(x * x * y)


def test_a_later_value_replaces_a_cleared_part():
    found = run(tracker.trace(lambda x, y: tracker.gradient(halved, x, y)[0], X, Y), PASSES)
    names = [
        eqn.op.name for eqn in run(found, [dead_code]).eqns if eqn.out.type == found.inputs[0].type
    ]
    assert names.count("put") <= 2 * 30
    assert names.count("embed") <= 5  # at the ends of rows
    agree(halved, X, Y)


def test_a_cleared_cotangent_with_other_readers_stays():
    def f(x, y):
        z = x * y
        kept = z.copy()
        z[1:] = np.sin(z[1:]) * y[1:]
        return np.sum(z * x) + np.sum(kept[1:] ** 2)

    agree(f, X, Y)


PLACES = st.sampled_from(
    [np.s_[1:], np.s_[:-1], np.s_[2], np.s_[:, 1:], np.s_[:, :-1], np.s_[1:, :3], np.s_[...]]
)


@st.composite
def updates(draw):
    """A program of updates of two arrays, each of which reads parts of both."""
    steps = draw(
        st.lists(
            st.tuples(
                st.booleans(), PLACES, st.booleans(), st.sampled_from("+-=*mt"), st.booleans()
            ),
            min_size=1,
            max_size=8,
        )
    )

    def f(x, y):
        x, y = x.copy(), y.copy()
        total = 0.0
        for first, place, own, kind, look in steps:
            a, b = (x, y) if first else (y, x)
            value = 0.3 * (a if own else b)[place]
            if kind == "+":
                a[place] += value
            elif kind == "-":
                a[place] -= value
            elif kind == "*":
                a[place] *= value
            elif kind == "m":
                a[place] = (a[place] + value) * 0.7
            elif kind == "t":
                a[place] = value * 0.5 + np.tanh(a[place]) * value
            else:
                a[place] = value
            if look:
                total = total + np.sum(np.sin(a) * b)
        return total + np.sum(x * y)

    return f


@settings(deadline=None)
@given(updates())
def test_any_updates(f):
    agree(f, X, Y)
