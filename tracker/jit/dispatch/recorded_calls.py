"""A jitted function that an eager derivative calls: one operation of the tape, whose pullback is
compiled. Start at `RecordedCalls.call`.

The tape cannot see into such a call, so it must be a function of its tracked arguments and nothing
else: `_is_one_operation` says so of a trace. Any other call is recorded operation by operation, as
is the first one with arguments of its kind, which costs no trace, and whatever has an outer
derivative, whose tape would need the operations.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from tracker import tree
from tracker.autodiff.custom_rule_calls import CustomRule, apply_rule
from tracker.autodiff.leaves import plain_data
from tracker.autodiff.pullbacks import compiled_linear_map, linearize, pullback
from tracker.ir.graph import Atom, Eqn, Function
from tracker.jit.dispatch.specialization import SignatureGroup
from tracker.jit.tracing.trace import Trace
from tracker.support.structs import field, record
from tracker.tape.observers import running_derivative_count
from tracker.tape.tracked import Tracked

# A compiled pullback takes as long as to record so many equations, and some for each leaf.
_MIN_EQUATIONS, _PER_LEAF = 24, 3


class NotOneOperation(Exception):
    """The call must be recorded operation by operation."""


@record(eq=False)
class RecordedCalls:
    """The calls of one jitted function with tracked arguments.

    function    the plain function
    jitted      the function that machine code serves
    group       finds the traces of calls with these plain arguments, made if need be
    rules       those of the operations, by the numbers of the tracked arguments
    """

    name: str
    function: Callable[..., Any]
    jitted: Callable[..., Any]
    group: Callable[[Sequence[Any], dict[str, Any]], SignatureGroup | None]
    rules: dict[tuple[int, ...], CustomRule] = field(default_factory=dict)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result, of one operation of the tape or of many."""
        try:
            return self._as_one_operation(args, kwargs)
        except NotOneOperation:
            return self.function(*args, **kwargs)

    def _as_one_operation(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if running_derivative_count() > 1:
            raise NotOneOperation
        leaves, structure = tree.flatten(args)
        named = tree.leaves(kwargs)
        if not all(map(_holds_nothing, (*leaves, *named))) or any(map(_is_tracked, named)):
            raise NotOneOperation
        plain = tree.unflatten(structure, map(plain_data, leaves), args)
        group = self.group(plain, kwargs)
        tracked = sum(1 << at for at, x in enumerate(leaves) if _is_tracked(x))
        self._check(group, tracked)
        rest = iter(leaves)
        counts = [below.count for below in structure.children]
        moving = [any(list(map(_is_tracked, itertools.islice(rest, n)))) for n in counts]
        argnums = tuple(itertools.compress(itertools.count(), moving))
        rule = self.rules.get(argnums)
        if rule is None:
            rule = self.rules[argnums] = CustomRule(
                self.name, self.function, functools.partial(self._reverse, argnums), self._forward
            )
        y = apply_rule(rule, args, kwargs)
        self._check(group, tracked)  # the call may have made a trace
        return y

    def _check(self, group: SignatureGroup | None, tracked: int) -> None:
        """Raise unless all traces are single operations, whose results all depend on a tracked
        leaf (bits of `tracked`)."""
        if group is None or not group.specializations:
            raise NotOneOperation
        for each in group.specializations:
            if each.recorded_needs is None:
                is_one = _is_one_operation(each.trace)
                each.recorded_needs = _leaves_behind_outputs(each.trace) if is_one else [0]
            if not all(bits & tracked for bits in each.recorded_needs):
                raise NotOneOperation

    def _reverse(self, argnums: tuple[int, ...], *args: Any, **kwargs: Any) -> Any:
        if any(map(_is_tracked, tree.leaves(args))):  # of an outer derivative
            return linearize(self.function, args, kwargs)[:2]
        build = functools.partial(_pullback_of_some, argnums)
        made = compiled_linear_map(self.jitted, ("pullback", argnums), build, args, kwargs)
        if made is None or any(map(_is_tracked, tree.leaves(made[0]))):
            raise NotOneOperation
        y, pull = made

        def back(seed: Any) -> tuple[Any, ...]:
            found = dict(zip(argnums, pull(seed), strict=True))
            return tuple(found.get(at) for at in range(len(args)))

        return y, back

    def _forward(self, tangents: tuple[Any, ...], *args: Any, **kwargs: Any) -> Any:
        y, _, push = linearize(self.function, args, kwargs)
        return y, push(*tangents)


def _pullback_of_some(argnums: tuple[int, ...], f: Callable[..., Any]) -> Callable[..., Any]:
    """The function of arguments and a seed that gives the cotangents of some arguments."""

    def back(*given: Any, **named: Any) -> tuple[Any, ...]:
        args, seed = list(given[:-1]), given[-1]

        def of_some(*chosen: Any) -> Any:
            for at, x in zip(argnums, chosen, strict=True):
                args[at] = x
            return f(*args, **named)

        pulled: tuple[Any, ...] = pullback(of_some, *[args[at] for at in argnums])[1](seed)
        return pulled

    return back


def _is_tracked(x: Any) -> bool:
    return type(x) is Tracked


def _holds_nothing(x: Any) -> bool:
    """Whether a leaf is a number, text or None; objects, and arrays of them, may hold tracked
    values."""
    return tree.is_numeric(x) or x is None or isinstance(x, str)


def _is_one_operation(trace: Trace) -> bool:
    """Whether a call does nothing but compute floating-point results, and takes long enough."""
    least = _MIN_EQUATIONS + _PER_LEAF * len(trace.inputs)
    if len(trace.function.body) < least and not trace.function.functions:
        return False
    has_effects = trace.writes or trace.state_writes or trace.function.has_side_effects
    if has_effects or not trace.is_stable or any(trace.owners):
        return False
    return all(out.atom is not None and out.atom.type.dtype.kind in "fc" for out in trace.outputs)


def _leaves_behind_outputs(trace: Trace) -> list[int]:
    """Per output, the leaves of the call that it depends on, as bits."""
    function: Function = trace.function
    behind: dict[Atom, int] = {
        atom: 1 << leaf for atom, leaf in zip(function.inputs, trace.inputs, strict=True)
    }
    for step in function.body:
        if isinstance(step, Eqn):
            bits = 0
            for atom in step.operands:
                bits |= behind.get(atom, 0)
            behind[step.out] = bits
    return [behind.get(atom, 0) for atom in function.outputs[: len(trace.outputs)]]
