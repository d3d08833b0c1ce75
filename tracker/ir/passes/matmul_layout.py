"""Transposes of matrices that a loop's products read: fewer copies.

A loop's operands are stored in C order, so that a transpose before the loop is a copy; inside of
the loop it costs nothing, as BLAS reads a matrix in either order. Small matrices stay: their
products are loops of ours, which are faster in C order. It runs after loops are rolled.

    u = transpose w;  loop u, ... {body=(u, ...) -> matmul g u}
    ->  loop w, ... {body=(w, ...) -> u = transpose w; matmul g u}

Of 69 programs this changes one (hamiltonian, 1.05 to 1.1x as long without). Invariants: values
stay; linear in the equations.
"""

from __future__ import annotations

from collections.abc import Mapping

from tracker.ir.graph import Atom, Eqn, Function, Guard, Var, nested_functions, operands_of
from tracker.ir.lowering import Contract, Loop
from tracker.ir.passes.loop_limits import ROLLED
from tracker.ir.passes.manager import as_pass
from tracker.support.structs import replace

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
