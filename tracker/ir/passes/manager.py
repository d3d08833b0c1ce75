"""Passes and the driver that runs them in order.

A pass maps a `Function` to an equivalent one. `@as_pass` makes one of a function that changes a
single body; the pass changes nested functions first. What did not change is shared: a pass that
finds nothing returns the very function that it was given.

A pass states as data what it `requires`, `establishes` and `removes` (see `Property`). With
`check=True`, as in tests, the driver reports a requirement that no earlier pass has established,
and a property that a function does not have; otherwise this costs nothing.

Invariants: 1. a pass is linear in the number of steps; 2. inputs, captures, their order and the
types of the outputs stay; 3. no pass changes a value, not even the sign of a zero, except for the
order of sums where its header says so; 4. an equation with an opaque param may hold state: it is
neither merged nor evaluated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tracker.errors import IRError
from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, Var, nested_functions
from tracker.ir.op import OPS
from tracker.ir.types import Type
from tracker.ir.verify import verify
from tracker.support.structs import record, replace

Substitution = Mapping[Var, Atom]


@record(frozen=True, eq=False)
class Property:
    """What later passes rely on; `holds` tests the body of one function, where a test exists."""

    name: str
    holds: Callable[[Function], bool] | None = None

    def holds_in(self, function: Function) -> bool:
        """Whether a function and the functions nested in it have the property."""
        nested = function.functions.values()
        return (self.holds is None or self.holds(function)) and all(map(self.holds_in, nested))


@record(frozen=True)
class Pass:
    """A transformation of functions: `body` changes one function, a call its nested ones too.
    `then`: the passes that run again where it has changed something."""

    name: str
    body: Callable[[Function], Function]
    requires: tuple[Property, ...] = ()
    establishes: tuple[Property, ...] = ()
    removes: tuple[Property, ...] = ()
    then: tuple[Pass, ...] = ()

    def __call__(self, function: Function) -> Function:
        if function.functions:
            function = map_nested(function, self)
        return self.body(function)


def as_pass(
    *,
    requires: tuple[Property, ...] = (),
    establishes: tuple[Property, ...] = (),
    removes: tuple[Property, ...] = (),
    then: tuple[Pass, ...] = (),
) -> Callable[[Callable[[Function], Function]], Pass]:
    """Decorator: the pass that has the function's name."""
    return lambda body: Pass(body.__name__, body, requires, establishes, removes, then)


def run(
    function: Function,
    passes: Iterable[Pass],
    *,
    check: bool = False,
    given: Iterable[Property] | None = None,
) -> Function:
    """Run passes in order.

    check: verify each result. given: the properties that the function has; then the requirements
    of passes are checked, too. A pass is skipped on its own result: it would find nothing.
    """
    results: dict[Pass, Function] = {}
    properties = None if given is None else set(given)
    left = deque(passes)
    while left:
        each = left.popleft()
        if check and properties is not None:
            missing = [p.name for p in each.requires if p not in properties]
            if missing:
                raise IRError(f"{each.name} requires of the passes before it: {', '.join(missing)}")
            properties = properties.difference(each.removes).union(each.establishes)
        if results.get(each) is function:
            continue
        before = function
        results[each] = function = each(function)
        if function is not before:
            left.extendleft(reversed(each.then))
        if check:
            verify(function)
        for known in properties or () if check else ():
            if not known.holds_in(function):
                raise IRError(f"after {each.name} this does not hold: {known.name}")
    return function


# ---------------------------------------------------------------------------------------- helpers


def resolve(atom: Atom, by: Substitution) -> Atom:
    """The atom that replaces an atom in a substitution, or the atom itself."""
    return by.get(atom, atom) if atom.__class__ is Var else atom


def substitute(step: Eqn | Guard, by: Substitution) -> Eqn | Guard:
    """The step with its operands replaced; the step itself if none is."""
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
    """Writes a body; `where` is the source line of new equations."""

    def __init__(self) -> None:
        self.body: list[Eqn | Guard] = []
        self.where = ""

    def emit(self, name: str, /, *operands: Atom, out: Var | None = None, **params: Any) -> Var:
        """Add an equation of the op with this name; its result is `out`, or a new variable."""
        op = OPS[name]
        if out is None:
            out = Var(op.infer(*[o.type for o in operands], **params))
        self.body.append(Eqn(op, operands, params, out, self.where))
        return out

    def zeros(self, type: Type) -> Atom:
        """A zero, or an array of zeros."""
        zero = Const.of(type.dtype.type(0))
        return self.emit("broadcast_to", zero, shape=type.shape) if type.shape else zero

    def reshape(self, array: Var, shape: tuple[int, ...]) -> Var:
        """An array in a shape, which it may have already."""
        return array if array.type.shape == shape else self.emit("reshape", array, shape=shape)


def rewrite_equations(
    function: Function,
    rewrite: Callable[[BodyWriter, Eqn], bool | Atom],
    new: BodyWriter | None = None,
) -> Function:
    """The function with equations that are written in another way, by the writer `new` if there is
    one already.

    `rewrite` writes the result of an equation, if anything still reads it, and returns True; or
    returns what replaces the result from there on; or False: the equation stays.
    """
    new = BodyWriter() if new is None else new
    by: dict[Var, Atom] = {}
    changed = False
    for old in function.body:
        step = substitute(old, by) if by else old
        new.where = step.where
        made = rewrite(new, step) if isinstance(step, Eqn) else False
        changed |= made is not False
        if made is False:
            new.body.append(step)
        elif isinstance(step, Eqn) and made is not True:
            by[step.out] = made
    return with_body(function, new.body, by) if changed else function


def with_body(
    function: Function, body: list[Eqn | Guard], by: Substitution | None = None
) -> Function:
    """The function with another body, and with its outputs replaced."""
    outputs = function.outputs
    if by:
        outputs = tuple([resolve(atom, by) for atom in outputs])
    return replace(function, body=tuple(body), outputs=outputs)


def map_nested(function: Function, change: Callable[[Function], Function]) -> Function:
    """Change the nested functions, and the params that hold them."""
    changed = {nested: change(nested) for nested in function.functions.values()}
    if all(old is new for old, new in changed.items()):
        return function
    functions = {name: changed[nested] for name, nested in function.functions.items()}
    return replace_nested(function, changed, functions)


def replace_nested(
    function: Function, changed: Mapping[Function, Function], functions: dict[str, Function]
) -> Function:
    """The function with other nested functions, in the params of equations, too."""

    def renew(step: Eqn | Guard) -> Eqn | Guard:
        if isinstance(step, Guard) or not nested_functions((step,)):
            return step
        params = {
            name: changed.get(value, value) if isinstance(value, Function) else value
            for name, value in step.params.items()
        }
        return replace(step, params=params)

    body = tuple([renew(step) for step in function.body])
    return replace(function, body=body, functions=functions)
