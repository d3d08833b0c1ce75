"""Whether what a function reads is what it was before a call, but for what it has put there itself.

Owns: `After`, what stands at the places of a call that is over. A trace whose own run changed what
it read in any other way is not kept: it would hold for no call. Start at `After.is_as_before`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracker.jit.guards.constants import Compared, Static
from tracker.jit.guards.matching import is_number, spots_of, with_places
from tracker.jit.guards.signature import Leaf, Signature, Update
from tracker.jit.guards.source import Place, Spot


class After:
    """What stands at the places that a call has read, now that it is over."""

    def __init__(
        self,
        places: Sequence[Place],
        given: Signature,
        own: Sequence[Any],
        call: Signature,
        leaves: Sequence[Any],
        varying: frozenset[Spot],
    ) -> None:
        self.call, self.leaves = call, leaves
        self.now, self.found = with_places(given, own, places, varying)

    def is_as_before(self, updates: Sequence[Update]) -> bool:
        """Whether the function reads the same places, and all but what it has put there itself
        is the very same."""
        if not updates and self.now == self.call:
            return all(map(_is_very, self.call.leaves, self.leaves, self.found))
        if self.now.places != self.call.places:
            return False
        first = len(self.call.structures) - len(self.call.places)
        put = {u.target if isinstance(u.target, Place) else u.target[0] for u in updates}
        before, after = (by_place(call) for call in (self.call, self.now))
        for number, place in enumerate(self.call.places):
            if place in put or first + number in put:
                continue
            (old, at), (new, then) = before[number], after[number]
            if self.call.structures[first + number] != self.now.structures[first + number]:
                return False
            if old != new or not all(map(_is_very, old, self.leaves[at], self.found[then])):
                return False
        return True

    @property
    def moving(self) -> tuple[frozenset[Spot], frozenset[Spot]]:
        """Where there is another number than before; where there is one that was not there."""
        if self.now == self.call:
            return frozenset(), frozenset()
        before = dict(zip(spots_of(self.call), at_places(self.call), strict=True))
        after = zip(spots_of(self.now), at_places(self.now), strict=True)
        numbers = {s: x for s, x in after if isinstance(x, Static) and is_number(x.value)}
        known = numbers.keys() & before.keys()
        moved = {s for s in known if before[s] != numbers[s] and _is_alike(before[s], numbers[s])}
        return frozenset(moved), frozenset(numbers.keys() - before.keys())


def _is_very(leaf: Leaf, was: Any, now: Any) -> bool:
    """Whether it is the very object; a tuple that was made to be compared never is."""
    return was is now or (type(leaf) is Compared and leaf.cls is tuple)


def _is_alike(a: Leaf, b: Static) -> bool:
    return isinstance(a, Static) and type(a.value) is type(b.value)


def at_places(call: Signature) -> Sequence[Leaf]:
    """The leaves of what stands at places."""
    return call.leaves[len(call.leaves) - len(spots_of(call)) :]


def by_place(call: Signature) -> list[tuple[Sequence[Leaf], slice]]:
    """The leaves of what stands at each place, and which these are."""
    at = len(call.leaves) - len(at_places(call))
    found: list[tuple[Sequence[Leaf], slice]] = []
    for structure in call.structures[len(call.structures) - len(call.places) :]:
        which = slice(at, at + structure.count)
        found.append((call.leaves[which], which))
        at += structure.count
    return found
