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
from tracker.scipy._bridge.callback import untracked
from tracker.tape.tracked import Tracked

NOT_WANTED = "Use tracker.data(x) where no gradient is wanted"


def passing(
    module: ModuleType,
    works: Collection[str] = (),
    constant: Collection[str] = (),
    instead: Mapping[str, str] | None = None,
) -> Callable[[str], Any]:
    """A `__getattr__` for the module that stands in for this one.

    works     functions of SciPy's that take tracked values as they are
    constant  functions without a derivative
    instead   what to type where a function is refused
    """
    texts = instead or {}

    @functools.cache
    def look_up(name: str) -> Any:
        if name == "__all__":
            return [n for n in dir(module) if not n.startswith("_")]
        theirs = getattr(module, name)
        if name in works or name.startswith("_") or not inspect.isroutine(theirs):
            return theirs
        if name in constant:
            return untracked(theirs)
        return refusing(theirs, f"{module.__name__}.{name}", texts.get(name, NOT_WANTED))

    return look_up


def refusing(theirs: Callable[..., Any], title: str, instead: str) -> Callable[..., Any]:
    """SciPy's function, which refuses tracked values by its name."""

    @functools.wraps(theirs)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_tracked(*args, *kwargs.values()):
            args = tuple(let_out(x, title, instead) for x in args)
            kwargs = {name: let_out(x, title, instead) for name, x in kwargs.items()}
        return theirs(*args, **kwargs)

    return call


def let_out(x: Any, title: str, instead: str = NOT_WANTED) -> Any:
    """Plain numbers of what no derivative depends on (a traced function's captured arrays, buffers
    that are not filled); anything else is refused."""
    if type(x) in (list, tuple):
        return type(x)(let_out(part, title, instead) for part in x)
    if not isinstance(x, Tracked):
        return x
    try:
        return np.asarray(x)[()]
    except ConversionError as error:
        raise no_rule(title, instead) from error


def no_rule(title: str, instead: str = NOT_WANTED) -> UnsupportedError:
    return UnsupportedError(message(f"{title} has no derivative rule here", instead))


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
