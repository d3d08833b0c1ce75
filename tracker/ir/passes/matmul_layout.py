"""Transposes around matrix products: fewer copies of matrices.

A computed operand of a product is laid out in memory for it, but BLAS reads a matrix in either
order of its last two axes.

1. `share_transposes`: two transposes of one array that differ in these axes share one layout (the
   pullback of an einsum). It runs after `simplify`, which would merge two transposes again.

    u = transpose x {axes=(1, 2, 0)}        u = transpose x {axes=(1, 2, 0)}
    v = transpose x {axes=(1, 0, 2)}   ->   v = transpose u {axes=(0, 2, 1)}

2. `sink_transposes`: a loop's operands are stored in C order, so that a transpose before the loop
   is a copy; inside of the loop it costs nothing. Small matrices stay: their products are loops
   of ours, which are faster in C order. It runs after loops are rolled.

    u = transpose w;  loop u, ... {body=(u, ...) -> matmul g u}
    ->  loop w, ... {body=(w, ...) -> u = transpose w; matmul g u}

Of 69 programs the first changes one (attention, 1.03x as long without), the second another
(hamiltonian, 1.05x). Invariants: values stay; linear in the equations.
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
    """Make a transpose a view of another one that differs in the last two axes."""
    products = [eqn for eqn in function.eqns if isinstance(eqn.op.lower, Contract)]
    if not (products and function.has_op("transpose")):
        return function
    multiplied = {operand for eqn in products for operand in eqn.operands}
    computed: set[Atom] = {eqn.out for eqn in function.eqns}
    shared: dict[tuple[Atom, tuple[int, ...]], Var] = {}
    body: list[Eqn | Guard] = []
    for step in function.body:
        axes = _transpose_axes(step) if isinstance(step, Eqn) and step.out in multiplied else None
        if isinstance(step, Eqn) and axes and step.operands[0] in computed:
            source = step.operands[0]
            other = shared.get((source, (*axes[:-2], axes[-1], axes[-2])))
            if other is None:
                shared.setdefault((source, axes), step.out)
            else:
                kept = range(len(axes) - 2)
                params = {"axes": (*kept, len(axes) - 1, len(axes) - 2)}
                step = replace(step, operands=(other,), params=params)
        body.append(step)
    return with_body(function, body) if body != list(function.body) else function


def _transpose_axes(eqn: Eqn) -> tuple[int, ...] | None:
    """The axes of a transpose of three axes or more; of two, there is nothing to share."""
    if eqn.op.name != "transpose" or (ndim := eqn.out.type.ndim) < 3:
        return None
    axes = eqn.params.get("axes")
    return tuple(range(ndim))[::-1] if axes is None else tuple(axis % ndim for axis in axes)


_MIN_BYTES = 1 << 16  # bytes of a matrix that is not copied


@as_pass(requires=(ROLLED,))
def sink_transposes(function: Function) -> Function:
    """Pass matrices to loops as they are, and transpose them in the bodies."""
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
    """A loop that takes the operands of transposes that only its products read."""
    old: Function = loop.params["body"]
    read = _read_outside_products(old)
    operands, inputs, transposed_inside = list(loop.operands), list(old.inputs), []
    for at, var in enumerate(old.inputs[: loop.params["consts"]]):
        transpose = transposes.get(operands[at + 1])  # the count of steps comes first
        if transpose is None or var in read:
            continue
        (operands[at + 1],) = transpose.operands
        inputs[at] = Var(transpose.operands[0].type)
        transposed_inside.append(replace(transpose, operands=(inputs[at],), out=var))
    if not transposed_inside:
        return loop
    new = replace(old, inputs=tuple(inputs), body=(*transposed_inside, *old.body))
    return replace(loop, operands=tuple(operands), params=loop.params | {"body": new})


def _read_outside_products(body: Function) -> set[Atom]:
    """The values that anything but a product reads."""
    read: set[Atom] = set(body.outputs)
    for step in body.body:
        if not (isinstance(step, Eqn) and isinstance(step.op.lower, Contract)):
            read.update(operands_of(step))
    return read
