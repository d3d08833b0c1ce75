"""Ufuncs of other packages called for whole arrays in machine code.

Owns: `Loan` (a step of the plan), `plan_loan`, and the text of the call. One call of a ufunc's
inner loop (`borrowed.py`) for all elements costs what the package's own call does, and Python has
no part in it: what comes before and after stays one native call.

Invariant: of several results, those that are not asked for go to one cell each.
"""

from __future__ import annotations

from typing import Any

from tracker.ir.graph import Eqn, Var
from tracker.jit import borrowed
from tracker.records import record


@record(eq=False)
class Loan:
    """out = one result of a ufunc."""

    eqn: Eqn

    def write(self, driver: Any) -> None:
        """Call the inner loop for all elements."""
        _write(driver, self.eqn)


def plan_loan(planner: Any, eqn: Eqn) -> None:
    """Have the operands where they can be read, in C order, and place the result."""
    places = [planner.in_order(o) for o in eqn.operands if isinstance(o, Var)]
    level = max((place.ready for place in places), default=0)
    planner.made(eqn.out, level)
    planner.plan.writes.setdefault(level, []).append(Loan(eqn))


def _write(driver: Any, eqn: Eqn) -> None:
    loop = borrowed.find(eqn.params["ufunc"], [o.type.dtype for o in eqn.operands])
    driver.needs.borrowed.add(loop)
    name, text = _routine(loop, eqn.params["at"])
    driver.needs.intrinsics.add(text)
    target = driver.pointer(driver.plan.places[eqn.out].buffer)
    given = [f"ptr {target}, i64 {eqn.out.type.size}"]
    for operand in eqn.operands:
        step = 0 if operand.type.size == 1 else operand.type.dtype.itemsize
        given.append(f"ptr {driver.readable(operand)}, i64 {step}")
    driver.lines.append(f"  call void {name}({', '.join(given)})")


def _routine(loop: borrowed.Loop, at: int) -> tuple[str, str]:
    """The function (ptr out, i64 count, and of each operand ptr from, i64 step), and its name."""
    name = f"@{loop.symbol}.all.{at}"
    many = len(loop.operands)
    count = many + len(loop.results)
    head = ", ".join(["ptr %out, i64 %n", *(f"ptr %x{k}, i64 %s{k}" for k in range(many))])
    lines = [
        f"define internal void {name}({head}) noinline {{",
        f"  %args = alloca [{count} x ptr]",
        f"  %steps = alloca [{count} x i64]",
        "  %count = alloca i64",
        "  %cell = alloca [2 x i64], align 16",
        "  store i64 %n, ptr %count",
    ]
    for k in range(count):
        if k < many:
            pointer, step = f"%x{k}", f"%s{k}"
        elif k - many == at:
            pointer, step = "%out", str(loop.itemsize(at))
        else:
            pointer, step = "%cell", "0"
        lines += [
            f"  %a{k} = getelementptr ptr, ptr %args, i64 {k}",
            f"  store ptr {pointer}, ptr %a{k}",
            f"  %t{k} = getelementptr i64, ptr %steps, i64 {k}",
            f"  store i64 {step}, ptr %t{k}",
        ]
    lines += [
        f"  %data = load ptr, ptr @{loop.symbol}.data",
        f"  call void @{loop.symbol}(ptr %args, ptr %count, ptr %steps, ptr %data)",
        "  ret void",
        "}",
    ]
    return name, "\n".join(lines)
