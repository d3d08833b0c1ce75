"""How a plan calls routines: where operands lie, which factors are shared, what scratch is needed.

Owns: `Call`, `Operand`, `plan_call` (what the planner does with a `Routine` equation).

Invariants: a routine reads matrices without gaps (or, of an operand that it may be handed
transposed, their transposes); what is not so is copied first. A matrix is factored once, however
many equations ask for it or for its transpose.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracker.ir.graph import Atom, Const, Eqn
from tracker.ir.op import Routine
from tracker.ir.types import Type
from tracker.jit.dense.routines import factored, workspace

_FLOAT64 = np.dtype(np.float64)


@dataclass(frozen=True, slots=True)
class Operand:
    """What a routine reads: a place in memory, or (`place` None) a value in registers. The matrices
    of a stack are `step` numbers apart."""

    atom: Atom
    place: Any
    step: int
    flipped: bool
    ready: int


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a routine, for each matrix of a stack of shape `batch`. `strides`: for operands
    and result, how many numbers apart matrices are along each axis of the stack."""

    name: str
    eqn: Eqn
    operands: tuple[Operand, ...]
    out: Any
    work: Any
    sizes: tuple[int, ...]
    batch: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]


def plan_call(planner: Any, eqn: Eqn, lower: Routine) -> None:
    """Plan a routine's equation."""
    operands = [
        _operand(planner, atom, lower.turns and at == 0) for at, atom in enumerate(eqn.operands)
    ]
    sizes = lower.sizes(*(atom.type for atom in eqn.operands), **eqn.params)
    if lower.turns:
        sizes = (*sizes, int(operands[0].flipped))
    if lower.factor:
        operands[0] = _factors(planner, eqn, operands[0])
    level = max(operand.ready for operand in operands)
    own, numbers = workspace(lower.name, sizes)
    batch = np.broadcast_shapes(*map(_stack, eqn.operands))
    work = planner.buffer(Type((numbers,), _FLOAT64), "scratch") if numbers else None
    out = planner.result(eqn.out, level + 1)
    strides = [_strides(_stack(o.atom), o.step, batch) for o in operands]
    strides.append(_strides(batch, eqn.out.type.size // math.prod(batch), batch))
    call = Call(lower.name, eqn, tuple(operands), out, work, (*sizes, *own), batch, tuple(strides))
    planner.plan.calls.setdefault(level, []).append(call)


def _operand(planner: Any, atom: Atom, may_turn: bool) -> Operand:
    """An operand where a routine can read it."""
    step = math.prod(atom.type.shape[-2:])
    if isinstance(atom, Const):
        return Operand(atom, None, 0, False, 0)
    place = planner.stored(atom)
    if place.kind == "tiny":
        return Operand(atom, None, step, False, place.ready)
    if place.strides == _dense(atom.type.shape):
        return Operand(atom, place, step, False, place.ready)
    if may_turn and place.strides == _turned(atom.type.shape):
        return Operand(atom, place, step, True, place.ready)
    copied = planner.copied(atom)
    return Operand(atom, copied, step, False, copied.ready)


def _stack(atom: Atom) -> tuple[int, ...]:
    """The shape of the stack of matrices that an operand is."""
    return atom.type.shape[:-2]


def _strides(stack: tuple[int, ...], step: int, batch: tuple[int, ...]) -> tuple[int, ...]:
    """How far apart matrices are along each axis of the whole stack; 0 where they repeat."""
    own = [0 if n == 1 else step * s for n, s in zip(stack, _dense(stack), strict=True)]
    return (*(0 for _ in range(len(batch) - len(stack))), *own)


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def _turned(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of transposed matrices without gaps."""
    *rest, down, across = _dense((*shape[:-2], shape[-1], shape[-2]))
    return (*rest, across, down)


def _factors(planner: Any, eqn: Eqn, a: Operand) -> Operand:
    """The factors of a matrix, made now unless they are there already."""
    key: Any = a.atom
    if a.place is not None:
        key = (a.place.buffer, a.place.start, a.atom.type.shape)
    known = planner.factors.get(key)
    n = a.atom.type.shape[-1]
    if known is None:
        batch = _stack(a.atom)
        buffer = planner.buffer(Type((math.prod(batch) * factored(n),), _FLOAT64), "scratch")
        strides = (_strides(batch, a.step, batch), _strides(batch, factored(n), batch))
        call = Call("lu", eqn, (a,), buffer, None, (n,), batch, strides)
        planner.plan.calls.setdefault(a.ready, []).append(call)
        known = planner.factors[key] = (buffer, a.ready + 1)
    buffer, ready = known
    place = planner.whole(buffer, ready)
    return replace(a, place=place, step=factored(n), ready=ready)
