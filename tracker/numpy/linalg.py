"""`numpy.linalg`: its functions, which also take lists of tracked values."""

from typing import TYPE_CHECKING, Any

import numpy.linalg as _numpy_module

from tracker.numpy._trackable import names_of as _names_of

globals().update(_names_of(_numpy_module))
__all__ = list(_numpy_module.__all__)

if TYPE_CHECKING:
    from numpy.linalg import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        return getattr(_numpy_module, name)


def __dir__() -> list[str]:
    return __all__
