"""One layout for an array that products take both as it is and with its last two axes exchanged.

Owns: the pass `share_transposes`. A product's operand that is computed is laid out in memory for
it, once per order of its axes; but BLAS reads a matrix from either side. The pullback of an einsum
takes the same array from both:

    u = transpose x {axes=(1, 2, 0)}        u = transpose x {axes=(1, 2, 0)}
    v = transpose x {axes=(1, 0, 2)}   ->   v = transpose u {axes=(0, 2, 1)}

so only `u` is laid out. It runs after `simplify`, which would make two transposes one again.
Invariants: values stay; linear in the equations.

Matrices whose transposes a loop's products read are transposed in the loop: that costs nothing.

Owns: the pass `sink_transposes`. What a loop takes in lies in memory in C order, so a transpose
that was made before a loop is a copy; BLAS reads a matrix from either side:

    u = transpose w;  loop u, ... {body=(u, ...) -> matmul g u}
    ->  loop w, ... {body=(w, ...) -> u = transpose w; matmul g u}

A small matrix is left where it is: its products are loops of ours, which like C order best. It runs
after loops are made of what repeats itself. Invariants: values stay; linear in the equations.
"""

from __future__ import annotations

from collections.abc import Mapping

from tracker.ir.graph import Atom, Eqn, Function, Guard, Var, nested_functions, operands_of
from tracker.ir.lowering import Contract, Loop
from tracker.ir.passes.linalg_dtypes import LEGAL_DTYPES
from tracker.ir.passes.loop_limits import ROLLED
from tracker.ir.passes.manager import Property, as_pass, with_body
from tracker.support.structs import replace

SHARED_LAYOUTS = Property("transposes that products read from both sides are views of one array")


@as_pass(requires=(LEGAL_DTYPES,), establishes=(SHARED_LAYOUTS,))
def share_transposes(function: Function) -> Function:
    if not (
        function.has_op("transpose") and any(isinstance(o.lower, Contract) for o in function.ops)
    ):
        return function
    taken = {
        operand
        for eqn in function.eqns
        if isinstance(eqn.op.lower, Contract)
        for operand in eqn.operands
    }
    computed = {eqn.out for eqn in function.eqns}
    first: dict[tuple[Atom, tuple[int, ...]], Var] = {}
    body: list[Eqn | Guard] = []
    for step in function.body:
        axes = _transpose_axes(step) if isinstance(step, Eqn) else None
        if isinstance(step, Eqn) and axes and step.out in taken and step.operands[0] in computed:
            source = step.operands[0]
            other = first.get((source, (*axes[:-2], axes[-1], axes[-2])))
            if other is None:
                first.setdefault((source, axes), step.out)
            else:
                kept = range(len(axes) - 2)
                params = {"axes": (*kept, len(axes) - 1, len(axes) - 2)}
                step = replace(step, operands=(other,), params=params)
        body.append(step)
    return with_body(function, body) if body != list(function.body) else function


def _transpose_axes(eqn: Eqn) -> tuple[int, ...] | None:
    """The order of a transpose of three axes or more; of two, there is nothing to share."""
    if eqn.op.name != "transpose" or (ndim := eqn.out.type.ndim) < 3:
        return None
    axes = eqn.params.get("axes")
    return tuple(range(ndim))[::-1] if axes is None else tuple(axis % ndim for axis in axes)


_MIN_BYTES = 1 << 16  # bytes of a matrix that is not copied


@as_pass(requires=(ROLLED,))
def sink_transposes(function: Function) -> Function:
    """Take in the matrices that transposes are views of, and transpose them in the bodies."""
    if not any(isinstance(op.lower, Loop) for op in function.ops):
        return function
    transposes: dict[Atom, Eqn] = {}
    body: list[Eqn | Guard] = []
    for step in function.body:
        if isinstance(step, Eqn):
            if _is_large_transpose(step):
                transposes[step.out] = step
            elif isinstance(step.op.lower, Loop):
                step = _sink(step, transposes)
        body.append(step)
    if body == list(function.body):
        return function
    return replace(function, body=tuple(body), functions=nested_functions(body))


def _is_large_transpose(eqn: Eqn) -> bool:
    return (
        eqn.op.name == "transpose"
        and eqn.out.type.ndim == 2
        and eqn.out.type.nbytes >= _MIN_BYTES
        and eqn.out.type.dtype.char in "fdFD"  # BLAS's
        and tuple(axis % 2 for axis in eqn.params.get("axes") or (1, 0)) == (1, 0)
    )


def _sink(loop: Eqn, transposes: Mapping[Atom, Eqn]) -> Eqn:
    """A loop that takes in what is transposed, of what only products read."""
    old: Function = loop.params["body"]
    read = _read_outside_products(old)
    operands, inputs, first = list(loop.operands), list(old.inputs), []
    for at, var in enumerate(old.inputs[: loop.params["consts"]]):
        made = transposes.get(operands[at + 1])  # the count of steps comes first
        if made is None or var in read:
            continue
        (operands[at + 1],) = made.operands
        inputs[at] = Var(made.operands[0].type)
        first.append(replace(made, operands=(inputs[at],), out=var))
    if not first:
        return loop
    new = replace(old, inputs=tuple(inputs), body=(*first, *old.body))
    return replace(loop, operands=tuple(operands), params=loop.params | {"body": new})


def _read_outside_products(body: Function) -> set[Atom]:
    """What anything but a product reads."""
    read: set[Atom] = set(body.outputs)
    for step in body.body:
        if not (isinstance(step, Eqn) and isinstance(step.op.lower, Contract)):
            read.update(operands_of(step))
    return read
