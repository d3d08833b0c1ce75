"""`tracker.debug`: text and pictures of tapes, traces and compiled plans; the origin of a NaN.

`tape.py` prints the history of a value, `draw.py` draws it, or a trace, or a plan, as SVG laid out
by `graph_layout.py`; `nan_check.py` observes recordings and backward passes; `visible_calls` shows
calls of machine code to profilers. May import `autodiff`, `ir` and what `tracker.jit` offers. Only
users import this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracker.debug.draw import draw
from tracker.debug.nan_check import nan_check
from tracker.debug.tape import tape
from tracker.errors import UnsupportedError
from tracker.ir import graphviz as _dot
from tracker.jit import trace, visible_calls

if TYPE_CHECKING:
    from tracker.jit import Jitted
    from tracker.support.type_variables import P

__all__ = ["dot", "draw", "explain", "nan_check", "tape", "visible_calls"]


def __dir__() -> list[str]:
    return __all__


def dot(f: Any, *args: Any, **kwargs: Any) -> str:
    """The trace of `f` at these arguments as Graphviz text, for `dot -Tsvg`.

    Parameters
    ----------
    f : callable
        Any function of arrays and numbers.
    *args, **kwargs
        Its arguments.

    Returns
    -------
    str

    See Also
    --------
    draw : makes a picture without Graphviz.

    Examples
    --------
    >>> print(dot(lambda x: x * 2.0, 3.0).splitlines()[0])
    digraph "function" {
    """
    return _dot.dot(trace(f, *args, **kwargs))


def explain(f: Jitted[P, Any], *args: P.args, **kwargs: P.kwargs) -> str:
    """What a jitted function runs for these arguments, as text: `f.explain(*args)`.

    Parameters
    ----------
    f : Jitted
        A function made by `tracker.jit`; another raises `UnsupportedError`.
    *args, **kwargs
        Its arguments.

    Returns
    -------
    str

    Examples
    --------
    >>> "kernel over 100" in explain(tracker.jit(lambda x: np.sum(np.sin(x))), np.ones(100))
    True
    """
    if not hasattr(f, "explain"):
        raise UnsupportedError(
            f"explain got a {type(f).__name__} that is not compiled",
            "Give a function made by tracker.jit; tracker.trace shows what any function does",
        )
    text: str = f.explain(*args, **kwargs)
    return text
