"""Plain arrays that only a trace refers to, and what a compiled function makes of them."""

import weakref
from types import SimpleNamespace

import numpy as np
import pytest

import tracker
from tracker.tape.tracing.liveness import unreferenced_operands


@pytest.fixture(params=[True, False], ids=["plain", "not plain"])
def plain_numpy(request):
    """With names of NumPy exchanged, constants are arrays of tracked leaves; else NumPy's own."""
    with tracker.config(plain=request.param):
        yield request.param


def eye():
    return np.eye(3)


def view():
    return np.eye(4)[:3]


def reshaped():
    return np.arange(6.0).reshape(2, 3)


def notes_of(*operands):
    return [(SimpleNamespace(operands=(operand, 1.0)), None, 0) for operand in operands]


@pytest.mark.parametrize("make", [eye, view, reshaped])
def test_intermediate_arrays_are_unreferenced(make):
    notes = notes_of(make())
    array = id(notes[0][0].operands[0])
    assert unreferenced_operands(notes) == {array}
    notes.append((SimpleNamespace(operands=notes[0][0].operands), None, 0))  # the same tuple
    notes.append((SimpleNamespace(operands=notes[0][0].operands[:1]), None, 0))  # another
    assert unreferenced_operands(notes) == {array}


@pytest.mark.parametrize(
    "hold", [lambda x: [x], lambda x: weakref.ref(x), lambda x: x[1:], lambda x: memoryview(x)]
)
@pytest.mark.parametrize("make", [eye, view])
def test_reachable_arrays_are_referenced(hold, make):
    array = make()
    held, notes = hold(array), notes_of(array)
    del array
    assert not unreferenced_operands(notes)
    del held
    assert len(unreferenced_operands(notes)) == 1


def test_pieces_of_one_array_and_of_foreign_memory_are_not():
    base = np.eye(4)
    notes = notes_of(base[:3], base[:2])
    del base
    assert not unreferenced_operands(notes)
    assert not unreferenced_operands(notes_of(np.frombuffer(bytearray(16))))


def test_arrays_that_hold_the_same_are_one_capture(plain_numpy):
    mine = np.eye(3)

    @tracker.jit
    def f(x):
        for _ in range(4):
            x = x @ (x + np.eye(3)) + np.full(3, 0.5)
        return x + mine

    x = np.ones((3, 3))
    assert [var.type.shape for var in f.ir(x).captures] == [(3, 3), (3,), (3, 3)]
    for _ in range(3):
        np.testing.assert_allclose(f(x), f.__wrapped__(x))
        mine += 1.0


def test_arrays_that_differ_are_several(plain_numpy):
    @tracker.jit
    def f(x):
        zeros, paper = np.array([0.0, 1.0]), np.zeros(2)
        for k in range(3):
            paper[1] = k % 2
            x = x / np.array([-0.0, 1.0]) + np.array([0, 1]) + zeros + paper
        return x / np.array([[0.0, 1.0]])

    x = np.ones(2)
    with np.errstate(divide="ignore", invalid="ignore"):
        # what is written into `paper` is two numbers, or one more array
        assert len(f.ir(x).captures) == (6 if plain_numpy else 5)
        for _ in range(3):
            np.testing.assert_array_equal(f(x), f.__wrapped__(x))


def test_a_step_that_makes_an_array_repeats_itself(plain_numpy):
    def filtered(x):
        p = np.eye(3)
        for _ in [*range(100)]:  # which is not rolled
            p = x @ p @ x.T + np.eye(3)
            p = p - p @ np.linalg.inv(p + np.eye(3)) @ p
        return np.sum(p)

    fast = tracker.value_and_grad(tracker.jit(filtered))
    x = np.array([[0.9, 0.1, 0.0], [0.0, 0.8, 0.2], [0.1, 0.0, 0.7]])
    value, slope = tracker.value_and_grad(filtered)(x)
    for _ in range(2):
        found, gradient = fast(x)
        np.testing.assert_allclose(found, value)
        np.testing.assert_allclose(gradient, slope)
    assert len(tracker.jit(filtered).ir(x).captures) == 1
