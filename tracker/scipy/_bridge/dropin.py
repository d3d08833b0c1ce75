"""Functions that replace SciPy's on tracked values: the decorator `drop_in`.

`DROP_INS` has them by SciPy's module, for the `__init__` of the module that replaces it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from types import ModuleType
from typing import Any

import numpy as np

from tracker import tree
from tracker.scipy._bridge.checks import are_finite, scipy_raises_unless
from tracker.scipy._bridge.fallback import is_tracked
from tracker.support.pickling import at_home

# False while one of these functions calls another.
_checks_finite = ContextVar("checks_finite", default=True)


Function = Callable[..., Any]
DROP_INS: dict[ModuleType, dict[str, Function]] = {}  # by SciPy's module and name


def drop_in(module: ModuleType, name: str | None = None) -> Callable[[Function], Function]:
    """Decorator: the replacement for the module's function of the same name, or of this `name`.
    Calls without tracked arguments go to SciPy. Where SciPy's function has `check_finite=`, the
    arrays are checked."""

    def decorate(function: Function) -> Function:
        if name is not None:
            function.__name__, function.__doc__ = name, f"As {module.__name__}.{name}."
        theirs = getattr(module, function.__name__)
        run = _with_finite_check(theirs, function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_tracked(*args, *kwargs.values()):
                return run(*args, **kwargs)
            return theirs(*args, **kwargs)

        at_home(call, f"tracker.{module.__name__}", function.__name__)
        DROP_INS.setdefault(module, {})[function.__name__] = call
        return call

    return decorate


def _with_finite_check(theirs: Function, function: Function) -> Function:
    """Check for finite numbers before the function, if SciPy's has `check_finite=`."""
    try:
        signature = inspect.signature(theirs)
    except (TypeError, ValueError):  # a builtin without a signature
        return function
    if "check_finite" not in signature.parameters:
        return function

    def run(*args: Any, **kwargs: Any) -> Any:
        if not _checks_finite.get():
            return function(*args, **kwargs)
        if signature.bind(*args, **kwargs).arguments.get("check_finite", True):
            for x in _arrays(args, kwargs):  # one by one: SciPy 1.16 does not check all
                scipy_raises_unless(are_finite(x), theirs, *args, **kwargs)
        token = _checks_finite.set(False)
        try:
            return function(*args, **kwargs)
        finally:
            _checks_finite.reset(token)

    return run


def _arrays(args: Any, kwargs: Any) -> list[Any]:
    """The arrays to check. Scalars are not: tolerances may be infinite."""
    return [x for x in tree.leaves((args, kwargs)) if tree.is_numeric(x) and np.ndim(x) > 0]
