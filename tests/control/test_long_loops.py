"""Loops that are found while they run: those over lists, tuples and plain arrays, and `while`
statements whose tests are on plain numbers."""

import contextlib
import io
import sys

import numpy as np
import pytest
from long_loop_programs import FLOATS, PROGRAMS

import tracker
from tracker.control.python_loops import iterator, rolling
from tracker.support.frames import value_stack

POINTS = [np.array(point) for point in ([0.8, 0.3, 0.5], [1.3, -0.2, 0.9])]


@pytest.fixture(autouse=True)
def every_loop_is_found(monkeypatch):
    monkeypatch.setattr("tracker.tape.tracing.tracer._SAMPLED", 5)
    monkeypatch.setattr(iterator, "_MIN_TRIP_COUNT", 4)
    monkeypatch.setattr(rolling, "_MIN_EQUATIONS", 1)
    monkeypatch.setattr(rolling, "_MIN_EQUATIONS_OF_LARGE", 1)


def _parts(x):
    return x if isinstance(x, tuple) else (x,)


@pytest.mark.parametrize(("f", "rolled"), PROGRAMS)
def test_results(f, rolled):
    compiled = tracker.jit(f)
    for p in POINTS + POINTS:
        for want, have in zip(_parts(f(p.copy())), _parts(compiled(p)), strict=True):
            assert type(want) is type(have)
            np.testing.assert_allclose(have, want, rtol=1e-12)
    if rolled is not None:
        assert (" loop " in str(tracker.trace(tracker.jit(f), POINTS[0]))) == rolled


@pytest.mark.parametrize(("f", "rolled"), PROGRAMS)
def test_gradients(f, rolled):
    def loss(p):
        return np.sum(_parts(f(p))[0] * 1.0)

    compiled = tracker.jit(tracker.value_and_grad(loss))
    for p in POINTS + POINTS:
        want, slopes = tracker.value_and_grad(loss)(p)
        have, found = compiled(p)
        np.testing.assert_allclose(have, want, rtol=1e-12)
        np.testing.assert_allclose(found, slopes, rtol=1e-9, atol=1e-12)


def _raises(p):
    y, t = p[0], 0.0
    while t < 4.0:
        y = y + 0.1 * (p[1] - y)
        t += 0.1
        1 / (30 - round(10 * t))
    return y


def _prints(p):
    y, t = p[0], 0.0
    while t < 4.0:
        y = y + 0.1 * (p[1] - y)
        t += 0.1
        print(f"{t:.1f} {type(t).__name__}")
    return y


def _prints_items(p):
    y = p[0]
    for t in FLOATS:
        y = y + 0.1 * (p[1] - y) * t
        print(t)
    return y


@pytest.mark.parametrize("f", [_raises, _prints, _prints_items])
def test_outcomes_are_those_of_the_plain_function(f):
    def outcome(f):
        printed, error, result = io.StringIO(), None, None
        with contextlib.redirect_stdout(printed):
            try:
                result = f(POINTS[0].copy())
            except ZeroDivisionError as raised:
                error = str(raised)
        return result, printed.getvalue(), error

    assert outcome(f) == outcome(tracker.jit(f))


BARS = [each for each in PROGRAMS if "bar" in each.id]


@pytest.mark.parametrize(("f", "rolled"), BARS)
def test_bars_show_what_they_show_in_a_plain_call(f, rolled):
    def shown(f):
        with contextlib.redirect_stderr(io.StringIO()) as written:
            f(POINTS[0].copy())
        return written.getvalue()

    traced = shown(
        lambda p: tracker.jit(tracker.value_and_grad(lambda p: _parts(f(p))[0].sum()))(p)
    )
    assert traced == shown(f)


def test_other_pythons_run_loops_over_lists_as_they_are(monkeypatch):
    monkeypatch.setattr(value_stack, "_is_known_layout", lambda: False)
    f = next(each.values[0] for each in PROGRAMS if each.id == "captured_list")
    assert " loop " not in str(tracker.trace(tracker.jit(f), POINTS[0]))
    np.testing.assert_allclose(tracker.jit(f)(POINTS[0]), f(POINTS[0]), rtol=1e-12)


def test_objects_on_the_stack_are_released():
    class Item:
        def __iter__(self):
            return self

        def __next__(self):
            raise StopIteration

    other = Item()
    counts = sys.getrefcount(other)
    for _ in [1, 2, 3]:
        value_stack.replace_on_stack(sys._getframe(), 0, other)
        assert value_stack.on_stack(sys._getframe(), 0) is other
        assert sys.getrefcount(other) == counts + 1
    assert sys.getrefcount(other) == counts
