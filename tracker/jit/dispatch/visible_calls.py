"""Calls of machine code as a profiler sees them: within a Python frame of the user's function.

A call that goes to machine code runs no Python, so `cProfile` and tracing tools would not notice
it. While one is active, jitted functions take the slow path (`JittedState.call_slow`), which enters
machine code from a frame with the file and line of the function, named as its `repr` (profilers
take functions of one name and line for one). Functions that have been called before it was
activated do not know of it: `tracker.debug.visible_calls` tells them. Other calls pay nothing.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from tracker.jit.discovery.impure_calls import is_profiler_in_use


def is_profiled() -> bool:
    """Whether a profiler is active in this thread, or a tool of `sys.monitoring`."""
    if is_profiler_in_use():
        return True
    monitoring = getattr(sys, "monitoring", None)  # since Python 3.12
    return monitoring is not None and monitoring.get_tool(monitoring.PROFILER_ID) is not None


def frame_function(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function (called, args, kwargs) that calls, in a frame that is named and placed as the
    user's function."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    made: CodeType = _TEMPLATE.__code__.replace(co_name=name, co_qualname=name)
    if isinstance(code, CodeType):
        made = made.replace(co_filename=code.co_filename, co_firstlineno=code.co_firstlineno)
    # Python drops warnings whose frame is in no module.
    module = getattr(function, "__module__", None) or "__main__"
    return FunctionType(made, {"__name__": module, "__builtins__": {}})


_TEMPLATE = lambda called, args, kwargs: called(*args, **kwargs)  # noqa: E731 (on one line)
