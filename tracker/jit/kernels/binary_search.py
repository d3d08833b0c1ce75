"""Binary search: the positions of keys in a sorted row.

The row is halved for eight keys at a time with vector selects, because a branch on a key is
mispredicted every other time. The remaining keys are searched one by one, as in NumPy.

Invariant: all reads are inside of the row, even if the row is not sorted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracker.ir.graph import Eqn
from tracker.jit.llvm.function_writer import FunctionWriter, RoutineText
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
        text = llvm_type(row.type.dtype)
        routine = _search(text, row.type.dtype.itemsize)
        driver.needs.routines[routine.name] = routine
        target = driver.pointer(result_buffer(driver, self.eqn))
        right = "true" if self.eqn.params["right"] else "false"
        driver.lines.append(
            f"  call void @{routine.name}(ptr {driver.readable(row)}, i64 {row.type.size}, "
            f"ptr {driver.readable(keys)}, ptr {target}, i64 {keys.type.size}, i1 {right})"
        )


def plan_search(planner: Planner, eqn: Eqn) -> None:
    """Have the operands in memory in C order, and allocate the result."""
    planner.add_routine_step(SearchStep(eqn))


def _search(key: str, size: int) -> RoutineText:
    """The routine for keys of a type of so many bytes."""
    row, keys = "ptr noalias %row", "ptr noalias %keys"
    parameters = [row, "i64 %n", keys, "ptr noalias %out", "i64 %count", "i1 %right"]
    c = FunctionWriter(f"tk.search.{key}", parameters)

    def is_before(found: str, wanted: str, right: str, bools: str, kind: str) -> str:
        """Whether a key of the row is on the left of where a wanted key goes."""
        less = c.let(f"icmp ult {kind} {found}, {wanted}")
        least = c.let(f"icmp ule {kind} {found}, {wanted}")
        return c.let(f"select {bools} {right}, {bools} {least}, {bools} {less}")

    whole = c.let("and i64 %count, -8")
    eights = c.select(c.compare("eq", "%n", 0), 0, whole)
    rights = c.splat(8, "i1", "%right")
    with c.loop(0, c.let(f"lshr i64 {eights}, 3")) as block:
        at = c.mul(block, 8)
        wanted = c.let(f"load <8 x {key}>, ptr {c.address('%keys', at, key)}, align {size}")
        lows, left = c.variable("zeroinitializer", "<8 x i64>"), c.variable("%n")
        with c.repeat() as halving:
            half = c.let(f"lshr i64 {c.get(left)}, 1")
            is_last = c.compare("eq", half, 0)
            step = c.splat(8, "i64", c.select(is_last, 1, half))
            highs = c.let(f"add <8 x i64> {c.get(lows)}, {step}")
            lanes = [c.let(f"extractelement <8 x i64> {highs}, i64 {lane}") for lane in range(8)]
            found = c.vector_of(key, [c.load("%row", c.sub(high, 1), key) for high in lanes])
            before = is_before(found, wanted, rights, "<8 x i1>", f"<8 x {key}>")
            moved = f"select <8 x i1> {before}, <8 x i64> {highs}, <8 x i64> {c.get(lows)}"
            c.set(lows, c.let(moved))
            c.set(left, c.sub(c.get(left), half))
            c.leave_if(is_last, halving)
        c.emit(f"store <8 x i64> {c.get(lows)}, ptr {c.address('%out', at, 'i64')}, align 8")
    with c.loop(eights, "%count") as i:
        x, low, high = c.load("%keys", i, key), c.variable(0), c.variable("%n")
        with c.repeat() as halving:
            first, end = c.get(low), c.get(high)
            c.leave_if(c.compare("sge", first, end), halving)
            middle = c.add(first, c.let(f"lshr i64 {c.sub(end, first)}, 1"))
            before = is_before(c.load("%row", middle, key), x, "%right", "i1", key)
            c.set(low, c.select(before, c.add(middle, 1), first))
            c.set(high, c.select(before, end, middle))
        c.store(c.get(low), "%out", i, "i64")
    c.ret()
    return c.routine()
