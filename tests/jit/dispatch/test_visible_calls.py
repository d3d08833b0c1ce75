"""Profilers see calls of machine code as frames of the user's functions."""

import cProfile
import pstats
import sys

import numpy as np
import pytest
from concurrently import at_once

import tracker
from tracker import debug, jit

X = np.linspace(0.1, 1.0, 50)


def waves(x):
    return np.sum(np.sin(x) ** 2)


def entry_of(profile, name):
    """File, line and number of calls of a function in a profile; None if it is not there."""
    for (path, line, found), (_, calls, *_) in pstats.Stats(profile).stats.items():
        if found == name:
            return path, line, calls
    return None


PLACE = (__file__, waves.__code__.co_firstlineno)
MADE = {
    "jitted waves": lambda f: f,
    "value_and_grad of jitted waves": tracker.value_and_grad,
    "vmap of jitted waves": lambda f: tracker.vmap(f),
}


@pytest.mark.parametrize("name", MADE)
def test_a_function_that_is_first_called_in_a_profile_is_seen(name):
    f = MADE[name](jit(waves))
    x = np.stack([X, X]) if name.startswith("vmap") else X
    with cProfile.Profile() as profile:
        for _ in range(5):
            f(x)
    assert entry_of(profile, name) == (*PLACE, 5)
    slow = f.cache_info().slow
    f(x), f(x), f(x)
    assert f.cache_info().slow == slow  # machine code takes calls as before


@pytest.mark.parametrize("name", MADE)
def test_visible_calls_shows_functions_that_were_called_before(name):
    f = MADE[name](jit(waves))
    x = np.stack([X, X]) if name.startswith("vmap") else X
    f(x)
    expected = f(x)
    with cProfile.Profile() as profile:
        f(x)
    assert entry_of(profile, name) is None
    slow = f.cache_info().slow
    with debug.visible_calls(), cProfile.Profile() as profile:
        for _ in range(5):
            np.testing.assert_equal(f(x), expected)
    assert entry_of(profile, name) == (*PLACE, 5)
    f(x), f(x)
    assert f.cache_info().slow == slow


def test_other_tools_see_frames_too():
    f, seen = jit(waves), []
    f(X)

    def watch(frame, event, _):
        if event == "call" and frame.f_code.co_name == "jitted waves":
            seen.append((frame.f_code.co_filename, frame.f_lineno))

    with debug.visible_calls():
        f(X)  # a profile function is not what it takes
        sys.setprofile(watch)
        try:
            f(X), f(X)
        finally:
            sys.setprofile(None)
    assert seen == [PLACE] * 2


def test_new_paths_and_errors_in_visible_calls():
    def f(x):
        if x[0] > 3.0:
            raise ValueError("large")
        return x + 1.0 if x[0] > 1.0 else x - 1.0

    g = jit(f)
    with cProfile.Profile() as profile:
        for first in (0.0, 2.0, 0.0, 2.0):
            x = np.array([first, 1.0])
            np.testing.assert_array_equal(g(x), f(x))
        with pytest.raises(ValueError, match="large"):
            g(np.array([4.0, 1.0]))
    assert g.cache_info().traces == 2
    slow = g.cache_info().slow
    g(np.array([0.0, 1.0])), g(np.array([2.0, 1.0]))
    assert g.cache_info().slow == slow
    assert entry_of(profile, "jitted f") is not None


def test_other_threads_go_on():
    f = jit(waves)
    f(X)
    expected, found = f(X), []
    with debug.visible_calls():
        at_once(*[lambda: found.extend(f(X) for _ in range(50))] * 3, lambda: f(X))
    assert found == [expected] * 150


def test_callables_without_code_are_seen_by_name():
    class Model:
        def __call__(self, x):
            return np.sum(x * 2.0)

    f = jit(Model())
    with cProfile.Profile() as profile:
        f(X), f(X)
    assert entry_of(profile, "jitted Model")[2] == 2
