"""The errors that users meet, and the composition of their messages.

Every error class is also the built-in error that a caller would catch. A message has three parts:
what happened (shapes, dtypes), what to write instead, and where: the file and line of the innermost
frame outside of installed packages and the standard library (`user_frames.py`).
"""

from __future__ import annotations

import warnings
from typing import Any

from tracker.user_frames import user_frame, user_line


class TrackerError(Exception):
    """Base of every error that this package raises on purpose.

    Two or three arguments are the parts of a message: what happened, what to write instead, where.
    """

    def __init__(self, *parts: Any) -> None:
        super().__init__(*((message(*parts),) if len(parts) > 1 else parts))


class ConversionError(TrackerError, TypeError):
    """A conversion of a tracked value to plain Python or NumPy would lose its gradient.

    The text may be a function that composes it: `tracker.numpy` catches most of these errors.
    """

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


def is_caused_by(error: BaseException | None, *kinds: type[BaseException]) -> bool:
    """Whether an error is of one of these kinds; NumPy wraps some in a ValueError, as the cause."""
    while error is not None and not isinstance(error, kinds):
        error = error.__cause__
    return error is not None


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


def message(what: str, instead: str = "", where: str | None = None) -> str:
    """Compose the three parts of an error message."""
    text = what.rstrip(".")
    if instead:
        text += f". {instead.rstrip('.')}"
    line = user_line() if where is None else where
    return f"{text}. (at {line})" if line and line != "<unknown>" else f"{text}."
