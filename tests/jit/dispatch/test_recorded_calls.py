"""Jitted functions that eager derivatives call: one operation of the tape where that is possible,
and the derivatives of the plain function in any case."""

import contextlib
import functools

import numpy as np
import pytest
from equality import assert_same
from tables import functions_of

import tracker
from tracker import back, gradient, hessian, jacobian, jit, jvp, param, tree, value_and_grad, vmap
from tracker.debug import nan_check

same_numbers = functools.partial(assert_same, tolerance=1e-11)
X = np.linspace(0.3, 0.9, 4)


def steps(x, k=1.0, count=60):
    """More equations than are worth recording one by one."""
    for _ in range(count):
        x = x + 0.01 * np.sin(k * x)
    return x


def looped(x):
    return tracker.fori_loop(0, 50, lambda _, y: y + 0.1 * np.cos(y), x)


def several(p, scale=2.0):
    a = steps(p["w"] * scale)
    return {"a": a, "b": [np.sum(a), np.max(steps(p["b"][0], 0.5)) * p["b"][1]]}


def complex_steps(x):
    return np.abs(steps(x * (1 + 0.5j), count=10)) ** 2


ONE_OPERATION = {
    "array": (steps, X),
    "number": (lambda x: steps(x * 1.0), 0.4),
    "NumPy number": (steps, np.float32(0.4)),
    "several arguments": (lambda x, k: steps(x, k), X, 1.3),
    "data beside": (lambda data, x: np.sum(steps(data) * steps(x)), X[:2], 0.5),
    "structures": (several, {"w": X, "b": [X[:3], 2.0]}),
    "loop": (looped, X),
    "branch": (lambda x: steps(x) if x[0] > 0 else steps(-x), X),
    "complex inside": (complex_steps, X),
}


def total(y):
    return sum(np.sum(x) for x in tree.leaves(y))


def operations(y):
    """How many values the tape of a tracked result has."""
    return max(tracker.debug.tape(x).values for x in tree.leaves(y))


@pytest.mark.parametrize("name", ONE_OPERATION)
def test_derivatives_are_those_of_the_plain_function(name):
    f, *args = ONE_OPERATION[name]
    fast = jit(f)
    for _ in range(3):
        for derivative in (gradient, lambda g, *args: value_and_grad(g)(*args)):
            found = derivative(lambda *args: total(fast(*args)) ** 2, *args)
            same_numbers(found, derivative(lambda *args: total(f(*args)) ** 2, *args))
    assert fast.cache_info().traces >= 2  # of the function, and of its pullback


@pytest.mark.parametrize("name", ONE_OPERATION)
def test_later_calls_are_one_operation(name):
    f, *args = ONE_OPERATION[name]
    fast = jit(f)
    for is_first in (True, False):
        given = tree.map(lambda x: param(x) if np.result_type(x).kind == "f" else x, args)
        y = fast(*given)
        assert (operations(y) > len(tree.leaves((args, y))) + 2) is is_first
        back(total(y) ** 2)
        want = gradient(lambda *args: total(f(*args)) ** 2, *args)
        same_numbers(tree.map(lambda x: x.grad, given), list(want))


def test_short_functions_are_recorded_one_by_one():
    fast = jit(lambda x: np.sin(x) * x)
    fast(X), fast(X)
    assert operations(fast(param(X))) == 3


DERIVATIVES = {
    "jvp": lambda f, x: jvp(f, (x,), (np.cos(x),)),
    "jacobian": lambda f, x: jacobian(lambda x: f(x) * 2, x),
    "hessian": lambda f, x: hessian(lambda x: np.sum(f(x) ** 2), x),
    "third order": lambda f, x: gradient(lambda x: np.sum(hessian(lambda y: np.sum(f(y)), x)), x),
    "vmap": lambda f, x: vmap(f)(np.stack([x, 2 * x])),
    "vmap of gradient": lambda f, x: vmap(lambda y: gradient(lambda z: np.sum(f(z)), y)[0])(
        np.stack([x, 2 * x])
    ),
    "gradient of vmap": lambda f, x: gradient(lambda y: np.sum(vmap(f)(y)), np.stack([x, x / 2])),
    "twice": lambda f, x: gradient(lambda x: np.sum(f(f(x))), x),
    "jit around": lambda f, x: jit(lambda x: gradient(lambda y: np.sum(f(y) ** 2), x))(x),
    "checkpoint": lambda f, x: gradient(lambda x: np.sum(tracker.checkpoint(f, x)), x),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_other_derivatives(name):
    fast = jit(steps)
    for _ in range(3):
        same_numbers(DERIVATIVES[name](fast, X), DERIVATIVES[name](steps, X))


class NotOne:
    """Calls that are not one operation."""

    def writes_its_argument(x):
        y = steps(x)
        x[0] = y[1]
        return y

    def returns_its_argument(x):
        return x, steps(x)

    def returns_a_view(x):
        return x[1:], steps(x)

    def integers(x):
        y = steps(x)
        return np.argmax(y), y

    def what_does_not_depend(x):
        return steps(X), steps(x)


@functions_of(NotOne)
def test_other_calls_do_what_the_plain_function_does(f):
    fast = jit(f)

    def loss(g):
        def run(x):
            x = x * 1.0
            out = tree.leaves(g(x))
            out[0] = out[0] + 0 if f is NotOne.integers else out[0]
            if f is NotOne.what_does_not_depend:
                assert isinstance(float(np.sum(out[0])), float)
            return sum(np.sum(y * y) for y in out) + np.sum(x**3)

        return run

    for _ in range(3):
        same_numbers(gradient(loss(fast), X), gradient(loss(f), X))


def test_effects_happen_once():
    seen, state = [], {"calls": 0, "w": np.ones(4)}

    def counted(x):
        state["calls"] += 1
        state["w"] *= 2.0
        seen.append(1)
        return steps(x) * state["w"]

    fast = jit(counted)
    for call in range(1, 5):
        (g,) = gradient(lambda x: np.sum(fast(x)), X)
        assert (state["calls"], len(seen), state["w"][0]) == (call, call, 2.0**call)
        same_numbers(g, 2.0**call * gradient(lambda x: np.sum(steps(x)), X)[0])


def test_draws_go_on():
    one, other = np.random.default_rng(3), np.random.default_rng(3)
    fast = jit(lambda x: steps(x) * one.normal(size=4))
    for _ in range(4):
        found = gradient(lambda x: np.sum(fast(x)), X)
        same_numbers(found, gradient(lambda x: np.sum(steps(x) * other.normal(size=4)), X))


def test_captured_tracked_values_keep_their_gradients():
    """Of a global that is a number first, and of a closure's variable."""
    model = {"k": 1.1}
    fast = jit(lambda x: steps(x, model["k"]))

    def loss(k, x):
        model["k"] = k
        return np.sum(fast(x) ** 2)

    for k in (1.1, 1.2, 1.3):
        model["k"] = k
        gradient(lambda x: np.sum(fast(x)), X)
        found = gradient(loss, k, X)
        same_numbers(found, gradient(lambda k, x: np.sum(steps(x, k) ** 2), k, X))


class FoundLater:
    """Paths of later calls that write, or that raise after they have written."""

    def writes(x, state):
        y = steps(x)
        if y[0] > 0.5:
            x[0] = 0.0
        return y

    def writes_and_raises(x, state):
        y = steps(x)
        if y[0] > 0.5:
            x[0] = y[1] ** 2
            raise ValueError("large")
        return y

    def stores_and_raises(x, state):
        y = steps(x)
        if y[0] > 0.5:
            state["last"] = x * x
            state["count"] = state["count"] + 1
            raise ValueError("large")
        return y

    def writes_and_always_raises(x, state):
        x[0] = x[1] ** 2
        state["count"] = state["count"] + 1
        return steps(x) @ np.ones(7)


@functions_of(FoundLater)
def test_a_path_that_writes_is_found_later(f):
    state = {}
    fast = jit(lambda x: f(x, state))

    def loss(g):
        def run(x):
            x, y = x * 1.0, 0.0
            state["last"], state["count"] = 0.0, 0
            with contextlib.suppress(ValueError):
                y = g(x)
            return np.sum(y) + np.sum(x**2) + np.sum(state["last"] ** 3) * state["count"]

        return run

    for x in (X * 0.1, X * 0.1, X * 0.1, X * 2, X * 2, X * 0.1):
        found = gradient(loss(fast), x)
        same_numbers(found, gradient(loss(lambda x: f(x, state)), x))


def test_state_that_changes_before_the_backward_pass():
    w = np.array([1.0, 2.0, 3.0, 4.0])
    fast = jit(lambda x: steps(x * w))
    want = gradient(lambda x: np.sum(steps(x * np.array([1.0, 2.0, 3.0, 4.0]))), X)[0]
    for _ in range(3):
        x = param(X)
        y = np.sum(fast(x))
        kept, w[:] = w.copy(), 7.0
        back(y)
        w[:] = kept
        same_numbers(x.grad, want)


def test_errors_and_observers_see_the_plain_function():
    fast = jit(lambda x: steps(np.log(x)))
    for _ in range(3):
        gradient(lambda x: np.sum(fast(x)), X)
    with (
        np.errstate(divide="ignore"),
        nan_check(),
        pytest.raises(tracker.TrackerError, match=r"log.*test_recorded_calls\.py"),
    ):
        gradient(lambda x: np.sum(fast(x)), X - 0.3)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        gradient(lambda x: np.sum(fast(x)), X - 0.3)
    with pytest.raises(ValueError, match="broadcast"):
        gradient(lambda x: np.sum(jit(lambda x: steps(x) + np.ones(3))(x)), X)
