"""Functions of tracker in PyTensor, by its verify_grad."""

import numpy as np
import pytest

import tracker
from tracker import interop

pytensor = pytest.importorskip("pytensor")
pt = pytest.importorskip("pytensor.tensor")
verify_grad = pytest.importorskip("pytensor.gradient").verify_grad

MODE = pytensor.compile.mode.Mode("py")
X = np.array([0.3, -1.2, 2.1])


def smooth(x, y):
    return np.sum(np.sin(x) * y) + np.tanh(y[0])


def test_as_pytensor_op():
    op = interop.as_pytensor_op(tracker.jit(smooth), X, X)
    verify_grad(op, [X, X + 1], rng=np.random.default_rng(0), mode=MODE)


def test_several_results_and_integers():
    op = interop.as_pytensor_op(lambda x, k: (x[k] * 2.0, np.sum(x)), X, np.array([0, 1]))
    x, k = pt.dvector(), pt.lvector()
    y, total = op(x, k)
    found = pt.grad(y.sum(), x).eval({x: X, k: np.array([1, 1])}, mode=MODE)
    np.testing.assert_allclose(found, [0.0, 4.0, 0.0])
    assert total.eval({x: X, k: np.array([0])}, mode=MODE) == np.sum(X)
