"""Dead code of loops: results that nothing picks, rows that no step reads, and carried
arrays that only give themselves.

A traced loop keeps its carries for a pullback that may never come, and stacks all that its steps
give. Its pullback takes all kept carries, and reads those that its derivative needs.

Invariant: the steps of a loop, and what they compute for others, stay.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable
from typing import Any

from tracker.ir.graph import Eqn, Function, Guard, Var, operands_of, unused_name
from tracker.ir.lowering import Loop, Pick, While
from tracker.ir.passes.cleanup import needed_steps
from tracker.ir.passes.manager import as_pass
from tracker.ir.types import Bundle
from tracker.support.structs import replace


@as_pass()
def prune_loop_results(function: Function) -> Function:
    """Drop results that no `pick` takes, and operands that no step reads."""
    if not any(isinstance(op.lower, (Loop, While)) for op in function.ops):
        return function
    functions = dict(function.functions)
    steps = _prune_all_rows(function, functions)
    used = _used_variables(function, steps)
    picked: dict[Any, set[int]] = {}
    for eqn in function.eqns:
        if isinstance(eqn.op.lower, Pick) and eqn.out in used:
            picked.setdefault(eqn.operands[0], set()).add(eqn.params["at"])
    pruned_results: dict[Var, tuple[Var, dict[int, int]]] = {}
    body: list[Eqn | Guard] = []
    for step in steps:
        if isinstance(step, Eqn) and isinstance(step.op.lower, (Loop, While)):
            pruned, positions = _prune_results(step, picked.get(step.out, set()), functions)
            if isinstance(step.op.lower, Loop):
                left = {positions.get(at, at) for at in picked.get(step.out, ())}
                pruned, moved = _prune_carries(pruned, left, functions)
                stays = positions or {at: at for at in left}
                positions = {at: moved.get(i, i) for at, i in stays.items()}
            if pruned is not step:
                pruned_results[step.out] = (pruned.out, positions)
            step = pruned
        elif isinstance(step, Eqn) and isinstance(step.op.lower, Pick):
            if step.out not in used:
                continue
            assert isinstance(step.operands[0], Var)
            found = pruned_results.get(step.operands[0])
            if found is not None:
                at = {"at": found[1][step.params["at"]]}
                step = replace(step, operands=(found[0],), params=at)
        body.append(step)
    unchanged = len(body) == len(function.body) and all(map(operator.is_, body, function.body))
    return function if unchanged else replace(function, body=tuple(body), functions=functions)


def _used_variables(function: Function, steps: Iterable[Eqn | Guard]) -> set[Any]:
    """The variables that steps or outputs read."""
    read = itertools.chain(function.outputs, *map(operands_of, steps))
    return {o for o in read if isinstance(o, Var)}


def _prune_all_rows(function: Function, functions: dict[str, Function]) -> tuple[Eqn | Guard, ...]:
    """The body with loops that take no rows that no step reads."""
    return tuple(
        _prune_rows(step, functions)
        if isinstance(step, Eqn) and isinstance(step.op.lower, Loop)
        else step
        for step in function.body
    )


def _prune_rows(eqn: Eqn, functions: dict[str, Function]) -> Eqn:
    """A loop without the rows that its steps do not read."""
    nested, first = eqn.params["body"], eqn.params["consts"] + eqn.params["carries"]
    used = _used_variables(nested, nested.body)
    idle = {at for at in range(first, len(nested.inputs)) if nested.inputs[at] not in used}
    if not idle:
        return eqn
    inputs = tuple(v for at, v in enumerate(nested.inputs) if at not in idle)
    operands = tuple(o for at, o in enumerate(eqn.operands, -1) if at not in idle)  # a length first
    name = unused_name(f"{nested.name}_", functions)
    functions[name] = replace(nested, name=name, inputs=inputs)
    return replace(eqn, operands=operands, params={**eqn.params, "body": functions[name]})


def _prune_carries(
    eqn: Eqn, picked: set[int], functions: dict[str, Function]
) -> tuple[Eqn, dict[int, int]]:
    """The loop without arrays that only give themselves in the next step, and the new positions of
    its results. (Numbers cost nothing.)"""
    params, nested = eqn.params, eqn.params["body"]
    consts, carries, keep = params["consts"], params["carries"], params["keep"]
    inputs = nested.inputs[consts : consts + carries]
    counts = {at for at, v in enumerate(inputs) if at in picked or at in keep or not v.type.shape}
    while True:
        ends = [nested.outputs[at] for at in (*counts, *range(carries, len(nested.outputs)))]
        body = needed_steps(nested.body, ends)
        read = {*ends, *itertools.chain.from_iterable(map(operands_of, body))}
        more = counts.union(at for at, var in enumerate(inputs) if var in read)
        if more == counts:
            break
        counts = more
    if len(counts) == carries:
        return eqn, {}
    idle = set(range(carries)) - counts
    assert isinstance(eqn.out.type, Bundle)
    stays = [at for at in range(len(eqn.out.type.parts)) if at not in idle]
    position = {at: i for i, at in enumerate(stays)}
    name = unused_name(f"{nested.name}_", functions)
    functions[name] = replace(
        nested,
        name=name,
        inputs=tuple(v for at, v in enumerate(nested.inputs, -consts) if at not in idle),
        body=tuple(body),
        outputs=tuple(o for at, o in enumerate(nested.outputs) if at not in idle),
    )
    changed = {
        "body": functions[name],
        "carries": len(counts),
        "keep": tuple(position[at] for at in keep),
    }
    return (
        replace(
            eqn,
            operands=tuple(o for at, o in enumerate(eqn.operands, -1 - consts) if at not in idle),
            params={**params, **changed},
            out=Var(Bundle.of(eqn.out.type.parts[at] for at in stays), eqn.out.name),
        ),
        position,
    )


def _prune_results(
    eqn: Eqn, picked: set[int], functions: dict[str, Function]
) -> tuple[Eqn, dict[int, int]]:
    """The loop without stacks that are not picked, and the new positions of its other results."""
    params = dict(eqn.params)
    nested, keep = params["body"], params["keep"]
    assert isinstance(eqn.out.type, Bundle)
    parts = eqn.out.type.parts
    fixed = params["carries"] if isinstance(eqn.op.lower, Loop) else len(parts) - len(keep)
    stays = [at for at in range(len(parts)) if at < fixed or at in picked]
    if len(stays) == len(parts):
        return eqn, {}
    kept_from = len(parts) - len(keep)
    params["keep"] = tuple(keep[at - kept_from] for at in stays if at >= kept_from)
    ys = [at for at in stays if fixed <= at < kept_from]
    if len(ys) < kept_from - fixed:
        outputs = (*nested.outputs[:fixed], *(nested.outputs[at] for at in ys))
        name = unused_name(f"{nested.name}_", functions)
        params["body"] = functions[name] = replace(nested, name=name, outputs=outputs)
    out = Var(Bundle.of(parts[at] for at in stays), eqn.out.name)
    pruned = replace(eqn, params=params, out=out)
    return pruned, {at: i for i, at in enumerate(stays)}
