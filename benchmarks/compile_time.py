"""Time to trace and compile value and gradient: of a loop of dependent scalar operations, and of an
array function at its first shape and at others.

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


def shapes() -> dict[int, float]:
    """Seconds of the first call at each length."""
    fast = tracker.jit(
        lambda x, w: tracker.withgradient(lambda y: np.sum(np.tanh(y * w) * np.exp(-(y**2))), x)
    )
    seconds = {}
    for n in (1000, 1500, 2500):
        x, w = np.linspace(-1.0, 1.0, n), np.linspace(0.0, 2.0, n)
        start = time.perf_counter()
        fast(x, w)
        seconds[n] = time.perf_counter() - start
    return seconds


if __name__ == "__main__":
    for n, seconds in rows().items():
        print(
            f"{n:6} operations: {1e3 * seconds:8.1f} ms  ({1e6 * seconds / n:.0f} us an operation)"
        )
    for n, seconds in shapes().items():
        print(f"{n:6} elements:   {1e3 * seconds:8.1f} ms")
