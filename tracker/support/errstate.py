"""NumPy's floating-point error settings (`np.errstate`, `np.seterr`) of this thread."""

from __future__ import annotations

from typing import Any

import numpy as np

VARIABLE: Any = np._core.umath._extobj_contextvar  # type: ignore[attr-defined]
_UNREPORTED = {"ignore", "warn"}


def are_errors_reported() -> bool:
    """Whether an error of some kind is raised, printed, logged or passed to a function."""
    return not _UNREPORTED.issuperset(np.geterr().values())
