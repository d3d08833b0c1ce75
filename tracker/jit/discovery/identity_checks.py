"""Refuses derivatives of functions that compare an argument by identity with an array they hold.

A differentiated function gets tracked copies, so `x is W` is False where the plain function, given
W, finds it True. State that the function itself stored (`self.last_x = x`) belongs to earlier
calls, and each call of a derivative passes another array.

Invariant: code that compares nothing is analysed once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import combinations
from types import FunctionType, MethodType
from typing import Any

from tracker import tree
from tracker.errors import UnsupportedError
from tracker.jit.discovery.captured_state import CapturedState, find_captured_state
from tracker.support.instances import cell_contents, class_attribute
from tracker.tape.tracing.placeholders import resolve_placeholder
from tracker.tape.tracing.tracer import current_tracer

_MAX_CACHED = 4096
_without_comparison: dict[tuple[int, ...], tuple[Any, ...]] = {}  # by ids of code objects
_NOT_CACHED = (None,)
_FIX = "Decide outside of the derivative, and pass what was decided as an argument"


def check_identity(f: Callable[..., Any], given: Sequence[tuple[Any, Any, Any]]) -> None:
    """Raise if code of `f` compares objects, and one of the arrays given, the last of each (tracked
    array, leaf, array), is another of them, or is held by `f`."""
    if type(f) is FunctionType and f.__closure__ is None:  # fast path for small calls
        code = f.__code__
        if _without_comparison.get((id(code),), _NOT_CACHED)[0] is code:
            return
    known = _code_key(f)
    key = tuple(map(id, known))
    if key in _without_comparison:
        return
    tracer = current_tracer()
    if tracer is not None and not tracer.tests_identity:
        return
    captured = find_captured_state(f)
    if captured.names.tests_identity:
        _check_arrays([array for _, _, array in given], captured)
    elif known:
        if len(_without_comparison) >= _MAX_CACHED:
            _without_comparison.clear()
        _without_comparison[key] = known


def _check_arrays(arrays: Sequence[Any], captured: CapturedState) -> None:
    if any(one is other for one, other in combinations(arrays, 2)):
        raise _refusal("two arguments are one array")
    for source in captured.sources:
        if source.name not in captured.names.stored_after_init:
            for x in tree.leaves(resolve_placeholder(source.read())):
                if any(x is array for array in arrays):
                    raise _refusal(f"an argument is the array that {source.label} is")


def _refusal(reason: str) -> UnsupportedError:
    what = f"the function compares objects by identity, and {reason}: it is given a copy"
    return UnsupportedError(what, _FIX)


def _code_key(f: Any) -> tuple[Any, ...]:
    """The code of a function, and the code or class of what is bound to it; () if it is not a
    Python function."""
    bound: list[Any] = []
    while isinstance(f, functools.partial):
        f = f.func
    if type(f) is MethodType:
        bound.append(type(f.__self__))
        f = f.__func__
    elif type(f) is not FunctionType:
        bound.append(type(f))
        f = class_attribute(type(f), "__call__")
    if type(f) is not FunctionType:
        return ()
    held = map(cell_contents, f.__closure__ or ())
    bound += [x.__code__ if type(x) is FunctionType else type(x) for x in held]
    return f.__code__, *bound
