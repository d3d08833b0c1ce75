"""Time to trace and compile value and gradient of a loop of dependent scalar operations.

Run: python benchmarks/compile_time.py      (should grow linearly)
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


if __name__ == "__main__":
    for n, seconds in rows().items():
        print(
            f"{n:6} operations: {1e3 * seconds:8.1f} ms  ({1e6 * seconds / n:.0f} us an operation)"
        )
