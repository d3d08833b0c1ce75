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

from typing import TYPE_CHECKING, Any

import numpy.random as _numpy_module

from tracker.random import generators as _generators

__all__ = list(_numpy_module.__all__)

if TYPE_CHECKING:
    from numpy.random import *  # noqa: F403
else:
    globals().update((_name, getattr(_numpy_module, _name)) for _name in __all__)
    globals().update(_generators.GLOBALS, Generator=_generators.Generator)

    def __getattr__(name: str) -> Any:
        return getattr(_numpy_module, name)


def __dir__() -> list[str]:
    return __all__
