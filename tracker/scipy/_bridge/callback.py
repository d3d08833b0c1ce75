"""Host callbacks: SciPy's functions, called out of compiled code with plain numbers.

Without a trace, the functions here call SciPy at once. In a trace they record a `host_call`, which
runs SciPy's function again on each call:

    host_callback                    a function of plain numbers
    call_solver, call_scipy          the same, where SciPy calls functions of the user's
    nondifferentiable                SciPy's function, whose results have no derivative
    use_scipy_unless_differentiated  SciPy's function, while no derivative is taken
    differentiable_callback          with derivatives: each derivative is one more host callback

Invariants: entries of a result that are not numbers (texts, the structure) are part of the trace
and guarded by value; other objects (operators, functions) are refused when they are read. A
function of the user's that SciPy calls may read captured state, which is observed and guarded.
Values of the trace that it captures become operands of the call, in its closure (`closures.py`) or
elsewhere (`_CapturedValues`). It must not write (`_CapturedState`), which each run checks, but for
caches that it fills: then a later call is traced.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy

from tracker import tree
from tracker.autodiff.call_ops import detach, host_call
from tracker.autodiff.custom_rules import custom_gradient
from tracker.autodiff.leaves import plain_data
from tracker.autodiff.pullbacks import pullback
from tracker.errors import UnsupportedError
from tracker.ir.types import type_of
from tracker.jit.tracing import (
    contains_handle,
)
from tracker.scipy._bridge.callback_state import CallbackState, HiddenValues
from tracker.scipy._bridge.closures import CellPath, tracked_cells, with_cells
from tracker.support.array_copies import same_bytes
from tracker.tape.observers import (
    CallbackMismatch,
    ObserversSuspended,
    is_deriving,
    is_tracing,
)
from tracker.tape.tracing.tracer import active_tracers
from tracker.tape.tracked import Tracked

Function = Callable[..., Any]
NONDIFFERENTIABLE: set[Function] = set()
_MAX_PARTS = 100_000  # of what functions hold, in which values of the trace are looked for
_COMPARABLE_TYPES = (str, bytes, type(None), type, slice)  # of entries that are no numbers


def nondifferentiable(theirs: Function) -> Function:
    """SciPy's function on the plain numbers of tracked values; its results have no derivative."""

    @functools.wraps(theirs)
    def call(*args: Any, **kwargs: Any) -> Any:
        return call_scipy(theirs, *args, **kwargs)

    NONDIFFERENTIABLE.add(call)
    return call


def use_scipy_unless_differentiated(theirs: Function) -> Callable[[Function], Function]:
    """Decorator: while a trace without derivatives runs, call SciPy's own function with all
    arguments."""

    def decorate(ours: Function) -> Function:
        @functools.wraps(ours)
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_tracing() and not is_deriving():
                return call_scipy(theirs, *args, **kwargs)
            return ours(*args, **kwargs)

        return call

    return decorate


def call_scipy(theirs: Function, /, *args: Any, **kwargs: Any) -> Any:
    """The result of SciPy's function for plain numbers, without a derivative."""
    return call_solver(theirs.__name__, lambda args, kwargs: theirs(*args, **kwargs), args, kwargs)


# Calling back -------------------------------------------------------------------------------------


def call_solver(name: str, solve: Function, *given: Any) -> Any:
    """The result of a solver, which may call functions among its arguments, for plain numbers."""
    return host_callback(name, solve, *_map_leaves(_plain_if_function, given))


def _plain_if_function(x: Any) -> Any:
    return as_plain_function(x) if callable(x) and not isinstance(x, type) else x


def as_plain_function(f: Function) -> Function:
    """The function with plain numbers as results, as SciPy can call it."""

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        y = f(*args, **kwargs)
        return type(y)(map(plain_data, y)) if type(y) in (tuple, list) else plain_data(y)

    return call


def host_callback(name: str, function: Function, *args: Any) -> Any:
    """The result of a function of plain numbers. Callable arguments may capture state."""
    of_numbers, given, others = _split_tracked(name, function, args)
    if not is_tracing():
        return _plain_result(of_numbers, given)
    _refuse_handles(name, others)
    return _host_callback(name, of_numbers, given, CallbackState(others))


def _split_tracked(
    name: str, function: Function, args: Any
) -> tuple[Function, list[Any], list[Any]]:
    """The function as one of the tracked values in its arguments, be they leaves or in the closures
    of functions; these values; and the leaves that are no numbers, without tracked values."""
    leaves, structure = tree.flatten(args, _is_leaf)
    places: list[tuple[int, CellPath]] = []
    given: list[Any] = []
    for i, leaf in enumerate(leaves):
        found = {(): leaf} if isinstance(leaf, Tracked) else tracked_cells(leaf)
        places += [(i, path) for path in found]
        given += found.values()

    def filled(numbers: Sequence[Any]) -> list[Any]:
        values: dict[int, dict[CellPath, Any]] = {}
        for (i, path), number in zip(places, numbers, strict=True):
            values.setdefault(i, {})[path] = number
        return [with_cells(x, values[i]) if i in values else x for i, x in enumerate(leaves)]

    leaves = filled([_copy_if_array(plain_data(x)) for x in given])  # without the trace's values
    template = tree.unflatten(structure, leaves, args)

    def of_numbers(*numbers: Any) -> Any:
        pairs = zip(numbers, places, strict=True)
        captured = [x for x, (_, path) in pairs if path and type(x) is np.ndarray]
        before = list(map(np.copy, captured))
        result = function(*tree.unflatten(structure, filled(numbers), template))
        if not all(map(same_bytes, captured, before)):
            raise _changes_state(name)
        return result

    return of_numbers, given, [leaf for leaf in leaves if not _is_number(leaf)]


def _changes_state(name: str, changed: Sequence[str] = ()) -> UnsupportedError:
    what = f"something that is not its own ({', '.join(changed)})".removesuffix(" ()")
    text = f"the function that {name} gets under jit changes {what}"
    return UnsupportedError(text, "Let it return what it finds; SciPy counts its calls")


def _plain_result(function: Function, given: Sequence[Any]) -> Any:
    return tree.map(plain_data, function(*map(plain_data, given)))


def _host_callback(
    name: str, function: Function, given: Sequence[Any], state: CallbackState
) -> Any:
    """The result of a function of plain numbers, without a derivative, as an op of the trace."""
    if not (given or state.operands):
        with HiddenValues(name, state.functions):
            return _plain_result(function, ())
    first: list[Any] = []
    count = len(given)  # what compiled code calls must not keep the trace's values

    def run(*numbers: Any) -> list[Any]:
        copies = list(map(_copy_if_array, numbers))
        with ObserversSuspended(), state.restored(copies[count:], numbers[count:]):
            hidden = contextlib.nullcontext() if first else HiddenValues(name, state.functions)
            with hidden:
                found = _traceable_result(tree.map(plain_data, function(*copies[:count])))
        leaves, structure = tree.flatten(found)
        kind = structure, [type_of(x) if _is_number(x) else x for x in leaves]
        if not first:
            first.extend((kind, found))
        elif kind != first[0] or state.has_changed:
            raise CallbackMismatch
        found = list(filter(_is_number, leaves))
        # A structure without numbers still needs a result that compiled code computes.
        return found if _is_number(first[1]) else [np.True_, *found]

    numbers = iter(host_call(name, run, [*given, *state.operands]))
    if state.has_changed:
        if not state.has_only_filled_gaps:
            raise _changes_state(name, state.changed_names)
        for tracer in active_tracers():
            tracer.fills_caches = True
    if not _is_number(first[1]):  # keeps the call alive where only the structure is used
        bool(next(numbers))
    return tree.map(lambda x: detach(next(numbers)) if _is_number(x) else x, first[1])


def _refuse_handles(name: str, others: Sequence[Any], captured: Sequence[Tracked] = ()) -> None:
    """Refuse objects that hold values of the trace: when compiled code calls SciPy, there are only
    their numbers."""
    if captured or any(contains_handle(x) for x in others if not callable(x)):
        text = f"what {name} gets under jit holds a value that may change"
        raise UnsupportedError(text, "Pass the value through args=, by itself or in a dataclass")


def _is_number(x: Any) -> bool:
    """Whether a leaf is a number or an array. (Operators have a dtype and a shape, too.)"""
    known = (np.ndarray, np.generic, bool, int, float, complex)
    return (type(x) is Tracked or isinstance(x, known)) and tree.is_numeric(x)


def _copy_if_array(x: Any) -> Any:
    return x.copy("K") if isinstance(x, np.ndarray) else x


def _map_leaves(change: Function, given: Any) -> Any:
    leaves, structure = tree.flatten(given, _is_leaf)
    return tree.unflatten(structure, map(change, leaves), given)


def _is_leaf(x: Any) -> bool:
    """Whether a tuple of SciPy's counts as one leaf."""
    return isinstance(x, scipy.LowLevelCallable)


def _traceable_result(found: Any) -> Any:
    """The part of SciPy's result that a trace can hold: without the entries that are no numbers,
    such as operators and functions."""
    if isinstance(found, dict):
        entries = {name: _traceable_result(x) for name, x in found.items() if _is_traceable(x)}
        return found if len(entries) == len(found) else restrict_result(found, entries)
    if not _is_traceable(found):
        text = f"SciPy gives a {type(found).__name__}, which compiled code does not hold"
        raise UnsupportedError(text, "Leave it out of the jitted function")
    return found


def _is_traceable(x: Any) -> bool:
    return isinstance(x, dict) or all(
        _is_number(leaf) or isinstance(leaf, _COMPARABLE_TYPES) for leaf in tree.leaves(x)
    )


def restrict_result(result: Any, entries: dict[str, Any]) -> Any:
    """SciPy's result with these entries only; reading one of the others raises an error."""
    cls: Any = type(result)
    restricted = _restricted_class(cls, frozenset(set(result) - set(entries)))()
    restricted.update((name, entries[name]) for name in result if name in entries)
    return restricted


@functools.cache
def _restricted_class(cls: Any, dropped: frozenset[str]) -> Any:
    class RestrictedResult(cls):  # type: ignore[misc]
        __init__ = dict.__init__

        def __missing__(self, name: str) -> Any:
            if name not in dropped:
                raise KeyError(name)
            text = f"compiled code does not hold what SciPy says as {name!r} of a solution"
            raise UnsupportedError(text, "Leave it out")

        def get(self, name: str, default: Any = None) -> Any:
            return self[name] if name in dropped else super().get(name, default)

    return RestrictedResult


# With derivatives ---------------------------------------------------------------------------------


def differentiable_callback(name: str, function: Function, *args: Any) -> Any:
    """As `host_callback`, with derivatives: each derivative is one more host callback. Values that
    the functions capture elsewhere than in closures would get none, so they are refused."""
    of_numbers, given, others = _split_tracked(name, function, args)
    state = None
    if is_tracing():
        state = CallbackState(others)
        _refuse_handles(name, others, state.captured)
    return _differentiable_callback(name, of_numbers, given, state)


def _differentiable_callback(
    name: str, function: Function, given: Sequence[Any], state: CallbackState | None
) -> Any:
    count = len(given)

    @custom_gradient
    def call(*given: Any) -> tuple[Any, Function]:
        def back(dy: Any) -> Any:
            seeds, structure = tree.flatten(dy)
            cotangents = [x for x in seeds if x is not None]

            def pull_back(*both: Any) -> Any:
                numbers = iter(both[count:])
                seed = [None if x is None else next(numbers) for x in seeds]
                _, pull = pullback(function, *both[:count])
                return pull(tree.unflatten(structure, seed, dy))

            return _differentiable_callback(name, pull_back, (*given, *cotangents), state)

        if state is None:
            return _plain_result(function, given), back
        return _host_callback(name, function, given, state), back

    return call(*given)
