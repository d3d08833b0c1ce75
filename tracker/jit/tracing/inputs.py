"""The tracked values that stand for the leaves of a call while it is traced.

`TracedInputs` has one for each argument and each captured array or promoted number;
`PendingEffects` are the writes still to be applied to the caller's arrays and containers.

Invariant: while a function is traced, nothing is written to the caller's objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracker import tree
from tracker.errors import UnsupportedError
from tracker.jit.guards.captured_leaves import captured_leaves
from tracker.jit.guards.signature import (
    AliasLeaf,
    ArrayFlags,
    ArrayLeaf,
    ScalarLeaf,
    Signature,
    UnsupportedLeaf,
)
from tracker.jit.guards.source import SourcePath
from tracker.jit.tracing.placeholder_swap import ArgumentContainers, PlainValues
from tracker.random.draw_ops import is_numpy_generator, is_python_random, recording_generator
from tracker.support.array_copies import copy_with_layout, overlaps_itself
from tracker.support.structs import record
from tracker.tape.observers import close_leaf
from tracker.tape.record import value_of, wrap
from tracker.tape.tracing.escape import export_owner
from tracker.tape.tracing.lazy import LazyScheduler
from tracker.tape.tracing.tracer import Tracer
from tracker.tape.tracked import Tracked
from tracker.tape.value import Value, has_lazy_values, leaf


@record()
class ArgumentWrite:
    """An array, by leaf number, that the function wrote into, its tracked array, and the value that
    this had at first."""

    leaf_number: int
    array: Any
    handle: Tracked
    initial_value: Value

    def data(self) -> Any:
        return np.reshape(value_of(self.handle).data, self.array.shape)


@record()
class PendingEffects:
    """What a traced function did to its arguments, still to be done to the caller's."""

    writes: list[ArgumentWrite]
    containers: ArgumentContainers
    originals: dict[int, Any]  # by id of the tracked array
    plain_values: PlainValues

    def detach_lazy_values(self) -> None:
        """Give lazy values that may be computed later a copy of the arrays about to be written."""
        for write in self.writes if has_lazy_values() else ():
            if write.initial_value.data is write.array:
                write.initial_value.aval = copy_with_layout(write.array)

    @property
    def has_aliases(self) -> bool:
        """Whether a written array shares memory with another leaf, or its elements share memory, or
        a changed container was passed twice."""
        if self.containers.has_aliases:
            return True
        others = [(at, x) for at, x in self.originals.items() if isinstance(x, np.ndarray)]
        return any(
            overlaps_itself(write.array)
            or any(
                at != id(write.handle) and np.may_share_memory(x, write.array) for at, x in others
            )
            for write in self.writes
        )

    def apply(self) -> None:
        written = [write.data() for write in self.writes]  # all results before any write
        self.detach_lazy_values()
        self.containers.apply(self.plain_values.get)
        for write, data in zip(self.writes, written, strict=True):
            write.array[...] = data


class TracedInputs:
    """The traced leaves of a call: values with their leaf numbers. Captured values, one for each
    array, come after those of the arguments."""

    def __init__(
        self,
        call: Signature,
        leaves: Sequence[Any],
        argument_count: int,
        scheduler: LazyScheduler | None,
    ) -> None:
        self.argument_values: dict[Value, int] = {}
        self.leaves = leaves
        self.traced_leaves = list(leaves)
        self.generators = [x for x in leaves if is_numpy_generator(x)]
        self.random_sources = [*self.generators, *(x for x in leaves if is_python_random(x))]
        recorders = {id(x): recording_generator(x) for x in self.generators}
        for number, (x, spec) in enumerate(zip(leaves[:argument_count], call.leaves, strict=False)):
            is_odd = isinstance(spec, UnsupportedLeaf) and type(x) is not int
            if isinstance(spec, (ArrayLeaf, ScalarLeaf)) or (is_odd and tree.is_numeric(x)):
                value = _copied_leaf(x, scheduler)
                self.argument_values[value] = number
                self.traced_leaves[number] = wrap(value)
            elif id(x) in recorders:
                self.traced_leaves[number] = recorders[id(x)]
        self.captured_values: dict[Value, int] = {}
        self.handles_by_id: dict[int, Any] = recorders  # by id of the captured array
        self.handles_by_path: dict[SourcePath, Any] = {}
        for number, path in enumerate(captured_leaves(call), argument_count):
            self._add_capture(number, leaves[number], call.leaves[number], path)

    def _add_capture(self, number: int, x: Any, spec: Any, path: SourcePath) -> None:
        if isinstance(spec, AliasLeaf):
            self.handles_by_id.setdefault(id(x), self.traced_leaves[spec.leaf])
        elif isinstance(spec, (ArrayLeaf, UnsupportedLeaf, ScalarLeaf)):
            value = leaf(x)
            self.captured_values[value] = number
            self.traced_leaves[number] = wrap(value)
            if isinstance(spec, ScalarLeaf):
                self.handles_by_path[path] = self.traced_leaves[number]
            else:
                self.handles_by_id[id(x)] = self.traced_leaves[number]

    def no_alias_numbers(self, tracer: Tracer) -> tuple[int, ...]:
        """The leaf numbers of arrays that must share memory with no other that is read."""
        guards, arguments = tracer.guards, self.argument_values.items()
        found = [number for value, number in arguments if value in guards.no_alias]
        found += [n for key, n in self.numbers_by_handle().items() if key in guards.alias_queries]
        return tuple(dict.fromkeys(found))

    def close(self) -> None:
        for value in (*self.argument_values, *self.captured_values):
            close_leaf(value)

    def numbers_by_handle(self) -> dict[int, int]:
        """The leaf number of each tracked array, by its id."""
        numbers = (*self.argument_values.values(), *self.captured_values.values())
        return {id(self.traced_leaves[number]): number for number in numbers}

    def originals(self) -> dict[int, Any]:
        """The leaf that each tracked array stands for, by its id."""
        pairs = zip(self.traced_leaves, self.leaves, strict=True)
        return {id(handle): x for handle, x in pairs if handle is not x}

    def flag_conditions(self, masks: Mapping[int, int]) -> tuple[ArrayFlags, ...]:
        """Conditions on the array flags that traced code has read: a mask for each tracked array,
        by its id."""
        numbers = self.numbers_by_handle()
        return tuple(
            ArrayFlags(numbers[key], mask, self.leaves[numbers[key]].flags.num & mask)
            for key, mask in masks.items()
            if mask
        )

    def check_shapes(self) -> None:
        """Refuse a trace that assigned another shape to an argument."""
        for handle, x in zip(self.traced_leaves, self.leaves, strict=True):
            if type(handle) is Tracked and isinstance(x, np.ndarray) and handle.shape != x.shape:
                raise UnsupportedError(
                    f"the function gives an array that it was given, of shape {x.shape}, the "
                    f"shape {handle.shape}",
                    "Make a new array: x = x.reshape(shape), np.resize(x, shape)",
                )

    def check_returned_memory(self, tracer: Tracer, outputs: Sequence[Any]) -> None:
        """Refuse a trace that returns an argument through plain NumPy."""
        numbers = self.numbers_by_handle()
        if any(id(export_owner(x, tracer)) in numbers for x in outputs):
            raise UnsupportedError(
                "the function returns an array that it was given, by way of plain NumPy",
                "np.array(x) is a copy; np.asarray and its kin in tracker.numpy are traced",
            )

    def effects(self, containers: ArgumentContainers, known: PlainValues) -> PendingEffects:
        return PendingEffects(self.argument_writes(), containers, self.originals(), known)

    def argument_writes(self) -> list[ArgumentWrite]:
        """The arrays that hold another value than at first."""
        known = self.argument_values | self.captured_values
        return [
            ArgumentWrite(number, self.leaves[number], self.traced_leaves[number], value)
            for value, number in known.items()
            if value_of(self.traced_leaves[number]) is not value
        ]


def _copied_leaf(x: Any, scheduler: LazyScheduler | None) -> Value:
    """A leaf for a number, or with a copy of an array; copied lazily, if possible."""
    if not isinstance(x, np.ndarray):
        return leaf(x)
    put_off = None if scheduler is None else scheduler.lazy_leaf(x, copy_with_layout)
    return leaf(copy_with_layout(x)) if put_off is None else put_off
