"""A cache of the last few results."""

from __future__ import annotations

from typing import Generic, TypeVar

Key = TypeVar("Key")
Result = TypeVar("Result")


class RecentlyUsed(Generic[Key, Result]):
    """The results of the keys that were put or found last, at most so many."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._results: dict[Key, Result] = {}

    def __len__(self) -> int:
        return len(self._results)

    def get(self, key: Key) -> Result | None:
        found = self._results.pop(key, None)
        if found is not None:
            self._results[key] = found
        return found

    def put(self, key: Key, result: Result) -> None:
        self._results[key] = result
        for oldest in list(self._results)[: -self._most]:  # a copy: other threads may put results
            self._results.pop(oldest, None)
