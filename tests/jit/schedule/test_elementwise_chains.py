"""Chains of elementwise functions: the estimated work of their loops, and where they are split."""

import re

import numpy as np
import pytest
from compiled import agree

from tracker import gradient, jit
from tracker.ir.text import parse
from tracker.jit.codegen.loop_nest import kernel_work
from tracker.jit.pipeline.loop_carried import planned

FUNCTIONS = {"exp": lambda u: np.exp(-u * u), "tanh": np.tanh, "log": lambda u: np.log(u * u + 1)}


def chain(f, count):
    def run(u):
        for _ in range(count):
            u = u + 0.01 * f(u)
        return u

    return run


def loops(f, x):
    """The functions that each loop computes, in order."""
    fast = jit(f)
    fast(x), fast(x)
    return re.findall(r"kernel over \d+, level \d+: \d+ fused \(([^)]*)\)", fast.explain(x))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@pytest.mark.parametrize("size", [40, 3000, 200_000])
def test_results(name, size):
    f = chain(FUNCTIONS[name], 7)
    x = np.random.default_rng(0).normal(size=size)
    agree(f, x, tolerance=1e-13)
    steep = jit(lambda x: np.sum(f(x) ** 2))
    want = gradient(lambda x: np.sum(f(x) ** 2), x)
    np.testing.assert_allclose(gradient(steep, x), want, rtol=1e-11)


def test_chains_over_cached_arrays_are_split_after_two():
    parts = loops(chain(np.tanh, 6), np.linspace(-1.0, 1.0, 3000))
    assert [part.split().count("tanh") for part in parts] == [2, 2, 2]


@pytest.mark.parametrize("size", [100, 1 << 18])
def test_chains_over_short_or_large_arrays_are_one_loop(size):
    (part,) = loops(chain(np.tanh, 4), np.linspace(-1.0, 1.0, size))
    assert part.split().count("tanh") == 4


def test_independent_functions_share_a_loop():
    (part,) = loops(
        lambda x: np.exp(x) * np.tanh(x) + np.sin(x) * np.log(x * x + 1) + np.arctan(x),
        np.linspace(-1.0, 1.0, 3000),
    )
    assert {"exp", "tanh", "sin", "log", "arctan"} <= set(part.split())


def test_a_value_read_twice_is_counted_once():
    """The operands of a step are stored once, however often they are read."""

    def work(count):
        body = "".join(
            f"  s{k}: f64[1000] = multiply x{k} x{k}\n  x{k + 1}: f64[1000] = add s{k} x{k}\n"
            for k in range(count)
        )
        plan = planned(parse(f"function f(x0: f64[1000]) {{\n{body}  return (x{count})\n}}"))
        (kernel,) = plan.kernels
        return kernel_work(plan, kernel)

    assert work(40) == 2 * work(20) == 80 * 1000


def test_stencil_steps_store_only_what_neighbours_read():
    """Cheap functions of stored values are recomputed where they are read."""

    def around(u):
        return np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u

    def react(u, v):
        for _ in range(4):
            rate = u * v * v
            u, v = (
                u + 0.16 * around(u) - rate + 0.035 * (1 - u),
                v + 0.08 * around(v) + rate - 0.1 * v,
            )
        return u + v

    u, v = np.random.default_rng(0).random((2, 60, 60))
    fast = agree(react, u, v)
    assert fast.explain(u, v).count("kept: ") <= 3 * 3  # u, v, the rate; of three steps
