"""A reverse pass that gives the history up as it goes, for `back` on a large tape.

Owns: `spend`. As `reverse.sweep`, but a value that has been visited lets go of its operands, so
that what only the tape held is freed while the pass runs. Zeros are made strong at each step,
since the pass cannot be repeated: where a rule gives a NaN, it is asked again with
`strong_multiply`.

Invariant: nothing here holds a value that has been visited.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any

import numpy as np

from tracker.ops.bundle import Parts
from tracker.reverse import USED, _add, _consumers, _contributions, _is_not_finite, _strong
from tracker.values import CLOSED, Value
from tracker.weak import WeakTable

LARGE = 1 << 16  # bytes of one array; below, looking for NaNs at each step costs more than it saves


def is_large(values: Sequence[Value]) -> bool:
    """Whether it is worth the trouble."""
    return any(type(v.form) is np.ndarray and v.form.nbytes >= LARGE for v in values)


def spend(
    root: Value, seed: Any, leaves: Sequence[Value]
) -> tuple[list[Any], MutableMapping[Value, Any]]:
    """Cotangents of the leaves, and of those values on the way that somebody else holds."""
    waiting, foreign = _consumers([(root, None)], leaves, 0)
    for leaf in leaves:
        waiting[leaf] = -1
    interior: MutableMapping[Value, Any] = WeakTable()
    cotangents: dict[Value, Any] = {root: seed}
    owned: set[Value] = set()
    ready = [root] if waiting[root] == 1 else []
    del root
    with np.errstate(all="ignore"):
        while ready:
            value = ready.pop()
            g = cotangents.pop(value, None)
            owned.discard(value)
            contributions = _step(value, g, waiting, foreign)
            if g is not None:
                interior[value] = g
            operands, value.operands = value.operands, ()
            if operands:
                value.op = USED
            del waiting[value], value, g
            for at, operand in enumerate(operands):
                left = waiting.get(operand) if type(operand) is Value else None
                if left is None:
                    continue
                c = contributions[at] if contributions is not None else None
                if c is not None:
                    _add(cotangents, owned, operand, c)
                waiting[operand] = left - 1
                if left == 1:
                    ready.append(operand)
            del operands, contributions
    return [cotangents.get(leaf) for leaf in leaves], interior


def _step(value: Value, g: Any, waiting: dict[Value, int], foreign: bool) -> Any:
    """What the cotangent of a value gives its operands, with strong zeros."""
    op: Any = value.op
    if g is None or op is None or op is CLOSED:
        return None
    found = _contributions(value, op, g, waiting, foreign, np.multiply)
    if any(map(_is_endless, found)):
        return _contributions(value, op, g, waiting, foreign, _strong)
    return found


def _is_endless(c: Any) -> bool:
    return any(map(_is_not_finite, c)) if type(c) is Parts else _is_not_finite(c)
