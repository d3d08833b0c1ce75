"""Partition: which equations run natively, and which NumPy runs in between.

`partition` divides a function into stages, each a native `Segment`, a `HostCall`, or a guard on a
number that machine code cannot handle (float16). A function that can be lowered completely is one
segment, and so is one whose host calls can be callbacks (`jit/kernels/python_callbacks.py`).

Invariant: every operand of a stage is available; a guard is in the earliest segment that knows its
operand, and every guard precedes the stages that follow it in the function.
"""

from __future__ import annotations

import numpy as np

from tracker.ir.graph import (
    Atom,
    Const,
    Eqn,
    Function,
    Guard,
    Var,
    may_bail_out,
    nested_functions,
    operands_of,
)
from tracker.ir.lowering import (
    Branch,
    Contract,
    Expand,
    Host,
    Loop,
    Map,
    Pick,
    Reduce,
    Routine,
    Sort,
    View,
    While,
)
from tracker.ir.op import has_effect
from tracker.ir.passes.expand import expand_equation
from tracker.ir.types import Bundle, Type
from tracker.jit.runtime.lazy_imports import lazy_import
from tracker.jit.scalar.values import SUPPORTED
from tracker.support.structs import record

_why_no_callback = lazy_import("tracker.jit.kernels.python_callbacks", "why_no_callback")
_why_no_product = lazy_import("tracker.jit.kernels.blas_matmul", "why_no_product")
_why_no_routine = lazy_import("tracker.jit.lapack.routines", "why_no_routine")
_MAX_SORT_ROW = 1 << 32  # elements of a row: positions have 32 bits while sorting


@record()
class Segment:
    """A native segment: its function's inputs and outputs are variables of the whole function."""

    function: Function
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]


@record()
class HostCall:
    """One equation that NumPy evaluates, and why."""

    eqn: Eqn
    why: str


Stage = Segment | HostCall | Guard


def why_host(eqn: Eqn, calls: bool = False) -> str:
    """Why NumPy must evaluate an equation; empty if not. `calls`: callbacks are allowed."""
    lower = eqn.op.lower
    if isinstance(lower, Host):
        return "" if calls and not _why_no_callback(eqn) else lower.why
    if isinstance(lower, Expand):  # expandable ones have been expanded
        why = expand_equation(eqn)
        assert isinstance(why, str)
        return why
    if isinstance(lower, (Loop, While, Branch)):
        return _why_not_control(eqn, calls)
    if isinstance(lower, Pick):  # runs where its bundle runs
        return ""
    for atom in (*eqn.operands, eqn.out):
        if atom.type.dtype not in SUPPORTED:
            return f"dtype {atom.type.dtype}"
    if isinstance(lower, Contract):
        return str(_why_no_product(eqn))
    if isinstance(lower, Sort) and eqn.out.type.shape[-1] > _MAX_SORT_ROW:
        return "a row with more places than words of 32 bits can tell apart"
    if isinstance(lower, Routine):
        return str(_why_no_routine(eqn, lower))
    if isinstance(lower, Map):
        return _why_not_map(eqn, lower)
    if isinstance(lower, Reduce) and eqn.operands[0].type.size == 0:
        return "NumPy raises"
    if isinstance(lower, Reduce) and eqn.out.type.dtype.kind not in lower.kinds:
        return f"{eqn.op.name} of dtype {eqn.out.type.dtype}"
    if isinstance(lower, (View, Reduce)) and eqn.out.type.dtype not in SUPPORTED:
        return f"dtype {eqn.out.type.dtype}"
    return ""


def _why_not_control(eqn: Eqn, calls: bool) -> str:
    """A loop runs natively if all of its bodies do."""
    assert isinstance(eqn.out.type, Bundle)
    for type in (*(o.type for o in eqn.operands), *eqn.out.type.parts):
        if type.dtype not in SUPPORTED:
            return f"dtype {type.dtype}"
    if any(map(_is_complex_number, (*(o.type for o in eqn.operands), *eqn.out.type.parts))):
        return "a complex number in a loop or branch"
    for nested in eqn.params.values():
        if isinstance(nested, Function):
            if any(_is_complex_number(a.type) for a in (*nested.inputs, *nested.outputs)):
                return "a complex number in a loop or branch"
            for why in host_reasons(nested, calls).values():
                if why:
                    return f"{why}, in the body of a {eqn.op.name}"
    return ""


def _is_complex_number(type: Type) -> bool:
    """Whether a value takes two cells of a frame; bodies have one for each value."""
    return type.dtype.kind == "c" and not type.shape


def host_reasons(function: Function, calls: bool = False) -> dict[Eqn, str]:
    """Why NumPy must evaluate each equation (see `why_host`)."""
    reasons: dict[Eqn, str] = {}
    hosted: set[Atom] = set()
    for eqn in function.eqns:
        reasons[eqn] = why_host(eqn, calls)
        if isinstance(eqn.op.lower, Pick) and eqn.operands[0] in hosted:
            reasons[eqn] = "a part of several results"
        if reasons[eqn]:
            hosted.add(eqn.out)
    return reasons


def host_call(eqn: Eqn) -> HostCall:
    """An equation that Python evaluates, and why."""
    return HostCall(eqn, why_host(eqn))


def _why_not_map(eqn: Eqn, lower: Map) -> str:
    if lower.refuses is not None and (why := lower.refuses(*eqn.operands)):
        return why
    dtypes = lower.dtypes(*(o.type for o in eqn.operands))
    for operand, dtype in zip(eqn.operands, dtypes, strict=True):
        if dtype.kind not in lower.kinds or dtype not in SUPPORTED:
            return f"{eqn.op.name} of dtype {dtype}"
        if isinstance(operand, Const) and operand.type.weak and dtype.kind in "iu":
            limits = np.iinfo(dtype)
            if not limits.min <= operand.value <= limits.max:
                return f"{operand.value} is no {dtype}"
    return ""


def is_one_call(function: Function) -> bool:
    """Whether machine code can run all of a function, with callbacks where needed."""
    # A result may be an unchanged argument of a dtype that machine code cannot handle.
    guarded = [step.operand for step in function.body if isinstance(step, Guard)]
    native = all(atom.type.dtype in SUPPORTED for atom in (*function.outputs, *guarded))
    return native and not any(host_reasons(function, calls=True).values())


def partition(function: Function) -> list[Stage]:
    """Divide a function into native segments and host calls."""
    if is_one_call(function):
        outputs = tuple(a for a in function.outputs if isinstance(a, Var))
        return [Segment(function, (*function.inputs, *function.captures), outputs)]
    return _split_stages(function, host_reasons(function))


def _split_stages(function: Function, reasons: dict[Eqn, str]) -> list[Stage]:
    stage_of: dict[Var, int] = dict.fromkeys((*function.inputs, *function.captures), 0)
    native: dict[int, list[Eqn | Guard]] = {}
    hosts: dict[int, list[HostCall | Guard]] = {}
    guard_stage = 0  # NumPy may raise, so host calls run after preceding guards
    effect_stage = 0  # effects keep their order
    for step in function.body:
        at = max((stage_of[o] for o in _operands(step)), default=0)
        if isinstance(step, Guard) or may_bail_out(step):
            guard_stage = max(guard_stage, at)
        if isinstance(step, Eqn) and reasons[step]:
            at = max(guard_stage, at)
            if has_effect(step.op):
                at = effect_stage = max(effect_stage, at)
        if isinstance(step, Guard) and step.operand.type.dtype not in SUPPORTED:
            hosts.setdefault(at, []).append(step)
        elif isinstance(step, Guard) or not reasons[step]:
            native.setdefault(at, []).append(step)
            if isinstance(step, Eqn):
                stage_of[step.out] = at
        else:
            hosts.setdefault(at, []).append(HostCall(step, reasons[step]))
            stage_of[step.out] = at + 1
    stages: list[Stage] = []
    for at in range(max((*native, *hosts), default=0) + 1):
        if at in native:
            stages.append(_segment(function, native[at], at, native, hosts))
        stages.extend(hosts.get(at, ()))
    return stages


def _segment(
    function: Function,
    body: list[Eqn | Guard],
    at: int,
    native: dict[int, list[Eqn | Guard]],
    hosts: dict[int, list[HostCall | Guard]],
) -> Segment:
    computed = {step.out for step in body if isinstance(step, Eqn)}
    inputs = dict.fromkeys(o for step in body for o in _operands(step) if o not in computed)
    live = {a for a in function.outputs if isinstance(a, Var)}
    for later in range(at, max((*native, *hosts)) + 1):
        if later > at:
            live.update(o for step in native.get(later, ()) for o in _operands(step))
        others = (h.eqn if isinstance(h, HostCall) else h for h in hosts.get(later, ()))
        live.update(o for step in others for o in _operands(step))
    outputs = tuple(step.out for step in body if isinstance(step, Eqn) and step.out in live)
    bodies = nested_functions(body)
    part = Function(f"{function.name}.{at}", tuple(inputs), (), tuple(body), outputs, bodies)
    return Segment(part, tuple(inputs), outputs)


def _operands(step: Eqn | Guard) -> list[Var]:
    return [a for a in operands_of(step) if isinstance(a, Var)]
