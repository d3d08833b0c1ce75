"""Lists that the iterations of a loop append to: `states.append(x)`.

The loop stacks what its iterations append, and the list gets rows of the stack, read when they are
used; `np.array(states)` is the stack itself (`ops/shape/appended_rows.py`). An iteration may append
numbers and arrays, and tuples, lists and dicts of them that it makes.

Invariant: whatever is appended in several places, or has a name after the loop, is one object, as
after the plain loop. An array that a later iteration might write into is not appended.
"""

from __future__ import annotations

import operator
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tracker.control.python_loops.affine_subscripts import NotRollable
from tracker.control.python_loops.constants import ConstantValues
from tracker.control.python_loops.iteration_state import IterationState, is_constant
from tracker.control.python_loops.places import Place
from tracker.ops.shape.appended_rows import rows_of
from tracker.tape.record import value_of, wrap
from tracker.tape.tracked import Tracked, view_root
from tracker.tape.value import Value


class GrowingLists:
    """What an iteration has appended. `starts` and `ends` are what the carried places had before
    and after it, and `containers` the ids of the containers that are carried."""

    def __init__(
        self,
        state: IterationState,
        starts: Mapping[Place, Any],
        ends: Mapping[Place, Any],
        containers: Container[int],
    ) -> None:
        self.state, self.starts, self.ends = state, starts, ends
        self.carried = containers
        self.parts = [(x, length, x[length:]) for x, length in state.grown()]
        self.leaves: dict[int, Tracked] = {}
        for _, _, elements in self.parts:
            for leaf in _leaves(elements):
                if type(leaf) is Tracked:
                    self.leaves[id(leaf)] = leaf
                elif not is_constant(leaf):
                    raise NotRollable(f"a {type(leaf).__name__} is appended")
        self._refuse_shared()

    @property
    def values(self) -> list[Value]:
        """The values that are appended."""
        return [value_of(leaf) for leaf in self.leaves.values()]

    def _refuse_shared(self) -> None:
        """Refuse arrays that have another name, or that iterations write into."""
        arrays = [x for x in self.leaves.values() if _is_array(x)]
        written = {id(handle) for handle, _ in self.state.written()}
        carried = {id(x) for x in self.starts.values()}
        for x in arrays:
            if getattr(x, "_view", None) is not None:
                raise NotRollable("a view is appended")
            if id(x) in self.state.handles and id(x) not in carried:
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
        for _, _, elements in self.parts:
            for container in _containers(elements):
                if id(container) in self.state.containers or id(container) in self.carried:
                    raise NotRollable("a container is appended that has another name")

    def extend(
        self,
        count: int,
        stacks: Mapping[Value, Any],
        numbers: Mapping[Value, Sequence[Any]],
        after: Mapping[Place, Any],
    ) -> None:
        """Have lists what all iterations append: rows of stacks, or plain numbers. `after`: what
        places have after the loop."""
        objects: dict[int, list[Any]] = {}
        for key, leaf in self.leaves.items():
            value = value_of(leaf)
            if value in numbers:
                objects[key] = list(numbers[value])
            elif value in stacks:
                objects[key] = rows_of(stacks[value], value.aval)
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
            for x, _, elements in self.parts:
                x += [_rebuilt(element, made) for element in elements]


def with_plain_numbers(state: IterationState, constants: ConstantValues) -> None:
    """Have lists the numbers that symbolic ones stand for: the loop is not rolled."""

    for x, length in state.grown():
        tracked = [leaf for leaf in _leaves(x[length:]) if type(leaf) is Tracked]
        plain = {id(t): t._value.data for t in tracked if t._value in constants.values}
        x[length:] = [_replaced(element, plain) for element in x[length:]]


def _leaves(x: Any) -> Iterator[Any]:
    """What is in nested containers."""
    if type(x) in (list, tuple, dict):
        for part in x.values() if type(x) is dict else x:
            yield from _leaves(part)
    else:
        yield x


def _containers(x: Any) -> Iterator[Any]:
    """The lists and dicts in a list or tuple, and in one another."""
    for part in x.values() if type(x) is dict else x:
        if type(part) in (list, dict):
            yield part
        if type(part) in (list, tuple, dict):
            yield from _containers(part)


def _replaced(x: Any, leaves: Mapping[int, Any]) -> Any:
    """Nested containers with other objects for leaves, by id: lists and dicts are the same ones."""
    if type(x) is list:
        x[:] = [_replaced(part, leaves) for part in x]
    elif type(x) is dict:
        x.update({key: _replaced(part, leaves) for key, part in x.items()})
    elif type(x) is tuple:
        parts = [_replaced(part, leaves) for part in x]
        return x if all(map(operator.is_, parts, x)) else tuple(parts)
    return leaves.get(id(x), x)


def _rebuilt(x: Any, made: dict[int, Any]) -> Any:
    """Other containers like nested ones, with other objects for leaves, by id. `made` gets the
    containers, so that each is made once."""
    if id(x) in made:
        return made[id(x)]
    if type(x) not in (list, tuple, dict):
        return x
    parts = [_rebuilt(part, made) for part in (x.values() if type(x) is dict else x)]
    made[id(x)] = dict(zip(x, parts, strict=True)) if type(x) is dict else type(x)(parts)
    return made[id(x)]


def _is_array(x: Any) -> bool:
    return type(x) is Tracked and type(value_of(x).aval) is np.ndarray
