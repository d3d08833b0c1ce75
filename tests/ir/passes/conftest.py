"""Most passes are tested on loops of which the trace has every iteration."""

import pytest

from tracker.control.python_loops import rolling
from tracker.ir.passes.loops import batch
from tracker.tape.tracing import tracer


@pytest.fixture
def short_loops_stay(monkeypatch):
    """Short loops are rolled, too, and stay loops."""
    monkeypatch.setattr(rolling, "_MIN_EQUATIONS", 1)
    monkeypatch.setattr(rolling, "_MIN_EQUATIONS_OF_LARGE", 1)
    monkeypatch.setattr(batch, "_CACHED_SIZE", 0)


@pytest.fixture(autouse=True)
def no_loop_is_followed(request, monkeypatch):
    if "short_loops_stay" not in request.fixturenames:
        monkeypatch.setattr(tracer, "_starters", [])
        monkeypatch.setattr(tracer, "_samplers", [])
