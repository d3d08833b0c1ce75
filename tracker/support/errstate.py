"""NumPy's floating-point error settings (`np.errstate`, `np.seterr`) of this thread, and its
warnings (division by zero, overflow) at the user's line.

NumPy warns in the frame that called the ufunc, which is `tape/record.py` or `plain_replay.py`. A
warning filter turns such a warning into an exception there; `warn_at_user_line` then computes the
op again and warns in the user's frame, where the user's own filters and registry apply. Ops that do
not warn pay nothing. Filters put in front of ours (`simplefilter("always")`) see the line there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.errors import warn

VARIABLE: Any = np._core.umath._extobj_contextvar  # type: ignore[attr-defined]
_UNREPORTED = {"ignore", "warn"}


def are_errors_reported() -> bool:
    """Whether an error of some kind is raised, printed, logged or passed to a function."""
    return not _UNREPORTED.issuperset(np.geterr().values())


_KINDS = ("divide by zero", "overflow", "underflow", "invalid value")  # in NumPy's order


def warn_at_user_line(
    warning: RuntimeWarning, evaluate: Callable[..., Any], data: Any, params: Any
) -> Any:
    """What `evaluate` gives; all its warnings, first `warning`, go to the user's line."""
    _, between, name = str(warning).partition(" encountered in ")
    kinds: list[str] = []
    modes: dict[str, Any] = {k: "call" for k, mode in np.geterr().items() if mode == "warn"}
    with np.errstate(**modes, call=lambda kind, _: kinds.append(kind)):
        result = evaluate(*data, **params)
    texts = [f"{kind}{between}{name}" for kind in _KINDS if kind in kinds] if between else []
    for text in texts or [str(warning)]:
        warn(text, type(warning))
    return result


_CALLERS = r"tracker\.tape\.(record|plain_replay)\Z"
warnings.filterwarnings("error", category=RuntimeWarning, module=_CALLERS)
