"""Loops over ranges that differ a little, one of which computes again what the other does.

Owns: `invite`. A loss like `sum((x[1:] - x[:-1])**2)` is folded over n - 1 points, its gradient is
stored at n, and needs the same differences: the fold then runs within the larger loop, as one of
the kernel's `guests`, and what they share is read and computed once. `loops.py` cuts the larger
loop where the guest ends.

Invariants: a guest only folds, over all axes, from the first point of its host's space on; it has
no guests. Every kernel is looked at once, and so is what it computes.
"""

from __future__ import annotations

import math

from tracker.jit.accounts import account
from tracker.jit.layout import Kernel, Plan

_CROWD = 60  # weight of all guests together; beyond, their sums and numbers leave the registers


def invite(plan: Plan) -> None:
    """Move folds into larger loops of their level where these compute the same."""
    free = {id(kernel) for kernel in plan.kernels if _only_folds(kernel)}
    if not free:
        return
    for host in sorted(plan.kernels, key=lambda kernel: -math.prod(kernel.space)):
        again = {} if host.guests else _computed_again(plan, host)
        for guest in again.values():
            crowd = sum(other.weight for other in host.guests) + guest.weight
            if id(guest) in free and _fits(guest, host) and crowd <= _CROWD:
                free.discard(id(guest))
                free.discard(id(host))
                host.guests.append(guest)
    joined = {id(guest) for host in plan.kernels for guest in host.guests}
    plan.kernels = [kernel for kernel in plan.kernels if id(kernel) not in joined]


def _computed_again(plan: Plan, host: Kernel) -> dict[int, Kernel]:
    """The other kernels whose values this one computes for itself."""
    homes = [plan.places[eqn.out].home for eqn in account(plan, host).again]
    return {id(home): home for home in homes if home is not None}


def _only_folds(kernel: Kernel) -> bool:
    axes = set(range(len(kernel.space)))
    return bool(kernel.folds and not kernel.stores) and all(
        set(eqn.params["axis"]) == axes for eqn in kernel.folds
    )


def _fits(guest: Kernel, host: Kernel) -> bool:
    """Whether a guest's space begins where the host's does, and is not much smaller."""
    return (
        guest.level == host.level
        and len(guest.space) == len(host.space)
        and all(m <= n <= 2 * m for m, n in zip(guest.space, host.space, strict=True))
    )
