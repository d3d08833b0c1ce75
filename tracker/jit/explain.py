"""`f.explain`: what a compiled trace runs, in words.

Owns: `explain`. It reads the plan; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tracker.ir.graph import Const, Eqn, Guard
from tracker.ir.lowering import Loop
from tracker.ir.types import Bundle
from tracker.jit.guards.matching import names_of
from tracker.jit.pipeline.partition import Segment, partition
from tracker.jit.runtime import blas
from tracker.jit.schedule.loop_fusion import Account, accounts, space_text
from tracker.jit.schedule.plan_data import Control, Kernel, Plan

if TYPE_CHECKING:
    from tracker.jit.dispatch.specialization import Special
    from tracker.jit.pipeline.link import Compiled, Piece


def explain(name: str, special: Special, specials: Sequence[Special]) -> str:
    """Text: why there are these traces; of one of them how the call is made, host calls, the
    kernels of each piece with what they read, write and compute, what is stored between them and
    why, memory, guards, times."""
    trace, compiled = special.trace, special.compiled
    lines = [f"{name}: {len(specials)} trace(s) for these arguments"]
    lines += [f"  trace {at}: {each.cause()}" for at, each in enumerate(specials, 1)]
    if compiled.entry is not None:
        lines.append("  one native call")
    else:
        lines.append(_stages(compiled))
    lines += [
        f"  host: {host.eqn.op.name} -> {host.eqn.out.type}: {host.why}{_at(host.eqn)}"
        for host in compiled.hosts
    ]
    for piece in compiled.pieces:
        lines.extend(_piece(piece))
    lines.append(_buffers(compiled))
    names = names_of(trace.call)
    lines += [
        f"  captures: {names[source] if isinstance(source, int) else 'an array'}: {var.type}"
        for source, var in zip(trace.captures, trace.function.captures, strict=True)
    ]
    if trace.writes:
        lines.append(f"  writes into {len(trace.writes)} argument(s)")
    lines += [
        f"  guard: {guard.kind} of {guard.operand!r} is {guard.expected}{_at(guard)}"
        for guard in compiled.function.body
        if isinstance(guard, Guard)
    ]
    seconds = {**compiled.seconds}
    for piece in compiled.pieces:
        for module in piece.modules:
            for step in ("parse", "optimise", "codegen", "link"):
                taken = getattr(module.timings, step)
                seconds[f"llvm {step}"] = seconds.get(f"llvm {step}", 0.0) + taken
    lines.append("  times: " + ", ".join(f"{k} {1e3 * v:.1f} ms" for k, v in seconds.items()))
    if blas.find() is None:
        lines.append(f"  BLAS: none ({blas.why_missing()}); NumPy multiplies large matrices")
    return "\n".join(lines)


def _stages(compiled: Compiled) -> str:
    segments = sum(isinstance(stage, Segment) for stage in partition(compiled.function))
    waiting = segments - len(compiled.pieces)
    later = f", {waiting} of them compiled when they first run" if waiting > 0 else ""
    return f"  {segments} native segment(s) between {len(compiled.hosts)} host call(s){later}"


def _buffers(compiled: Compiled) -> str:
    """What a call has in memory at most: scratch, and the results, which are the caller's."""
    arguments = sum(v.type.nbytes for v in compiled.function.inputs)
    results = sum(a.type.nbytes for a in compiled.function.outputs)
    scratch = max((piece.scratch for piece in compiled.pieces), default=0)
    return (
        f"  memory: {arguments:,} bytes of arguments, {results:,} of results, at most {scratch:,} "
        "of scratch"
    )


def _piece(piece: Piece) -> Iterable[str]:
    yield f"  segment: {_counts(piece.plan)}, {piece.scratch} bytes of scratch"
    yield from _steps(piece.plan)


def _counts(plan: Plan) -> str:
    unrolled = sum(isinstance(s, Eqn) for steps in plan.scalars.values() for s in steps)
    products = sum(map(len, plan.products.values()))
    return f"{unrolled} unrolled equation(s), {len(plan.kernels)} kernel(s), {products} product(s)"


def _steps(plan: Plan) -> Iterable[str]:
    """What a plan does, that of loop bodies indented."""
    for eqn in (eqn for eqns in plan.products.values() for eqn in eqns):
        shapes = " @ ".join(str(o.type) for o in eqn.operands)
        inner = eqn.operands[0].type.shape[-1] if eqn.operands[0].type.shape else 1
        count = 2 * eqn.out.type.size * inner
        how = "in loops over rows" if eqn.out in plan.rows else "by BLAS"
        yield f"    product: {shapes}: {count:,} operations, {how}{_at(eqn)}"
    for call in (call for calls in plan.calls.values() for call in calls):
        shapes = ", ".join(str(o.type) for o in call.eqn.operands)
        yield f"    routine: {call.name} of {shapes}{_at(call.eqn)}"
    if plan.writes:
        yield f"    written piece by piece: {sum(map(len, plan.writes.values()))} pieces"
    for controls in plan.controls.values():
        for control in controls:
            yield f"    {_control(control)}{_at(control.eqn)}"
            for name, body in control.bodies.items():
                yield f"      {name}: {_counts(body)}"
                yield from (f"    {line}" for line in _steps(body))
    found, kept = accounts(plan)
    for account in found:
        yield from _kernel(account)
    for value in kept:
        yield f"    kept: {value.value!r} ({value.value.type.nbytes:,} bytes): {value.why}"


def _control(control: Control) -> str:
    """A loop with its steps and what it keeps of each, a while, a branch."""
    eqn = control.eqn
    assert isinstance(eqn.out.type, Bundle)
    parts = eqn.out.type.parts
    size = sum(type.nbytes for type in parts[len(parts) - len(eqn.params.get("keep", ())) :])
    keeps = f", keeps {size:,} bytes for the pullback" if size else ""
    if moving := sum(spare is not None for spare in control.spares):
        keeps += f", {len(control.stay)} of {moving} arrays stay where they are"
    if not isinstance(eqn.op.lower, Loop):
        return f"{eqn.op.name}, native{keeps}"
    count = eqn.operands[0]
    steps = f"{count.value:,} steps" if isinstance(count, Const) else "as many steps as it takes"
    return f"{eqn.op.name} of {steps}{', backwards' if eqn.params['reverse'] else ''}{keeps}"


def _kernel(account: Account) -> Iterable[str]:
    kernel = account.kernel
    members = [eqn for piece in kernel.pieces for eqn in piece.members]
    ops = " ".join(eqn.op.name for eqn in members[:12])
    more = "" if len(members) <= 12 else f" and {len(members) - 12} more"
    folds = "".join(_folds(piece, kernel) for piece in kernel.pieces)
    yield (
        f"    kernel over {space_text(kernel)}, level {kernel.level}: "
        f"{len(members)} fused ({ops}{more}){folds}"
    )
    yield (
        f"      reads {account.read_bytes:,} bytes, writes {account.written_bytes:,} bytes, "
        f"{account.flops:,} operations"
    )
    if account.again:
        names = " ".join(dict.fromkeys(eqn.op.name for eqn in account.again))
        yield f"      computes again, for it is cheaper than reading: {names}"
    eqns = [eqn for piece in kernel.pieces for eqn in (*piece.members, *piece.folds)]
    places = sorted({eqn.where for eqn in eqns if eqn.where})
    if places:
        yield f"      lines: {', '.join(places[:6])}{', ...' if len(places) > 6 else ''}"


def _folds(piece: Kernel, kernel: Kernel) -> str:
    """What a loop, or a guest of it, adds up."""
    names = " ".join(eqn.op.name for eqn in piece.folds)
    over = "" if piece is kernel else f" over {space_text(piece)}"
    return f", folds {names}{over}" if names else ""


def _at(step: Eqn | Guard) -> str:
    return f" at {step.where}" if step.where else ""
