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
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
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
    CapturedState,
    StateSnapshot,
    contains_handle,
    find_captured_state,
    handles_within,
)
from tracker.scipy._bridge.closures import CellPath, tracked_cells, with_cells
from tracker.support.array_copies import same_bytes
from tracker.tape.observers import (
    CallbackMismatch,
    ObserversSuspended,
    is_deriving,
    is_tracing,
    observers,
)
from tracker.tape.record import value_of
from tracker.tape.tracing.tracer import active_tracers, is_constant_in_traces
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
    if is_tracing():
        of_numbers, given = _with_captured_operands(name, of_numbers, given, others)
    return _host_callback(name, of_numbers, given, others)


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


def _changes_state(name: str) -> UnsupportedError:
    text = f"the function that {name} gets under jit changes something that is not its own"
    return UnsupportedError(text, "Let it return what it finds")


def _host_callback(
    name: str, function: Function, given: Sequence[Any], others: Sequence[Any]
) -> Any:
    """The result of a function of plain numbers, without a derivative. `others` are its other
    leaves."""
    if not is_tracing():
        return tree.map(plain_data, function(*map(plain_data, given)))
    captured = [] if given else _captured_tracked(others)
    captured = [x for x in captured if not is_constant_in_traces(value_of(x))]
    if not (given or captured):
        with _HiddenValues(name, others):
            return tree.map(plain_data, function())
    first: list[Any] = []
    count = len(given)  # what compiled code calls must not keep the trace's values
    state = _CapturedState(others)
    of_first_run: list[contextlib.AbstractContextManager[None]] = [
        _HiddenValues(name, others),
        state.as_numbers(),  # entered first
    ]

    def run(*numbers: Any) -> list[Any]:
        with ObserversSuspended(), contextlib.ExitStack() as within:
            if not of_first_run:
                within.enter_context(state.kept())
            while of_first_run:
                within.enter_context(of_first_run.pop())
            found = _traceable_result(
                tree.map(plain_data, function(*map(_copy_if_array, numbers[:count])))
            )
        leaves, structure = tree.flatten(found)
        kind = structure, [type_of(x) if _is_number(x) else x for x in leaves]
        if not first:
            first.extend((kind, found))
        elif kind != first[0]:
            raise CallbackMismatch
        found = list(filter(_is_number, leaves))
        # A structure without numbers still needs a result that compiled code computes.
        return found if _is_number(first[1]) else [np.True_, *found]

    numbers = iter(host_call(name, run, [*given, *captured]))
    if state.has_changed:
        if not state.has_only_filled_gaps:
            raise _changes_state(name)
        for tracer in active_tracers():
            tracer.fills_caches = True
    if not _is_number(first[1]):  # keeps the call alive where only the structure is used
        bool(next(numbers))
    return tree.map(lambda x: detach(next(numbers)) if _is_number(x) else x, first[1])


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
    """As `host_callback`, with derivatives: each derivative is one more host callback. A pullback
    may call the functions again, when what they capture elsewhere than in closures is no longer
    replaced, so that is refused."""
    of_numbers, given, others = _split_tracked(name, function, args)
    if is_tracing():
        _refuse_handles(name, others, _CapturedValues().find(others))
    return _differentiable_callback(name, of_numbers, given, others)


def _differentiable_callback(
    name: str, function: Function, given: Sequence[Any], others: Sequence[Any]
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

            return _differentiable_callback(name, pull_back, (*given, *cotangents), others)

        return _host_callback(name, function, given, others), back

    return call(*given)


# What functions capture ---------------------------------------------------------------------------


def _with_captured_operands(
    name: str, function: Function, given: Sequence[Any], others: Sequence[Any]
) -> tuple[Function, list[Any]]:
    """The function, and its operands, followed by the values of the trace that the functions among
    its other leaves capture elsewhere than in closures."""
    _refuse_handles(name, others)
    captured = _CapturedValues()
    operands = captured.find(others)
    if not operands:
        return function, list(given)
    count = len(given)

    def of_all(*numbers: Any) -> Any:
        with captured.replaced_by(numbers[count:]):
            return function(*numbers[:count])

    return of_all, [*given, *operands]


def _refuse_handles(name: str, others: Sequence[Any], captured: Sequence[Tracked] = ()) -> None:
    """Refuse objects that hold values of the trace: when compiled code calls SciPy, there are only
    their numbers."""
    if captured or any(contains_handle(x) for x in others if not callable(x)):
        text = f"what {name} gets under jit holds a value that may change"
        raise UnsupportedError(text, "Pass the value through args=")


class _CapturedValues:
    """The tracked values that functions capture elsewhere than in closures. Constants are left out,
    and so is captured state that the trace itself reads as an input: the functions read it
    themselves."""

    def __init__(self) -> None:
        self._tracers = [weakref.ref(tracer) for tracer in active_tracers()]
        self._holders: list[tuple[Any, dict[int, int]]] = []  # a source; by leaf, which value
        self._lock = threading.RLock()  # functions of all threads read the same closure cells

    def find(self, functions: Sequence[Any]) -> list[Tracked]:
        """The values that these functions capture."""
        inputs = frozenset[Any]().union(*(tracer.captures for tracer in active_tracers()))
        values: list[Tracked] = []
        numbers: dict[int, int] = {}  # by id of a value
        for source in _captured_sources(functions):
            which = {}
            for at, x in enumerate(tree.leaves(source.read())):
                if type(x) is Tracked and not _is_fixed(x, inputs):
                    if id(x) not in numbers:
                        numbers[id(x)] = len(values)
                        values.append(x)
                    which[at] = numbers[id(x)]
            if which:
                self._holders.append((source, which))
        return values

    @contextlib.contextmanager
    def replaced_by(self, numbers: Sequence[Any]) -> Iterator[None]:
        """Within it, the functions read these numbers instead. After the trace they keep numbers,
        not its values with all that these were computed from."""
        is_over = bool(self._tracers) and not any(each() in observers for each in self._tracers)
        with self._lock, contextlib.ExitStack() as restore:
            for source, which in self._holders:
                before, is_on_holder = source.read(), source.is_on_holder
                leaves, structure = tree.flatten(before)
                after = tree.map(plain_data, before) if is_over else before
                restore.callback(source.write, after, is_on_holder)
                now = [numbers[which[at]] if at in which else x for at, x in enumerate(leaves)]
                source.write(tree.unflatten(structure, now, before), is_on_holder)
            yield


def _is_fixed(x: Tracked, inputs: frozenset[Any]) -> bool:
    value = value_of(x)
    return value in inputs or is_constant_in_traces(value)


def _captured_tracked(functions: Sequence[Any]) -> list[Any]:
    """The tracked values that the functions capture."""
    values = [source.read() for source in _captured_sources(functions)]
    return [x for x in tree.leaves(values) if type(x) is Tracked]


def _captured_sources(functions: Sequence[Any]) -> list[Any]:
    return [source for each in _captured_state(functions) for source in each.sources]


def _captured_state(functions: Sequence[Any]) -> list[CapturedState]:
    return [find_captured_state(f) for f in functions if callable(f)]


class _HiddenValues:
    """Values of the trace in objects that functions hold, and that nothing has found to be operands
    or captured state. Compiled code would call the functions with the values of the first call:
    within it, reading one is an error."""

    def __init__(self, name: str, functions: Sequence[Any]) -> None:
        self.name = name
        self.functions = functions
        self.held: list[tuple[Tracked, Any]] = []

    def __enter__(self) -> None:
        self.is_read = False
        found = itertools.chain.from_iterable(handles_within(f, _MAX_PARTS) for f in self.functions)
        unique = {id(x): x for x in found if not is_constant_in_traces(value_of(x))}
        self.held = [(x, x._value) for x in unique.values()]
        for x, _ in self.held:
            x._value = _Unreadable(self)  # type: ignore[assignment]

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        for x, value in self.held:
            x._value = value
        is_failure = isinstance(error, Exception) and bool(self.held)
        if self.is_read or is_failure:  # the function, or SciPy, may have caught our error
            raise self.error() from None

    def error(self) -> UnsupportedError:
        text = f"the function that {self.name} gets under jit reads an object that holds a value"
        fix = "Let it read the numbers themselves, and make the object within it"
        return UnsupportedError(f"{text} of the jitted function", fix)


class _Unreadable:
    """In place of a value that must not be read."""

    def __init__(self, hidden: _HiddenValues) -> None:
        object.__setattr__(self, "hidden", hidden)

    def __getattribute__(self, name: str) -> Any:
        hidden: _HiddenValues = object.__getattribute__(self, "hidden")
        hidden.is_read = True
        raise hidden.error()


class _CapturedState:
    """The state that functions capture, to find out whether a call has changed it."""

    def __init__(self, functions: Sequence[Any]) -> None:
        found = _captured_state(functions)
        self.sources = [source for each in found for source in each.sources]
        self.snapshot = StateSnapshot(self.sources, arrays=True)
        self.may_change = any(x.names.may_write for x in found) or bool(self.snapshot.arrays)
        self.tracked = [(x, value_of(x)) for x in _captured_tracked(functions)]
        self.copies: list[tuple[Any, Any]] = []
        self.rebinds_numbers = False

    @contextlib.contextmanager
    def as_numbers(self) -> Iterator[None]:
        """Within it, the functions read numbers where values of the trace stand, as they do when
        compiled code calls them."""
        replaced = []
        with contextlib.ExitStack() as restore:
            for source in self.sources:
                before, is_on_holder = source.read(), source.is_on_holder
                if any(type(x) is Tracked for x in tree.leaves(before)):
                    restore.callback(source.write, before, is_on_holder)
                    source.write(tree.map(self._copied, before), is_on_holder)
                    replaced.append(source)
            numbers = StateSnapshot(replaced)
            yield
            self.rebinds_numbers = numbers.has_changed

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """A later run, after which the state is what it was, or the call is traced again."""
        if not self.may_change:
            yield
            return
        before = StateSnapshot(self.sources, arrays=True)
        yield
        if before.has_changed or not all(same_bytes(*two) for two in before.arrays or ()):
            before.restore()
            raise CallbackMismatch

    def _copied(self, x: Any) -> Any:
        number = plain_data(x)
        if type(x) is not Tracked or not isinstance(number, np.ndarray):
            return number
        self.copies.append((number, number.copy("K")))
        return self.copies[-1][1]

    @property
    def has_changed(self) -> bool:
        return self.snapshot.has_changed or self._has_changed_values

    @property
    def has_only_filled_gaps(self) -> bool:
        return self.snapshot.has_only_filled_gaps and not self._has_changed_values

    @property
    def _has_changed_values(self) -> bool:
        """Whether a value of the trace, the number in its place, or an array has changed."""
        rebound = any(value_of(x) is not value for x, value in self.tracked)
        arrays = (*self.copies, *(self.snapshot.arrays or ()))
        return self.rebinds_numbers or rebound or not all(same_bytes(*two) for two in arrays)
