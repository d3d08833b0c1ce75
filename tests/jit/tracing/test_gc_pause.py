"""The cyclic collector while the compiler works."""

import gc
import threading

import numpy as np
import pytest

import tracker
from tracker.jit.runtime import compile_queue
from tracker.jit.tracing.gc_pause import USER_CODE_THRESHOLD, infrequent_gc


@pytest.fixture(autouse=True)
def as_it_was():
    compile_queue.drain()
    before = gc.get_threshold()
    yield
    assert gc.get_threshold() == before and gc.isenabled()


def test_the_threshold_is_as_it_was_afterwards():
    before = gc.get_threshold()
    with infrequent_gc():
        raised = gc.get_threshold()
        assert raised[0] > before[0] and raised[1:] == before[1:] and gc.isenabled()
        with infrequent_gc():
            assert gc.get_threshold() == raised
        assert gc.get_threshold() == raised
    assert gc.get_threshold() == before


def test_threads_that_overlap_leave_it_as_it_was():
    before, inside, leave = gc.get_threshold(), threading.Event(), threading.Event()

    def other():
        with infrequent_gc():
            inside.set()
            assert leave.wait(60)

    thread = threading.Thread(target=other)
    with infrequent_gc():
        thread.start()
        assert inside.wait(60)
    assert gc.get_threshold() != before
    leave.set()
    thread.join()
    assert gc.get_threshold() == before


def test_a_collector_disabled_meanwhile_stays_disabled():
    with infrequent_gc():
        gc.disable()
    try:
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_highest_counts():
    before = gc.get_threshold()
    with infrequent_gc(USER_CODE_THRESHOLD):
        low = gc.get_threshold()
        with infrequent_gc(), infrequent_gc(USER_CODE_THRESHOLD):
            assert gc.get_threshold()[0] > low[0] == USER_CODE_THRESHOLD
        assert gc.get_threshold() == low
    assert gc.get_threshold() == before


def test_a_threshold_that_is_higher_stays():
    before = gc.get_threshold()
    try:
        gc.set_threshold(USER_CODE_THRESHOLD + 1)
        with infrequent_gc(USER_CODE_THRESHOLD):
            assert gc.get_threshold()[0] == USER_CODE_THRESHOLD + 1
    finally:
        gc.set_threshold(*before)


@pytest.mark.parametrize("chosen", [0, 50])
def test_a_threshold_that_was_set_meanwhile_stays(chosen):
    before = gc.get_threshold()
    try:
        with infrequent_gc():
            gc.set_threshold(chosen)
        assert gc.get_threshold()[0] == chosen
    finally:
        gc.set_threshold(*before)


def test_an_error_restores_the_threshold():
    with pytest.raises(ValueError), infrequent_gc():
        raise ValueError


def test_cycles_of_the_users_are_collected_while_it_is_traced():
    seen = []

    @tracker.jit(pure=[gc.get_threshold])
    def f(x):
        seen.append(gc.get_threshold())
        return np.sin(x)

    before = gc.get_threshold()
    f(0.5)
    compile_queue.drain()
    assert seen == [(USER_CODE_THRESHOLD, *before[1:])] and gc.get_threshold() == before
