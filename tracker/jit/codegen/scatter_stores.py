"""Stores whose address depends on values (`Scatter`, `Compact`) or on earlier elements (`Scan`).

`loop_body.py` calls `emit_store` for each element. The loops run in C order on one thread, so
duplicate indices behave as in NumPy, and sums are the same on every call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tracker.ir.graph import Eqn
from tracker.ir.lowering import Compact, Scan, Scatter
from tracker.jit.scalar.values import ScalarValue, memory_type
from tracker.jit.schedule.affine import linear_position
from tracker.jit.schedule.plan_data import Kernel, Store, memory_of

if TYPE_CHECKING:
    from tracker.jit.codegen.loop_body import LoopBody

_INT64 = np.dtype(np.int64)


def accumulates(store: Store) -> bool:
    """Whether a store adds to memory, so that it cannot be repeated."""
    lower = None if store.eqn is None else store.eqn.op.lower
    return store.adds or (isinstance(lower, Scatter) and lower.adds)


def initial_cuts(kernel: Kernel) -> dict[int, set[int]]:
    """Where loops are split from the start: after the first element of a scan."""
    eqns = [store.eqn for store in kernel.stores if store.eqn is not None]
    return {eqn.params["axis"]: {1} for eqn in eqns if isinstance(eqn.op.lower, Scan)}


def emit_store(body: LoopBody, store: Store, eqn: Eqn, x: ScalarValue) -> None:
    """Store an element of a `LoopBody` where its equation says."""
    match eqn.op.lower:
        case Compact():
            _compact(body, store, x)
        case Scan() as scan:
            _scan(body, store, eqn, x, scan)
        case Scatter() as scatter:
            _scatter(body, store, eqn, x, scatter)


def _scatter(body: LoopBody, store: Store, eqn: Eqn, x: ScalarValue, lower: Scatter) -> None:
    e = body.e
    types = [o.type for o in eqn.operands]
    index = body.tools.reading(
        body.reader(eqn), lambda: lower.target(body.tools, body.index, *types, **eqn.params)
    )
    flat = linear_position(index, store.location.strides)
    where = body.writer.target(store.location, flat, body.tools)
    e.store(e.add(e.load(where, x.dtype), x) if lower.adds else x, where)


def _scan(body: LoopBody, store: Store, eqn: Eqn, x: ScalarValue, lower: Scan) -> None:
    """Combine an element with the one before it: from a register, if that was just computed."""
    axis, e, dtype = eqn.params["axis"], body.e, x.dtype
    flat = linear_position(body.index, store.location.strides)
    body.add_write(store.location, flat)
    accumulator = _accumulator(body, dtype) if body.writer.order[-1] == axis else ""
    _, first = body.tools.within(body.index[axis], 0, 1, 1)
    if first is False:
        others = [body.cast(body.value(o, body.index), dtype) for o in eqn.operands[1:]]
        previous = accumulator or body.writer.target(
            store.location, flat - store.location.strides[axis], body.tools
        )
        x = lower.combine(e, e.load(previous, dtype), x, *others)
    e.store(x, body.writer.target(store.location, flat, body.tools))
    if accumulator:
        e.store(x, accumulator)


def _accumulator(body: LoopBody, dtype: np.dtype[Any]) -> str:
    """The cell in which the innermost loop keeps its last element (LLVM makes it a register)."""
    cell = "%acc"
    text = f"  {cell} = alloca {memory_type(dtype)}"
    if text not in body.writer.head:  # a split loop is emitted more than once
        body.writer.head.insert(0, text)
    return cell


def _compact(body: LoopBody, store: Store, x: ScalarValue) -> None:
    """Store the position in any case; the next one overwrites it unless it counts. Positions past
    the last one go to a spare cell."""
    e, count = body.e, memory_of(store.location).type.size
    cell, aside = "%next", "%aside"
    if body.writer.head[:1] != [f"  {cell} = alloca i64"]:  # a split loop is emitted more than once
        body.writer.head[:0] = [
            f"  {cell} = alloca i64",
            f"  {aside} = alloca i64",
            f"  store i64 0, ptr {cell}",
        ]
    position = body.tools.name(body.tools.flatten(body.index, body.writer.kernel.space))
    at = e.load(cell, _INT64)
    full = e.write(f"icmp uge {at}, {count}")
    base, _ = body.writer.pointer(memory_of(store.location), store.location.start)
    location = e.address(base, _INT64, at.name)
    to = e.write(f"select i1 {full}, ptr {aside}, ptr {location}")
    e.store(ScalarValue(position, memory_of(store.location).type.dtype), to)
    e.store(e.add(at, e.cast(e.truth(x), _INT64)), cell)
