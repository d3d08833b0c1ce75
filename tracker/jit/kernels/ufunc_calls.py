"""Ufuncs of other packages, called on whole arrays from machine code.

One call of a ufunc's inner loop (`jit/runtime/ufunc_loops.py`) for all elements costs what the
package's own call does, without Python: the code around it stays one native call.

Invariant: of several results, those that are not used are written to one cell each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracker.ir.graph import Eqn
from tracker.jit.llvm.function_writer import FunctionWriter
from tracker.jit.runtime import ufunc_loops
from tracker.jit.schedule.steps import result_buffer
from tracker.support.structs import record

if TYPE_CHECKING:
    from tracker.jit.schedule.plan import Planner
    from tracker.jit.schedule.steps import Driver


@record(eq=False)
class UfuncStep:
    """out = one result of a ufunc."""

    eqn: Eqn

    def emit(self, driver: Driver) -> None:
        """Call the inner loop for all elements."""
        eqn = self.eqn
        loop = ufunc_loops.find(eqn.params["ufunc"], [o.type.dtype for o in eqn.operands])
        at, core = eqn.params["at"], eqn.params["core"]
        routine = _routine(loop, at, core)
        driver.needs.ufunc_loops.add(loop)
        driver.needs.intrinsics.add(routine.text())
        target = driver.pointer(result_buffer(driver, eqn))
        arguments = [f"ptr {target}, i64 {eqn.out.type.size // (core[1] if core else 1)}"]
        for number, operand in enumerate(eqn.operands):
            step = 0 if operand.type.size == 1 else operand.type.dtype.itemsize
            if core and number == 0:
                step = core[0] * operand.type.dtype.itemsize
            arguments.append(f"ptr {driver.readable(operand)}, i64 {step}")
        driver.lines.append(f"  call void @{routine.name}({', '.join(arguments)})")


def plan_ufunc(planner: Planner, eqn: Eqn) -> None:
    """Have the operands in memory in C order, and allocate the result."""
    planner.add_routine_step(UfuncStep(eqn))


def _routine(loop: ufunc_loops.UfuncLoop, at: int, core: tuple[int, int] | None) -> FunctionWriter:
    """The function (ptr out, i64 count, then ptr and i64 step per operand)."""
    many = len(loop.operands)
    name = f"{loop.symbol}.all.{at}" + ("".join(f".{n}" for n in core) if core else "")
    parameters = [x for k in range(many) for x in (f"ptr %x{k}", f"i64 %s{k}")]
    args, steps = [f"%x{k}" for k in range(many)], [f"%s{k}" for k in range(many)]
    counts = ["%n"]
    for k, letter in enumerate(loop.results):
        wide = np.dtype(letter).itemsize * (core[1] if core else 1)
        args.append("%out" if k == at else "%cell")
        steps.append(str(wide) if k == at else "0")
    if core:  # strides within a row follow the strides between rows
        counts += map(str, core)
        steps += [
            str(np.dtype(loop.operands[0]).itemsize),
            str(np.dtype(loop.results[at]).itemsize),
        ]
    c = FunctionWriter(name, ["ptr %out", "i64 %n", *parameters])
    c.cells.append("  %cell = alloca [2 x i64], align 16")
    arrays = [c.cells_of("ptr", args), c.cells_of("i64", counts), c.cells_of("i64", steps)]
    data = c.load(f"@{loop.symbol}.data", kind="ptr")
    c.emit(f"call void @{loop.symbol}({', '.join(f'ptr {x}' for x in (*arrays, data))})")
    c.ret()
    return c
