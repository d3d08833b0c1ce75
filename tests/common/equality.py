"""Comparing structures of numbers in tests."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def assert_same(got: Any, want: Any, where: str = "", tolerance: float = 1e-12) -> None:
    """Same structure, classes, dtypes, shapes; numbers equal up to roundings of the largest one,
    which are wider in single precision: all of them, if the tolerance is 0."""
    assert type(got) is type(want), f"{where}: {type(got).__name__}, not {type(want).__name__}"
    if isinstance(want, dict):
        assert list(got) == list(want), where
        got, want = tuple(got.values()), tuple(want.values())
    if is_dataclass(want):
        got, want = ({f.name: getattr(x, f.name) for f in fields(want)} for x in (got, want))
        assert_same(got, want, where, tolerance)
    elif isinstance(want, (tuple, list)):
        assert len(got) == len(want), where
        for k, (a, b) in enumerate(zip(got, want, strict=True)):
            assert_same(a, b, f"{where}[{k}]", tolerance)
    elif isinstance(want, (np.ndarray, np.generic, int, float, complex)):
        _assert_numbers(got, want, where, tolerance)
    else:
        assert got == want, f"{where}: {got!r}, not {want!r}"


def _assert_numbers(got: Any, want: Any, where: str, tolerance: float) -> None:
    assert np.shape(got) == np.shape(want), f"{where}: {np.shape(got)}, not {np.shape(want)}"
    kind = np.result_type(want)
    assert np.result_type(got) == kind, f"{where}: {np.result_type(got)}, not {kind}"
    if kind.kind not in "fc" or not tolerance:
        np.testing.assert_array_equal(got, want, err_msg=where)
        return
    tolerance = max(tolerance, 1e-5 if kind.itemsize <= 4 else 0.0)
    finite = np.abs(np.asarray(want)[np.isfinite(want)])
    scale = max(1.0, float(np.max(finite))) if finite.size else 1.0
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * scale, err_msg=where)
