"""The rewriter: rules, and the forward sweep that applies them.

A rule looks at one equation, whose operands are simplified already, and returns what replaces it:
an atom, an equation made by `rewrite_as`, or None. The rules are in `simplify.py` and
`slice_rules.py`.

Invariants: 1. types stay: `rewrite_as` refuses an equation of another inferred type, and the sweep
refuses such atoms; 2. rules see equations in order, each once and again after a rewrite; 3. an
equation with an opaque param may hold state, so it is not evaluated, even if it is of literals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.errors import EVALUATION_ERRORS
from tracker.ir.graph import Atom, Const, Eqn, Guard, Var, nested_functions
from tracker.ir.lowering import Map
from tracker.ir.op import OPS, Op
from tracker.ir.passes.manager import substitute
from tracker.ir.passes.memory_ssa import WriteHistory
from tracker.ir.structural_keys import params_key
from tracker.ir.types import Type, type_of
from tracker.support.structs import record

Rewrite = Callable[[Eqn, "Definitions"], Atom | Eqn | None]


class NoRewrite(Exception):
    """A rule does not apply, as found out while it writes equations."""


@record(frozen=True)
class RewriteRule:
    """A named rewrite of the equations of some ops; no ops means every elementwise op."""

    name: str
    ops: tuple[str, ...]
    rewrite: Rewrite


RULES: list[RewriteRule] = []


def rule(*ops: str) -> Callable[[Rewrite], Rewrite]:
    """Decorator: the function rewrites equations of these ops."""

    def enter(rewrite: Rewrite) -> Rewrite:
        RULES.append(RewriteRule(rewrite.__name__, ops, rewrite))
        return rewrite

    return enter


class Definitions:
    """The simplified body so far, and which equation defines each variable."""

    def __init__(self) -> None:
        self.body: list[Eqn | Guard] = []
        self.replaced: dict[Var, Atom] = {}
        self.changed = False
        self.history = WriteHistory()
        self._eqns: dict[Atom, Eqn] = {}
        self._rules: dict[Op, list[Rewrite]] = {}

    def visit(self, step: Eqn | Guard) -> None:
        old, step = step, substitute(step, self.replaced) if self.replaced else step
        if isinstance(step, Guard):
            if guard_holds(step):
                self.changed = True
            else:
                self.body.append(step)
            return
        simple = self.rewrite(step)
        if simple is not old:
            self.changed = True
        if isinstance(simple, Eqn):
            self.body.append(simple)
            self._eqns[simple.out] = simple
            self._record_write(simple)
        else:
            self.replaced[step.out] = simple

    def _record_write(self, eqn: Eqn) -> None:
        """Enter a write into the history of versions."""
        if not eqn.out.type.shape:
            return
        if eqn.op.name == "put":
            self.history.record_put(eqn)
        elif eqn.op.name == "embed":
            self.history.record_embed(eqn)
        elif eqn.op.name == "add":
            total, embedded = self.split_embed(eqn)
            if embedded is not None:
                self.history.record_add(eqn, total, embedded)

    def rewrite(self, eqn: Eqn) -> Atom | Eqn:
        """The equation, or atom, that is left when it is no constant and no rule applies."""
        again = True
        while again:
            again = False
            literal = evaluate_literals(eqn)
            if literal is not None:
                return literal
            for rewrite in self.rules(eqn.op):
                try:
                    new = rewrite(eqn, self)
                except NoRewrite:
                    continue
                if isinstance(new, Eqn):
                    eqn, again = new, True
                    break
                if new is not None and new.type == eqn.out.type:
                    return new
        return eqn

    def rules(self, op: Op) -> list[Rewrite]:
        found = self._rules.get(op)
        if found is None:
            everywhere = isinstance(op.lower, Map)
            found = self._rules[op] = [
                each.rewrite for each in RULES if (op.name in each.ops if each.ops else everywhere)
            ]
        return found

    def definition(self, atom: Atom, *names: str) -> Eqn | None:
        """The equation that defines an atom, if it is of one of these ops."""
        eqn = self._eqns.get(atom)
        return eqn if eqn is not None and eqn.op.name in names else None

    def split_embed(self, total: Eqn) -> tuple[Atom, Eqn | None]:
        """The operands of a sum, if one is an embed: the other one, and the embed."""
        for rest, added in (total.operands, total.operands[::-1]):
            embedded = self.definition(added, "embed")
            if embedded is not None:
                return rest, embedded
        return total.out, None

    def emit(self, like: Eqn, name: str, operands: tuple[Atom, ...], **params: Any) -> Atom:
        """Add an equation in front of the one being rewritten, if its op takes the operands."""
        op = OPS.get(name)
        type = None if op is None else _infer(op, operands, params)
        if op is None or type is None:
            raise NoRewrite
        eqn = Eqn(op, operands, params, Var(type), like.where)
        self.visit(eqn)
        return self.replaced.get(eqn.out, eqn.out)


def rewrite_as(eqn: Eqn, name: str, operands: tuple[Atom, ...], **params: Any) -> Eqn | None:
    """The equation with another right-hand side; None if its result would be of another type."""
    op = OPS.get(name)
    if op is None or _infer(op, operands, params) != eqn.out.type:
        return None
    return Eqn(op, operands, params, eqn.out, eqn.where)


def _infer(op: Op, operands: tuple[Atom, ...], params: dict[str, Any]) -> Type | None:
    try:
        return op.infer(*[operand.type for operand in operands], **params)
    except EVALUATION_ERRORS:  # a combination of types that the op does not take
        return None


# Constant folding -------------------------------------------------------------------------------

_CONVERSIONS: dict[str, Callable[[Any], Any]] = {"bool": bool, "int": int}


def guard_holds(guard: Guard) -> bool:
    """Whether a guard on a literal holds."""
    operand, convert = guard.operand, _CONVERSIONS.get(guard.kind)
    if not isinstance(operand, Const) or convert is None:
        return False
    try:
        return bool(convert(operand.value) == guard.expected)
    except (TypeError, ValueError, OverflowError):  # int(nan)
        return False


def evaluate_literals(eqn: Eqn) -> Const | None:
    """The value of an equation of literals, as NumPy computes it; None if there is none."""
    if not eqn.operands or eqn.out.type.shape:
        return None
    values = []
    for operand in eqn.operands:
        if not isinstance(operand, Const):
            return None
        values.append(operand.value)
    if params_key(eqn.params) is None or nested_functions((eqn,)):
        return None
    with np.errstate(all="ignore"):
        try:
            return _literal(eqn.op.evaluate(*values, **eqn.params), eqn.out.type)
        except EVALUATION_ERRORS:  # raised at run time, if the equation is reached
            return None


def _literal(result: Any, type: Type) -> Const | None:
    """A result as a literal of the given type, if it is one."""
    value = np.asarray(result)[()]
    if type.weak:
        value = value.item()
    return Const(value, type) if type_of(value) == type else None


# What rules share -------------------------------------------------------------------------------


def broadcast_like(eqn: Eqn, atom: Atom) -> Atom | Eqn | None:
    """The atom in the shape of the equation's result, if it has its dtype."""
    want = eqn.out.type
    if atom.type == want:
        return atom
    if isinstance(atom, Const) and atom.type.dtype == want.dtype:
        atom = scalar(atom.value, want.dtype)
    if atom.type.dtype != want.dtype or atom.type.weak:
        return None
    return atom if atom.type == want else rewrite_as(eqn, "broadcast_to", (atom,), shape=want.shape)


def scalar(value: Any, dtype: np.dtype[Any]) -> Const:
    """A NumPy scalar of this dtype as a literal."""
    return Const.of(np.asarray(value, dtype)[()])


def literal_value(atom: Atom) -> Any:
    """The value of a literal, else NaN, which equals nothing."""
    return atom.value if isinstance(atom, Const) else math.nan


def is_signed_zero(atom: Atom, sign: float) -> bool:
    """Whether an atom is the literal zero of this sign; integers have only the positive one."""
    value = literal_value(atom)
    return bool(value == 0) and not np.iscomplexobj(value) and math.copysign(1.0, value) == sign


def broadcast_source(atom: Atom, defs: Definitions) -> Atom | None:
    """The atom that is broadcast, if of the same dtype: a weak source would promote otherwise."""
    inner = defs.definition(atom, "broadcast_to")
    if inner is None:
        return None
    source = inner.operands[0]
    if isinstance(source, Const):
        return scalar(source.value, inner.out.type.dtype)
    return None if source.type.weak else source
