"""Whether a function can be called at one row for all of them.

Owns: `for_all_rows`. What a row changes, and what it draws, the next one would find changed: that
is taken back, and `Unstructured` sends `vmap` from row to row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from tracker import tree
from tracker.jit.discovery.discovery import reads_of
from tracker.jit.discovery.opaque_objects import goes_on
from tracker.jit.tracing.side_effects import Attempt
from tracker.random.draw_ops import Journal, Watch, is_generator, is_random
from tracker.tape.observers import current_stage
from tracker.tape.tracer import Unstructured


@contextmanager
def for_all_rows(
    f: Callable[..., Any], given: Sequence[Any], one: Callable[..., Any]
) -> Iterator[Callable[..., Any]]:
    """Within it, `one`, as it comes from here, may be called at one row; it calls `f`, and `given`
    are the leaves of its arguments."""
    reads = reads_of(f, [x for x in given if not tree.is_numeric(x)])
    found = [*given, *(x for place in reads.places for x in tree.leaves(place.read()))]
    if any(map(goes_on, found)):
        raise Unstructured("an iterator gives each row something else")
    attempt = Attempt(reads)

    def watched(*flat: Any) -> Any:
        result = one(*flat)
        if attempt.has_put:
            raise Unstructured("a row changes what the next one reads")
        return result

    sources = [x for x in found if is_generator(x) or is_random(x)]
    eager = current_stage() is None  # a stage hears of draws, and refuses
    with Journal() as drawn, Watch(sources) if eager else nullcontext() as watch:
        try:
            yield watched
            if watch is not None:
                watch.check()
        except Exception:
            drawn.undo()
            if attempt.has_put:
                attempt.undo()
            raise
