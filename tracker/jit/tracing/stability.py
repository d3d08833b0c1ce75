"""Post-trace validation: whether captured state is as before the run, except for its own writes.

A trace whose own run changed what it reads in any other way would match no later call, and is not
kept. Start at `PostTraceState.is_unchanged`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tracker.jit.guards.captured_leaves import can_be_promoted, captured_leaves, with_captured_state
from tracker.jit.guards.constants import ConstantKey, StructuralKey
from tracker.jit.guards.signature import Leaf, Signature, StateWrite
from tracker.jit.guards.source import Source, SourcePath
from tracker.tree import Structure


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
        before = _at_sources(self.signature, self.leaves)
        after = _at_sources(self.signature_after, self.leaves_after)
        found = zip(self.signature.sources, before, after, strict=True)
        for number, (source, old, new) in enumerate(found, first):
            if source in put or number in put:
                continue
            if old[:2] != new[:2] or not all(map(_is_same_object, old[1], old[2], new[2])):
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
        moved = frozenset(
            s
            for s, x in numbers.items()
            if isinstance(old := before.get(s), ConstantKey)
            and old != x
            and type(old.value) is type(x.value)
        )
        return moved, frozenset(numbers.keys() - before.keys())


def _is_same_object(leaf: Leaf, was: Any, now: Any) -> bool:
    """Whether it is the same object; a tuple that was built for a comparison never is."""
    return was is now or (type(leaf) is StructuralKey and leaf.cls is tuple)


def _at_sources(
    call: Signature, leaves: Sequence[Any]
) -> Iterator[tuple[Structure, Sequence[Leaf], Sequence[Any]]]:
    """The structure at each source, its leaves, and what is there."""
    first = sum(structure.count for structure in call.structures[: call.first_source])
    for structure in call.structures[call.first_source :]:
        here = slice(first, first + structure.count)
        yield structure, call.leaves[here], leaves[here]
        first = here.stop
