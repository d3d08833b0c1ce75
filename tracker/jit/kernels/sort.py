"""Sorting: rows of keys in order, or the positions that sort them.

Keys are unsigned integers (`Sort` in `ir/lowering.py` maps numbers to keys), so one routine serves
all dtypes: insertion sort for rows of a few keys, radix sort for longer ones, without a branch on a
key. Digits that all keys share are skipped. Many rows go through the networks of
`sorting_networks.py`.

Invariants: the sort is stable; keys are only read.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tracker.ir.graph import Eqn, Var
from tracker.ir.lowering import Sort
from tracker.ir.types import Type
from tracker.jit.kernels import sorting_networks
from tracker.jit.schedule.plan_data import Buffer
from tracker.jit.schedule.steps import result_buffer
from tracker.support.structs import record

if TYPE_CHECKING:
    from tracker.jit.schedule.plan import Planner
    from tracker.jit.schedule.steps import Driver

_MAX_INSERTION = 72  # keys; up to here rows are sorted by insertion
_WORD = np.dtype(np.uint64)


@record(eq=False)
class SortStep:
    """out = the sorted rows of the operand, or the positions that sort them."""

    eqn: Eqn
    scratch: Buffer

    def emit(self, driver: Driver) -> None:
        """Call the routine for all rows."""
        source = driver.readable(self.eqn.operands[0])
        target = driver.pointer(result_buffer(driver, self.eqn))
        scratch = driver.pointer(self.scratch)
        bits, rows, n, values = _shape(self.eqn)
        arguments = f"ptr {source}, ptr {target}, ptr {scratch}, i64 {rows}"
        if sorting_networks.is_quick(bits, rows, n, values):
            name, texts = sorting_networks.sort_routine(bits, rows, n, values)
            driver.needs.intrinsics |= texts
            driver.lines.append(f"  call void {name}({arguments})")
            return
        name = f"{'values' if values else 'places'}.{'few' if n <= _MAX_INSERTION else 'many'}"
        driver.needs.intrinsics |= {*_INTRINSICS, *_texts(name, bits)}
        driver.lines.append(f"  call void @tk.order.{name}.i{bits}({arguments}, i64 {n})")


def plan_sort(planner: Planner, eqn: Eqn) -> None:
    """Have the keys in memory in C order; allocate scratch and the result."""
    (keys,) = eqn.operands
    assert isinstance(keys, Var)
    planner.contiguous(keys)
    bits, rows, n, values = _shape(eqn)
    if sorting_networks.is_quick(bits, rows, n, values):
        words = sorting_networks.scratch_words(bits, rows, n, values)
    else:
        words = -(-n * bits * (1 if values else 2) // 64)
    planner.add_routine_step(SortStep(eqn, planner.buffer(Type((words,), _WORD), "scratch")))


def _shape(eqn: Eqn) -> tuple[int, int, int, bool]:
    """The bits of a key, the number of rows, keys per row, and whether the keys are the result."""
    assert isinstance(eqn.op.lower, Sort)
    keys = eqn.operands[0].type
    *front, n = keys.shape
    return 8 * keys.dtype.itemsize, math.prod(front), n, eqn.op.lower.values


def insertion_sort_text(bits: int) -> str:
    """The text of `void @tk.values.few.i<bits>(keys, out, n)`: insertion sort of a few keys."""
    return _INSERTION_KEYS.replace("$", f"i{bits}")


def _texts(name: str, bits: int) -> set[str]:
    """The texts of the routine for all rows and of the one that sorts a row."""
    one = {
        "values.few": _INSERTION_KEYS,
        "places.few": _INSERTION_POSITIONS,
        "values.many": _radix_sort_text(_RADIX_KEYS, bits),
        "places.many": _radix_sort_text(_RADIX_POSITIONS, bits),
    }[name]
    result = "i64" if name.startswith("places") else "$"
    room = "" if name.endswith("few") else "ptr %room, "
    rows = _filled(_ROWS, name=name, result=result, room=room)
    return {text.replace("$", f"i{bits}") for text in (rows, one)}


def _filled(text: str, **parts: str) -> str:
    """A text with parts in the place of their names."""
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part)
    return text


_INTRINSICS = (
    "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
    "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
)
_ROWS = """
define internal void @tk.order.{name}.$(
  ptr %keys, ptr %out, ptr %room, i64 %rows, i64 %n
) noinline {
start:
  br label %next
next:
  %row = phi i64 [0, %start], [%after, %sort]
  %more = icmp ult i64 %row, %rows
  br i1 %more, label %sort, label %end
sort:
  %at = mul i64 %row, %n
  %k = getelementptr $, ptr %keys, i64 %at
  %to = getelementptr {result}, ptr %out, i64 %at
  call void @tk.{name}.$(ptr %k, ptr %to, {room}i64 %n)
  %after = add i64 %row, 1
  br label %next
end:
  ret void
}
"""
_INSERTION = """
define internal void @tk.{name}.few.$(ptr noalias %keys, ptr noalias %out, i64 %n) {
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
  %there = getelementptr {moved}, ptr %out, i64 %before
{rival}  %greater = icmp ugt $ %rival, %key
  br i1 %greater, label %move, label %put
move:
  %up = getelementptr {moved}, ptr %out, i64 %j
  store {moved} {shifted}, ptr %up
  br label %shift
put:
  %here = getelementptr {moved}, ptr %out, i64 %j
  store {moved} {inserted}, ptr %here
  %after = add i64 %i, 1
  br label %next
end:
  ret void
}
"""


_INSERTION_POSITIONS = _filled(
    _INSERTION,
    name="places",
    moved="i64",
    rival="""\
  %position = load i64, ptr %there
  %other = getelementptr $, ptr %keys, i64 %position
  %rival = load $, ptr %other
""",
    shifted="%position",
    inserted="%i",
)
_INSERTION_KEYS = _filled(
    _INSERTION,
    name="values",
    moved="$",
    rival="  %rival = load $, ptr %there\n",
    shifted="%rival",
    inserted="%key",
)
_PREFIX_SUMS = """\
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
"""  # exclusive prefix sums of the counts
_RADIX = """
; A pass over each digit of 8 bits{header}
define internal void @tk.{name}.many.$(ptr %keys, ptr %out, ptr %room, i64 %n) {
start:
  %counts = alloca [CELLS x i64], align 64
  call void @llvm.memset.p0.i64(ptr align 64 %counts, i8 0, i64 BYTES, i1 false)
{halves}  br label %count
count:
  %i = phi i64 [0, %start], [%i.next, %count]
  %cell = getelementptr $, ptr %keys, i64 %i
  %narrow = load $, ptr %cell
  %key = WIDEN
{numbered}{counting}
  %i.next = add i64 %i, 1
  %counted = icmp eq i64 %i.next, %n
  br i1 %counted, label %digit, label %count
digit:
  %d = phi i64 [0, %count], [%d.next, %passed]
{arrays}  %row = mul i64 %d, 256
  %bucket = getelementptr i64, ptr %counts, i64 %row
  %shift.wide = mul i64 %d, 8
  %shift = NARROW
  %first = load $, ptr {source}
  %first.down = lshr $ %first, %shift
  %first.low = and $ %first.down, 255
  %first.digit = FIRST
  %first.cell = getelementptr i64, ptr %bucket, i64 %first.digit
  %first.count = load i64, ptr %first.cell
  %shared = icmp eq i64 %first.count, %n
  br i1 %shared, label %passed, label %sum
{summing}deal:
  %e = phi i64 [0, %sum], [%e.next, %deal]
  %e.cell = getelementptr $, ptr {source}, i64 %e
  %e.key = load $, ptr %e.cell
{take}  %down = lshr $ %e.key, %shift
  %low = and $ %down, 255
  %value = LOW
  %to.cell = getelementptr i64, ptr %bucket, i64 %value
  %to = load i64, ptr %to.cell
  %to.next = add i64 %to, 1
  store i64 %to.next, ptr %to.cell
  %key.to = getelementptr $, ptr {target}, i64 %to
  store $ %e.key, ptr %key.to
{put}  %e.next = add i64 %e, 1
  %dealt = icmp eq i64 %e.next, %n
  br i1 %dealt, label %turn, label %deal
turn:
{turn}  br label %passed
passed:
{passed}  %d.next = add i64 %d, 1
  %over = icmp eq i64 %d.next, DIGITS
  br i1 %over, label %{end}
end:
  ret void
}"""
_RADIX_KEYS = _filled(
    _RADIX,
    name="values",
    header=", to and fro between two arrays. Room: one of them.",
    halves="",
    numbered="",
    arrays="""\
  %from = phi ptr [%keys, %count], [%from.next, %passed]
  %into = phi ptr [%room, %count], [%into.next, %passed]
""",
    source="%from",
    target="%into",
    take="",
    put="",
    turn="""\
  %filled = icmp eq ptr %into, %room
  %free = select i1 %filled, ptr %out, ptr %room
""",
    passed="""\
  %from.next = phi ptr [%from, %digit], [%into, %turn]
  %into.next = phi ptr [%into, %digit], [%free, %turn]
""",
    end="""last, label %digit
last:
  %there = icmp eq ptr %from.next, %out
  br i1 %there, label %end, label %copy
copy:
  %bytes = mul i64 %n, DIGITS
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %from.next, i64 %bytes, i1 false)
  br label %end""",
)
_RADIX_POSITIONS = _filled(
    _RADIX,
    name="places",
    header=""". Room: two arrays of keys. Positions have 32 bits on their way:
; two arrays of them are as long as the result, and lie there.""",
    halves="""\
  %i2 = getelementptr i32, ptr %out, i64 %n
  %k2 = getelementptr $, ptr %room, i64 %n
""",
    numbered="""\
  %own = getelementptr i32, ptr %i2, i64 %i
  %i.narrow = trunc i64 %i to i32
  store i32 %i.narrow, ptr %own
""",
    arrays="""\
  %sk = phi ptr [%keys, %count], [%sk.next, %passed]
  %si = phi ptr [%i2, %count], [%si.next, %passed]
  %dk = phi ptr [%room, %count], [%dk.next, %passed]
  %di = phi ptr [%out, %count], [%di.next, %passed]
""",
    source="%sk",
    target="%dk",
    take="""\
  %p.cell = getelementptr i32, ptr %si, i64 %e
  %p = load i32, ptr %p.cell
""",
    put="""\
  %p.to = getelementptr i32, ptr %di, i64 %to
  store i32 %p, ptr %p.to
""",
    turn="""\
  %given = icmp eq ptr %sk, %keys
  %free = select i1 %given, ptr %k2, ptr %sk
""",
    passed="""\
  %sk.next = phi ptr [%sk, %digit], [%dk, %turn]
  %si.next = phi ptr [%si, %digit], [%di, %turn]
  %dk.next = phi ptr [%dk, %digit], [%free, %turn]
  %di.next = phi ptr [%di, %digit], [%si, %turn]
""",
    end="""widen, label %digit
widen:
  %front = icmp eq ptr %si.next, %out
  br i1 %front, label %backward, label %forward
backward:  ; each place that is written holds none that is still to be read
  %left = phi i64 [%n, %widen], [%j, %backward]
  %j = sub i64 %left, 1
  %j.cell = getelementptr i32, ptr %out, i64 %j
  %j.narrow = load i32, ptr %j.cell
  %j.wide = zext i32 %j.narrow to i64
  %j.to = getelementptr i64, ptr %out, i64 %j
  store i64 %j.wide, ptr %j.to
  %none = icmp eq i64 %j, 0
  br i1 %none, label %end, label %backward
forward:
  %u = phi i64 [0, %widen], [%u.next, %forward]
  %u.cell = getelementptr i32, ptr %i2, i64 %u
  %u.narrow = load i32, ptr %u.cell
  %u.wide = zext i32 %u.narrow to i64
  %u.to = getelementptr i64, ptr %out, i64 %u
  store i64 %u.wide, ptr %u.to
  %u.next = add i64 %u, 1
  %all = icmp eq i64 %u.next, %n
  br i1 %all, label %end, label %forward""",
)


def _digit_counts(digits: int) -> str:
    """The lines that count each digit of %key."""
    return "\n".join(
        f"  %c{d}.down = lshr i64 %key, {8 * d}\n"
        f"  %c{d}.digit = and i64 %c{d}.down, 255\n"
        f"  %c{d}.at = add i64 %c{d}.digit, {256 * d}\n"
        f"  %c{d}.cell = getelementptr i64, ptr %counts, i64 %c{d}.at\n"
        f"  %c{d}.old = load i64, ptr %c{d}.cell\n"
        f"  %c{d}.new = add i64 %c{d}.old, 1\n"
        f"  store i64 %c{d}.new, ptr %c{d}.cell"
        for d in range(digits)
    )


def _radix_sort_text(text: str, bits: int) -> str:
    """A radix sort for keys of `bits` bits."""
    digits = bits // 8

    def cast(to: str, narrow: str, name: str) -> str:
        """A word of 64 bits from a key, or the other way; of 64 bits it is the same."""
        return f"or i64 {name}, 0" if bits == 64 else f"{to} {name} to {narrow}"

    text = _filled(text, counting=_digit_counts(digits), summing=_PREFIX_SUMS)
    for name, code in {
        "WIDEN": cast("zext $", "i64", "%narrow"),
        "FIRST": cast("zext $", "i64", "%first.low"),
        "LOW": cast("zext $", "i64", "%low"),
        "NARROW": cast("trunc i64", "$", "%shift.wide"),
        "CELLS": str(256 * digits),
        "BYTES": str(2048 * digits),
        "DIGITS": str(digits),
    }.items():
        text = text.replace(name, code)
    return text
