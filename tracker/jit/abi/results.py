"""Allocating an entry's results, and building the value to return.

Invariants: every new reference is listed in `%made` until it has moved into its container, so that
a failure anywhere frees everything; containers are made before their children.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker import tree
from tracker.jit.abi.call_checks import ArgumentChecks
from tracker.jit.guards.signature import (
    AliasOut,
    ArrayOut,
    ConstantOut,
    ContainerOut,
    InputOut,
    OutLeaf,
    Outputs,
    ScalarOut,
    ViewOut,
)
from tracker.jit.runtime.cpython_layout import BIG_BYTES, DATA, FLAGS, ITEMS, VALUE, WRITEABLE
from tracker.jit.runtime.entry_writer import is_plain_namedtuple, part_memory_type
from tracker.tree import Structure


class ResultBuilder:
    """The allocation of results before the plan runs, and the building of the value after."""

    def __init__(self, inputs: ArgumentChecks, outputs: Outputs, first: int) -> None:
        self.w, self.outputs = inputs.w, outputs
        self._leaf_values, self._targets = inputs.leaf_values, inputs.targets
        self._slots = [first + offset for offset in outputs.offsets]
        self._arrays: dict[int, tuple[str, int]] = {}
        self._objects: list[str] = []
        self._shared = {leaf.leaf for leaf in outputs.leaves if isinstance(leaf, AliasOut)}

    def allocate(self) -> None:
        for number, leaf in enumerate(self.outputs.leaves):
            if type(leaf) is ArrayOut:
                self._arrays[number] = self.allocate_array(leaf, self._slots[number])

    def allocate_array(self, leaf: ArrayOut, slot: int) -> tuple[str, int]:
        """A new array, its data address in a slot: (name, slot in `%made`)."""
        w = self.w
        dims, strides = self._store_extents(leaf.shape), self._store_extents(leaf.strides or ())
        descr = w.objects.name(np.dtype(leaf.dtype.type))
        w.incref(descr)
        rank = f"i32 {len(leaf.shape)}"
        is_big = math.prod(leaf.shape) * leaf.dtype.itemsize >= BIG_BYTES
        maker = w.objects.array_constructor(leaf.strides is not None, is_big)
        if leaf.strides is None:
            made = w.new_reference(f"call ptr {maker}({rank}, ptr {dims}, ptr {descr}, i32 0)")
        else:
            made = w.new_reference(
                f"call ptr {maker}(ptr {w.objects.name(np.ndarray)}, ptr {descr}, {rank}, "
                f"ptr {dims}, ptr {strides}, ptr null, i32 0, ptr null)"
            )
        w.store("ptr", w.load("ptr", made[0], DATA), "%slots", 8 * slot)
        return made

    def _store_extents(self, extents: Sequence[int]) -> str:
        """The address of these numbers; null if there are none."""
        if not extents:
            return "null"
        cells = self.w.alloca(f"[{len(extents)} x i64]")
        for axis, extent in enumerate(extents):
            self.w.store("i64", str(extent), cells, 8 * axis)
        return cells

    def build(self) -> str:
        """The reference to return."""
        value = self._build_value(self.outputs.structure)
        return (self._register_owned(value) if self.outputs.state_writes else value)[0]

    def build_owned(self, structure: Structure) -> tuple[str, int]:
        """A value of the next output leaves, owned until it is transferred."""
        return self._register_owned(self._build_value(structure))

    def _build_value(self, structure: Structure) -> tuple[str, int | None]:
        cls = structure.cls
        if cls is None:
            return self._build_leaf()
        w, count = self.w, len(structure.children)
        if cls is tuple:
            made = w.new_reference(f"call ptr @PyTuple_New(i64 {count})")
            self._fill(structure, w.field_address(made[0], ITEMS))
        elif is_plain_namedtuple(structure):
            made = w.new_reference(
                f"call ptr @PyType_GenericAlloc(ptr {w.objects.name(cls)}, i64 {count})"
            )
            self._fill(structure, w.field_address(made[0], ITEMS))
        elif cls is list:
            made = w.new_reference(f"call ptr @PyList_New(i64 {count})")
            self._fill(structure, w.load("ptr", made[0], ITEMS) if count else "")
        elif cls is dict:
            made = w.new_reference("call ptr @PyDict_New()")
            self._fill_dict(structure, made[0])
        else:
            made = self._build_by_python(structure)
        return made

    def _fill(self, structure: Structure, items: str) -> None:
        """Move children into a container's cells, each as soon as it is made."""
        for at, child in enumerate(structure.children):
            ref, made_slot = self._build_value(child)
            self.w.store("ptr", ref, items, 8 * at)
            if made_slot is not None:
                self.w.transfer(made_slot)

    def _fill_dict(self, structure: Structure, made: str) -> None:
        w = self.w
        for name, child in zip(structure.names, structure.children, strict=True):
            ref, made_slot = self._register_owned(self._build_value(child))
            key = w.objects.name(name)
            status = w.let(f"call i32 @PyDict_SetItem(ptr {made}, ptr {key}, ptr {ref})")
            w.check(w.equal("i32", status, 0), "fail")
            w.transfer(made_slot)
            w.decref(ref)

    def _register_owned(self, value: tuple[str, int | None]) -> tuple[str, int]:
        """Register a reference that could not fail, before something that can."""
        ref, made_slot = value
        if made_slot is not None:
            return ref, made_slot
        w = self.w
        w.store("ptr", ref, "%made", 8 * w.made_count)
        w.made_count += 1
        return ref, w.made_count - 1

    def _build_by_python(self, structure: Structure) -> tuple[str, int]:
        """A container that Python builds from its children."""
        w, count = self.w, len(structure.children)
        cells = w.alloca(f"[{max(1, count)} x ptr]")
        kids = [self._register_owned(self._build_value(child)) for child in structure.children]
        for at, (ref, _) in enumerate(kids):
            w.store("ptr", ref, cells, 8 * at)
        builder = w.objects.name(functools.partial(_rebuild, self.outputs.build, structure))
        made = w.new_reference(
            f"call ptr @PyObject_Vectorcall(ptr {builder}, ptr {cells}, i64 {count}, ptr null)"
        )
        for ref, made_slot in kids:
            w.transfer(made_slot)
            w.decref(ref)
        return made

    def _build_leaf(self) -> tuple[str, int | None]:
        number = len(self._objects)
        leaf = self.outputs.leaves[number]
        made: tuple[str, int | None]
        if type(leaf) is ArrayOut:
            made = self._arrays[number]
        elif type(leaf) is ScalarOut:
            made = self._build_scalar(leaf, self._slots[number])
        elif type(leaf) is ViewOut:
            made = self._build_view(leaf)
        else:
            made = self._existing_object(leaf), None
        self._objects.append(made[0])
        if number in self._shared:
            self.w.incref(made[0])
            self.w.hold_reference(made[0])
        return made

    def _build_view(self, leaf: ViewOut) -> tuple[str, int]:
        """An array over the memory of an input."""
        w, base = self.w, self._leaf_values[leaf.leaf]
        dims, strides = self._store_extents(leaf.shape), self._store_extents(leaf.strides)
        descr = w.objects.name(np.dtype(leaf.dtype.type))
        w.incref(descr)
        data = w.field_address(w.load("ptr", base, DATA), leaf.offset)
        writeable = WRITEABLE if leaf.writeable else 0
        flags = w.let(f"and i32 {w.load('i32', base, FLAGS)}, {writeable}")
        made = w.new_reference(
            f"call ptr @PyArray_NewFromDescr(ptr {w.objects.name(np.ndarray)}, ptr {descr}, "
            f"i32 {len(leaf.shape)}, ptr {dims}, ptr {strides}, ptr {data}, i32 {flags}, "
            "ptr null)"
        )
        w.incref(base)
        status = w.let(f"call i32 @PyArray_SetBaseObject(ptr {made[0]}, ptr {base})")
        w.check(w.equal("i32", status, 0), "fail")
        return made

    def _existing_object(self, leaf: OutLeaf) -> str:
        """A new reference to an existing object."""
        if isinstance(leaf, ConstantOut):
            ref = self.w.objects.name(leaf.value)
        elif isinstance(leaf, InputOut):
            ref = self._leaf_values[leaf.leaf]
        elif isinstance(leaf, ContainerOut):
            ref = self._targets[leaf.path]
        else:
            assert isinstance(leaf, AliasOut)
            ref = self._objects[leaf.leaf]
        self.w.incref(ref)
        return ref

    def _build_scalar(self, leaf: ScalarOut, slot: int) -> tuple[str, int | None]:
        w, cls = self.w, leaf.cls
        type_ = part_memory_type(leaf.dtype)
        if cls in (bool, np.bool_):
            return self._build_bool(cls, slot), None
        parts = [w.load(type_, "%slots", 8 * (slot + part)) for part in range(leaf.slots)]
        if cls is float:
            return w.new_reference(f"call ptr @PyFloat_FromDouble(double {parts[0]})")
        if cls is int:
            return w.new_reference(f"call ptr @PyLong_FromLongLong(i64 {parts[0]})")
        if cls is complex:
            values = ", ".join(f"double {part}" for part in parts)
            return w.new_reference(f"call ptr @PyComplex_FromDoubles({values})")
        made = w.new_reference(
            f"call ptr {w.objects.allocator(cls)}(ptr {w.objects.name(cls)}, i64 0)"
        )
        size = leaf.dtype.itemsize // leaf.slots
        for part, value in enumerate(parts):
            w.store(type_, value, made[0], VALUE + part * size)
        return made

    def _build_bool(self, cls: type, slot: int) -> str:
        w = self.w
        on = w.let(f"icmp ne i64 {w.load('i64', '%slots', 8 * slot)}, 0")
        true, false = (w.objects.name(cls(value)) for value in (1, 0))
        ref = w.let(f"select i1 {on}, ptr {true}, ptr {false}")
        w.incref(ref)
        return ref


def _rebuild(
    build: Callable[[Structure, Sequence[Any]], Any] | None, structure: Structure, *children: Any
) -> Any:
    """A container around its children, by the caller's function or by `tree.rebuild`."""
    if build is not None:
        return build(structure, children)
    assert structure.cls is not None
    return tree.rebuild(structure.cls, structure.names, children)
