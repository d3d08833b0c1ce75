"""Calls with arguments that no entry takes as they lie: of another byte order, alignment or class.

Owns: `call_with_copies` and `RunsPlain`. Arrays are laid out anew (`unusual.py`), machine code is
called with the copies, and what it has written into these goes back. Where that could be told from
the plain call, or no machine code takes the copies, the function runs plain, with what was given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracker import tree
from tracker.jit import unusual
from tracker.jit.places import with_places
from tracker.jit.reads import reads_of
from tracker.jit.signature import Signature
from tracker.jit.staging import static_leaves
from tracker.jit.standins import TURN
from tracker.snapshots import same_bytes

if TYPE_CHECKING:
    from tracker.jit.jitted import Jitted


def call_with_copies(
    jitted: Jitted,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    call: Signature,
    leaves: list[Any],
) -> Any:
    """The result of machine code for copies, or of the plain function for what was given."""
    function = jitted.function
    usual = [unusual.laid_out(x) for x in leaves]
    if any(s.cls is not None for s in call.structures) and _may_change(function, call, leaves):
        return function(*args, **kwargs)  # a container made anew is not the caller's
    if any(x is unusual.NOT_TAKEN for x in usual) or _share_memory(function, call, leaves, usual):
        return function(*args, **kwargs)
    given = iter(usual)
    templates = (*args, *kwargs.values())
    rebuilt = [
        tree.unflatten(structure, [next(given) for _ in range(structure.count)], template)
        for structure, template in zip(call.structures, templates, strict=True)
    ]
    copies = {id(copy) for x, copy in zip(leaves, usual, strict=True) if x is not copy}
    jitted.copies |= copies
    try:
        named = dict(zip(kwargs, rebuilt[len(args) :], strict=True))
        result = jitted.native()(*rebuilt[: len(args)], **named)
        return unusual.over_given(result, leaves, usual)
    except RunsPlain:
        pass
    finally:  # what was written into a copy belongs into the caller's array
        for x, copy in zip(leaves, usual, strict=True):
            if x is not copy and not same_bytes(np.asarray(x, copy.dtype), copy):
                x[...] = copy
        jitted.copies -= copies
    return function(*args, **kwargs)


class RunsPlain(Exception):
    """No machine code took the copies: the function is to run with what was given."""


def _may_change(function: Callable[..., Any], call: Signature, leaves: list[Any]) -> bool:
    """Whether the code may put something somewhere."""
    with TURN.lock:
        reads = reads_of(function, static_leaves(call, leaves))
    return bool(reads.stored) or reads.fills


def _share_memory(
    function: Callable[..., Any], call: Signature, leaves: list[Any], usual: list[Any]
) -> bool:
    """Whether an array to be laid out anew shares memory with another that the code sees, or the
    code sees how it lies."""
    with TURN.lock:
        reads = reads_of(function, static_leaves(call, leaves))
        _, everything = with_places(call, leaves, reads.places)
    if reads.layout:
        return True
    arrays = [(i, x) for i, x in enumerate(everything) if isinstance(x, np.ndarray)]
    return any(
        i != j and np.may_share_memory(x, y)
        for j, (x, copy) in enumerate(zip(leaves, usual, strict=True))
        if x is not copy
        for i, y in arrays
    )
