"""Routines in a plan, and their calls in its driver: operands in memory, shared factors, scratch.

Invariants: a routine reads contiguous matrices (or their transposes, of an operand that may be
transposed); others are copied first. A matrix is factored once, however many equations need it or
its transpose.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tracker.ir.graph import Atom, Eqn, Var
from tracker.ir.lowering import Routine
from tracker.ir.types import Type
from tracker.jit.lapack.routine_writer import MatrixKind
from tracker.jit.lapack.routines import factored_words, kind_of, workspace_size
from tracker.jit.llvm.function_writer import FunctionWriter
from tracker.jit.scalar.values import ScalarValue
from tracker.jit.schedule.plan_data import Unrolled, buffer_location
from tracker.ops.shape.memory_order import c_strides
from tracker.support.structs import record, replace

if TYPE_CHECKING:
    from tracker.jit.schedule.plan import Planner
    from tracker.jit.schedule.steps import Driver

_WORD = np.dtype(np.float64)


@record(frozen=True)
class RoutineOperand:
    """An operand of a routine: a location in memory, or (`location` None) a number. The matrices of
    a stack (the numbers, where it takes one for each) are `step` words apart."""

    atom: Atom
    location: Any
    stack: tuple[int, ...]
    step: int
    flipped: bool
    ready: int


@record(frozen=True)
class RoutineCall:
    """A call of a routine, for each matrix of a stack of shape `batch`. `strides`: for operands and
    result, the distance of matrices along each axis of the stack, in words of 8 bytes."""

    name: str
    kind: MatrixKind
    eqn: Eqn
    operands: tuple[RoutineOperand, ...]
    out: Any
    work: Any
    sizes: tuple[int, ...]
    batch: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    def emit(self, driver: Driver) -> None:
        """Call the routine; where it fails, the native call is abandoned."""
        pointers = [_address(driver, operand) for operand in self.operands]
        pointers.append(driver.pointer(self.out))
        pointers.append("null" if self.work is None else driver.pointer(self.work))
        name = self.kind.symbol(self.name)
        driver.symbols.add(name)
        sizes = [f"i64 {n}" for n in self.sizes]
        types = ", ".join(["ptr"] * len(pointers) + ["i64"] * len(sizes))
        driver.needs.intrinsics.add(f"declare i64 @{name}({types})")
        if math.prod(self.batch) > 1:
            name, sizes = self._emit_stack(driver, len(pointers), sizes), []
        arguments = ", ".join([*(f"ptr {pointer}" for pointer in pointers), *sizes])
        failed = driver.e.write(f"call i64 @{name}({arguments})")
        driver.require(ScalarValue(driver.e.write(f"icmp eq i64 {failed}, 0"), np.dtype(np.bool_)))

    def _emit_stack(self, driver: Driver, count: int, sizes: list[str]) -> str:
        """A function that calls the routine for each matrix of a stack."""
        pointers = [f"%p{i}" for i in range(count)]
        parameters = [f"ptr {pointer}" for pointer in pointers]
        c = FunctionWriter(f"stack{len(driver.bodies)}", parameters, result="i64", attributes="")
        failed = c.variable(0)
        strides = dict(zip(pointers, self.strides, strict=False))
        with c.each_of_stack(self.batch, strides) as moved:
            given = [f"ptr {pointer}" for pointer in (*moved, *pointers[len(moved) :])]
            name = self.kind.symbol(self.name)
            found = c.let(f"call i64 @{name}({', '.join([*given, *sizes])})")
            c.set(failed, c.let(f"or i64 {c.get(failed)}, {found}"))
        c.ret(c.get(failed))
        driver.bodies.append(c.text())
        return c.name


def _address(driver: Driver, operand: RoutineOperand) -> str:
    """The address of an operand; a number is put into memory first."""
    if operand.location is None:
        return driver.readable(operand.atom)
    return driver.address(operand.location.buffer, operand.location.start)


def plan_call(planner: Planner, eqn: Eqn) -> None:
    """Plan a routine's equation."""
    lower = eqn.op.lower
    assert isinstance(lower, Routine)
    kind = kind_of(eqn)
    operands = [
        _operand(
            planner,
            atom,
            0 if at in lower.scalar_operands else 2,
            lower.takes_transposed and at == 0,
        )
        for at, atom in enumerate(eqn.operands)
    ]
    sizes = lower.sizes(*(atom.type for atom in eqn.operands), **eqn.params)
    if lower.takes_transposed:
        sizes = (*sizes, int(operands[0].flipped))
    if lower.takes_factored:
        operands[:1] = _plan_factors(planner, eqn, kind, operands[0])
    level = max(operand.ready for operand in operands)
    own, words = workspace_size(lower.name, kind, sizes)
    batch = np.broadcast_shapes(*(operand.stack for operand in operands))
    work = planner.buffer(Type((words,), _WORD), "scratch") if words else None
    out = planner.result(eqn.out, level + 1)
    strides = [_batch_strides(operand.stack, operand.step, batch) for operand in operands]
    strides.append(
        _batch_strides(
            batch, _words_per_element(eqn.out.type) * eqn.out.type.size // math.prod(batch), batch
        )
    )
    call = RoutineCall(
        lower.name, kind, eqn, tuple(operands), out, work, (*sizes, *own), batch, tuple(strides)
    )
    planner.plan.calls.setdefault(level, []).append(call)


def _operand(planner: Planner, atom: Atom, axes: int, may_transpose: bool) -> RoutineOperand:
    """An operand where a routine can read it; the last `axes` are those of a matrix."""
    type = atom.type
    stack = type.shape[: type.ndim - axes]
    step = math.prod(type.shape[len(stack) :]) * _words_per_element(type)
    if not isinstance(atom, Var):
        return RoutineOperand(atom, None, stack, step, False, 0)
    location = planner.stored(atom)
    if isinstance(location, Unrolled):
        return RoutineOperand(atom, None, stack, step, False, location.ready)
    if location.strides == c_strides(type.shape):
        return RoutineOperand(atom, location, stack, step, False, location.ready)
    if may_transpose and location.strides == _transposed_strides(type.shape):
        return RoutineOperand(atom, location, stack, step, True, location.ready)
    copied, flipped = _contiguous_copy(planner, atom, location, may_transpose)
    return RoutineOperand(atom, copied, stack, step, flipped, copied.ready)


def _contiguous_copy(
    planner: Planner, atom: Var, location: Any, may_transpose: bool
) -> tuple[Any, bool]:
    """A copy of matrices that lie with gaps, and whether it is that of their transposes: these are
    asked for by the pullback, and the factors are those of the copy."""
    source = location.buffer, location.start, planner.in_place.version(atom)
    shape, strides = atom.type.shape, location.strides
    known = planner.gapless.get((*source, _swap_last_two(shape), _swap_last_two(strides)))
    if may_transpose and known is not None:
        return known, True
    key = (*source, shape, strides)
    if key not in planner.gapless:
        planner.gapless[key] = planner.copied(atom)
    return planner.gapless[key], False


def _swap_last_two(of: tuple[int, ...]) -> tuple[int, ...]:
    """Shape or strides of transposed matrices."""
    return (*of[:-2], *of[:-3:-1])


def _words_per_element(type: Type) -> int:
    """Words of 8 bytes in a number."""
    return type.dtype.itemsize // _WORD.itemsize


def _batch_strides(stack: tuple[int, ...], step: int, batch: tuple[int, ...]) -> tuple[int, ...]:
    """The distance of matrices along each axis of the whole stack; 0 where they repeat."""
    own = [0 if n == 1 else step * s for n, s in zip(stack, c_strides(stack), strict=True)]
    return (*(0 for _ in range(len(batch) - len(stack))), *own)


def _transposed_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of transposed matrices without gaps."""
    *rest, down, across = c_strides((*shape[:-2], shape[-1], shape[-2]))
    return (*rest, across, down)


def _plan_factors(
    planner: Planner, eqn: Eqn, kind: MatrixKind, a: RoutineOperand
) -> list[RoutineOperand]:
    """The factors of a matrix and what goes with them, made now unless they are there already."""
    key: Any = a.atom
    if a.location is not None:
        assert isinstance(a.atom, Var)
        version = planner.in_place.version(a.atom)
        key = (a.location.buffer, a.location.start, a.atom.type.shape, version)
    known = planner.factors.get(key)
    n, batch = a.atom.type.shape[-1], a.stack
    sizes = factored_words(n, kind)
    if known is None:
        factors, pivots = (
            planner.buffer(Type((math.prod(batch) * size,), _WORD), "scratch") for size in sizes
        )
        known = planner.factors[key] = (factors, pivots, a.ready + 1)
        noted = replace(a, location=buffer_location(pivots, a.ready), step=sizes[1])
        strides = tuple(_batch_strides(batch, step, batch) for step in (a.step, sizes[1], sizes[0]))
        call = RoutineCall("lu", kind, eqn, (a, noted), factors, None, (n,), batch, strides)
        planner.plan.calls.setdefault(a.ready, []).append(call)
    *buffers, ready = known
    return [
        replace(a, location=buffer_location(buffer, ready), step=size, ready=ready)
        for buffer, size in zip(buffers, sizes, strict=True)
    ]
