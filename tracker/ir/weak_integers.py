"""Python integers that take a narrower dtype from the operands beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker.ir.graph import Atom, Var
from tracker.ir.lowering import Map


def narrowed_integers(lower: Map, operands: Sequence[Atom]) -> list[tuple[Var, np.dtype[Any]]]:
    """Weak integer operands that are cast to another integer dtype; NumPy raises on overflow."""
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
