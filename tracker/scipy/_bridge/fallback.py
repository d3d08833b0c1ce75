"""How a module stands in for one of SciPy's: the names it does not define are SciPy's.

Functions among those refuse tracked values by their name; those whose results have no derivative
(positions, labels, ranks) are handed the plain numbers (`callback.py`). Classes are SciPy's own.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from tracker.errors import ConversionError, UnsupportedError, message
from tracker.scipy._bridge.callback import nondifferentiable
from tracker.tape.tracked import Tracked

USE_DATA_HINT = "Use tracker.data(x) where no gradient is wanted"


def scipy_fallback(
    module: ModuleType,
    accept_tracked: Collection[str] = (),
    constant: Collection[str] = (),
    hints: Mapping[str, str] | None = None,
) -> Callable[[str], Any]:
    """A `__getattr__` for the module that stands in for this one.

    works     functions of SciPy's that take tracked values as they are
    constant  functions without a derivative
    instead   what to type where a function is refused
    """
    texts = hints or {}

    @functools.cache
    def look_up(name: str) -> Any:
        if name == "__all__":
            return [n for n in dir(module) if not n.startswith("_")]
        theirs = getattr(module, name)
        if name in accept_tracked or name.startswith("_") or not inspect.isroutine(theirs):
            return theirs
        if name in constant:
            return nondifferentiable(theirs)
        return refuse_tracked(theirs, f"{module.__name__}.{name}", texts.get(name, USE_DATA_HINT))

    return look_up


def refuse_tracked(theirs: Callable[..., Any], title: str, hint: str) -> Callable[..., Any]:
    """SciPy's function, which refuses tracked values by its name."""

    @functools.wraps(theirs)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_tracked(*args, *kwargs.values()):
            args = tuple(to_plain(x, title, hint) for x in args)
            kwargs = {name: to_plain(x, title, hint) for name, x in kwargs.items()}
        return theirs(*args, **kwargs)

    return call


def to_plain(x: Any, title: str, hint: str = USE_DATA_HINT) -> Any:
    """Plain numbers of what no derivative depends on (a traced function's captured arrays, buffers
    that are not filled); anything else is refused."""
    if type(x) in (list, tuple):
        return type(x)(to_plain(part, title, hint) for part in x)
    if not isinstance(x, Tracked):
        return x
    try:
        return np.asarray(x)[()]
    except ConversionError as error:
        raise no_derivative_rule(title, hint) from error


def no_derivative_rule(title: str, hint: str = USE_DATA_HINT) -> UnsupportedError:
    return UnsupportedError(message(f"{title} has no derivative rule here", hint))


def is_tracked(*xs: Any) -> bool:
    """Whether one of these is tracked, or holds what is, in lists and tuples."""
    return any(
        isinstance(x, Tracked) or (isinstance(x, (list, tuple)) and is_tracked(*x)) for x in xs
    )


def as_array(x: Any) -> Any:
    """A tracked value, or an array; a list of tracked values is stacked, however deep."""
    if isinstance(x, Tracked):
        return x
    if isinstance(x, (list, tuple)) and is_tracked(*x):
        return np.stack([as_array(part) for part in x])
    return np.asarray(x)
