"""Lazy imports: functions whose module is imported at their first call.

The first call of a process spends more time on importing modules than on compiling a small
function, so kernels and compiler stages that not all programs need are imported late. Only calls
within a room or to a lower one go this way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

from tracker.support.deferred_signals import SIGNALS_DEFERRED


def lazy_import(module: str, name: str) -> Callable[..., Any]:
    """A function that imports its module when it is first called."""

    @functools.cache
    def found() -> Callable[..., Any]:
        with SIGNALS_DEFERRED:
            function: Callable[..., Any] = getattr(import_module(module), name)
        return function

    def call(*args: Any) -> Any:
        return found()(*args)

    call.found = found  # type: ignore[attr-defined]
    return call
