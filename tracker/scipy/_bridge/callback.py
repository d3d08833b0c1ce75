"""SciPy called back out of compiled code, with the plain numbers that tracked values hold.

Owns: `call_back`, which finds what a function gives anew on each call, and `solved`, the same of
what calls functions of the user's; `untracked` and `by_scipy`, which have SciPy's own function
called so: that whose results have no derivative, and that whose derivative nobody takes;
`black_box`, which is differentiable, by more such calls. While nobody traces, they call the
function.

What is no number in a result (texts, how many there are of something) is part of the trace, which
holds for as long as it is the same; other objects no trace holds. Functions of the user's that
SciPy calls may read what compiled code reads when it is called, but no value of the trace's:
`refuse_captured`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy

from tracker import tree
from tracker.autodiff.call_ops import detached, host_call
from tracker.autodiff.custom_rules import custom_gradient
from tracker.autodiff.leaves import data
from tracker.autodiff.pullbacks import pullback
from tracker.errors import UnsupportedError, message
from tracker.ir.types import type_of
from tracker.jit.discovery.discovery import places_of
from tracker.jit.guards.source import Place
from tracker.jit.tracing.placeholder_swap import holds_handle
from tracker.jit.tracing.side_effects import Before
from tracker.support.array_copies import same_bytes
from tracker.tape.observers import Aside, Unheard, is_deriving, is_recording, stages
from tracker.tape.record import value_of
from tracker.tape.tracked import Tracked
from tracker.tape.value import is_constant

Function = Callable[..., Any]
UNTRACKED: set[Function] = set()
_TOLD = (str, bytes, type(None), type, slice)  # what is no number, and can be compared


def untracked(theirs: Function) -> Function:
    """SciPy's function, of the plain numbers that tracked values hold."""

    @functools.wraps(theirs)
    def call(*args: Any, **kwargs: Any) -> Any:
        return called(theirs, args, kwargs)

    UNTRACKED.add(call)
    return call


def by_scipy(theirs: Function) -> Callable[[Function], Function]:
    """Decorator: where a function is traced, and nobody takes its derivative, SciPy's own function
    is called, with all that this one was given."""

    def enter(ours: Function) -> Function:
        @functools.wraps(ours)
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_recording() and not is_deriving():
                return called(theirs, args, kwargs)
            return ours(*args, **kwargs)

        return call

    return enter


def called(theirs: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What SciPy's function gives of plain numbers."""
    return solved(theirs.__name__, lambda args, kwargs: theirs(*args, **kwargs), args, kwargs)


# Calling back -------------------------------------------------------------------------------------


def solved(name: str, solve: Function, *given: Any) -> Any:
    """What SciPy finds from plain numbers, by functions among what is given."""
    return call_back(name, solve, *_each(_if_called, given))


def _if_called(x: Any) -> Any:
    return plainly(x) if callable(x) and not isinstance(x, type) else x


def plainly(f: Function) -> Function:
    """The function as SciPy can call it: plain numbers come out."""

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        y = f(*args, **kwargs)
        return type(y)(map(data, y)) if type(y) in (tuple, list) else data(y)

    return call


def call_back(name: str, function: Function, *args: Any) -> Any:
    """What a function of plain numbers gives, that may call functions among its arguments."""
    of_numbers, given, others = _taken_apart(function, args)
    return _called_back(name, of_numbers, given, others)


def _taken_apart(function: Function, args: Any) -> tuple[Function, list[Any], list[Any]]:
    """A function as one of the tracked values in its arguments; these; and what else is there that
    is no number."""
    leaves, structure = tree.flatten(args, _is_whole)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tracked)]

    def of_numbers(*numbers: Any) -> Any:
        now = list(leaves)
        for i, number in zip(places, numbers, strict=True):
            now[i] = number
        return function(*tree.unflatten(structure, now, args))

    others = [leaf for leaf in leaves if not _is_number(leaf)]
    return of_numbers, [leaves[i] for i in places], others


def _called_back(name: str, function: Function, given: Sequence[Any], others: Sequence[Any]) -> Any:
    """What a function of numbers gives, which may call others; without a derivative."""
    if not is_recording():
        return tree.map(data, function(*map(data, given)))
    refuse_captured(name, *others)
    read = () if given else [x for x in _handles_in(others) if not is_constant(value_of(x))]
    if not (given or read):
        return tree.map(data, function())
    first: list[Any] = []

    def run(*numbers: Any) -> list[Any]:
        with Aside():
            found = _held(tree.map(data, function(*map(_own, numbers[: len(given)]))))
        leaves, structure = tree.flatten(found)
        kind = structure, [type_of(x) if _is_number(x) else x for x in leaves]
        if not first:
            first.extend((kind, found))
        elif kind != first[0]:
            raise Unheard
        found = list(filter(_is_number, leaves))
        return found if _is_number(first[1]) else [np.True_, *found]  # as compiled code has it

    standing = _Standing(others)
    numbers = iter(host_call(name, run, [*given, *read]))
    if standing.is_past:
        text = f"the function that {name} gets under jit changes something that is not its own"
        raise UnsupportedError(message(text, "Let it return what it finds"))
    if not _is_number(first[1]):  # it is called for its kind, too, if nobody asks for numbers
        bool(next(numbers))
    return tree.map(lambda x: detached(next(numbers)) if _is_number(x) else x, first[1])


def _is_number(x: Any) -> bool:
    """Whether it is a number or an array: operators have dtypes and shapes, too."""
    known = (np.ndarray, np.generic, bool, int, float, complex)
    return (type(x) is Tracked or isinstance(x, known)) and tree.is_numeric(x)


def _own(x: Any) -> Any:
    return x.copy("K") if isinstance(x, np.ndarray) else x


def _each(change: Function, given: Any) -> Any:
    leaves, structure = tree.flatten(given, _is_whole)
    return tree.unflatten(structure, map(change, leaves), given)


def _is_whole(x: Any) -> bool:
    """Whether a tuple of SciPy's is no container."""
    return isinstance(x, scipy.LowLevelCallable)


def _held(found: Any) -> Any:
    """What SciPy gives, as a trace can hold it: without what some of its results have beside
    numbers (operators, functions)."""
    if isinstance(found, dict):
        entries = {name: _held(x) for name, x in found.items() if _can_be_held(x)}
        return found if len(entries) == len(found) else restricted(found, entries)
    if not _can_be_held(found):
        text = f"SciPy gives a {type(found).__name__}, which compiled code does not hold"
        raise UnsupportedError(message(text, "Leave it out of the jitted function"))
    return found


def _can_be_held(x: Any) -> bool:
    return isinstance(x, dict) or all(
        _is_number(leaf) or isinstance(leaf, _TOLD) for leaf in tree.leaves(x)
    )


def restricted(result: Any, entries: dict[str, Any]) -> Any:
    """SciPy's result with these entries; who asks for another one cannot be traced."""
    cls: Any = type(result)
    made = _restricted(cls, frozenset(set(result) - set(entries)))()
    made.update((name, entries[name]) for name in result if name in entries)
    return made


@functools.cache
def _restricted(cls: Any, left: frozenset[str]) -> Any:
    class Restricted(cls):  # type: ignore[misc]
        __init__ = dict.__init__

        def __missing__(self, name: str) -> Any:
            if name not in left:
                raise KeyError(name)
            text = f"compiled code does not hold what SciPy says as {name!r} of a solution"
            raise UnsupportedError(message(text, "Leave it out"))

        def get(self, name: str, default: Any = None) -> Any:
            return self[name] if name in left else super().get(name, default)

    return Restricted


# With derivatives ---------------------------------------------------------------------------------


def black_box(name: str, function: Function, *args: Any) -> Any:
    """As `call_back`, differentiable: a derivative is one more such call."""
    of_numbers, given, others = _taken_apart(function, args)
    return _differentiable(name, of_numbers, given, others)


def _differentiable(
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

            return _differentiable(name, pulled, (*given, *moving), others)

        return _called_back(name, function, given, others), back

    return call(*given)


# What functions capture ---------------------------------------------------------------------------


def refuse_captured(name: str, *functions: Any) -> None:
    """Refuse functions that read values of the trace: these are not there when compiled code has
    SciPy call the functions. What the trace itself reads is found where it stands."""
    known = frozenset[Any]().union(*(stage.placed for stage in stages()))
    captured = [x for x in map(value_of, _handles_in(functions)) if x not in known]
    held = any(holds_handle(x) for x in functions if not callable(x))
    if held or not all(map(is_constant, captured)):
        text = f"the function that {name} gets under jit captures a value that may change"
        raise UnsupportedError(message(text, "Pass it through args="))


def _handles_in(functions: Sequence[Any]) -> list[Any]:
    """The tracked values that functions read."""
    standing = [place.read() for place in _places(functions)]
    return [x for x in tree.leaves(standing) if type(x) is Tracked]


def _places(functions: Sequence[Any]) -> list[Place]:
    return [place for f in functions if callable(f) for place in places_of(f)]


class _Standing:
    """What stands where functions read, to be compared with what they leave there."""

    def __init__(self, functions: Sequence[Any]) -> None:
        self.before = Before(_places(functions), arrays=True)
        self.handles = [(x, value_of(x)) for x in _handles_in(functions)]

    @property
    def is_past(self) -> bool:
        moved = any(value_of(x) is not was for x, was in self.handles)
        written = any(not same_bytes(*pair) for pair in self.before.arrays or ())
        return moved or written or self.before.is_past
