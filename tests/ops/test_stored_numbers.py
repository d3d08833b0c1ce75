"""Numbers out of range of the array they are stored in: NumPy's errors, in a derivative and
compiled."""

import numpy
import pytest
from outcomes import outcome, outcomes

import tracker.numpy as np

STORES = [
    "np.insert(y, 0, v)", "np.insert(y, [0, 1], [v, 1])", "np.insert(y, 1, [v, v])",
    "np.insert(np.stack([y, y]), 1, v, axis=1)", "np.put(y, [0, 1], [v, 1])",
    "np.place(y, y > 2, [v, 2])", "np.copyto(y, [v, v, v])", "np.copyto(y, v)",
    "np.pad(y, 1, constant_values=v)", "np.r_[y, v]", "np.select([y > 2, y > 1], [v, y], y)",
    "np.select([y > 2], [y], v)", "np.choose(y % 2, [y, v])", "y.__setitem__(0, v)",
    "y.__setitem__(0, y[0] + v)", "y.__setitem__(slice(2), [v, 1])", "y.__setitem__([0, 1], v)",
    "y.fill(v)",
]  # fmt: skip
NUMBERS = [300, -1, 2**40, 300.7, float("nan"), True]


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize("v", NUMBERS, ids=str)
@pytest.mark.parametrize("store", STORES)
def test_numbers_that_do_not_fit_are_refused_where_numpy_refuses_them(store, v):
    def with_numbers_of(np):
        made = {}
        body = f"    made = {store}\n    return y if made is None else made"
        exec(f"def f(y):\n{body}", locals(), made)
        return made["f"]

    for dtype in ("u1", "i1", "u8", "i8", "f4"):
        x = numpy.array([1, 2, 3], dtype)
        plain = outcome(with_numbers_of(numpy), x.copy())
        assert outcomes(with_numbers_of(np), x)[1:] == (plain,) * 3
