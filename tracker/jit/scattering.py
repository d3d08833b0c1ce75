"""Stores whose place depends on values: `Scatter` and `Compact`.

Owns: `write`, which `loops.py` calls for each element. The loops run in C order on one thread, so
that places named twice get what NumPy gives them, and sums come out the same every time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.ir.op import Compact, Scatter
from tracker.jit.emit import Scalar

_INT64 = np.dtype(np.int64)


def write(body: Any, store: Any, x: Scalar) -> None:
    """Store an element of a loop body (`loops._Body`) where its equation says."""
    lower = store.by.op.lower
    if isinstance(lower, Compact):
        _compact(body, store, x)
    else:
        _scatter(body, store, x, lower)


def _scatter(body: Any, store: Any, x: Scalar, lower: Scatter) -> None:
    eqn, e = store.by, body.e
    types = [o.type for o in eqn.operands]
    index = body.tools.reading(
        body.reader(eqn), lambda: lower.target(body.tools, body.index, *types, **eqn.params)
    )
    flat: Any = 0
    for i, stride in zip(index, store.place.strides, strict=True):
        flat = i * stride + flat
    where = body.w.target(store.place, flat, body.tools)
    e.store(e.add(e.load(where, x.dtype), x) if lower.adds else x, where)


def _compact(body: Any, store: Any, x: Scalar) -> None:
    """Store the position in any case, where the next one will overwrite it unless it counts."""
    e, room = body.e, store.place.buffer.type.size - 1
    cell = "%next"
    if body.w.head[:1] != [f"  {cell} = alloca i64"]:  # a cut loop is written more than once
        body.w.head[:0] = [f"  {cell} = alloca i64", f"  store i64 0, ptr {cell}"]
    position = body.tools.name(body.tools.flatten(body.index, body.w.kernel.space))
    at = e.load(cell, _INT64)
    full = e.write(f"icmp ugt {at}, {room}")
    safe = e.write(f"select i1 {full}, i64 {room}, {at}")
    base, _ = body.w.pointer(store.place.buffer, store.place.start)
    e.store(Scalar(position, store.place.buffer.type.dtype), e.address(base, _INT64, safe))
    e.store(e.add(at, e.cast(e.truth(x), _INT64)), cell)
