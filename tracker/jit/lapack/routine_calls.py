"""A plan's calls of routines, as text in the driver.

A stack of matrices is a loop in a function of its own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracker.jit.llvm.function_writer import FunctionWriter
from tracker.jit.scalar.values import ScalarValue


def write_call(driver: Any, call: Any) -> None:
    """Write one `RoutineCall`; where the routine fails, the native call is abandoned."""
    pointers = [_pointer(driver, operand) for operand in call.operands]
    pointers.append(driver.pointer(call.out))
    pointers.append("null" if call.work is None else driver.pointer(call.work))
    name = call.kind.symbol(call.name)
    driver.symbols.add(name)
    sizes = [f"i64 {n}" for n in call.sizes]
    types = ", ".join(["ptr"] * len(pointers) + ["i64"] * len(sizes))
    driver.needs.intrinsics.add(f"declare i64 @{name}({types})")
    arguments = [f"ptr {pointer}" for pointer in pointers]
    if math.prod(call.batch) == 1:
        failed = driver.e.write(f"call i64 @{name}({', '.join([*arguments, *sizes])})")
    else:
        stacked = _batched_function(driver, call, name, len(pointers), sizes)
        failed = driver.e.write(f"call i64 @{stacked}({', '.join(arguments)})")
    driver.require(ScalarValue(driver.e.write(f"icmp eq i64 {failed}, 0"), np.dtype(np.bool_)))


def _pointer(driver: Any, operand: Any) -> str:
    """The address of an operand; a number is put into memory first."""
    if operand.place is not None:
        where: str = driver.address(operand.place.buffer, operand.place.start)
        return where
    put: str = driver.readable(operand.atom)
    return put


def _batched_function(driver: Any, call: Any, name: str, count: int, sizes: list[str]) -> str:
    """A function that calls the routine for each matrix of a stack."""
    pointers = [f"%p{i}" for i in range(count)]
    parameters = [f"ptr {pointer}" for pointer in pointers]
    c = FunctionWriter(f"stack{len(driver.bodies)}", parameters, result="i64", attributes="")
    failed = c.variable(0)
    strides = dict(zip(pointers, call.strides, strict=False))
    with c.each_of_stack(call.batch, strides) as moved:
        given = [f"ptr {pointer}" for pointer in (*moved, *pointers[len(moved) :])]
        found = c.let(f"call i64 @{name}({', '.join([*given, *sizes])})")
        c.set(failed, c.let(f"or i64 {c.get(failed)}, {found}"))
    c.ret(c.get(failed))
    driver.bodies.append(c.text())
    return c.name
