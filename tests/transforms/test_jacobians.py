"""jacobian, hessian and their relatives; Params and Grads."""

import numpy as np
import pytest

import tracker
from tracker import Params, back, diaghessian, gradient, hessian, hvp, jacobian, param, withjacobian
from tracker.testing import numerical_jvp

V = np.array([0.5, -1.0, 2.0])
A = np.arange(6.0).reshape(2, 3)


def numeric(f, x):
    """The jacobian by differences."""
    x = np.asarray(x, float)
    columns = []
    for k in range(x.size):
        t = np.zeros(x.size)
        t[k] = 1.0
        columns.append(np.ravel(numerical_jvp(lambda a: [f(a)], [x], [t.reshape(x.shape)])[0]))
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("f, x", [
    (lambda x: A @ np.sin(x), V),
    (lambda x: np.outer(x, x) * x[0], V),
    (lambda x: np.sum(x**2), V),
    (lambda x: np.sort(x)[:2] * np.prod(x), V),
    (lambda x: x[:, 0] * x[0, 1], A),
    (lambda x: x.T * 2, A),
])  # fmt: skip
def test_jacobian(f, x):
    (found,) = jacobian(f, x)
    np.testing.assert_allclose(found, numeric(f, x), atol=1e-7)
    (shaped,) = jacobian(f, x, shaped=True)
    assert shaped.shape == np.shape(f(x)) + x.shape
    np.testing.assert_array_equal(shaped.reshape(found.shape), found)
    val, (again,) = withjacobian(f, x)
    np.testing.assert_array_equal(val, f(x))
    np.testing.assert_array_equal(again, found)


@pytest.mark.parametrize("derivative", [
    lambda f, x: jacobian(f, x)[0],
    lambda f, x: hessian(lambda x: np.sum(f(x) ** 2), x),
    lambda f, x: tracker.vmap(lambda w: tracker.pullback(f, x)[1](w)[0])(np.eye(len(x))),
    lambda f, x: tracker.sparse.jacobian(f, x)(x).toarray(),
])  # fmt: skip
def test_a_rule_that_captures_an_array_of_the_function(derivative):
    def f(x, matrix=None):
        matrix = np.ones((4, 4)) + np.eye(4) if matrix is None else matrix

        @tracker.custom_gradient
        def product(x):
            return matrix @ x, lambda dy: (matrix.T @ dy,)

        return product(x)

    x, matrix = np.arange(1.0, 5.0), np.ones((4, 4)) + np.eye(4)
    found = derivative(f, x)
    assert type(found) is np.ndarray
    np.testing.assert_allclose(found, derivative(lambda x: matrix @ x, x))


def test_shapes_of_jacobians():
    jx, js, jn, jt = jacobian(lambda x, s, n, text: x * s * n, V, 2.0, 3, "text")
    assert (jx.shape, js.shape, jn.shape, jt) == ((3, 3), (3,), (3,), None)
    assert jacobian(lambda x, s: np.sum(x) * s, V, 2.0)[0].shape == (1, 3)
    assert jacobian(lambda s: s * s, 3.0)[0].tolist() == [6.0]
    assert jacobian(lambda s: s * s, 3.0, shaped=True)[0] == 6.0
    zero, none = jacobian(lambda x, n: np.ones(2), V, 3)
    assert zero.tolist() == np.zeros((2, 3)).tolist()
    assert none is None or none.tolist() == [0, 0]
    assert jacobian(lambda x: x * 2, [1, 2])[0].tolist() == [[2, 0], [0, 2]]
    assert jacobian(lambda x: x * 2, np.ones(2, np.float32))[0].dtype == np.float32


def test_holomorphic_derivatives():
    z = np.array([1 + 2j, 0.5 - 1j])
    (found,) = jacobian(lambda z: z**2 * z[0], z)
    want = np.diag(2 * z * z[0]) + np.outer(z**2, [1, 0])
    np.testing.assert_allclose(found, want)
    np.testing.assert_allclose(
        jacobian(lambda x: np.exp(1j * x), V)[0], np.diag(1j * np.exp(1j * V))
    )
    np.testing.assert_allclose(jacobian(lambda z: np.abs(z) ** 2, z)[0], np.diag(2 * z))


def f(x):
    return np.sum(np.tanh(np.outer(x, x)) * x) + np.prod(x)


def test_hessians_agree():
    want = numeric(lambda a: gradient(f, a)[0], V)
    for h in (hessian, tracker.hessian_reverse):
        np.testing.assert_allclose(h(f, V), want, atol=1e-7)
        assert h(lambda x: x**3, 2.0) == 12.0
        assert h(lambda x: np.sum(x**2), np.ones((2, 2))).tolist() == (2 * np.eye(4)).tolist()
        assert h(lambda x: np.prod(x), [2, 3]).tolist() == [[0, 1], [1, 0]]
    np.testing.assert_allclose(hvp(f, V, np.ones(3)), want.sum(1), atol=1e-7)
    np.testing.assert_allclose(diaghessian(f, V)[0], np.diag(want), atol=1e-7)
    np.testing.assert_allclose(jacobian(lambda a: gradient(f, a)[0], V)[0], want, atol=1e-7)


def test_diaghessian_of_several_arguments():
    dx, dy, none = diaghessian(lambda x, y, _: np.sum(x**3) * y**2, A, 3.0, "text")
    np.testing.assert_allclose(dx, 6 * A * 9)
    assert dy == 2 * np.sum(A**3)
    assert none is None


def test_hvp_of_a_structure():
    found = hvp(lambda m: np.sum(m["w"] ** 2) * m["b"], {"w": V, "b": 2.0}, {"w": V, "b": 1.0})
    np.testing.assert_allclose(found["w"], 4 * V + 2 * V)
    assert found["b"] == pytest.approx(2 * V @ V)


def test_a_gradient_through_a_jacobian():
    (found,) = gradient(lambda x: np.sum(jacobian(lambda a: a**3, x)[0] ** 2), V)
    np.testing.assert_allclose(found, 36 * V**3)
    (found,) = gradient(lambda x: np.trace(hessian(lambda a: np.sum(a**4), x)), V)
    np.testing.assert_allclose(found, 24 * V)


# Params -------------------------------------------------------------------------------------------


def test_gradients_of_params():
    w, b, rest = param(V), param(2.0), param(np.ones((2, 2), np.float32))
    ps = Params([w, b, w, rest])
    assert len(ps) == 3
    gs = gradient(lambda: np.sum(w * w) * b, ps)
    assert isinstance(gs, tracker.Grads)
    assert gs[w].tolist() == (4 * V).tolist()
    assert gs[b] == V @ V
    assert gs[rest].tolist() == [[0, 0], [0, 0]]
    assert gs[rest].dtype == np.float32
    assert [x is y for x, y in zip(gs, (w, b, rest), strict=True)] == [True] * 3
    assert (len(gs), w in gs, param(V) in gs, V in gs) == (3, True, False, False)
    with pytest.raises(KeyError, match=r"Params\(\[\.\.\.\]\)"):
        gs[param(V)]
    assert w.grad.tolist() == [0, 0, 0]
    val, gs = tracker.withgradient(lambda: (np.sum(w), b), ps)
    assert (val[0], val[1], gs[b]) == (1.5, 2.0, 0.0)
    assert gs[w].tolist() == [1, 1, 1]


def test_params_go_by_identity():
    a, b = param(1.0), param(1.0)
    gs = gradient(lambda: a * 2, Params([a, b]))
    assert (gs[a], gs[b]) == (2.0, 0.0)
    gs = gradient(lambda: 3.0, Params([a]))
    assert gs[a] == 0.0
    tracker.update(a, 1.0)
    assert gradient(lambda: a * a, Params([a]))[a] == 4.0


def test_jacobians_of_params():
    w, s = param(V), param(2.0)
    js = jacobian(lambda: w * s, Params([w, s]))
    assert js[w].tolist() == (2 * np.eye(3)).tolist()
    assert js[s].tolist() == V.tolist()


def test_other_params_are_constants_and_outer_arguments_are_not():
    w, other = param(V), param(2.0)
    gs = gradient(lambda: np.sum(w * w) * other, Params([w]))
    assert type(gs[w]) is np.ndarray
    assert gs[w].tolist() == (4 * V).tolist()
    (found,) = gradient(lambda x: np.sum(gradient(lambda: np.sum(w * x), Params([w]))[w]), V)
    assert found.tolist() == [1, 1, 1]
    with pytest.raises(tracker.UnsupportedError, match="inside another"):
        gradient(lambda: np.sum(gradient(lambda: np.sum(w**3), Params([w]))[w]), Params([w]))


def test_refusals():
    w = param(V)
    with pytest.raises(tracker.NotScalarError, match="the output is a tuple"):
        jacobian(lambda x: (x, x), V)
    with pytest.raises(tracker.NotTrackedError, match=r"plain ndarray.*tracker\.param\(x\)"):
        Params([w, V])
    with pytest.raises(tracker.NotTrackedError, match="computed from others"):
        Params([w * 2])
    with pytest.raises(tracker.NotScalarError, match=r"\(3,\).*np\.sum"):
        gradient(lambda: w * 2, Params([w]))
    back(np.sum(w))
    assert w.grad.tolist() == [1, 1, 1]


def test_a_jacobian_takes_one_run():
    w, s, rest = param(V), param(2.0), param(A)
    runs = []
    js = jacobian(lambda: runs.append(1) or [w[0] * s, w[1], 3.0], Params([w, s, rest]))
    jacobian(lambda x: runs.append(1) or x * 2, V)
    assert len(runs) == 2
    assert js[w].tolist() == [[2, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert js[s].tolist() == [0.5, 0, 0]
    assert js[rest].shape == (3, 6)
    assert jacobian(lambda: w * s, Params([w]), shaped=True)[w].shape == (3, 3)
    assert withjacobian(lambda: w * s, Params([s])).val.tolist() == (2 * V).tolist()
    assert jacobian(lambda: np.ones(2), Params([w]))[w].tolist() == np.zeros((2, 3)).tolist()


def test_lists_of_numbers_are_arrays():
    assert jacobian(lambda x: [3 * x**2, 2 * x], 5.0)[0].tolist() == [30.0, 2.0]
    assert jacobian(lambda x: [[x[0], 1.0], [x[1] * x[0], x[2]]], V)[0].shape == (4, 3)
    _, back_ = tracker.pullback(lambda x: [3 * x**2, 2 * x], 5)
    assert back_([1, 1]) == (32.0,)
    assert back_(np.array([1.0, 0.0])) == (30.0,)


def test_grads_are_vectors():
    w, b = param(A), param(2.0)
    ps = Params([w, b])
    gs = gradient(lambda: np.sum(w * w) * b, ps)
    assert gs.keys()[0] is w
    assert gs.values()[1] is gs.items()[1][1] is gs[b]
    assert (gs + gs)[w].tolist() == (8 * A).tolist()
    assert (gs - gs)[b] == 0.0
    assert (gs * 2.0)[b] == (2.0 * gs)[b] == 2 * gs[b]
    assert (gs / 2.0)[w].tolist() == (2 * A).tolist()
    assert (-gs)[b] == -gs[b]
    assert gs.map(lambda g, h: g * 10 + h, gs)[b] == 11 * gs[b]
    flat = gs.flat()
    assert flat.tolist() == [*np.ravel(4 * A), gs[b]]
    again = gradient(lambda: b, ps).copyfrom(flat)
    assert again[w].tolist() == gs[w].tolist()
    assert (type(again[b]), again[b]) == (float, gs[b])
    assert sum([gs, gs], start=0.0)[b] == 2 * gs[b]
    other = gradient(lambda: b * 1.0, Params([b]))
    with pytest.raises(tracker.NotTrackedError, match="different params"):
        gs + other
    with pytest.raises(tracker.NotTrackedError, match=r"7 numbers.*shape \(3,\).*flat\(\)"):
        gs.copyfrom(V)
    with pytest.raises(TypeError):
        gs + np.ones(3)


def test_params_are_vectors():
    w, b = param(A.astype(np.float32)), param(2.0)
    ps = Params([w, b])
    assert ps[1] is b
    assert ps == Params([w, b, w])
    assert ps != Params([b, w])
    start = ps.flat()
    assert start.tolist() == [0, 1, 2, 3, 4, 5, 2]
    y = np.sum(w)
    assert ps.copyfrom(start + 1) is ps
    assert (w.dtype, w[0, 0].data, b.data) == (np.float32, 1.0, 3.0)
    assert y.data == 15
    back(np.sum(w) * b)
    assert w.grad.tolist() == (3 * np.ones((2, 3))).tolist()
    with pytest.raises(tracker.NotTrackedError, match="7 numbers"):
        ps.copyfrom(start[:2])


M = np.array([[1.0, 2.0], [3.0, 4.0]])
SCALARS = {
    "axis": (lambda a, d: np.prod(a, axis=d), 1, [0.0, 0.0]),
    "axis of NumPy's": (lambda a, d: np.prod(a, axis=d), np.int64(1), [0.0, 0.0]),
    "count": (lambda a, n: a[0] * len(range(n)), 3, [0.0, 0.0]),
    "integer": (lambda a, n: a[0] * n, 3, [1.0, 2.0]),
    "flag": (lambda a, b: a[0] * 2 if b else a[0], True, [0.0, 0.0]),
    "bool": (lambda a, b: a[0] * b, True, [1.0, 2.0]),
    "bool of NumPy's": (lambda a, b: a[0] * b, np.True_, [1.0, 2.0]),
    "unused": (lambda a, x: a[0], 2.0, [0.0, 0.0]),
    "unused integer": (lambda a, n: a[0], 2, [0.0, 0.0]),
    "no axes": (lambda a, n: a[0] * n, np.array(2), [1.0, 2.0]),
    "of a number": (lambda a, n: np.sum(a), 2, [0.0]),
    "of a constant": (lambda a, n: 3.0, 2, [0.0]),
    "of more than there is": (
        lambda a, n: np.concatenate([np.ravel(a * n), np.ravel(a)]),
        2,
        [1.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0],
    ),
}


@pytest.mark.parametrize("name", SCALARS)
def test_jacobian_of_a_scalar_argument_is_a_vector(name):
    f, n, want = SCALARS[name]
    compiled = tracker.jit(f)
    found = [
        jacobian(f, M, n),
        tracker.withjacobian(f, M, n).grad,
        jacobian(compiled, M, n),
        tracker.withjacobian(compiled, M, n).grad,
        tracker.jit(lambda a, n: jacobian(f, a, n))(M, n),
    ]
    for ja, jn in found:
        assert ja.shape == (len(want), 4)
        assert (type(jn), jn.dtype, jn.tolist()) == (np.ndarray, np.float64, want)
    y = np.asarray(f(M, n))
    for ja, jn in (jacobian(f, M, n, shaped=True), jacobian(compiled, M, n, shaped=True)):
        assert (ja.shape, jn.shape) == ((*y.shape, 2, 2), y.shape)
        assert np.ravel(jn).tolist() == want


def test_jacobian_of_an_integer_array_is_a_matrix():
    f = lambda a, i: a[i]  # noqa: E731
    for g in (f, tracker.jit(f)):
        assert jacobian(g, V, np.array([2, 0]))[1].tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("kind", [bool, int, np.bool_, np.int64, np.float32, np.float64])
def test_tangents_and_seeds_of_any_kind(kind):
    f = lambda x: x * x * x  # noqa: E731
    for g in (f, tracker.jit(f)):
        for one in (kind(1), np.array(kind(1))):
            assert tracker.jvp(g, (1.5,), (one,))[1] == 6.75
            assert tracker.pushforward(g, 1.5)[1](one) == 6.75
            assert tracker.pullback(g, 1.5)[1](one) == (6.75,)
            assert tracker.hvp(g, 1.5, one) == 9.0


@pytest.mark.parametrize("shape", [(0, 2**40), (2**40, 0)])
def test_results_without_elements(shape):
    x = np.empty(shape)
    f = lambda x: np.concatenate([2 * x.T, np.sin(x.T)])  # noqa: E731
    for g in (f, tracker.jit(f)):
        y, dy = tracker.jvp(g, (x,), (x,))
        assert (y.shape, dy.shape) == (f(x).shape,) * 2
        assert gradient(lambda x, g=g: np.sum(g(x)), x)[0].shape == shape
