"""Sorting in machine code: rows of keys in order, or the positions that put them in order.

Owns: `Order` (a step of the plan), `plan_order`, and the text of the routine for few
or long rows; many rows go through the networks of `networks.py`. Keys are unsigned integers (`Sort`
in `ir/op.py` says how numbers become keys), so that there is one routine for all dtypes: rows of a
few elements by insertion, longer ones digit by digit, least first, without a branch on a key.
Digits that all keys share are passed over.

Invariants: equal keys stay in order; keys are only read.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracker.ir.graph import Eqn, Var
from tracker.ir.op import Sort
from tracker.ir.types import Type
from tracker.jit import networks
from tracker.records import record

_FEW = 72  # elements; up to here rows are sorted by insertion
_WORD = np.dtype(np.uint64)


@record(eq=False)
class Order:
    """out = the rows of the operand in order, or the positions that say it; `room` is for keys and
    positions on their way."""

    eqn: Eqn
    room: Any

    def write(self, driver: Any) -> None:
        """Call the routine for all rows."""
        _write(driver, self)


def plan_order(planner: Any, eqn: Eqn) -> None:
    """Place the keys and the result."""
    (keys,) = eqn.operands
    assert isinstance(keys, Var)
    place = planner.in_order(keys)
    bits, rows, n, values = _shape(eqn)
    words = networks.room(bits, n, values) if networks.fits(bits, rows, n, values) else 5 * n
    room = planner.buffer(Type((words,), _WORD), "scratch")
    level = place.ready
    planner.made(eqn.out, level)
    planner.plan.writes.setdefault(level, []).append(Order(eqn, room))


def _shape(eqn: Eqn) -> tuple[int, int, int, bool]:
    """The bits of a key, how many rows, how many keys in each; whether the keys are the result."""
    assert isinstance(eqn.op.lower, Sort)
    keys = eqn.operands[0].type
    *front, n = keys.shape
    return 8 * keys.dtype.itemsize, math.prod(front), n, eqn.op.lower.values


def _write(driver: Any, order: Order) -> None:
    """Call the routine for all rows."""
    (keys,), out = order.eqn.operands, order.eqn.out
    source = driver.readable(keys)
    target = driver.pointer(driver.plan.places[out].buffer)
    room = driver.pointer(order.room)
    bits, rows, n, values = _shape(order.eqn)
    given = f"ptr {source}, ptr {target}, ptr {room}, i64 {rows}"
    if networks.fits(bits, rows, n, values):
        name, texts = networks.routine(bits, n, values)
        driver.needs.intrinsics |= texts
        driver.lines.append(f"  call void {name}({given})")
        return
    driver.needs.intrinsics |= {*_INTRINSICS, _MANY, *_texts(bits, values)}
    driver.lines.append(
        f"  call void @tk.order.{'values' if values else 'places'}.i{bits}({given}, i64 {n})"
    )


def _texts(bits: int, values: bool) -> set[str]:
    """The text of the routine for keys of so many bits."""
    widened = "%k" if bits == 64 else "%wide"
    widen = "" if bits == 64 else "  call void @tk.widen.$(ptr %k, ptr %wide, i64 %n)\n"
    many = f"{widen}  call void @tk.order.many(ptr {widened}, ptr %o, ptr %room, i64 %n)"
    if values:
        end = "  call void @tk.picked.$(ptr %k, ptr %o, ptr %to, i64 %n)"
        place = "getelementptr i64, ptr %room, i64 %n4"
    else:
        end, place = "", "getelementptr i64, ptr %to, i64 0"
    rows = _ROWS.replace("{many}", many).replace("{end}", end).replace("{place}", place)
    rows = rows.replace("{name}", f"@tk.order.{'values' if values else 'places'}.$")
    rows = rows.replace("{result}", "$" if values else "i64")
    texts = [rows, _INSERTED]
    texts += [] if bits == 64 else [_WIDENED]
    texts += [_PICKED] if values else []
    return {text.replace("$", f"i{bits}") for text in texts}


_INTRINSICS = (
    "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
    "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
)
_ROWS = """
define internal void {name}(ptr %keys, ptr %out, ptr %room, i64 %rows, i64 %n) noinline {
start:
  %few = icmp ule i64 %n, FEW
  %n2 = mul i64 %n, 2
  %n4 = mul i64 %n, 4
  %wide = getelementptr i64, ptr %room, i64 %n2
  br label %next
next:
  %row = phi i64 [0, %start], [%after, %done]
  %more = icmp ult i64 %row, %rows
  br i1 %more, label %sort, label %end
sort:
  %at = mul i64 %row, %n
  %k = getelementptr $, ptr %keys, i64 %at
  %to = getelementptr {result}, ptr %out, i64 %at
  %o = {place}
  br i1 %few, label %insert, label %digits
insert:
  call void @tk.order.few.$(ptr %k, ptr %o, i64 %n)
  br label %done
digits:
{many}
  br label %done
done:
{end}
  %after = add i64 %row, 1
  br label %next
end:
  ret void
}
""".replace("FEW", str(_FEW))
_WIDENED = """
define internal void @tk.widen.$(ptr noalias %keys, ptr noalias %out, i64 %n) {
start:
  br label %next
next:
  %i = phi i64 [0, %start], [%after, %next]
  %cell = getelementptr $, ptr %keys, i64 %i
  %key = load $, ptr %cell
  %wide = zext $ %key to i64
  %to = getelementptr i64, ptr %out, i64 %i
  store i64 %wide, ptr %to
  %after = add i64 %i, 1
  %over = icmp uge i64 %after, %n
  br i1 %over, label %end, label %next
end:
  ret void
}
"""
_PICKED = """
define internal void @tk.picked.$(
  ptr noalias %keys, ptr noalias %places, ptr noalias %out, i64 %n
) {
start:
  br label %next
next:
  %i = phi i64 [0, %start], [%after, %put]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %put, label %end
put:
  %cell = getelementptr i64, ptr %places, i64 %i
  %place = load i64, ptr %cell
  %from = getelementptr $, ptr %keys, i64 %place
  %key = load $, ptr %from
  %to = getelementptr $, ptr %out, i64 %i
  store $ %key, ptr %to
  %after = add i64 %i, 1
  br label %next
end:
  ret void
}
"""
_INSERTED = """
define internal void @tk.order.few.$(ptr noalias %keys, ptr noalias %out, i64 %n) {
start:
  br label %next
next:
  %i = phi i64 [0, %start], [%after, %put]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %take, label %end
take:
  %cell = getelementptr $, ptr %keys, i64 %i
  %key = load $, ptr %cell
  br label %shift
shift:
  %j = phi i64 [%i, %take], [%before, %move]
  %any = icmp ne i64 %j, 0
  br i1 %any, label %look, label %put
look:
  %before = sub i64 %j, 1
  %there = getelementptr i64, ptr %out, i64 %before
  %position = load i64, ptr %there
  %other = getelementptr $, ptr %keys, i64 %position
  %rival = load $, ptr %other
  %greater = icmp ugt $ %rival, %key
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
}
"""
_MANY = """
; Eight passes over digits of 8 bits. Room: two arrays of keys and two of positions.
define internal void @tk.order.many(ptr %keys, ptr %out, ptr %room, i64 %n) {
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
{counting}
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
}"""
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
_MANY = _MANY.replace("{counting}", _COUNTING)
