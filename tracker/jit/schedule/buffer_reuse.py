"""Results of loops that lie where what they are made of lay.

Owns: `pairs_of`, what a loop could write where it reads, and `homes_of`, which buffers are one. A
loop that reads an array for the last time, each element only to write the same element of another,
needs no memory for the other. When each buffer is used for the last time is known when the code is
written; so where two can be one, it is written once more. Start at `homes_of`.
Likewise a body may leave what it carries where it found it: see `jit/pipeline/loop_carried.py`.

Invariant: two buffers are one only if the life of one ends with the loop with which that of the
other begins, and in every body of that loop all that is read of the one is the element that is
written to the other. `elements.Body` reads all before it writes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tracker.ir.lowering import Scan
from tracker.jit.schedule.affine import Affine
from tracker.jit.schedule.plan_data import Buffer, Kernel, Store, span
from tracker.ops.shape.memory_order import is_packed, wide_strides
from tracker.support.structs import record

Homes = Mapping[Buffer, Buffer]  # of buffers that lie where others do

_WORTH = 1 << 20  # bytes of a buffer; the code of functions of less is that of any size


@record(frozen=True)
class Pair:
    """`new` could be written where `old` is read, at this step of the driver."""

    step: int
    old: Buffer
    new: Buffer


class Access:
    """What one body of a loop reads and writes of buffers, by positions in them (formulas)."""

    def __init__(self) -> None:
        self.read: dict[Buffer, set[Any]] = {}
        self.written: dict[Buffer, Any] = {}

    def reads(self, buffer: Buffer, position: Any) -> None:
        self.read.setdefault(buffer, set()).add(position)

    def writes(self, buffer: Buffer, position: Any) -> None:
        self.written[buffer] = None if buffer in self.written else position

    def fits(self, old: Buffer, new: Buffer) -> bool:
        """Whether no element of `old` is read but that which is written to `new`."""
        position = self.written.get(new)
        known = isinstance(position, int | Affine)
        return old not in self.read or (known and self.read[old] == {position})


def is_made_where_read(accesses: Sequence[Access], old: Buffer, new: Buffer) -> bool:
    """Whether a loop with these bodies may write `new` where it reads `old`."""
    return all(access.fits(old, new) for access in accesses)


def pairs_of(kernel: Kernel, step: int, accesses: Sequence[Access], carried: Homes) -> list[Pair]:
    """What a kernel could write where, as far as it goes."""
    if kernel.guests or any(store.adds or not _is_ordered(store) for store in kernel.stores):
        return []
    written = [store.place.buffer for store in kernel.stores if _is_whole(store, kernel)]
    read = dict.fromkeys(buffer for access in accesses for buffer in access.read)
    return [
        Pair(step, old, new)
        for new in written
        for old in read
        if new is not None
        and may_take_place(new, old, carried)
        and is_made_where_read(accesses, old, new)
    ]


def may_take_place(new: Buffer, old: Buffer, carried: Homes) -> bool:
    """Whether a buffer may lie where one lay that nobody reads any more."""
    return carried.get(old) is new or _are_alike(old, new)


def homes_of(pairs: Sequence[Pair], life: Mapping[Buffer, tuple[int, int]]) -> Homes:
    """Where buffers lie instead of in memory of their own; `life`: at which step each is used for
    the first time, and for the last."""
    found: dict[Buffer, Buffer] = {}
    for pair in pairs:
        meet = life[pair.old][1] == pair.step == life[pair.new][0]
        if meet and pair.old not in found and pair.new not in found.values():
            found[pair.old] = pair.new
    return {old: _last(found, new) for old, new in found.items()}


def _is_ordered(store: Store) -> bool:
    """Whether the place of an element follows from its index."""
    return store.by is None or isinstance(store.by.op.lower, Scan)


def _is_whole(store: Store, kernel: Kernel) -> bool:
    """Whether each element of the buffer is written at one index of the kernel's."""
    place, space = store.place, kernel.space
    assert place.buffer is not None
    strides = tuple(map(abs, wide_strides(place.strides, space)))
    whole = place.buffer.type.size == math.prod(space) and span(place, space)[0] == 0
    return whole and is_packed(strides, space)


def _are_alike(old: Buffer, new: Buffer) -> bool:
    return (
        old is not new
        and old.type.nbytes >= _WORTH
        and old.role == "scratch"
        and new.role in ("scratch", "output")
        and old.type.dtype == new.type.dtype
        and old.type.size == new.type.size
    )


def _last(found: dict[Buffer, Buffer], buffer: Buffer) -> Buffer:
    while buffer in found:
        buffer = found[buffer]
    return buffer
