"""How a module stands in for one of SciPy's: the names it does not define are SciPy's."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from tracker.tracked import Tracked


def passing(module: ModuleType) -> Callable[[str], Any]:
    """A `__getattr__` for the module that stands in for this one."""

    def look_up(name: str) -> Any:
        if name == "__all__":
            return [n for n in dir(module) if not n.startswith("_")]
        return getattr(module, name)

    return look_up


def as_array(x: Any) -> Any:
    """A tracked value, or an array; a list of tracked values is stacked."""
    if isinstance(x, Tracked):
        return x
    if isinstance(x, (list, tuple)) and any(isinstance(part, Tracked) for part in x):
        return np.stack(x)
    return np.asarray(x)
