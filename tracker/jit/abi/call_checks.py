"""The checks of a call's arguments, and the loads of their values into the plan's input slots.

Invariants: a failed check branches to `miss`, which releases what the call owns by then; a value
held by a list or dict is owned before Python code can run, because that code may drop it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tracker import tree
from tracker.jit.guards.captured_leaves import fields_by_holder, possible_holder_aliases
from tracker.jit.guards.class_guard import VERSION_TAG_OFFSET, ClassGuard
from tracker.jit.guards.constants import BIT_COMPARED_CLASSES, ConstantKey, StructuralKey, bits_of
from tracker.jit.guards.signature import (
    AliasLeaf,
    AppendOnlyLeaf,
    ArrayFlags,
    ArrayLeaf,
    Condition,
    ContainerOut,
    InputOut,
    Outputs,
    ScalarLeaf,
    Signature,
    SignaturePath,
    ViewOut,
    condition_paths,
    no_alias_pairs,
)
from tracker.jit.guards.source import (
    MISSING,
    AttributeSource,
    CellSource,
    ClassGuardSource,
    FunctionSource,
    ItemSource,
    NamespaceSource,
    ShadowSource,
    Source,
    TokenSource,
    TypeSource,
    child_path,
    source_children,
)
from tracker.jit.runtime.cpython_layout import (
    ALIGNED,
    CELL_CONTENTS,
    CONTIGUOUS,
    DATA,
    DESCR,
    DIMS,
    FLAGS,
    FUNCTION_FIELDS,
    ITEMS,
    NDIM,
    SIZE,
    STRIDES,
    TYPE,
    VALUE,
)
from tracker.jit.runtime.entry_writer import EntryWriter, is_plain_namedtuple, part_memory_type
from tracker.tree import Structure


class ArgumentChecks:
    """The checks for one signature; start at `check_arguments`.

    targets   holders of sources, and containers, that are updated, returned or compared
    """

    def __init__(self, w: EntryWriter, signature: Signature, outputs: Outputs) -> None:
        self.w = w
        self.signature = signature
        self.leaf_values: list[str] = []
        self.targets: dict[Source | SignaturePath, str] = {}
        out = outputs.leaves
        self._returned = {o.leaf for o in out if isinstance(o, (InputOut, ViewOut))}
        self._target_keys = {u.target for u in outputs.state_writes}
        self._target_keys |= {o.path for o in out if isinstance(o, ContainerOut)}
        self._distinct_pairs = no_alias_pairs(signature, outputs.state_writes)
        self._holders = possible_holder_aliases(signature) if self._target_keys else []
        self._recorded_nodes = condition_paths(outputs.conditions)
        self._recorded_nodes.update(*self._distinct_pairs, *signature.aliases)
        self._recorded_nodes.update(node for node, _ in self._holders)
        self._fields = fields_by_holder(signature)
        self._field_values: dict[Source, str] = {}
        self._may_run_python = any(map(_runs_python, signature.structures)) or any(
            isinstance(leaf, StructuralKey) for leaf in signature.leaves
        )

    def check_arguments(self) -> None:
        w, signature = self.w, self.signature
        count = w.let(f"and i64 %nargsf, {2**63 - 1}")
        w.check(w.equal("i64", count, signature.positional_count))
        self._check_keyword_names(signature.names)
        self._check_classes()
        first = signature.first_source
        for at, structure in enumerate(signature.structures[:first]):
            self._check_value(w.load("ptr", "%args", 8 * at), True, structure, (at, ()))
        sources = zip(signature.sources, signature.structures[first:], strict=True)
        for at, (source, structure) in enumerate(sources, first):
            self._check_source(source, structure, (at, ()))
        for one, other in signature.aliases:
            w.check(w.equal("ptr", self.targets[one], self.targets[other]))
        for one, other in self._distinct_pairs:
            w.check(w.let(f"icmp ne ptr {self.targets[one]}, {self.targets[other]}"))
        for node, holder in self._holders:
            w.check(w.let(f"icmp ne ptr {self.targets[node]}, {self._load_holder(holder)}"))

    def check_conditions(self, conditions: Iterable[Condition]) -> None:
        """Check the conditions between leaves (`jit/guards/signature.py`)."""
        w = self.w
        for each in conditions:
            if isinstance(each, ArrayFlags):
                flags = w.load("i32", self.leaf_values[each.leaf], FLAGS)
                w.check(w.equal("i32", w.let(f"and i32 {flags}, {each.mask}"), each.flags))
                continue
            found = [
                self.leaf_values[at] if isinstance(at, int) else self.targets[at]
                for at in each.members
            ]
            if len(found) == 2:
                w.check(w.let(f"icmp ne ptr {found[0]}, {found[1]}"))
                continue
            table = w.alloca(f"[{len(found)} x ptr]")
            for at, x in enumerate(found):
                w.store("ptr", x, table, 8 * at)
            w.check(w.let(f"call i1 @native.distinct(ptr {table}, i64 {len(found)})"))

    def _check_classes(self) -> None:
        """Class guards come first, because Python may run: no borrowed reference exists yet."""
        w = self.w
        for leaf in self.signature.leaves:
            if type(leaf) is not ClassGuard:
                continue
            cls = self._load_holder(leaf.cls)
            cell, check = w.objects.version_tag(leaf)
            tag = w.equal("i32", w.load("i32", cls, VERSION_TAG_OFFSET), w.load("i32", cell, 0))
            with w.unless(tag):
                self._require_true(check, cls)

    def _require_true(self, test: str, x: str) -> None:
        """Continue if a Python function returns True for an object."""
        w = self.w
        cell = w.alloca("ptr")
        w.store("ptr", x, cell, 0)
        answer = w.let(f"call ptr @PyObject_Vectorcall(ptr {test}, ptr {cell}, i64 1, ptr null)")
        w.check(w.is_not_null(answer), "fail")
        w.decref(answer)  # True and False are immortal
        w.check(w.equal("ptr", answer, w.objects.name(True)))

    def _check_source(self, source: Source, structure: Structure, node: SignaturePath) -> None:
        w = self.w
        if isinstance(source, NamespaceSource):
            self._check_dict_items(source)
            return
        x, is_owned = self._read_source(source)
        leaf = self.signature.leaves[len(self.leaf_values)] if structure.cls is None else None
        if type(leaf) is ConstantKey and leaf.value is MISSING:
            self.leaf_values.append(x)
            w.check(w.equal("ptr", x, "null"))
            return
        w.check(w.is_not_null(x))
        self._check_value(x, is_owned, structure, node)

    def _check_dict_items(self, source: Source) -> None:
        """A dict has the expected objects under some names."""
        w = self.w
        leaf = self.signature.leaves[len(self.leaf_values)]
        assert type(leaf) is StructuralKey
        pairs = w.objects.name(
            (MISSING, *itertools.chain(*zip(source.name, leaf.parts, strict=True)))
        )
        arguments = (
            f"ptr {self._load_holder(source.holder)}, ptr {pairs}, ptr {w.objects.dict_version()}"
        )
        w.check(w.let(f"call i1 @native.held({arguments})"))
        self.leaf_values.append("null")

    def _read_source(self, source: Source) -> tuple[str, bool]:
        """The object at a source, null if there is none, and whether the call holds it."""
        w = self.w
        holder = self._load_holder(source.holder)
        if source in self._target_keys:
            self._own(holder)
            self.targets[source] = holder
        if isinstance(source, CellSource):
            return w.load("ptr", holder, CELL_CONTENTS), False
        if isinstance(source, ItemSource):
            name = w.objects.name(source.name)
            return w.let(f"call ptr @PyDict_GetItem(ptr {holder}, ptr {name})"), False
        if isinstance(source, FunctionSource):
            return w.load("ptr", holder, FUNCTION_FIELDS[source.name]), False
        if isinstance(source, TypeSource):
            return w.load("ptr", holder, TYPE), False
        if isinstance(source, ShadowSource):
            for found in self._read_fields(holder, source.name):
                w.check(w.equal("ptr", found, "null"))
            return "null", False
        if isinstance(source, ClassGuardSource):
            return holder, False
        if source in self._fields.get(source.holder, ()):
            self._own_fields(holder, self._fields.pop(source.holder))
        if source in self._field_values:
            return self._field_values[source], True
        if isinstance(source, TokenSource):
            found = w.let(f"call ptr @PyObject_Vectorcall(ptr {holder}, ptr null, i64 0, ptr null)")
        elif isinstance(source, AttributeSource):
            name = w.objects.name(source.name)
            found = w.let(f"call ptr @native.attribute(ptr {holder}, ptr {name})")
        else:
            cell = w.alloca("ptr")
            w.emit(f"store ptr null, ptr {cell}")
            w.emit(f"call i32 @PyContextVar_Get(ptr {holder}, ptr null, ptr {cell})")
            found = w.load("ptr", cell, 0)
        w.hold_reference(found)
        return found, True

    def _own_fields(self, holder: str, fields: Sequence[Source]) -> None:
        """Read attributes of one object together. The call owns them at once, before Python code
        can change them."""
        names = tuple(source.name for source in fields)
        for source, x in zip(fields, self._read_fields(holder, names), strict=True):
            self._own(x)
            self._field_values[source] = x

    def _read_fields(self, holder: str, names: tuple[str, ...]) -> list[str]:
        """What the dict of an object has under some names, null where it has nothing."""
        w = self.w
        cell = w.objects.dict_version(len(names))
        arguments = f"ptr {holder}, ptr {w.objects.name(names)}, ptr {cell}"
        w.emit(f"call void @native.fields({arguments})")
        return [w.load("ptr", cell, 8 * at) for at in range(1, len(names) + 1)]

    def _load_holder(self, holder: ConstantKey) -> str:
        w = self.w
        if not holder.is_weak:
            return w.objects.name(holder.value)
        address = w.load("ptr", w.objects.weak_cell(holder), 0)
        w.check(w.is_not_null(address))
        return address

    def _check_keyword_names(self, names: tuple[str, ...]) -> None:
        w = self.w
        if not names:
            with w.unless(w.let("icmp eq ptr %kwnames, null")):
                w.check(w.equal("i64", w.load("i64", "%kwnames", SIZE), 0))
            return
        w.check(w.let("icmp ne ptr %kwnames, null"))
        w.check(w.equal("i64", w.load("i64", "%kwnames", SIZE), len(names)))
        for at, name in enumerate(names):
            self._check_equal(w.load("ptr", "%kwnames", ITEMS + 8 * at), name)

    def _check_equal(self, x: str, expected: Any) -> None:
        """`x` is the expected object, or equal to it and of its type (text, bytes, integers)."""
        w, name = self.w, self.w.objects.name(expected)
        with w.unless(w.equal("ptr", x, name)):
            w.check(w.let(f"call i1 @native.equal(ptr {x}, ptr {name})"))

    def _check_type(self, x: str, cls: type) -> None:
        w = self.w
        w.check(w.equal("ptr", w.load("ptr", x, TYPE), w.objects.name(cls)))

    def _check_value(
        self, x: str, is_kept_alive: bool, structure: Structure, node: SignaturePath
    ) -> None:
        """Check a value; `is_kept_alive` if its holder keeps it alive during the call."""
        cls = structure.cls
        if node in self._target_keys or node in self._recorded_nodes:
            self.targets[node] = x
        if not is_kept_alive and (
            node in self._target_keys or (self._may_run_python and cls is not None)
        ):
            self._own(x)
        if cls is None:
            self._check_leaf(x, is_kept_alive)
            return
        self._check_type(x, cls)
        if cls is tuple or is_plain_namedtuple(structure):
            self._check_sequence(x, structure, self.w.field_address(x, ITEMS), is_kept_alive, node)
        elif cls is list:
            self._check_sequence(x, structure, "", False, node)
        elif _is_plain_dict(structure):
            self._check_dict(x, structure, node)
        else:
            self._check_custom_container(x, structure, node)

    def _own(self, x: str) -> None:
        self.w.incref(x)
        self.w.hold_reference(x)

    def _check_sequence(
        self, x: str, structure: Structure, items: str, is_kept_alive: bool, node: SignaturePath
    ) -> None:
        w = self.w
        w.check(w.equal("i64", w.load("i64", x, SIZE), len(structure.children)))
        for at, child in enumerate(structure.children):
            base = items or w.load("ptr", x, ITEMS)
            self._check_value(
                w.load("ptr", base, 8 * at), is_kept_alive, child, child_path(node, at)
            )

    def _check_dict(self, x: str, structure: Structure, node: SignaturePath) -> None:
        w = self.w
        w.check(w.equal("i64", w.load("i64", x, SIZE), len(structure.names)))
        cursor, key, value = (w.alloca("ptr") for _ in range(3))
        w.emit(f"store i64 0, ptr {cursor}")
        named = zip(structure.names, structure.children, strict=True)
        for at, (name, child) in enumerate(named):
            more = w.let(f"call i32 @PyDict_Next(ptr {x}, ptr {cursor}, ptr {key}, ptr {value})")
            w.check(w.let(f"icmp ne i32 {more}, 0"))
            self._check_equal(w.load("ptr", key, 0), name)
            self._check_value(w.load("ptr", value, 0), False, child, child_path(node, at))

    def _check_custom_container(self, x: str, structure: Structure, node: SignaturePath) -> None:
        """A container that only Python can open: a function returns its children in a tuple."""
        w = self.w
        cell = w.alloca("ptr")
        w.emit(f"store ptr {x}, ptr {cell}")
        count = len(structure.children)
        opener = w.objects.name(functools.partial(_children_or_mismatch, structure.names, count))
        kids = w.let(f"call ptr @PyObject_Vectorcall(ptr {opener}, ptr {cell}, i64 1, ptr null)")
        w.check(w.is_not_null(kids), "fail")
        w.hold_reference(kids)
        self._check_sequence(kids, structure, w.field_address(kids, ITEMS), True, node)

    def _check_leaf(self, x: str, is_kept_alive: bool) -> None:
        number = len(self.leaf_values)
        leaf, slot = self.signature.leaves[number], self.signature.offsets[number]
        self.leaf_values.append(x)
        if not is_kept_alive and (type(leaf) is ArrayLeaf or number in self._returned):
            self._own(x)
        if type(leaf) is ArrayLeaf:
            self._check_type(x, np.ndarray)
            self._check_array(x, leaf, slot)
        elif type(leaf) is ScalarLeaf:
            self._read_scalar(x, leaf, slot)
        elif type(leaf) is ConstantKey:
            self._check_constant(x, leaf)
        elif type(leaf) is AliasLeaf:
            self.w.check(self.w.equal("ptr", x, self.leaf_values[leaf.leaf]))
        elif type(leaf) is StructuralKey:
            self._check_by_python(x, leaf)
        elif type(leaf) is AppendOnlyLeaf:
            self._check_type(x, list)
        elif type(leaf) is ClassGuard:
            pass  # see `_check_classes`
        else:
            raise ValueError(f"a native entry cannot take {leaf}")

    def check_capture(self, array: np.ndarray[Any, Any], slot: int) -> None:
        """A known array: its dtype, shape and strides are unchanged."""
        strides = None if array.flags.c_contiguous else array.strides
        self._check_array(
            self.w.objects.name(array), ArrayLeaf(array.dtype, array.shape, strides), slot
        )

    def _check_array(self, x: str, leaf: ArrayLeaf, slot: int) -> None:
        w = self.w
        required = CONTIGUOUS | ALIGNED if leaf.strides is None else ALIGNED
        flags = w.let(f"and i32 {w.load('i32', x, FLAGS)}, {required}")
        rank = w.equal("i32", w.load("i32", x, NDIM), len(leaf.shape))
        w.check(w.all_of([rank, w.equal("i32", flags, required)]))
        self._check_dtype(w.load("ptr", x, DESCR), leaf.dtype)
        self._check_extents(x, DIMS, leaf.shape)
        if leaf.strides is not None:
            self._check_extents(x, STRIDES, leaf.strides)
        w.store("ptr", w.load("ptr", x, DATA), "%slots", 8 * slot)

    def _check_dtype(self, descr: str, dtype: np.dtype[Any]) -> None:
        w = self.w
        with w.unless(w.equal("ptr", descr, w.objects.name(np.dtype(dtype.type)))):
            call = f"@native.dtype(ptr {descr}, i8 {ord(dtype.kind)}, i64 {dtype.itemsize})"
            w.check(w.let(f"call i1 {call}"))

    def _check_extents(self, x: str, offset: int, expected: tuple[int, ...]) -> None:
        if not expected:
            return
        w = self.w
        base = w.load("ptr", x, offset)
        w.check(
            w.all_of(
                [w.equal("i64", w.load("i64", base, 8 * k), n) for k, n in enumerate(expected)]
            )
        )

    def _read_scalar(self, x: str, leaf: ScalarLeaf, slot: int) -> None:
        w = self.w
        self._check_type(x, leaf.cls)
        if leaf.cls is int:
            self._read_int(x, slot)
            return
        type_ = part_memory_type(leaf.dtype)
        size = leaf.dtype.itemsize // leaf.slots
        for part in range(leaf.slots):
            value = w.load(type_, x, VALUE + part * size)
            self._store_widened(value, type_, leaf.dtype, slot + part)

    def _store_widened(self, value: str, type_: str, dtype: np.dtype[Any], slot: int) -> None:
        w = self.w
        if dtype.kind in "biu" and type_ != "i64":
            value = w.let(f"{'sext' if dtype.kind == 'i' else 'zext'} {type_} {value} to i64")
            type_ = "i64"
        w.store(type_, value, "%slots", 8 * slot)

    def _read_int(self, x: str, slot: int) -> None:
        w = self.w
        cell = w.alloca("i32")
        value = w.let(f"call i64 @PyLong_AsLongLongAndOverflow(ptr {x}, ptr {cell})")
        w.check(w.equal("i32", w.load("i32", cell, 0), 0))
        w.store("i64", value, "%slots", 8 * slot)

    def _check_constant(self, x: str, leaf: ConstantKey) -> None:
        w = self.w
        value = leaf.value
        if type(value) in BIT_COMPARED_CLASSES:
            self._check_type(x, type(value))
            self._check_bits(x, bits_of(value))
        elif leaf.is_by_value:
            self._check_equal(x, value)
        elif leaf.is_weak:
            w.check(w.equal("ptr", x, w.load("ptr", w.objects.weak_cell(leaf), 0)))
        else:
            w.check(w.equal("ptr", x, w.objects.name(value)))

    def _check_bits(self, x: str, bits: bytes) -> None:
        """The number in `x` has these bits."""
        w = self.w
        step = min(8, len(bits))
        for at in range(0, len(bits), step):
            part = int.from_bytes(bits[at : at + step], "little")
            type_ = f"i{8 * step}"
            w.check(w.equal(type_, w.load(type_, x, VALUE + at), part))

    def _check_by_python(self, x: str, leaf: StructuralKey) -> None:
        """A large container, or a value: Python compares it, unless it is the same object."""
        w, test = self.w, self.w.objects.name(functools.partial(leaf.holds))
        if leaf.immutable_object is None:
            self._require_true(test, x)
            return
        with w.unless(w.equal("ptr", x, w.objects.name(leaf.immutable_object))):
            self._require_true(test, x)


def _is_plain_dict(structure: Structure) -> bool:
    """A dict with text keys, which compare without running Python code."""
    return structure.cls is dict and all(type(name) is str for name in structure.names)


def _runs_python(structure: Structure) -> bool:
    cls = structure.cls
    if cls is None:
        return False
    native = cls in (tuple, list) or is_plain_namedtuple(structure) or _is_plain_dict(structure)
    return not native or any(map(_runs_python, structure.children))


def _children_or_mismatch(names: tuple[Any, ...], count: int, x: Any) -> tuple[Any, ...]:
    """The children of a container with these names; a tuple of another length if it has others."""
    found = tree.children_or_attributes(x) or source_children(x)
    return found[1] if found is not None and found[0] == names else (None,) * (count + 1)
