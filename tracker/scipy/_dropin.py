"""How a function stands in for one of SciPy's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tracker.scipy._passing import is_tracked


def drop_in(module: ModuleType) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: this function does what the module's function of the same name does, on tracked
    values; without any, SciPy's own is called."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        theirs = getattr(module, function.__name__)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_tracked(*args, *kwargs.values()):
                return function(*args, **kwargs)
            return theirs(*args, **kwargs)

        return call

    return enter
