"""pandas and xarray objects beside tracked values: they count as their arrays, and results are
tracked arrays without labels.

pandas asks for `__pandas_priority__` before most operators. Its other methods, and xarray's
operators, are wrapped to return NotImplemented, so that the tracked operand's own operator runs,
which takes the numbers (`support/array_likes.py`). The wrapped methods change nothing for other
operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker.errors import ConversionError
from tracker.ir.op import METHODS
from tracker.ops.shape.create import copy_, identity
from tracker.support.library_hooks import when_imported, wrap_method
from tracker.tape.conversions import plain_key
from tracker.tape.labels import FRAME_METHODS, is_frame
from tracker.tape.record import apply, aval_of, holds_tracked, value_of
from tracker.tape.tracing.placeholders import resolve_placeholder
from tracker.tape.tracked import Tracked, check_is_array
from tracker.user_frames import user_line


def _if_tracked(instead: Callable[..., Any]) -> Callable[[Any], Any]:
    """Makes a method into one that calls `instead` if an operand is tracked."""

    def wrap(theirs: Any) -> Any:
        def method(self: Any, *operands: Any, **options: Any) -> Any:
            given = tuple(map(resolve_placeholder, operands))
            if Tracked in map(type, given):
                return instead(self, *given)
            return theirs(self, *given, **options)

        return method

    return wrap


def _defer(*_: Any) -> Any:
    return NotImplemented


def _refuse_in_place(self: Any, *_: Any) -> Any:
    raise ConversionError(
        f"an in-place operator would store a tracked value into a {type(self).__name__}",
        "Use x = x + t in place of x += t: the result is a tracked array",
        user_line(),
    )


def _dot(frame: Any, other: Any) -> Any:
    return other.__rmatmul__(frame)


def _plain_keys(theirs: Any) -> Any:
    """Makes a method look up plain numbers. pandas asks in C whether a key is an integer, and takes
    a tracked one for a label that it does not have: `n in series` is False without an error."""

    def method(self: Any, key: Any, *others: Any) -> Any:
        return theirs(self, _plain_key(key), *others)

    return method


def _plain_key(key: Any) -> Any:
    """A key with plain numbers in place of tracked ones, which are guarded."""
    if type(key) is Tracked and not key.ndim:
        return plain_key(key)
    if type(key) in (tuple, list) and holds_tracked(key):
        return type(key)(map(_plain_key, key))
    return key


def _install_pandas(pandas: Any) -> None:
    series = pandas.Series(dtype=float)
    for cls in (pandas.DataFrame, pandas.Series):
        wrap_method(cls, "dot", _if_tracked(_dot))
        wrap_method(cls, "_inplace_method", _if_tracked(_refuse_in_place))
    indexers = (series, series.loc, series.iloc, series.at, series.iat)
    for cls in (pandas.DataFrame, *map(type, indexers)):
        wrap_method(cls, "__getitem__", _plain_keys)
        wrap_method(cls, "__setitem__", _plain_keys)
    kinds = ("Index", "RangeIndex", "CategoricalIndex", "IntervalIndex", "MultiIndex")
    for cls in (getattr(pandas, kind) for kind in kinds):
        wrap_method(cls, "__contains__", _plain_keys)
        wrap_method(cls, "get_loc", _plain_keys)


def _install_xarray(xarray: Any) -> None:
    for cls in (xarray.DataArray, xarray.Variable):
        wrap_method(cls, "_binary_op", _if_tracked(_defer))
        wrap_method(cls, "__array_ufunc__", _if_tracked(_defer))
        wrap_method(cls, "_inplace_binary_op", _if_tracked(_refuse_in_place))


when_imported("pandas", _install_pandas)
when_imported("xarray", _install_xarray)


# Methods ------------------------------------------------------------------------------------------
#
# The result of an operator is a tracked array where pandas has a Series or DataFrame, whose methods
# have other defaults: one degree of freedom less, and the first axis of two. Where pandas would
# keep its classes is read from the history of a value (`tape/labels.py`).


def _with_defaults(name: str, defaults: dict[str, int], positions: Sequence[str]) -> Any:
    """A method with pandas' defaults; `positions` are the names of the leading arguments."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_frame(value_of(self)):
            given = {*positions[: len(args)], *kwargs}
            if np.ndim(self) < 2:
                given.add("axis")
            kwargs |= {key: x for key, x in defaults.items() if key not in given}
        return METHODS[name](self, *args, **kwargs)

    return method


for _name in ("std", "var"):
    FRAME_METHODS[_name] = _with_defaults(
        _name, {"axis": 0, "ddof": 1}, ("axis", "dtype", "out", "ddof")
    )
for _name in ("sum", "mean", "prod", "max", "min", "any", "all", "cumsum", "cumprod"):
    FRAME_METHODS[_name] = _with_defaults(_name, {"axis": 0}, ("axis",))


# Code written for pandas may get an array without labels: an argument, or a result.


def _to_numpy(self: Any, dtype: Any = None, copy: bool = False) -> Any:
    """The array itself, as of a pandas or xarray object."""
    check_is_array("to_numpy", aval_of(self))
    found = apply(identity, (self,)) if dtype is None else self.astype(dtype)
    return copy_(found, "K") if copy else found


METHODS["to_numpy"] = _to_numpy
Tracked.values = property(_to_numpy)  # type: ignore[attr-defined]
