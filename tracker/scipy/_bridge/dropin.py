"""How a function stands in for one of SciPy's."""

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

_checks_finite = ContextVar(
    "looking", default=True
)  # not while one of these functions calls another


def drop_in(module: ModuleType) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: this function does what the module's function of the same name does, on tracked
    values; without any, SciPy's own is called. Where SciPy's looks for numbers that are not finite
    (`check_finite=`), they are looked for."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        theirs = getattr(module, function.__name__)
        run = _with_finite_check(theirs, function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_tracked(*args, *kwargs.values()):
                return run(*args, **kwargs)
            return theirs(*args, **kwargs)

        return call

    return enter


def _with_finite_check(
    theirs: Callable[..., Any], function: Callable[..., Any]
) -> Callable[..., Any]:
    """The function, after what SciPy's of that name looks for was looked for."""
    try:
        signature = inspect.signature(theirs)
    except (TypeError, ValueError):  # it tells nothing of its parameters
        return function
    if "check_finite" not in signature.parameters:
        return function

    def run(*args: Any, **kwargs: Any) -> Any:
        if not _checks_finite.get():
            return function(*args, **kwargs)
        if signature.bind(*args, **kwargs).arguments.get("check_finite", True):
            scipy_raises_unless(_all_finite(args, kwargs), theirs, *args, **kwargs)
        token = _checks_finite.set(False)
        try:
            return function(*args, **kwargs)
        finally:
            _checks_finite.reset(token)

    return run


def _all_finite(args: Any, kwargs: Any) -> Any:
    """Whether all arrays are. (Tolerances may be infinite.)"""
    leaves = tree.leaves((args, kwargs))
    return are_finite(*(x for x in leaves if tree.is_numeric(x) and np.ndim(x) > 0))
