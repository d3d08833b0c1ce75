"""Optimisers over structures of parameters: numbers, arrays, dicts, lists, dataclasses, ...

`descent`, `momentum`, `adam`, `adamw` and `rmsprop` (`first_order.py`) make one step for each
gradient, also in compiled code; `lbfgs`, `gauss_newton` and `levenberg_marquardt`
(`quasi_newton.py`) use curvature; `minimize` runs SciPy's optimisers.
"""

from tracker.optim.first_order import Optimiser, State, adam, adamw, descent, momentum, rmsprop
from tracker.optim.quasi_newton import OptimizeResult, gauss_newton, lbfgs, levenberg_marquardt
from tracker.optim.scipy_minimize import minimize

__all__ = [
    "Optimiser",
    "OptimizeResult",
    "State",
    "adam",
    "adamw",
    "descent",
    "gauss_newton",
    "lbfgs",
    "levenberg_marquardt",
    "minimize",
    "momentum",
    "rmsprop",
]


def __dir__() -> list[str]:
    return __all__
