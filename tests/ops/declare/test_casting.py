"""Python numbers stored in integer arrays: NumPy raises if they are out of range."""

import numpy as np
import pytest

import tracker.numpy as tnp
from tracker import jit


def _after(write):
    def f(b, s):
        write(b, s)
        return b

    return f


PROGRAMS = {
    "place": _after(lambda b, s: b.__setitem__(0, s)),
    "all": _after(lambda b, s: b.__setitem__(slice(None), s)),
    "fill": _after(lambda b, s: b.fill(s)),
    "list": _after(lambda b, s: b.__setitem__(slice(None), [s, 2, 3])),
    "places": _after(lambda b, s: b.__setitem__([0, 1], s)),
    "mask": _after(lambda b, s: b.__setitem__(b > 4, s)),
    "flat": _after(lambda b, s: b.flat.__setitem__(slice(0, 2), s)),
    "put": _after(lambda b, s: np.put(b, [0], s)),
    "np.place": _after(lambda b, s: np.place(b, b > 4, s)),
    "putmask": _after(lambda b, s: np.putmask(b, b > 4, s)),
    "putmask, list": _after(lambda b, s: np.putmask(b, b > 0, [s, 7])),
    "putmask of ours": _after(lambda b, s: tnp.putmask(b, b > 0, [s, 7])),
    "diagonal": _after(lambda b, s: np.fill_diagonal(b[None], s)),
    "copyto": _after(lambda b, s: np.copyto(b, s)),
    "copyto, unsafe": _after(lambda b, s: np.copyto(b, s, casting="unsafe")),
    "full_like": lambda b, s: np.full_like(b, s),
    "made": lambda b, s: _after(lambda c, s: c.__setitem__(0, s))(tnp.zeros(3, b.dtype), s),
    "piecewise": lambda b, s: np.piecewise(b, [b > 4], [s, 0]),
    "initial": lambda b, s: np.max(b, initial=s),
    "clip": lambda b, s: np.clip(b, 3, s),
    "of one dtype": lambda b, s: np.add(b, s, dtype=b.dtype, casting="unsafe"),
}


def _outcome(f, *args):
    try:
        return f(*args)
    except (OverflowError, ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize("dtype", ["u1", "i1", "u8", "i8"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_python_numbers_that_an_integer_array_has_no_room_for(name, dtype):
    f = PROGRAMS[name]
    compiled = jit(f)
    for s in (5, 5, 300, -1, 6, -1.4, 2.6, 2.6, 300.5, float("nan"), 1e30, 7):
        if name == "clip" and not isinstance(s, int):
            continue
        given, other = (np.array([8, 4, 5], dtype) for _ in range(2))
        want, got = _outcome(f, given, s), _outcome(compiled, other, s)
        assert repr(want).replace("Error('", "") == repr(got).replace("Error('", ""), s
        np.testing.assert_array_equal(given, other)


def test_putmask_puts_arrays_only_where_that_is_safe():
    def f(a, values):
        np.putmask(a, a > 0, values)
        return a

    for values in (
        [np.array(1.5), 2],
        np.array([1.5, 2.5]),
        np.array([1, 2], "u8"),
        np.float64(1.5),
        np.arange(2),
    ):
        for dtype in ("i8", "f4", "f8"):
            for _ in range(2):
                want, got = (_outcome(g, np.ones(3, dtype), values) for g in (f, jit(f)))
                assert repr(want) == repr(got)


@pytest.mark.parametrize("write", [
    lambda a, s: a.__iadd__(s),
    lambda a, s: a.__itruediv__(s),
    lambda a, s: a.__ipow__(s),
    lambda a, s: np.maximum(a, s, out=a),
    lambda a, s: np.sqrt(a, out=a),
])  # fmt: skip
def test_results_that_an_array_cannot_hold_are_refused_in_numpys_words(write):
    for f in (lambda a: write(a, 2.5), jit(lambda a: write(a, 2.5))):
        with pytest.raises(TypeError) as plain:
            write(np.arange(3), 2.5)
        with pytest.raises(TypeError) as refused:
            f(np.arange(3))
        assert str(refused.value) == str(plain.value)
