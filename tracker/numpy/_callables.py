"""NumPy functions that call a Python function repeatedly, and stand-ins for NumPy's scalar types.

While a function is differentiated, `np.float64(t)` must keep `t` tracked: `scalar_type` returns a
stand-in class for it. Code that compares classes by identity gets NumPy's own
(`is_identity_comparison`).
"""

from __future__ import annotations

import copyreg
import dis
import functools
import math
import types
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from tracker.numpy._constructors import array
from tracker.numpy._trackable import trackable
from tracker.ops.elementwise import select
from tracker.ops.shape.create import buffer, join_tracked_list
from tracker.support.pickling import named
from tracker.tape.conversions import plain_integers
from tracker.tape.observers import has_active_transform
from tracker.tape.record import data_of, holds_tracked
from tracker.tape.tracked import Tracked

NAMES = (
    *("apply_along_axis", "apply_over_axes", "frompyfunc", "isscalar", "ndenumerate"),
    *("piecewise", "vectorize"),
)


class vectorize(np.vectorize):
    """`numpy.vectorize`; while a function is differentiated, a loop whose results are stacked.

    As NumPy's, it calls the function once more than there are elements if it is not told what the
    function gives: the call may draw random numbers, or count.
    """

    _casts = True  # whether results have the type of the first one

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        following = has_active_transform() or any(map(holds_tracked, (*args, *kwargs.values())))
        if not following or not (args or kwargs):
            return super().__call__(*args, **kwargs)
        given: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
        names = [name for name in given if name not in self.excluded]
        arrays = {name: _array_of(given[name]) for name in names}
        cores = self._cores(len(names))
        lead = np.broadcast_shapes(
            *(np.shape(x)[: np.ndim(x) - n] for x, n in zip(arrays.values(), cores, strict=True))
        )
        for (name, x), n in zip(arrays.items(), cores, strict=True):
            arrays[name] = np.broadcast_to(x, lead + np.shape(x)[np.ndim(x) - n :])

        def call(index: tuple[int, ...]) -> Any:
            call_arguments = {**given, **{name: x[index] for name, x in arrays.items()}}
            ordered = [call_arguments.pop(at) for at in range(len(args))]
            return self.pyfunc(*ordered, **call_arguments)

        if not math.prod(lead):
            return super().__call__(*args, **kwargs)
        tries = self._casts and self.otypes is None and self.signature is None and not self.cache
        first = call((0,) * len(lead)) if tries else None
        results = [call(index) for index in np.ndindex(lead)]
        first = first if tries else results[0]
        if isinstance(first, tuple):
            each = zip(*results, strict=True)
            return tuple(
                self._joined(list(x), lead, i, like)
                for i, (x, like) in enumerate(zip(each, first, strict=True))
            )
        return self._joined(results, lead, 0, first)

    def _cores(self, count: int) -> list[int]:
        """The number of core axes per argument."""
        dims = getattr(self, "_in_and_out_core_dims", None)
        return [0] * count if dims is None else [len(core) for core in dims[0]]

    def _joined(self, found: list[Any], lead: tuple[int, ...], at: int, first: Any) -> Any:
        y = array(found)
        y = np.reshape(y, lead + np.shape(y)[1:])
        if self.otypes is not None:
            return np.astype(y, self.otypes[at])
        kind = np.asarray(data_of(first)).dtype.char
        return y if not self._casts or y.dtype.char == kind else np.astype(y, kind)


class _FromPyFunc(vectorize):
    """What `frompyfunc` makes: results keep their types."""

    _casts = False


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, **kwargs: Any) -> Any:
    """`numpy.frompyfunc`; while a function is differentiated, a loop whose results are stacked."""
    if has_active_transform():
        return _FromPyFunc(func)
    return np.frompyfunc(func, nin, nout, **kwargs)


def _array_of(x: Any) -> Any:
    return join_tracked_list(x) if holds_tracked(x) else np.asarray(x)


def _over_buffers(function: Callable[..., Any], at: int) -> Callable[..., Any]:
    """A function that calls another one on parts of argument `at`; results may be tracked."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if has_active_transform() and len(args) > at:
            array = join_tracked_list(args[at])
            if not isinstance(array, Tracked):
                array = buffer(np.array(array))
            args = (*args[:at], array, *args[at + 1 :])
        return function(*args, **kwargs)

    return call


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any
) -> Any:
    """`numpy.apply_along_axis`; the array, and what the function gives, may be tracked."""
    if not has_active_transform() and not holds_tracked(arr):
        return np.apply_along_axis(func1d, axis, arr, *args, **kwargs)
    return trackable(select.apply_along_axis(func1d, axis, array(arr), *args, **kwargs))


apply_over_axes = _over_buffers(np.apply_over_axes, 1)
piecewise = _over_buffers(np.piecewise, 0)


class ndenumerate:
    """`numpy.ndenumerate`, also of tracked arrays."""

    def __new__(cls, arr: Any) -> Any:
        return super().__new__(cls) if holds_tracked(arr) else np.ndenumerate(arr)

    def __init__(self, arr: Any) -> None:
        self._array = join_tracked_list(arr)
        self._places: Iterator[tuple[int, ...]] = np.ndindex(np.shape(self._array))

    def __iter__(self) -> ndenumerate:
        return self

    def __next__(self) -> tuple[tuple[int, ...], Any]:
        index = next(self._places)
        return index, self._array[index]


def isscalar(element: Any) -> bool:
    """`numpy.isscalar`."""
    return bool(np.isscalar(data_of(element)))


class _ScalarMeta(type):
    """The metaclass of the stand-ins: a call converts; in every other respect they are NumPy's
    class."""

    _scalar: type

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if issubclass(cls._scalar, (np.datetime64, np.timedelta64)):  # count units
            args = tuple(map(plain_integers, args))
        elif args and holds_tracked(args[0]):
            made: Any = np.astype(array(args[0]), cls._scalar)
            return made if np.ndim(made) else made[()]
        return cls._scalar(*args, **kwargs)

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(data_of(x), cls._scalar)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls._scalar)

    def __eq__(cls, other: object) -> bool:  # a dtype has its own comparison
        return True if other is cls or other is cls._scalar else NotImplemented

    def __hash__(cls) -> int:
        return hash(cls._scalar)


copyreg.pickle(_ScalarMeta, lambda cls: (named, ("tracker.numpy", cls.__name__)))


@functools.lru_cache(maxsize=4096)
def is_identity_comparison(code: types.CodeType, at: int) -> bool:
    """Whether the code compares what it loads at this offset by identity: `type(x) is
    np.ndarray`."""
    return any(
        step.offset == at and after.opname == "IS_OP"
        for step, after in pairwise(dis.get_instructions(code))
    )


@functools.cache
def scalar_type(own: type) -> type:
    """The stand-in for a scalar type of NumPy."""
    return _ScalarMeta(
        own.__name__, (own,), {"_scalar": own, "__module__": "numpy", "__slots__": ()}
    )
