"""Passes: named functions from Function to Function, and the driver that runs them.

Owns: `Pass`, `run`, the passes `dead_code`, `common_subexpressions`, `constant_folding`, and the
helpers `resolve`, `substitute` and `Writer` that passes share. A pass builds new steps and shares
all that did not change; `@as_pass` takes it into nested functions, innermost first.

Invariants: 1. a pass is linear in the number of steps; 2. inputs, captures, their order and the
types of the outputs stay; 3. no pass changes a value, not even the sign of a zero; 4. an equation
with an opaque param may hold state, so it is neither merged nor evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from tracker.errors import REFUSALS
from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, Var, acts
from tracker.ir.keys import const_key, params_key
from tracker.ir.op import OPS, Map, Routine
from tracker.ir.types import Type, type_of
from tracker.ir.verify import verify
from tracker.records import record, replace

Substitution = Mapping[Var, Atom]
_CONVERSIONS: dict[str, Callable[[Any], Any]] = {"bool": bool, "int": int}


@record(frozen=True)
class Pass:
    """A transformation of functions; `body` does one function, calling does the nested ones too."""

    name: str
    body: Callable[[Function], Function]

    def __call__(self, function: Function) -> Function:
        if function.functions:
            function = map_nested(function, self)
        return self.body(function)


def as_pass(body: Callable[[Function], Function]) -> Pass:
    """The pass that bears the function's name."""
    return Pass(body.__name__, body)


def run(
    function: Function,
    passes: Iterable[Pass],
    *,
    check: bool = False,
    dump: Callable[[str, Function], None] | None = None,
) -> Function:
    """Run passes in order; `check` verifies after each, `dump` is handed each result. In what it
    gave a pass finds nothing any more: it is not asked again until another has changed it."""
    gave: dict[Pass, Function] = {}
    for each in passes:
        if gave.get(each) is function:
            continue
        gave[each] = function = each(function)
        if dump is not None:
            dump(each.name, function)
        if check:
            verify(function)
    return function


# ---------------------------------------------------------------------------------------- helpers


def resolve(atom: Atom, by: Substitution) -> Atom:
    """What stands for an atom after a substitution."""
    return by.get(atom, atom) if atom.__class__ is Var else atom


def substitute(step: Eqn | Guard, by: Substitution) -> Eqn | Guard:
    """The step with its operands replaced; itself when none is."""
    if isinstance(step, Eqn):
        for operand in step.operands:
            if operand in by:
                operands = tuple([resolve(each, by) for each in step.operands])
                return Eqn(step.op, operands, step.params, step.out, step.where)
        return step
    operand = resolve(step.operand, by)
    if operand is step.operand:
        return step
    return Guard(operand, step.kind, step.expected, step.where)


class Writer:
    """A body that is being written; `where` is the line that new equations come from."""

    def __init__(self) -> None:
        self.body: list[Eqn | Guard] = []
        self.where = ""

    def make(self, name: str, /, *operands: Atom, out: Var | None = None, **params: Any) -> Var:
        """Add an equation of the op with this name; its result, which is `out` if that is given."""
        op = OPS[name]
        if out is None:
            out = Var(op.infer(*[o.type for o in operands], **params))
        self.body.append(Eqn(op, operands, params, out, self.where))
        return out

    def rows_of(self, array: Var, low: int, high: int) -> Var:
        """array[low:high]."""
        count, *others = array.type.shape
        if (low, high) == (0, count):
            return array
        index = (slice(low, high, 1), *(slice(0, n, 1) for n in others))
        return self.make("getitem", array, index=index)


def with_body(
    function: Function, body: list[Eqn | Guard], by: Substitution | None = None
) -> Function:
    """The function with another body, and its outputs replaced."""
    outputs = function.outputs
    if by:
        outputs = tuple([resolve(atom, by) for atom in outputs])
    return replace(function, body=tuple(body), outputs=outputs)


def map_nested(function: Function, change: Callable[[Function], Function]) -> Function:
    """Change the nested functions, and the params that refer to them."""
    changed = {nested: change(nested) for nested in function.functions.values()}
    if all(old is new for old, new in changed.items()):
        return function
    functions = {name: changed[nested] for name, nested in function.functions.items()}
    return map_params(function, changed, functions)


def map_params(
    function: Function, changed: Mapping[Function, Function], functions: dict[str, Function]
) -> Function:
    """The function with these nested ones, in the params of equations, too."""

    def renew(step: Eqn | Guard) -> Eqn | Guard:
        if isinstance(step, Guard) or not any(_is_nested(v) for v in step.params.values()):
            return step
        params = {
            name: changed.get(value, value) if _is_nested(value) else value
            for name, value in step.params.items()
        }
        return replace(step, params=params)

    body = tuple([renew(step) for step in function.body])
    return replace(function, body=body, functions=functions)


def _is_nested(value: Any) -> bool:
    return isinstance(value, Function)


# ----------------------------------------------------------------------------------------- passes


@as_pass
def dead_code(function: Function) -> Function:
    """Drop equations that neither an output nor a guard needs, and that do not raise; and nested
    functions nobody uses."""
    live: set[Atom] = set(function.outputs)
    kept: list[Eqn | Guard] = []
    for step in reversed(function.body):
        if isinstance(step, Eqn):
            if step.out not in live and not acts(step) and not _may_raise(step):
                continue
            live.update(step.operands)
        else:
            live.add(step.operand)
        kept.append(step)
    if len(kept) < len(function.body):
        kept.reverse()
        function = with_body(function, kept)
    return _without_unused_functions(function)


def _may_raise(eqn: Eqn) -> bool:
    """Whether NumPy, or Python's own arithmetic, raises for some numbers: then somebody may wait
    for that who has no use for the result."""
    lower = eqn.op.lower
    if isinstance(lower, Map):
        known = isinstance(eqn.operands[-1], Const)  # by what is divided, most often
        return lower.defined is not None and eqn.out.type.weak and not known
    if isinstance(lower, Routine):
        return lower.raises
    nested = [v for v in eqn.params.values() if _is_nested(v)]
    return any(isinstance(s, Guard) or _may_raise(s) for v in nested for s in v.body)


def _without_unused_functions(function: Function) -> Function:
    if not function.functions:
        return function
    used = {v for eqn in function.eqns for v in eqn.params.values() if _is_nested(v)}
    functions = {name: nested for name, nested in function.functions.items() if nested in used}
    if len(functions) == len(function.functions):
        return function
    return replace(function, functions=functions)


@as_pass
def common_subexpressions(function: Function) -> Function:
    """Compute once what has the same op, operands and params; ask a guard's question once."""
    seen: dict[Hashable, Var | None] = {}
    by: dict[Var, Atom] = {}
    body: list[Eqn | Guard] = []
    for old in function.body:
        step = substitute(old, by) if by else old
        key = _eqn_key(step) if isinstance(step, Eqn) else _guard_key(step)
        if key is None:
            body.append(step)
        elif key not in seen:
            seen[key] = step.out if isinstance(step, Eqn) else None
            body.append(step)
        elif isinstance(step, Eqn) and (first := seen[key]) is not None:
            by[step.out] = first
    return function if len(body) == len(function.body) else with_body(function, body, by)


def _eqn_key(eqn: Eqn) -> Hashable | None:
    frozen = params_key(eqn.params) if eqn.params else ()
    if frozen is None:
        return None
    return eqn.op, frozen, *[o if o.__class__ is Var else const_key(o) for o in eqn.operands]  # type: ignore[arg-type]


def _guard_key(guard: Guard) -> Hashable | None:
    expected = params_key({guard.kind: guard.expected})
    return None if expected is None else (_atom_key(guard.operand), expected)


def _atom_key(atom: Atom) -> Hashable:
    return const_key(atom) if isinstance(atom, Const) else atom


@as_pass
def constant_folding(function: Function) -> Function:
    """Evaluate equations whose operands are all literals and whose result is a scalar.

    Guards on literals that hold are dropped. An op that raises is left to raise at run time.
    """
    by: dict[Var, Atom] = {}
    body: list[Eqn | Guard] = []
    for old in function.body:
        step = substitute(old, by) if by else old
        if isinstance(step, Eqn):
            folded = fold(step)
            if folded is None:
                body.append(step)
            else:
                by[step.out] = folded
        elif not _holds(step):
            body.append(step)
    return function if len(body) == len(function.body) else with_body(function, body, by)


def _holds(guard: Guard) -> bool:
    operand, convert = guard.operand, _CONVERSIONS.get(guard.kind)
    if not isinstance(operand, Const) or convert is None:
        return False
    try:
        return bool(convert(operand.value) == guard.expected)
    except (TypeError, ValueError, OverflowError):  # int(nan)
        return False


def fold(eqn: Eqn) -> Const | None:
    """The value of an equation of literals, as NumPy computes it; None if there is none."""
    if not eqn.operands or eqn.out.type.shape:
        return None
    values = []
    for operand in eqn.operands:
        if not isinstance(operand, Const):
            return None
        values.append(operand.value)
    if params_key(eqn.params) is None or any(map(_is_nested, eqn.params.values())):
        return None
    with np.errstate(all="ignore"):
        try:
            return _literal(eqn.op.evaluate(*values, **eqn.params), eqn.out.type)
        except REFUSALS:  # the user's code raises it, too, if it gets there
            return None


def _literal(result: Any, type: Type) -> Const | None:
    """A result as a literal of the given type, if it is one."""
    value = np.asarray(result)[()]
    if type.weak:
        value = value.item()
    return Const(value, type) if type_of(value) == type else None
