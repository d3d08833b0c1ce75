"""Captured numbers that vary: constants of a trace at first, inputs once they have changed.

Owns: `Varying`, which a jitted function has. A constant is the better code, and may stand where no
traced number can; so a number is an input only where another has stood, an integer (they count,
index and choose) where two others have; what the function itself puts there is one at once. Where
a function cannot do with it, it stays a constant. Numbers that are others in each of many objects
of a class are inputs, too, so that these objects have the same code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from tracker.jit.guards.constants import Static
from tracker.jit.guards.matching import is_number, spots_of
from tracker.jit.guards.signature import Signature
from tracker.jit.guards.source import Spot

_MANY = 3  # values in objects of one class, from which on they are inputs
_Kind: TypeAlias = tuple[type, str, tuple[int, ...]]


class Varying:
    """Where the captured numbers of a function are inputs: `spots`."""

    def __init__(self) -> None:
        self.spots: frozenset[Spot] = frozenset()
        self._constant: set[Spot] = set()
        self._kinds: dict[_Kind, set[Static]] = {}  # the constants that traces have had
        self._moving: set[_Kind] = set()  # where it varies within an object
        self._given_up: set[_Kind] = set()

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
        self.spots |= (found | self._alike(standing)) - self._constant

    def _alike(self, standing: dict[Spot, Static]) -> set[Spot]:
        """Those that vary in other objects, or from one to the other."""
        found: set[Spot] = set()
        for spot, number in standing.items():
            kind = _kind(spot)
            if kind is not None and kind not in self._given_up and spot not in self.spots:
                seen = self._kinds.setdefault(kind, set())
                if len(seen) > _MANY or kind in self._moving:
                    found.add(spot)
                elif not seen or _is_another(next(iter(seen)), number):
                    seen.add(number)
        return found

    def add(self, spots: frozenset[Spot]) -> bool:
        """The function itself puts other numbers there; whether that is news."""
        news = spots - self.spots - self._constant
        self.spots |= news
        self._moving.update(filter(None, map(_kind, news)))
        return bool(news)

    def has_given_up(self, spots: frozenset[Spot]) -> bool:
        """Whether some of these are constants, for the function cannot do with anything else."""
        return not self._constant.isdisjoint(spots)

    def give_up(self) -> None:
        """The function cannot do with what varies: constants, from now on."""
        self._constant |= self.spots
        self._given_up.update(filter(None, map(_kind, self.spots)))
        self.spots = frozenset()


def _kind(spot: Spot) -> _Kind | None:
    """What spots in objects of one class have in common, if it is in one."""
    place, way = spot
    holder = place.holder.value
    if place.kind != "attribute" or holder is None or isinstance(holder, type):
        return None
    return type(holder), place.name, way


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
