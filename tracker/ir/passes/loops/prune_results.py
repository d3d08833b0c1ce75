"""Dead code of loops: results that nothing picks, rows that no step reads, and carried
arrays that only give themselves.

A traced loop keeps its carries for a pullback that may never come, and stacks all that its steps
give. Its pullback takes all kept carries, and reads those that its derivative needs.

Invariant: the steps of a loop, and what they compute for others, stay.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from tracker.ir.graph import Atom, Eqn, Function, Guard, Var, operands_of, unused_name
from tracker.ir.lowering import Loop, Pick, While
from tracker.ir.passes.dead_code import needed_steps
from tracker.ir.passes.manager import BodyWriter, as_pass, rewrite_equations
from tracker.ir.types import Bundle
from tracker.support.structs import replace


@as_pass()
def prune_loop_results(function: Function) -> Function:
    """Drop results that no `pick` takes, and operands that no step reads."""
    if not any(isinstance(op.lower, (Loop, While)) for op in function.ops):
        return function
    functions = dict(function.functions)
    pruned: dict[Any, Function] = {}
    used = _read(function.body, function.outputs)
    picked: dict[Atom, set[int]] = {}
    for eqn in function.eqns:
        if isinstance(eqn.op.lower, Pick) and eqn.out in used:
            picked.setdefault(eqn.operands[0], set()).add(eqn.params["at"])
    stays: dict[Atom, list[int]] = {}  # of the results of loops

    def rewrite(new: BodyWriter, eqn: Eqn) -> bool | Atom:
        if isinstance(eqn.op.lower, (Loop, While)):
            loop, stays[loop.out] = _prune(eqn, picked.get(eqn.out, set()), functions, pruned)
            if loop is eqn:
                return False
            new.body.append(loop)
            return loop.out
        if not isinstance(eqn.op.lower, Pick) or eqn.out not in used:
            return isinstance(eqn.op.lower, Pick)
        bundle, at = eqn.operands[0], eqn.params["at"]
        if bundle not in stays or stays[bundle][at : at + 1] == [at]:
            return False
        new.emit("pick", bundle, at=stays[bundle].index(at), out=eqn.out)
        return True

    written = rewrite_equations(function, rewrite)
    return function if written is function else replace(written, functions=functions)


def _read(steps: Iterable[Eqn | Guard], outputs: Iterable[Atom]) -> set[Atom]:
    return {*outputs, *itertools.chain.from_iterable(map(operands_of, steps))}


def _prune(
    eqn: Eqn, picked: set[int], functions: dict[str, Function], pruned: dict[Any, Function]
) -> tuple[Eqn, list[int]]:
    """The loop without what nothing reads, and which of its results are left. `pruned`: the new
    bodies, which loops share."""
    assert isinstance(eqn.out.type, Bundle)
    parts, operands, params = eqn.out.type.parts, eqn.operands, dict(eqn.params)
    first_kept = len(parts) - len(params["keep"])
    kept = {at: carry for at, carry in enumerate(params["keep"], first_kept) if at in picked}
    left = list(range(first_kept))
    if isinstance(eqn.op.lower, Loop):
        nested, consts, carries = (params[name] for name in ("body", "consts", "carries"))
        ys = [at for at in range(carries, first_kept) if at in picked]
        live = _live_carries(eqn, picked.union(kept.values()), ys)
        left = [*live, *ys]
        outputs = tuple([nested.outputs[at] for at in left])
        steps = needed_steps(nested.body, outputs)
        read = _read(steps, outputs)
        inputs = [*range(consts), *(consts + at for at in live)]
        rows = range(consts + carries, len(nested.inputs))
        inputs += [at for at in rows if nested.inputs[at] in read]
        if len(inputs) < len(nested.inputs) or len(left) < len(nested.outputs):
            key = nested, *inputs, None, *left
            if key not in pruned:
                name = unused_name(f"{nested.name}_", functions)
                taken = tuple([nested.inputs[at] for at in inputs])
                pruned[key] = functions[name] = replace(
                    nested, name=name, inputs=taken, body=tuple(steps), outputs=outputs
                )
            params["body"] = pruned[key]
            params["carries"] = len(live)
            operands = (operands[0], *(operands[1 + at] for at in inputs))  # a length first
    stays = [*left, *kept]
    if len(operands) == len(eqn.operands) and len(stays) == len(parts):
        return eqn, stays
    params["keep"] = tuple([left.index(carry) for carry in kept.values()])
    out = Var(Bundle.of([parts[at] for at in stays]), eqn.out.name)
    return replace(eqn, operands=operands, params=params, out=out), stays


def _live_carries(loop: Eqn, picked: set[int], ys: list[int]) -> list[int]:
    """The carries that are picked, or that lead to what is, and numbers, which cost nothing."""
    nested, consts, carries = (loop.params[name] for name in ("body", "consts", "carries"))
    inputs = nested.inputs[consts : consts + carries]
    live = {at for at, var in enumerate(inputs) if at in picked or not var.type.shape}
    while True:
        outputs = [nested.outputs[at] for at in (*live, *ys)]
        read = _read(needed_steps(nested.body, outputs), outputs)
        more = live.union(at for at, var in enumerate(inputs) if var in read)
        if more == live:
            return sorted(live)
        live = more
