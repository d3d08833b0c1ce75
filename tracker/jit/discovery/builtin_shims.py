"""Shims of builtins for code that is being traced: of `type`, `hasattr` and `getattr`
(`rebinding/class_shims.py`), `isinstance` and `id`, of `range`, `zip`, `enumerate` and `reversed`,
of `min` and `max`, and of `print`.

Traced code sees tracked arrays where the plain function sees arrays and numbers. A tracked array
can lie about its class only (`Tracked.__class__`); the shims answer `type(x) is np.ndarray`,
`hasattr(x, "shape")` of a number or `isinstance(x, Iterable)` as for plain data. They are put into
the globals of the code that uses these names, in front of Python's builtins. `id` is refused. What
a `for` statement iterates may be an iterator that follows its iterations
(`tape/tracing/tracer.py`). `min` and `max` of floats of one class select one of them, so that the
trace is for all of them. An iteration that prints stands for no others.

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
from typing import Any, TypeAlias

import numpy as np

from tracker import tree
from tracker.errors import UnsupportedError
from tracker.ir.op import NUMPY
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


def _extreme_shim(extreme: Any, is_better: Callable[[Any, Any], Any]) -> Any:
    """The shim of `min` or `max`."""

    def select(*given: Any, **options: Any) -> Any:
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


class UnreadZip(zip):  # type: ignore[type-arg]
    """A `zip` that knows what it was `given`, until it is read."""

    def __init__(self, *given: Any) -> None:
        self.given: tuple[Any, ...] | None = given

    def __next__(self) -> Any:
        self.given = None
        return super().__next__()


class _IterableShim(type):
    """The class of the shims of `range`, `zip`, `enumerate` and `reversed`, which are called and
    tested like these."""

    original: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if kwargs or current_tracer() is None:
            return cls.original(*args, **kwargs)
        loop = start_loop(cls.original.__name__, args, sys._getframe(1))
        if loop is not None:
            return loop
        return UnreadZip(*args) if cls.original is zip else cls.original(*args)

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
