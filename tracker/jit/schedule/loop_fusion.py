"""Loops over ranges that differ a little, one of which computes again what the other does.

Owns: `fuse_reductions`. A loss like `sum((x[1:] - x[:-1])**2)` is folded over n - 1 points, its
gradient is stored at n, and needs the same differences: the fold then runs within the larger loop,
as one of the kernel's `guests`, and what they share is read and computed once.
`jit/codegen/loop_nest.py` cuts the larger loop where the guest ends.

Invariants: a guest only folds, over all axes, from the first point of its host's space on; it has
no guests. Every kernel is looked at once, and so is what it computes.

What the loops of a plan read, write and compute, for people.

Owns: `KernelTraffic`, the account of one kernel; `memory_traffic`, those of all kernels of a plan;
`StoredValue`, a value that is stored between loops, and for whom. It reads the plan; it decides
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from tracker.ir.graph import Atom, Eqn, Var
from tracker.ir.lowering import Map
from tracker.jit.schedule.plan_data import Buffer, Kernel, Plan
from tracker.support.structs import field, record


@record()
class KernelTraffic:
    """One kernel: buffers read and written; arithmetic for each of its `points`; values computed
    here again though another loop has them."""

    kernel: Kernel
    points: int
    reads: dict[Buffer, None] = field(default_factory=dict)
    writes: dict[Buffer, None] = field(default_factory=dict)
    ops: int = 0
    recomputed: list[Eqn] = field(default_factory=list)

    @property
    def flops(self) -> int:
        return self.points * self.ops

    @property
    def read_bytes(self) -> int:
        return sum(buffer.type.nbytes for buffer in self.reads)

    @property
    def written_bytes(self) -> int:
        return sum(buffer.type.nbytes for buffer in self.writes)


@record()
class StoredValue:
    """A value that is stored, and not computed where it is read; `reason` in words."""

    value: Atom
    reason: str


def memory_traffic(plan: Plan) -> tuple[list[KernelTraffic], list[StoredValue]]:
    """The kernels' accounts in the order in which they run, and what they hand on."""
    kernels = sorted(plan.kernels, key=lambda kernel: kernel.level)
    found = [kernel_traffic(plan, kernel) for kernel in kernels]
    return found, list(_stored_values(plan, found))


def kernel_traffic(plan: Plan, kernel: Kernel) -> KernelTraffic:
    """What a kernel reads, writes and computes, its guests included."""
    found = KernelTraffic(kernel, math.prod(kernel.space))
    pieces = kernel.with_fused
    home = {eqn.out for piece in pieces for eqn in piece.members}
    stack: list[Atom] = [store.value for store in kernel.stores if store.value is not None]
    for store in kernel.stores:
        if store.place.buffer is not None:
            found.writes[store.place.buffer] = None
    for fold in (fold for piece in pieces for fold in piece.folds):
        stack += fold.operands
        found.ops += 1
    seen: set[Atom] = set()
    while stack:
        atom = stack.pop()
        if atom in seen or not isinstance(atom, Var):
            continue
        seen.add(atom)
        place = plan.places.get(atom)
        eqn = plan.definitions.get(atom)
        if place is None or (place.buffer is not None and atom not in home):
            if place is not None and place.buffer is not None and place.kind != "tiny":
                found.reads[place.buffer] = None
            continue
        if eqn is None or place.kind == "tiny":
            continue
        if isinstance(eqn.op.lower, Map):
            found.ops += 1
            if place.home is not None and all(place.home is not piece for piece in pieces):
                found.recomputed.append(eqn)
        stack += eqn.operands
    return found


def _stored_values(plan: Plan, found: list[KernelTraffic]) -> Iterable[StoredValue]:
    """Values that are stored between loops, and what keeps the loops apart."""
    for account in found:
        for store in account.kernel.stores:
            buffer = store.place.buffer
            if buffer is None or buffer.role != "scratch" or store.value is None:
                continue
            readers = [other for other in found if other is not account and buffer in other.reads]
            yield StoredValue(store.value, _reason(plan, account, readers))


def _reason(plan: Plan, account: KernelTraffic, readers: list[KernelTraffic]) -> str:
    other = next((r for r in readers if r.kernel.space != account.kernel.space), None)
    if other is not None:
        return f"the loop over {format_space(other.kernel)} reads it"
    if readers:
        folds = [eqn.op.name for eqn in account.kernel.folds]
        wait = f", which waits for {', '.join(dict.fromkeys(folds))}" if folds else ""
        return f"a later loop over {format_space(readers[0].kernel)} reads it{wait}"
    if plan.products:
        return "a product reads it"
    return "what is not a loop reads it"


def format_space(kernel: Kernel) -> str:
    return "x".join(map(str, kernel.space)) or "1"


_MAX_FUSED_WEIGHT = (
    60  # weight of all guests together; beyond, their sums and numbers leave the registers
)


def fuse_reductions(plan: Plan) -> None:
    """Move folds into larger loops of their level where these compute the same."""
    free = {id(kernel) for kernel in plan.kernels if _is_full_reduction(kernel)}
    if not free:
        return
    for host in sorted(plan.kernels, key=lambda kernel: -math.prod(kernel.space)):
        again = {} if host.guests else _recomputed_kernels(plan, host)
        for guest in again.values():
            crowd = sum(other.weight for other in host.guests) + guest.weight
            if id(guest) in free and _can_fuse(guest, host) and crowd <= _MAX_FUSED_WEIGHT:
                free.discard(id(guest))
                free.discard(id(host))
                host.guests.append(guest)
    joined = {id(guest) for host in plan.kernels for guest in host.guests}
    plan.kernels = [kernel for kernel in plan.kernels if id(kernel) not in joined]


def _recomputed_kernels(plan: Plan, host: Kernel) -> dict[int, Kernel]:
    """The other kernels whose values this one computes for itself."""
    homes = [plan.places[eqn.out].home for eqn in kernel_traffic(plan, host).recomputed]
    return {id(home): home for home in homes if home is not None}


def _is_full_reduction(kernel: Kernel) -> bool:
    axes = set(range(len(kernel.space)))
    return bool(kernel.folds and not kernel.stores) and all(
        set(eqn.params["axis"]) == axes for eqn in kernel.folds
    )


def _can_fuse(guest: Kernel, host: Kernel) -> bool:
    """Whether a guest's space begins where the host's does, and is not much smaller."""
    return (
        guest.level == host.level
        and len(guest.space) == len(host.space)
        and all(m <= n <= 2 * m for m, n in zip(guest.space, host.space, strict=True))
    )
