"""How the benchmarks measure: the least of several repeats, each long enough to be read."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

_SETTLING_CALLS = 8  # from the third on, quick code is replaced; it takes two calls more


def settle(run: Callable[[], Any]) -> None:
    """Call a compiled function until its machine code no longer changes: long programs are compiled
    quickly first, and optimised in the background from the third call on."""
    from tracker.jit.runtime.compile_queue import drain

    for _ in range(_SETTLING_CALLS):
        run()
        drain()


def best(
    run: Callable[[], Any],
    repeats: int = 7,
    seconds: float = 0.05,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Microseconds a call."""
    run()
    start = clock()
    run()
    number = max(1, int(seconds / max(clock() - start, 1e-7)))
    least = float("inf")
    for _ in range(repeats):
        start = clock()
        for _ in range(number):
            run()
        least = min(least, (clock() - start) / number)
    return least * 1e6


def best_of_each(
    first: Callable[[], Any], second: Callable[[], Any], repeats: int = 7, seconds: float = 0.003
) -> tuple[float, float]:
    """Microseconds of this thread's time a call of two functions, measured in turn.

    What else the machine does then slows both or neither.
    """
    times = [float("inf"), float("inf")]
    counts = []
    for run in (first, second):
        run()
        start = time.thread_time()
        run()
        counts.append(max(1, int(seconds / max(time.thread_time() - start, 1e-7))))
    for _ in range(repeats):
        for i, run in enumerate((first, second)):
            start = time.thread_time()
            for _ in range(counts[i]):
                run()
            times[i] = min(times[i], (time.thread_time() - start) / counts[i])
    return times[0] * 1e6, times[1] * 1e6
