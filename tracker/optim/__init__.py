"""Optimisers over structures of parameters: numbers, arrays, dicts, lists, dataclasses, ...

`descent`, `momentum`, `adam`, `adamw` and `rmsprop` (`first_order.py`) make one step for each
gradient, also in compiled code; `minimize` runs SciPy's optimisers.
"""

from tracker.optim.first_order import (
    Optimiser,
    State,
    adam,
    adamw,
    descent,
    momentum,
    rmsprop,
)
from tracker.optim.scipy_minimize import minimize

__all__ = [
    "Optimiser",
    "State",
    "adam",
    "adamw",
    "descent",
    "minimize",
    "momentum",
    "rmsprop",
]


def __dir__() -> list[str]:
    return __all__
