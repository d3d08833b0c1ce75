"""Numbers out of range of the array they are stored in: NumPy's errors and results, in a derivative
and compiled."""

import numpy
import pytest
from outcomes import outcome, outcomes

import tracker.numpy as np
from tracker import jit

STORES = [
    "np.insert(y, 0, v)", "np.insert(y, [0, 1], [v, 1])", "np.insert(y, 1, [v, v])",
    "np.insert(np.stack([y, y]), 1, v, axis=1)", "np.put(y, [0], v)", "np.put(y, [0, 1], [v, 1])",
    "np.place(y, y > 2, v)", "np.place(y, y > 2, [v, 2])", "np.putmask(y, y > 2, v)",
    "np.putmask(y, y > 0, [v, 7])", "np.copyto(y, [v, v, v])", "np.copyto(y, v)",
    "np.copyto(y, v, casting='unsafe')", "np.fill_diagonal(y[None], v)",
    "np.pad(y, 1, constant_values=v)", "np.r_[y, v]", "np.select([y > 2, y > 1], [v, y], y)",
    "np.select([y > 2], [y], v)", "np.choose(y % 2, [y, v])", "np.full_like(y, v)",
    "np.piecewise(y, [y > 2], [v, 0])", "np.max(y, initial=v)", "np.clip(y, 3, v)",
    "np.add(y, v, dtype=y.dtype, casting='unsafe')", "y.__setitem__(0, v)",
    "y.__setitem__(0, y[0] + v)", "y.__setitem__(slice(2), [v, 1])", "y.__setitem__([0, 1], v)",
    "y.__setitem__(slice(None), v)", "y.__setitem__(slice(None), [v, 2, 3])",
    "y.__setitem__(y > 2, v)", "y.flat.__setitem__(slice(0, 2), v)", "y.fill(v)",
    "(z := np.zeros(3, y.dtype), z.__setitem__(0, v))[0]",
    "np.put_along_axis(y, np.array([0, 1]), [v, 1], 0)", "np.fill_diagonal(y[:2, None], [v])",
    "np.pad(y, 1, constant_values=[v, 1])", "np.pad(y, 1, constant_values=[(v, 2)])",
    "np.full_like(y, [v, 1, 2])", "np.full((2, 3), [v, 1, 2], y.dtype)", "np.full(2, v, y.dtype)",
    "np.array([v, 1], y.dtype)", "np.piecewise(y, [y > 2, y < 2], [v, 1, 0])",
    "np.place(y, y > 1, [[v, 2]])", "np.choose(y % 2, [[v, 1, 2], y])", "y.put([0], [v])",
    "np.nan_to_num(y, nan=v)", "np.append(y, [v, 1])",
]  # fmt: skip
NUMBERS = [300, -1, 2**40, 300.7, float("nan"), True]
CASES = [(store, v) for store in STORES for v in NUMBERS]
# What a NaN that the compiler knows becomes in a cast to unsigned integers, nothing defines.
CASES.remove(("y.__setitem__(0, y[0] + v)", NUMBERS[4]))


def written(store, np, parameters, **known):
    """A function with NumPy's names in this module."""
    made = {"np": np, **known}
    exec(f"def f({parameters}):\n    z = {store}\n    return y if z is None else z", made)
    return made["f"]


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize("store, v", CASES)
def test_numbers_that_do_not_fit_are_refused_where_numpy_refuses_them(store, v):
    plain, ours = (written(store, module, "y", v=v) for module in (numpy, np))
    for dtype in ("u1", "i1", "u8", "i8", "f4"):
        x = numpy.array([1, 2, 3], dtype)
        wanted = outcome(plain, x.copy())
        assert outcomes(ours, x)[1:] == (wanted,) * 3


def _outcome(f, *args):
    try:
        return f(*args)
    except (OverflowError, ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize("dtype", ["u1", "i1", "u8", "i8"])
@pytest.mark.parametrize("store", STORES)
def test_one_compiled_function_stores_numbers_that_fit_and_others(store, dtype):
    plain, ours = (written(store, module, "y, v") for module in (numpy, np))
    compiled = jit(ours)
    for v in (5, 5, 300, -1, 6, -1.4, 2.6, 2.6, 300.5, float("nan"), 1e30, 7):
        if "clip" in store and not isinstance(v, int):
            continue
        given, other = (numpy.array([8, 4, 5], dtype) for _ in range(2))
        want, got = _outcome(plain, given, v), _outcome(compiled, other, v)
        assert repr(want).replace("Error('", "") == repr(got).replace("Error('", ""), v
        numpy.testing.assert_array_equal(given, other)


def test_putmask_puts_arrays_only_where_that_is_safe():
    def f(a, values):
        numpy.putmask(a, a > 0, values)
        return a

    for values in (
        [numpy.array(1.5), 2],
        numpy.array([1.5, 2.5]),
        numpy.array([1, 2], "u8"),
        numpy.float64(1.5),
        numpy.arange(2),
    ):
        for dtype in ("i8", "f4", "f8"):
            for _ in range(2):
                want, got = (_outcome(g, numpy.ones(3, dtype), values) for g in (f, jit(f)))
                assert repr(want) == repr(got)


@pytest.mark.parametrize("write", [
    lambda a, s: a.__iadd__(s),
    lambda a, s: a.__itruediv__(s),
    lambda a, s: a.__ipow__(s),
    lambda a, s: numpy.maximum(a, s, out=a),
    lambda a, s: numpy.sqrt(a, out=a),
])  # fmt: skip
def test_results_that_an_array_cannot_hold_are_refused_in_numpys_words(write):
    for f in (lambda a: write(a, 2.5), jit(lambda a: write(a, 2.5))):
        with pytest.raises(TypeError) as plain:
            write(numpy.arange(3), 2.5)
        with pytest.raises(TypeError) as refused:
            f(numpy.arange(3))
        assert str(refused.value) == str(plain.value)
