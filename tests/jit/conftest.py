"""Fixtures for the tests of lazy values (`lazy_arrays.py`)."""

import gc

import pytest

from tracker.jit.dispatch import first_call
from tracker.tape import value as values


@pytest.fixture
def nothing_put_off():
    """No lazy values are left after a trace."""
    yield
    gc.collect()
    assert not values.has_lazy_values()
    assert values.leaf(2.0).data == 2.0  # who asks next finds that none is left
    assert values.Value.__dict__["data"] is values._slot


@pytest.fixture
def computed(monkeypatch):
    """The ops of the lazy values that were computed."""
    found = []
    fill = values._compute
    monkeypatch.setattr(values, "_compute", lambda value: (found.append(value.op), fill(value)))
    return found


@pytest.fixture
def machine_code(monkeypatch):
    """Lazy values are left to machine code, however few they are."""
    monkeypatch.setattr(first_call, "BYTES_WHILE_COMPILING", 0)
    monkeypatch.setattr(first_call, "BYTES_PER_OP_KIND", 0)
    monkeypatch.setattr(first_call, "BYTES_PER_EQUATION", 0)
