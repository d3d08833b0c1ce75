"""Caches of `functools.lru_cache` that a traced function fills, and which the user empties.

What is kept there while stand-ins stand where arrays do may be tracked values, which nobody else is
to find: the cache is emptied, and the plain function, which runs instead, fills it. (The first call
does so to begin with: one that finds what it needs in the cache is like all others.) What such a
trace found in a cache is a constant, until the cache is emptied, or somebody writes into an array
that it keeps.

Owns: `Caches`, `emptied`.
"""

from __future__ import annotations

import gc
import operator
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tracker import tree
from tracker.tape.tracked import Tracked

_ATTRIBUTE = "_tracker_emptied"
_LINK = "_lru_list_elem"  # the class of what holds a key and what is kept for it


class Caches:
    """Caches, and how often they have not had what was asked for."""

    def __init__(self, caches: Iterable[Any]) -> None:
        self.misses = [(cache, cache.cache_info().misses) for cache in caches]

    def let_go(self) -> bool:
        """Empty those that have got tracked values since; whether there are any."""
        new = [cache for cache, misses in self.misses if cache.cache_info().misses != misses]
        filled = [cache for cache in new if any(type(x) is Tracked for x in _kept(cache))]
        for cache in filled:
            cache.cache_clear()
        return bool(filled)


def _kept(cache: Any) -> Iterator[Any]:
    """The numbers and arrays that a cache has, and what else: it leads to them itself, or by links,
    or, without bounds, by a dict alone."""
    for found in gc.get_referents(cache):
        if type(found) is not dict:
            yield from tree.leaves(found)
        for x in found.values() if type(found) is dict else ():
            link = type(x).__name__ == _LINK
            for each in gc.get_referents(x) if link else (x,):
                yield from tree.leaves(each)


class Emptied:
    """How often a cache was emptied, or an array in it written into, when called, so far as looks
    from time to time can tell: its counts are smaller than at the last look, or the oldest thing in
    it is another, and it has not had to make room for new ones. (Arrays are looked at if they are
    few and small.) It belongs to the cache, and goes with it."""

    def __init__(self, cache: Any) -> None:
        self.cache = cache
        self._kept = _dict_of(cache)
        self._times, self._seen, self._oldest = 0, cache.cache_info(), self._look()
        self._arrays = self._kept_arrays()

    def _look(self) -> tuple[Any, Any]:
        return next(iter(self._kept.items()), _NOTHING)

    def __call__(self) -> int:
        seen, self._seen = self._seen, self.cache.cache_info()
        known, self._oldest = self._oldest, self._look()
        hits, misses, room, size = self._seen
        is_other = known is not _NOTHING and any(map(operator.is_not, known, self._oldest))
        makes_room = size == room and misses > seen.misses
        is_emptied = misses < seen.misses or hits < seen.hits or (is_other and not makes_room)
        if self._is_written(misses != seen.misses or size != seen.currsize) or is_emptied:
            self._times += 1
        return self._times

    def _is_written(self, holds_others: bool) -> bool:
        """Whether somebody has written into an array since the last look."""
        found = any(x.tobytes() != held for x, held in self._arrays)
        if found or holds_others:
            self._arrays = self._kept_arrays()
        return found

    def _kept_arrays(self) -> list[tuple[Any, bytes]]:
        """The arrays in the cache, and what is in them."""
        arrays = {id(x): x for x in _kept(self.cache) if type(x) is np.ndarray}
        if len(arrays) > _MANY or sum(x.nbytes for x in arrays.values()) > _LARGE:
            return []
        return [(x, x.tobytes()) for x in arrays.values()]


_NOTHING = (None, None)
_MANY, _LARGE = 8, 1 << 14  # arrays, and bytes, in a cache: to compare them takes microseconds


def _dict_of(cache: Any) -> dict[Any, Any]:
    """What a cache has by key; it comes before the function, after all that is kept."""
    found = gc.get_referents(cache)[::-1]
    at = next(i for i, x in enumerate(found) if x is cache.__wrapped__) + 1
    return found[at] if at < len(found) and type(found[at]) is dict else {}


def emptied(cache: Any) -> Emptied:
    """What says how often a cache was emptied: one for each cache."""
    known = vars(cache).get(_ATTRIBUTE)
    if known is None or known.cache is not cache:  # what wraps another cache has its attributes
        known = vars(cache)[_ATTRIBUTE] = Emptied(cache)
    return known  # type: ignore[no-any-return]
