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
from tracker.scipy._bridge.fallback import drop_in_of_result, is_tracked
from tracker.support.pickling import at_home

_WITHOUT_EFFECT = (
    *("check_finite", "driver", "lapack_driver", "lwork", "workers"),
    *("overwrite_a", "overwrite_a_band", "overwrite_ab", "overwrite_b"),
)
# False while one of these functions calls another.
_checks_finite = ContextVar("checks_finite", default=True)


Function = Callable[..., Any]
DROP_INS: dict[ModuleType, dict[str, Function]] = {}  # by SciPy's module and name


def drop_in(module: ModuleType, name: str | None = None) -> Callable[[Function], Function]:
    """Decorator: the replacement for the module's function of the same name, or of this `name`.
    Calls without tracked arguments go to SciPy. Where SciPy's function has `check_finite=`, the
    arrays are checked, and the replacement need not declare the keywords without effect."""

    def decorate(function: Function) -> Function:
        if name is not None:
            function.__name__, function.__doc__ = name, f"As {module.__name__}.{name}."
        theirs = getattr(module, function.__name__)
        run = _with_scipys_keywords(theirs, function)

        @functools.wraps(run)
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_tracked(*args, *kwargs.values()):
                return run(*args, **kwargs)
            return drop_in_of_result(theirs(*args, **kwargs))

        at_home(call, f"tracker.{module.__name__}", function.__name__)
        DROP_INS.setdefault(module, {})[function.__name__] = call
        return call

    return decorate


def _with_scipys_keywords(theirs: Function, function: Function) -> Function:
    """Call the function without the keywords that have no effect (`_WITHOUT_EFFECT`), unless it
    declares them, after the check for finite numbers that `check_finite=` asks for."""
    try:
        signature = inspect.signature(theirs)
    except (TypeError, ValueError):  # a builtin without a signature
        return function
    if "check_finite" not in signature.parameters:
        return function
    checks_by_default = signature.parameters["check_finite"].default
    declared = inspect.signature(function).parameters
    dropped = {name for name in _WITHOUT_EFFECT if name not in declared}
    first = min(at for at, name in enumerate(signature.parameters) if name in dropped)

    def compute(*args: Any, **kwargs: Any) -> Any:
        if len(args) <= first and dropped.isdisjoint(kwargs):
            return function(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        for name in dropped & bound.arguments.keys():
            del bound.arguments[name]
        return function(*bound.args, **bound.kwargs)

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not _checks_finite.get():
            return compute(*args, **kwargs)
        if signature.bind(*args, **kwargs).arguments.get("check_finite", checks_by_default):
            for x in _arrays(args, kwargs):  # one by one: SciPy 1.16 does not check all
                scipy_raises_unless(are_finite(x), theirs, *args, **kwargs)
        token = _checks_finite.set(False)
        try:
            return compute(*args, **kwargs)
        finally:
            _checks_finite.reset(token)

    run.__signature__ = signature  # type: ignore[attr-defined]
    return run


def _arrays(args: Any, kwargs: Any) -> list[Any]:
    """The arrays to check. Scalars are not: tolerances may be infinite."""
    return [x for x in tree.leaves((args, kwargs)) if tree.is_numeric(x) and np.ndim(x) > 0]
