"""`numpy.lib.stride_tricks` for tracked arrays.

`as_strided` reads the elements that the strides address in the array's own layout. Writes through
the result reach the array, unless elements appear in it twice: then it is read-only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib import stride_tricks as _numpy_module

from tracker.errors import UnsupportedError
from tracker.ops.indexing.subscripts import with_subscript_set
from tracker.ops.indexing.view_functions import refuse_write
from tracker.ops.indexing.views_and_writes import link_view
from tracker.tape.tracked import Tracked


def as_strided(
    x: Any,
    shape: Any = None,
    strides: Any = None,
    subok: bool = False,
    writeable: bool = True,
    **checks: Any,
) -> Any:
    """`numpy.lib.stride_tricks.as_strided`; of a tracked array, a view of elements of its own."""
    if not isinstance(x, Tracked):
        return _numpy_module.as_strided(x, shape, strides, subok, writeable, **checks)
    shape = np.shape(x) if shape is None else tuple(int(n) for n in np.atleast_1d(shape))
    own_strides = x.strides
    strides = own_strides if strides is None else tuple(int(n) for n in np.atleast_1d(strides))
    offsets = _offsets(np.shape(x), own_strides)
    order = np.argsort(offsets, kind="stable")
    wanted_offsets = _offsets(shape, strides)
    found = np.minimum(np.searchsorted(offsets[order], wanted_offsets), max(offsets.size - 1, 0))
    positions = order[found] if offsets.size else found
    if np.any(offsets[positions] != wanted_offsets):
        raise UnsupportedError(
            f"as_strided with shape {shape} and strides {strides} reads outside of an array of "
            f"shape {np.shape(x)} and strides {own_strides}",
            "Strides are in bytes, those of x itself are x.strides",
        )

    def cut(base: Any) -> Any:
        return np.reshape(np.ravel(base)[positions], shape)

    def paste(base: Any, new: Any) -> Any:
        if not writeable or len(np.unique(positions)) < positions.size:
            refuse_write()
        flat = with_subscript_set(np.ravel(base), positions, np.ravel(new))
        return np.reshape(flat, np.shape(base))

    return link_view(x, cut(x), cut, paste)


def _offsets(shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """The byte offset of each element, in C order."""
    total = np.zeros((1,) * len(shape), np.int64)
    for axis, (n, stride) in enumerate(zip(shape, strides, strict=True)):
        axis_shape = [1] * len(shape)
        axis_shape[axis] = n
        total = total + np.reshape(np.arange(n) * stride, axis_shape)
    return np.ravel(np.broadcast_to(total, shape))


if TYPE_CHECKING:
    from numpy.lib.stride_tricks import sliding_window_view as sliding_window_view
else:

    def __getattr__(name: str) -> Any:
        return getattr(_numpy_module, name)


def __dir__() -> list[str]:
    return dir(_numpy_module)
