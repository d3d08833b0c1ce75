"""The cyclic collector while the compiler works."""

import gc

import numpy as np

import tracker
from tracker.jit.collecting import without_collecting


def test_the_collector_is_as_it_was_afterwards():
    with without_collecting():
        assert not gc.isenabled()
        with without_collecting():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off():
    gc.disable()
    try:
        with without_collecting():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_an_error_leaves_it_on():
    try:
        with without_collecting():
            raise ValueError
    except ValueError:
        assert gc.isenabled()


def test_users_code_runs_with_it():
    seen = []

    @tracker.jit
    def f(x):
        seen.append(gc.isenabled())
        return np.sin(x)

    f(0.5)
    assert seen == [True] and gc.isenabled()
