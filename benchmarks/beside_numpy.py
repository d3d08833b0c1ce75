"""Every compiled array function beside plain NumPy, and its gradient beside itself.

Run: python benchmarks/beside_numpy.py [--family sorting] [--name sort] [--type f8] [--sizes 10]
                                       [--gradients] [--worst 40]

One thread each; the least of repeats; a ratio is NumPy's time by ours (of gradients: the gradient's
by the function's, both compiled, so there less is better). Rows are sorted, the worst first.
"""

from __future__ import annotations

import argparse
import math
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy_cases import FAMILIES, Case
from timing import best_of_each

import tracker

SIZES = (10, 1000, 100_000, 1_000_000)
# The sides of matrices are 3, 10 and 100.
LINALG_SIZES = (9, 100, 10_000)
TYPES = {"f8": np.float64, "f4": np.float32}


class Row(NamedTuple):
    family: str
    name: str
    type: str
    n: int
    ours: float
    other: float

    @property
    def ratio(self) -> float:
        return self.other / self.ours


def sizes_of(family: str, case: Case, wanted: tuple[int, ...]) -> list[int]:
    of = LINALG_SIZES if family == "linalg" else wanted
    return [n for n in of if n <= case.largest]


def beside_numpy(case: Case, arguments: tuple[Any, ...]) -> tuple[float, float]:
    """Microseconds of the compiled function and of the plain one."""
    compiled = tracker.jit(lambda *a: case.call(*a))
    compiled(*arguments)
    return best_of_each(lambda: compiled(*arguments), lambda: case.call(*arguments))


def beside_primal(case: Case, arguments: tuple[Any, ...]) -> tuple[float, float]:
    """Microseconds of the function, summed, and of its gradient in all floating arguments."""
    total = tracker.jit(lambda *a: np.sum(case.call(*a)))
    places = tuple(i for i, a in enumerate(arguments) if a.dtype.kind == "f")
    slope = tracker.value_and_grad(total, places)
    slope(*arguments)
    total(*arguments)
    return best_of_each(lambda: total(*arguments), lambda: slope(*arguments))


def measured(
    measure: Callable[[Case, tuple[Any, ...]], tuple[float, float]], asked: argparse.Namespace
) -> Iterator[Row]:
    for family, cases in FAMILIES.items():
        if asked.family and family not in asked.family:
            continue
        for name, case in cases.items():
            if (asked.name and name not in asked.name) or (asked.gradients and not case.smooth):
                continue
            for type in asked.type or TYPES:
                for n in sizes_of(family, case, tuple(asked.sizes)):
                    arguments = case.make(n, TYPES[type])
                    try:
                        yield Row(family, name, type, n, *measure(case, arguments))
                    except Exception as error:
                        print(f"{family} {name} {type} {n}: {error!r}", flush=True)


def report(rows: list[Row], gradients: bool, worst: int) -> None:
    rows.sort(key=lambda row: row.ratio, reverse=gradients)
    for row in rows[:worst]:
        print(
            f"{row.family:12} {row.name:22} {row.type} {row.n:8}  {row.ours:12.2f} us"
            f" {row.other:12.2f} us  {row.ratio:8.2f}"
        )
    for family in {row.family: None for row in rows}:
        of = [row for row in rows if row.family == family]
        mean = math.exp(sum(math.log(row.ratio) for row in of) / len(of))
        behind = sum(row.ratio > 6.0 if gradients else row.ratio < 0.95 for row in of)
        limit = "above 6" if gradients else "below 0.95"
        print(f"{family:12} geometric mean {mean:6.2f}, {behind} of {len(of)} {limit}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--family", nargs="*")
    parser.add_argument("--name", nargs="*")
    parser.add_argument("--type", nargs="*", choices=list(TYPES))
    parser.add_argument("--sizes", nargs="*", type=int, default=list(SIZES))
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--worst", type=int, default=1_000_000)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    tracker.config(threads=1)
    measure = beside_primal if asked.gradients else beside_numpy
    report(list(measured(measure, asked)), asked.gradients, asked.worst)
