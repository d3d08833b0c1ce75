"""Derivatives of a jitted function are compiled: each takes one trace, and gives what it gives of
the plain function."""

import functools

import numpy as np
import pytest
from compiled import agree
from equality import assert_same

import tracker
from tracker import jit, param
from tracker.errors import NotScalarError, UnsupportedError

same_numbers = functools.partial(assert_same, tolerance=1e-10)
X, V = np.array([0.3, -1.2, 0.7]), np.array([1.0, 0.5, -2.0])
S = {"w": np.array([[0.5, 0.2], [-0.1, 1.0]]), "b": 0.3}
DS = {"w": np.array([[1.0, 0.0], [2.0, -1.0]]), "b": -1.0}


def scalar(x):
    return np.sum(np.sin(x) * x**2) + np.prod(x)


def vector(x):
    return np.cumsum(x**2)[:2] * x[0]


def of_structure(s, scale, x):
    return {"y": np.tanh(s["w"] @ x[:2]) * scale, "z": s["b"] * np.sum(x)}


DERIVATIVES = {
    "gradient": lambda f: tracker.gradient(f, X),
    "hvp": lambda f: tracker.hvp(f, X, V),
    "hvp of lists": lambda f: tracker.hvp(f, list(X), list(V)),
    "hvp of a structure": lambda f: tracker.hvp(lambda s: f(s["x"]), {"x": X}, {"x": V}),
    "hessian": lambda f: tracker.hessian(f, X),
    "hessian_reverse": lambda f: tracker.hessian_reverse(f, X),
    "diaghessian": lambda f: tracker.diaghessian(f, X),
    "jacobian": lambda f: tracker.jacobian(f, X),
    "jvp": lambda f: tracker.jvp(f, (X,), (V,)),
    "jvp of lists": lambda f: tracker.jvp(f, [X], [V]),
    "pushforward": lambda f: tracker.pushforward(f, X)[1](V),
    "pullback": lambda f: tracker.pullback(f, X)[1](2.0),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_of_a_number(name):
    derivative, compiled = DERIVATIVES[name], jit(scalar)
    for _ in range(2):
        same_numbers(derivative(compiled), derivative(scalar))


@pytest.mark.parametrize("name", sorted(set(DERIVATIVES) - {"hvp of a structure"}))
def test_only_the_first_call_runs_python(name, capsys):
    def shouting(x):
        print("in Python")  # what is only printed is printed while tracing
        return scalar(x)

    compiled = jit(shouting)
    DERIVATIVES[name](compiled)
    assert "in Python" in capsys.readouterr().out
    for _ in range(3):
        DERIVATIVES[name](compiled)
    assert not capsys.readouterr().out


@pytest.mark.parametrize("shaped", [False, True])
def test_jacobians(shaped):
    compiled = jit(vector)
    for _ in range(2):
        same_numbers(
            tracker.jacobian(compiled, X, shaped=shaped), tracker.jacobian(vector, X, shaped=shaped)
        )
        same_numbers(tracker.withjacobian(compiled, list(X)), tracker.withjacobian(vector, list(X)))


@pytest.mark.parametrize("tangents", [(DS, None, V), (None, 0.5, None), (DS, 1.0, V)])
def test_structures_and_missing_tangents(tangents):
    compiled = jit(of_structure)
    for _ in range(2):
        same_numbers(
            tracker.jvp(compiled, (S, 2.0, X), tangents),
            tracker.jvp(of_structure, (S, 2.0, X), tangents),
        )
        y, push = tracker.pushforward(compiled, S, 2.0, X)
        want, plainly = tracker.pushforward(of_structure, S, 2.0, X)
        same_numbers(y, want)
        same_numbers(push(*tangents), plainly(*tangents))


def test_static_arguments_stay_in_their_places():
    compiled = jit(lambda x, n: np.sum(x**n), static=["n"])
    for n in (2, 3, 2):
        same_numbers(tracker.jvp(compiled, (X, n), (V, None))[1], np.sum(n * X ** (n - 1) * V))
        same_numbers(tracker.pullback(compiled, X, n)[1](1.0)[0], n * X ** (n - 1))
        same_numbers(tracker.pullback(compiled, X, n=n)[1](1.0)[0], n * X ** (n - 1))
        np.testing.assert_allclose(tracker.jacobian(compiled, X, n)[0][0], n * X ** (n - 1))


def test_within_another_derivative():
    compiled = jit(scalar)
    for outer in (tracker.gradient, jit(lambda f, x: tracker.gradient(f, x))):
        want = outer(lambda x: np.sum(tracker.hvp(scalar, x, V) ** 2), X)
        same_numbers(outer(lambda x: np.sum(tracker.hvp(compiled, x, V) ** 2), X), want)
    p = param(X)
    same_numbers(tracker.data(tracker.hvp(compiled, p, V)), tracker.hvp(scalar, X, V))


class Net:
    w = X


@pytest.mark.parametrize("reads_first", [False, True])
def test_what_an_eager_derivative_left_in_an_object_is_plain(reads_first):
    net = Net()

    def loss(w):
        old = np.sum(net.w) if reads_first else 1.0
        net.w = w
        return np.sum(np.tanh(net.w) * old)

    def outer(f, s):
        net.w = s * X
        return np.sum(tracker.gradient(f, s * V)[0])

    def run(f):
        net.w = X
        given = [V + k for k in range(12)]
        return [tracker.gradient(loss, X), *(tracker.gradient(f, w) for w in given)]

    compiled = jit(loss)
    same_numbers(run(compiled), run(loss))
    assert compiled._jitted.derivatives and all(
        each.cache_info().traces == 1 for each in compiled._jitted.derivatives.values()
    )
    same_numbers(
        tracker.gradient(lambda s: outer(compiled, s), 2.0),
        tracker.gradient(lambda s: outer(loss, s), 2.0),
    )


def test_wrong_tangents_are_refused():
    compiled = jit(scalar)
    with pytest.raises(UnsupportedError, match="1 arguments need 1 tangents; 2 were given"):
        tracker.jvp(compiled, (X,), (V, V))
    with pytest.raises(UnsupportedError, match="1 arguments need 1 tangents; 2 were given"):
        tracker.pushforward(compiled, X)[1](V, V)
    with pytest.raises(NotScalarError, match=r"tangent has shape \(2,\), the argument has"):
        tracker.hvp(compiled, X, V[:2])
    with pytest.raises(NotScalarError, match="shape"):
        tracker.hessian(jit(vector), X)


def test_random_numbers_are_those_of_one_run():
    def drawing(x, rng):
        return np.sum(x * rng.standard_normal(3)) ** 2

    compiled = jit(drawing)
    ours, theirs = np.random.default_rng(5), np.random.default_rng(5)
    for _ in range(3):
        y, push = tracker.pushforward(compiled, X, ours)
        want, plainly = tracker.pushforward(drawing, X, theirs)
        same_numbers(y, want)
        same_numbers(push(V, None), plainly(V, None))


def test_two_captured_arrays_of_one_origin():
    """At each step two cotangents arrive at the same element, each of another array's."""

    def spread(p, r):
        levels, sizes, total = np.zeros_like(r), np.zeros_like(r), 0.0
        for t in range(len(r)):
            level = p[0]
            if t:
                level = level + p[1] * sizes[t - 1] + p[2] * levels[t - 1]
            levels[t] = r[t] * level
            sizes[t] = np.abs(levels[t])
            total = total + level**2
        return total

    p, r = np.array([0.1, 0.2, 0.15]), np.array([1.0, -0.5, 0.7, 0.4])
    want = tracker.gradient(spread, p, r)
    agree(lambda p, r: tracker.gradient(spread, p, r), p, r, tolerance=1e-14)
    np.testing.assert_allclose(want[0], tracker.ngradient(spread, p, r)[0], rtol=1e-6)


def test_equations_of_a_pullback_have_the_lines_of_what_they_pull_back():
    def loss(w, x):
        h = np.tanh(w @ x)
        y = np.exp(h)
        return np.sum(y * y)

    first = loss.__code__.co_firstlineno
    ir = tracker.value_and_grad(jit(loss)).ir(np.ones((3, 3)), np.ones(3))
    lines = [int(e.where.rpartition(":")[2]) - first for e in ir.eqns if __file__ in e.where]
    computed = {at: lines.index(at) for at in (1, 2, 3)}
    assert computed[1] < computed[2] < computed[3]
    pulled_back = [at for at in lines[computed[3] + 1 :] if at in (1, 2)]
    assert pulled_back == sorted(pulled_back, reverse=True) and set(pulled_back) == {1, 2}
