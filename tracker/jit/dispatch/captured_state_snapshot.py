"""The captured state of a call, saved for a pullback that is called later.

A compiled pullback recomputes what it needs, and must then read what the call has read. Start at
`SavedState.of`.

Invariant: `call_with` restores the present captured state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker.errors import UnsupportedError, message
from tracker.jit.dispatch.specialization import SignatureGroup, match_leaves
from tracker.jit.guards.captured_leaves import (
    captured_leaves,
    signature_difference,
    unchanged_captures,
    with_captured_state,
)
from tracker.jit.guards.constants import ConstantKey
from tracker.jit.guards.signature import Signature
from tracker.jit.guards.source import SourcePath
from tracker.jit.tracing.placeholder_swap import TRACING_LOCK, PlaceholderSwap, run_idempotent
from tracker.support.array_copies import same_bytes, snapshot

_NO_ARGUMENTS = Signature((), (), ())


class SavedState:
    """The values at the sources of a signature; arrays as copies that are never written."""

    def __init__(self, call: Signature, values: Sequence[Any]) -> None:
        structures = call.structures[call.first_source :]
        leaves = call.leaves[len(call.leaves) - len(values) :]
        self.sources = call.sources
        self.signature = Signature(structures, (), leaves, call.sources)
        self.values = [snapshot(x) if isinstance(x, np.ndarray) else x for x in values]

    @staticmethod
    def of(group: SignatureGroup | None, call: Signature, leaves: list[Any]) -> SavedState | None:
        """The captured state of a call that has just been made; None if no trace knows it."""
        for each in () if group is None or group.fallback_reason else group.specializations:
            trace = each.trace
            found = match_leaves(trace, call, leaves)
            if found is not None:
                if trace.state_writes or any(number >= len(leaves) for number in trace.writes):
                    return None  # the call has changed its captured state
                return SavedState(trace.signature, found[len(leaves) :])
        return None

    def call_with(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Make a call that reads the saved state."""
        changed = self._changed()
        if not changed:
            return call(*args, **kwargs)
        with TRACING_LOCK.lock:
            past = _SavedStateSwap(self.sources, {}, changed)
            try:
                past.install([], {})
                return call(*args, **kwargs)
            finally:
                run_idempotent(past.restore)

    def _changed(self) -> dict[SourcePath, Any]:
        """The saved values, by path, that differ from the present ones."""
        if unchanged_captures(self.signature, 0) is not None:
            return {}
        now, values = with_captured_state(_NO_ARGUMENTS, [], self.sources)
        if now.structures != self.signature.structures:
            raise UnsupportedError(
                message(
                    "what the function reads has another structure than when the pullback was "
                    f"made ({signature_difference(self.signature, now)[1]})",
                    "Call tracker.pullback again, or pass it as an argument",
                )
            )
        triples = zip(captured_leaves(now), self.values, values, strict=True)
        return {path: old for path, old, x in triples if not _same_value(old, x)}


def _same_value(old: Any, x: Any) -> bool:
    if isinstance(old, np.ndarray):
        return type(x) is np.ndarray and same_bytes(old, x)
    if type(old) is tuple is type(x):  # of a library's names, read anew
        return len(old) == len(x) and all(map(_same_value, old, x))
    return old is x or (type(old) is type(x) and ConstantKey(old) == ConstantKey(x))


class _SavedStateSwap(PlaceholderSwap):
    """Puts saved values at their paths."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.current: dict[SourcePath, Any] = {}

    def _placeholder_for(self, x: Any, path: SourcePath) -> Any:
        saved = self.handles_by_path.get(path, x)
        if saved is not x:  # else its container may be at two sources
            self.current[path] = x
        return saved

    def _plain_for(self, x: Any, path: SourcePath) -> Any:
        return self.current.get(path, x)
