"""Comparison with NumPy for functions that write into their arguments."""

import numpy as np

import tracker
from tracker import param
from tracker.testing import gradcheck


def same_as_numpy(f, *args, order=1):
    """Assert that `f`, which writes, gives NumPy's numbers and dtype, and the right gradient."""
    want = f(*(np.copy(a)[()] if np.ndim(a) == 0 else np.copy(a) for a in args))
    found = f(*map(param, args))
    shown = tracker.data(found)
    assert np.result_type(shown) == np.result_type(want)
    np.testing.assert_allclose(shown, want, rtol=1e-12)
    tolerance = {} if np.result_type(want).itemsize >= 8 else {"rtol": 1e-3, "atol": 1e-3}
    assert gradcheck(f, *args, order=order, **tolerance)
