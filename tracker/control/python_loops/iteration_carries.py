"""What an iteration has given other values, and the next one reads: `IterationCarries`."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from types import FrameType
from typing import Any

import numpy as np

from tracker.control.python_loops.body.affine_subscripts import NotRollable
from tracker.control.python_loops.body.iteration_body import Carry
from tracker.control.python_loops.iteration_state import IterationState
from tracker.control.python_loops.places import Place, Places
from tracker.ir.types import type_of
from tracker.ops.elementwise.unary import positive
from tracker.ops.indexing.views_and_writes import write_value
from tracker.ops.shape.create import buffer
from tracker.support.structs import field, record, replace
from tracker.tape.record import apply, value_of, wrap
from tracker.tape.tracing.loop_index import active_iterations, affine_form
from tracker.tape.tracked import Tracked, view_root
from tracker.tape.value import Value, operand_aval

_NUMBERS = (int, float, complex)


@record(eq=False)
class CarriedPlaces:
    """The places of what a loop carries, when an iteration begins.

    names      what was put there
    originals  what the plain loop has in those that hold a symbolic number
    starts     the values of those that are tracked
    extents    of those with arrays whose extents move: by how much in an iteration
    """

    names: dict[Place, Any]
    originals: dict[Place, Any]
    starts: dict[Place, Value]
    extents: dict[Place, tuple[int, ...]] = field(default_factory=dict)

    @staticmethod
    def of(
        carried: Mapping[Place, Any], state: IterationState, fixed: Container[Place]
    ) -> CarriedPlaces | None:
        """Symbolic numbers for plain ones, but at `fixed` places; None if an array has other names,
        from which it could not be told apart."""
        if any(_is_shared_array(x, state) for x in carried.values()):
            return None
        found = {
            name: _own_number(x, state)
            for name, x in carried.items()
            if type(x) is Tracked or name not in fixed
        }
        put = {name: x for name, x in found.items() if x is not None}
        names = {**carried, **put}
        starts = {name: value_of(x) for name, x in names.items() if type(x) is Tracked}
        return CarriedPlaces(names, {name: carried[name] for name in put}, starts)

    @property
    def symbolic(self) -> dict[Place, Any]:
        """The symbolic numbers."""
        return {name: self.names[name] for name in self.originals}

    @property
    def plain(self) -> list[Value]:
        """The values that stand for plain numbers."""
        symbolic = self.symbolic.items()
        return [x._value for name, x in symbolic if type(self.originals[name]) is not Tracked]


def _own_number(x: Any, state: IterationState) -> Any:
    """A tracked number with a value of its own for a number that is carried; None for anything
    else."""
    if type(x) in _NUMBERS or (isinstance(x, np.number) and type(x).__module__ == "numpy"):
        return buffer(x)
    if type(x) is Tracked and type(x._value) is Value and x.dtype.kind != "b":
        if not is_number(x._value.aval):
            return None
        shared = sum(value is x._value for _, value in state.handles.values())
        moves = affine_form(x) is not None
        if not moves and max(shared, state.slots[id(x)]) < 2:
            return None
        made = apply(positive, (x,))
        if moves:  # what is carried has no form: an iteration may change it
            active_iterations()[-1].forms[value_of(made)] = None
        return made
    return None


def _is_shared_array(x: Any, state: IterationState) -> bool:
    """Whether an array that is carried has other names, from which it could not be told apart."""
    return type(x) is Tracked and not is_number(x._value.aval) and state.slots[id(x)] > 1


def is_number(aval: Any) -> bool:
    return type(aval) in _NUMBERS or isinstance(aval, np.generic)


class IterationCarries:
    """What an iteration has given other values: places, and arrays that it has written into.

    kept    places that go on with what they had
    all     by place, or by the id of the array
    arrays  by their ids
    moves   places with an array that another place had before
    fresh   places with an object that the iteration has made
    """

    def __init__(
        self,
        carried: CarriedPlaces,
        state: IterationState,
        names: Mapping[Place, Any],
        fresh: Iterable[Place],
    ) -> None:
        self.carried, self.state, self.names = carried, state, names
        self.fresh = frozenset(fresh)
        self.kept: dict[Place, Any] = {}
        self.all: dict[Place | int, Carry] = {}
        self.arrays: dict[int, Tracked] = {}
        self.moves: dict[Place, Place] = {}
        if not names.keys() <= carried.names.keys():
            raise NotRollable("a name is bound that was not bound before")
        handles = {id(x) for x, _ in state.handles.values()}
        for name, before in carried.names.items():
            after = names.get(name)
            if after is before:
                if name in carried.originals:
                    self.kept[name] = carried.originals[name]
                continue
            if type(before) is not Tracked:
                raise NotRollable(f"{name} changes")
            is_other = id(view_root(after)) in handles and not is_number(value_of(after).aval)
            if is_other:
                self.moves[name] = self._place_left(name, after)
            end = value_of(after) if type(after) is Tracked else after
            self.all[name] = self._carry_of_name(name, end)
        for handle, value in state.written():
            if getattr(handle, "_view", None) is not None:
                raise NotRollable("a view is written, or what it shows")
            self.arrays[id(handle)] = handle
            self.all[id(handle)] = carry(value, handle._value, wrap(value))
        self._refuse_shared()

    def _place_left(self, name: Place, array: Any) -> Place:
        """The place that an array has left for another one (`before = now`), if nothing is written
        that has two names for a while."""
        left = [place for place, x in self.carried.names.items() if x is array]
        held = sum(x is array for x in self.names.values())
        is_gone = all(self.names.get(place) is not array for place in left)
        if not left or not is_gone or held != 1 or self.state.written():
            raise NotRollable(f"{name} is an array that has another name")
        return left[0]

    def _carry_of_name(self, name: Place, end: Any) -> Carry:
        before = self.carried.names[name]
        start = self.carried.starts[name]
        origin = self.carried.originals.get(name, before)
        moved = self.carried.extents.get(name, ())
        return carry(start, end, wrap(start) if type(origin) is Tracked else origin, moved)

    def binds_arrays(self, keys: Iterable[Place | int]) -> list[bool]:
        """Of those of these that are places of arrays: whether they have been bound."""
        carries = [self.all[key] for key in keys if not isinstance(key, int)]
        return [c.end is not c.start for c in carries if type(c.start.aval) is np.ndarray]

    def add(self, others: IterationCarries) -> None:
        """Carry what other iterations have given other values, too."""
        if others.fresh != self.fresh:
            raise NotRollable("some iterations bind an object anew")
        for key in others.all:
            if key in self.all:
                continue
            if not isinstance(key, int):
                self.all[key] = self._carry_of_name(key, self.carried.starts[key])
                self.kept.pop(key, None)
            elif key not in self.state.handles:
                raise NotRollable("some iterations write into an array that others bind")
            else:
                handle, value = self.state.handles[key]
                self.arrays[key] = handle
                self.all[key] = carry(value, value, None if value is None else wrap(value))
        self._refuse_shared()

    def _refuse_shared(self) -> None:
        """Refuse where one value may stand for two things, of which an iteration changes one."""
        starts = [carry.start for carry in self.all.values()]
        if len(set(starts)) < len(starts):
            raise NotRollable("an array is written, and its name bound to another")
        reached = [value for _, value in self.state.handles.values()]
        reached += [self.carried.starts[name] for name in self.carried.originals]
        for start in starts:
            if sum(value is start for value in reached) > 1:
                raise NotRollable("two arrays or names have the same value")
        changed = [self.names[name] for name in self.all if not isinstance(name, int)]
        arrays = [
            id(view_root(x))
            for x in changed
            if type(x) is Tracked and not is_number(value_of(x).aval)
        ]
        if len(set(arrays)) < len(arrays):
            raise NotRollable("two names have one array")

    def source(self, place: Place) -> Place | None:
        """The place whose array is in another one after the iteration; None if it is a new one."""
        if self.names.get(place) is self.carried.names[place]:
            return place
        return self.moves.get(place)

    def assign(self, results: Mapping[Place | int, Any], places: Places, frame: FrameType) -> None:
        """Give places and arrays their values after the loop."""
        named = {key: x for key, x in results.items() if not isinstance(key, int)}
        places.write(frame, {**self.kept, **named})
        for key, handle in self.arrays.items():
            write_value(handle, results[key])


def iterations_until_new(paths: Sequence[IterationCarries]) -> int:
    """After how many iterations, on any of these paths, places have no array or object from before
    the loop: what the loop puts there is another one."""
    moves = {place: source for path in paths for place, source in path.moves.items()}
    left, count = {*moves, *moves.values()}, 0
    while left:
        after = {place for place in left if any(path.source(place) in left for path in paths)}
        if after == left:
            raise NotRollable("an array from before the loop may stay")
        left, count = after, count + 1
    ends = [c.end for key, c in paths[0].all.items() if not isinstance(key, int)]
    has_new = any(type(end) is Value and np.ndim(end.aval) for end in ends)
    return max(count, has_new or bool(paths[0].fresh))


def carry(start: Value | None, end: Any, origin: Any, moved: tuple[int, ...] = ()) -> Carry:
    """A value that is carried, if it keeps its type, or has `moved` its extents by so much."""
    if type(start) is not Value:
        raise NotRollable("a view is carried")
    aval = operand_aval(end)
    if not (is_number(aval) or type(aval) is np.ndarray):
        raise NotRollable(f"a {type(aval).__name__} is carried")
    if (type(aval) is np.ndarray) != (type(start.aval) is np.ndarray):
        raise NotRollable("a number becomes an array")
    if type(aval) is np.ndarray and not aval.ndim:
        raise NotRollable("a 0-d array is carried")
    expected = type_of(start.aval)
    if moved:
        shape = tuple([n + by for n, by in zip(expected.shape, moved, strict=True)])
        expected = replace(expected, shape=shape)
    if type_of(aval) != expected:
        raise NotRollable("what is carried changes its type")
    return Carry(start, end, origin)
