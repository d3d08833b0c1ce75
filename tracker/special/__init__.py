"""Functions of Tracker.jl and related packages that neither NumPy nor SciPy has under that name.

`_elementary.py` needs NumPy only; `_scipy_based.py` is imported on first use. All differentiate to
any order and compile. `docs/migration/tracker_jl.md` is the table of all names, including those
that NumPy or SciPy has.

>>> import tracker
>>> tracker.gradient(tracker.special.sinpi, 1.0)
(-3.141592653589793,)
"""

import importlib
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from tracker.special._scipy_based import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        if name not in _BEYOND:
            raise AttributeError(f"module 'tracker.special' has no attribute {name!r}")
        importlib.import_module("tracker.scipy")  # its error says what to install
        return getattr(importlib.import_module("tracker.special._scipy_based"), name)


def __dir__() -> list[str]:
    return __all__
