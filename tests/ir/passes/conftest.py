"""The passes are tested on loops of which the trace has every turn."""

import pytest

from tracker.tape import python_loops


@pytest.fixture(autouse=True)
def no_loop_is_followed(monkeypatch):
    monkeypatch.setattr(python_loops, "_starters", [])
