"""Loop fusion of reductions, and the memory traffic of each kernel.

Elementwise loops over one space are fused before that (`elementwise_fusion.py`).

A loss like `sum((x[1:] - x[:-1])**2)` is reduced over n - 1 points; its gradient is stored at n
points and needs the same differences. `fuse_reductions` moves the reduction into the larger loop
(`Kernel.fused`), where shared operands are loaded and computed once; the loop is split where the
smaller space ends. `memory_traffic` says what each kernel reads, writes and computes, and which
values are stored between kernels: the fusion looks for recomputed values there, and `f.explain`
prints the result.

Invariants: a fused kernel only reduces, over all axes, from the first point of the larger space on;
it has no fused kernels itself. Every kernel is examined once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from tracker.ir.graph import Atom, Eqn, Var
from tracker.ir.lowering import Map
from tracker.jit.schedule.plan_data import Buffer, Expression, Kernel, Plan, Unrolled
from tracker.support.structs import field, record

_MAX_FUSED_WEIGHT = 60  # weight of all fused kernels; beyond, their values leave the registers


@record()
class KernelTraffic:
    """The traffic of one kernel: buffers read and written, operations at each of its `points`, and
    values recomputed here that another kernel computes, too."""

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
    """A value that is stored between kernels; `reason` in words."""

    value: Atom
    reason: str


def memory_traffic(plan: Plan) -> tuple[list[KernelTraffic], list[StoredValue]]:
    """The traffic of all kernels in running order, and the values stored between them."""
    kernels = sorted(plan.kernels, key=lambda kernel: kernel.level)
    traffic = [kernel_traffic(plan, kernel) for kernel in kernels]
    return traffic, list(_stored_values(plan, traffic))


def kernel_traffic(plan: Plan, kernel: Kernel) -> KernelTraffic:
    """The traffic of a kernel and the reductions fused into it."""
    traffic = KernelTraffic(kernel, math.prod(kernel.space))
    kernels = kernel.with_fused
    own = {eqn.out for each in kernels for eqn in each.members}
    stack: list[Atom] = [store.value for store in kernel.stores if store.value is not None]
    for store in kernel.stores:
        if store.location.buffer is not None:
            traffic.writes[store.location.buffer] = None
    for fold in (fold for each in kernels for fold in each.reductions):
        stack += fold.operands
        traffic.ops += 1
    seen: set[Atom] = set()
    while stack:
        atom = stack.pop()
        if atom in seen or not isinstance(atom, Var):
            continue
        seen.add(atom)
        location = plan.locations.get(atom)
        eqn = plan.definitions.get(atom)
        if location is None:
            continue
        if location.buffer is not None and atom not in own:
            if not isinstance(location, Unrolled):
                traffic.reads[location.buffer] = None
            continue
        if eqn is None or isinstance(location, Unrolled):
            continue
        if isinstance(eqn.op.lower, Map):
            traffic.ops += 1
            if isinstance(location, Expression) and location.kernel not in kernels:
                traffic.recomputed.append(eqn)
        stack += eqn.operands
    return traffic


def _stored_values(plan: Plan, traffic: list[KernelTraffic]) -> Iterable[StoredValue]:
    """The values stored between kernels, and why the kernels are not fused."""
    for writer in traffic:
        for store in writer.kernel.stores:
            buffer = store.location.buffer
            if buffer is None or buffer.role != "scratch" or store.value is None:
                continue
            readers = [each for each in traffic if each is not writer and buffer in each.reads]
            yield StoredValue(store.value, _reason(plan, writer, readers))


def _reason(plan: Plan, writer: KernelTraffic, readers: list[KernelTraffic]) -> str:
    different = next((r for r in readers if r.kernel.space != writer.kernel.space), None)
    if different is not None:
        return f"the loop over {format_space(different.kernel)} reads it"
    if readers:
        names = [eqn.op.name for eqn in writer.kernel.reductions]
        wait = f", which waits for {', '.join(dict.fromkeys(names))}" if names else ""
        return f"a later loop over {format_space(readers[0].kernel)} reads it{wait}"
    if plan.products:
        return "a product reads it"
    return "what is not a loop reads it"


def format_space(kernel: Kernel) -> str:
    return "x".join(map(str, kernel.space)) or "1"


def fuse_reductions(plan: Plan) -> None:
    """Move reductions into larger loops of their level that compute the same values."""
    free = {id(kernel) for kernel in plan.kernels if _is_full_reduction(kernel)}
    if not free:
        return
    for larger in sorted(plan.kernels, key=lambda kernel: -math.prod(kernel.space)):
        recomputed = {} if larger.fused else _recomputed_kernels(plan, larger)
        for smaller in recomputed.values():
            weight = sum(other.weight for other in larger.fused) + smaller.weight
            if id(smaller) in free and _can_fuse(smaller, larger) and weight <= _MAX_FUSED_WEIGHT:
                free.discard(id(smaller))
                free.discard(id(larger))
                larger.fused.append(smaller)
    joined = {id(smaller) for larger in plan.kernels for smaller in larger.fused}
    plan.kernels = [kernel for kernel in plan.kernels if id(kernel) not in joined]


def _recomputed_kernels(plan: Plan, larger: Kernel) -> dict[int, Kernel]:
    """The other kernels whose values this one recomputes."""
    locations = [plan.locations[eqn.out] for eqn in kernel_traffic(plan, larger).recomputed]
    return {id(at.kernel): at.kernel for at in locations if isinstance(at, Expression)}


def _is_full_reduction(kernel: Kernel) -> bool:
    axes = set(range(len(kernel.space)))
    return bool(kernel.reductions and not kernel.stores) and all(
        set(eqn.params["axis"]) == axes for eqn in kernel.reductions
    )


def _can_fuse(smaller: Kernel, larger: Kernel) -> bool:
    """Whether the smaller space begins where the larger one does, and is not much smaller."""
    return (
        smaller.level == larger.level
        and len(smaller.space) == len(larger.space)
        and all(m <= n <= 2 * m for m, n in zip(smaller.space, larger.space, strict=True))
    )
