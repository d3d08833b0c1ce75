"""The errors a user meets, and the one way to write their text.

Owns: the `TrackerError` family. Every class is also the built-in error that a caller would catch.
A message has three parts: what happened (shapes, dtypes), where (the user's file and line), and
what to write instead. `user_line` finds the "where": the innermost frame outside this package
and outside NumPy.

Invariant: this file imports nothing of ours.
"""

from __future__ import annotations

import os
import sys
import warnings
from types import CodeType, FrameType

import numpy as np

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_INTERNAL_PREFIXES = (_HERE, _NUMPY, "<__array_function__")


class TrackerError(Exception):
    """Base of every error raised by this package on purpose."""


class ConversionError(TrackerError, TypeError):
    """A tracked value was about to leave NumPy, which would drop its gradient."""


class NotScalarError(TrackerError, TypeError):
    """A derivative that needs a scalar was asked of something else."""


class ComplexLossError(TrackerError, TypeError):
    """A gradient was asked of a complex number."""


class NonFiniteError(TrackerError, ValueError):
    """The loss is NaN or infinite."""


class GraphUsedError(TrackerError, RuntimeError):
    """`back` was called twice through a graph that was given up after the first call."""


class NotTrackedError(TrackerError, ValueError):
    """A tracked value was needed, and something else was given."""


class RuleError(TrackerError, ValueError):
    """A differentiation rule is missing or broke its contract."""


class UnsupportedError(TrackerError, NotImplementedError, TypeError):
    """NumPy can do this, and this package cannot (yet, or at all)."""


class AddressError(UnsupportedError, AttributeError):
    """A tracked value has no address to give: to NumPy, which may ask, the attribute is absent."""


class CompileError(TrackerError, RuntimeError):
    """Compilation was refused (`strict=True`) or failed."""


class IRError(TrackerError, ValueError):
    """An IR function breaks an invariant, or IR text does not parse."""


class DegenerateWarning(RuntimeWarning):
    """Eigenvalues or singular values coincide, and a derivative asks for what is not fixed."""


# What NumPy and our rules raise where they cannot do what they are asked. Anything else says
# nothing of that: a signal handler has raised it, or there was no memory or no stack left.
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
    """Warn of the user's line, where the user's own filters and registry decide."""
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
    """Whether code belongs to this package, NumPy or SciPy. Tracing asks for every frame of every
    op: the file's name is asked for, since the hash of a code object is computed each time."""
    file = code.co_filename
    known = _IS_INTERNAL.get(file)
    if known is None:
        if len(_IS_INTERNAL) > 10_000:
            _IS_INTERNAL.clear()
        known = _IS_INTERNAL[file] = file.startswith(_INTERNAL_PREFIXES) or _is_scipy_file(file)
    return known


def _is_scipy_file(file: str) -> bool:
    """Whether a file belongs to SciPy, which may not be there, or not yet."""
    scipy = getattr(sys.modules.get("scipy"), "__file__", None)
    return scipy is not None and file.startswith(os.path.dirname(os.path.abspath(scipy)) + os.sep)


def user_line() -> str:
    """`file:line` of the user's code that is running now, or `<unknown>`."""
    frame = user_frame(2)
    return "<unknown>" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def message(what: str, instead: str = "", where: str | None = None) -> str:
    """Compose the three-part text of an error."""
    text = what.rstrip(".")
    if instead:
        text += f". {instead.rstrip('.')}"
    line = user_line() if where is None else where
    return f"{text}. (at {line})" if line and line != "<unknown>" else f"{text}."
