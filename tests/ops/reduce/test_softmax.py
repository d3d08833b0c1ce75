"""`x[k] - logsumexp(x)`, as programs write it, keeps all digits where it is nearly 0."""

import mpmath as mp
import numpy as np
import pytest

import tracker
from tracker import back, gradient, hessian, hessian_reverse, jacobian, jit, jvp, param, vmap
from tracker.scipy.special import logsumexp

X = np.array([[0.0, 40.0, 1.0], [3.0, 2.0, 1.0], [60.0, 0.0, 0.5], [-1.0, -1.0, -300.0]])
LABELS = np.array([1, 0, 0, 1])
ROWS = np.arange(len(X))


def likelihood(x):
    return np.sum(x[ROWS, LABELS] - logsumexp(x, axis=1))


LIKELIHOODS = {
    "a difference": likelihood,
    "its terms apart": lambda x: np.sum(x[ROWS, LABELS]) - np.sum(logsumexp(x, axis=1)),
    "element by element": lambda x: sum(
        x[i, k] - logsumexp(x[i]) for i, k in enumerate(LABELS.tolist())
    ),
    "of one array": lambda x: np.sum((x - logsumexp(x, axis=1, keepdims=True))[ROWS, LABELS]),
    "through views": lambda x: likelihood(x.T[::-1].T[:, ::-1]),
    "read flat": lambda x: np.sum(x.reshape(-1)[3 * ROWS + LABELS] - logsumexp(x, axis=1)),
    "the other sign": lambda x: -np.sum(logsumexp(x, axis=1) - x[ROWS, LABELS]),
    "of a sum": lambda x: likelihood(x + np.zeros(3)),
}
GRADIENTS = {
    "gradient": lambda f, x: gradient(f, x)[0],
    "jit of gradient": lambda f, x: jit(lambda x: gradient(f, x)[0])(x),
    "gradient of jit": lambda f, x: gradient(jit(f), x)[0],
    "back": lambda f, x: _by_back(f, x),
    "forwards": lambda f, x: np.reshape([jvp(f, (x,), (t,))[1] for t in _units(x)], x.shape),
}


def _by_back(f, x):
    p = param(x)
    back(f(p))
    return p.grad


def _units(x):
    return np.eye(x.size, dtype=x.dtype).reshape(-1, *x.shape)


def _weights(row):
    with mp.workdps(300):
        e = [mp.exp(mp.mpf(float(v))) for v in row]
        return [v / mp.fsum(e) for v in e]


def exact(x):
    with mp.workdps(300):
        rows = zip(map(_weights, x), LABELS, strict=True)
        return np.array([[float((k == j) - p) for j, p in enumerate(row)] for row, k in rows])


@pytest.mark.parametrize("way", GRADIENTS)
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_gradients_have_all_their_digits(name, way):
    np.testing.assert_allclose(GRADIENTS[way](LIKELIHOODS[name], X), exact(X), rtol=1e-13)


def test_single_precision():
    x = X.astype(np.float32)
    for way in GRADIENTS.values():
        got = way(likelihood, x)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, exact(x), rtol=1e-5, atol=1e-38)


def exact_second(row):
    p = _weights(row)
    with mp.workdps(300):
        n = range(len(p))
        return np.array([[float(p[i] * p[j] - (i == j) * p[i]) for j in n] for i in n])


@pytest.mark.parametrize("row", X.tolist())
def test_second_derivatives_and_matrices(row):
    row = np.array(row)

    def f(x):
        return x[1] - logsumexp(x)

    with np.errstate(under="ignore"):
        for second in (hessian, hessian_reverse, jit(lambda f, x: hessian(f, x), static=0)):
            np.testing.assert_allclose(second(f, row), exact_second(row), rtol=1e-13)
    want = [[float((i == j) - p) for j, p in enumerate(_weights(row))] for i in range(3)]
    got = jacobian(lambda x: x - logsumexp(x), row)[0]
    np.testing.assert_allclose(got, want, rtol=1e-13)


def test_rows_that_are_mapped():
    per_row = vmap(lambda x, k: gradient(lambda x: x[k] - logsumexp(x), x)[0])
    np.testing.assert_allclose(per_row(X, LABELS), exact(X), rtol=1e-13)


def test_weights():
    b = np.array([2.0, -0.5, 1.0])
    assert tracker.gradcheck(lambda x, b: logsumexp(x, b=b), np.array([1.0, 2.0, 9.0]), b)
    assert tracker.gradcheck(lambda x, b: logsumexp(x, b=b), np.array([1.0, 2.0, 1.5]), b)
