"""The norm of `scipy.linalg`. Where SciPy calls LAPACK's routine, the result is a Python number."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from tracker.autodiff.stop_gradient import ignore_derivatives
from tracker.ops.linalg.triangles import as_array
from tracker.scipy._bridge.dropin import drop_in
from tracker.tape.conversions import guarded_data
from tracker.tape.record import aval_of


@drop_in(scipy.linalg)
def norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The length of a vector is a Python number, as SciPy's, and finite even if its square
    overflows."""
    a = as_array(a)
    by_lapack = np.size(a) and a.dtype.char in "fdFD" and axis is None and not keepdims
    if by_lapack and np.ndim(a) == 2 and not isinstance(ord, str) and ord is not None:
        flags = aval_of(a).flags
        is_one_order = flags.c_contiguous != flags.f_contiguous  # required by SciPy's own routine
        if is_one_order and (bool(ord == 1) or bool(ord == np.inf)):
            return np.linalg.norm(a, guarded_data(ord)).item()
    is_length = by_lapack and np.ndim(a) == 1 and (ord is None or bool(ord == 2))
    if not is_length:
        return np.linalg.norm(a, ord, axis, keepdims)
    top = np.max(np.abs(ignore_derivatives(a)))
    top = np.where(np.isfinite(top) & (top > 0), top, 1).astype(top.dtype)
    return (top * np.linalg.norm(a / top)).item()
