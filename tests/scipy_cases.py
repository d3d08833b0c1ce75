"""What a function of `tracker.scipy` is asked, beside SciPy's own of the same name.

A case is (f, *args) with f(module, *args): the same text for SciPy's module and for ours. A result
may be a tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from tracker import data, jit, param
from tracker.testing import gradcheck


def check_case(
    ours: ModuleType,
    theirs: ModuleType,
    f: Callable[..., Any],
    *args: Any,
    order: int = 1,
    rtol: float = 1e-9,
    slack: float | None = None,
) -> None:
    """SciPy's numbers, dtypes and shapes on tracked values; reverse and forward derivatives against
    differences, up to `order` (within `slack`, if given); and compiled."""
    want, found = _parts(f(theirs, *args)), _parts(f(ours, *map(param, args)))
    assert [(data(y).dtype, np.shape(y)) for y in found] == [
        (np.result_type(y), np.shape(y)) for y in want
    ]
    _agree(found, want, rtol)
    _check_narrow(ours, theirs, f, *args)
    assert gradcheck(lambda *xs: f(ours, *xs), *args, order=order, rtol=slack, atol=slack)
    compiled = jit(lambda *xs: f(ours, *xs))
    for _ in range(2):
        _agree(_parts(compiled(*args)), want, rtol)


_NARROW = {np.dtype(float): np.dtype(np.float32), np.dtype(complex): np.dtype(np.complex64)}


def _check_narrow(ours: ModuleType, theirs: ModuleType, f: Callable[..., Any], *args: Any) -> None:
    """What stays in single precision in SciPy stays so on tracked values."""
    narrow = [
        a.astype(_NARROW.get(a.dtype, a.dtype)) if isinstance(a, np.ndarray) else a for a in args
    ]
    want, found = _parts(f(theirs, *narrow)), _parts(f(ours, *map(param, narrow)))
    for y, z in zip(found, want, strict=True):
        if np.result_type(z) in _NARROW.values():
            assert data(y).dtype == np.result_type(z)


def _parts(y: Any) -> list[Any]:
    return list(y) if isinstance(y, (tuple, list)) else [y]


def _agree(found: list[Any], want: list[Any], rtol: float) -> None:
    for ours, theirs in zip(found, want, strict=True):
        np.testing.assert_allclose(data(ours), theirs, rtol=rtol, atol=rtol / 100)
