"""`numpy.random`: a jitted function draws anew on each call.

Generators and global functions return NumPy's numbers, in NumPy's order. Draws are constants for
derivatives. If a parameter of a distribution is differentiated (`normal(mu, sigma)`), the
underlying numbers are held fixed if the distribution allows that; else the call is refused.

>>> import tracker.numpy as np
>>> rng = np.random.default_rng(0)
>>> noisy = tracker.jit(lambda x: x + rng.normal())
>>> noisy(1.0) != noisy(1.0)
True
"""

from typing import Any

import numpy.random as _numpy_module

from tracker.random.generators import GLOBALS as _GLOBALS
from tracker.random.generators import Generator, RandomState, default_rng  # noqa: F401

globals().update(
    (_name, _GLOBALS.get(_name, globals().get(_name, getattr(_numpy_module, _name))))
    for _name in _numpy_module.__all__
)
__all__ = list(_numpy_module.__all__)


def __getattr__(name: str) -> Any:
    return getattr(_numpy_module, name)
