"""`numpy.lib.stride_tricks` for tracked arrays.

`as_strided` reads the elements that the strides address in the array's own layout; the result is a
copy, so writes through it do not reach the array.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib import stride_tricks as _own

from tracker.errors import UnsupportedError, message
from tracker.tape.tracked import Tracked


def as_strided(
    x: Any,
    shape: Any = None,
    strides: Any = None,
    subok: bool = False,
    writeable: bool = True,
    **checks: Any,
) -> Any:
    """`numpy.lib.stride_tricks.as_strided`: of a tracked array, a copy."""
    if not isinstance(x, Tracked):
        return _own.as_strided(x, shape, strides, subok, writeable, **checks)
    shape = np.shape(x) if shape is None else tuple(int(n) for n in np.atleast_1d(shape))
    own = x.strides
    strides = own if strides is None else tuple(int(n) for n in np.atleast_1d(strides))
    lies = _offsets(np.shape(x), own)
    order = np.argsort(lies, kind="stable")
    wanted = _offsets(shape, strides)
    found = np.minimum(np.searchsorted(lies[order], wanted), max(lies.size - 1, 0))
    places = order[found] if lies.size else found
    if np.any(lies[places] != wanted):
        raise UnsupportedError(
            message(
                f"as_strided with shape {shape} and strides {strides} reads outside of an array of "
                f"shape {np.shape(x)} and strides {own}",
                "Strides are in bytes, those of x itself are x.strides",
            )
        )
    return np.reshape(np.ravel(x)[places], shape)


def _offsets(shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """The byte offset of each element, in C order."""
    total = np.zeros((1,) * len(shape), np.int64)
    for axis, (n, stride) in enumerate(zip(shape, strides, strict=True)):
        lined = [1] * len(shape)
        lined[axis] = n
        total = total + np.reshape(np.arange(n) * stride, lined)
    return np.ravel(np.broadcast_to(total, shape))


def __getattr__(name: str) -> Any:
    return getattr(_own, name)
