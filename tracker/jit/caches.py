"""Caches of `functools.lru_cache` that a traced function fills.

What is kept there while stand-ins stand where arrays do may be tracked values, which nobody else is
to find: the cache is emptied, and the plain function, which runs instead, fills it. (The first call
does so to begin with: one that finds what it needs in the cache is like all others.)

Owns: `Caches`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import Any

from tracker import tree
from tracker.tracked import Tracked

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
    """The numbers and arrays that a cache has, and what else."""
    for found in gc.get_referents(cache):
        for x in found.values() if type(found) is dict else ():
            link = type(x).__name__ == _LINK
            for each in gc.get_referents(x) if link else (x,):
                yield from tree.leaves(each)
