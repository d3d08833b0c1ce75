"""Reading and setting the local names of a running frame.

From Python 3.13 on, `frame.f_locals` writes through (PEP 667). Before, it is a copy that the C API
puts back.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

_WRITES_THROUGH = sys.version_info >= (3, 13)


def frame_locals(frame: FrameType) -> dict[str, Any]:
    """The names of a frame that are bound, closure variables included."""
    found = dict(frame.f_locals)
    _release_copy(frame)
    return found


def set_frame_locals(frame: FrameType, values: Mapping[str, Any]) -> None:
    """Bind names of a frame that is suspended in a call."""
    frame.f_locals.update(values)
    if _locals_to_fast is not None:
        _locals_to_fast(frame, 0)
    _release_copy(frame)


def _release_copy(frame: FrameType) -> None:
    """Empty the copy, which would keep objects alive until the frame ends."""
    if not _WRITES_THROUGH:
        frame.f_locals.clear()


def _put_back() -> Callable[[FrameType, int], None]:
    function = ctypes.pythonapi.PyFrame_LocalsToFast
    function.argtypes = ctypes.py_object, ctypes.c_int
    function.restype = None
    return function


_locals_to_fast = _put_back() if not _WRITES_THROUGH else None
