"""Passes: named functions from Function to Function, and the driver that runs them.

Owns: `Pass`, `run`, the passes `dead_code`, `common_subexpressions`, `constant_folding`, and the
helpers `resolve`, `substitute` and `BodyWriter` that passes share. A pass builds new steps and
shares all that did not change; `@as_pass` takes it into nested functions, innermost first.

Invariants: 1. a pass is linear in the number of steps; 2. inputs, captures, their order and the
types of the outputs stay; 3. no pass changes a value, not even the sign of a zero; 4. an equation
with an opaque param may hold state, so it is neither merged nor evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tracker.ir.graph import Atom, Eqn, Function, Guard, Var
from tracker.ir.op import OPS
from tracker.ir.verify import verify
from tracker.support.structs import record, replace

Substitution = Mapping[Var, Atom]


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


class BodyWriter:
    """A body that is being written; `where` is the line that new equations come from."""

    def __init__(self) -> None:
        self.body: list[Eqn | Guard] = []
        self.where = ""

    def emit(self, name: str, /, *operands: Atom, out: Var | None = None, **params: Any) -> Var:
        """Add an equation of the op with this name; its result, which is `out` if that is given."""
        op = OPS[name]
        if out is None:
            out = Var(op.infer(*[o.type for o in operands], **params))
        self.body.append(Eqn(op, operands, params, out, self.where))
        return out

    def reshape(self, array: Var, shape: tuple[int, ...]) -> Var:
        """An array in a shape, which it may have already."""
        return array if array.type.shape == shape else self.emit("reshape", array, shape=shape)

    def slice_rows(self, array: Var, low: int, high: int) -> Var:
        """array[low:high]."""
        count, *others = array.type.shape
        if (low, high) == (0, count):
            return array
        index = (slice(low, high, 1), *(slice(0, n, 1) for n in others))
        return self.emit("getitem", array, index=index)


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
    return replace_nested(function, changed, functions)


def replace_nested(
    function: Function, changed: Mapping[Function, Function], functions: dict[str, Function]
) -> Function:
    """The function with these nested ones, in the params of equations, too."""

    def renew(step: Eqn | Guard) -> Eqn | Guard:
        if isinstance(step, Guard) or not any(is_function(v) for v in step.params.values()):
            return step
        params = {
            name: changed.get(value, value) if is_function(value) else value
            for name, value in step.params.items()
        }
        return replace(step, params=params)

    body = tuple([renew(step) for step in function.body])
    return replace(function, body=body, functions=functions)


def is_function(value: Any) -> bool:
    return isinstance(value, Function)


# ----------------------------------------------------------------------------------------- passes
