"""What a jitted function reads, kept for a derivative that is asked for later.

Owns: `Reading`: what stood at the places that a call read. A compiled pullback computes what it
needs again; what it reads then must be what the call has read. Start at `Reading.of`.

Invariant: what stands at the places after `within` is what stood there before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracker.errors import UnsupportedError, message
from tracker.jit.dispatch.specialization import leaves_for
from tracker.jit.guards.constants import Static
from tracker.jit.guards.matching import difference, spots_of, with_places
from tracker.jit.guards.signature import Signature
from tracker.jit.guards.source import Spot
from tracker.jit.tracing.placeholder_swap import TURN, StandIns, surely
from tracker.support.array_copies import same_bytes, snapshot

if TYPE_CHECKING:
    from tracker.jit.dispatch.jitted import Jitted

_NOTHING = Signature((), (), ())


class Reading:
    """What stood at the places of a signature, arrays as copies that nobody changes."""

    def __init__(self, call: Signature, standing: Sequence[Any]) -> None:
        self.places = call.places
        self.call, _ = with_places(_NOTHING, [], call.places)
        self.old = [snapshot(x) if isinstance(x, np.ndarray) else x for x in standing]

    @staticmethod
    def of(jitted: Jitted, args: Sequence[Any], kwargs: dict[str, Any]) -> Reading | None:
        """What a call that has just been made has read; None if no trace says so."""
        call, leaves = jitted.signature_of(args, kwargs)
        family = jitted.families.get(call)
        for special in () if family is None or family.eager else family.specials:
            found = leaves_for(special.trace, call, leaves)
            if found is not None:
                trace = special.trace
                if trace.updates or any(number >= len(leaves) for number in trace.writes):
                    return None  # it changes what it reads
                return Reading(trace.call, found[len(leaves) :])
        return None

    def within(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Make a call that reads what was read before."""
        changed = self._changed()
        if not changed:
            return call(*args, **kwargs)
        with TURN.lock:
            past = _Past(self.places, {}, changed)
            try:
                past.put([], {})
                return call(*args, **kwargs)
            finally:
                surely(past.take_back)

    def _changed(self) -> dict[Spot, Any]:
        """What stood where something else stands now."""
        now, standing = with_places(_NOTHING, [], self.places)
        if now.structures != self.call.structures:
            raise UnsupportedError(
                message(
                    "what the function reads has another structure than when the pullback was "
                    f"made ({difference(self.call, now)[1]})",
                    "Call tracker.pullback again, or pass it as an argument",
                )
            )
        spots = spots_of(now)
        triples = zip(spots, self.old, standing, strict=True)
        return {spot: old for spot, old, x in triples if not _is_same(old, x)}


def _is_same(old: Any, x: Any) -> bool:
    if isinstance(old, np.ndarray):
        return type(x) is np.ndarray and same_bytes(old, x)
    return old is x or (type(old) is type(x) and Static(old) == Static(x))


class _Past(StandIns):
    """Has what stood at spots stand there again."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.now: dict[Spot, Any] = {}

    def _handle(self, x: Any, spot: Spot) -> Any:
        if spot not in self.numbers or x is self.numbers[spot]:  # a container at two places
            return x
        self.now[spot] = x
        return self.numbers[spot]

    def _plain(self, x: Any, spot: Spot) -> Any:
        return self.now.get(spot, x)
