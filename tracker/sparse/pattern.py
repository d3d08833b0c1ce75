"""Which elements of a value depend on which elements of the input, pushed through recorded code.

The dependence of a value of m elements on an input of n is a boolean (m, n) CSR matrix, or None
where it depends on nothing; that of a bundle is a list. `tape_pattern` walks a tape, and
`_body_pattern` the function of a loop or branch. Rules for kinds of ops are in `rules.py`.

Invariant: no dependence is missing. What a rule reads besides types is entered in `PatternGuards`:
the pattern holds while these values are what they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from tracker.autodiff.forward import recording_order
from tracker.autodiff.reverse import count_uses
from tracker.control.body import split_list
from tracker.ir.graph import Const, Eqn, Function
from tracker.ir.lowering import Branch, Loop, Pick, While
from tracker.ir.types import Bundle, Type, type_of
from tracker.sparse.rules import AppliedOp, Dependence, dense, rule_for, take_rows, union
from tracker.support.structs import field, record
from tracker.tape.value import CLOSED, Value, is_constant, operand_aval

_MAX_SEPARATE_ITERATIONS = 5000  # iterations of a loop that are looked at one by one
_MOSTLY_NONZERO = 0.5  # a matrix with more nonzeros than this is taken to have no zeros


@record()
class PatternGuards:
    """What a pattern depends on: recorded values, and SciPy's matrices with their places."""

    values: list[tuple[Value, bool]] = field(default_factory=list)  # and if only nonzeros count
    matrices: list[Any] = field(default_factory=list)

    def read(self, operand: Any, nonzeros: bool = False) -> Any:
        """The numbers of an operand, which must stay the same; or which of them may be nonzero.

        A trace's values are the same whatever the numbers are: other patterns are told by them.
        """
        is_known = any(operand is v and nonzeros == kind for v, kind in self.values)
        if type(operand) is Value and not is_known and not is_constant(operand):
            self.values.append((operand, nonzeros))
        plain = operand.data if type(operand) is Value else operand
        return sparse_places(plain) if nonzeros else plain


def sparse_places(matrix: Any) -> Any:
    """Where a matrix is nonzero; None if nearly everywhere, and it is taken to have no zeros."""
    places = np.not_equal(matrix, 0)
    return None if np.count_nonzero(places) > _MOSTLY_NONZERO * np.size(places) else places


def tape_pattern(x: Value, y: Value) -> tuple[sp.csr_array, PatternGuards]:
    """The dependence of y on x, and what it is based on."""
    guards = PatternGuards()
    columns = type_of(x.aval).size
    found: dict[Value, Any] = {x: sp.eye_array(columns, dtype=bool, format="csr")}
    uses, _ = count_uses([(y, None)], [x], x.epoch)
    for value in recording_order([y], uses, {x}):
        if value.op is None or value.op is CLOSED:
            continue
        deps = [found.get(o) if type(o) is Value else None for o in value.operands]
        if all(dep is None for dep in deps):
            continue
        types = [type_of(operand_aval(o)) for o in value.operands]

        def read(k: int, nonzeros: bool = False, operands: Any = value.operands) -> Any:
            return guards.read(operands[k], nonzeros)

        step = AppliedOp(
            value.op, value.params, types, deps, type_of(value.aval), read, guards.matrices
        )
        found[value] = propagate(step)
    made = found.get(y)
    empty = sp.csr_array((type_of(y.aval).size, columns), dtype=bool)
    return (empty if made is None else made), guards


def propagate(step: AppliedOp) -> Any:
    """The dependence of the result of one step."""
    kind = step.op.lower
    if step.op.constant or all(dep is None for dep in step.deps):
        return None
    if isinstance(kind, Pick):
        return step.deps[0][step.params["at"]]
    if isinstance(kind, Loop):
        made = _loop(step)
    elif isinstance(kind, While):
        made = _while(step)
    elif isinstance(kind, Branch):
        made = _branch(step)
    else:
        made = rule_for(step.op)(step)
    if isinstance(step.out, Bundle):
        parts = made if isinstance(made, list) else [made] * len(step.out.parts)
        return [
            dep if t.dtype.kind in "fc" else None
            for t, dep in zip(step.out.parts, parts, strict=True)
        ]
    return made if step.out.dtype.kind in "fc" else None


# Nested functions ---------------------------------------------------------------------------------


class _Body:
    """A nested function: the dependence of all outputs on all inputs, both put end to end.

    `known` are the numbers of inputs (None: unknown), which positions may be computed from.
    """

    def __init__(self, function: Function, matrices: list[Any]) -> None:
        self.function, self.matrices = function, matrices
        self.makers = {eqn.out: eqn for eqn in function.eqns}
        self.has_read = False
        self.numbers: dict[Any, Any] = {}
        sizes = [var.type.size for var in function.inputs]
        self.ends = np.cumsum([0, *sizes])

    def number(self, atom: Any) -> Any:
        """The numbers of an atom; None where they are unknown."""
        if isinstance(atom, Const):
            return atom.value
        if atom not in self.numbers:
            self.numbers[atom] = None
            eqn = self.makers.get(atom)
            if eqn is not None and not isinstance(eqn.out.type, Bundle):
                given = [self.number(o) for o in eqn.operands]
                if all(x is not None for x in given):
                    self.numbers[atom] = eqn.op.evaluate(*given, **eqn.params)
        return self.numbers[atom]

    def pattern(self, known: Sequence[Any]) -> list[Any]:
        """The dependence of each output on the inputs end to end."""
        self.numbers = dict(zip(self.function.inputs, known, strict=True))
        total = int(self.ends[-1])
        everything = sp.eye_array(total, dtype=bool, format="csr")
        found: dict[Any, Any] = {
            var: everything[low:high] if var.type.dtype.kind in "fc" else None
            for var, low, high in zip(self.function.inputs, self.ends, self.ends[1:], strict=False)
        }
        for eqn in self.function.eqns:
            found[eqn.out] = self._step(eqn, [found.get(o) for o in eqn.operands])
        return [found.get(atom) for atom in self.function.outputs]

    def _step(self, eqn: Eqn, deps: list[Any]) -> Any:
        if all(dep is None for dep in deps):
            return None

        def read(k: int, nonzeros: bool = False) -> Any:
            if nonzeros:
                return None
            self.has_read = True
            return self.number(eqn.operands[k])

        types = [o.type for o in eqn.operands]
        step = AppliedOp(eqn.op, eqn.params, types, deps, eqn.out.type, read, self.matrices)
        return propagate(step)

    def compose(self, local: Any, deps: Sequence[Dependence]) -> Dependence:
        """A dependence on the inputs, where these depend on something else."""
        if local is None:
            return None
        made: Dependence = None
        for low, high, dep in zip(self.ends, self.ends[1:], deps, strict=False):
            if dep is not None:
                part = local[:, low:high]
                made = union(made, (part @ dep).tocsr() if part.nnz else None)
        return made


def _parts(step: AppliedOp) -> tuple[Type, ...]:
    return step.out.parts if isinstance(step.out, Bundle) else (step.out,)


def _integers(read: Callable[[int], Any], types: Sequence[Type], start: int) -> list[Any]:
    """The numbers of operands that are integers or bools; None for others."""
    return [read(start + k) if t.dtype.kind in "biu" else None for k, t in enumerate(types)]


def _loop(step: AppliedOp) -> list[Any]:
    p = step.params
    body = _Body(p["body"], step.matrices)
    count = step.read(0)
    fixed, carried, rows = split_list(step.deps[1:], p["consts"], p["carries"])
    unknown = [None] * len(body.function.inputs)
    local = body.pattern(unknown)
    follows = body.has_read and count is not None and int(count) <= _MAX_SEPARATE_ITERATIONS
    numbers: list[Any] = _integers(step.read, step.types[1:], 1) if follows else unknown
    known_fixed, known, known_rows = split_list(numbers, p["consts"], p["carries"])
    length, outputs = p["length"], len(p["body"].outputs) - p["carries"]
    iterations: list[list[Any]] = []
    kept: list[list[Any]] = []
    if count is None:
        return [dense(step)] * len(_parts(step))
    order = range(int(count))[::-1] if p["reverse"] else range(int(count))
    if not p["carries"] and not follows:
        return [_mapped(body, out, fixed, rows, length) for out in local]
    for i in order:
        at = [None if dep is None else _row(dep, i, length) for dep in rows]
        if follows:
            row_numbers = [None if x is None else np.asarray(x)[i] for x in known_rows]
            local = body.pattern([*known_fixed, *known, *row_numbers])
            outs = p["body"].outputs[: p["carries"]]
            known = [body.number(o) if o.type.dtype.kind in "biu" else None for o in outs]
        deps = [*fixed, *carried, *at]
        kept.append([carried[k] for k in p["keep"]])
        made = [body.compose(out, deps) for out in local]
        carried, ys = made[: p["carries"]], made[p["carries"] :]
        iterations.append(ys)
        if (
            not follows
            and not outputs
            and not p["keep"]
            and not rows
            and _alike(carried, deps[len(fixed) :])
        ):
            break  # further iterations add nothing
    if p["reverse"]:
        iterations.reverse()
        kept.reverse()
    stacked = [
        _stack([iteration[k] for iteration in part], size, length)
        for part, sizes in (
            (iterations, [o.type.size for o in p["body"].outputs[p["carries"] :]]),
            (kept, [p["body"].inputs[p["consts"] + k].type.size for k in p["keep"]]),
        )
        for k, size in enumerate(sizes)
    ]
    return [*carried, *stacked]


def _alike(one: Sequence[Dependence], other: Sequence[Dependence]) -> bool:
    return all(
        a is b or (a is not None and b is not None and a.nnz == b.nnz and (a != b).nnz == 0)
        for a, b in zip(one, other, strict=False)
    )


def _row(dep: Any, i: int, length: int) -> Any:
    size = dep.shape[0] // length
    return dep[i * size : (i + 1) * size]


def _stack(parts: list[Any], size: int, length: int) -> Dependence:
    """The dependences of the rows of a stack, of which the last may be missing."""
    some = next((part for part in parts if part is not None), None)
    if some is None:
        return None
    empty = sp.csr_array((size, some.shape[1]), dtype=bool)
    full = [empty if part is None else part for part in parts]
    return sp.vstack([*full, *[empty] * (length - len(parts))], format="csr")


def _mapped(body: _Body, local: Any, fixed: list[Any], rows: list[Any], length: int) -> Dependence:
    """A stacked output of a loop without carries: the same for all rows."""
    if local is None:
        return None
    made = body.compose(local, [*fixed, *[None] * len(rows)])
    if made is not None:
        made = take_rows(made, np.tile(np.arange(made.shape[0]), length))
    each = sp.eye_array(length, dtype=bool, format="csr")
    first = len(fixed)
    for k, dep in enumerate(rows):
        if dep is not None:
            part = local[:, body.ends[first + k] : body.ends[first + k + 1]]
            made = union(made, (sp.kron(each, part, format="csr").astype(bool) @ dep).tocsr())
    return made


def _while(step: AppliedOp) -> list[Any]:
    """Iterations until nothing is added; how many there are is not known."""
    p = step.params
    body = _Body(p["body"], step.matrices)
    local = body.pattern([None] * len(body.function.inputs))
    _, fixed, carried = split_list(step.deps, p["cond_consts"], p["body_consts"])
    while True:
        deps = [*fixed, *carried]
        new = [union(c, body.compose(out, deps)) for c, out in zip(carried, local, strict=True)]
        if _alike(new, carried):
            break
        carried = new
    rows = [carried[k] for k in p["keep"]]
    stacks = [
        None if dep is None else take_rows(dep, np.tile(np.arange(dep.shape[0]), p["capacity"]))
        for dep in rows
    ]
    return [*carried, None, *stacks]


def _branch(step: AppliedOp) -> list[Any]:
    """What any of the branches depends on."""
    made: list[Any] = [None] * len(_parts(step))
    for function in step.params.values():
        body = _Body(function, step.matrices)
        local = body.pattern(_integers(step.read, step.types[1:], 1))
        found = [body.compose(out, step.deps[1:]) for out in local]
        made = [union(a, b) for a, b in zip(made, found, strict=True)]
    return made
