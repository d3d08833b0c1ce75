"""Building the text of a call entry: lines, and symbols for Python objects.

`EntryWriter` builds the text of one function; `ObjectSymbols` names the objects that it uses.

Invariant: the text names objects and functions, and holds no addresses.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tracker.jit.guards.class_guard import ClassGuard, ClassGuardCheck
from tracker.jit.guards.constants import ConstantKey
from tracker.jit.llvm.text_writer import TextWriter
from tracker.tree import Structure, is_namedtuple

ARRAY_CONSTRUCTORS = {  # by (has strides of its own, is large)
    (False, False): "PyArray_Empty",
    (True, False): "PyArray_NewFromDescr",
    (False, True): "native.empty",
    (True, True): "native.big",
}
_CONSTRUCTOR_PARAMETERS = {
    False: "i32, ptr, ptr, i32",
    True: "ptr, ptr, i32, ptr, ptr, ptr, i32, ptr",
}
_FLOAT_TYPES = {2: "i16", 4: "float", 8: "double"}


class ObjectSymbols:
    """The Python objects that a text refers to by name, in order of first use.

    `kept_alive` are named by their own address. `weakly_held` are known by identity only: the name
    is that of a cell with the address, which is cleared when the object dies.
    """

    def __init__(self) -> None:
        self.kept_alive: list[Any] = []
        self.weakly_held: list[ConstantKey] = []
        self.allocators: list[type] = []
        self.constructors: list[tuple[bool, bool]] = []  # see ARRAY_CONSTRUCTORS
        self.class_checks: list[ClassGuardCheck] = []
        self.dict_versions = 0
        self._names: dict[int, str] = {}

    def name(self, thing: Any) -> str:
        """The symbol of an object, which is kept alive."""
        known = self._names.get(id(thing))
        if known is None:
            known = self._names[id(thing)] = f"@obj.{len(self.kept_alive)}"
            self.kept_alive.append(thing)
        return known

    def weak_cell(self, static: ConstantKey) -> str:
        """The symbol of a cell with the address of a constant leaf's object."""
        self.weakly_held.append(static)
        return f"@cell.{len(self.weakly_held) - 1}"

    def version_tag(self, leaf: ClassGuard) -> tuple[str, str]:
        """The symbols of the cell with a class's version tag, and of the function that compares the
        class again."""
        self.class_checks.append(ClassGuardCheck(leaf))
        return f"@tag.{len(self.class_checks) - 1}", self.name(self.class_checks[-1])

    def dict_version(self, values: int = 0) -> str:
        """The symbol of a cell with the version of a dict, and of some more behind it with values;
        all zero at first."""
        self.dict_versions += 1 + values
        return f"@version.{self.dict_versions - 1 - values}"

    def allocator(self, cls: type) -> str:
        """The symbol of a NumPy scalar class's `tp_alloc`."""
        if cls not in self.allocators:
            self.allocators.append(cls)
        return f"@alloc.{self.allocators.index(cls)}"

    def array_constructor(self, has_strides: bool, is_big: bool) -> str:
        """The symbol of the function that allocates an array."""
        self.constructors.append((has_strides, is_big))
        return f"@maker.{len(self.constructors) - 1}"

    def declarations(self) -> str:
        lines = ["%PyObject = type opaque"]
        lines += [f"@obj.{n} = external global %PyObject" for n in range(len(self.kept_alive))]
        lines += [f"@cell.{n} = external global ptr" for n in range(len(self.weakly_held))]
        lines += [f"@version.{n} = external global i64" for n in range(self.dict_versions)]
        lines += [f"@tag.{n} = external global i32" for n in range(len(self.class_checks))]
        lines += [f"declare ptr @alloc.{n}(ptr, i64)" for n in range(len(self.allocators))]
        lines += [
            f"declare ptr @maker.{n}({_CONSTRUCTOR_PARAMETERS[s]})"
            for n, (s, _) in enumerate(self.constructors)
        ]
        return "\n".join(lines)


class EntryWriter(TextWriter):
    """The text of one function; a failed check branches to `miss`."""

    def __init__(self, objects: ObjectSymbols) -> None:
        super().__init__()
        self.allocas: list[str] = []
        self.objects = objects
        self.held_count = 0
        self.made_count = 0

    def alloca(self, type_: str) -> str:
        """A cell on the stack, made in the first block whatever the place."""
        name = f"%a{len(self.allocas)}"
        self.allocas.append(f"  {name} = alloca {type_}")
        return name

    def new_label(self) -> str:
        return f"b{self.fresh_number()}"

    def branch(self, condition: str, yes: str, no: str) -> None:
        self.emit(f"br i1 {condition}, label %{yes}, label %{no}")

    def check(self, condition: str, otherwise: str = "miss") -> None:
        """Continue if the condition holds."""
        then = self.new_label()
        self.branch(condition, then, otherwise)
        self.label(then)

    @contextlib.contextmanager
    def unless(self, condition: str) -> Iterator[None]:
        """The lines inside run only if the condition does not hold."""
        other, after = self.new_label(), self.new_label()
        self.branch(condition, after, other)
        self.label(other)
        yield
        self.emit(f"br label %{after}")
        self.label(after)

    def load(self, type_: str, base: str, offset: int) -> str:
        return self.let(f"load {type_}, ptr {self.field_address(base, offset)}")

    def field_address(self, base: str, offset: int) -> str:
        return self.let(f"getelementptr i8, ptr {base}, i64 {offset}") if offset else base

    def store(self, type_: str, value: str, base: str, offset: int) -> None:
        self.emit(f"store {type_} {value}, ptr {self.field_address(base, offset)}")

    def incref(self, ref: str) -> None:
        self.emit(f"call void @Py_IncRef(ptr {ref})")

    def decref(self, ref: str) -> None:
        self.emit(f"call void @Py_DecRef(ptr {ref})")

    def is_not_null(self, ref: str) -> str:
        return self.let(f"icmp ne ptr {ref}, null")

    def equal(self, type_: str, a: str, b: str | int) -> str:
        return self.let(f"icmp eq {type_} {a}, {b}")

    def all_of(self, conditions: Sequence[str]) -> str:
        return functools.reduce(lambda a, b: self.let(f"and i1 {a}, {b}"), conditions)

    def hold_reference(self, ref: str) -> None:
        """Own one reference until the call ends."""
        self.store("ptr", ref, "%held", 8 * self.held_count)
        self.held_count += 1

    def new_reference(self, value: str) -> tuple[str, int]:
        """A new reference from a call that may fail: (name, slot in `%made`)."""
        ref = self.let(value)
        self.check(self.is_not_null(ref), "fail")
        self.store("ptr", ref, "%made", 8 * self.made_count)
        self.made_count += 1
        return ref, self.made_count - 1

    def transfer(self, slot: int) -> None:
        """A made reference has moved into a container."""
        self.store("ptr", "null", "%made", 8 * slot)


def part_memory_type(dtype: np.dtype[Any]) -> str:
    """The LLVM type in memory of a number, or of one part of a complex number."""
    if dtype.kind in "fc":
        return _FLOAT_TYPES[dtype.itemsize // (2 if dtype.kind == "c" else 1)]
    return f"i{8 * dtype.itemsize}"


def is_plain_namedtuple(structure: Structure) -> bool:
    """Whether a structure is a named tuple that is not registered as something else."""
    cls = structure.cls
    return cls is not None and is_namedtuple(cls) and structure.names == cls._fields  # type: ignore[attr-defined]
