"""Fixtures of tests of the IR."""

import pytest

from tracker.ir import periods, repeats


@pytest.fixture
def eager_to_roll(monkeypatch):
    """Short programs are rolled, too."""
    monkeypatch.setattr(repeats, "SHORT", 10)
    monkeypatch.setattr(repeats, "PAYS", 10)
    monkeypatch.setattr(periods, "PAYS", 10)
    monkeypatch.setattr(periods, "_IN_REGISTERS", 1)
