"""Writes into arrays of other shapes and memory layouts: reshaped, transposed, broadcast and
overlapping views."""

import numpy as np
import pytest
from compare_writes import same_as_numpy

import tracker
import tracker.numpy as tnp
from tracker import data, gradient, jit, jvp, param


@pytest.mark.parametrize("order", ["C", "F", "A"])
@pytest.mark.parametrize("turn", [lambda t: t, lambda t: t.T])
def test_writes_through_views_reshaped_in_any_order(order, turn):
    def run(x):
        base = turn(x)
        part = base.reshape(3, 2, order=order)
        part[0, 1] = 7.0
        part += 1.0
        flat = base.ravel("K")
        flat[2] = -5.0
        return x

    a = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(run(param(a)).data, run(a.copy()))


def test_the_shape_can_be_set():
    def f(a):
        a = a * 2
        row = a[:2]
        a.shape = 2, -1
        a[0, 1] = a[1, 0] * row[0]  # seen by the old view, of the old shape
        part = a[1]
        part.shape = 1, 2, 1
        part[0, 1] *= part[0, 0]
        row[0] += 3 * row[1]
        with pytest.raises(ValueError, match="reshape"):
            a.shape = 3
        return np.sum(a**2 * np.arange(4.0).reshape(2, 2)) + np.sum(row) + a[0, 0]

    x = np.array([0.3, 1.2, -0.7, 2.0])
    same_as_numpy(f, x)
    assert tracker.gradcheck(f, x) and tracker.gradcheck(tracker.jit(f), x)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
def test_the_shape_of_an_array_without_elements_can_be_set(shape):
    def f(x):
        y = x * 2
        y.shape = -1
        y[:] = 1
        part = y[:0]
        part.shape = 3, 0
        return np.sum(y) + np.sum(part.T)

    for g in (f, tracker.jit(f)):
        assert g(np.zeros(shape)) == 0
        assert np.shape(tracker.gradient(g, np.zeros(shape))[0]) == shape


def test_setting_a_shape_that_needs_a_copy_raises():
    def f(x):
        y = (x * 2).T
        y.shape = 6
        return y

    for g in (f, tracker.jit(f), lambda x: tracker.gradient(lambda x: np.sum(f(x)), x)):
        with pytest.raises(AttributeError, match=r"reshape"):
            g(np.zeros((2, 3)))


def test_the_shape_of_an_argument_and_of_a_param():
    def f(x):
        x.shape = 2, 2
        return x[0, 1] ** 2

    for g in (f, tracker.jit(f)):
        assert tracker.gradient(g, np.ones(4))[0].tolist() == [0, 2, 0, 0]
    with pytest.raises(tracker.UnsupportedError, match=r"reshape\(shape\)"):
        param(np.ones(4)).shape = 2, 2


@pytest.mark.filterwarnings("ignore:f runs in plain Python:RuntimeWarning")
def test_writes_of_a_jitted_function_reach_a_reshaped_argument():
    def f(x):
        x.shape = 2, 2
        x[0] = x[1] * 2
        return x.sum()

    compiled = tracker.jit(f)
    for _ in range(2):
        x = np.arange(4.0)
        assert compiled(x) == 15.0
        np.testing.assert_array_equal(x, [[4, 6], [2, 3]])


@pytest.mark.parametrize("x", [
    np.broadcast_to(np.arange(4.0), (3, 4)), np.broadcast_to(np.arange(3.0)[:, None], (3, 4)),
    np.broadcast_to(np.arange(6.0).reshape(2, 1, 3), (2, 4, 3)).transpose(2, 1, 0),
    np.asfortranarray(np.arange(12.0).reshape(3, 4)).astype(">f8", order="K"),
])  # fmt: skip
def test_results_of_broadcast_arrays_have_numpys_layout(x):
    def f(x):
        t = x * 0.5
        t.reshape(-1)[::3] = 7.0  # into t, or into a copy of it
        return t

    slope = np.where(f(x) == 7.0, 0.0, 0.5)
    fast = tracker.jit(f)
    for _ in range(2):
        np.testing.assert_array_equal(fast(x), f(x))
        np.testing.assert_array_equal(tracker.gradient(lambda x: np.sum(f(x)), x)[0], slope)
        np.testing.assert_array_equal(tracker.gradient(lambda x: np.sum(fast(x)), x)[0], slope)


@pytest.mark.parametrize(
    "key", [np.array(1), (..., np.array(1)), (np.array(1), slice(None)), (0, np.array(2))]
)
def test_a_read_by_a_0d_array_is_a_copy(key):
    def f(x, key):
        y = x * 1.0
        part = y[key]
        if np.ndim(part):
            part[...] = 0.0
        y[key] += x[0, 0]
        return y

    x = np.arange(1.0, 7.0).reshape(2, 3)
    want = f(x, key)
    for each in (f, tracker.jit(f)):
        got, pull = tracker.pullback(lambda x, each=each: each(x, key), x)
        np.testing.assert_array_equal(got, want)
        (g,) = pull(np.ones((2, 3)))
        assert g[0, 0] == 1 + np.size(x[key])


_SQUARE = np.array([[2.0, 0.3, 0.1], [0.4, 3.0, 0.2], [0.5, 0.6, 1.5]])


@tracker.custom_gradient
def _exp_by_rule(x):
    y = np.exp(x)
    return y, lambda g: (g * y,)


@pytest.mark.parametrize("made", [
    np.linalg.inv, np.linalg.cholesky, np.exp, np.cumprod, _exp_by_rule, tracker.nn.softmax,
    lambda x: np.max(x, axis=0, keepdims=True),
    lambda x: np.prod(x, axis=0),
    lambda x: np.linalg.solve(x, x[0]),
    lambda x: np.sort(x, axis=0),
    lambda x: x @ x,
    lambda x: x.copy(),
])  # fmt: skip
def test_a_write_into_a_result_keeps_the_values_of_its_rule(made):
    """The rule of an inverse reads its result, so a write into the result goes to a copy."""

    def written(x):
        y = made(x)
        y[:1] = 0.5
        y[-1:] *= y[:1]
        return np.sum(np.sin(y))

    def with_copy(x):
        y = made(x) * 1.0
        y[:1] = 0.5
        y[-1:] *= y[:1]
        return np.sum(np.sin(y))

    x, want = _SQUARE, gradient(with_copy, _SQUARE)[0]
    for f in (written, tracker.jit(written)):
        np.testing.assert_allclose(gradient(f, x)[0], want, rtol=1e-12, atol=1e-14)
        t = jvp(f, (x,), (np.ones_like(x),))[1]
        np.testing.assert_allclose(t, np.sum(want), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("x", [
    *(np.ones((8, 3))[::2], np.ones((4, 6))[:, ::2], np.ones((4, 3))[::-1]),
    *(np.ones((4, 3))[:, ::-1], np.ones((3, 8)).T[::2], np.ones((2, 6, 4))[:, ::2]),
    *(np.ones((5, 8))[1::2, 2::3],),
], ids=lambda x: str(x.strides))  # fmt: skip
@pytest.mark.parametrize("flat", [lambda t: t.reshape(-1), lambda t: t.ravel()])
def test_reshapes_of_strided_arrays_are_views_where_numpys_are(x, flat):
    def f(x):
        flat(x)[::3] = 7.0  # into x, or into a copy of it
        return np.sum(x * x)

    def at_ones(f):
        x[...] = 1.0
        return f(x)

    want, fast = at_ones(f), tracker.jit(f)
    for _ in range(2):
        assert at_ones(fast) == want
        assert at_ones(tracker.value_and_grad(f))[0] == want
        assert at_ones(tracker.value_and_grad(fast))[0] == want


_WRITES_ALL_OVER = {
    "transposed": lambda x: x.T.__setitem__(0, 3.0),
    "added": lambda x: x.__iadd__(np.arange(24.0).reshape(4, 6)),
    "added in Fortran order": lambda x: x.__iadd__(np.arange(24.0).reshape(6, 4).T),
    "swapped": lambda x: np.swapaxes(x, 0, 1)[1].__imul__(2.0),
    "flat": lambda x: x.flat.__setitem__(3, 1.0),
    "row": lambda x: x.__setitem__(0, x[1]),
    "masked": lambda x: x.__setitem__(x > 3.0, 1.0),
    "sorted": lambda x: x.sort(axis=0),
    "diagonal": lambda x: np.fill_diagonal(x, 1.0),
}

_GRID = np.arange(24.0).reshape(4, 6) / 7

_LAYOUTS = {
    "C": lambda: _GRID.copy(),
    "F": lambda: np.asfortranarray(_GRID),
    "gaps": lambda: np.repeat(_GRID, 2, 1)[:, ::2],
    "reversed": lambda: _GRID[::-1].copy()[::-1],
    "reversed F": lambda: np.asfortranarray(_GRID[:, ::-1])[:, ::-1],
}


@pytest.mark.parametrize("layout", _LAYOUTS)
@pytest.mark.parametrize("write", _WRITES_ALL_OVER.values(), ids=_WRITES_ALL_OVER)
def test_a_write_keeps_the_memory_layout(write, layout):
    def f(x):
        write(x)
        flat = x.reshape(-1)
        flat[1] = 9.0  # into x where its layout makes the reshape a view
        turned = x.T.reshape(-1)
        turned[2] = 8.0
        return x, flat, turned, x * 2, np.ravel(x, "K")

    def loss(x):
        return sum(
            np.sum(np.sin(part) * np.arange(1, part.size + 1)) for part in map(np.ravel, f(x))
        )

    make, fast, fast_loss = _LAYOUTS[layout], tracker.jit(f), tracker.jit(loss)
    plain = make()
    want, value = f(plain), loss(make())
    for _ in range(2):
        given = make()
        got = fast(given)
        assert got[0] is given
        for one, other in zip((given, *got), (plain, *want), strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.strides == other.strides
        slopes = [gradient(g, make())[0] for g in (loss, fast_loss)]
        np.testing.assert_allclose(*slopes, rtol=1e-12)
        for g in (loss, fast_loss):
            assert tracker.value_and_grad(g)(make())[0] == pytest.approx(value, rel=1e-12)
    tracker.testing.gradcheck(loss, make() + 0.01 * np.sin(1 + np.arange(24.0).reshape(4, 6)))


@pytest.mark.parametrize("place", [slice(None, None, 2), [0, 1, 2, 3], 0, slice(0, 0), slice(1, 3)])
@pytest.mark.parametrize(
    "values", [[1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]], 5.0, [5.0], range(10), []]
)
def test_flat_repeats_values(place, values):
    def outcome(make, run=lambda f, a: f(a)):
        def write(a):
            a.flat[place] = values

        array = make(np.arange(6.0).reshape(2, 3))
        try:
            run(write, array)
        except ValueError as error:
            return str(error)
        return data(array).tolist()

    want = outcome(lambda x: x)
    assert outcome(param) == want
    assert outcome(lambda x: x, lambda f, a: jit(f)(a)) == want


@pytest.mark.parametrize("write, want", [
    (lambda a: a.__setitem__(np.ones(4, bool), a[::-1]), [3.0, 2.0, 1.0, 0.0]),
    (lambda a: a.flat.__setitem__(slice(None), a[::-1]), [3.0, 2.0, 1.0, 0.0]),
    (lambda a: a.__setitem__([0, 1, 2, 3], a[::-1]), [3.0, 2.0, 1.0, 0.0]),
    (lambda a: np.place(a, a > 0.5, a), [0.0, 0.0, 1.0, 2.0]),
    (lambda a: np.copyto(a, a[::-1], where=a > 0.5), [0.0, 2.0, 1.0, 0.0]),
])  # fmt: skip
def test_overlapping_writes_read_old_values(write, want):
    def written(a):
        write(a)
        return a

    assert data(written(param(np.arange(4.0)))).tolist() == want
    assert jit(lambda a: written(a * 1.0))(np.arange(4.0)).tolist() == want
    sources = [int(x) for x in want]  # the values are their own places
    weights = np.arange(1.0, 5.0)
    (g,) = gradient(lambda a: np.sum(written(a * 1.0) * weights), np.arange(4.0))
    assert g.tolist() == [weights[np.equal(sources, i)].sum() for i in range(4)]


@pytest.mark.parametrize("write", [
    lambda a: a.__iadd__(1.0),
    lambda a: a.sort(),
    lambda a: a.__setitem__(a > 0.5, 1.5),
    lambda a: a.__setitem__([0, 1], a[[1, 0]]),
    lambda a: np.put(a, [0], 3.0),
    lambda a: np.exp(a, out=a),
])  # fmt: skip
@pytest.mark.parametrize("step", [2, -1, 1])
def test_a_strided_vector_stays_strided_after_a_write(write, step):
    """So `ravel` copies it."""

    def f(a, s):
        write(a)
        a.ravel()[0] = s
        return np.sum(a * a)

    whole = np.linspace(0.1, 1.2, 12)
    compiled = jit(f)
    for _ in range(3):
        mine, other = whole.copy(), whole.copy()
        assert compiled(mine[::step], 5.0) == pytest.approx(f(other[::step], 5.0))
        np.testing.assert_allclose(mine, other)
    for g in (f, compiled):
        assert gradient(g, whole[::step], 5.0)[1] == (10.0 if step == 1 else 0.0)


@pytest.mark.parametrize("step", [2, -1, 1])
@pytest.mark.parametrize("convert", ["asarray", "asanyarray", "ascontiguousarray", "array"])
def test_asarray_without_conversion_returns_the_strided_array_itself(convert, step):
    def f(a, s):
        made = tnp.array(a, copy=None) if convert == "array" else getattr(tnp, convert)(a)
        a += 1.0
        made.ravel()[0] = s
        made[1] *= 2.0
        return made * 1.0, a * 1.0, made is a

    whole = np.linspace(0.1, 1.2, 12)
    compiled = jit(f)
    for _ in range(3):
        mine, other = whole.copy(), whole.copy()
        for got, want in zip(compiled(mine[::step], 5.0), f(other[::step], 5.0), strict=True):
            np.testing.assert_allclose(got, want)
        np.testing.assert_allclose(mine, other)

    def loss(a, s):
        made, a, _ = f(a, s)
        return np.sum(made) + 3.0 * np.sum(a)

    shared = convert != "ascontiguousarray" or step == 1
    written = step == 1 or not shared  # else `ravel` is a copy
    for g in (loss, jit(loss)):
        assert gradient(g, whole[::step], 5.0)[1] == written * (4.0 if shared else 1.0)
