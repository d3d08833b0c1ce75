"""Functions that neither NumPy nor SciPy names, from the lists of Tracker.jl and its friends.

`_elementary.py` has those that need NumPy only; `_beyond.py` those that are made of SciPy's, which
is imported when the first of them is asked for. All differentiate to any order and compile.
`docs/from_tracker_jl.md` is the table of all names, also of those that NumPy or SciPy has.

>>> import tracker
>>> tracker.gradient(tracker.special.sinpi, 1.0)
(-3.141592653589793,)
"""

import importlib
from typing import Any

from tracker.special._elementary import *  # noqa: F403
from tracker.special._elementary import __all__ as _elementary

_BEYOND = (
    *("airyai", "airyaiprime", "airyaix", "airyaiprimex"),
    *("airybi", "airybiprime", "airybix", "airybiprimex"),
    *("besselh", "besselhx", "besseli", "besselix", "besselj", "besseljx"),
    *("besselk", "besselkx", "bessely", "besselyx", "cosint", "erf_between"),
    *("invdigamma", "logabsgamma", "logerfc", "logerfcx", "sinint", "trigamma"),
)
__all__ = [*_elementary, *_BEYOND]


def __getattr__(name: str) -> Any:
    if name not in _BEYOND:
        raise AttributeError(f"module 'tracker.special' has no attribute {name!r}")
    importlib.import_module("tracker.scipy")  # says what to install, if SciPy is not here
    return getattr(importlib.import_module("tracker.special._scipy_based"), name)
