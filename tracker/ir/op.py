"""What an operation is: one declaration with every slot filled.

Owns: `Op`, the kinds of lowering (`Map`, `View`, `Scatter`, `Compact`, `Scan`, `Sort`, `Select`,
`Locate`, `Search`, `Borrow`, `Iota`, `Table`, `Reduce`, `Contract`, `Routine`, `Loop`, `While`,
`Branch`, `Pick`, `Expand`, `Host`), `Joint` rules, `define`, and the tables in which NumPy
callables and array methods find their op. Declarations live in `tracker/ops/`, one file per family;
see `define` for the slots.

Invariants: an `Op` is inert data: it cannot apply itself (the gate in `tape/record.py` does). A
slot left out is a `TypeError` at import. A kind, never a name, tells the compiler what loop an op
is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tracker.ir.lowering import Host, Lowering
from tracker.ir.types import Type
from tracker.support.structs import record

LINEAR: Final = "linear"  # the jvp is the op itself applied to the tangent
Rule = Callable[..., Any]


@record(frozen=True)
class Joint:
    """A rule for all operands at once, where one pass gives what all of them need.

    As vjp: rule(g, y, operands, wanted, times, **params) -> a cotangent or None per operand;
    wanted[i] tells whether operand i's is asked for, `times` is the product that the pass
    multiplies with (see `autodiff/reverse.py`). As jvp: rule(tangents, y, operands, times,
    **params) -> tangent. Where y is a bundle, g and the tangent are `Parts`.
    """

    rule: Rule


@record(frozen=True, eq=False)
class Op:
    """One operation; see `define` for the slots.

    Two facts follow from them: `constant`, no operand has a derivative; `needs_operand_values`,
    some rule looks at an operand's numbers (and not only at its shape).
    """

    name: str
    numpy: tuple[Callable[..., Any], ...]
    method: str | None
    entry: Callable[..., tuple[tuple[Any, ...], dict[str, Any]]] | None
    infer: Callable[..., Type]
    evaluate: Callable[..., Any]
    jvp: tuple[Rule | None, ...] | Joint | str
    vjp: tuple[Rule | None, ...] | Joint
    partials: tuple[Rule | float, ...] | None
    lower: Lowering
    constant: bool
    needs_operand_values: bool

    @property
    def arity(self) -> int | None:
        """How many operands it has rules for; None where one rule is for all of them."""
        return None if isinstance(self.vjp, Joint) else len(self.vjp)

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def has_effect(op: Op) -> bool:
    """Whether running the op does more than giving its result."""
    return isinstance(op.lower, Host) and op.lower.effect


OPS: dict[str, Op] = {}
NUMPY: dict[Any, Callable[..., Any]] = {}
METHODS: dict[str, Callable[..., Any]] = {}
UFUNCS: dict[np.ufunc, Op] = {}  # plain calls of these go straight to the gate
NONDIFFERENTIABLE: set[Any] = (
    set()
)  # those in NUMPY whose results carry no derivative: they are plain
UNSUPPORTED: dict[Any, str] = {}  # those in NUMPY that raise, and why


def define(
    name: str,
    *,
    numpy: Sequence[Callable[..., Any]],
    method: str | None,
    entry: Callable[..., tuple[tuple[Any, ...], dict[str, Any]]] | None,
    infer: Callable[..., Type],
    evaluate: Callable[..., Any],
    jvp: Sequence[Rule | None] | Joint | str,
    vjp: Sequence[Rule | None] | Joint,
    lower: Lowering,
    partials: Sequence[Rule | float] | None = None,
) -> Op:
    """Declare an op and enter it in `OPS`.

    numpy     the NumPy callables that land here
    method    the array method that lands here, or None
    entry     NumPy's own signature -> (operands, params); None when it is not called by users
    infer     (*types, **params) -> Type, equal to what NumPy gives
    evaluate  (*arrays, **params) -> array, usually the NumPy function
    jvp       per operand rule(t, y, *operands, **params) -> tangent of y; LINEAR: the op itself
    vjp       per operand rule(g, y, *operands, **params) -> cotangent of the operand;
              None: no derivative. The last is for all operands that follow, too. Both jvp and
              vjp may be `Joint` instead.
    lower     which kind of loop
    partials  elementwise only: what jvp and vjp were derived from; per operand a
              rule(y, *operands, **params), or a number where the derivative is constant
    """
    op = Op(
        name,
        tuple(numpy),
        method,
        entry,
        infer,
        evaluate,
        jvp if isinstance(jvp, (str, Joint)) else tuple(jvp),
        vjp if isinstance(vjp, Joint) else tuple(vjp),
        None if partials is None else tuple(partials),
        lower,
        constant=not isinstance(vjp, Joint) and all(rule is None for rule in vjp),
        needs_operand_values=partials is None or any(callable(p) for p in partials),
    )
    if name in OPS:
        raise ValueError(f"op {name!r} is declared twice")
    OPS[name] = op
    return op
