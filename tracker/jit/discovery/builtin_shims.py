"""Shims of builtins for code that is being traced: of `type`, `hasattr` and `getattr`
(`rebinding/class_shims.py`), `isinstance` and `id`, of `range`, `zip`, `enumerate`, `reversed` and
`map`, of `list`, `tuple`, `sum`, `min` and `max`, and of `print`.

Traced code sees tracked arrays where the plain function sees arrays and numbers. A tracked array
can lie about its class only (`Tracked.__class__`); the shims answer `type(x) is np.ndarray`,
`hasattr(x, "shape")` of a number or `isinstance(x, Iterable)` as for plain data. They are put into
the globals of the code that uses these names, in front of Python's builtins. `id` is refused. What
a `for` statement iterates may be an iterator that follows its iterations
(`tape/tracing/tracer.py`). What a generator gives to `list`, `tuple`, `sum`, `min` and `max` is put
into a list, for loops that append to lists are rolled. `sum` adds up the rows that a loop has
appended as one array. `min` and `max` of floats of one class select one of them, so that the trace
is for all of them. An iteration that prints stands for no others.

Invariants: for anything but a tracked array, in any thread, a shim does what the builtin does. So
does that of `isinstance` for tracked arrays within a derivative, which has none where the function
is not compiled.
"""

from __future__ import annotations

import builtins
import functools
import operator
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from types import GeneratorType
from typing import Any, TypeAlias

import numpy as np

from tracker import tree
from tracker.errors import UnsupportedError
from tracker.ir.op import NUMPY
from tracker.ops.shape.appended_rows import is_row, joined_rows
from tracker.rebinding.class_shims import CLASS_SHIMS, KNOWN_SHIMS, plain_value
from tracker.rebinding.namespaces import is_exchanged
from tracker.tape.observers import is_deriving
from tracker.tape.tracing.tracer import current_tracer, note_of_this_iteration, start_loop
from tracker.tape.tracked import Tracked


def _isinstance(x: Any, classes: Any, /) -> bool:
    return isinstance(x if is_deriving() else plain_value(x), classes)


def _id(x: Any, /) -> int:
    if current_tracer() is not None and (type(x) is Tracked or tree.children_of(x) is not None):
        raise UnsupportedError(
            f"id() of a {type(plain_value(x)).__name__} differs at each call",
            "Compare objects with `is`",
        )
    return builtins.id(x)


def elements_of(generator: Iterable[Any]) -> list[Any]:
    """What a generator gives. While it runs, `control/python_loops` reads the local names."""
    elements = []
    for x in generator:
        elements.append(x)  # noqa: PERF402 (`extend` would call the generator itself)
    return elements


def _collected(given: Any) -> Any:
    """What is iterated; the elements of a generator, in traced code."""
    is_traced = type(given) is GeneratorType and current_tracer() is not None
    return elements_of(given) if is_traced else given


@functools.wraps(sum)
def _sum(given: Any, /, start: Any = 0) -> Any:
    given = _collected(given)
    if type(given) in (list, tuple) and any(map(is_row, given)):
        given = _with_partial_sums(given)
    return builtins.sum(given, start)


def _with_partial_sums(given: Sequence[Any]) -> list[Any]:
    """Numbers and arrays, with one sum in place of those that are neighbouring rows of an array."""
    found: list[Any] = []
    for part, is_stack, is_python in joined_rows(given):
        if not is_stack:
            found.append(part)
        elif part.dtype.kind in "fc" or part.dtype == np.int64:
            total = part.sum(axis=0)
            found.append(total.item() if is_python else total)
        else:
            found += [*part]
    return found


def _extreme_shim(extreme: Any, is_better: Callable[[Any, Any], Any]) -> Any:
    """The shim of `min` or `max`."""

    def select(*given: Any, **options: Any) -> Any:
        if len(given) == 1:
            given = (_collected(given[0]),)
        numbers = given[0] if len(given) == 1 and type(given[0]) in (list, tuple) else given
        cls = None if options or current_tracer() is None else _class_of_floats(numbers)
        if cls is None:
            return extreme(*given, **options)
        best = numbers[0]
        for x in numbers[1:]:
            best = NUMPY[np.where](is_better(x, best), x, best)[()]
        return best.item() if cls is float else best

    return functools.wraps(extreme)(select)


def _class_of_floats(numbers: Sequence[Any]) -> type | None:
    """The class of several floats, if they have one, and some are tracked."""
    if len(numbers) < 2 or not any(type(x) is Tracked for x in numbers):
        return None
    classes = {type(plain_value(x)) for x in numbers}
    cls = classes.pop()
    return cls if not classes and (cls is float or issubclass(cls, np.floating)) else None


@functools.wraps(print)
def _print(*args: Any, **kwargs: Any) -> None:
    note_of_this_iteration()
    builtins.print(*args, **kwargs)


class _Counting:
    """What knows what it was `given`, and how many items it has given out."""

    def __init__(self, *given: Any) -> None:
        self.given, self.count = given, 0

    def __next__(self) -> Any:
        item = super().__next__()  # type: ignore[misc]
        self.count += 1
        return item


class CountingZip(_Counting, zip):  # type: ignore[type-arg]
    kind = "zip"


class CountingEnumerate(_Counting, enumerate):  # type: ignore[type-arg]
    kind = "enumerate"


_WITH_LENGTHS = (Tracked, np.ndarray, list, tuple, range)
_COUNTING: dict[Any, Any] = {zip: CountingZip, enumerate: CountingEnumerate}


@functools.wraps(map)
def _map(f: Callable[..., Any], /, *given: Any) -> Any:
    if current_tracer() is None or not given:
        return builtins.map(f, *given)
    return (f(*each) for each in CountingZip(*given))


@functools.wraps(list)
def _list(given: Any = (), /) -> list[Any]:
    return builtins.list(_collected(given))


@functools.wraps(tuple)
def _tuple(given: Any = (), /) -> tuple[Any, ...]:
    return builtins.tuple(_collected(given))


class _IterableShim(type):
    """The class of the shims of `range`, `zip`, `enumerate` and `reversed`, which are called and
    tested like these."""

    original: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if current_tracer() is None or (kwargs and not cls._asks_nothing(args, kwargs)):
            return cls.original(*args, **kwargs)
        loop = start_loop(cls.original.__name__, args, sys._getframe(1))
        if loop is not None:
            return loop
        return _COUNTING.get(cls.original, cls.original)(*args)

    def _asks_nothing(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether what is asked for by names, `strict` of `zip`, holds for what is given."""
        if cls.original is not zip or kwargs.keys() != {"strict"}:
            return False
        return not kwargs["strict"] or (
            all(type(x) in _WITH_LENGTHS for x in args) and len(set(map(len, args))) < 2
        )

    def __instancecheck__(cls, x: Any) -> bool:
        return builtins.isinstance(x, cls.original)

    def __subclasscheck__(cls, x: type) -> bool:
        return issubclass(x, cls.original)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.original

    def __hash__(cls) -> int:
        return hash(cls.original)


ShimmedGlobals: TypeAlias = tuple[dict[str, Any], frozenset[str]]  # globals, names used there

_ITERABLES: tuple[Any, ...] = (range, zip, enumerate, reversed)
BUILTIN_SHIMS: Mapping[str, Any] = {
    **CLASS_SHIMS,
    "isinstance": _isinstance,
    "id": _id,
    **{cls.__name__: _IterableShim(cls.__name__, (), {"original": cls}) for cls in _ITERABLES},
    "map": _map,
    "list": _list,
    "tuple": _tuple,
    "sum": _sum,
    "min": _extreme_shim(min, operator.lt),
    "max": _extreme_shim(max, operator.gt),
    "print": _print,
}
SHIMMED_NAMES = frozenset(BUILTIN_SHIMS)
KNOWN_SHIMS.update(BUILTIN_SHIMS)


class BuiltinShims:
    """Context in which the shims are in the globals of traced code; `compared` has names that are
    not shimmed, by the id of the globals."""

    def __init__(
        self, namespaces: Iterable[ShimmedGlobals], compared: Mapping[int, Set[str]]
    ) -> None:
        self.namespaces, self.compared = namespaces, compared
        self.installed: list[tuple[dict[str, Any], str]] = []

    def __enter__(self) -> None:
        for space, names in self.namespaces:
            for name in names - space.keys() - self.compared.get(id(space), set()):
                self.installed.append((space, name))
                space[name] = BUILTIN_SHIMS[name]

    def __exit__(self, *_: object) -> None:
        for space, name in self.installed:
            is_needed = name in CLASS_SHIMS and is_exchanged(space)  # by a derivative in a thread
            if space.get(name) is BUILTIN_SHIMS[name] and not is_needed:
                del space[name]
