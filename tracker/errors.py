"""The errors that users meet, and the composition of their messages.

Every error class is also the built-in error that a caller would catch. A message has three parts:
what happened (shapes, dtypes), what to write instead, and where: the file and line of the innermost
frame outside this package, NumPy and SciPy.

Invariant: this file imports nothing of the package.
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
    """Base of every error that this package raises on purpose."""


class ConversionError(TrackerError, TypeError):
    """A conversion of a tracked value to plain Python or NumPy would lose its gradient."""


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


class AddressError(UnsupportedError, AttributeError):
    """A tracked value has no memory address: for NumPy the attribute is absent."""


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
    """Whether code belongs to this package, NumPy or SciPy. Tracing calls this for every frame of
    every op; the table is keyed by file, since a code object computes its hash each time."""
    file = code.co_filename
    known = _IS_INTERNAL.get(file)
    if known is None:
        if len(_IS_INTERNAL) > 10_000:
            _IS_INTERNAL.clear()
        known = _IS_INTERNAL[file] = file.startswith(_INTERNAL_PREFIXES) or _is_scipy_file(file)
    return known


def _is_scipy_file(file: str) -> bool:
    """Whether a file belongs to SciPy, which may not be installed or imported."""
    scipy = getattr(sys.modules.get("scipy"), "__file__", None)
    return scipy is not None and file.startswith(os.path.dirname(os.path.abspath(scipy)) + os.sep)


def user_line() -> str:
    """`file:line` of the user's code that is running, or `<unknown>`."""
    frame = user_frame(2)
    return "<unknown>" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def message(what: str, instead: str = "", where: str | None = None) -> str:
    """Compose the three parts of an error message."""
    text = what.rstrip(".")
    if instead:
        text += f". {instead.rstrip('.')}"
    line = user_line() if where is None else where
    return f"{text}. (at {line})" if line and line != "<unknown>" else f"{text}."
