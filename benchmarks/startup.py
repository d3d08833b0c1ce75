"""What `import tracker` adds to `import numpy`, the first call of a process, and a chain of a
million operations.

Import and first call are measured with compiled bytecode in place, as anybody has it from the
second time on.

Run: python benchmarks/startup.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from memory import status

import tracker

_TIMED = """
import time, sys, numpy
start = time.perf_counter()
import tracker
print(time.perf_counter() - start, "llvmlite" in sys.modules)
"""

_FIRST = """
import time, tracker
for power in (2, 3):
    start = time.process_time()
    tracker.jit(lambda x: tracker.withgradient(lambda y: y**power, x))(0.7)
    print(time.process_time() - start)
"""


def _outputs(program: str) -> list[list[str]]:
    """The words that a program prints, in each of several processes."""
    with tempfile.TemporaryDirectory() as bytecode:
        where = {
            **os.environ,
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": bytecode,
            "TRACKER_CACHE": "0",
        }
        command = [sys.executable, "-c", program]
        runs = [
            subprocess.run(command, capture_output=True, text=True, check=True, env=where)
            for _ in range(8)  # the first compiles
        ]
    return [run.stdout.split() for run in runs]


def import_cost() -> tuple[float, bool]:
    """Least seconds that the import adds, and whether it pulled in llvmlite."""
    times = _outputs(_TIMED)
    return min(float(t) for t, _ in times), times[0][1] == "True"


def first_calls() -> tuple[float, float]:
    """Least seconds of processor time for the gradients of a number: the first function that a
    process compiles, and the second."""
    times = [[float(word) for word in words] for words in _outputs(_FIRST)]
    return min(first for first, _ in times), min(second for _, second in times)


def deep_chain(n: int) -> tuple[float, float, float]:
    """Seconds and peak megabytes of differentiating n chained operations, and the gradient."""
    start = time.perf_counter()
    x = tracker.param(1.0)
    y = x
    for _ in range(n):
        y = y * 1.0000001
    tracker.back(y)
    return time.perf_counter() - start, status("VmHWM") / 2**20, tracker.grad(x)


def deep_chain_apart(n: int) -> tuple[float, float]:
    """The same in a process of its own, whose memory it alone uses: seconds and megabytes."""
    code = f"import startup; print(*startup.deep_chain({n})[:2])"
    found = subprocess.check_output([sys.executable, "-c", code], cwd=Path(__file__).parent)
    seconds, peak = map(float, found.split())
    return seconds, peak


if __name__ == "__main__":
    seconds, llvm = import_cost()
    print(f"import tracker adds {1e3 * seconds:.0f} ms (llvmlite imported: {llvm})")
    first, second = first_calls()
    print(f"first function {1e3 * first:.0f} ms, second {1e3 * second:.0f} ms")
    for n in (100_000, 1_000_000):
        seconds, peak, gradient = deep_chain(n)
        print(f"chain of {n}: {seconds:.2f} s, peak {peak:.0f} MB, gradient {gradient:.6f}")
