"""Lists that the iterations of a loop append to: `states.append(x)`.

The loop stacks what its iterations append, and the list gets rows of the stack, read when they are
used; `np.array(states)` is the stack itself (`ops/shape/appended_rows.py`). An iteration may append
numbers and arrays, and tuples, lists, dicts and objects that it makes of them.

Invariant: whatever is appended in several places, or has a name after the loop, is one object, as
after the plain loop. An array that a later iteration might write into is not appended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tracker.control.python_loops.body.affine_subscripts import NotRollable
from tracker.control.python_loops.body.constants import ConstantValues
from tracker.control.python_loops.iteration_state import IterationState, is_constant
from tracker.control.python_loops.places import Place, container_of, parts_of, with_parts
from tracker.ir.types import type_of
from tracker.ops.shape.appended_rows import rows_of
from tracker.tape.record import value_of, wrap
from tracker.tape.tracked import Tracked, view_root
from tracker.tape.value import Value


class GrowingLists:
    """What an iteration has appended. `starts` and `ends` are what the carried places had before
    and after it, and `replaced` the containers of those that have got new ones, before and after.

    first, last  instead of containers, by id, what the first and the last iteration append
    form         equal where iterations append the same
    """

    def __init__(
        self,
        state: IterationState,
        starts: Mapping[Place, Any],
        ends: Mapping[Place, Any],
        replaced: Mapping[Place, tuple[Any, Any]],
    ) -> None:
        self.state, self.starts, self.ends, self.replaced = state, starts, ends, replaced
        self.origins: dict[int, dict[Any, Any]] = {}
        for place, (before, _) in replaced.items():
            parts = (parts_of(before) or {}).items()
            started = {key: self._started((place, key), part) for key, part in parts}
            self.origins[id(before)] = started
        self.first = {id(before): before for before, _ in replaced.values()}
        self.last = {id(new): new for _, new in replaced.values()}
        self.parts = [(x, length, x[length:]) for x, length in state.grown()]
        self.leaves: dict[int, Tracked] = {}
        self.containers: dict[int, tuple[Any, dict[Any, Any]]] = {}  # with their parts
        for _, _, elements in self.parts:
            self._add(elements)
        self._refuse_shared()
        self.form = self._form()

    def know_tuples(
        self, before: Iterable[tuple[Any, Any]], after: Iterable[tuple[Any, Any]]
    ) -> None:
        """What places have before and after the loop instead of the iteration's tuples."""
        self.first |= {id(x): other for x, other in before}
        self.last = {id(new): new for _, new in self.replaced.values()}
        self.last |= {id(x): other for x, other in after}

    def _add(self, x: Any) -> None:
        if id(x) in self.containers:
            return
        parts = self._parts(x)
        if parts is not None:
            self.containers[id(x)] = x, parts
            for part in parts.values():
                self._add(part)
        elif type(x) is Tracked:
            self.leaves[id(x)] = x
        elif not (is_constant(x) or id(x) in self.state.reached):
            raise NotRollable(f"a {type(x).__name__} is appended")

    def _parts(self, x: Any) -> dict[Any, Any] | None:
        """The parts of a container, if each iteration has another one."""
        if id(x) in self.state.reached:
            return self.origins.get(id(x))
        return parts_of(x)

    def _started(self, place: Place, x: Any) -> Any:
        """What was at a place, with symbolic numbers."""
        if isinstance(x, tuple) and place not in self.starts:
            parts = parts_of(x) or {}
            return with_parts(
                x, {at: self._started((place, at), part) for at, part in parts.items()}
            )
        return self.starts.get(place, x)

    @property
    def values(self) -> list[Value]:
        """The values that are appended."""
        return [value_of(leaf) for leaf in self.leaves.values()]

    def _form(self) -> Any:
        """What is the same where iterations append the same: how their objects are made of numbers
        and arrays, and in which places these are."""
        leaves = {key: at for at, key in enumerate(self.leaves)}
        containers = {key: at for at, key in enumerate(self.containers)}

        def form_of(x: Any) -> Any:
            if id(x) in containers and not (id(x) in self.first or id(x) in self.last):
                parts = self.containers[id(x)][1].items()
                return containers[id(x)], type(x), [(key, form_of(part)) for key, part in parts]
            if id(x) in leaves:
                aval = value_of(x).aval
                return leaves[id(x)], type(aval), type_of(aval)
            return type(x), id(x)

        def places_of(held: Mapping[Place, Any]) -> dict[Place, int]:
            return {place: leaves[id(x)] for place, x in held.items() if id(x) in leaves}

        lists = {id(x): [*map(form_of, elements)] for x, _, elements in self.parts}
        return lists, places_of(self.starts), places_of(self.ends)

    def _refuse_shared(self) -> None:
        """Refuse arrays that have another name, or that iterations write into."""
        arrays = [x for x in self.leaves.values() if _is_array(x)]
        written = {id(handle) for handle, _ in self.state.written()}
        starts = self.starts.items()
        carried = {id(x) for _, x in starts}
        changed = {id(x) for place, x in starts if self.ends.get(place) is not x}
        for x in arrays:
            if getattr(x, "_view", None) is not None:
                raise NotRollable("a view is appended")
            if id(x) in self.state.handles and id(x) not in changed:
                raise NotRollable("one array is appended in all iterations")
        ends = self.ends.items()
        ended = {id(x) for _, x in ends}
        moved = carried & {id(x) for place, x in ends if x is not self.starts.get(place)}
        if moved and any(id(x) in carried | ended for x in arrays):
            raise NotRollable("an array is appended that moves from name to name")
        for x in self.ends.values():
            if type(x) is Tracked and x is not view_root(x) and id(view_root(x)) in self.leaves:
                raise NotRollable("a view is carried of what is appended")
        if arrays and not carried.isdisjoint(written):
            raise NotRollable("an array is written that may be in a list")
        for place, x in starts:
            both = x, self.ends.get(place)
            if both[1] is not x and all(_is_array(y) and id(y) in self.leaves for y in both):
                raise NotRollable("an array is appended in two iterations")
        for each in self.replaced.values():
            if all(id(x) in self.containers for x in each):
                raise NotRollable("an object is appended in two iterations")

    def extend(
        self,
        count: int,
        stacks: Sequence[Any],
        numbers: Mapping[Value, Sequence[Any]],
        after: Mapping[Place, Any],
    ) -> None:
        """Have lists what all iterations append: rows of stacks (one for each of the values, or
        None), or plain numbers. `after`: what places have after the loop."""
        objects: dict[int, list[Any]] = {}
        for (key, leaf), stack in zip(self.leaves.items(), stacks, strict=True):
            value = value_of(leaf)
            if value in numbers:
                objects[key] = list(numbers[value])
            elif stack is not None:
                objects[key] = rows_of(stack, value.aval)
            else:
                objects[key] = [wrap(value) for _ in range(count)]
        for name, started in self.starts.items():
            ended = self.ends.get(name)
            if id(ended) in objects and ended is not started and _is_array(ended):
                objects[id(ended)][-1] = after[name]
            if id(started) in objects and _is_array(started):
                objects[id(started)][0] = started
        for x, length, _ in self.parts:
            del x[length:]
        for at in range(count):
            made = {key: rows[at] for key, rows in objects.items()}
            made |= self.first if at == 0 else {}
            made |= self.last if at == count - 1 else {}
            for x, _, elements in self.parts:
                x += [self._rebuilt(element, made) for element in elements]

    def _rebuilt(self, x: Any, made: dict[int, Any]) -> Any:
        """Another container like `x`, with other objects for leaves, by id. `made` gets the
        containers, so that each is made once."""
        if id(x) not in made and id(x) in self.containers:
            parts = self.containers[id(x)][1].items()
            new = {key: self._rebuilt(part, made) for key, part in parts}
            is_other = not isinstance(x, tuple) or any(new[key] is not part for key, part in parts)
            made[id(x)] = container_of(x, new) if is_other else x
        return made.get(id(x), x)


def with_plain_numbers(state: IterationState, constants: ConstantValues) -> None:
    """Have lists the numbers that symbolic ones stand for: the loop is not rolled."""

    def plain(x: Any) -> Any:
        parts = None if id(x) in state.reached else parts_of(x)
        if parts is not None:
            return with_parts(x, {key: plain(part) for key, part in parts.items()})
        return x._value.data if type(x) is Tracked and x._value in constants.values else x

    for x, length in state.grown():
        x[length:] = [plain(element) for element in x[length:]]


def _is_array(x: Any) -> bool:
    return type(x) is Tracked and type(value_of(x).aval) is np.ndarray
