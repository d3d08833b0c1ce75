"""What the loops of a plan read, write and compute, for people.

Owns: `Account`, the account of one kernel; `accounts`, those of all kernels of a plan; `Kept`, a
value that is stored between loops, and for whom. It reads the plan; it decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from tracker.ir.graph import Atom, Eqn, Var
from tracker.ir.op import Map
from tracker.jit.layout import Buffer, Kernel, Plan
from tracker.records import field, record


@record()
class Account:
    """One kernel: buffers read and written; arithmetic for each of its `points`; values computed
    here again though another loop has them."""

    kernel: Kernel
    points: int
    reads: dict[Buffer, None] = field(default_factory=dict)
    writes: dict[Buffer, None] = field(default_factory=dict)
    ops: int = 0
    again: list[Eqn] = field(default_factory=list)

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
class Kept:
    """A value that is stored, and not computed where it is read; `why` in words."""

    value: Atom
    why: str


def accounts(plan: Plan) -> tuple[list[Account], list[Kept]]:
    """The kernels' accounts in the order in which they run, and what they hand on."""
    kernels = sorted(plan.kernels, key=lambda kernel: kernel.level)
    found = [account(plan, kernel) for kernel in kernels]
    return found, list(_kept(plan, found))


def account(plan: Plan, kernel: Kernel) -> Account:
    """What a kernel reads, writes and computes, its guests included."""
    found = Account(kernel, math.prod(kernel.space))
    pieces = kernel.pieces
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
                found.again.append(eqn)
        stack += eqn.operands
    return found


def _kept(plan: Plan, found: list[Account]) -> Iterable[Kept]:
    """Values that are stored between loops, and what keeps the loops apart."""
    for account in found:
        for store in account.kernel.stores:
            buffer = store.place.buffer
            if buffer is None or buffer.role != "scratch" or store.value is None:
                continue
            readers = [other for other in found if other is not account and buffer in other.reads]
            yield Kept(store.value, _why(plan, account, readers))


def _why(plan: Plan, account: Account, readers: list[Account]) -> str:
    other = next((r for r in readers if r.kernel.space != account.kernel.space), None)
    if other is not None:
        return f"the loop over {space_text(other.kernel)} reads it"
    if readers:
        folds = [eqn.op.name for eqn in account.kernel.folds]
        wait = f", which waits for {', '.join(dict.fromkeys(folds))}" if folds else ""
        return f"a later loop over {space_text(readers[0].kernel)} reads it{wait}"
    if plan.products:
        return "a product reads it"
    return "what is not a loop reads it"


def space_text(kernel: Kernel) -> str:
    return "x".join(map(str, kernel.space)) or "1"
