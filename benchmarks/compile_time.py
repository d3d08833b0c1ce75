"""Time to trace and compile value and gradient: of a loop of dependent scalar operations, and of an
array function at its first shapes and at others.

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


def first_call(n: int) -> float:
    """Seconds of the first call."""
    value_and_grad = tracker.value_and_grad(tracker.jit(loop(n)))
    start = time.perf_counter()
    value_and_grad(0.3)
    return time.perf_counter() - start


def rows() -> dict[int, float]:
    first_call(8)  # LLVM's own first start
    return {n: min(first_call(n) for _ in range(3)) for n in (100, 1000, 10_000)}


def shapes() -> dict[str, float]:
    """Seconds of the first call at each length, and at each shape of a matrix."""

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
            start = time.perf_counter()
            fast(x, w)
            seconds["x".join(map(str, shape))] = time.perf_counter() - start
    return seconds


if __name__ == "__main__":
    for n, seconds in rows().items():
        print(
            f"{n:6} operations: {1e3 * seconds:8.1f} ms  ({1e6 * seconds / n:.0f} us an operation)"
        )
    for shape, seconds in shapes().items():
        print(f"{shape:>7} elements:  {1e3 * seconds:8.1f} ms")
