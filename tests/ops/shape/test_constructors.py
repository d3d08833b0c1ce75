"""NumPy's constructors with `like=` a tracked value: values, layouts and derivatives."""

import numpy as np
import pytest

import tracker
from tracker import gradient, jit

X = np.array([2.0, 3.0])
PLAIN = np.array([4.0, 5.0])
MADE = {
    "full": lambda x: np.full((2, 2), x[1], like=x),
    "full of a vector": lambda x: np.full((3, 2), x, like=x),
    "full of a constant": lambda x: np.full(2, 3.0, like=x),
    "full by names": lambda x: np.full(shape=2, fill_value=2 * x[1], like=x),
    "full of integers": lambda x: np.full(2, x[1], dtype=int, like=x),
    "full in Fortran's order": lambda x: np.full((2, 3), x[1], order="F", like=x),
    "full_like": lambda x: np.full_like(x, x[1]),
    "full_like of a shape": lambda x: np.full_like(x, x[1], shape=(2, 3)),
    "zeros": lambda x: np.zeros((2, 2), float, "F", like=x),
    "ones": lambda x: np.ones(2, int, like=x),
    "empty": lambda x: np.copysign(0.0, np.empty(2, like=x)) * 0,
    "filled": lambda x: filled(np.empty(2, like=x), x[1]),
    "eye": lambda x: np.eye(2, like=x),
    "identity": lambda x: np.identity(2, like=x),
    "array": lambda x: np.array([[x[0], 1.0], [x[1], 2]], like=x),
    "array of what is tracked": lambda x: np.array(x, like=x),
    "array with axes": lambda x: np.array(x, ndmin=3, like=x),
    "array in Fortran's order": lambda x: np.array([[x[0], 1.0], [x[1], 2]], order="F", like=x),
    "array of what is plain": lambda x: np.array(PLAIN, np.float32, ndmin=2, like=x),
    "asarray": lambda x: np.asarray([x[0], 2 * x[1]], like=x),
    "asarray in Fortran's order": lambda x: np.asarray([x, x], order="F", like=x),
    "asanyarray": lambda x: np.asanyarray([x[0], 2 * x[1]], like=x),
    "ascontiguousarray": lambda x: np.ascontiguousarray(x[0], like=x),
    "asfortranarray": lambda x: np.asfortranarray([[x[0], 1.0], [x[1], 2]], like=x),
    "require": lambda x: np.require([[x[0], 1.0], [x[1], 2]], None, "F", like=x),
    "fromiter": lambda x: np.fromiter((2 * e for e in x), float, like=x),
    "fromiter of a count": lambda x: np.fromiter(iter([x[1], 2.0, 3.0]), float, 2, like=x),
    "arange": lambda x: np.arange(2.0, like=x),
    "arange between what is tracked": lambda x: np.arange(x[0], x[1] + 0.75, 0.5, like=x),
}


def filled(buffer, x):
    buffer.fill(x)
    return buffer


@pytest.mark.parametrize("name", MADE)
def test_constructors_like_a_tracked_value(name):
    make = MADE[name]
    want = make(X)
    traced = jit(make)
    for found in (tracker.pullback(make, X)[0], traced(X), traced(X)):
        assert (type(found), found.dtype) == (np.ndarray, want.dtype)
        assert found.tolist() == want.tolist()
        assert found.flags.f_contiguous == want.flags.f_contiguous
    weights = np.arange(1.0, want.size + 1).reshape(want.shape)

    def loss(x):
        return np.sum(make(x) * weights) + np.sum(x)

    slopes = tracker.testing.ngradient(loss, X)[0]
    if want.dtype.kind == "i":
        slopes = np.ones(2)  # what is made of integers does not move
    for f in (loss, jit(loss)):
        np.testing.assert_allclose(gradient(f, X)[0], slopes, rtol=1e-5)
        np.testing.assert_allclose(tracker.jvp(f, (X,), (X,))[1], slopes @ X, rtol=1e-5)


def test_which_constructors_copy():
    plain = PLAIN.copy()
    tracked = tracker.param(X)
    assert np.asarray(tracked, like=tracked) is tracked
    assert np.array(tracked, like=tracked) is not tracked
    made = np.asarray(plain, like=tracked)
    made[0] = tracked[1]
    assert plain.tolist() == PLAIN.tolist()
    copied = jit(lambda x: np.array(plain, like=x) * x)
    for first in (1.0, 7.0):  # captured arrays are read at each call
        plain[0] = first
        assert copied(X).tolist() == [2 * first, 15.0]
    for f in (lambda x: np.full(3, x, like=x), jit(lambda x: np.full(3, x, like=x))):
        with pytest.raises(ValueError, match="broadcast"):
            tracker.pullback(f, X)
