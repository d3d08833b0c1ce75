"""`nditer`, `vectorize`, `as_strided` and others: element by element as in NumPy, differentiated
and compiled."""

import numpy
import pytest
from tables import functions_of

import tracker.numpy
from tracker import UnsupportedError, data, gradient, jit
from tracker.testing import ngradient

X = numpy.array([[0.5, 1.5, -0.7], [2.2, -0.3, 0.9]])


class Programs:
    def squares(np, x):
        total = 0.0
        for e in np.nditer(x):
            total = total + e * e
        return total

    def written(np, x):
        with np.nditer(x, op_flags=["readwrite"]) as it:
            for e in it:
                e[...] = 2 * e**2
        return np.sum(x * [1.0, 2.0, 3.0])

    def allocated(np, x):
        it = np.nditer([x, None])
        for a, b in it:
            b[...] = a**2
        return np.sum(it.operands[1] * x)

    def broadcast(np, x):
        it = np.nditer([x, np.arange(3.0)], order="C")
        total = 0.0
        for a, b in it:
            total = total + a * b
        return total + it.itersize

    def places(np, x):
        it = np.nditer(x, flags=["multi_index"])
        total = 0.0
        while not it.finished:
            total = total + it[0] ** 2 * it.multi_index[1]
            it.iternext()
        return total

    def signature(np, x):
        dot = np.vectorize(lambda r, s: r @ s, signature="(n),(n)->()")
        outer = np.vectorize(np.outer, signature="(n),(n)->(n,n)")
        return np.sum(dot(x, x[0]) ** 2) + np.sum(outer(x, x)[:, 0] * x)

    def excluded(np, x):
        power = np.vectorize(lambda a, k, c: a**k + np.sum(c), excluded=["k", 1, 2])
        return np.sum(power(x, k=3, c=2.0)) + np.sum(power(x, 2, x[0]))

    def by_name(np, x):
        blend = np.vectorize(lambda a, w=1.0: a * w)
        return np.sum(blend(x, w=x**2)) + np.sum(blend(x[0]))

    def otypes(np, x):
        signs = np.vectorize(lambda a: 1 if a > 0 else 0, otypes=[float])
        return np.sum(signs(x) * x)

    def type_of_the_first(np, x):
        steps = np.vectorize(lambda a, b: (0 if a < 0.5 else a * b, a))
        whole, same = steps(np.array([0.2, 0.7, 3.0]), x[0, 0])
        return np.sum(whole) + np.sum(same) * x[0, 0] + whole.dtype.itemsize

    def type_of_the_first_vector(np, x):
        steps = np.vectorize(
            lambda a: np.zeros(3, int) if a < 0.5 else a * x[0], signature="()->(n)"
        )
        return np.sum(steps(np.array([0.2, 1.7]))) + np.sum(steps(np.array([1.7, 0.2])) * x[0])

    def numbers_of_calls(np, x):
        drawn = np.random.default_rng(1)

        def noisy(a):
            return a * x[0, 0] + drawn.normal()

        total = np.sum(np.vectorize(noisy)(x))
        for keys in ({"cache": True}, {"otypes": "d"}, {"signature": "()->()"}):
            total = total + np.sum(np.vectorize(noisy, **keys)(x[0])) * drawn.normal()
        return total + np.sum(np.frompyfunc(noisy, 1, 1)(x)) * drawn.normal()

    def windows(np, x):
        v = x.ravel()
        step = v.strides[0]
        rows = np.lib.stride_tricks.as_strided(v, shape=(5, 2), strides=(step, step))
        return np.sum(rows[:, 0] * rows[:, 1]) + np.sum(np.lib.stride_tricks.as_strided(x) ** 2)

    def patches(np, x):
        y = np.asfortranarray(np.outer(x[0], x[1]))
        a, b = y.strides
        view = np.lib.stride_tricks.as_strided(y, (2, 2, 2, 2), (a, b, a, b))
        return np.sum(view[0, 1] * view[1, 0]) + np.sum(view)

    def written_windows(np, x):
        """Of a captured array, of a constant, of a variable."""
        total = 0.0
        for base in (np.zeros(8), np.sin(x).ravel().copy()):
            view = np.lib.stride_tricks.as_strided(base, (2, 2), (2 * base.itemsize, base.itemsize))
            view[1] = x[0, :2]
            view += 1.0
            total = total + np.sum(base**2) + np.sum(view[0] * x[1, :2])
        return total

    def put(np, x):
        x.put([0, 4], [9.0, x[0, 1]])
        return np.sum(x * x.view(np.ndarray))


@functions_of(Programs)
def test_as_numpy(f):
    want = f(numpy, X.copy())
    seen = []

    def ours(x):
        y = f(tracker.numpy, x)
        seen.append(data(y))
        return y

    (slope,) = gradient(ours, X)
    numpy.testing.assert_allclose(seen[0], want, rtol=1e-14)
    numpy.testing.assert_allclose(slope, ngradient(lambda x: f(numpy, x), X)[0], atol=1e-6)
    fast = jit(lambda x: f(numpy, x))
    for _ in range(2):
        numpy.testing.assert_allclose(fast(X.copy()), want, rtol=1e-12)
        numpy.testing.assert_allclose(gradient(fast, X)[0], slope, rtol=1e-10)


def test_refusals():
    with pytest.raises(UnsupportedError, match="nditer with external_loop is not supported"):
        gradient(lambda x: sum(tracker.numpy.nditer(x, flags=["external_loop"])), X)
    with pytest.raises(UnsupportedError, match=r"strides \(8,\) reads outside .*x\.strides"):
        gradient(
            lambda x: tracker.numpy.sum(tracker.numpy.lib.stride_tricks.as_strided(x, (9,), (8,))),
            X,
        )
    with pytest.raises(ValueError, match=r"read-only\. Write into a copy of it"):

        def twice(x):
            rows = numpy.lib.stride_tricks.as_strided(x, (2, 2), (x.itemsize, x.itemsize))
            rows[0] = 1.0
            return x[0, 0]

        gradient(lambda x: twice(x * 1.0), X)
    assert type(tracker.numpy.nditer(X)) is numpy.nditer
    assert tracker.numpy.lib.stride_tricks.as_strided(X).base is not None


@pytest.mark.parametrize("x", [X, X.T, X[:, ::-1], X.T[::-1, ::-1], numpy.asfortranarray(X)])
@pytest.mark.parametrize("order", ["K", "C", "F", "A"])
def test_elements_come_in_the_order_of_plain_numpy(x, order):
    def f(np, x):
        found = [np.log(abs(e)) for e in np.nditer(x, order=order)]
        it = np.nditer([x, np.arange(x.size * 1.0).reshape(x.shape)], ["f_index"], order=order)
        places = []
        while not it.finished:
            places.append((it.index, it[0] * it[1]))
            it.iternext()
        return found, places

    want, compiled = f(numpy, x), jit(lambda x: f(tracker.numpy, x))
    for got in (compiled(x), compiled(x)):
        numpy.testing.assert_allclose(got[0], want[0])
        numpy.testing.assert_allclose(got[1], want[1])


def test_broadcast_walks_over_tracked_arrays():
    def f(np, x):
        both = np.broadcast(x, x[0])
        total = sum(a * b * both.index for a, b in both)
        assert (both.shape, both.nd, both.size, both.numiter) == ((2, 3), 2, 6, 2)
        both.reset()
        return total + next(both)[1] * 0 + sum(part[0] for part in both.iters)

    want = f(numpy, X)
    for g in (lambda x: f(tracker.numpy, x), jit(lambda x: f(tracker.numpy, x))):
        numpy.testing.assert_allclose(data(g(X)), want)
        numpy.testing.assert_allclose(gradient(g, X)[0], ngradient(g, X)[0], rtol=1e-8)
    assert type(tracker.numpy.broadcast(X, X[0])) is numpy.broadcast


def test_lexsort_of_a_list():
    order = gradient(lambda x: x[0, tracker.numpy.lexsort([x[0], x[1]])][0], X)[0]
    numpy.testing.assert_array_equal(order, [[0, 1, 0], [0, 0, 0]])
