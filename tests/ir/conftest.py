"""Fixtures of tests of the IR."""

import pytest

import tracker
from tracker.ir.passes import loop_limits
from tracker.ir.passes.loops import batch, recurrences, repeat_detection


@pytest.fixture(autouse=True)
def checked_passes():
    """What passes require and establish is checked, and the IR verified after each."""
    with tracker.config(check=True):
        yield


@pytest.fixture
def eager_to_roll(monkeypatch):
    """Short programs are rolled, too."""
    monkeypatch.setattr(loop_limits, "MIN_BODY", 10)
    monkeypatch.setattr(batch, "_CACHED_SIZE", 0)  # they stay loops
    monkeypatch.setattr(repeat_detection, "MIN_STEPS", 10)
    monkeypatch.setattr(recurrences, "MIN_STEPS", 10)
    monkeypatch.setattr(recurrences, "_MAX_IN_REGISTERS", 1)
