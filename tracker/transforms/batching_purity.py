"""Whether `vmap` may trace a function at one row for all rows.

It may not if a row changes state that the next row reads, or draws random numbers. The changes are
then rolled back, and `UnsupportedInBody` makes `vmap` call the function row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from tracker import tree
from tracker.jit.tracing import StateRollbackLog, find_captured_state, is_opaque
from tracker.random.draw_ops import DrawMonitor, RollbackLog, is_numpy_generator, is_python_random
from tracker.tape.tracing.tracer import UnsupportedInBody, current_tracer


@contextmanager
def require_pure_rows(f: Callable[..., Any], leaves: Sequence[Any]) -> Iterator[None]:
    """A context for calls of `f` at single rows, with a check of their side effects at its end.
    `leaves`: those of the arguments of `f`."""
    reads = find_captured_state(f, [x for x in leaves if not tree.is_numeric(x)])
    found = [*leaves, *(x for place in reads.sources for x in tree.leaves(place.read()))]
    if any(map(is_opaque, found)):
        raise UnsupportedInBody("an iterator gives each row something else")
    log = StateRollbackLog(reads)
    sources = [x for x in found if is_numpy_generator(x) or is_python_random(x)]
    is_eager = current_tracer() is None  # otherwise the tracer refuses draws
    with RollbackLog() as draws, DrawMonitor(sources) if is_eager else nullcontext() as monitor:
        try:
            yield
            if log.has_written:
                raise UnsupportedInBody("a row changes what the next one reads")
            if monitor is not None:
                monitor.check()
        except Exception:
            draws.roll_back()
            if log.has_written:
                log.roll_back()
            raise
