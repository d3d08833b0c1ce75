"""Every order of derivatives, vmap and jit: the same numbers, those of differences; values of one
derivative inside another."""

import contextlib
import itertools

import numpy as np
import pytest

import tracker
from tracker import back, gradient, jacobian, jit, jvp, param, pullback, pushforward
from tracker.testing import numerical_jvp

V = np.array([0.3, -0.7, 1.1])


@tracker.custom_gradient
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
DERIVATIVES = {
    "gradient": lambda f: lambda x: gradient(f, x)[0],
    "jvp": lambda f: lambda x: jvp(f, (x,), (1.0,))[1],
    "pullback": lambda f: lambda x: pullback(f, x)[1](1.0)[0],
    "pushforward": lambda f: lambda x: pushforward(f, x)[1](1.0),
    "withgradient": lambda f: lambda x: tracker.withgradient(f, x).grad[0],
}
WAYS = {
    "gradient": DERIVATIVES["gradient"],
    "jvp": DERIVATIVES["jvp"],
    "jacobian": lambda f: lambda x: jacobian(f, x)[0][0],
    "vmap": lambda f: lambda x: tracker.vmap(f)(np.stack([x, 0.5 * x]))[0],
    "jit": jit,
}
SAME = {"vmap", "jit"}  # these do not differentiate


def slopes(f, x):
    """f and its first three derivatives, by differences of derivatives."""
    out = [float(f(x))]
    for _ in range(3):
        (slope,) = numerical_jvp(lambda v, f=f: [f(v)], [x], [1.0])
        out.append(float(slope))
        f = DERIVATIVES["gradient"](f)
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
    "pullback": lambda f: lambda x: pullback(f, x)[1](W)[0] @ U * U,
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


SCALAR = {name: FUNCTIONS[name] for name in ("chain", "branch", "arrays", "writes")} | {
    "polynomial": lambda x: x**4 - 2 * x**3 + x,
    "ratio": lambda x: np.tanh(x) / (1 + x * x),
    "product": lambda x: np.prod(np.stack([x, x * x, np.exp(x)])),
    "matrix": lambda x: np.sum((x * np.ones((2, 2))) @ np.stack([np.stack([x, 2.0]), V[:2]])),
    "where": lambda x: np.where(x > 0.2, x**3, 0.0) + np.maximum(x, 0.1) ** 2,
    "conversions": lambda x: np.float64(x) ** 3 * np.asarray(x)[None][0],
}


@pytest.mark.parametrize("name", SCALAR)
@pytest.mark.parametrize("x", [0.8, np.float64(0.8)])
def test_every_nesting_to_depth_three_agrees(name, x):
    f = SCALAR[name]
    for depth in (1, 2, 3):
        want = f
        for _ in range(depth - 1):
            want = DERIVATIVES["gradient"](want)
        (expected,) = numerical_jvp(lambda v, want=want: [want(v)], [float(x)], [1.0])
        # The 25 pairs at depth 2 and, to keep this short, the 27 triples of the first three.
        names = list(DERIVATIVES) if depth < 3 else list(DERIVATIVES)[:3]
        for nesting in itertools.product(names, repeat=depth):
            g = f
            for way in nesting:
                g = DERIVATIVES[way](g)
            assert float(g(x)) == pytest.approx(float(expected), rel=1e-6, abs=1e-7), nesting


LOSSES = {
    "quadratic": lambda x: np.sum(np.outer(x, x) * np.arange(9.0).reshape(3, 3)) * x[0],
    "network": lambda x: np.sum(np.tanh(np.cos(np.arange(9.0).reshape(3, 3)) @ x) ** 2),
    "reductions": lambda x: np.max(x) * np.mean(x) + np.std(x) * np.prod(x),
    "indexing": lambda x: np.sum(x[::-1] * x[[0, 0, 2]] ** 2) + np.sum(np.sort(x) ** 3 * [1, 2, 3]),
    "complex": lambda x: np.abs(np.sum(x * np.exp(1j * x))) ** 2,
    "norm": lambda x: np.sqrt(np.sum(x * x)) * x[1],
}
HVP = {
    "reverse over reverse": lambda f, x, v: gradient(lambda a: np.sum(gradient(f, a)[0] * v), x)[0],
    "forward over reverse": lambda f, x, v: jvp(lambda a: gradient(f, a)[0], (x,), (v,))[1],
    "reverse over forward": lambda f, x, v: gradient(lambda a: jvp(f, (a,), (v,))[1], x)[0],
    "pullback of gradient": lambda f, x, v: pullback(lambda a: gradient(f, a)[0], x)[1](v)[0],
    "pullback of pullback": lambda f, x, v: pullback(lambda a: pullback(f, a)[1](1.0)[0], x)[1](v)[
        0
    ],
    "push of pullback": lambda f, x, v: pushforward(lambda a: pullback(f, a)[1](1.0)[0], x)[1](v),
}


@pytest.mark.parametrize("name", LOSSES)
def test_every_hessian_vector_product_agrees(name):
    f, v = LOSSES[name], np.array([1.0, -0.5, 0.25])
    (want,) = numerical_jvp(lambda a: [gradient(f, a)[0]], [V], [v])
    for way, hvp in HVP.items():
        np.testing.assert_allclose(hvp(f, V, v), want, rtol=1e-6, atol=1e-8, err_msg=way)


@pytest.mark.parametrize("outer", DERIVATIVES)
@pytest.mark.parametrize("inner", DERIVATIVES)
def test_no_perturbation_confusion(outer, inner):
    D, d = DERIVATIVES[outer], DERIVATIVES[inner]
    # d/dx (x * d/dy (x + y)) = 1
    assert D(lambda x: x * d(lambda y: x + y)(1.0))(1.0) == 1.0
    # d/dx (x * d/dy (x * y)) = 2x
    assert D(lambda x: x * d(lambda y: x * y)(2.0))(3.0) == 6.0
    # the inner variable at the outer's value: d/dx (d/dy (x y^2) at y=x) = 4x
    assert D(lambda x: d(lambda y: x * y * y)(x))(3.0) == 12.0
    # a function that returns a function of both
    assert D(lambda x: d(lambda y: d(lambda z: x * y * z * z)(y))(x))(2.0) == pytest.approx(16.0)


def test_an_inner_constant_has_no_derivative():
    assert gradient(lambda x: gradient(lambda y: x * x, 1.0)[0] + x, 3.0) == (1.0,)
    assert gradient(lambda x: jvp(lambda y: x * x, (1.0,), (1.0,))[1] + x, 3.0) == (1.0,)


def test_leaked_inner_values_are_constants():
    kept = []

    def f(x):
        kept.append(x * 2)
        return x * x

    gradient(f, 3.0)
    assert gradient(lambda y: y * kept[0], 2.0) == (6.0,)
    with pytest.raises(tracker.NotTrackedError, match="does not depend on any param"):
        back(kept[0])


def test_closures_over_outer_values():
    def outer(x):
        w = np.sin(x)
        (g,) = gradient(lambda y: np.sum(w * y**2), x)
        return np.sum(g * w)

    (found,) = gradient(outer, V)
    (slope,) = numerical_jvp(lambda x: [np.sum(np.sin(x) ** 2 * 2 * x)], [V], [np.ones(3)])
    assert np.sum(found) == pytest.approx(slope)


def test_gradient_of_a_function_of_a_param():
    p = param(3.0)
    (g,) = gradient(lambda x: p * x * x, 2.0)
    assert (type(g), g, p.grad) == (float, 12.0, 0.0)
    assert not any(map(tracker.istracked, jvp(lambda x: p * x, (2.0,), (1.0,))))
    assert not tracker.istracked(pullback(lambda x: p * x * x, 2.0)[1](1.0)[0])
    # a derivative around it sees the param
    gs = gradient(lambda: gradient(lambda x: p * x * x, 2.0)[0], tracker.Params([p]))
    assert gs[p] == 4.0


def test_a_param_made_inside():
    def f(x):
        p = param(x)
        q = param(2.0)
        y = p * q * x
        back(y * tracker.data(x), once=False)
        assert q.grad == 27.0
        return y

    assert gradient(f, 3.0) == (12.0,)


def test_a_gradient_inside_a_training_loop():
    p = param(np.array([1.0, 2.0]))
    x = np.array([0.5, -0.5])
    energy = lambda x: np.sum(p * x**3)  # noqa: E731
    gs = gradient(lambda: np.sum(gradient(energy, x)[0] ** 2), tracker.Params([p]))
    want = 2 * (3 * p.data * x**2) * 3 * x**2
    np.testing.assert_allclose(gs[p], want)


def test_an_exception_in_an_inner_derivative_keeps_the_outer_one():
    def f(x):
        with contextlib.suppress(tracker.NonFiniteError):
            gradient(lambda y: y * np.nan * x, 1.0)
        return x * x

    assert gradient(f, 3.0) == (6.0,)


def test_newton_with_an_inner_loop():
    def solve(a):
        x = 1.0
        for _ in range(20):
            x = x - (x * x - a) / (2 * x)
        return x

    assert gradient(solve, 2.0)[0] == pytest.approx(0.5 / np.sqrt(2.0))
    assert DERIVATIVES["jvp"](DERIVATIVES["gradient"](solve))(2.0) == pytest.approx(
        -0.25 * 2.0**-1.5
    )


def test_tenth_derivative():
    f = np.sin
    for _ in range(6):
        f = DERIVATIVES["jvp"](f)
    assert f(0.4) == pytest.approx(-np.sin(0.4))
    f = lambda x: x**10  # noqa: E731
    for _ in range(4):
        f = DERIVATIVES["gradient"](f)
    assert f(1.1) == pytest.approx(10 * 9 * 8 * 7 * 1.1**6)
