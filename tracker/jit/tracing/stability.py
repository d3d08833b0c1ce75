"""Post-trace validation: whether captured state is as before the run, except for its own writes.

A trace whose own run changed what it reads in any other way would match no later call, and is not
kept. Start at `PostTraceState.is_unchanged`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracker.jit.guards.captured_leaves import can_be_promoted, captured_leaves, with_captured_state
from tracker.jit.guards.constants import ConstantKey, StructuralKey
from tracker.jit.guards.signature import Leaf, Signature, StateWrite, iter_nodes
from tracker.jit.guards.source import Source, SourcePath


class PostTraceState:
    """The captured state of a call after its run."""

    def __init__(
        self,
        sources: Sequence[Source],
        given: Signature,
        argument_leaves: Sequence[Any],
        call: Signature,
        leaves: Sequence[Any],
        promoted: frozenset[SourcePath],
    ) -> None:
        self.signature, self.leaves = call, leaves
        self.signature_after, self.leaves_after = with_captured_state(
            given, argument_leaves, sources, promoted
        )

    def is_unchanged(self, state_writes: Sequence[StateWrite]) -> bool:
        """Whether the function has the same sources, with the same objects except where it has
        written."""
        if not state_writes and self.signature_after == self.signature:
            return all(map(_is_same_object, self.signature.leaves, self.leaves, self.leaves_after))
        if self.signature_after.sources != self.signature.sources:
            return False
        first = self.signature.first_source
        put = {u.target if isinstance(u.target, Source) else u.target[0] for u in state_writes}
        before, after = (leaves_by_source(call) for call in (self.signature, self.signature_after))
        for number, source in enumerate(self.signature.sources):
            if source in put or first + number in put:
                continue
            (old, at), (new, then) = before[number], after[number]
            at_source = first + number
            if self.signature.structures[at_source] != self.signature_after.structures[at_source]:
                return False
            pairs = zip(old, self.leaves[at], self.leaves_after[then], strict=True)
            if old != new or not all(_is_same_object(*each) for each in pairs):
                return False
        return True

    @property
    def changed_numbers(self) -> tuple[frozenset[SourcePath], frozenset[SourcePath]]:
        """The paths at which a number has changed, and those at which there was none."""
        if self.signature_after == self.signature:
            return frozenset(), frozenset()
        before = captured_leaves(self.signature)
        numbers = {
            s: x
            for s, x in captured_leaves(self.signature_after).items()
            if isinstance(x, ConstantKey) and can_be_promoted(x.value)
        }
        known = numbers.keys() & before.keys()
        moved = {
            s for s in known if before[s] != numbers[s] and _is_same_class(before[s], numbers[s])
        }
        return frozenset(moved), frozenset(numbers.keys() - before.keys())


def _is_same_object(leaf: Leaf, was: Any, now: Any) -> bool:
    """Whether it is the same object; a tuple that was built for a comparison never is."""
    return was is now or (type(leaf) is StructuralKey and leaf.cls is tuple)


def _is_same_class(a: Leaf, b: ConstantKey) -> bool:
    return isinstance(a, ConstantKey) and type(a.value) is type(b.value)


def leaves_by_source(call: Signature) -> list[tuple[Sequence[Leaf], slice]]:
    """The leaves at each source, and their positions."""
    found = [
        slice(first, first + structure.count)
        for (at, way), structure, first in iter_nodes(call)
        if at >= call.first_source and not way
    ]
    return [(call.leaves[which], which) for which in found]
