"""Every order of gradient, jvp, jacobian, vmap and jit, three deep: the same derivative."""

import itertools

import numpy as np
import pytest

import tracker
from tracker import custom_gradient, gradient, jacobian, jit, jvp, vmap
from tracker.testing import numerical_jvp


@custom_gradient
def cubed(x):
    return x**3, lambda dy: (3 * dy * x * x,)


def written(x):
    y = np.zeros(3, like=x) if tracker.istracked(x) else np.zeros(3)
    y[0] = x * x
    for i in range(2):
        y[i + 1] = y[i] * np.sin(x)
    return np.sum(y[1:])


FUNCTIONS = {
    "chain": lambda x: np.exp(np.sin(x) * x),
    "branch": lambda x: np.log(x) * x if x > 0.5 else np.sqrt(x),
    "arrays": lambda x: np.sum(np.cos(x * np.arange(1.0, 4.0)) ** 2 * x),
    "writes": written,
    "rule": lambda x: cubed(np.sin(x)) * x,
    "checkpoint": lambda x: tracker.checkpoint(lambda a: np.tanh(a * x) * a, x * x),
    "scan": lambda x: tracker.scan(lambda c, k: (np.sin(c * k) + x, c), x, np.arange(1.0, 4.0))[0],
}
WAYS = {
    "gradient": lambda f: lambda x: gradient(f, x)[0],
    "jvp": lambda f: lambda x: jvp(f, (x,), (1.0,))[1],
    "jacobian": lambda f: lambda x: jacobian(f, x)[0][0],
    "vmap": lambda f: lambda x: vmap(f)(np.stack([x, 0.5 * x]))[0],
    "jit": jit,
}
SAME = {"vmap", "jit"}  # these do not differentiate


def slopes(f, x):
    """f and its first three derivatives, by differences of derivatives."""
    out = [float(f(x))]
    for _ in range(3):
        (slope,) = numerical_jvp(lambda v, f=f: [f(v)], [x], [1.0])
        out.append(float(slope))
        f = WAYS["gradient"](f)
    return out


@pytest.mark.parametrize("name", FUNCTIONS)
def test_scalars(name):
    f, x = FUNCTIONS[name], 0.8
    want = slopes(f, x)
    for depth in (2, 3):
        for nesting in itertools.product(WAYS, repeat=depth):
            if "jit" in nesting and name != "chain" and depth == 3 and nesting.count("jit") > 1:
                continue  # jit of jit is jit: one function is enough
            g = f
            for way in nesting:
                g = WAYS[way](g)
            order = sum(way not in SAME for way in nesting)
            assert float(g(x)) == pytest.approx(want[order], rel=1e-6, abs=1e-7), nesting


V = np.array([0.3, -0.7, 1.1])
U = np.array([1.0, -0.5, 0.25])
ARRAYS = {
    "network": lambda x: np.tanh(np.cos(np.arange(9.0).reshape(3, 3)) @ x) * x[0],
    "reductions": lambda x: np.max(x) * np.cumsum(x) + np.std(x) * x[::-1],
    "rule": lambda x: cubed(x) * np.sum(x),
}
PUSH = {  # the derivative of an array function along U, as an array function
    "gradient": lambda f: lambda x: gradient(lambda t: np.sum(f(x + t * U) * W), 0.0)[0] * U,
    "jvp": lambda f: lambda x: jvp(f, (x,), (U,))[1] @ W * U,
    "jacobian": lambda f: lambda x: W @ (jacobian(f, x)[0] @ U) * U,
    "pullback": lambda f: lambda x: tracker.pullback(f, x)[1](W)[0] @ U * U,
    "jit": jit,
}
W = np.array([0.5, 1.0, -2.0])


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays(name):
    f = ARRAYS[name]
    want = {}
    for nesting in itertools.product(PUSH, repeat=2):
        g = f
        for way in nesting:
            g = PUSH[way](g)
        order = sum(way != "jit" for way in nesting)
        expected = want.setdefault(order, g(V))
        np.testing.assert_allclose(g(V), expected, rtol=1e-9, atol=1e-11, err_msg=str(nesting))
    (numeric,) = numerical_jvp(lambda x: [f(x)], [V], [U])
    np.testing.assert_allclose(want[1], numeric @ W * U, rtol=1e-7)
    (numeric,) = numerical_jvp(lambda x: [PUSH["jvp"](f)(x)], [V], [U])
    np.testing.assert_allclose(want[2], numeric @ W * U, rtol=1e-6, atol=1e-8)
