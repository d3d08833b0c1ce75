"""Structures as flat lists of numbers, and the types that a loop carries.

Owns: `Flat`, `carried`, `settle`.

Python's loop lets a carry change its type from step to step (0, then a float); a traced loop has
one type for it. `settle` finds it: what the first step is given and what it gives, promoted as
NumPy promotes, until that no longer changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker import tree
from tracker.control.nested import Nested, nest
from tracker.ir.types import PYTHON, Type, type_of
from tracker.ops.create import item
from tracker.records import record
from tracker.stage import Unstructured
from tracker.tape import apply, form_of
from tracker.tracked import Tracked

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


def settle(
    name: str, body: Callable[..., list[Any]], start: Sequence[Any], others: Sequence[Any]
) -> tuple[Nested, list[Any]]:
    """Trace a body whose first results are its next first arguments; the trace, and these in
    the types that the loop carries."""
    types = [type_of(form_of(x)) for x in start]
    for _ in range(_ATTEMPTS):
        carries = [as_type(x, type) for x, type in zip(start, types, strict=True)]
        fixed = tuple(types)

        def step(*flat: Any, fixed: tuple[Type, ...] = fixed) -> list[Any]:
            made = body(*flat)
            ends = [_fitted(x, type) for x, type in zip(made, fixed, strict=False)]
            return [*ends, *made[len(fixed) :]]

        nested = nest(name, step, [*carries, *others])
        types = [joined(a, b) for a, b in zip(types, nested.types, strict=False)]
        if types == list(fixed):
            return nested, carries
    raise Unstructured("what is carried does not settle on a type")


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
