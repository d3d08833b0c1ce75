"""Expansion: equations whose op says how it is lowered as other ops are written out as these.

Owns: the pass `expand`, and `Builder`, which the declarations (`Expand`, and `Map` for what it
requires) are handed. It runs once,
before the other passes: nothing that it writes out is user-visible but in `f.ir`.

Invariants: an expanded equation has the type that it had; the guards it needs stand before it; an
op that cannot be expanded for these operands stays, and NumPy runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker.ir.graph import Atom, Var
from tracker.ir.lowering import Map


def narrowed_integers(lower: Map, operands: Sequence[Atom]) -> list[tuple[Var, np.dtype[Any]]]:
    """Python's ints that take the dtype of what stands beside them: NumPy raises where they are
    none of its numbers."""
    numbers = [o for o in operands if o.type.weak and isinstance(o, Var)]
    numbers = [o for o in numbers if o.type.dtype.kind == "i"]
    if not numbers:
        return []
    dtypes = lower.dtypes(*(o.type for o in operands))
    return [
        (o, dtype)
        for o, dtype in zip(operands, dtypes, strict=True)
        if o in numbers and isinstance(o, Var) and dtype.kind in "iu" and dtype != o.type.dtype
    ]
