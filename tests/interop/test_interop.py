"""The public names of `tracker.interop`, and what it says without the libraries."""

import sys

import numpy as np
import pytest

import tracker
from tracker import interop


def test_without_jax_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.delitem(sys.modules, "tracker.interop.jax_function", raising=False)
    with pytest.raises(ImportError, match=r"needs JAX. pip install 'tracker-grad\[jax\]'"):
        tracker.to_jax(np.sin, 1.0)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"needs PyTorch. pip install torch"):
        interop.as_torch(np.sin)


def test_there_is_nothing_else():
    assert dir(interop) == sorted(interop.__all__)
    with pytest.raises(AttributeError, match="no attribute 'from_cupy'"):
        _ = interop.from_cupy
