"""Ufuncs of `tracker.numpy`: NumPy's own, which also take lists of tracked values.

NumPy converts a list to an array before it calls `__array_ufunc__`, and an array cannot hold
tracked values, so `Ufunc` joins lists first. In every other respect a `Ufunc` is the ufunc that it
wraps: equal to it, an instance of its class, with its attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.ops.shape.create import join_tracked_list
from tracker.ops.ufunc_protocol import array_ufunc
from tracker.tape.tracked import Tracked

_MISSING: Any = object()
_USUAL = frozenset((Tracked, np.ndarray, np.float64, float, int, bool, complex))


class Ufunc:
    """A NumPy ufunc that also takes lists of tracked values."""

    __slots__ = ("__weakref__", "_ufunc")

    def __init__(self, own: np.ufunc) -> None:
        self._ufunc = own

    def __call__(self, x: Any = _MISSING, /, *rest: Any, **kwargs: Any) -> Any:
        if type(x) in _USUAL and not kwargs:  # on the path of every call
            if not rest:
                return self._ufunc(x)
            if len(rest) == 1 and type(rest[0]) in _USUAL:
                return self._ufunc(x, rest[0])
        given = () if x is _MISSING else (x, *rest)
        return self._ufunc(*map(join_tracked_list, given), **kwargs)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return np.ufunc

    @property
    def __doc__(self) -> Any:  # type: ignore[override]
        return self._ufunc.__doc__

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ufunc, name)

    def __eq__(self, other: object) -> bool:
        return (other._ufunc if type(other) is Ufunc else other) is self._ufunc

    def __hash__(self) -> int:
        return hash(self._ufunc)

    def __repr__(self) -> str:
        return repr(self._ufunc)

    def __reduce__(self) -> Any:
        return Ufunc, (self._ufunc,)


def _method(name: str) -> Callable[..., Any]:
    def call(self: Ufunc, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._ufunc, name)(*map(join_tracked_list, args), **kwargs)

    return call


def _reduce(self: Ufunc, *args: Any, **kwargs: Any) -> Any:
    args = tuple(map(join_tracked_list, args))
    if isinstance(kwargs.get("initial"), Tracked):  # NumPy's protocol ignores `initial`
        return array_ufunc(self._ufunc, "reduce", args, kwargs)
    return self._ufunc.reduce(*args, **kwargs)


def _at(self: Ufunc, a: Any, indices: Any, *b: Any) -> None:
    """Perform operation in place on the elements at indices, which may be a tuple of arrays."""
    several = isinstance(indices, tuple)
    key = tuple(map(join_tracked_list, indices)) if several else join_tracked_list(indices)
    self._ufunc.at(a, key, *map(join_tracked_list, b))


_METHODS = {
    **{name: _method(name) for name in ("accumulate", "outer", "reduceat")},
    "reduce": _reduce,
    "at": _at,
}
for _name, _call in _METHODS.items():
    _call.__name__, _call.__qualname__ = _name, f"Ufunc.{_name}"
    _call.__doc__ = getattr(np.ufunc, _name).__doc__
    setattr(Ufunc, _name, _call)
