"""SciPy's checks of values. Where a check fails, SciPy's own function is called for its error.

A trace records the outcome of each check as a guard: compiled code is valid while the check passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracker import tree
from tracker.autodiff.leaves import plain_data
from tracker.tape.record import aval_of
from tracker.tape.tracing.value_guards import speculate_bool


def scipy_raises_unless(
    condition: Any, theirs: Callable[..., Any], *args: Any, **kwargs: Any
) -> None:
    """Call SciPy's function with plain numbers, so that it raises, if the condition is false."""
    if not speculate_bool(condition, True):
        args, kwargs = tree.map(plain_data, (args, kwargs))
        theirs(*args, **kwargs)


def are_finite(*xs: Any) -> Any:
    """Whether the arrays hold finite numbers only."""
    fine: Any = True
    for x in xs:
        if np.result_type(aval_of(x)).kind in "fc":
            fine = fine & np.all(np.isfinite(x))
    return fine


def is_increasing(x: Any) -> Any:
    """Whether each number is larger than its predecessor."""
    return np.all(np.diff(x) > 0)
