"""Bodies of loops and branches that are equal, or equal but for numbers, become one."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracker import cond, config, gradient, jit, scan, trace, while_loop
from tracker.ir.op import OPS
from tracker.ir.passes.loops.shared_bodies import dedupe_bodies
from tracker.ir.passes.manager import run
from tracker.support.structs import replace

X = np.array([0.3, 0.6, 0.8])
BODY = re.compile(r"^define (?:internal )?i64 @body\d+\(", re.MULTILINE)


def branches(*bodies):
    def f(x):
        for body in bodies:
            x = cond(x[0] > 0.5, body, lambda x: x + 1.0, x)
        return x

    return f


@pytest.mark.parametrize(
    ("bodies", "left"),
    [
        ([lambda x: x * 2.0, lambda y: y * 2.0], 2),
        ([lambda x: x * 2.0, lambda x: 2.0 * x], 3),
        ([lambda x: x * 0.0, lambda x: x * -0.0], 3),
        ([lambda x: x * 2.0, lambda x: x * 2.5], 3),
        ([lambda x: x[[0, 1, 2]], lambda x: x[[0, 2, 1]]], 2),  # positions are operands
        ([lambda x: x[::-1], lambda x: x[::1]], 3),
        ([lambda x: cond(x[1] > 0, np.sin, np.cos, x) for _ in range(2)], 2),
        ([lambda x, f=f: cond(x[1] > 0, np.sin, f, x) for f in (np.cos, np.tan)], 3),
    ],
)
def test_equal_bodies_become_one(bodies, left):
    traced = trace(branches(*bodies), X)
    shared = run(traced, [dedupe_bodies], check=True)
    assert (len(traced.functions), len(shared.functions)) == (2 * len(bodies), left)
    assert run(shared, [dedupe_bodies]) is shared


def test_bodies_with_opaque_params_stay():
    traced = trace(branches(np.sin, np.sin), X)
    op = replace(OPS["sin"], infer=lambda x, *, state: x)
    for nested in traced.functions.values():
        nested.body = tuple(replace(e, op=op, params={"state": object()}) for e in nested.body)
    assert run(traced, [dedupe_bodies]) is traced


def steps(x):
    """Loops and branches at each step; of every other loop the stack is not taken."""
    total = 0.0
    for k in range(5):
        last, stack = scan(lambda c, r: (0.9 * c + r, np.sin(c)), x[0], x)
        total = total + last * (np.sum(stack) if k % 2 else 1.0)
        x = cond(last > 0.5, lambda x: np.sin(x) * x, lambda x: np.cos(x) + x / 2, x)
    return total


def test_values_of_a_loop_around_bodies():
    compiled = jit(lambda x: (steps(x), gradient(steps, x)[0]))
    with config(check=True):
        for x in (X, -X):
            for found, wanted in zip(compiled(x), (steps(x), gradient(steps, x)[0]), strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert compiled.cache_info().traces == 1


@pytest.mark.optimised
def test_steps_with_equal_bodies_are_rolled():
    def f(x):
        for _ in range(120):
            x = cond(x[0] > 0.5, lambda x: np.sin(x) * x, lambda x: np.cos(x) + x, x)
        return x

    compiled = jit(f)
    np.testing.assert_allclose(compiled(X), f(X), rtol=1e-12)
    assert compiled.llvm(X).count("define internal i64 @body") <= 4


MATRIX = np.random.default_rng(1).normal(size=(3, 3)) / 4
OTHER = np.random.default_rng(2).normal(size=(3, 3)) / 4
POSITIONS = np.array([2, 0, 1]), np.array([1, 2, 0])


def long(step, *numbers):
    """A loop with a body of 60 equations or more."""

    def body(c, row):
        for _ in range(20):
            c = step(c, row, *numbers)
        return c, np.sum(c)

    def loop(x):
        last, sums = scan(body, x, 0.1 * np.stack([x, x + 1.0, x - 1.0, x]))
        return np.sum(last) + np.sum(sums)

    return loop


def scaled(c, row, factor, shift):
    return 0.9 * np.sin(c) + factor * row - shift


def searched(tolerance, rate):
    """A `while` with a long body, whose condition has a number, too."""

    def step(c):
        for _ in range(20):
            c = c - rate * np.tanh(c)
        return c

    return lambda x: np.sum(while_loop(lambda c: np.max(np.abs(c)) > tolerance, step, x))


def to_power(c, row, n):
    return np.abs(c) ** n + 0.1 * row


ALIKE = {
    "numbers": ([long(scaled, 0.1, 0.25), long(scaled, 0.3, 0.5), long(scaled, 0.1, 0.5)], 1),
    "a number that is zero": ([long(scaled, 0.3, 0.0), long(scaled, 0.0, 0.5)], 1),
    "zeros of both signs": ([long(scaled, 0.3, 0.0), long(scaled, 0.3, -0.0)], 1),
    "numbers of whiles": ([searched(1e-3, 0.25), searched(1e-6, 0.5)], 3),  # conditions are short
    "a number and an integer": ([long(scaled, 0.3, 1.0), long(scaled, 0.3, 1)], 2),
    "dtypes": ([long(scaled, 0.3, 0.5), long(scaled, 0.3, np.float32(0.5))], 2),
    "exponents": ([long(to_power, 2.0), long(to_power, 1.5)], 2),
    "arrays": ([long(lambda c, row, a=a: np.tanh(a @ c) + row) for a in (MATRIX, OTHER)], 1),
    "one array and two": (
        [
            long(lambda c, row, a=a: np.tanh(MATRIX @ c) + (a @ row) / 3.0 + 0.1)
            for a in (MATRIX, OTHER)
        ],
        2,
    ),
    "order of operands": (
        [long(lambda c, row: np.sin(row - c) * 0.5), long(lambda c, row: np.sin(c - row) * 0.5)],
        2,
    ),
    "positions": ([long(lambda c, row, p=p: np.cos(c[p]) * row) for p in POSITIONS], 1),
    "short bodies": (
        [
            lambda x, k=k: np.sum(scan(lambda c, row: (k * c + row, None), x, np.ones((40, 3)))[0])
            for k in (0.5, 0.7)
        ],
        2,
    ),
}


@pytest.mark.parametrize("name", ALIKE)
def test_loops_share_bodies(name):
    loops, bodies = ALIKE[name]
    together = lambda x: [loop(x) for loop in loops]  # noqa: E731
    both = jit(lambda x: (together(x), gradient(lambda x: sum(together(x)), x)[0]))
    shared = run(trace(together, X), [dedupe_bodies], check=True)
    assert len(shared.functions) == bodies
    with config(check=True):
        for x in (X, X / 2):
            (found, slope), wanted = both(x), [loop(x) for loop in loops]
            np.testing.assert_allclose(found, wanted, rtol=1e-12)
            np.testing.assert_allclose(
                slope, gradient(lambda x: sum(together(x)), x)[0], rtol=1e-11
            )
    assert both.cache_info().traces == 1


def test_the_code_holds_a_shared_body_once():
    def f(x, factors):
        return sum(long(scaled, factor, 0.5)(x) for factor in factors)

    one, three = (jit(lambda x, k=k: gradient(f, x, k)[0]) for k in ([0.1], [0.1, 0.3, 0.7]))
    one(X), three(X)
    texts = one.llvm(X), three.llvm(X)
    assert len(BODY.findall(texts[0])) == len(BODY.findall(texts[1])) == 2  # forwards and back


def test_iterations_of_python_loops_share_a_body():
    """Two loops that are written in Python, and rolled."""

    def f(x):
        for factor in (0.25, 0.75):
            for k in range(12):
                x = scaled(scaled(x, X, factor, 0.5), X * k, factor, 0.125)
                x = x + long(scaled, factor, 0.25)(x) / 100
        return np.sum(x)

    fast = jit(lambda x: (f(x), gradient(f, x)[0]))
    for _ in range(2):
        for found, wanted in zip(fast(X), (f(X), gradient(f, X)[0]), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-11)


numbers = st.floats(-1.0, 1.0).map(lambda x: round(x, 2))


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(numbers, numbers), min_size=2, max_size=3), st.booleans())
def test_shared_bodies_compute_the_same_bits(pairs, is_reversed):
    def step(c, row, a, b):
        c = np.where(row > a, c * b + a, np.minimum(c, b) / 3.0)
        return row - c if is_reversed else c - row

    loops = [long(step, *pair) for pair in pairs]
    together = jit(lambda x: [loop(x) for loop in loops])
    alone = [jit(loop) for loop in loops]
    for _ in range(2):
        found = together(X), [loop(X) for loop in alone]
    np.testing.assert_array_equal(*found)


def step(c, row, a):
    c = np.tanh(a * c) + row * a
    return c, c[0] * row


def by_scan(x, a, rows):
    last, out = scan(lambda c, row: step(c, row, a), x, rows)
    return np.sum(last**2), np.sum(out)


def by_steps(x, a, rows):
    total = 0.0
    for row in rows:
        x, out = step(x, row, a)
        total = total + np.sum(out)
    return np.sum(x**2), total


ROWS = np.arange(120.0).reshape(40, 3) / 100
ARGS = {
    "a number": (X, 0.5, ROWS),
    "an array": (X, X, ROWS),
    "float32": (X.astype(np.float32), np.float32(0.5), ROWS.astype(np.float32)),
    "mixed": (X.astype(np.float32), 0.5, ROWS.astype(np.float32)),
    "no steps": (X, 0.5, ROWS[:0]),
}


def slopes(loop, result, argnums):
    return lambda *args: gradient(lambda *x: result(loop(*x)), *args, argnums=argnums)


@pytest.mark.parametrize("name", ARGS)
def test_pullbacks_of_equal_bodies_follow_what_they_depend_on(name):
    """One body, of which other derivatives are asked."""
    args = ARGS[name]
    rtol = 1e-4 if args[2].dtype == np.float32 else 1e-11
    for result in (sum, lambda pair: pair[0], lambda pair: pair[1]):
        for argnums in ((0,), (1,), (2,), (0, 1, 2)):
            wanted = slopes(by_steps, result, argnums)(*args)
            eager = slopes(by_scan, result, argnums)
            fast = jit(eager)
            for found in (eager(*args), fast(*args), fast(*args)):
                for have, want in zip(found, wanted, strict=True):
                    assert np.asarray(have).dtype == np.asarray(want).dtype
                    np.testing.assert_allclose(have, want, rtol=rtol)
