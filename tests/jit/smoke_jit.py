"""Eager and compiled functions on any Python: needs NumPy and llvmlite only.

Run: python tests/jit/smoke_jit.py
"""

import os
import pathlib
import sys
import time
import warnings

import numpy as np

import tracker
from tracker.jit.dispatch import interpreter

interpreter._MAX_CALLS = 0  # second calls run machine code


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def branch(x):
    return x * x if x > 0 else -x


def square_root(x):
    y, change = 1.0, 1.0
    while change > 1e-9 and y < 1e9:
        new = 0.5 * (y + x / y)
        change, y = abs(new - y), new
    return y


def payoff(x, path):
    total, hits = 0.0, 0
    for step in path:
        if step > x:
            total = total + (step - x)
            hits += 1
        else:
            total = total - 0.1 * step * x
    return total * hits


def step(x, r):
    """A draw decides whether there is another draw."""
    y = x + r.normal(size=3)
    return y if r.random() < 0.5 else y * r.normal(np.sum(x), 1.0)


def layer(p, x):
    return np.mean(np.tanh(x @ p["w"] + p["b"]) ** 2)


def check_values_and_gradients():
    rng = np.random.default_rng(0)
    for n in (3, 1000):
        fast = tracker.value_and_grad(tracker.jit(rosenbrock))
        for _ in range(3):
            x = rng.standard_normal(n)
            value, gradient = tracker.value_and_grad(rosenbrock)(x)
            again, compiled = fast(x)
            np.testing.assert_allclose(again, value, rtol=1e-12)
            np.testing.assert_allclose(compiled, gradient, rtol=1e-11, atol=1e-11)


def check_branches():
    fast = tracker.jit(branch)
    for x in (1.5, -2.0, 3.0, -4.0):
        assert fast(x) == branch(x)
        assert tracker.gradient(fast, x) == tracker.gradient(branch, x)
    assert fast.cache_info().traces == 4  # two of the gradient


def check_loops():
    """Every Python has other bytecode."""
    for f, *others in ((square_root,), (payoff, np.sin(np.arange(40.0)))):
        fast = tracker.jit(f)
        slope = tracker.value_and_grad(tracker.jit(lambda x, f=f, others=others: f(x, *others)))
        for x in (0.7, 0.11, 0.5, 0.3):
            np.testing.assert_allclose(fast(x, *others), f(x, *others), rtol=1e-12)
            want = tracker.gradient(f, x, *others)[0]
            np.testing.assert_allclose(slope(x)[1], want, rtol=1e-10)
        assert fast.cache_info().traces <= 2


def check_structures_and_products():
    rng = np.random.default_rng(0)
    p = {"w": rng.standard_normal((20, 30)), "b": rng.standard_normal(30)}
    x = rng.standard_normal((40, 20))
    fast = tracker.jit(layer)
    np.testing.assert_allclose(fast(p, x), layer(p, x), rtol=1e-12)
    for _ in range(2):
        compiled, plain = tracker.gradient(fast, p, x), tracker.gradient(layer, p, x)
        for a, b in zip(tracker.tree.leaves(compiled), tracker.tree.leaves(plain), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def check_draws():
    fast, ours, plain = tracker.jit(step), np.random.default_rng(0), np.random.default_rng(0)
    x = np.linspace(0.1, 0.3, 3)
    for _ in range(20):
        np.testing.assert_allclose(fast(x, ours), step(x, plain), rtol=1e-12)
    assert ours.bit_generator.state == plain.bit_generator.state
    assert fast.cache_info().traces == 2


def check_impure_calls():
    """Python's profile function reports different calls in different versions."""
    impure = (
        lambda x: x * time.time(),
        lambda x: x * len(list(pathlib.Path("/").iterdir())),
        lambda x: x * len(next(os.walk("/"))),
        lambda x: x * len(np.random.SeedSequence().state),
    )
    for f in impure:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            fast = tracker.jit(f)
            fast(2.0)
        assert "may differ at each call" in str(told[0].message)
        assert fast.cache_info().eager == 1
    fast = tracker.jit(lambda x: x * len(os.path.join("a", "b")) * len(pathlib.Path("/a/b").name))
    assert fast(2.0) == fast(2.0) == 6.0
    assert fast.cache_info().traces == 1


if __name__ == "__main__":
    check_impure_calls()
    check_values_and_gradients()
    check_branches()
    check_loops()
    check_structures_and_products()
    check_draws()
    print(f"jit works on Python {sys.version.split()[0]}, NumPy {np.__version__}")
