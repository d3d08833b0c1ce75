"""Time to trace and compile value and gradient: of a loop of dependent scalar operations, and of an
array function at its first shapes and at others. The first call returns what the trace computed,
while the compiler works; the second waits for it: both times count from the first call.

Run: python benchmarks/compile_time.py      (the first should grow linearly; other shapes need no
compiling)
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import tracker


def loop(n: int) -> Any:
    def f(x: Any) -> Any:
        y = x
        for i in range(n // 4):
            y = np.sin(y) * 1.01 + x
            y = y - 0.1 * i
        return y

    return f


def two_calls(f: Any, *args: Any) -> tuple[float, float]:
    """Seconds until the first call has its result, and until the second has."""
    start = time.perf_counter()
    f(*args)
    first = time.perf_counter() - start
    f(*args)
    return first, time.perf_counter() - start


def chain(n: int) -> tuple[float, float]:
    return two_calls(tracker.value_and_grad(tracker.jit(loop(n))), 0.3)


def rows() -> dict[int, tuple[float, float]]:
    chain(8)  # LLVM's own first start
    return {n: min(chain(n) for _ in range(3)) for n in (100, 1000, 10_000)}


def shapes() -> dict[str, tuple[float, float]]:
    """The same at each length, and at each shape of a matrix."""

    def loss(x: Any, w: Any) -> Any:
        return np.sum(np.tanh(x * w) * np.exp(-(x**2)))

    seconds = {}
    for group in (
        ((50,), (64,), (101,)),
        ((1000,), (1500,), (2500,)),
        ((200, 300), (210, 301), (150, 640)),
    ):
        fast = tracker.jit(lambda x, w: tracker.withgradient(lambda y: loss(y, w), x))
        for shape in group:
            x, w = np.ones(shape), np.linspace(0.0, 2.0, shape[-1])
            seconds["x".join(map(str, shape))] = two_calls(fast, x, w)
    return seconds


if __name__ == "__main__":
    for n, (first, ready) in rows().items():
        print(f"{n:6} operations: result {1e3 * first:8.1f} ms, machine code {1e3 * ready:8.1f} ms")
    for shape, (first, ready) in shapes().items():
        print(
            f"{shape:>7} elements: result {1e3 * first:8.1f} ms, machine code {1e3 * ready:8.1f} ms"
        )
