"""Values that are literals in a part of a loop that is split at a number (`Before`).

In a loop over `where(before(n), x, 0)` all elements from n on are 0, and so is what is computed of
such elements alone. What adds them need not run there: growing slices of triangular loops take as
long as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker.ir.graph import Atom, Const, Eqn, Var
from tracker.ir.lowering import Before, Map
from tracker.jit.scalar.values import ScalarValue, literal
from tracker.jit.schedule.cost import is_selection
from tracker.jit.schedule.plan_data import Plan


class SplitValues:
    """The values of a plan that may be literals in parts of loops."""

    def __init__(self, plan: Plan) -> None:
        self.eqns: dict[Atom, Eqn] = {}
        if any(isinstance(eqn.op.lower, Before) for eqn in plan.definitions.values()):
            for eqn in plan.definitions.values():
                if self._may_be_literal(eqn):
                    self.eqns[eqn.out] = eqn

    def _may_be_literal(self, eqn: Eqn) -> bool:
        lower = eqn.op.lower
        if isinstance(lower, Before):
            return isinstance(eqn.operands[0], Var)
        if not isinstance(lower, Map) or eqn.out.type.dtype.kind not in "biufc":
            return False
        known = [o in self.eqns or isinstance(o, Const) for o in eqn.operands]
        if is_selection(eqn.op):
            return eqn.operands[0] in self.eqns and any(known[1:])
        return all(known) and not all(isinstance(o, Const) for o in eqn.operands)

    def literal(
        self,
        atom: Atom,
        index: Sequence[Any],
        index_of: Callable[[Sequence[Any], Atom], tuple[Any, ...]],
        is_before: Callable[[Any, Var], bool | None],
    ) -> ScalarValue | None:
        """An element, if it is a literal; `is_before` says whether an index is before a number in
        this part of the loop."""
        dtype = atom.type.dtype
        if isinstance(atom, Const):
            return literal(atom.value, dtype)
        eqn = self.eqns.get(atom)
        if eqn is None:
            return None
        if isinstance(eqn.op.lower, Before):
            number = eqn.operands[0]
            assert isinstance(number, Var)
            found = is_before(index[eqn.params["axis"]], number)
            return None if found is None else literal(found, dtype)

        def operand(at: int) -> ScalarValue | None:
            o = eqn.operands[at]
            return self.literal(o, index_of(index, o), index_of, is_before)

        if is_selection(eqn.op):
            chosen = operand(0)
            x = None if chosen is None else operand(1 if chosen.value else 2)
            return None if x is None else literal(x.value, dtype)
        xs = [operand(at) for at in range(len(eqn.operands))]
        if any(x is None for x in xs):
            return None
        numbers = [x.dtype.type(x.value) for x in xs if x is not None]
        with np.errstate(all="ignore"):
            return literal(eqn.op.evaluate(*numbers, **eqn.params), dtype)
