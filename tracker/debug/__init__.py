"""Seeing what happens: tapes, compiled plans, pictures of both, and where a NaN came from.

Owns: the names of `tracker.debug`: `nan_check`, `tape`, `draw`, `dot`, `explain`.
"""

from __future__ import annotations

from typing import Any

from tracker.debug.draw import draw
from tracker.debug.nan_check import nan_check
from tracker.debug.tape import tape
from tracker.errors import UnsupportedError, message
from tracker.ir import graphviz as _dot
from tracker.jit import trace

__all__ = ["dot", "draw", "explain", "nan_check", "tape"]


def dot(f: Any, *args: Any, **kwargs: Any) -> str:
    """The trace of `f` at these arguments as Graphviz text: `dot -Tsvg` makes a picture of it.

    `draw` makes one without Graphviz.

    >>> print(dot(lambda x: x * 2.0, 3.0).splitlines()[0])
    digraph "function" {
    """
    return _dot.dot(trace(f, *args, **kwargs))


def explain(f: Any, *args: Any, **kwargs: Any) -> str:
    """What a jitted function runs for these arguments, in words: as `f.explain(*args)`."""
    if not hasattr(f, "explain"):
        raise UnsupportedError(
            message(
                f"explain got a {type(f).__name__} that is not compiled",
                "Give a function made by tracker.jit; tracker.trace shows what any function does",
            )
        )
    text: str = f.explain(*args, **kwargs)
    return text
