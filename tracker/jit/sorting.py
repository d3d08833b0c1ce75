"""Sorting in machine code: the positions that put each row of keys in order.

Owns: `Order` (a step of the plan), `plan_order`, `write_order`, and the text of the routine. Keys
are unsigned 64-bit integers (`Sort` in `ir/op.py` says how numbers become keys), so that there is
one routine for all dtypes: rows of a few elements by insertion, longer ones digit by digit, least
first, without a branch on a key. Digits that all keys share are passed over.

Invariants: equal keys stay in order; keys are only read.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracker.ir.graph import Eqn, Var
from tracker.ir.types import Type
from tracker.records import record

_FEW = 72  # elements; up to here rows are sorted by insertion
_WORD = np.dtype(np.uint64)


@record(eq=False)
class Order:
    """out = the positions that sort the rows of the operand; `room` is for keys and positions on
    their way, twice."""

    eqn: Eqn
    room: Any


def plan_order(planner: Any, eqn: Eqn) -> None:
    """Place the keys and the result."""
    (keys,) = eqn.operands
    assert isinstance(keys, Var)
    place = planner.places[keys]
    if place.kind == "expression":
        planner.store(keys)
    n = keys.type.shape[-1]
    room = None if n <= _FEW else planner.buffer(Type((4 * n,), _WORD), "scratch")
    level = place.ready
    planner.made(eqn.out, level)
    planner.plan.writes.setdefault(level, []).append(Order(eqn, room))


def write_order(driver: Any, order: Order) -> None:
    """Call the routine for all rows."""
    (keys,), out = order.eqn.operands, order.eqn.out
    place = driver.plan.places[keys]
    source = driver.spill(keys) if place.kind == "tiny" else driver.pointer(place.buffer)
    target = driver.pointer(driver.plan.places[out].buffer)
    room = "null" if order.room is None else driver.pointer(order.room)
    *front, n = keys.type.shape
    driver.needs.intrinsics |= {_ROUTINE, *_INTRINSICS}
    driver.lines.append(
        f"  call void @tk.order(ptr {source}, ptr {target}, ptr {room}, i64 {math.prod(front)}, "
        f"i64 {n})"
    )


_INTRINSICS = (
    "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
    "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
)
_ROUTINE = f"""
define internal void @tk.order(ptr %keys, ptr %out, ptr %room, i64 %rows, i64 %n) noinline {{
start:
  %few = icmp ule i64 %n, {_FEW}
  br label %next
next:
  %row = phi i64 [0, %start], [%after, %done]
  %more = icmp ult i64 %row, %rows
  br i1 %more, label %sort, label %end
sort:
  %at = mul i64 %row, %n
  %k = getelementptr i64, ptr %keys, i64 %at
  %o = getelementptr i64, ptr %out, i64 %at
  br i1 %few, label %insert, label %digits
insert:
  call void @tk.order.few(ptr %k, ptr %o, i64 %n)
  br label %done
digits:
  call void @tk.order.many(ptr %k, ptr %o, ptr %room, i64 %n)
  br label %done
done:
  %after = add i64 %row, 1
  br label %next
end:
  ret void
}}

define internal void @tk.order.few(ptr noalias %keys, ptr noalias %out, i64 %n) {{
start:
  br label %next
next:
  %i = phi i64 [0, %start], [%after, %put]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %take, label %end
take:
  %cell = getelementptr i64, ptr %keys, i64 %i
  %key = load i64, ptr %cell
  br label %shift
shift:
  %j = phi i64 [%i, %take], [%before, %move]
  %any = icmp ne i64 %j, 0
  br i1 %any, label %look, label %put
look:
  %before = sub i64 %j, 1
  %there = getelementptr i64, ptr %out, i64 %before
  %position = load i64, ptr %there
  %other = getelementptr i64, ptr %keys, i64 %position
  %rival = load i64, ptr %other
  %greater = icmp ugt i64 %rival, %key
  br i1 %greater, label %move, label %put
move:
  %up = getelementptr i64, ptr %out, i64 %j
  store i64 %position, ptr %up
  br label %shift
put:
  %here = getelementptr i64, ptr %out, i64 %j
  store i64 %i, ptr %here
  %after = add i64 %i, 1
  br label %next
end:
  ret void
}}

; Eight passes over digits of 8 bits. Room: two arrays of keys and two of positions.
define internal void @tk.order.many(ptr %keys, ptr %out, ptr %room, i64 %n) {{
start:
  %counts = alloca [2048 x i64], align 64
  call void @llvm.memset.p0.i64(ptr align 64 %counts, i8 0, i64 16384, i1 false)
  %n2 = mul i64 %n, 2
  %n3 = mul i64 %n, 3
  %k1 = getelementptr i64, ptr %room, i64 0
  %i1 = getelementptr i64, ptr %room, i64 %n
  %k2 = getelementptr i64, ptr %room, i64 %n2
  %i2 = getelementptr i64, ptr %room, i64 %n3
  br label %count
count:
  %i = phi i64 [0, %start], [%i.next, %count]
  %cell = getelementptr i64, ptr %keys, i64 %i
  %key = load i64, ptr %cell
  %own = getelementptr i64, ptr %i2, i64 %i
  store i64 %i, ptr %own
{{counting}}
  %i.next = add i64 %i, 1
  %counted = icmp eq i64 %i.next, %n
  br i1 %counted, label %digit, label %count
digit:
  %d = phi i64 [0, %count], [%d.next, %passed]
  %sk = phi ptr [%keys, %count], [%sk.next, %passed]
  %si = phi ptr [%i2, %count], [%si.next, %passed]
  %dk = phi ptr [%k1, %count], [%dk.next, %passed]
  %di = phi ptr [%i1, %count], [%di.next, %passed]
  %row = mul i64 %d, 256
  %bucket = getelementptr i64, ptr %counts, i64 %row
  %shift = mul i64 %d, 8
  %first = load i64, ptr %sk
  %first.down = lshr i64 %first, %shift
  %first.digit = and i64 %first.down, 255
  %first.cell = getelementptr i64, ptr %bucket, i64 %first.digit
  %first.count = load i64, ptr %first.cell
  %shared = icmp eq i64 %first.count, %n
  br i1 %shared, label %passed, label %sum
sum:
  %b = phi i64 [0, %digit], [%b.next, %sum]
  %total = phi i64 [0, %digit], [%total.next, %sum]
  %b.cell = getelementptr i64, ptr %bucket, i64 %b
  %b.count = load i64, ptr %b.cell
  store i64 %total, ptr %b.cell
  %total.next = add i64 %total, %b.count
  %b.next = add i64 %b, 1
  %summed = icmp eq i64 %b.next, 256
  br i1 %summed, label %deal, label %sum
deal:
  %e = phi i64 [0, %sum], [%e.next, %deal]
  %e.cell = getelementptr i64, ptr %sk, i64 %e
  %e.key = load i64, ptr %e.cell
  %p.cell = getelementptr i64, ptr %si, i64 %e
  %p = load i64, ptr %p.cell
  %down = lshr i64 %e.key, %shift
  %value = and i64 %down, 255
  %to.cell = getelementptr i64, ptr %bucket, i64 %value
  %to = load i64, ptr %to.cell
  %to.next = add i64 %to, 1
  store i64 %to.next, ptr %to.cell
  %key.to = getelementptr i64, ptr %dk, i64 %to
  store i64 %e.key, ptr %key.to
  %p.to = getelementptr i64, ptr %di, i64 %to
  store i64 %p, ptr %p.to
  %e.next = add i64 %e, 1
  %dealt = icmp eq i64 %e.next, %n
  br i1 %dealt, label %turn, label %deal
turn:
  %given = icmp eq ptr %sk, %keys
  %free = select i1 %given, ptr %k2, ptr %sk
  br label %passed
passed:
  %sk.next = phi ptr [%sk, %digit], [%dk, %turn]
  %si.next = phi ptr [%si, %digit], [%di, %turn]
  %dk.next = phi ptr [%dk, %digit], [%free, %turn]
  %di.next = phi ptr [%di, %digit], [%si, %turn]
  %d.next = add i64 %d, 1
  %over = icmp eq i64 %d.next, 8
  br i1 %over, label %end, label %digit
end:
  %bytes = mul i64 %n, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %si.next, i64 %bytes, i1 false)
  ret void
}}"""
_COUNTING = "\n".join(
    f"  %c{d}.down = lshr i64 %key, {8 * d}\n"
    f"  %c{d}.digit = and i64 %c{d}.down, 255\n"
    f"  %c{d}.at = add i64 %c{d}.digit, {256 * d}\n"
    f"  %c{d}.cell = getelementptr i64, ptr %counts, i64 %c{d}.at\n"
    f"  %c{d}.old = load i64, ptr %c{d}.cell\n"
    f"  %c{d}.new = add i64 %c{d}.old, 1\n"
    f"  store i64 %c{d}.new, ptr %c{d}.cell"
    for d in range(8)
)
_ROUTINE = _ROUTINE.replace("{counting}", _COUNTING)
