"""Buffer coalescing: a loop's result takes the memory of an operand that the loop reads last.

A loop that reads an array for the last time, each element only to write the same element of another
array, needs no memory for the result. Lifetimes are known once the code is written, so the code is
written again where two buffers can be one (`coalesce_buffers`). The same analysis lets the body of
a loop update its carried arrays in place (`jit/pipeline/loop_carried.py`).

Invariant: two buffers are coalesced only if the lifetime of one ends at the step at which the
other's begins, and in every body of that loop the only element read of the one is the element that
is written of the other. `LoopBody` loads everything before it stores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tracker.ir.lowering import Scan
from tracker.jit.schedule.affine import AffineIndex
from tracker.jit.schedule.plan_data import Buffer, Kernel, Store, element_span
from tracker.ops.shape.memory_order import is_dense, nontrivial_strides
from tracker.support.structs import record

Coalescing = Mapping[Buffer, Buffer]  # buffer -> the buffer whose memory it shares

_MIN_BYTES = 1 << 20  # bytes; with smaller buffers, the code does not depend on sizes


@record(frozen=True)
class CoalescingCandidate:
    """`new` could be written in the memory of `old`, at this step of the driver."""

    step: int
    old: Buffer
    new: Buffer


class BufferAccess:
    """What one loop body reads and writes, by positions in each buffer (index formulas)."""

    def __init__(self) -> None:
        self.read: dict[Buffer, set[Any]] = {}
        self.written: dict[Buffer, Any] = {}

    def add_read(self, buffer: Buffer, position: Any) -> None:
        self.read.setdefault(buffer, set()).add(position)

    def add_write(self, buffer: Buffer, position: Any) -> None:
        self.written[buffer] = None if buffer in self.written else position

    def allows_overwrite(self, old: Buffer, new: Buffer) -> bool:
        """Whether the only element of `old` that is read is the one written to `new`."""
        position = self.written.get(new)
        is_affine = isinstance(position, int | AffineIndex)
        return old not in self.read or (is_affine and self.read[old] == {position})


def can_write_in_place(accesses: Sequence[BufferAccess], old: Buffer, new: Buffer) -> bool:
    """Whether a loop with these bodies may write `new` in the memory of `old`."""
    return all(access.allows_overwrite(old, new) for access in accesses)


def coalescing_candidates(
    kernel: Kernel, step: int, accesses: Sequence[BufferAccess], carried: Coalescing
) -> list[CoalescingCandidate]:
    """The results of a kernel that could be written in the memory of its operands."""
    if kernel.fused or any(store.adds or not _has_affine_target(store) for store in kernel.stores):
        return []
    written = [store.location.buffer for store in kernel.stores if _covers_buffer(store, kernel)]
    read = dict.fromkeys(buffer for access in accesses for buffer in access.read)
    return [
        CoalescingCandidate(step, old, new)
        for new in written
        for old in read
        if new is not None
        and may_coalesce(new, old, carried)
        and can_write_in_place(accesses, old, new)
    ]


def may_coalesce(new: Buffer, old: Buffer, carried: Coalescing) -> bool:
    """Whether a buffer may take the memory of one that is dead. In a body that carries arrays, it
    pays for small ones, too: they would be copied in each step."""
    if carried.get(old) is new:
        return True
    return (
        (old.type.nbytes >= _MIN_BYTES or bool(carried))
        and old is not new
        and (old.role == "scratch" or old in carried)
        and new.role in ("scratch", "output")
        and old.type.dtype == new.type.dtype
        and old.type.size == new.type.size
    )


def coalesce_buffers(
    pairs: Sequence[CoalescingCandidate],
    life: Mapping[Buffer, tuple[int, int]],
    carried: Coalescing,
) -> Coalescing:
    """The buffer whose memory each coalesced buffer shares; `life`: first and last step of each. A
    carried input shares its memory with the result that replaces it, or with none."""
    target: dict[Buffer, Buffer] = {}
    for pair in sorted(pairs, key=lambda pair: carried.get(pair.old) is not pair.new):
        adjoin = life[pair.old][1] == pair.step == life[pair.new][0]
        if adjoin and pair.old not in target and pair.new not in target.values():
            target[pair.old] = pair.new
    final = {old: _final_buffer(target, new) for old, new in target.items()}
    return {old: new for old, new in final.items() if carried.get(old, new) is new}


def _has_affine_target(store: Store) -> bool:
    """Whether the address of an element follows from its index."""
    return store.eqn is None or isinstance(store.eqn.op.lower, Scan)


def _covers_buffer(store: Store, kernel: Kernel) -> bool:
    """Whether each element of the buffer is written, at one index of the kernel."""
    location, space = store.location, kernel.space
    assert location.buffer is not None
    strides = tuple(map(abs, nontrivial_strides(location.strides, space)))
    has_size = (
        location.buffer.type.size == math.prod(space) and element_span(location, space)[0] == 0
    )
    return has_size and is_dense(strides, space)


def _final_buffer(target: dict[Buffer, Buffer], buffer: Buffer) -> Buffer:
    while buffer in target:
        buffer = target[buffer]
    return buffer
