"""Trackable arrays, and functions called with lists that hold tracked values.

Invariant: while nothing is differentiated or traced in this thread, a plain call of a function here
is NumPy's own, and so is its result. Start at `trackable`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tracker.errors import ConversionError, is_caused_by
from tracker.ir.op import NUMPY
from tracker.ops.shape.create import buffer, join_tracked_list
from tracker.support.pickling import at_home
from tracker.tape.conversions import plain_integers
from tracker.tape.observers import has_active_transform
from tracker.tape.record import holds_tracked, sequence_items
from tracker.tape.tracked import Tracked

Function = Callable[..., Any]


def trackable(new: Any, given: Iterable[Any] = ()) -> Any:
    """A new array of real or complex numbers as one that tracked values can be written into. What
    lies in memory of others, or of what was given, stays as it is: they must see what is written.
    """
    if type(new) is np.ndarray:
        return buffer(new) if new.dtype.kind in "fc" and _owns_memory(new, given) else new
    if type(new) in (tuple, list):
        return type(new)(trackable(x, given) for x in new)
    return new


def _owns_memory(new: Any, given: Iterable[Any]) -> bool:
    base = new
    while type(base) is np.ndarray:
        base = base.base
    return base is None and not any(
        type(x) is not Tracked and isinstance(x, np.ndarray) and np.may_share_memory(x, new)
        for x in given
    )


# Functions whose rules handle the parts of a sequence themselves.
_OF_SEQUENCES = (
    *("block", "broadcast_arrays", "choose", "column_stack", "concat", "concatenate", "dstack"),
    *("histogram2d", "histogramdd", "hstack", "ix_", "multi_dot"),
    *("ravel_multi_index", "select", "stack", "unstack", "vstack"),
)
# Functions that check each number of a list: an array of them would be cast unchecked.
_STORING = ("fill_diagonal", "insert", "place", "put", "put_along_axis", "putmask")


_PYTHON = frozenset((int, float, bool))  # in shapes and axes, mostly

# Functions of a count.
_OF_COUNTS = ("bartlett", "blackman", "hamming", "hanning")


def accepting_lists(function: Function) -> Function:
    """A NumPy function that also takes lists of tracked values."""

    join = _join_parts if function.__name__ in _OF_SEQUENCES else join_tracked_list
    # Lists of `block` have a meaning of their own.
    takes_lists = function.__name__ == "block" or function.__name__ in _STORING

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        # a conversion would abort a trace, and lose integers
        if has_active_transform() and not takes_lists:
            for x in args:
                if not _PYTHON.issuperset(map(type, sequence_items(x) or ())):
                    args = tuple(map(join, args))
                    break
            if kwargs:  # (axes are integers, not numbers)
                kwargs = {n: x if n == "axis" else join(x) for n, x in kwargs.items()}
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError) as error:
            if not is_caused_by(error, ConversionError):
                raise
            again = [join(x) for x in args]
            named = {name: join_tracked_list(x) for name, x in kwargs.items()}
            changed = [*again, *named.values()]
            given = [*args, *kwargs.values()]
            if function in NUMPY and any(isinstance(x, Tracked) for x in changed):
                return NUMPY[function](*again, **named)  # NumPy's protocol ignores some arguments
            if all(map(operator.is_, changed, given)):
                raise
        return function(*again, **named)

    return call


def _join_parts(x: Any) -> Any:
    """A sequence of arrays, with sequences of tracked values in it joined."""
    if type(x) is Tracked or not holds_tracked(x):
        return x
    parts = [join_tracked_list(part) for part in sequence_items(x) or ()]
    return tuple(parts) if isinstance(x, tuple) else parts


def giving_trackable(function: Function) -> Function:
    """A NumPy function that returns a new array, which is trackable while that can matter."""
    takes_lists = accepting_lists(function)
    of_counts = function.__name__ in _OF_COUNTS

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        y = takes_lists(*(plain_integers(args) if of_counts else args), **kwargs)
        return trackable(y, (*args, *kwargs.values())) if has_active_transform() else y

    return call


def names_of(module: Any, new: tuple[str, ...] = ()) -> dict[str, Any]:
    """The functions of a NumPy submodule, which also take lists of tracked values; those in `new`
    return trackable arrays."""
    found = {}
    for name in module.__all__:
        value = getattr(module, name)
        if name in new:
            value = at_home(giving_trackable(value), f"tracker.{module.__name__}", name)
        elif hasattr(value, "_implementation"):
            value = at_home(accepting_lists(value), f"tracker.{module.__name__}", name)
        found[name] = value
    return found
