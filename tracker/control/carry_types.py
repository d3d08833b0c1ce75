"""Structures as flat lists of numbers, and the types that a loop carries.

Owns: `Flat`, `carried`, `settle`; `only_read` and `put_back`, for bodies that write.

Python's loop lets a carry change its type from step to step (0, then a float); a traced loop has
one type for it. `settle` finds it: what the first step is given and what it gives, promoted as
NumPy promotes, until that no longer changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tracker import tree
from tracker.control.body import Nested, nest
from tracker.ir.types import PYTHON, Type, type_of
from tracker.ops.shape.create import item
from tracker.support.structs import record
from tracker.tape.record import apply, form_of, value_of
from tracker.tape.tracer import Unstructured
from tracker.tape.tracked import Tracked
from tracker.tape.value import Value

_ATTEMPTS = 4
_CLASS = {dtype: cls for cls, dtype in PYTHON.items()}


@record()
class Flat:
    """A structure's numbers, and how to put others in their place; None stays None."""

    template: Any
    structure: tree.Structure
    places: list[int]
    numbers: list[Any]

    @staticmethod
    def of(x: Any) -> Flat:
        found, structure = tree.flatten(x)
        places = [i for i, leaf in enumerate(found) if leaf is not None]
        numbers = [found[i] for i in places]
        for leaf in numbers:
            if not tree.is_numeric(form_of(leaf)):
                raise Unstructured(f"a {type(leaf).__name__} is no number")
        return Flat(x, structure, places, numbers)

    def rebuilt(self, numbers: Sequence[Any]) -> Any:
        found: list[Any] = [None] * self.structure.count
        for at, x in zip(self.places, numbers, strict=True):
            found[at] = x
        return tree.unflatten(self.structure, found, self.template)


def carried(start: Flat, new: Any) -> list[Any]:
    """The numbers of what a step gives, which must be built as what it was given."""
    flat = Flat.of(new)
    if flat.structure != start.structure or flat.places != start.places:
        raise Unstructured("a step gives another structure than it was given")
    return flat.numbers


def only_read(given: Sequence[Any], before: Sequence[Value]) -> None:
    """Refuse a body that has written into what it was given: what it is a part of would change."""
    if any(value_of(x) is not value for x, value in zip(given, before, strict=True)):
        raise Unstructured("the body writes into what it is given")


def _written(given: Sequence[Any], before: Sequence[Value], made: Sequence[Any]) -> list[bool]:
    """Which of its carries a step has written into, and handed on: all steps write into one array
    then. Where a step keeps it elsewhere, too, or hands on another, one trace does not say so."""
    wrote = [value_of(x) is not value for x, value in zip(given, before, strict=True)]
    for at, x in enumerate(given):
        others = [y for place, y in enumerate(made) if place != at]
        if wrote[at] and (made[at] is not x or any(_base_of(y) is x for y in others)):
            raise Unstructured("the body writes into an array that it does not only carry")
    return wrote


def _base_of(x: Any) -> Any:
    """What a view is of, be it through other views."""
    while (view := getattr(x, "_view", None) if isinstance(x, Tracked) else None) is not None:
        x = view.base
    return x


def put_back(start: Sequence[Any], ends: Sequence[Any], written: Sequence[bool]) -> list[Any]:
    """What is carried at the end: where the steps have written into the first carry, that array."""
    out = []
    for x, end, wrote in zip(start, ends, written, strict=True):
        if wrote and isinstance(x, Tracked):
            x[...] = end
            end = x
        out.append(end)
    return out


def settle(
    name: str, body: Callable[..., list[Any]], start: Sequence[Any], others: Sequence[Any]
) -> tuple[Nested, list[Any], list[bool]]:
    """Trace a body whose first results are its next first arguments; the trace, these in the
    types that the loop carries, and whether the steps write into them."""
    written: list[bool] = []
    types = [type_of(form_of(x)) for x in start]
    for _ in range(_ATTEMPTS):
        carries = [as_type(x, type) for x, type in zip(start, types, strict=True)]
        fixed = tuple(types)

        def step(*flat: Any, fixed: tuple[Type, ...] = fixed) -> list[Any]:
            before = [value_of(x) for x in flat]
            made = body(*flat)
            n = len(fixed)
            only_read(flat[n:], before[n:])
            written[:] = _written(flat[:n], before[:n], made)
            ends = [_fitted(x, type) for x, type in zip(made, fixed, strict=False)]
            return [*ends, *made[len(fixed) :]]

        nested = nest(name, step, [*carries, *others])
        types = [joined(a, b) for a, b in zip(types, nested.types, strict=False)]
        if types == list(fixed):
            _only_carried([x for x, w in zip(start, written, strict=True) if w], start, nested)
            return nested, carries, written
    raise Unstructured("what is carried does not settle on a type")


def _only_carried(written: Sequence[Any], start: Sequence[Any], nested: Nested) -> None:
    """Refuse a loop that writes into an array which it also carries, or reaches, otherwise."""
    reached = {value_of(x) for x in nested.hoisted if isinstance(x, Tracked)}
    bases = [_base_of(x) for x in start]
    for base in map(_base_of, written):
        if sum(b is base for b in bases) > 1 or any(v in reached for v in _values_of(base)):
            raise Unstructured("the body writes into an array that it does not only carry")


def _values_of(x: Any) -> Iterator[Value]:
    """Of a handle and of its views."""
    if isinstance(x, Tracked):
        yield value_of(x)
        for ref in list(getattr(x, "_views", None) or ()):
            yield from _values_of(ref())


def joined(a: Type, b: Type) -> Type:
    if a == b:
        return a
    if a.shape != b.shape:
        raise Unstructured(f"what is carried changes its shape from {a.shape} to {b.shape}")
    if a.weak and b.weak:
        return Type((), np.result_type(a.dtype, b.dtype), True)
    parts: list[Any] = [_CLASS[t.dtype](0) if t.weak else t.dtype for t in (a, b)]
    return Type(a.shape, np.result_type(*parts))


def _fitted(x: Any, type: Type) -> Any:
    """A result in the carried type, where that can hold it; otherwise as it is."""
    have = type_of(form_of(x))
    return as_type(x, type) if have != type and joined(have, type) == type else x


def as_type(x: Any, type: Type) -> Any:
    """A number or array in another type of its shape."""
    if type_of(form_of(x)) == type:
        return x
    if type.weak:
        y = apply(item, (x,)) if isinstance(x, Tracked) else x
        return y * 1.0 if type.dtype.kind == "f" else y + 0j if type.dtype.kind == "c" else y
    if isinstance(x, Tracked):
        return np.astype(x, type.dtype)
    return np.asarray(x).astype(type.dtype)[()]
