"""`numpy.linalg`: its functions, which also take lists of tracked values."""

from typing import Any

import numpy.linalg as _numpy_module

from tracker.numpy._trackable import accepting_lists as _lenient

globals().update(
    (_name, _lenient(_value) if hasattr(_value, "_implementation") else _value)
    for _name, _value in vars(_numpy_module).items()
    if _name in _numpy_module.__all__
)
__all__ = list(_numpy_module.__all__)


def __getattr__(name: str) -> Any:
    return getattr(_numpy_module, name)
