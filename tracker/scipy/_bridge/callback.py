"""SciPy called back out of compiled code, with the plain numbers that tracked values hold.

Owns: `host_callback`, which finds what a function gives anew on each call, and `call_solver`, the
same of what calls functions of the user's; `nondifferentiable` and
`use_scipy_unless_differentiated`, which have SciPy's own function called so: that whose results
have no derivative, and that whose derivative nobody takes; `differentiable_callback`, which is
differentiable, by more such calls. While nobody traces, they call the function.

What is no number in a result (texts, how many there are of something) is part of the trace, which
holds for as long as it is the same; other objects no trace holds. Functions of the user's that
SciPy calls may read what compiled code reads when it is called, but no value of the trace's:
`refuse_captured_values`.
"""

from __future__ import annotations

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
from tracker.errors import UnsupportedError, message
from tracker.ir.types import type_of
from tracker.jit.discovery.discovery import find_sources
from tracker.jit.guards.source import Source
from tracker.jit.tracing.placeholder_swap import contains_handle
from tracker.jit.tracing.side_effects import StateSnapshot
from tracker.support.array_copies import same_bytes
from tracker.tape.observers import (
    CallbackMismatch,
    ObserversSuspended,
    active_tracers,
    is_deriving,
    is_tracing,
)
from tracker.tape.record import value_of
from tracker.tape.tracked import Tracked
from tracker.tape.value import is_constant

Function = Callable[..., Any]
NONDIFFERENTIABLE: set[Function] = set()
_COMPARABLE_TYPES = (str, bytes, type(None), type, slice)  # what is no number, and can be compared


def nondifferentiable(theirs: Function) -> Function:
    """SciPy's function, of the plain numbers that tracked values hold."""

    @functools.wraps(theirs)
    def call(*args: Any, **kwargs: Any) -> Any:
        return call_scipy(theirs, args, kwargs)

    NONDIFFERENTIABLE.add(call)
    return call


def use_scipy_unless_differentiated(theirs: Function) -> Callable[[Function], Function]:
    """Decorator: where a function is traced, and nobody takes its derivative, SciPy's own function
    is called, with all that this one was given."""

    def enter(ours: Function) -> Function:
        @functools.wraps(ours)
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_tracing() and not is_deriving():
                return call_scipy(theirs, args, kwargs)
            return ours(*args, **kwargs)

        return call

    return enter


def call_scipy(theirs: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What SciPy's function gives of plain numbers."""
    return call_solver(theirs.__name__, lambda args, kwargs: theirs(*args, **kwargs), args, kwargs)


# Calling back -------------------------------------------------------------------------------------


def call_solver(name: str, solve: Function, *given: Any) -> Any:
    """What SciPy finds from plain numbers, by functions among what is given."""
    return host_callback(name, solve, *_map_leaves(_plain_if_function, given))


def _plain_if_function(x: Any) -> Any:
    return as_plain_function(x) if callable(x) and not isinstance(x, type) else x


def as_plain_function(f: Function) -> Function:
    """The function as SciPy can call it: plain numbers come out."""

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        y = f(*args, **kwargs)
        return type(y)(map(plain_data, y)) if type(y) in (tuple, list) else plain_data(y)

    return call


def host_callback(name: str, function: Function, *args: Any) -> Any:
    """What a function of plain numbers gives, that may call functions among its arguments."""
    of_numbers, given, others = _split_tracked(function, args)
    return _host_callback(name, of_numbers, given, others)


def _split_tracked(function: Function, args: Any) -> tuple[Function, list[Any], list[Any]]:
    """A function as one of the tracked values in its arguments; these; and what else is there that
    is no number."""
    leaves, structure = tree.flatten(args, _is_leaf)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tracked)]

    def of_numbers(*numbers: Any) -> Any:
        now = list(leaves)
        for i, number in zip(places, numbers, strict=True):
            now[i] = number
        return function(*tree.unflatten(structure, now, args))

    others = [leaf for leaf in leaves if not _is_number(leaf)]
    return of_numbers, [leaves[i] for i in places], others


def _host_callback(
    name: str, function: Function, given: Sequence[Any], others: Sequence[Any]
) -> Any:
    """What a function of numbers gives, which may call others; without a derivative."""
    if not is_tracing():
        return tree.map(plain_data, function(*map(plain_data, given)))
    refuse_captured_values(name, *others)
    read = () if given else [x for x in _captured_tracked(others) if not is_constant(value_of(x))]
    if not (given or read):
        return tree.map(plain_data, function())
    first: list[Any] = []

    def run(*numbers: Any) -> list[Any]:
        with ObserversSuspended():
            found = _traceable_result(
                tree.map(plain_data, function(*map(_copy_if_array, numbers[: len(given)])))
            )
        leaves, structure = tree.flatten(found)
        kind = structure, [type_of(x) if _is_number(x) else x for x in leaves]
        if not first:
            first.extend((kind, found))
        elif kind != first[0]:
            raise CallbackMismatch
        found = list(filter(_is_number, leaves))
        return found if _is_number(first[1]) else [np.True_, *found]  # as compiled code has it

    standing = _CapturedState(others)
    numbers = iter(host_call(name, run, [*given, *read]))
    if standing.has_changed:
        text = f"the function that {name} gets under jit changes something that is not its own"
        raise UnsupportedError(message(text, "Let it return what it finds"))
    if not _is_number(first[1]):  # it is called for its kind, too, if nobody asks for numbers
        bool(next(numbers))
    return tree.map(lambda x: detach(next(numbers)) if _is_number(x) else x, first[1])


def _is_number(x: Any) -> bool:
    """Whether it is a number or an array: operators have dtypes and shapes, too."""
    known = (np.ndarray, np.generic, bool, int, float, complex)
    return (type(x) is Tracked or isinstance(x, known)) and tree.is_numeric(x)


def _copy_if_array(x: Any) -> Any:
    return x.copy("K") if isinstance(x, np.ndarray) else x


def _map_leaves(change: Function, given: Any) -> Any:
    leaves, structure = tree.flatten(given, _is_leaf)
    return tree.unflatten(structure, map(change, leaves), given)


def _is_leaf(x: Any) -> bool:
    """Whether a tuple of SciPy's is no container."""
    return isinstance(x, scipy.LowLevelCallable)


def _traceable_result(found: Any) -> Any:
    """What SciPy gives, as a trace can hold it: without what some of its results have beside
    numbers (operators, functions)."""
    if isinstance(found, dict):
        entries = {name: _traceable_result(x) for name, x in found.items() if _is_traceable(x)}
        return found if len(entries) == len(found) else restrict_result(found, entries)
    if not _is_traceable(found):
        text = f"SciPy gives a {type(found).__name__}, which compiled code does not hold"
        raise UnsupportedError(message(text, "Leave it out of the jitted function"))
    return found


def _is_traceable(x: Any) -> bool:
    return isinstance(x, dict) or all(
        _is_number(leaf) or isinstance(leaf, _COMPARABLE_TYPES) for leaf in tree.leaves(x)
    )


def restrict_result(result: Any, entries: dict[str, Any]) -> Any:
    """SciPy's result with these entries; who asks for another one cannot be traced."""
    cls: Any = type(result)
    made = _restricted_class(cls, frozenset(set(result) - set(entries)))()
    made.update((name, entries[name]) for name in result if name in entries)
    return made


@functools.cache
def _restricted_class(cls: Any, dropped: frozenset[str]) -> Any:
    class Restricted(cls):  # type: ignore[misc]
        __init__ = dict.__init__

        def __missing__(self, name: str) -> Any:
            if name not in dropped:
                raise KeyError(name)
            text = f"compiled code does not hold what SciPy says as {name!r} of a solution"
            raise UnsupportedError(message(text, "Leave it out"))

        def get(self, name: str, default: Any = None) -> Any:
            return self[name] if name in dropped else super().get(name, default)

    return Restricted


# With derivatives ---------------------------------------------------------------------------------


def differentiable_callback(name: str, function: Function, *args: Any) -> Any:
    """As `host_callback`, differentiable: a derivative is one more such call."""
    of_numbers, given, others = _split_tracked(function, args)
    return _differentiable_callback(name, of_numbers, given, others)


def _differentiable_callback(
    name: str, function: Function, given: Sequence[Any], others: Sequence[Any]
) -> Any:
    count = len(given)

    @custom_gradient
    def call(*given: Any) -> tuple[Any, Function]:
        def back(dy: Any) -> Any:
            seeds, structure = tree.flatten(dy)
            moving = [x for x in seeds if x is not None]

            def pulled(*both: Any) -> Any:
                numbers = iter(both[count:])
                seed = [None if x is None else next(numbers) for x in seeds]
                _, pull = pullback(function, *both[:count])
                return pull(tree.unflatten(structure, seed, dy))

            return _differentiable_callback(name, pulled, (*given, *moving), others)

        return _host_callback(name, function, given, others), back

    return call(*given)


# What functions capture ---------------------------------------------------------------------------


def refuse_captured_values(name: str, *functions: Any) -> None:
    """Refuse functions that read values of the trace: these are not there when compiled code has
    SciPy call the functions. What the trace itself reads is found where it stands."""
    known = frozenset[Any]().union(*(stage.captures for stage in active_tracers()))
    captured = [x for x in map(value_of, _captured_tracked(functions)) if x not in known]
    held = any(contains_handle(x) for x in functions if not callable(x))
    if held or not all(map(is_constant, captured)):
        text = f"the function that {name} gets under jit captures a value that may change"
        raise UnsupportedError(message(text, "Pass it through args="))


def _captured_tracked(functions: Sequence[Any]) -> list[Any]:
    """The tracked values that functions read."""
    standing = [place.read() for place in _captured_sources(functions)]
    return [x for x in tree.leaves(standing) if type(x) is Tracked]


def _captured_sources(functions: Sequence[Any]) -> list[Source]:
    return [place for f in functions if callable(f) for place in find_sources(f)]


class _CapturedState:
    """What stands where functions read, to be compared with what they leave there."""

    def __init__(self, functions: Sequence[Any]) -> None:
        self.before = StateSnapshot(_captured_sources(functions), arrays=True)
        self.tracked = [(x, value_of(x)) for x in _captured_tracked(functions)]

    @property
    def has_changed(self) -> bool:
        moved = any(value_of(x) is not was for x, was in self.tracked)
        written = any(not same_bytes(*pair) for pair in self.before.arrays or ())
        return moved or written or self.before.has_changed
