"""What SciPy checks of numbers before it computes: where something is amiss, SciPy itself says so.

A condition is asked of a trace, which holds for as long as it is met; then the error, and whatever
else SciPy does there, are SciPy's own. Start at `unless`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracker import tree
from tracker.autodiff.leaves import data
from tracker.tape.record import form_of, most_likely


def unless(fine: Any, theirs: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Where that is not so, have SciPy's function raise what it raises for these numbers."""
    if not most_likely(fine, True):
        args, kwargs = tree.map(data, (args, kwargs))
        theirs(*args, **kwargs)


def are_finite(*xs: Any) -> Any:
    """Whether arrays hold nothing but finite numbers."""
    fine: Any = True
    for x in xs:
        if np.result_type(form_of(x)).kind in "fc":
            fine = fine & np.all(np.isfinite(x))
    return fine


def is_rising(x: Any) -> Any:
    """Whether each number is larger than the one before."""
    return np.all(np.diff(x) > 0)
