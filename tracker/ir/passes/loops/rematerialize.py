"""Rematerialisation: values that a pullback needs are computed again, if that is cheap.

A rolled loop stacks whatever its pullback reads: of v * (c - max(v, 0)) the maximum and the
difference, although both follow from v, which is stacked, too. Writing and reading a stack costs
more than a few sums and products.

A result is *derived* if cheap equations lead to it from constants of the loop, its rows, and stacks
that stay. If several results are derived from one more value that is smaller than they are
together, that value is stacked instead (two slices of w: w). The readers of derived results are
loops, into whose bodies the equations are copied, and single rows, which are computed where they
were read. Start at `_Rematerializer.run`; `_Selection` decides.

Invariants: linear in the equations, as the cost of a derivation is limited; equations are copied as
they are; a stack that has other readers stays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from tracker.ir.graph import (
    Atom,
    Const,
    Eqn,
    Function,
    Guard,
    Var,
    name_variables,
    readers_of,
    unused_name,
)
from tracker.ir.lowering import Loop, Pick
from tracker.ir.passes.loop_limits import ROLLED
from tracker.ir.passes.loops.stacking import StackWriter
from tracker.ir.passes.manager import (
    BodyWriter,
    as_pass,
    resolve,
    rewrite_equations,
    substitute,
)
from tracker.ir.types import Bundle, Type
from tracker.support.structs import field, record, replace

_MAX_COST = 16  # of a derivation; an addition costs 2
_MIN_SIZE = 32  # elements; fewer are read as fast as they are computed
_COSTS = {
    **dict.fromkeys(("getitem", "reshape", "transpose", "broadcast_to"), 1),
    **dict.fromkeys(("add", "subtract", "multiply", "negative", "square", "absolute"), 2),
    **dict.fromkeys(("maximum", "minimum", "where", "astype", "logical_not"), 2),
    **dict.fromkeys(("greater", "less", "greater_equal", "less_equal", "equal"), 2),
    **dict.fromkeys(("divide", "reciprocal", "sqrt"), 6),
}


@as_pass(requires=(ROLLED,))
def rematerialize(function: Function) -> Function:
    """Do not stack what follows from other stacks by a few cheap equations."""
    if not any(isinstance(op.lower, Loop) for op in function.ops):
        return function
    return _Rematerializer(function).run()


class _Selection:
    """Which results of a loop are derived, and which values are stacked besides.

    available: the variables of the body that readers have anyway; droppable: the results that need
    not stay, in the order of the body.
    """

    def __init__(self, body: Function, given: Iterable[Var], free: list[Var]) -> None:
        self.body = body
        self.available = set(given)
        self.droppable = free
        self.stacked = self._shared_sources()
        self.available.update(self.stacked)
        reach = self._costs_and_needs(final=True)
        self.derived = [var for var in free if not reach[var][1]]

    def _shared_sources(self) -> list[Var]:
        """The values to stack in place of results that are larger together."""
        groups: dict[Var, int] = {}
        reach = self._costs_and_needs(final=False)
        for var in self.droppable:
            if len(reach[var][1]) == 1:
                (source,) = reach[var][1]
                groups[source] = groups.get(source, 0) + var.type.nbytes
        made = {eqn.out for eqn in self.body.eqns}
        return [
            source
            for source, size in groups.items()
            if source in made and source not in self.droppable
            if not source.type.weak and source.type.shape and source.type.nbytes < size
        ]

    def _costs_and_needs(self, final: bool) -> dict[Atom, tuple[int, frozenset[Var]]]:
        """The cost of deriving each variable, and what must be stacked for it besides.

        A variable that costs too much, or needs two values more, must be stacked itself if it is a
        result; in the `final` round, also a result that needs one.
        """
        found: dict[Atom, tuple[int, frozenset[Var]]] = {}
        free = set(self.droppable)

        def of(atom: Atom) -> tuple[int, frozenset[Var]]:
            if isinstance(atom, Const) or atom in self.available:
                return 0, frozenset()
            return found.get(atom, (0, frozenset((atom,))))

        for eqn in self.body.eqns:
            out = eqn.out
            if out in self.available:
                continue
            parts = [of(operand) for operand in eqn.operands]
            cost = sum(part for part, _ in parts) + _COSTS.get(eqn.op.name, _MAX_COST + 1)
            needs: frozenset[Var] = frozenset().union(*(needed for _, needed in parts))
            if cost <= _MAX_COST and len(needs) <= (0 if final and out in free else 1):
                found[out] = cost, needs
            elif out in free:
                self.available.add(out)
        return {var: found.get(var, (0, frozenset((var,)))) for var in self.droppable}


@record()
class _ProducerLoop:
    """A loop with derived results: its equations, and what its readers have of it."""

    definitions: dict[Var, Eqn]
    constants: dict[Var, Atom] = field(default_factory=dict)
    stacks: dict[Var, Var] = field(default_factory=dict)  # variable of the body -> its stack


class _Rematerializer(StackWriter):
    """Writes the new body."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function
        self.functions = dict(function.functions)
        self.readers = readers_of(function)
        self.picks: dict[Atom, list[Eqn]] = {}
        for eqn in function.eqns:
            if isinstance(eqn.op.lower, Pick):
                self.picks.setdefault(eqn.operands[0], []).append(eqn)
        self.derived_picks: dict[Atom, tuple[_ProducerLoop, Var]] = {}  # picks of derived results
        self.derived_slices: dict[
            Atom, tuple[Var, int]
        ] = {}  # slices of these, and their first rows
        self.emitted_picks: set[Var] = set()  # picks that have been written

    def run(self) -> Function:
        written = rewrite_equations(self.function, self.rewrite, self)
        return replace(written, functions=self.functions)

    def rewrite(self, _: BodyWriter, eqn: Eqn) -> bool | Atom:
        if isinstance(eqn.op.lower, Loop):
            self.emit_producer(self.derive_inputs(eqn))
            return True
        part = _row_access(eqn)
        if part is not None and part[0] in self.derived_picks:
            return self.derive_row(eqn, *part)
        return eqn.out in self.derived_picks or eqn.out in self.emitted_picks

    # Producers

    def emit_producer(self, eqn: Eqn) -> None:
        """Write a loop without the stacks of derived results."""
        body, carries = eqn.params["body"], eqn.params["carries"]
        picks = self.picks.get(eqn.out, [])
        source, free = self.producer(eqn, picks)
        choice = _Selection(body, (*source.constants, *source.stacks), free) if free else None
        if choice is None or not choice.derived:
            self.body.append(eqn)
            return
        derived = set(choice.derived)
        assert isinstance(eqn.out.type, Bundle)
        after = len(body.outputs)  # the first kept carry among the results
        stays = [at for at in range(carries, after) if body.outputs[at] not in derived]
        parts, count = eqn.out.type.parts, eqn.params["length"]
        results: list[int | Var] = [*range(carries), *stays, *choice.stacked]
        results += range(after, len(parts))
        positions = {each: at for at, each in enumerate(results)}
        types = [
            Type((count, *each.type.shape), each.type.dtype)
            if isinstance(each, Var)
            else parts[each]
            for each in results
        ]
        outputs = (*(body.outputs[at] for at in (*range(carries), *stays)), *choice.stacked)
        params = {**eqn.params, "body": self.nested(replace(body, outputs=outputs))}
        out = Var(Bundle.of(types), eqn.out.name)
        self.body.append(replace(eqn, params=params, out=out))
        for pick in picks:
            at = pick.params["at"]
            if at in positions:
                self.emit("pick", out, at=positions[at], out=pick.out)
                self.emitted_picks.add(pick.out)
                if carries <= at < after:
                    source.stacks[body.outputs[at]] = pick.out
            else:
                self.derived_picks[pick.out] = source, body.outputs[at]
        for var in choice.stacked:
            source.stacks[var] = self.emit("pick", out, at=positions[var])

    def producer(self, eqn: Eqn, picks: list[Eqn]) -> tuple[_ProducerLoop, list[Var]]:
        """What readers of a loop have of it anyway, and the results that need not stay."""
        body, consts, carries = (eqn.params[name] for name in ("body", "consts", "carries"))
        _, *operands = eqn.operands
        source = _ProducerLoop({each.out: each for each in body.eqns})
        source.constants.update(zip(body.inputs[:consts], operands, strict=False))
        rows = zip(body.inputs[consts + carries :], operands[consts + carries :], strict=True)
        source.stacks.update(rows)  # type: ignore[arg-type]
        after = len(body.outputs)
        free: dict[Var, None] = {}
        fixed: set[Atom] = set()
        for pick in picks:
            at = pick.params["at"]
            if at >= after:
                source.stacks[body.inputs[consts + eqn.params["keep"][at - after]]] = pick.out
            elif at >= carries:
                var = body.outputs[at]
                if (
                    var in source.definitions
                    and not var.type.weak
                    and self.is_droppable(pick.out, var.type)
                ):
                    free[var] = None
                else:
                    fixed.add(var)
                    if isinstance(var, Var):
                        source.stacks[var] = pick.out
        order = [each.out for each in body.eqns if each.out in free and each.out not in fixed]
        return source, order

    def is_droppable(self, stack: Var, type: Type) -> bool:
        """Whether all readers of a stack could do without it: loops by rows, and single rows."""
        if type.size < _MIN_SIZE:
            return False
        for reader in self.readers.get(stack, ()):
            if reader is None:
                return False
            if _reads_by_rows(reader, stack):
                continue
            part = _row_access(reader)
            if part is None:
                return False
            if part[2] and not all(
                each is not None and _reads_by_rows(each, reader.out)
                for each in self.readers.get(reader.out, ())
            ):
                return False
        return True

    # Consumers

    def derive_row(self, eqn: Eqn, stack: Var, at: int, sliced: bool) -> bool | Atom:
        """Derive a row that is read outside of loops; a slice is left to the loops that read it."""
        if sliced:
            self.derived_slices[eqn.out] = stack, at
            return True
        source, var = self.derived_picks[stack]

        def row(stack: Var) -> Var:
            index = (at, *(slice(0, n, 1) for n in stack.type.shape[1:]))
            return self.emit("getitem", stack, index=index)

        derivation = _Derivation(source, lambda var, atom: atom, row, self.body)
        return derivation.of(var)

    def derive_inputs(self, eqn: Eqn) -> Eqn:
        """A loop with derived inputs computed in its body."""
        body, consts, carries = (eqn.params[name] for name in ("body", "consts", "carries"))
        count, *operands = eqn.operands
        first = consts + carries
        steps = _ConsumerBody(self, eqn)
        by: dict[Var, Atom] = {}
        for var, operand in zip(body.inputs[first:], operands[first:], strict=True):
            stack, at = self.derived_slices.get(operand, (operand, 0))
            if stack in self.derived_picks:
                source, result = self.derived_picks[stack]
                by[var] = steps.derivation(source, at).of(result)
        if not by:
            return eqn
        pairs = list(zip(body.inputs, operands, strict=True))
        fixed = [*pairs[:consts], *steps.constants]
        rows = [(var, operand) for var, operand in pairs[first:] if var not in by]
        inputs = [*fixed, *pairs[consts:first], *rows, *steps.rows]
        new = replace(
            body,
            inputs=tuple([var for var, _ in inputs]),
            body=(*steps.body, *(substitute(step, by) for step in body.body)),
            outputs=tuple([resolve(atom, by) for atom in body.outputs]),
        )
        params = {**eqn.params, "body": self.nested(new), "consts": len(fixed)}
        return replace(eqn, operands=(count, *(given for _, given in inputs)), params=params)

    def nested(self, body: Function) -> Function:
        """A body under a name of its own."""
        body = replace(body, name=unused_name(f"{body.name}_", self.functions))
        name_variables(body)
        self.functions[body.name] = body
        return body


class _Derivation:
    """Copies equations of a producer to another body.

    constant: the atom for a constant of the producer; row: the variable for a row of a stack.
    """

    def __init__(
        self,
        source: _ProducerLoop,
        constant: Callable[[Var, Atom], Atom],
        row: Callable[[Var], Var],
        body: list[Eqn | Guard],
    ) -> None:
        self.source, self.constant, self.row, self.body = source, constant, row, body
        self.known: dict[Var, Atom] = {}

    def of(self, atom: Atom) -> Atom:
        if isinstance(atom, Const):
            return atom
        if atom not in self.known:
            self.known[atom] = self._copy(atom)
        return self.known[atom]

    def _copy(self, var: Var) -> Atom:
        if var in self.source.constants:
            return self.constant(var, self.source.constants[var])
        if var in self.source.stacks:
            return self.row(self.source.stacks[var])
        eqn = self.source.definitions[var]
        operands = tuple([self.of(operand) for operand in eqn.operands])
        out = Var(var.type)
        self.body.append(Eqn(eqn.op, operands, eqn.params, out, eqn.where))
        return out


class _ConsumerBody:
    """The equations, constants and rows that a loop gets for the derivations in its body."""

    def __init__(self, sweep: _Rematerializer, loop: Eqn) -> None:
        body, consts, carries = (loop.params[name] for name in ("body", "consts", "carries"))
        inputs, operands, first = body.inputs, loop.operands[1:], consts + carries
        self.sweep = sweep
        self.length = loop.params["length"]
        self.body: list[Eqn | Guard] = []
        self.constants: list[tuple[Var, Atom]] = []
        self.rows: list[tuple[Var, Atom]] = []
        self.known: dict[Any, Var] = dict(zip(operands[:consts], inputs, strict=False))
        self.known_rows: dict[Atom, Var] = dict(zip(operands[first:], inputs[first:], strict=True))
        self.derivations: dict[tuple[int, int], _Derivation] = {}

    def derivation(self, source: _ProducerLoop, start: int) -> _Derivation:
        """Copies whose first row is that of step `start` of the producer."""
        key = id(source), start
        if key not in self.derivations:
            row = functools.partial(self.row, start)
            self.derivations[key] = _Derivation(source, self.constant, row, self.body)
        return self.derivations[key]

    def constant(self, var: Var, atom: Atom) -> Atom:
        if isinstance(atom, Const):
            return atom
        if atom not in self.known:
            self.known[atom] = Var(var.type)
            self.constants.append((self.known[atom], atom))
        return self.known[atom]

    def row(self, start: int, stack: Var) -> Var:
        rows = self.sweep.strided_slice(stack, 0, start, 1, self.length)
        if rows not in self.known_rows:
            self.known_rows[rows] = Var(Type(rows.type.shape[1:], rows.type.dtype))
            self.rows.append((self.known_rows[rows], rows))
        return self.known_rows[rows]


def _row_access(eqn: Eqn) -> tuple[Var, int, bool] | None:
    """Of a read of whole rows of a stack: the stack, the first row, whether it is a slice."""
    if eqn.op.name != "getitem":
        return None
    (stack,), index = eqn.operands, eqn.params["index"]
    shape = stack.type.shape
    if not isinstance(stack, Var) or not shape or len(index) != len(shape):
        return None
    if list(index[1:]) != [slice(0, n, 1) for n in shape[1:]]:
        return None
    first = index[0]
    if isinstance(first, slice):
        return (stack, first.start, True) if first.step == 1 else None
    return None if first is None else (stack, first, False)


def _reads_by_rows(eqn: Eqn, stack: Var) -> bool:
    """Whether an equation is a loop that reads an array row by row, and in no other way."""
    if not isinstance(eqn.op.lower, Loop):
        return False
    first = 1 + eqn.params["consts"] + eqn.params["carries"]
    return stack not in eqn.operands[:first]
