"""Fixtures for the tests of what a trace puts off (`lazy_arrays.py`)."""

import gc

import pytest

from tracker.jit.dispatch import first_call
from tracker.tape import value as values


@pytest.fixture
def nothing_put_off():
    """When a trace is over, nothing that it has put off is left."""
    yield
    gc.collect()
    assert not values.has_lazy_values()
    assert values.leaf(2.0).data == 2.0  # who asks next finds that none is left
    assert values.Value.__dict__["data"] is values._slot


@pytest.fixture
def computed(monkeypatch):
    """The values that were computed after they had been put off."""
    found = []
    fill = values._compute
    monkeypatch.setattr(values, "_compute", lambda value: (found.append(value.op), fill(value)))
    return found


@pytest.fixture
def machine_code(monkeypatch):
    """What is put off is left to machine code, however little it is."""
    monkeypatch.setattr(first_call, "BYTES_WHILE_COMPILING", 0)
    monkeypatch.setattr(first_call, "BYTES_PER_OP_KIND", 0)
    monkeypatch.setattr(first_call, "BYTES_PER_EQUATION", 0)
