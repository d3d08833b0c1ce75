"""`numpy.lib`, with a `stride_tricks` for tracked arrays."""

from typing import TYPE_CHECKING, Any

from numpy import lib as _lib

from tracker.numpy.lib import stride_tricks  # noqa: F401

if TYPE_CHECKING:
    from numpy.lib import *  # type: ignore[no-redef]  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        return getattr(_lib, name)


def __dir__() -> list[str]:
    return dir(_lib)
