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
from tracker.jit.guards.constants import ConstantKey, StructuralKey
from tracker.jit.guards.signature import AliasLeaf, ArrayLeaf, Leaf, Signature
from tracker.jit.llvm import engine, object_cache
from tracker.jit.llvm.lock import locked_cache
from tracker.jit.runtime.cpython_layout import DIMS, HEAP_TYPE, NDIM, TABLE, TYPE, TYPE_FLAGS

_WORD_BITS = 64
_MULTIPLIER = (
    0x9E3779B97F4A7C15  # odd: the upper bits of a product depend on all bits of the factor
)

_TEXT = f"""
@ndarray = external global ptr
declare ptr @slow(ptr, ptr, i64, ptr)

define ptr @dispatch(ptr %self, ptr %args, i64 %nargsf, ptr %kwnames) nounwind {{
start:
  %count = and i64 %nargsf, {2**63 - 1}
  br label %arguments
arguments:
  %i = phi i64 [ 0, %start ], [ %i1, %next ]
  %hash = phi i64 [ 0, %start ], [ %hash1, %next ]
  %left = icmp ult i64 %i, %count
  br i1 %left, label %argument, label %done
argument:
  %cell = getelementptr ptr, ptr %args, i64 %i
  %x = load ptr, ptr %cell
  %typep = getelementptr i8, ptr %x, i64 {TYPE}
  %type = load ptr, ptr %typep
  %array = icmp eq ptr %type, @ndarray
  br i1 %array, label %shape, label %other
other:
  %flagsp = getelementptr i8, ptr %type, i64 {TYPE_FLAGS}
  %flags = load i64, ptr %flagsp
  %heap = and i64 %flags, {HEAP_TYPE}
  %known = icmp eq i64 %heap, 0
  br i1 %known, label %next, label %object
object:
  %where = ptrtoint ptr %x to i64
  %and = add i64 %hash, %where
  %hash2 = mul i64 %and, {_MULTIPLIER - 2**64}
  br label %next
shape:
  %rankp = getelementptr i8, ptr %x, i64 {NDIM}
  %rank32 = load i32, ptr %rankp
  %rank = zext i32 %rank32 to i64
  %dimsp = getelementptr i8, ptr %x, i64 {DIMS}
  %dims = load ptr, ptr %dimsp
  %ranked = add i64 %hash, %rank
  %first = mul i64 %ranked, {_MULTIPLIER - 2**64}
  br label %extents
extents:
  %d = phi i64 [ 0, %shape ], [ %d1, %extent ]
  %mixed = phi i64 [ %first, %shape ], [ %mixed1, %extent ]
  %more = icmp ult i64 %d, %rank
  br i1 %more, label %extent, label %next
extent:
  %dim = getelementptr i64, ptr %dims, i64 %d
  %n = load i64, ptr %dim
  %sum = add i64 %mixed, %n
  %mixed1 = mul i64 %sum, {_MULTIPLIER - 2**64}
  %d1 = add i64 %d, 1
  br label %extents
next:
  %hash1 = phi i64 [ %hash, %other ], [ %hash2, %object ], [ %mixed, %extents ]
  %i1 = add i64 %i, 1
  br label %arguments
done:
  %tablep = getelementptr i8, ptr %self, i64 {TABLE}
  %table = load ptr, ptr %tablep
  %none = icmp eq ptr %table, null
  br i1 %none, label %nowhere, label %look
nowhere:  ; it is gone since this call began
  %s = musttail call ptr @slow(ptr %self, ptr %args, i64 %nargsf, ptr %kwnames)
  ret ptr %s
look:
  %shift = load i64, ptr %table
  %at = lshr i64 %hash, %shift
  %place = add i64 %at, 1
  %found = getelementptr i64, ptr %table, i64 %place
  %entry = load ptr, ptr %found
  %r = musttail call ptr %entry(ptr %self, ptr %args, i64 %nargsf, ptr %kwnames)
  ret ptr %r
}}
"""


def signature_hash(signature: Signature) -> int | None:
    """The hash of the calls that an entry for this signature takes; None if they may differ."""
    result, at = 0, 0
    for structure in signature.structures[: signature.positional_count]:
        if structure == tree.LEAF:
            leaf: Leaf = signature.leaves[at]
            if isinstance(leaf, AliasLeaf):
                leaf = signature.leaves[leaf.leaf]
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
    return bool(cls.__flags__ & HEAP_TYPE)


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
        self.address = int(self._words.__array_interface__["data"][0])

    def insert(self, key: int, address: int) -> int:
        """Enter an address; returns the address that was tried first before."""
        self.free -= 1
        slot = 1 + (key >> self.shift)
        before, self._words[slot] = int(self._words[slot]), address
        return before


@locked_cache
def _dispatch_module(slow: int) -> engine.Module:
    symbols = {"ndarray": id(np.ndarray), "slow": slow}
    return object_cache.compile_or_load(_TEXT, level=engine.FAST_CODEGEN, symbols=symbols)


def dispatch_address(slow: int) -> int:
    """The function that calls the entry in a callable's table. `slow`: the slow path."""
    return _dispatch_module(slow).address("dispatch")
