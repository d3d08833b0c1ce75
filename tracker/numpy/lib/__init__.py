"""`numpy.lib`, with a `stride_tricks` for tracked arrays."""

from typing import Any

from numpy import lib as _lib

from tracker.numpy.lib import stride_tricks  # noqa: F401


def __getattr__(name: str) -> Any:
    return getattr(_lib, name)
