"""Names of SciPy's modules that have no replacement: `scipy_fallback` makes a module's
`__getattr__`; type checkers read SciPy's stubs instead.

SciPy's functions refuse tracked values by name. Functions whose results have no derivative
(positions, labels, ranks) are given the plain numbers (`callback.py`). Classes are SciPy's own.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from tracker.errors import ConversionError, UnsupportedError
from tracker.scipy._bridge.callback import nondifferentiable
from tracker.support.pickling import at_home
from tracker.tape.tracked import Tracked

USE_DATA_HINT = "Use tracker.data(x) where no gradient is wanted"
_PLAIN_SPARSE_HINT = (
    "Where no gradient is wanted, use csr_array((tracker.data(a.data), a.indices, a.indptr), "
    "a.shape) for a in CSR format"
)


def scipy_fallback(
    module: ModuleType,
    accept_tracked: Collection[str] = (),
    constant: Collection[str] = (),
    hints: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of the module that replaces this one.

    accept_tracked  functions of SciPy's that accept tracked values as they are
    constant        functions whose results have no derivative
    hints           what a refusal tells the user to type, by name
    """
    texts = hints or {}
    names = [n for n in dir(module) if not n.startswith("_")]

    @functools.cache
    def look_up(name: str) -> Any:
        if name == "__all__":
            return names
        theirs = getattr(module, name)
        if name in accept_tracked or name.startswith("_") or not inspect.isroutine(theirs):
            return theirs
        title = f"{module.__name__}.{name}"
        if name in constant:
            found = nondifferentiable(theirs)
        else:
            found = refuse_tracked(theirs, title, texts.get(name, USE_DATA_HINT))
        return at_home(found, f"tracker.{module.__name__}", name)

    return look_up, names.copy


def refuse_tracked(theirs: Callable[..., Any], title: str, hint: str) -> Callable[..., Any]:
    """SciPy's function with a check that raises an error for tracked arguments."""

    @functools.wraps(theirs)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_tracked(*args, *kwargs.values()):
            args = tuple(to_plain(x, title, hint) for x in args)
            kwargs = {name: to_plain(x, title, hint) for name, x in kwargs.items()}
        try:
            return theirs(*args, **kwargs)
        except Exception as error:
            if (cause := _conversion_error(error)) is None:
                raise
            raise no_derivative_rule(title, hint) from cause

    call.refuses_tracked = True  # type: ignore[attr-defined]
    return call


def _conversion_error(error: BaseException | None) -> ConversionError | None:
    """The error that SciPy met, or hides behind one of its own, where a function that it calls
    returns tracked values."""
    while error is not None and not isinstance(error, ConversionError):
        error = error.__cause__ or error.__context__
    return error


def to_plain(x: Any, title: str, hint: str = USE_DATA_HINT) -> Any:
    """Plain numbers of values that no derivative depends on: arrays that a traced function
    captures, buffers that are not filled. Other tracked values raise an error."""
    if type(x) in (list, tuple):
        return type(x)(to_plain(part, title, hint) for part in x)
    if is_tracked_sparse(x):
        raise no_derivative_rule(title, _PLAIN_SPARSE_HINT if hint is USE_DATA_HINT else hint)
    if not isinstance(x, Tracked):
        return x
    try:
        return np.asarray(x)[()]
    except ConversionError as error:
        raise no_derivative_rule(title, hint) from error


def no_derivative_rule(title: str, hint: str = USE_DATA_HINT) -> UnsupportedError:
    return UnsupportedError(f"{title} has no derivative rule here", hint)


def is_tracked(*xs: Any) -> bool:
    """Whether an argument is tracked, or is a list or tuple that contains a tracked value."""
    return any(
        isinstance(x, Tracked)
        or is_tracked_sparse(x)
        or (isinstance(x, (list, tuple)) and is_tracked(*x))
        for x in xs
    )


def is_tracked_sparse(x: Any) -> bool:
    """Whether an object is a sparse array with tracked entries."""
    return hasattr(type(x), "_tracker_sparse")


def as_array(x: Any) -> Any:
    """A tracked value as it is, other values as arrays. Nested lists of tracked values are
    stacked."""
    if isinstance(x, Tracked):
        return x
    if isinstance(x, (list, tuple)) and is_tracked(*x):
        return np.stack([as_array(part) for part in x])
    return np.asarray(x)
