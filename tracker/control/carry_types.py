"""Structures as flat lists, and the types of loop carries.

In a Python loop a carry may change its type from step to step (0, then a float); a traced loop has
one type for it. `trace_until_types_agree` finds that type: it traces the body, promotes the types
of its inputs and outputs as NumPy does, and repeats until they agree.

A body may write into a carry that it returns (`write_back`); other writes into its arguments are
refused, because they would also have to reach arrays outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tracker import tree
from tracker.control.body import TracedBody, trace_body
from tracker.ir.types import PYTHON_DTYPES, Type, type_of
from tracker.ops.shape.create import item
from tracker.support.structs import record
from tracker.tape.record import apply, aval_of, value_of
from tracker.tape.tracing.tracer import UnsupportedInBody
from tracker.tape.tracked import Tracked, view_root
from tracker.tape.value import Value

_ATTEMPTS = 4
_PYTHON_CLASS = {dtype: cls for cls, dtype in PYTHON_DTYPES.items()}


@record()
class FlatStructure:
    """The numbers of a structure, and how to rebuild it with others; None stays None."""

    template: Any
    structure: tree.Structure
    positions: list[int]
    numbers: list[Any]

    @staticmethod
    def of(x: Any) -> FlatStructure:
        found, structure = tree.flatten(x)
        places = [i for i, leaf in enumerate(found) if leaf is not None]
        numbers = [found[i] for i in places]
        for leaf in numbers:
            if not tree.is_numeric(aval_of(leaf)):
                raise UnsupportedInBody(f"a {type(leaf).__name__} is no number")
        return FlatStructure(x, structure, places, numbers)

    def rebuild(self, numbers: Sequence[Any]) -> Any:
        found: list[Any] = [None] * self.structure.count
        for at, x in zip(self.positions, numbers, strict=True):
            found[at] = x
        return tree.unflatten(self.structure, found, self.template)


def flatten_carry(start: FlatStructure, new: Any) -> list[Any]:
    """The numbers of a new carry, which must have the structure of the first one."""
    flat = FlatStructure.of(new)
    if flat.structure != start.structure or flat.positions != start.positions:
        raise UnsupportedInBody("a step gives another structure than it was given")
    return flat.numbers


def refuse_writes(given: Sequence[Any], before: Sequence[Value]) -> None:
    """Refuse a body that has written into its arguments."""
    if any(value_of(x) is not value for x, value in zip(given, before, strict=True)):
        raise UnsupportedInBody("the body writes into what it is given")


def _written_carries(
    given: Sequence[Any], before: Sequence[Value], made: Sequence[Any]
) -> list[bool]:
    """Which carries a step has written into and returned: all steps then write into one array.
    Refuses a written carry that is not returned, or of which another result is a view."""
    wrote = [value_of(x) is not value for x, value in zip(given, before, strict=True)]
    for at, x in enumerate(given):
        others = [y for k, y in enumerate(made) if k != at]
        if wrote[at] and (made[at] is not x or any(view_root(y) is x for y in others)):
            raise UnsupportedInBody("the body writes into an array that it does not only carry")
    return wrote


def write_back(start: Sequence[Any], ends: Sequence[Any], written: Sequence[bool]) -> list[Any]:
    """The final carries; for a written carry, the initial array with the final contents."""
    out = []
    for x, end, wrote in zip(start, ends, written, strict=True):
        if wrote and isinstance(x, Tracked):
            x[...] = end
            end = x
        out.append(end)
    return out


def trace_until_types_agree(
    name: str, body: Callable[..., list[Any]], start: Sequence[Any], others: Sequence[Any]
) -> tuple[TracedBody, list[Any], list[bool]]:
    """Trace a body whose first results are the carries of the next step. Returns the traced body,
    the initial carries in their final types, and which of them the steps write into."""
    written: list[bool] = []
    types = [type_of(aval_of(x)) for x in start]
    for _ in range(_ATTEMPTS):
        carries = [cast_to(x, type) for x, type in zip(start, types, strict=True)]
        fixed = tuple(types)

        def step(*flat: Any, fixed: tuple[Type, ...] = fixed) -> list[Any]:
            before = [value_of(x) for x in flat]
            made = body(*flat)
            n = len(fixed)
            refuse_writes(flat[n:], before[n:])
            written[:] = _written_carries(flat[:n], before[:n], made)
            ends = [_cast_if_it_fits(x, type) for x, type in zip(made, fixed, strict=False)]
            return [*ends, *made[len(fixed) :]]

        traced = trace_body(name, step, [*carries, *others])
        types = [promote_types(a, b) for a, b in zip(types, traced.types, strict=False)]
        if types == list(fixed):
            _refuse_other_aliases(
                [x for x, w in zip(start, written, strict=True) if w], start, traced
            )
            return traced, carries, written
    raise UnsupportedInBody("what is carried does not settle on a type")


def _refuse_other_aliases(written: Sequence[Any], start: Sequence[Any], traced: TracedBody) -> None:
    """Refuse a loop that writes into an array which it also carries or captures as another."""
    reached = {value_of(x) for x in traced.hoisted if isinstance(x, Tracked)}
    bases = list(map(view_root, start))
    for base in map(view_root, written):
        if sum(b is base for b in bases) > 1 or any(v in reached for v in _values_with_views(base)):
            raise UnsupportedInBody("the body writes into an array that it does not only carry")


def _values_with_views(x: Any) -> Iterator[Value]:
    """The values of a tracked array and its views."""
    if isinstance(x, Tracked):
        yield value_of(x)
        for ref in list(getattr(x, "_views", None) or ()):
            yield from _values_with_views(ref())


def promote_types(a: Type, b: Type) -> Type:
    """The type that holds both, by NumPy's promotion."""
    if a == b:
        return a
    if a.shape != b.shape:
        raise UnsupportedInBody(f"what is carried changes its shape from {a.shape} to {b.shape}")
    if a.weak and b.weak:
        return Type((), np.result_type(a.dtype, b.dtype), True)
    parts: list[Any] = [_PYTHON_CLASS[t.dtype](0) if t.weak else t.dtype for t in (a, b)]
    return Type(a.shape, np.result_type(*parts))


def _cast_if_it_fits(x: Any, type: Type) -> Any:
    """A result in the carried type if that can hold it; otherwise unchanged."""
    have = type_of(aval_of(x))
    return cast_to(x, type) if have != type and promote_types(have, type) == type else x


def cast_to(x: Any, type: Type) -> Any:
    """A number or array, cast to another type of the same shape."""
    if type_of(aval_of(x)) == type:
        return x
    if type.weak:
        y = apply(item, (x,)) if isinstance(x, Tracked) else x
        return y * 1.0 if type.dtype.kind == "f" else y + 0j if type.dtype.kind == "c" else y
    if isinstance(x, Tracked):
        return np.astype(x, type.dtype)
    return np.asarray(x).astype(type.dtype)[()]
