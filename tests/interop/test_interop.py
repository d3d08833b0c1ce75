"""The public names of `tracker.interop`, and what it says without the libraries."""

import sys

import numpy as np
import pytest

import tracker
from tracker import interop


def test_without_jax_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    for name in [n for n in sys.modules if n.startswith("tracker.interop.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=r"tracker.to_jax needs JAX.*tracker-grad\[jax\]"):
        tracker.to_jax(np.sin, 1.0)


def test_there_is_nothing_else():
    assert dir(interop) == sorted(interop.__all__)
    with pytest.raises(AttributeError, match="no attribute 'from_cupy'"):
        _ = interop.from_cupy
