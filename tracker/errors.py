"""The errors that users meet, and the composition of their messages.

Every error class is also the built-in error that a caller would catch. A message has three parts:
what happened (shapes, dtypes), what to write instead, and where: the file and line of the innermost
frame outside of installed packages and the standard library.

Invariant: this file imports nothing of the package.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import warnings
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import numpy as np

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_INTERNAL_PREFIXES = (_HERE, _NUMPY, "<__array_function__")


class TrackerError(Exception):
    """Base of every error that this package raises on purpose."""


class ConversionError(TrackerError, TypeError):
    """A conversion of a tracked value to plain Python or NumPy would lose its gradient.

    The text may be a function that composes it: `tracker.numpy` catches most of these errors.
    """

    def __init__(self, text: str | Callable[[], str]) -> None:
        super().__init__(text)

    def __str__(self) -> str:
        (text,) = self.args
        if callable(text):
            text = text()
            self.args = (text,)
        return str(text)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> Any:
        return type(self), (str(self),)


class NotScalarError(TrackerError, TypeError):
    """A derivative that needs a scalar was given something else."""


class ComplexLossError(TrackerError, TypeError):
    """The gradient of a complex number was requested."""


class NonFiniteError(TrackerError, ValueError):
    """The loss is NaN or infinite."""


class GraphUsedError(TrackerError, RuntimeError):
    """`back` was called again on a graph that the first call has freed."""


class NotTrackedError(TrackerError, ValueError):
    """A tracked value was needed, and something else was given."""


class RuleError(TrackerError, ValueError):
    """A differentiation rule is missing or broke its contract."""


class UnsupportedError(TrackerError, NotImplementedError, TypeError):
    """NumPy can do this, and this package cannot (yet, or at all)."""


class MissingAttributeError(UnsupportedError, AttributeError):
    """An attribute that other arrays have and a tracked value has not: for NumPy it is absent."""


class CompileError(TrackerError, RuntimeError):
    """Compilation was refused (`strict=True`) or failed."""


class IRError(TrackerError, ValueError):
    """An IR function breaks an invariant, or IR text does not parse."""


class DegenerateWarning(RuntimeWarning):
    """Eigenvalues or singular values coincide, so that a derivative is not determined."""


# What NumPy and our rules raise because of their operands. Other errors have other causes: a signal
# handler, no memory, no stack left.
EVALUATION_ERRORS = (
    TypeError,
    ValueError,
    ArithmeticError,
    LookupError,
    AttributeError,
    AssertionError,
    NotImplementedError,
    TrackerError,
    Warning,
)


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


def warn(text: str, category: type[Warning]) -> None:
    """Warn at the user's line, where the user's own filters and registry apply."""
    frame = user_frame(2)
    if frame is None:
        warnings.warn(text, category, stacklevel=3)
        return
    warnings.warn_explicit(
        text,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__"),
        frame.f_globals.setdefault("__warningregistry__", {}),
    )


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


def message(what: str, instead: str = "", where: str | None = None) -> str:
    """Compose the three parts of an error message."""
    text = what.rstrip(".")
    if instead:
        text += f". {instead.rstrip('.')}"
    line = user_line() if where is None else where
    return f"{text}. (at {line})" if line and line != "<unknown>" else f"{text}."
