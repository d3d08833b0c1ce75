"""How the benchmarks measure: the least of several repeats, each long enough to be read."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def best(run: Callable[[], Any], repeats: int = 7, seconds: float = 0.05) -> float:
    """Microseconds a call."""
    run()
    start = time.perf_counter()
    run()
    number = max(1, int(seconds / max(time.perf_counter() - start, 1e-7)))
    least = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(number):
            run()
        least = min(least, (time.perf_counter() - start) / number)
    return least * 1e6
