"""What SciPy checks of numbers before it computes: where something is amiss, SciPy itself says so.

A condition is asked of a trace, which holds for as long as it is met; then the error, and whatever
else SciPy does there, are SciPy's own. Start at `scipy_raises_unless`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracker import tree
from tracker.autodiff.leaves import plain_data
from tracker.tape.record import aval_of, speculate_bool


def scipy_raises_unless(
    condition: Any, theirs: Callable[..., Any], *args: Any, **kwargs: Any
) -> None:
    """Where that is not so, have SciPy's function raise what it raises for these numbers."""
    if not speculate_bool(condition, True):
        args, kwargs = tree.map(plain_data, (args, kwargs))
        theirs(*args, **kwargs)


def are_finite(*xs: Any) -> Any:
    """Whether arrays hold nothing but finite numbers."""
    fine: Any = True
    for x in xs:
        if np.result_type(aval_of(x)).kind in "fc":
            fine = fine & np.all(np.isfinite(x))
    return fine


def is_increasing(x: Any) -> Any:
    """Whether each number is larger than the one before."""
    return np.all(np.diff(x) > 0)
