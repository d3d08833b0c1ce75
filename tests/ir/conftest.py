"""Fixtures of tests of the IR."""

import pytest

import tracker


@pytest.fixture(autouse=True)
def checked_passes():
    """What passes require and establish is checked, and the IR verified after each."""
    with tracker.config(check=True):
        yield
