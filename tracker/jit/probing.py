"""What the body of an elementwise op does, asked of the body itself: it is run on stand-ins.

Owns: `is_math`, `is_slow`, `is_sum`, each asked once per op. A `_Probe` stands for the emitter and
for the numbers alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.ir.graph import Eqn
from tracker.ir.op import Map, Op
from tracker.values import Value

_probed: dict[Op, _Probe] = {}
_sums: dict[Op, bool] = {}


def is_math(eqn: Eqn | Value) -> bool:
    """Whether the body calls a function that costs much."""
    return _probe(eqn).heavy


def is_slow(eqn: Eqn) -> bool:
    """Whether it takes several times as long as an addition: a division, a root."""
    return _probe(eqn).slow


def _probe(eqn: Eqn | Value) -> _Probe:
    known = _probed.get(eqn.op)
    if known is None:
        known = _Probe()
        lower = eqn.op.lower
        if isinstance(lower, Map):
            lower.body(known, *(known for _ in eqn.operands), **eqn.params)
        _probed[eqn.op] = known  # not before: other threads compile, too
    return known


def is_sum(op: Op) -> bool:
    """Whether an elementwise op adds its two operands."""
    known = _sums.get(op)
    if known is None:
        assert isinstance(op.lower, Map)
        a, b = _Probe(), _Probe()
        found = op.lower.body(_Probe(), a, b) if op.arity == 2 else None
        known = _sums[op] = isinstance(found, _Probe) and found.terms == (a, b)
    return known


class _Probe:
    """Emitter and numbers in one; notices calls of functions. `terms`: what it is the sum of."""

    value = None
    dtype = np.dtype(np.float64)

    def __init__(self, *terms: Any) -> None:
        self.heavy = self.slow = False
        self.terms = terms

    def add(self, a: Any, b: Any) -> Any:
        return _Probe(a, b)

    def math(self, name: str, *_: Any) -> Any:
        self.heavy = self.heavy or name != "sqrt"
        self.slow = True
        return self

    def div(self, *_: Any) -> Any:
        self.slow = True
        return self

    def borrow(self, *_: Any) -> Any:
        self.heavy = True
        return self

    def power(self, *_: Any) -> Any:
        self.heavy = True
        return self

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self
