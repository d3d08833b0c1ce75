"""Whether a function can be called at one row for all of them.

Owns: `require_pure_rows`. What a row changes, and what it draws, the next one would find changed:
that is taken back, and `UnsupportedInBody` sends `vmap` from row to row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from tracker import tree
from tracker.jit.tracing import StateRollbackLog, find_captured_state, is_opaque
from tracker.random.draw_ops import DrawMonitor, RollbackLog, is_numpy_generator, is_python_random
from tracker.tape.tracer import UnsupportedInBody, current_tracer


@contextmanager
def require_pure_rows(
    f: Callable[..., Any], leaves: Sequence[Any], one: Callable[..., Any]
) -> Iterator[Callable[..., Any]]:
    """Within it, `one`, as it comes from here, may be called at one row; it calls `f`, and `leaves`
    are the leaves of its arguments."""
    reads = find_captured_state(f, [x for x in leaves if not tree.is_numeric(x)])
    found = [*leaves, *(x for place in reads.sources for x in tree.leaves(place.read()))]
    if any(map(is_opaque, found)):
        raise UnsupportedInBody("an iterator gives each row something else")
    attempt = StateRollbackLog(reads)

    def watched(*flat: Any) -> Any:
        result = one(*flat)
        if attempt.has_written:
            raise UnsupportedInBody("a row changes what the next one reads")
        return result

    sources = [x for x in found if is_numpy_generator(x) or is_python_random(x)]
    eager = current_tracer() is None  # a stage hears of draws, and refuses
    with RollbackLog() as drawn, DrawMonitor(sources) if eager else nullcontext() as watch:
        try:
            yield watched
            if watch is not None:
                watch.check()
        except Exception:
            drawn.roll_back()
            if attempt.has_written:
                attempt.roll_back()
            raise
