"""`numpy.random`."""

from typing import Any

import numpy.random as _own


def __getattr__(name: str) -> Any:
    return getattr(_own, name)
