"""Captured numbers that vary: constants of a trace at first, inputs once they have changed.

Owns: `Varying`, which a jitted function has. A constant is the better code, and may stand where no
traced number can; so a number is an input only where another has stood, an integer (they count,
index and choose) where two others have. Where a function cannot do with it, it stays a constant.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tracker.jit.compared import Static
from tracker.jit.places import Spot, is_number, spots_of
from tracker.jit.signature import Signature


class Varying:
    """Where the captured numbers of a function are inputs: `spots`."""

    def __init__(self) -> None:
        self.spots: frozenset[Spot] = frozenset()
        self._constant: set[Spot] = set()

    def look(self, traced: Iterable[Signature], now: Signature) -> None:
        """A call that no trace holds for is about to be traced."""
        others: dict[Spot, set[Static]] = {}
        standing = _numbers(now)
        for call in traced:
            for spot, was in _numbers(call).items():
                if spot in standing and _is_another(was, standing[spot]):
                    others.setdefault(spot, set()).add(was)
        found = {
            spot
            for spot, values in others.items()
            if len(values) > isinstance(standing[spot].value, (int, np.integer))
        }
        self.spots |= found - self._constant

    def give_up(self) -> None:
        """The function cannot do with what varies: constants, from now on."""
        self._constant |= self.spots
        self.spots = frozenset()


def _is_another(was: Static, now: Static) -> bool:
    return was != now and type(was.value) is type(now.value)


def _numbers(call: Signature) -> dict[Spot, Static]:
    """The numbers at places that are constants."""
    spots = spots_of(call)
    leaves = call.leaves[len(call.leaves) - len(spots) :]
    return {
        spot: leaf
        for spot, leaf in zip(spots, leaves, strict=True)
        if isinstance(leaf, Static) and leaf.by_value and is_number(leaf.value)
    }
