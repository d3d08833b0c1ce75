"""Whose code a frame runs: the user's, ours, or a library's.

Errors, warnings and the equations of a trace name the innermost line of the user's code.

Invariant: this file imports nothing of the package.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from types import CodeType, FrameType

import numpy as np

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_INTERNAL_PREFIXES = (_HERE, _NUMPY, "<__array_function__")


def user_frame(depth: int = 1) -> FrameType | None:
    """The innermost frame that belongs to neither this package nor NumPy nor SciPy."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        internal = _IS_INTERNAL.get(code.co_filename)
        if internal is None:
            internal = is_internal(code)
        if not internal:
            return frame
        frame = frame.f_back
    return None


def is_own(code: CodeType) -> bool:
    """Whether code belongs to this package."""
    return code.co_filename.startswith(_HERE)


def caller_of_numpy(frame: FrameType) -> FrameType:
    """The frame that calls a NumPy function, from an inner frame of the call: NumPy's protocol and
    our functions in NumPy's place pass calls on."""
    passes_on = (_HERE + "numpy" + os.sep, _HERE + "rebinding" + os.sep)
    while frame.f_back is not None:
        code = frame.f_code
        if code.co_name != "__array_function__" and not code.co_filename.startswith(passes_on):
            break
        frame = frame.f_back
    return frame


_IS_INTERNAL: dict[str, bool] = {}  # by file


def is_internal(code: CodeType) -> bool:
    """Whether code belongs to this package, NumPy, SciPy, pandas or xarray. Tracing calls this for
    every frame of every op; the table is keyed by file, since a code object computes its hash each
    time."""
    file = code.co_filename
    known = _IS_INTERNAL.get(file)
    if known is None:
        if len(_IS_INTERNAL) > 10_000:
            _IS_INTERNAL.clear()
        known = _IS_INTERNAL[file] = file.startswith(_INTERNAL_PREFIXES) or _is_of_package(file)
    return known


def _is_of_package(file: str) -> bool:
    """Whether a file belongs to a package that calls tracked values' methods, if it is imported."""
    found = (getattr(sys.modules.get(name), "__file__", None) for name in _CALLING_PACKAGES)
    folders = (os.path.dirname(os.path.abspath(path)) + os.sep for path in found if path)
    return file.startswith(tuple(folders))


_CALLING_PACKAGES = ("scipy", "pandas", "xarray")


INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")  # the user's or the system's


@functools.lru_cache(maxsize=4096)
def is_library_file(path: str) -> bool:
    """Whether a file belongs to the standard library or an installed package."""
    return path.startswith(_LIBRARIES) or INSTALLED.search(path) is not None


_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep
_LIBRARIES = ("<frozen", "<string>", "<__array_function__", _STANDARD_LIBRARY)


def user_call() -> tuple[FrameType | None, list[FrameType]]:
    """The innermost frame of the user's own code, and the frames of other libraries that it has
    called, outermost first. Where all code is installed, the user is who called NumPy or this
    package."""
    called: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_internal(frame.f_code) and (file == "<string>" or not is_library_file(file)):
            return frame, called[::-1]
        if not file.startswith(_HERE):
            called.append(frame)
        frame = frame.f_back
    return user_frame(2), []


def user_line() -> str:
    """`file:line` of the user's code that is running, or `<unknown>`."""
    frame, _ = user_call()
    return "<unknown>" if frame is None else line_of(frame)


def line_of(frame: FrameType) -> str:
    """`file:line` of what a frame is executing."""
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
