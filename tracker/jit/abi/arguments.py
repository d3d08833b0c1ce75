"""How an entry checks its arguments and fills the plan's input slots.

Owns: `Inputs`, which writes the checks of one signature. Start at `Inputs.arguments`.

Invariants: every check that fails goes to `miss`, where what the call owns by then is released. A
value held by a list or dict is owned before Python code can run, for that code may drop it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from tracker import tree
from tracker.jit.guards.class_guard import VERSION_TAG, Lent
from tracker.jit.guards.constants import BY_BITS, Compared, Static, bits_of
from tracker.jit.guards.matching import holders_apart
from tracker.jit.guards.signature import Array, Log, Node, Scalar, Signature, Twin
from tracker.jit.guards.source import MISSING, Place, below, children_of
from tracker.jit.runtime.cpython_layout import (
    ALIGNED,
    CONTENTS,
    CONTIGUOUS,
    DATA,
    DESCR,
    DIMS,
    FLAGS,
    FUNCTION,
    ITEMS,
    NDIM,
    SIZE,
    STRIDES,
    TYPE,
    VALUE,
)
from tracker.jit.runtime.ir_text_writer import Writer, is_plain_namedtuple, llvm_type
from tracker.tree import Structure


class Inputs:
    """Writes the checks of the arguments and fills the input slots."""

    def __init__(
        self,
        w: Writer,
        signature: Signature,
        returned: frozenset[int],
        targets: frozenset[Place | Node] = frozenset(),
        apart: Sequence[tuple[Node, Node]] = (),
        compared: Collection[Node] = (),
    ) -> None:
        self.w = w
        self.signature = signature
        self.objects: list[str] = []
        self.targets: dict[Place | Node, str] = {}  # holders of places, and containers, to update
        self._is_target = targets
        self._apart = apart
        self._looked_at = {node for pair in (*apart, *signature.same) for node in pair}
        self._looked_at.update(compared)
        self._holders = holders_apart(signature) if targets else []
        self._looked_at |= {node for node, _ in self._holders}
        self._returned = returned
        self._opens = any(map(_needs_python, signature.structures)) or any(
            isinstance(leaf, Compared) for leaf in signature.leaves
        )

    def arguments(self) -> None:
        w, signature = self.w, self.signature
        count = w.let(f"and i64 %nargsf, {2**63 - 1}")
        w.check(w.equal("i64", count, signature.positional))
        self._names(signature.names)
        self._classes()
        given = len(signature.structures) - len(signature.places)
        for at, structure in enumerate(signature.structures[:given]):
            self._value(w.load("ptr", "%args", 8 * at), True, structure, (at, ()))
        here = zip(signature.places, signature.structures[given:], strict=True)
        for at, (place, structure) in enumerate(here, given):
            self._place(place, structure, (at, ()))
        for one, other in signature.same:
            w.check(w.equal("ptr", self.targets[one], self.targets[other]))
        for one, other in self._apart:
            w.check(w.let(f"icmp ne ptr {self.targets[one]}, {self.targets[other]}"))
        for node, holder in self._holders:
            w.check(w.let(f"icmp ne ptr {self.targets[node]}, {self._holder(holder)}"))

    def _classes(self) -> None:
        """What classes lend is what it was. This comes first, for Python may run: nothing that it
        may drop has been looked at."""
        w = self.w
        for leaf in self.signature.leaves:
            if type(leaf) is not Lent:
                continue
            cls = self._holder(leaf.cls)
            cell, check = w.objects.tag(leaf)
            tag = w.equal("i32", w.load("i32", cls, VERSION_TAG), w.load("i32", cell, 0))
            with w.unless(tag):
                self._ask(check, cls)

    def _ask(self, test: str, x: str) -> None:
        """Go on when a function of Python's says True of an object."""
        w = self.w
        given = w.alloca("ptr")
        w.store("ptr", x, given, 0)
        answer = w.let(f"call ptr @PyObject_Vectorcall(ptr {test}, ptr {given}, i64 1, ptr null)")
        w.check(w.let(f"icmp ne ptr {answer}, null"), "fail")
        w.emit(f"call void @Py_DecRef(ptr {answer})")  # True and False are not freed
        w.check(w.equal("ptr", answer, w.objects.name(True)))

    def _place(self, place: Place, structure: Structure, node: Node) -> None:
        w = self.w
        if place.kind == "names":
            self._held(place)
            return
        x, is_owned = self._read(place)
        if is_owned:
            w.hold(x)
        leaf = self.signature.leaves[len(self.objects)] if structure.cls is None else None
        if type(leaf) is Static and leaf.value is MISSING:
            self.objects.append(x)
            w.check(w.equal("ptr", x, "null"))
            return
        w.check(w.let(f"icmp ne ptr {x}, null"))
        self._value(x, is_owned, structure, node)

    def _held(self, place: Place) -> None:
        """What a dict has under some names is what it had."""
        w = self.w
        leaf = self.signature.leaves[len(self.objects)]
        assert type(leaf) is Compared
        pairs = w.objects.name(
            (MISSING, *itertools.chain(*zip(place.name, leaf.items, strict=True)))
        )
        given = f"ptr {self._holder(place.holder)}, ptr {pairs}, ptr {w.objects.version()}"
        w.check(w.let(f"call i1 @native.held({given})"))
        self.objects.append("null")

    def _read(self, place: Place) -> tuple[str, bool]:
        """What stands at a place, null if nothing does, and whether the call owns it."""
        w = self.w
        holder = self._holder(place.holder)
        if place in self._is_target:
            self._keep(holder)
            self.targets[place] = holder
        if place.kind == "cell":
            return w.load("ptr", holder, CONTENTS), False
        if place.kind == "item":
            name = w.objects.name(place.name)
            return w.let(f"call ptr @PyDict_GetItem(ptr {holder}, ptr {name})"), False
        if place.kind == "slot":
            return w.load("ptr", holder, FUNCTION[place.name]), False
        if place.kind == "class":
            return w.load("ptr", holder, TYPE), False
        if place.kind == "own":
            names, cell = w.objects.name(place.name), w.objects.version()
            return w.let(f"call ptr @native.own(ptr {holder}, ptr {names}, ptr {cell})"), False
        if place.kind == "lent":
            return holder, False
        if place.kind == "token":
            found = w.let(f"call ptr @PyObject_Vectorcall(ptr {holder}, ptr null, i64 0, ptr null)")
            return found, True
        if place.kind == "attribute":
            name = w.objects.name(place.name)
            return w.let(f"call ptr @native.attribute(ptr {holder}, ptr {name})"), True
        cell = w.alloca("ptr")
        w.emit(f"store ptr null, ptr {cell}")
        w.emit(f"call i32 @PyContextVar_Get(ptr {holder}, ptr null, ptr {cell})")
        return w.load("ptr", cell, 0), True

    def _holder(self, holder: Static) -> str:
        w = self.w
        if not holder.weak:
            return w.objects.name(holder.value)
        known = w.load("ptr", w.objects.watch(holder), 0)
        w.check(w.let(f"icmp ne ptr {known}, null"))
        return known

    def _names(self, names: tuple[str, ...]) -> None:
        w = self.w
        if not names:
            with w.unless(w.let("icmp eq ptr %kwnames, null")):
                w.check(w.equal("i64", w.load("i64", "%kwnames", SIZE), 0))
            return
        w.check(w.let("icmp ne ptr %kwnames, null"))
        w.check(w.equal("i64", w.load("i64", "%kwnames", SIZE), len(names)))
        for at, name in enumerate(names):
            self._same(w.load("ptr", "%kwnames", ITEMS + 8 * at), name)

    def _same(self, x: str, expected: Any) -> None:
        """`x` is this object, or equal to it and of its type (text, bytes, integers)."""
        w, name = self.w, self.w.objects.name(expected)
        with w.unless(w.equal("ptr", x, name)):
            w.check(w.let(f"call i1 @native.equal(ptr {x}, ptr {name})"))

    def _is(self, x: str, cls: type) -> None:
        w = self.w
        w.check(w.equal("ptr", w.load("ptr", x, TYPE), w.objects.name(cls)))

    def _value(self, x: str, safe: bool, structure: Structure, node: Node) -> None:
        """Check a value; `safe` if whoever holds it keeps it alive during the call."""
        cls = structure.cls
        if node in self._is_target or node in self._looked_at:
            self.targets[node] = x
        if not safe and (node in self._is_target or (self._opens and cls is not None)):
            self._keep(x)
        if cls is None:
            self._leaf(x, safe)
            return
        self._is(x, cls)
        if cls is tuple or is_plain_namedtuple(structure):
            self._sequence(x, structure, self.w.at(x, ITEMS), safe, node)
        elif cls is list:
            self._sequence(x, structure, "", False, node)
        elif _is_plain_dict(structure):
            self._dict(x, structure, node)
        else:
            self._opened(x, structure, node)

    def _keep(self, x: str) -> None:
        self.w.emit(f"call void @Py_IncRef(ptr {x})")
        self.w.hold(x)

    def _sequence(self, x: str, structure: Structure, items: str, safe: bool, node: Node) -> None:
        w = self.w
        w.check(w.equal("i64", w.load("i64", x, SIZE), len(structure.children)))
        for at, child in enumerate(structure.children):
            base = items or w.load("ptr", x, ITEMS)
            self._value(w.load("ptr", base, 8 * at), safe, child, below(node, at))

    def _dict(self, x: str, structure: Structure, node: Node) -> None:
        w = self.w
        w.check(w.equal("i64", w.load("i64", x, SIZE), len(structure.names)))
        place, key, value = (w.alloca("ptr") for _ in range(3))
        w.emit(f"store i64 0, ptr {place}")
        named = zip(structure.names, structure.children, strict=True)
        for at, (name, child) in enumerate(named):
            more = w.let(f"call i32 @PyDict_Next(ptr {x}, ptr {place}, ptr {key}, ptr {value})")
            w.check(w.let(f"icmp ne i32 {more}, 0"))
            self._same(w.load("ptr", key, 0), name)
            self._value(w.load("ptr", value, 0), False, child, below(node, at))

    def _opened(self, x: str, structure: Structure, node: Node) -> None:
        """A container whose children only Python can tell: a function gives them in a tuple."""
        w = self.w
        cell = w.alloca("ptr")
        w.emit(f"store ptr {x}, ptr {cell}")
        count = len(structure.children)
        opener = w.objects.name(functools.partial(_children, structure.names, count))
        kids = w.let(f"call ptr @PyObject_Vectorcall(ptr {opener}, ptr {cell}, i64 1, ptr null)")
        w.check(w.let(f"icmp ne ptr {kids}, null"), "fail")
        w.hold(kids)
        self._sequence(kids, structure, w.at(kids, ITEMS), True, node)

    def _leaf(self, x: str, safe: bool) -> None:
        number = len(self.objects)
        leaf, slot = self.signature.leaves[number], self.signature.offsets[number]
        self.objects.append(x)
        if not safe and (type(leaf) is Array or number in self._returned):
            self._keep(x)
        if type(leaf) is Array:
            self._is(x, np.ndarray)
            self._array(x, leaf, slot)
        elif type(leaf) is Scalar:
            self._scalar(x, leaf, slot)
        elif type(leaf) is Static:
            self._static(x, leaf)
        elif type(leaf) is Twin:
            self.w.check(self.w.equal("ptr", x, self.objects[leaf.leaf]))
        elif type(leaf) is Compared:
            self._compared(x, leaf)
        elif type(leaf) is Log:
            self._is(x, list)
        elif type(leaf) is Lent:
            pass  # see `_classes`
        else:
            raise ValueError(f"a native entry cannot take {leaf}")

    def capture(self, array: np.ndarray[Any, Any], slot: int) -> None:
        """A known array: it must still look as it did."""
        strides = None if array.flags.c_contiguous else array.strides
        self._array(self.w.objects.name(array), Array(array.dtype, array.shape, strides), slot)

    def _array(self, x: str, leaf: Array, slot: int) -> None:
        w = self.w
        wanted = CONTIGUOUS | ALIGNED if leaf.strides is None else ALIGNED
        flags = w.let(f"and i32 {w.load('i32', x, FLAGS)}, {wanted}")
        rank = w.equal("i32", w.load("i32", x, NDIM), len(leaf.shape))
        w.check(w.all([rank, w.equal("i32", flags, wanted)]))
        self._dtype(w.load("ptr", x, DESCR), leaf.dtype)
        self._extents(x, DIMS, leaf.shape)
        if leaf.strides is not None:
            self._extents(x, STRIDES, leaf.strides)
        w.store("ptr", w.load("ptr", x, DATA), "%slots", 8 * slot)

    def _dtype(self, descr: str, dtype: np.dtype[Any]) -> None:
        w = self.w
        with w.unless(w.equal("ptr", descr, w.objects.name(np.dtype(dtype.type)))):
            call = f"@native.dtype(ptr {descr}, i8 {ord(dtype.kind)}, i64 {dtype.itemsize})"
            w.check(w.let(f"call i1 {call}"))

    def _extents(self, x: str, offset: int, expected: tuple[int, ...]) -> None:
        if not expected:
            return
        w = self.w
        base = w.load("ptr", x, offset)
        w.check(
            w.all([w.equal("i64", w.load("i64", base, 8 * k), n) for k, n in enumerate(expected)])
        )

    def _scalar(self, x: str, leaf: Scalar, slot: int) -> None:
        w = self.w
        self._is(x, leaf.cls)
        if leaf.cls is int:
            self._int(x, slot)
            return
        type_ = llvm_type(leaf.dtype)
        size = leaf.dtype.itemsize // leaf.slots
        for part in range(leaf.slots):
            value = w.load(type_, x, VALUE + part * size)
            self._widen(value, type_, leaf.dtype, slot + part)

    def _widen(self, value: str, type_: str, dtype: np.dtype[Any], slot: int) -> None:
        w = self.w
        if dtype.kind in "biu" and type_ != "i64":
            value = w.let(f"{'sext' if dtype.kind == 'i' else 'zext'} {type_} {value} to i64")
            type_ = "i64"
        w.store(type_, value, "%slots", 8 * slot)

    def _int(self, x: str, slot: int) -> None:
        w = self.w
        cell = w.alloca("i32")
        value = w.let(f"call i64 @PyLong_AsLongLongAndOverflow(ptr {x}, ptr {cell})")
        w.check(w.equal("i32", w.load("i32", cell, 0), 0))
        w.store("i64", value, "%slots", 8 * slot)

    def _static(self, x: str, leaf: Static) -> None:
        w = self.w
        value = leaf.value
        if type(value) in BY_BITS:
            self._is(x, type(value))
            self._bits(x, bits_of(value))
        elif leaf.by_value:
            self._same(x, value)
        elif leaf.weak:
            w.check(w.equal("ptr", x, w.load("ptr", w.objects.watch(leaf), 0)))
        else:
            w.check(w.equal("ptr", x, w.objects.name(value)))

    def _bits(self, x: str, bits: bytes) -> None:
        """The number in `x` has these bits."""
        w = self.w
        step = min(8, len(bits))
        for at in range(0, len(bits), step):
            part = int.from_bytes(bits[at : at + step], "little")
            type_ = f"i{8 * step}"
            w.check(w.equal(type_, w.load(type_, x, VALUE + at), part))

    def _compared(self, x: str, leaf: Compared) -> None:
        """A large container, or a value: Python compares it, unless it is the very one."""
        w, test = self.w, self.w.objects.name(functools.partial(leaf.holds))
        if leaf.whole is None:
            self._ask(test, x)
            return
        with w.unless(w.equal("ptr", x, w.objects.name(leaf.whole))):
            self._ask(test, x)


def _is_plain_dict(structure: Structure) -> bool:
    """A dict with text keys: the keys compare without running Python code."""
    return structure.cls is dict and all(type(name) is str for name in structure.names)


def _needs_python(structure: Structure) -> bool:
    cls = structure.cls
    if cls is None:
        return False
    native = cls in (tuple, list) or is_plain_namedtuple(structure) or _is_plain_dict(structure)
    return not native or any(map(_needs_python, structure.children))


def _children(names: tuple[Any, ...], count: int, x: Any) -> tuple[Any, ...]:
    """The children of a container with these names; if it has others, not so many."""
    found = tree.opened(x) or children_of(x)
    return found[1] if found is not None and found[0] == names else (None,) * (count + 1)
