"""`f.explain`: a description of the plan of a compiled trace. Reads the plan, decides nothing."""

from __future__ import annotations

from collections.abc import Iterable

from tracker.ir.graph import Const, Eqn, Guard
from tracker.ir.lowering import Loop
from tracker.ir.types import Bundle
from tracker.jit.dispatch.specialization import SignatureGroup, Specialization
from tracker.jit.guards.captured_leaves import leaf_labels
from tracker.jit.pipeline.link import CompiledTrace, LinkedProgram
from tracker.jit.pipeline.partition import Segment, partition
from tracker.jit.runtime import blas
from tracker.jit.schedule.plan_data import ControlFlow, Kernel, Plan
from tracker.jit.schedule.reduction_fusion import KernelTraffic, format_space, memory_traffic
from tracker.support.shown_text import ShownText


def explain(name: str, specialization: Specialization, group: SignatureGroup) -> ShownText:
    """Text: why the traces were made; for one of them the call, its host calls, the kernels of each
    segment with their reads, writes and operations, the values stored between them and why, memory,
    guards, and times."""
    trace, compiled = specialization.trace, specialization.compiled
    lines = [f"{name}: {len(group.specializations)} trace(s) for these arguments"]
    lines += [
        f"  trace {at}: {each.describe_cause()}" for at, each in enumerate(group.specializations, 1)
    ]
    if group.fallback_reason:
        lines.append(f"  other calls run in plain Python: {group.fallback_reason}")
    if compiled.entry is not None:
        is_quick = compiled.optimised is not None
        lines.append(f"  one native call{', compiled quickly until it is called often' * is_quick}")
    else:
        lines.append(_segment_line(compiled))
    if specialization.calls_to_interpret and specialization.is_pending:
        count = specialization.calls_to_interpret
        lines.append(f"  before that, {count} call(s) interpreted by NumPy, without waiting")
    lines += [
        f"  host: {host.eqn.op.name} -> {host.eqn.out.type}: {host.why}{_location_text(host.eqn)}"
        for host in compiled.host_calls
    ]
    for piece in compiled.pieces:
        lines.extend(_native_segment_lines(piece))
    lines.append(_memory_line(compiled))
    names = leaf_labels(trace.signature)
    lines += [
        f"  captures: {names[source] if isinstance(source, int) else 'an array'}: {var.type}"
        for source, var in zip(trace.captures, trace.function.captures, strict=True)
    ]
    if trace.writes:
        lines.append(f"  writes into {len(trace.writes)} argument(s)")
    lines += [
        f"  guard: {guard.kind} of {guard.operand!r} is {guard.expected}{_location_text(guard)}"
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
    return ShownText("\n".join(lines))


def _segment_line(compiled: CompiledTrace) -> str:
    segments = sum(isinstance(part, Segment) for part in partition(compiled.function))
    waiting = segments - len(compiled.pieces)
    later = f", {waiting} of them compiled when they first run" if waiting > 0 else ""
    return f"  {segments} native segment(s) between {len(compiled.host_calls)} host call(s){later}"


def _memory_line(compiled: CompiledTrace) -> str:
    """The memory of a call: arguments, results, and the largest scratch block."""
    arguments = sum(v.type.nbytes for v in compiled.function.inputs)
    results = sum(a.type.nbytes for a in compiled.function.outputs)
    scratch = max((piece.scratch for piece in compiled.pieces), default=0)
    return (
        f"  memory: {arguments:,} bytes of arguments, {results:,} of results, at most {scratch:,} "
        "of scratch"
    )


def _native_segment_lines(piece: LinkedProgram) -> Iterable[str]:
    yield f"  segment: {_count_text(piece.plan)}, {piece.scratch} bytes of scratch"
    yield from _plan_lines(piece.plan)


def _count_text(plan: Plan) -> str:
    unrolled = sum(isinstance(s, Eqn) for steps in plan.unrolled.values() for s in steps)
    products = sum(map(len, plan.products.values()))
    return f"{unrolled} unrolled equation(s), {len(plan.kernels)} kernel(s), {products} product(s)"


def _plan_lines(plan: Plan) -> Iterable[str]:
    """The steps of a plan; those of loop bodies are indented."""
    for product in (step for steps in plan.products.values() for step in steps):
        eqn = product.eqn
        shapes = " @ ".join(str(o.type) for o in eqn.operands)
        inner = eqn.operands[0].type.shape[-1] if eqn.operands[0].type.shape else 1
        count = 2 * eqn.out.type.size * inner
        yield f"    product: {shapes}: {count:,} operations, {product.name}{_location_text(eqn)}"
    for call in (call for calls in plan.calls.values() for call in calls):
        shapes = ", ".join(str(o.type) for o in call.eqn.operands)
        yield f"    routine: {call.name} of {shapes}{_location_text(call.eqn)}"
    if plan.writes:
        yield f"    written piece by piece: {sum(map(len, plan.writes.values()))} pieces"
    for controls in plan.controls.values():
        for control in controls:
            yield f"    {control_text(control)}{_location_text(control.eqn)}"
            for name, body in control.bodies.items():
                yield f"      {name}: {_count_text(body)}"
                yield from (f"    {line}" for line in _plan_lines(body))
    found, kept = memory_traffic(plan)
    for account in found:
        yield from _kernel_lines(account)
    for value in kept:
        yield f"    kept: {value.value!r} ({value.value.type.nbytes:,} bytes): {value.reason}"


def control_text(control: ControlFlow) -> str:
    """A loop with its steps and saved values, a while loop, or a branch."""
    eqn = control.eqn
    assert isinstance(eqn.out.type, Bundle)
    parts = eqn.out.type.parts
    size = sum(type.nbytes for type in parts[len(parts) - len(eqn.params.get("keep", ())) :])
    keeps = f", keeps {size:,} bytes for the pullback" if size else ""
    if moving := sum(spare is not None for spare in control.spares):
        keeps += f", {len(control.in_place)} of {moving} arrays stay where they are"
    if not isinstance(eqn.op.lower, Loop):
        return f"{eqn.op.name}, native{keeps}"
    count = eqn.operands[0]
    steps = f"{count.value:,} steps" if isinstance(count, Const) else "as many steps as it takes"
    return f"{eqn.op.name} of {steps}{', backwards' if eqn.params['reverse'] else ''}{keeps}"


def kernel_text(kernel: Kernel) -> str:
    """The space of a loop, what is fused in it, and its reductions."""
    members = [eqn for piece in kernel.with_fused for eqn in piece.members]
    ops = " ".join(eqn.op.name for eqn in members[:12])
    more = "" if len(members) <= 12 else f" and {len(members) - 12} more"
    parts = [f"{len(members)} fused ({ops}{more})"] if members else []
    parts += [f"writes {store.eqn.op.name}" for store in kernel.stores if store.eqn is not None]
    parts += [text for piece in kernel.with_fused if (text := _reduction_text(piece, kernel))]
    return f"kernel over {format_space(kernel)}: {', '.join(parts) or 'copies'}"


def _kernel_lines(account: KernelTraffic) -> Iterable[str]:
    kernel = account.kernel
    yield f"    {kernel_text(kernel).replace(':', f', level {kernel.level}:', 1)}"
    yield (
        f"      reads {account.read_bytes:,} bytes, writes {account.written_bytes:,} bytes, "
        f"{account.flops:,} operations"
    )
    if account.recomputed:
        names = " ".join(dict.fromkeys(eqn.op.name for eqn in account.recomputed))
        yield f"      computes again, for it is cheaper than reading: {names}"
    eqns = [eqn for piece in kernel.with_fused for eqn in (*piece.members, *piece.reductions)]
    sources = sorted({eqn.where for eqn in eqns if eqn.where})
    if sources:
        yield f"      lines: {', '.join(sources[:6])}{', ...' if len(sources) > 6 else ''}"


def _reduction_text(piece: Kernel, kernel: Kernel) -> str:
    """The reductions of a loop, or of a reduction fused into it."""
    names = " ".join(eqn.op.name for eqn in piece.reductions)
    over = "" if piece is kernel else f" over {format_space(piece)}"
    return f"folds {names}{over}" if names else ""


def _location_text(step: Eqn | Guard) -> str:
    return f" at {step.where}" if step.where else ""
