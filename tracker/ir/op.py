"""What an op is: a record of how it is typed, computed, differentiated and lowered.

Ops are declared in `tracker/ops/` with `define`, which explains the slots. The tables map NumPy
callables and array methods to their ops.

Invariants: an `Op` is inert data and cannot apply itself (`tape/record.py` does); a slot left out
is a `TypeError` at import; the compiler goes by the kind of lowering, never by an op's name.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tracker.errors import UnsupportedError
from tracker.ir.lowering import Host, Lowering
from tracker.ir.types import Type
from tracker.support.structs import record

LINEAR: Final = "linear"  # the jvp is the op itself applied to the tangent
Rule = Callable[..., Any]


@record(frozen=True)
class Joint:
    """A derivative rule for all operands at once, where one computation serves several of them.

    As vjp: rule(g, y, operands, wanted, times, **params) -> a cotangent or None per operand;
    wanted[i] tells whether operand i's is needed, `times` is the product to multiply with (see
    `autodiff/reverse.py`). As jvp: rule(tangents, y, operands, times, **params) -> tangent. Where y
    is a bundle, g and the tangent are `BundleParts`.
    """

    rule: Rule


@record(frozen=True, eq=False)
class Op:
    """One operation; see `define` for the slots.

    Facts that are derived: `constant`, no operand has a derivative; `needs_operand_values`, a rule
    reads an operand's numbers and not only its shape; `linear`, the rules read no floats' numbers.
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
    linear: bool = False

    @property
    def arity(self) -> int | None:
        """How many operands have rules of their own; None where one rule is for all of them."""
        return None if isinstance(self.vjp, Joint) else len(self.vjp)

    def __reduce__(self) -> Any:
        if OPS.get(self.name) is not self:
            raise UnsupportedError(
                f"{self!r} cannot be pickled: it is a call of Python code that has a rule",
                "Pickle the function, and trace it where it is loaded",
            )
        return _op_named, (self.name, _DECLARED_IN[self.name])

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def _op_named(name: str, module: str) -> Op:
    """The op that pickle finds; importing the module declares it."""
    importlib.import_module(module)
    return OPS[name]


def has_effect(op: Op) -> bool:
    return isinstance(op.lower, Host) and op.lower.effect


OPS: dict[str, Op] = {}
_DECLARED_IN: dict[str, str] = {}  # by the name of an op, the module whose import declares it
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
    linear: bool = False,
) -> Op:
    """Declare an op and enter it in `OPS`.

    numpy     the NumPy callables that map to the op
    method    the array method that maps to the op, or None
    entry     NumPy's own signature -> (operands, params); None: users cannot call the op
    infer     (*types, **params) -> Type, equal to what NumPy gives
    evaluate  (*arrays, **params) -> array, usually the NumPy function
    jvp       per operand rule(t, y, *operands, **params) -> tangent of y; LINEAR: the op itself
    vjp       per operand rule(g, y, *operands, **params) -> cotangent of the operand; None: it has
              no derivative. The last rule also serves all further operands. Both jvp and vjp may be
              a `Joint` instead.
    lower     the kind of loop
    partials  elementwise ops only: what jvp and vjp were derived from; per operand a
              rule(y, *operands, **params), or a number where the derivative is constant
    linear    the rules read the numbers of integers and bools only, of floats shape and dtype;
              derived where `jvp` is LINEAR, or all partials are numbers other than 0
    """
    needs_operand_values = partials is None or any(callable(p) for p in partials)
    has_constant_partials = not needs_operand_values and all(partials or ())
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
        needs_operand_values=needs_operand_values,
        linear=linear or jvp == LINEAR or has_constant_partials,
    )
    if name in OPS:
        raise ValueError(f"op {name!r} is declared twice")
    OPS[name] = op
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    _DECLARED_IN[name] = frame.f_globals["__name__"]
    return op
