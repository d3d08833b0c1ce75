"""Functions of JAX here, and ours there, by JAX's own gradient check."""

import numpy as np
import pytest

import tracker
from tracker import UnsupportedError, gradient, interop

jax = pytest.importorskip("jax")
jnp = jax.numpy
check_grads = pytest.importorskip("jax.test_util").check_grads

X = np.array([0.3, -1.2, 2.1])


def smooth(x, y):
    return np.sum(np.sin(x) * y) + np.tanh(y[0])


def several(x, y):
    return {"a": x * y, "b": [np.sum(x) * y[0]]}


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


def test_from_jax():
    f = interop.from_jax(lambda x, k: {"y": jnp.sin(x) * k, "n": k + 1})
    assert tracker.gradcheck(lambda x: np.sum(f(x, np.array([2]))["y"] ** 2), X, order=1)
    found = tracker.jit(lambda x: gradient(lambda x: np.sum(f(x, np.array([2]))["y"]), x)[0])
    np.testing.assert_allclose(found(X), 2 * np.cos(X))


def test_complex_from_jax():
    f = interop.from_jax(lambda z: z**2 * jax.numpy.exp(z))
    assert tracker.gradcheck(lambda z: np.sum(np.abs(f(z)) ** 2), X + 1j, order=1)


def test_from_jax_refuses_to_narrow():
    f = interop.from_jax(jax.numpy.sin)
    with jax.enable_x64(False):
        with pytest.raises(UnsupportedError, match=r"float64 with 32 bits.*pass float32"):
            f(X)
        assert f(X.astype(np.float32)).dtype == np.float32


def test_as_jax():
    g = interop.as_jax(tracker.jit(smooth), X, X)
    check_grads(g, (X, X + 1), order=1, modes=["rev"])
    np.testing.assert_allclose(jax.jit(g)(X, X + 1), smooth(X, X + 1))


def test_as_jax_of_structures_and_branches():
    g = interop.as_jax(lambda p, k: several(p["x"], p["x"] * k) if k > 2 else several(k, p["x"]),
                       {"x": X}, 3)  # fmt: skip
    for k in (3, 1):
        wanted = several(X, X * k) if k > 2 else several(k, X)
        np.testing.assert_allclose(g({"x": X}, k)["a"], wanted["a"])
    found = jax.vmap(jax.grad(lambda x: g({"x": x}, 3)["b"][0]))(np.stack([X, X]))
    wanted = gradient(lambda x: several(x, x * 3)["b"][0], X)[0]
    np.testing.assert_allclose(found, np.stack([wanted, wanted]))


def test_as_jax_of_complex_numbers():
    g = interop.as_jax(lambda z: z**2 * np.exp(z), X + 1j)
    seed = jnp.array([1j, 2.0, 1.0])
    found = jax.vjp(g, X + 1j)[1](seed)[0]
    np.testing.assert_allclose(found, jax.vjp(lambda z: z**2 * jnp.exp(z), X + 1j)[1](seed)[0])


def test_as_jax_says_what_differs_from_the_examples():
    g = interop.as_jax(lambda x: x[: int(x[0])], np.full(3, 2.0))
    with pytest.raises(Exception, match=r"a result has shape \(1,\); at the examples \(2,\)"):
        jax.block_until_ready(g(np.full(3, 1.0)))
