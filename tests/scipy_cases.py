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
    assert gradcheck(lambda *xs: f(ours, *xs), *args, order=order, rtol=slack, atol=slack)
    compiled = jit(lambda *xs: f(ours, *xs))
    for _ in range(2):
        _agree(_parts(compiled(*args)), want, rtol)


def _parts(y: Any) -> list[Any]:
    return list(y) if isinstance(y, (tuple, list)) else [y]


def _agree(found: list[Any], want: list[Any], rtol: float) -> None:
    for ours, theirs in zip(found, want, strict=True):
        np.testing.assert_allclose(data(ours), theirs, rtol=rtol, atol=rtol / 100)
