"""Finding the entry for a call by a hash of its arguments' shapes.

A callable tries its entries in turn, 20 ns each (`native_callable.py`). A function that is called
with arrays of hundreds of lengths, or a method of hundreds of objects, looks up a `DispatchTable`
instead: an array of 64-bit words, the number of bits by which a hash is shifted to the right, then
an address for each slot. Entries with one slot form a chain that ends in the slow path.

Invariant: a call that an entry takes has the hash of the entry's signature. The hash covers ranks
and extents of positional arrays, and addresses of instances of heap-allocated classes. The shape of
a constant array, which an entry knows by identity, may change, and an instance that is compared by
value may be another object: such a signature has no hash.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tracker import tree
from tracker.jit.guards.class_guard import HEAP_TYPE_FLAG
from tracker.jit.guards.constants import ConstantKey, StructuralKey
from tracker.jit.guards.signature import ArrayLeaf, Signature
from tracker.jit.llvm import engine, object_cache
from tracker.jit.llvm.function_writer import FunctionWriter, c_function, functions_text
from tracker.jit.llvm.lock import locked_cache
from tracker.jit.runtime.cpython_layout import DIMS, NDIM, TABLE, TYPE, TYPE_FLAGS
from tracker.support.array_copies import data_address

_WORD_BITS = 64
# Odd: the upper bits of a product depend on all bits of the factor.
_MULTIPLIER = 0x9E3779B97F4A7C15


def signature_hash(signature: Signature) -> int | None:
    """The hash of the calls that an entry for this signature takes; None if they may differ."""
    result, at = 0, 0
    for structure in signature.structures[: signature.positional_count]:
        if structure == tree.LEAF:
            leaf = signature.leaves[at]
            if isinstance(leaf, ArrayLeaf):
                result = _mix(result, (len(leaf.shape), *leaf.shape))
            elif isinstance(leaf, ConstantKey) and type(leaf.value) is np.ndarray:
                return None
            elif isinstance(leaf, ConstantKey) and _is_heap_type(type(leaf.value)):
                result = _mix(result, (id(leaf.value),))
            elif isinstance(leaf, StructuralKey) and _is_heap_type(leaf.cls):
                return None
        elif structure.cls is not None and _is_heap_type(structure.cls):
            return None
        at += structure.count
    return result


def _is_heap_type(cls: type) -> bool:
    return bool(cls.__flags__ & HEAP_TYPE_FLAG)


def _mix(key: int, numbers: Iterable[int]) -> int:
    for n in numbers:
        key = (key + n) * _MULTIPLIER % 2**_WORD_BITS
    return key


class DispatchTable:
    """Addresses by hash; `otherwise` where there is none."""

    def __init__(self, entries: int, otherwise: int) -> None:
        bits = max(entries.bit_length(), 1)  # about one entry a slot
        self.shift = _WORD_BITS - bits
        self.free = 1 << bits
        self._words = np.full(1 + self.free, otherwise, np.uint64)
        self._words[0] = self.shift
        self.address = data_address(self._words)

    def insert(self, key: int, address: int) -> int:
        """Enter an address; returns the address that was tried first before."""
        self.free -= 1
        slot = 1 + (key >> self.shift)
        before, self._words[slot] = int(self._words[slot]), address
        return before


@c_function("dispatch", "ptr %self, ptr %args, i64 %nargsf, ptr %kwnames", "ptr")
def _dispatch(c: FunctionWriter) -> str:
    """The function that calls the entry for a hash; while there is no table, the slow path (the
    table may be gone since this call began)."""
    hashed = c.variable(0)

    def mix(number: str) -> None:
        c.set(hashed, c.mul(c.add(c.get(hashed), number), _MULTIPLIER - 2**_WORD_BITS))

    with c.loop(0, c.let(f"and i64 %nargsf, {2**63 - 1}")) as i:
        x = c.load("%args", i, "ptr")
        type_ = c.field(x, TYPE, "ptr")
        is_array = c.let(f"icmp eq ptr {type_}, @ndarray")
        with c.when(is_array):
            rank, extents = (
                c.let(f"zext i32 {c.field(x, NDIM, 'i32')} to i64"),
                c.field(x, DIMS, "ptr"),
            )
            mix(rank)
            with c.loop(0, rank) as axis:
                mix(c.load(extents, axis))
        with c.when(c.logical_not(is_array)):
            heap = c.let(f"and i64 {c.field(type_, TYPE_FLAGS, 'i64')}, {HEAP_TYPE_FLAG}")
            with c.when(c.compare("ne", heap, 0)):
                mix(c.let(f"ptrtoint ptr {x} to i64"))
    table, entry = c.field("%self", TABLE, "ptr"), c.variable("@slow", "ptr")
    with c.when(c.let(f"icmp ne ptr {table}, null")):
        slot = c.let(f"lshr i64 {c.get(hashed)}, {c.load(table)}")
        c.set(entry, c.load(table, c.add(slot, 1), "ptr"))
    c.declared.add("declare ptr @slow(ptr, ptr, i64, ptr)")
    return c.let(f"musttail call ptr {c.get(entry)}({', '.join(c.parameters)})")


@locked_cache
def _dispatch_module(slow: int) -> engine.Module:
    symbols = {"ndarray": id(np.ndarray), "slow": slow}
    text = functions_text([_dispatch()], "@ndarray = external global ptr")
    return object_cache.compile_or_load(text, level=engine.QUICK, symbols=symbols)


def dispatch_address(slow: int) -> int:
    """The function that calls the entry in a callable's table. `slow`: the slow path."""
    return _dispatch_module(slow).address("dispatch")
