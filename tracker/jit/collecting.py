"""Python's cyclic collector waits while the compiler works.

Owns: `without_collecting`. The compiler makes many objects and hardly a cycle, and the first
compile of a process imports modules: the collector would go through everything in the process,
again and again, to find nothing. Code of users never runs within it.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collecting() -> Iterator[None]:
    """The collector is off within, unless it was off before."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
