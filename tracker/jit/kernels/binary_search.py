"""Binary search: the positions of keys in a sorted row.

The row is halved for eight keys at a time with vector selects, because a branch on a key is
mispredicted every other time. The remaining keys are searched one by one, as in NumPy.

Invariant: all reads are inside of the row, even if the row is not sorted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracker.ir.graph import Eqn
from tracker.jit.scalar.values import llvm_type
from tracker.jit.schedule.steps import result_buffer
from tracker.support.structs import record

if TYPE_CHECKING:
    from tracker.jit.schedule.plan import Planner
    from tracker.jit.schedule.steps import Driver


@record(eq=False)
class SearchStep:
    """out = the positions of the keys (second operand) in the sorted row (first operand)."""

    eqn: Eqn

    def emit(self, driver: Driver) -> None:
        """Call the routine for all keys."""
        row, keys = self.eqn.operands
        dtype = row.type.dtype
        text = llvm_type(dtype)
        driver.needs.intrinsics.add(
            _ROUTINE.replace("SIZE", str(dtype.itemsize)).replace("$", text)
        )
        target = driver.pointer(result_buffer(driver, self.eqn))
        right = "true" if self.eqn.params["right"] else "false"
        driver.lines.append(
            f"  call void @tk.search.{text}(ptr {driver.readable(row)}, i64 {row.type.size}, "
            f"ptr {driver.readable(keys)}, ptr {target}, i64 {keys.type.size}, i1 {right})"
        )


def plan_search(planner: Planner, eqn: Eqn) -> None:
    """Have the operands in memory in C order, and allocate the result."""
    planner.add_routine_step(SearchStep(eqn))


_ROUTINE = """
define internal void @tk.search.$(
  ptr noalias %row, i64 %n, ptr noalias %keys, ptr noalias %out, i64 %count, i1 %right
) noinline {
start:
  %whole = and i64 %count, -8
  %empty = icmp eq i64 %n, 0
  %eights = select i1 %empty, i64 0, i64 %whole
  %side = insertelement <8 x i1> poison, i1 %right, i64 0
  %sides = shufflevector <8 x i1> %side, <8 x i1> poison, <8 x i32> zeroinitializer
  br label %eight
eight:
  %e = phi i64 [0, %start], [%e.after, %eight.put]
  %e.more = icmp ult i64 %e, %eights
  br i1 %e.more, label %eight.look, label %next
eight.look:
  %e.cell = getelementptr $, ptr %keys, i64 %e
  %e.keys = load <8 x $>, ptr %e.cell, align SIZE
  br label %eight.half
eight.half:
  %lows = phi <8 x i64> [zeroinitializer, %eight.look], [%lows.next, %eight.half]
  %left = phi i64 [%n, %eight.look], [%left.next, %eight.half]
  %e.step = lshr i64 %left, 1
  %last = icmp eq i64 %e.step, 0
  %by = select i1 %last, i64 1, i64 %e.step
  %e.by = insertelement <8 x i64> poison, i64 %by, i64 0
  %bys = shufflevector <8 x i64> %e.by, <8 x i64> poison, <8 x i32> zeroinitializer
  %highs = add <8 x i64> %lows, %bys
  %e.low.cell = getelementptr $, ptr %row, i64 -1
{gathering}
  %e.less = icmp ult <8 x $> %m7, %e.keys
  %e.least = icmp ule <8 x $> %m7, %e.keys
  %e.before = select <8 x i1> %sides, <8 x i1> %e.least, <8 x i1> %e.less
  %lows.next = select <8 x i1> %e.before, <8 x i64> %highs, <8 x i64> %lows
  %left.next = sub i64 %left, %e.step
  br i1 %last, label %eight.put, label %eight.half
eight.put:
  %e.to = getelementptr i64, ptr %out, i64 %e
  store <8 x i64> %lows.next, ptr %e.to, align 8
  %e.after = add i64 %e, 8
  br label %eight
next:
  %i = phi i64 [%eights, %eight], [%after, %put]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %look, label %end
look:
  %cell = getelementptr $, ptr %keys, i64 %i
  %key = load $, ptr %cell
  br label %halve
halve:
  %low = phi i64 [0, %look], [%low.next, %half]
  %high = phi i64 [%n, %look], [%high.next, %half]
  %some = icmp ult i64 %low, %high
  br i1 %some, label %half, label %put
half:
  %apart = sub i64 %high, %low
  %step = lshr i64 %apart, 1
  %mid = add i64 %low, %step
  %mid.cell = getelementptr $, ptr %row, i64 %mid
  %mid.key = load $, ptr %mid.cell
  %less = icmp ult $ %mid.key, %key
  %least = icmp ule $ %mid.key, %key
  %before = select i1 %right, i1 %least, i1 %less
  %above = add i64 %mid, 1
  %low.next = select i1 %before, i64 %above, i64 %low
  %high.next = select i1 %before, i64 %high, i64 %mid
  br label %halve
put:
  %to = getelementptr i64, ptr %out, i64 %i
  store i64 %low, ptr %to
  %after = add i64 %i, 1
  br label %next
end:
  ret void
}
"""
_GATHERING = "\n".join(
    f"  %h{k} = extractelement <8 x i64> %highs, i64 {k}\n"
    f"  %c{k} = getelementptr $, ptr %e.low.cell, i64 %h{k}\n"
    f"  %l{k} = load $, ptr %c{k}\n"
    f"  %m{k} = insertelement <8 x $> {f'%m{k - 1}' if k else 'poison'}, $ %l{k}, i64 {k}"
    for k in range(8)
)
_ROUTINE = _ROUTINE.replace("{gathering}", _GATHERING)
