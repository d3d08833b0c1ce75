"""Caches of `functools.lru_cache` that a traced function uses.

While a function is traced it may cache tracked values, which other code must not find: the cache is
then cleared, and the plain function runs instead and fills it. (The first call always runs plain,
so that later calls find their values in the cache.) A value that a trace found in a cache is a
constant until the cache is cleared, or somebody writes into an array in it.
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
_LINK_CLASS = "_lru_list_elem"  # class of the entries of a bounded cache


class WatchedCaches:
    """Caches, and their numbers of misses at one time."""

    def __init__(self, caches: Iterable[Any]) -> None:
        self.misses = [(cache, cache.cache_info().misses) for cache in caches]

    def clear_tracked(self) -> bool:
        """Clear the caches that have stored tracked values since; return whether there are any."""
        new = [cache for cache, misses in self.misses if cache.cache_info().misses != misses]
        filled = [cache for cache in new if any(type(x) is Tracked for x in _cached_values(cache))]
        for cache in filled:
            cache.cache_clear()
        return bool(filled)


def _cached_values(cache: Any) -> Iterator[Any]:
    """The leaves of all cached values. The garbage collector sees them in the cache itself, in its
    linked entries, or, in an unbounded cache, in a dict."""
    for found in gc.get_referents(cache):
        if type(found) is not dict:
            yield from tree.leaves(found)
        for x in found.values() if type(found) is dict else ():
            link = type(x).__name__ == _LINK_CLASS
            for each in gc.get_referents(x) if link else (x,):
                yield from tree.leaves(each)


class ClearCounter:
    """How often a cache was cleared, or an array in it written to, as far as repeated looks can
    tell.

    It was cleared if its counts are lower than at the last look, or its oldest entry differs
    although nothing was evicted. Arrays are compared if they are few and small. The counter is
    stored on the cache.
    """

    def __init__(self, cache: Any) -> None:
        self.cache = cache
        self._entries = _cache_dict(cache)
        self._count, self._info = 0, cache.cache_info()
        self._oldest_entry = self._find_oldest_entry()
        self._arrays = self._cached_arrays()

    def _find_oldest_entry(self) -> tuple[Any, Any]:
        return next(iter(self._entries.items()), _NO_ENTRY)

    def __call__(self) -> int:
        seen, self._info = self._info, self.cache.cache_info()
        known, self._oldest_entry = self._oldest_entry, self._find_oldest_entry()
        hits, misses, room, size = self._info
        is_other = known is not _NO_ENTRY and any(map(operator.is_not, known, self._oldest_entry))
        makes_room = size == room and misses > seen.misses
        is_emptied = misses < seen.misses or hits < seen.hits or (is_other and not makes_room)
        if self._has_array_write(misses != seen.misses or size != seen.currsize) or is_emptied:
            self._count += 1
        return self._count

    def _has_array_write(self, contents_changed: bool) -> bool:
        """Whether an array in the cache has changed since the last look."""
        found = any(x.tobytes() != held for x, held in self._arrays)
        if found or contents_changed:
            self._arrays = self._cached_arrays()
        return found

    def _cached_arrays(self) -> list[tuple[Any, bytes]]:
        """The arrays in the cache, and their bytes; none if there are too many."""
        arrays = {id(x): x for x in _cached_values(self.cache) if type(x) is np.ndarray}
        if len(arrays) > _MAX_ARRAYS or sum(x.nbytes for x in arrays.values()) > _MAX_BYTES:
            return []
        return [(x, x.tobytes()) for x in arrays.values()]


_NO_ENTRY = (None, None)
_MAX_ARRAYS, _MAX_BYTES = 8, 1 << 14  # compared in microseconds


def _cache_dict(cache: Any) -> dict[Any, Any]:
    """The dict of a cache: it precedes the wrapped function among the referents."""
    found = gc.get_referents(cache)[::-1]
    at = next(i for i, x in enumerate(found) if x is cache.__wrapped__) + 1
    return found[at] if at < len(found) and type(found[at]) is dict else {}


def clear_counter(cache: Any) -> ClearCounter:
    """The counter of a cache: there is one for each cache."""
    known = vars(cache).get(_ATTRIBUTE)
    if known is None or known.cache is not cache:  # `functools.wraps` copies attributes
        known = vars(cache)[_ATTRIBUTE] = ClearCounter(cache)
    return known  # type: ignore[no-any-return]
