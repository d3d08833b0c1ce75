"""Eager cost per operation: forward plus backward of 60 elementwise ops, against torch.

Run: python benchmarks/eager.py        (minimum of repeats; ratios are within this run)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from timing import best

import tracker

OPS = 60


def chain(xp: Any, x: Any) -> Any:
    y = x
    for _ in range(10):
        y = xp.sin(y)
        y = y * 1.1
        y = y + 0.3
        y = y * -0.5
        y = xp.exp(y)
        y = xp.tanh(y)
    return y


def rows() -> dict[str, dict[str, float]]:
    small = np.random.default_rng(0).random(10)
    found: dict[str, dict[str, float]] = {"float": {}, "array of 10": {}}
    found["float"]["tracker"] = best(lambda: tracker.gradient(lambda x: chain(np, x), 0.3)) / OPS
    found["array of 10"]["tracker"] = (
        best(lambda: tracker.gradient(lambda x: np.sum(chain(np, x)), small)) / OPS
    )
    try:
        import torch
    except ImportError:
        return found
    torch.set_num_threads(1)
    for name, start in (("float", 0.3), ("array of 10", small)):
        first = torch.tensor(start, dtype=torch.float64)

        def run(first: Any = first) -> Any:
            x = first.clone().requires_grad_()
            chain(torch, x).sum().backward()
            return x.grad

        found[name]["torch"] = best(run) / OPS
    return found


if __name__ == "__main__":
    for case, times in rows().items():
        ratio = times.get("torch", float("nan")) / times["tracker"]
        cells = "  ".join(f"{who} {us:.2f} us/op" for who, us in times.items())
        print(f"{case:12}  {cells}  (torch/tracker {ratio:.2f})")
