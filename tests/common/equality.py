"""Comparing structures of numbers in tests."""

import numpy as np

from tracker import tree


def same(found, want, where="", rtol=0.0, atol=0.0):
    """Assert equal structures of equal leaves: classes, dtypes, and numbers up to `rtol` (which is
    wider in single precision, if it is given) and `atol`."""
    (xs, structure), (ys, expected) = tree.flatten(found), tree.flatten(want)
    assert structure == expected, where
    for x, y in zip(xs, ys, strict=True):
        assert type(x) is type(y), (where, x, y)
        if tree.is_numeric(y):
            assert np.result_type(x) == np.result_type(y), where
            most = max(rtol, 1e-5) if rtol and np.result_type(y).char in "fF" else rtol
            np.testing.assert_allclose(x, y, rtol=most, atol=atol, err_msg=where)
        else:
            assert x == y, where
