"""gradient, withgradient, value_and_grad, pullback, pushforward, jvp; structures of arguments."""

import functools
import tracemalloc
from typing import Any, NamedTuple

import numpy as np
import pytest
from equality import assert_same
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import tracker
from tracker import gradient, hessian, jit, jvp, pullback, pushforward, value_and_grad, withgradient
from tracker.testing import gradcheck, ngradient

same = functools.partial(assert_same, tolerance=1e-7)
V = np.array([1.0, 2.0, 3.0])


# gradient -----------------------------------------------------------------------------------------


def test_the_entries_have_their_arguments_types():
    f32 = np.ones(2, np.float32)
    args = (2.0, np.float32(2), 3, V, f32, np.arange(2), [1, 2], 1 + 1j, True, np.ones(()))
    same(
        gradient(lambda *xs: sum(np.sum(np.real(x) * 2) for x in xs), *args),
        (
            2.0,
            np.float32(2),
            2.0,
            2 * np.ones(3),
            2 * f32,
            2 * np.ones(2),
            2 * np.ones(2),
            2 + 0j,
            2.0,
            np.full((), 2.0),
        ),
    )


def test_unreached_arguments():
    same(
        gradient(lambda x, *_: x, 1.0, 2.0, V, 1j, np.float32(1), 3, np.arange(2), "s", None, len),
        (1.0, 0.0, np.zeros(3), 0j, np.float32(0), None, None, None, None, None),
    )
    same(gradient(lambda x: 3.0, 2.0), (0.0,))
    same(gradient(lambda x: 3, V), (np.zeros(3),))
    assert gradient(lambda: 3.0) == ()


def test_keywords_are_passed_on_untracked():
    def f(x, *, k, scale):
        assert type(k) is int
        assert not tracker.istracked(scale)
        return np.sum(x * scale) * k

    same(gradient(f, V, k=2, scale=V), (2 * V,))


def test_integers_index_and_count():
    def f(w, labels, n):
        assert tracker.data(labels).dtype == np.int64
        total = 0.0
        for i in range(n):
            total = total + w[labels[i], i] + w[i, labels][0]
        return total

    w = np.arange(9.0).reshape(3, 3)
    g, *rest = gradient(f, w, np.array([2, 0, 1]), 3)
    assert rest == [None, None]
    same(g, ngradient(lambda w: f(w, np.array([2, 0, 1]), 3), w)[0])
    same(gradient(lambda n: n * 2.0, 3), (2.0,))
    same(gradient(lambda n: n**2, 3), (6.0,))


def test_complex_gradients_are_steepest_ascent():
    z = np.array([1 + 2j, -0.5j])
    same(gradient(lambda z: np.sum(np.abs(z) ** 2), z), (2 * z,))
    same(gradient(lambda z: np.sum(np.real(z * z)), z), (2 * np.conj(z),))
    same(gradient(lambda x: np.abs(x * 1j), 2.0), (1.0,))


@pytest.mark.parametrize(
    "f", [lambda z: abs(z) ** 2, lambda z: abs(z * z.real) ** 2, lambda z: np.angle(z) * z.imag]
)
def test_second_derivatives_at_complex_numbers_of_python(f):
    def slope(z):
        return gradient(f, z)[0]

    want = jvp(slope, (np.array(4 + 5j),), (np.array(1 + 2j),))
    np.testing.assert_allclose(jvp(slope, (4 + 5j,), (1 + 2j,)), want, rtol=1e-14)


def test_results_are_independent_arrays():
    x = V.copy()
    g, h = gradient(lambda a, b: np.sum(a + b), x, x)
    g[0] = 9.0
    assert h.tolist() == [1, 1, 1]
    assert x.tolist() == V.tolist()
    val, _ = withgradient(lambda a: (np.sum(a), a), x)
    val[1][:] = 0.0
    assert x.tolist() == V.tolist()


def test_the_same_array_in_two_places_has_two_gradients():
    same(gradient(lambda a, b: np.sum(a * a * b), V, V), (2 * V * V, V * V))
    same(gradient(lambda d: np.sum(d[0] * d[1][0] ** 2), (V, [V])), ((V**2, [2 * V * V]),))


class Pair(NamedTuple):
    w: Any
    b: Any


# withgradient, value_and_grad ---------------------------------------------------------------------


def test_withgradient():
    found = withgradient(lambda x: np.sum(np.abs(x) ** 2) + np.prod(x[1:]), [1, 2, 3])
    assert repr(found) == "(val=20, grad=(array([2., 7., 8.]),))"
    val, (g,) = found
    assert (val, found.val) == (20, 20)
    same(g, found.grad[0])
    assert repr(withgradient(lambda x: x * 2, np.float64(2))) == "(val=4.0, grad=(2.0,))"


def test_withgradient_of_structures():
    val, (g,) = withgradient(lambda x: (x**2, {"twice": 2 * x}, "note"), 3.0)
    same(val, (9.0, {"twice": 6.0}, "note"))
    assert g == 6.0
    val, (g,) = withgradient(lambda x: {"loss": np.sum(x**2), "x": x}, V)
    same(val, {"loss": np.float64(14.0), "x": V})
    same(g, 2 * V)
    val, (g,) = withgradient(lambda x: Pair(x**2, x), 3.0)
    same(val, Pair(9.0, 3.0))


def test_integers_in_withgradient():
    same(withgradient(lambda a, b: a * b, 2, 3.0).grad, (3.0, 2.0))
    same(withgradient(lambda a, b: a[0] * b, (2, "x"), 3.0).grad, ((None, None), 2.0))


def test_value_and_grad():
    def f(x, y, k=1):
        return np.sum(x * x) * y * k

    same(value_and_grad(f)(V, 2.0), (np.float64(28.0), 4 * V))
    same(value_and_grad(f, 1)(V, 2.0, k=3), (np.float64(84.0), np.float64(42.0).item()))
    same(value_and_grad(f, (1, 0))(V, 2.0), (np.float64(28.0), (14.0, 4 * V)))
    same(value_and_grad(f, -1)(V, 2.0), (np.float64(28.0), 14.0))


def test_value_and_grad_serves_scipy():
    def rosen(x):
        return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    found = minimize(value_and_grad(rosen), [1.3, 0.7, 0.8], jac=True, method="BFGS")
    np.testing.assert_allclose(found.x, np.ones(3), atol=1e-4)


# pullback, pushforward, jvp -----------------------------------------------------------------------


def test_pullback():
    y, back = pullback(lambda x, n: x**2 * n, V, 3.0)
    same(y, 3 * V**2)
    same(back(np.ones(3)), (6 * V, 14.0))
    same(back([1, 0, 0]), (np.array([6.0, 0, 0]), 1.0))
    y, back = tracker.forward(lambda x: [3 * x**2, 2 * x], 5.0)
    same(y, [75.0, 10.0])
    assert back([1.0, 1.0]) == (32.0,)
    assert back([None, 1.0]) == (2.0,)
    assert back(None) == (0.0,)


def test_later_writes_do_not_change_a_pullback():
    kept = []

    def f(x):
        y = x * 2
        kept.append(y)
        return y

    y, back = pullback(f, V)
    _, push = pushforward(f, V)
    for buffer in kept:
        buffer[:] = 0.0
    assert y.tolist() == (2 * V).tolist()
    assert back(np.ones(3))[0].tolist() == [2, 2, 2]
    assert push(np.ones(3)).tolist() == [2, 2, 2]


def test_pullback_of_structures():
    y, back = pullback(lambda x, s: {"a": x * 2, "b": (s * x[0], "text", 4.0)}, V, 3.0)
    same(y, {"a": 2 * V, "b": (np.float64(3.0), "text", 4.0)})
    same(back({"a": None, "b": (2.0, None, None)}), (np.array([6.0, 0, 0]), 2.0))


def test_pushforward_and_jvp():
    y, push = pushforward(lambda x, s: (x * s, s, 7.0), V, 2.0)
    same(y, (2 * V, 2.0, 7.0))
    dy, ds, rest = push(np.ones(3), 1.0)
    same(dy, 2 + V)
    assert (float(ds), float(rest)) == (1.0, 0.0)
    same(push(np.ones(3), None)[0], np.full(3, 2.0))
    same(
        jvp(lambda d: d["w"] * d["b"], ({"w": V, "b": 2.0},), ({"w": V, "b": 1.0},)), (2 * V, 3 * V)
    )
    y, dy = jvp(np.sin, (np.float32(0.0),), (1.0,))
    assert type(y) is np.float32
    assert np.result_type(dy) == np.float32


@given(st.integers(0, 10_000))
def test_jvp_is_the_transpose_of_the_pullback(seed):
    rng = np.random.default_rng(seed)
    a, x, t, g = rng.normal(size=(2, 3)), *rng.normal(size=(2, 3)), rng.normal(size=2)

    def f(x):
        return np.tanh(a @ x) * x[:2]

    _, dy = jvp(f, (x,), (t,))
    _, back = pullback(f, x)
    assert np.dot(dy, g) == pytest.approx(np.dot(back(g)[0], t))


# Arguments, layouts, kinds ------------------------------------------------------------------------


def test_a_write_into_arguments_that_share_memory_is_refused():
    def f(a, b):
        a[0] = 5 * b[1]
        return np.sum(a * b)

    w = np.arange(3.0)
    with pytest.raises(tracker.UnsupportedError, match=r"shares memory.*copy.*test_gradients.py"):
        tracker.withgradient(f, w, w)
    assert tracker.withgradient(f, w, w.copy()).val == f(w.copy(), w.copy())
    assert tracker.gradient(lambda a, b: np.sum(a * b), w, w)[0].tolist() == [0.0, 1.0, 2.0]


def test_arguments_keep_their_layout():
    def f(x):
        x.ravel()[0] = 9.0  # a copy in Fortran order, a view in C order
        return np.sum(x)

    for order in "CF":
        x = np.array(np.arange(6.0).reshape(2, 3), order=order)
        assert tracker.withgradient(f, x).val == f(x.copy("K"))


@pytest.mark.parametrize("call, error, text", [
    (lambda: value_and_grad(np.sum, argnums=2)(2.0), "NotTracked", r"argument 2.*1 positional"),
    (lambda: value_and_grad(np.sum)(a=2.0), "NotTracked", r"argument 0.*0 positional"),
    (lambda: jvp(np.sin, V, V), "Unsupported", r"tuples.*jvp\(f, \(x,\), \(t,\)\)"),
    (lambda: jvp(np.sin, (V,), (V[1:],)), "NotScalar", r"tangent has shape \(2,\), the argument"),
])  # fmt: skip
def test_refused_arguments(call, error, text):
    with pytest.raises(getattr(tracker, f"{error}Error"), match=text):
        call()


@pytest.mark.parametrize("run", [lambda f: f, jit], ids=["eager", "traced"])
def test_sparse_cotangents_accumulate(run):
    """Overlapping reads, whole uses and writes of one array, in every order of arrival."""

    def f(x):
        y = np.copy(x)
        total = x[0] * x[2] + np.sum(x[1:3] ** 2) + x[0] ** 3
        for i in range(1, len(x)):
            y[i] = y[i - 1] * x[i] + x[-1]
        y[1:] *= 2.0
        return total + np.sum(y * x) + np.sum(x[::-1][:2] * y[:2])

    x = np.array([0.3, -1.2, 0.7, 0.4, 1.1])
    assert gradcheck(f, x, order=2)
    np.testing.assert_allclose(gradient(run(f), x)[0], gradient(f, x)[0], rtol=1e-12)
    np.testing.assert_allclose(hessian(run(f), x), hessian(f, x), rtol=1e-11)


def test_element_reads_need_linear_memory():
    def f(x):
        total = 0.0
        for i in range(len(x)):
            total = total + x[i] * x[i - 1]
        return total

    x = np.ones(3000)
    tracemalloc.start()
    gradient(f, x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3000 * 3000 * 8 / 4


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "f", [np.sum, lambda x: np.sum(np.mean(x, axis=0) ** 2), lambda x: np.sum(np.sum(x, axis=1))]
)
@pytest.mark.parametrize("compiled", [False, True])
def test_broadcast_gradients_have_their_arguments_layout(f, order, compiled):
    x = np.asarray(np.arange(42.0).reshape(6, 7), order=order)
    ours = tracker.jit(lambda x: gradient(f, x)) if compiled else lambda x: gradient(f, x)
    want = ngradient(f, x)[0]
    for _ in range(2):
        (g,) = ours(x)
        assert g.strides == x.strides
        np.testing.assert_allclose(g, want, atol=1e-5)


@pytest.mark.parametrize("x", [3, np.int64(3), np.array([3, 4])])
@pytest.mark.parametrize("f", [
    lambda x: np.multiply(2.0, x),
    lambda x: np.add(x, 1.0) * 1.5,
    lambda x: np.divide(2.0, x),
    lambda x: np.power(x, 2.0),
    lambda x: np.square(x) * 0.5,
    lambda x: 1.5 * x + np.multiply(x, x) * 0.5,
    lambda x: np.maximum(x, 3) * 0.5,
    lambda x: np.clip(x, 1, 3) * 0.5,
    lambda x: 1.5 * x * x,
])  # fmt: skip
def test_integers_differentiate_as_floats_do(f, x):
    def loss(x):
        return np.sum(f(x)) if np.ndim(x) else f(x)

    want = gradient(loss, np.asarray(x, float))[0]
    for run in (loss, jit(loss)):
        np.testing.assert_allclose(gradient(run, x)[0], want, rtol=1e-14)
    np.testing.assert_allclose(jit(lambda x: gradient(loss, x))(x)[0], want, rtol=1e-14)


def test_second_derivatives_in_integers():
    """The cotangent of 1.5 * x is x itself, which is a whole number."""
    for f in (lambda x: 1.5 * x * x, lambda x: (x + 0.5) * x * 1.5):
        assert gradient(lambda x, f=f: gradient(f, x)[0], 3) == (3.0,)
        assert hessian(f, 3) == jit(lambda x, f=f: hessian(f, x))(3) == 3.0


@pytest.mark.parametrize("f", [
    lambda x: x.astype(np.int32) * 0.5,
    lambda x: np.sum(x, dtype=np.int32) * 0.5,
    lambda x: np.sum(np.cumsum(x, axis=None, dtype=np.int32)[-1:] * 0.5),
    lambda x: tracker.scan(lambda c, t: (c + t, None), x, np.arange(3))[0] * 0.5,
])  # fmt: skip
def test_casts_among_integers_keep_the_derivative(f):
    for x in (np.int64(3), np.array(3), np.array(3, np.int8)):
        for run in (f, jit(f)):
            assert gradient(run, x) == (0.5,)
            assert jvp(run, (x,), (0.25,))[1] == 0.125
        assert jit(lambda x: jvp(f, (x,), (0.25,))[1])(x) == 0.125


@pytest.mark.parametrize("keep", [lambda x: x * 2.0, lambda x: x])
def test_a_value_that_a_derivative_has_left_behind_is_an_argument_like_others(keep):
    kept = []

    def f(x):
        kept.append(keep(x))
        return x * x

    gradient(f, 1.0)
    (x,) = map(tracker.data, kept)
    assert gradient(lambda y: gradient(lambda z: z**3, y)[0], kept[0]) == (6 * x,)
    assert gradient(lambda y: gradient(lambda z: z**3 * y, y)[0], kept[0]) == (9 * x**2,)
    assert gradient(lambda y: np.sum(tracker.jacobian(lambda z: y * z**2, y)[0]), kept[0]) == (
        4 * x,
    )
