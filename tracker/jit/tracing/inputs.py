"""What a traced function is given: the leaves of its call, and what it does to them.

Owns: `Inputs`, the values and handles that stand for the arguments and for what stands at places;
`Effects`, the writes that are still to be done to the caller's arrays and containers.

Invariant: while the function is traced, nothing is done to the caller's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracker.errors import UnsupportedError, message
from tracker.jit.guards.conditions import Flags
from tracker.jit.guards.constants import Compared, Static
from tracker.jit.guards.matching import spots_of
from tracker.jit.guards.signature import Array, Foreign, Scalar, Signature, Twin
from tracker.jit.guards.source import Spot
from tracker.jit.tracing.placeholder_swap import Containers, Known
from tracker.random.draw_ops import is_generator, is_random, stand_in
from tracker.support.array_copies import overlaps_itself, own_copy
from tracker.support.structs import record
from tracker.tape.escape import memory_of
from tracker.tape.lazy import Deferral
from tracker.tape.record import value_of, wrap
from tracker.tape.tracer import Stage, close
from tracker.tape.tracked import Tracked
from tracker.tape.value import Value, is_anything_due, leaf


@record()
class Write:
    """An array, by leaf number, that the function wrote into, and its handle in the trace; `leaf`
    is what that was at first."""

    number: int
    array: Any
    handle: Tracked
    leaf: Value

    def data(self) -> Any:
        return np.reshape(value_of(self.handle).data, self.array.shape)


@record()
class Effects:
    """What a traced function did to what it was given, still to be done to the caller's."""

    writes: list[Write]
    containers: Containers
    originals: dict[int, Any]  # the id of a handle -> the leaf that it stands for
    known: Known

    def detach(self) -> None:
        """What is written into is about to change: values that are computed later find a copy."""
        for write in self.writes if is_anything_due() else ():
            if write.leaf.data is write.array:
                write.leaf.form = own_copy(write.array)

    @property
    def entangled(self) -> bool:
        """Whether an array that was written into shares memory with another that was given, or its
        elements share it, or a list that was changed is another, too."""
        if self.containers.tangled:
            return True
        others = [(at, x) for at, x in self.originals.items() if isinstance(x, np.ndarray)]
        return any(
            overlaps_itself(write.array)
            or any(
                at != id(write.handle) and np.may_share_memory(x, write.array) for at, x in others
            )
            for write in self.writes
        )

    def carry_out(self) -> None:
        written = [write.data() for write in self.writes]  # all, before anything is changed
        self.detach()
        self.containers.carry_out(self.known.plain)
        for write, data in zip(self.writes, written, strict=True):
            write.array[...] = data


def is_input(x: Any) -> bool:
    """Whether an argument's leaf is traced (numbers and numeric arrays) or static."""
    if isinstance(x, np.ndarray):
        return x.dtype.kind in "biufc"
    if type(x) is int:
        return -(2**63) <= x < 2**63
    return isinstance(x, (bool, float, complex, np.bool_, np.number))


class Inputs:
    """The leaves of a call that are traced: their numbers, values, and handles.

    `given` are the numbers of arguments; arrays at places come after them, one for each array.
    """

    def __init__(
        self, call: Signature, leaves: Sequence[Any], own: int, deferral: Deferral | None
    ) -> None:
        self.given: list[int] = []
        self.values: list[Value] = []
        self.handles: list[Any] = []
        self.arrays = leaves
        self.whole = list(leaves)
        self.generators = [x for x in leaves if is_generator(x)]
        self.watched = [*self.generators, *(x for x in leaves if is_random(x))]
        recorders = {id(x): stand_in(x) for x in self.generators}
        for number, (x, shown) in enumerate(zip(leaves[:own], call.leaves, strict=False)):
            if is_input(x) and not isinstance(shown, (Static, Compared)):
                value = _private(x, deferral)
                self.given.append(number)
                self.values.append(value)
                self.handles.append(wrap(value))
                self.whole[number] = self.handles[-1]
            elif id(x) in recorders:
                self.whole[number] = recorders[id(x)]
        self.placed: dict[Value, int] = {}
        self.at_places: dict[int, Any] = recorders  # the id of an array -> its handle
        self.at_spots: dict[Spot, Any] = {}
        for number, spot in enumerate(spots_of(call), own):
            self._place(number, leaves[number], call.leaves[number], spot)

    def _place(self, number: int, x: Any, shown: Any, spot: Spot) -> None:
        if isinstance(shown, Twin):
            self.at_places.setdefault(id(x), self.whole[shown.leaf])
        elif isinstance(shown, (Array, Foreign, Scalar)):
            value = leaf(x)
            self.placed[value] = number
            self.whole[number] = wrap(value)
            if isinstance(shown, Scalar):
                self.at_spots[spot] = self.whole[number]
            else:
                self.at_places[id(x)] = self.whole[number]

    def apart(self, stage: Stage) -> tuple[int, ...]:
        """The numbers of what must share memory with nothing else that is read."""
        pairs = zip(self.given, self.values, strict=False)
        asked = [n for key, n in self.numbers().items() if key in stage.apart_asked]
        return tuple(dict.fromkeys([*(n for n, v in pairs if v in stage.apart), *asked]))

    def close(self) -> None:
        for value in (*self.values, *self.placed):
            close(value)

    def numbers(self) -> dict[int, int]:
        """The id of each handle -> the number of its leaf."""
        numbers = (*self.given, *self.placed.values())
        return {id(self.whole[number]): number for number in numbers}

    def originals(self) -> dict[int, Any]:
        """The id of each handle -> the leaf that it stands for."""
        pairs = zip(self.whole, self.arrays, strict=True)
        return {id(handle): x for handle, x in pairs if handle is not x}

    def flags(self, asked: Mapping[int, int]) -> tuple[Flags, ...]:
        """The conditions of a trace whose code asked for flags: by handle, for those in a mask."""
        numbers = self.numbers()
        return tuple(
            Flags(numbers[key], mask, self.arrays[numbers[key]].flags.num & mask)
            for key, mask in asked.items()
            if mask
        )

    def check_shapes(self) -> None:
        """Refuse a trace in which an array was given another shape: so is the caller's, then."""
        for handle, x in zip(self.whole, self.arrays, strict=True):
            if type(handle) is Tracked and isinstance(x, np.ndarray) and handle.shape != x.shape:
                raise UnsupportedError(
                    message(
                        f"the function gives an array that it was given, of shape {x.shape}, the "
                        f"shape {handle.shape}",
                        "Make a new array: x = x.reshape(shape), np.resize(x, shape)",
                    )
                )

    def check_memory(self, stage: Stage, outputs: Sequence[Any]) -> None:
        """Refuse a trace that gives back, by way of plain NumPy, an array that it was given."""
        numbers = self.numbers()
        if any(id(memory_of(x, stage)) in numbers for x in outputs):
            raise UnsupportedError(
                message(
                    "the function returns an array that it was given, by way of plain NumPy",
                    "np.array(x) is a copy; np.asarray and its kin in tracker.numpy are traced",
                )
            )

    def effects(self, containers: Containers, known: Known) -> Effects:
        return Effects(self.written(), containers, self.originals(), known)

    def written(self) -> list[Write]:
        """Which arrays hold something else than they did."""
        known = dict(zip(self.values, self.given, strict=True)) | self.placed
        return [
            Write(number, self.arrays[number], self.whole[number], value)
            for value, number in known.items()
            if value_of(self.whole[number]) is not value
        ]


def _private(x: Any, deferral: Deferral | None) -> Value:
    """A leaf for a number, or with its own copy of an array."""
    if not isinstance(x, np.ndarray):
        return leaf(x)
    put_off = None if deferral is None else deferral.leaf(x, own_copy)
    return leaf(own_copy(x)) if put_off is None else put_off
