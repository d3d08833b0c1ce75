"""What `import tracker` adds to `import numpy`, and a chain of a million operations.

The import is measured with compiled bytecode in place, as anybody has it from the second time on.

Run: python benchmarks/startup.py
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time

import tracker

_TIMED = """
import time, sys, numpy
start = time.perf_counter()
import tracker
print(time.perf_counter() - start, "llvmlite" in sys.modules)
"""


def import_cost() -> tuple[float, bool]:
    """Least seconds that the import adds, and whether it pulled in llvmlite."""
    with tempfile.TemporaryDirectory() as bytecode:
        where = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": bytecode}
        command = [sys.executable, "-c", _TIMED]
        runs = [
            subprocess.run(command, capture_output=True, text=True, check=True, env=where)
            for _ in range(8)  # the first compiles
        ]
    times = [run.stdout.split() for run in runs]
    return min(float(t) for t, _ in times), times[0][1] == "True"


def deep_chain(n: int) -> tuple[float, float, float]:
    """Seconds and peak megabytes of differentiating n chained operations, and the gradient."""
    start = time.perf_counter()
    x = tracker.param(1.0)
    y = x
    for _ in range(n):
        y = y * 1.0000001
    tracker.back(y)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return time.perf_counter() - start, peak, tracker.grad(x)


if __name__ == "__main__":
    seconds, llvm = import_cost()
    print(f"import tracker adds {1e3 * seconds:.0f} ms (llvmlite imported: {llvm})")
    for n in (100_000, 1_000_000):
        seconds, peak, gradient = deep_chain(n)
        print(f"chain of {n}: {seconds:.2f} s, peak {peak:.0f} MB, gradient {gradient:.6f}")
