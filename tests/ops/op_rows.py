"""The tables of ops and samples in each family's test file.

`row("exp", domain=[(-2, 2)], extremes=[...])` is enough for an elementwise op: shapes, Python
numbers, complex numbers and hypothesis draws follow from the domain. Other ops list their samples:
`row("sum", sample(x(2, 3), axis=(0,), keepdims=True), ...)`.

`CHECKS` is what `test_rows.py` runs on every sample. A check takes (op, operands, params) and
raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracker import testing
from tracker.ir.op import OPS, Op

CHECKS: list[Callable[..., None]] = [*testing.CHECKS]

Interval = tuple[float, float]
UNARY_SHAPES = [((),), ((3,),), ((2, 3),), ((0,),), ((2, 0, 1),)]
BINARY_SHAPES = [
    ((), ()), ((3,), ()), ((), (3,)), ((2, 1), (3,)), ((2, 3), (1, 3)), ((0,), ()),
    ((1, 1), (0, 1)),
]  # fmt: skip


@dataclass(frozen=True)
class Sample:
    operands: tuple[Any, ...]
    params: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [
            type(o).__name__ if np.isscalar(o) else f"{np.result_type(o)}{list(np.shape(o))}"
            for o in self.operands
        ]
        parts += [f"{k}={v}" for k, v in self.params.items()]
        return " ".join(parts)


@dataclass(frozen=True)
class Row:
    """An op with its samples; `domain` is set for elementwise ops only."""

    op: Op
    samples: tuple[Sample, ...]
    domain: tuple[Interval, ...] | None
    complex: bool
    extremes: tuple[Sample, ...]


def sample(*operands: Any, **params: Any) -> Sample:
    return Sample(operands, params)


def row(
    name: str,
    *samples: Sample,
    domain: Sequence[Interval] | None = None,
    complex: bool = False,
    extremes: Sequence[Any] = (),
) -> Row:
    """A row of a family's table: the op of this name.

    domain    per operand, the interval where an elementwise op is smooth; samples are made from it
    complex   whether it takes complex numbers extremes  operands (a number, or a tuple) at which
    derivatives must not overflow or warn
    """
    made = list(samples)
    if domain is not None:
        shapes = UNARY_SHAPES if len(domain) == 1 else BINARY_SHAPES
        for at, shape in enumerate(shapes):
            made.append(Sample(spread(domain, shape, at)))
        made.append(Sample(tuple(float(v) for v in spread(domain, ((),) * len(domain), 9))))
        if complex:
            for at, shape in enumerate(shapes[:4]):
                turned = (v + 0.4j * np.cos(v) for v in spread(domain, shape, at))
                made.append(Sample(tuple(np.asarray(v)[()] for v in turned)))
    wide = tuple(
        Sample(tuple(np.float64(v) for v in (e if isinstance(e, tuple) else (e,))))
        for e in extremes
    )
    return Row(OPS[name], tuple(made), None if domain is None else tuple(domain), complex, wide)


def grid(domain: Interval, steps: Any, at: int) -> Any:
    """Points of a domain at integer `steps` of 0..40; operands differ by half a step, so they never
    tie."""
    low, high = domain
    return low + (high - low) * (np.asarray(steps) + 0.25 + 0.5 * at) / 41


def spread(
    domain: Sequence[Interval], shapes: Sequence[tuple[int, ...]], seed: int
) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    return tuple(
        np.asarray(grid(interval, rng.integers(0, 41, shape), at))[()]
        for at, (interval, shape) in enumerate(zip(domain, shapes, strict=True))
    )


def x(*shape: int, seed: int = 0) -> Any:
    """Real numbers in (-2, 2) with no ties and no zeros."""
    n = int(np.prod(shape, dtype=int))
    order = np.random.default_rng(n + seed).permutation(n)
    values = (order + 0.37 + 0.1 * seed) / max(n, 1) * 4 - 2
    return values.reshape(shape)[()]


def z(*shape: int) -> Any:
    """Complex numbers."""
    return x(*shape) + 1j * x(*shape, seed=3)
