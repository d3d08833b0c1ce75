"""How what this package makes is shown: texts line by line, functions by what they derive from."""

from __future__ import annotations

import functools
import html
from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


class ShownText(str):
    """A string whose `repr` is the text itself.

    >>> ShownText("two\\nlines")
    two
    lines
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self)}</pre>"


def function_name(f: Callable[..., Any]) -> str:
    """The name of a function, or of the class of another callable, for texts."""
    while isinstance(f, functools.partial):
        f = f.func
    return str(getattr(f, "__name__", type(f).__name__)).replace("<lambda>", "function")


def named_after(made: _Function, what: str, f: Callable[..., Any]) -> _Function:
    """`made`, named as `what` of `f`.

    >>> named_after(lambda: None, "value_and_grad", abs).__qualname__
    'value_and_grad of abs'
    """
    of = function_name(f)
    made.__name__, made.__qualname__ = f"{what}_of_{of}", f"{what} of {of}"
    return made
