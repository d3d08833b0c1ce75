"""Comparing structures of numbers in tests."""

import numpy as np

from tracker import tree


def same(found, want, where="", rtol=0.0):
    """Assert equal structures of equal leaves: classes, dtypes, and numbers up to `rtol`."""
    (xs, structure), (ys, expected) = tree.flatten(found), tree.flatten(want)
    assert structure == expected, where
    for x, y in zip(xs, ys, strict=True):
        assert type(x) is type(y), (where, x, y)
        if tree.is_numeric(y):
            assert np.result_type(x) == np.result_type(y), where
            np.testing.assert_allclose(x, y, rtol=rtol, err_msg=where)
        else:
            assert x == y, where
