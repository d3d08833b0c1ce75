"""Peak memory of compiled gradients beside that of NumPy's for the same gradients, written by hand.

Run: python benchmarks/peak_memory.py      (Linux; each number is of a process of its own)

In arrays as long as the argument, above what is there before the call, so the argument does not
count and the result does. The first call traces and compiles, and is measured as NumPy's is; of
later ones the results and the scratch of machine code are counted.
"""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tracker

_LENGTH = 4_000_000
_SMALL = 2500  # elements of the calls that load modules and start the compiler before


class Case(NamedTuple):
    loss: Callable[..., Any]
    by_hand: Callable[..., Any]
    make: Callable[[int], tuple[Any, ...]]


def _vectors(count: int) -> Callable[[int], tuple[Any, ...]]:
    return lambda n: tuple(np.random.default_rng(0).normal(size=(count, n)))


def _square(n: int) -> tuple[Any, ...]:
    side = round(n**0.5)
    return (1 + np.random.default_rng(0).normal(size=(side, side)) / side,)


def _taken(n: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    return rng.normal(size=n), rng.integers(0, n, n)


def _tanh(x: Any, w: Any) -> Any:
    y = np.tanh(x * w)
    return np.sum(y), w * (1 - y * y)


def _exp(x: Any) -> Any:
    y = np.exp(-x * x)
    return np.sum(y), -2 * x * y


def _cumsum(x: Any) -> Any:
    sums = np.cumsum(x)
    return np.sum(sums * sums), np.cumsum(2 * sums[::-1])[::-1]


def _sort(x: Any) -> Any:
    order = np.argsort(x)
    y = x[order]
    g = np.empty_like(x)
    g[order] = 2 * y
    return np.sum(y * y), g


def _take(x: Any, i: Any) -> Any:
    y = x[i]
    return np.sum(y * y), np.bincount(i, 2 * y, len(x))


def _max_of_rows(x: Any) -> Any:
    y = np.max(x, axis=1, keepdims=True)
    hit = x == y
    return np.sum(y), np.where(hit, 1 / np.sum(hit, axis=1, keepdims=True), 0.0)


def _prod_of_rows(x: Any) -> Any:
    y = np.prod(x, axis=1, keepdims=True)
    return np.sum(y), y / x


def _matmul(x: Any) -> Any:
    g = 2 * (y := x @ x)
    return np.sum(y * y), g @ x.T + x.T @ g


CASES = {
    "exp(-x**2)": Case(lambda x: np.sum(np.exp(-x * x)), _exp, _vectors(1)),
    "tanh(x * w)": Case(lambda x, w: np.sum(np.tanh(x * w)), _tanh, _vectors(2)),
    "cumsum": Case(lambda x: np.sum(np.cumsum(x) ** 2), _cumsum, _vectors(1)),
    "sort": Case(lambda x: np.sum(np.sort(x) ** 2), _sort, _vectors(1)),
    "x[i]": Case(lambda x, i: np.sum(x[i] ** 2), _take, _taken),
    "max of rows": Case(lambda x: np.sum(np.max(x, axis=1)), _max_of_rows, _square),
    "prod of rows": Case(lambda x: np.sum(np.prod(x, axis=1)), _prod_of_rows, _square),
    "x @ x": Case(lambda x: np.sum((x @ x) ** 2), _matmul, _square),
}


def _status(name: str) -> float:
    """A line of the process's own account, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith(name))


def _peak(call: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = _status("VmRSS")
    call(*arguments)
    return (_status("VmHWM") - before) / arguments[0].nbytes


def _of_machine_code(call: Any, arguments: tuple[Any, ...]) -> float:
    """What `explain` says: blocks that are kept for the next call would count in the process's."""
    call(*arguments)
    found = re.search(r"([\d,]+) of results, at most ([\d,]+) of scratch", call.explain(*arguments))
    assert found is not None
    return sum(int(number.replace(",", "")) for number in found.groups()) / arguments[0].nbytes


def compiled(case: Case) -> Callable[..., Any]:
    return tracker.jit(lambda x, *rest: tracker.withgradient(lambda y: case.loss(y, *rest), x))


def measured(name: str, what: str) -> float:
    """The peak of one call, in this process."""
    case = CASES[name]
    small, large = case.make(_SMALL), case.make(_LENGTH)
    by_hand = what == "by hand"
    warm, run = (case.by_hand if by_hand else compiled(case) for _ in range(2))
    for _ in range(2):
        warm(*small)
    return _of_machine_code(run, large) if what == "later" else _peak(run, large)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(measured(*sys.argv[1:]))
    else:
        for name in CASES:
            numbers = [
                float(subprocess.check_output([sys.executable, __file__, name, what]))
                for what in ("by hand", "first", "later")
            ]
            print("{:14} by hand {:5.2f}  first call {:5.2f}  later {:5.2f}".format(name, *numbers))
