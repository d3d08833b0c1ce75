"""Runs an `ir.Function` on JAX's arrays, equation by equation. Start at `Replay.run`.

A trace is valid under conditions: branches of the user's code, positions within range, matrices
that can be factored, integers that fit. NumPy raises where they do not hold, or another path is
traced; XLA can do neither. A replay collects them in `ok`, which its caller must not drop.

What is computed from constants alone is computed by NumPy, once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from tracker.errors import EVALUATION_ERRORS, UnsupportedError
from tracker.interop.jax_ops import RULES
from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, Var
from tracker.ir.lowering import Branch, Expand, Host, Loop, Map, Routine, While
from tracker.ir.op import Op, has_effect
from tracker.ir.passes.expand import expand_equation, expand_requirements
from tracker.ir.types import Bundle, Type
from tracker.support.structs import record

CONSTANT = (np.ndarray, np.generic, bool, int, float, complex)
_MOST_FOLDED = 1 << 16  # elements of a constant that is larger than its operands
_NARROW = {"d": "f", "D": "F"}
_NARROW_INTEGERS = {"l": "i", "q": "i", "L": "I", "Q": "I"}
_WIDE = {*_NARROW, *_NARROW_INTEGERS}
_GROWING: dict[str, Callable[..., Any] | None] = {
    **dict.fromkeys(("add", "subtract", "multiply", "negative", "absolute", "square", "power")),
    **dict.fromkeys(("sum", "prod", "cumsum", "cumprod", "matmul", "convolve")),
    "left_shift": lambda x, n: x * jnp.exp2(n),
}  # ops whose integers may leave their dtype; the function of floats, if it is not jnp's


@record(frozen=True)
class DtypeMap:
    """The dtypes that stand for those of a trace.

    narrow: floats are of 32 bits; has_64_bits: JAX's setting, without which integers are, too.
    """

    narrow: bool
    has_64_bits: bool

    def __call__(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        char = _NARROW.get(dtype.char, dtype.char) if self.narrow else dtype.char
        if char in "gG":
            raise UnsupportedError(f"JAX has no {dtype}", "Compute in float64, by astype(float)")
        if not self.has_64_bits:
            char = _NARROW_INTEGERS.get(char, char) if self.narrow else char
            if char in _WIDE:
                raise UnsupportedError(
                    f"JAX would compute {dtype} with 32 bits",
                    'Write jax.config.update("jax_enable_x64", True), or to_jax(..., '
                    "dtype=np.float32)",
                )
        return dtype if char == dtype.char else np.dtype(char)


class Replay:
    """One run of a function and of those nested in it.

    ok: whether all conditions hold, True if there are none; conditions: their lines and texts.
    """

    def __init__(self, kind: DtypeMap) -> None:
        self.kind = kind
        self.ok: Any = True
        self.conditions: dict[str, None] = {}
        self.values: dict[Var, Any] = {}
        self.arrays: dict[tuple[int, str], tuple[Any, Any]] = {}

    def run(self, function: Function, values: Sequence[Any]) -> list[Any]:
        """The results of a function, given values for its inputs and captures."""
        self.values.update(zip((*function.inputs, *function.captures), values, strict=True))
        self.steps(function.body)
        return [self.typed(self.read(atom), atom.type) for atom in function.outputs]

    def steps(self, body: Sequence[Eqn | Guard], are_checked: bool = False) -> None:
        """Run equations; are_checked: what they require has been looked at."""
        for step in body:
            if isinstance(step, Guard):
                self.check(*self._guard(step), step.where)
            elif step.out not in self.values:
                self.values[step.out] = self._result(step, are_checked)

    def read(self, atom: Atom) -> Any:
        return atom.value if isinstance(atom, Const) else self.values[atom]

    def check(self, ok: Any, what: str, where: str) -> None:
        """Make the results conditional."""
        if isinstance(ok, (bool, np.bool_)) and ok:
            return
        self.ok = ok if self.ok is True else jnp.logical_and(self.ok, ok)
        self.conditions[f"{what} (at {where})" if where else what] = None

    def cast(self, x: Any, dtype: np.dtype[Any]) -> Any:
        """An array of a dtype of JAX's; the same constant is the same array."""
        if not isinstance(x, np.ndarray):
            return jnp.asarray(x, dtype)
        key = id(x), dtype.char
        if key not in self.arrays:
            self.arrays[key] = x, jnp.asarray(fitting(x, dtype), dtype)
        return self.arrays[key][1]

    def typed(self, x: Any, type: Type) -> Any:
        """A value as an array of the dtype that stands for that of a type."""
        if isinstance(type, Bundle):
            return tuple(map(self.typed, x, type.parts))
        y = self.cast(x, self.kind(type.dtype))
        if y.shape != type.shape:
            raise AssertionError(f"a rule gives shape {y.shape} for {type}")
        return y

    # Equations

    def _result(self, eqn: Eqn, is_checked: bool) -> Any:
        operands = list(map(self.read, eqn.operands))
        if _is_foldable(eqn, operands):
            try:
                with np.errstate(all="ignore"):
                    return eqn.op.evaluate(*operands, **eqn.params)
            except EVALUATION_ERRORS:
                pass  # where NumPy raises, the rule's results are checked
        try:
            found = self._apply_rule(eqn, operands, is_checked)
            return found if isinstance(eqn.out.type, Bundle) else self.typed(found, eqn.out.type)
        except UnsupportedError:
            raise
        except (TypeError, ValueError, OverflowError, NotImplementedError) as error:
            raise _unsupported(eqn, f": {error}".splitlines()[0]) from error

    def _apply_rule(self, eqn: Eqn, operands: list[Any], is_checked: bool) -> Any:
        lower, rule = eqn.op.lower, RULES.get(eqn.op.name)
        if rule is None:
            return self._expanded(eqn)
        step = ReplayStep(self, eqn)
        xs = list(map(_as_array, operands))
        if isinstance(lower, Map):
            needed, instead = ([], None) if is_checked else expand_requirements(eqn, lower)
            self.steps(needed, are_checked=True)
            has_rules = all(isinstance(step, Guard) or step.op.name in RULES for step in needed)
            if instead is not None and has_rules:
                return self.read(instead)
            dtypes = lower.dtypes(*(atom.type for atom in eqn.operands))
            xs = [self.cast(x, self.kind(d)) for x, d in zip(operands, dtypes, strict=True)]
        made = rule(step, *xs, **eqn.params)
        _check_result(step, made, xs)
        return made

    def _expanded(self, eqn: Eqn) -> Any:
        found = expand_equation(eqn) if isinstance(eqn.op.lower, Expand) else ""
        if isinstance(found, str):
            raise _unsupported(eqn)
        self.steps(found[0])
        return self.read(found[1])

    def _guard(self, guard: Guard) -> tuple[Any, str]:
        x = self.read(guard.operand)
        convert = _GUARD_CONVERSIONS[guard.kind]
        shown = f"the code took the path for {guard.kind} == {guard.expected}"
        return convert(_as_array(x)) == guard.expected, shown


def _check_result(step: ReplayStep, made: Any, xs: list[Any]) -> None:
    """Whether NumPy, or Python where the operands are its numbers, gives this result too."""
    lower, name, type = step.eqn.op.lower, step.name, step.out
    if isinstance(lower, Routine) and lower.may_raise:
        step.check(jnp.all(jnp.isfinite(made)), f"{name} has no result")
    if type.weak and name in ("divide", "floor_divide", "remainder"):
        step.check(jnp.all(xs[1] != 0), "Python divides by zero")
    if type.weak and name == "power":
        step.check(jnp.all(jnp.isfinite(made)), "a power of Python numbers has no result")
    if name in _GROWING and type.dtype.kind in "iu" and (type.weak or step.dtype != type.dtype):
        wide = [step.cast(x, step.kind(np.dtype(float))) for x in xs]  # the same, of floats
        guess = jnp.abs((_GROWING[name] or getattr(jnp, name))(*wide, **step.eqn.params))
        limit = float(np.iinfo(step.dtype).max) * (1 - 1e-5)
        step.check(jnp.all(guess < limit), f"an integer does not fit {step.dtype}")


_GUARD_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "bool": lambda x: x != 0,
    "int": jnp.trunc,
    "hash": lambda x: x,
    "floor": jnp.floor,
    "ceil": jnp.ceil,
    "round": jnp.rint,
}


class ReplayStep:
    """What a rule may ask and say about its equation."""

    def __init__(self, replay: Replay, eqn: Eqn) -> None:
        self.replay, self.eqn = replay, eqn
        self.name, self.operands, self.out = eqn.op.name, eqn.operands, eqn.out.type
        self.kind, self.typed, self.cast = replay.kind, replay.typed, replay.cast

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the result, as JAX has it."""
        return self.kind(self.out.dtype)

    def check(self, ok: Any, what: str) -> None:
        self.replay.check(ok, what, self.eqn.where)

    def is_constant(self, x: Any) -> bool:
        return isinstance(x, CONSTANT)

    def nested(self, function: Function) -> Body:
        return Body(self.replay, function)


class Body:
    """A nested function, called by JAX's control flow: it gives its results, and whether its own
    conditions hold, which `leave` hands to the replay outside."""

    def __init__(self, outer: Replay, function: Function) -> None:
        self.outer, self.function = outer, function
        self.conditions: dict[str, None] = {}

    def __call__(self, values: Sequence[Any]) -> tuple[list[Any], Any]:
        inner = Replay(self.outer.kind)
        made = inner.run(self.function, values)
        self.conditions.update(inner.conditions)
        return made, jnp.asarray(inner.ok)

    def leave(self, ok: Any) -> None:
        for what in self.conditions:
            self.outer.check(ok, what, "")


def fitting(x: Any, dtype: np.dtype[Any]) -> Any:
    """A plain array, after a check that its integers fit a dtype."""
    if dtype.kind in "iu" and dtype.itemsize < x.dtype.itemsize and x.size:
        limits = np.iinfo(dtype)
        if x.min() < limits.min or x.max() > limits.max:
            raise UnsupportedError(
                f"integers of an array of {x.dtype} do not fit {dtype}",
                'Switch on 64 bits: jax.config.update("jax_enable_x64", True)',
            )
    return x


def _as_array(x: Any) -> Any:
    return x if isinstance(x, tuple) or hasattr(x, "dtype") else np.asarray(x)


def _is_foldable(eqn: Eqn, operands: Sequence[Any]) -> bool:
    """Whether NumPy computes an equation, once: of constants, and not much larger than they are."""
    if isinstance(eqn.op.lower, (Loop, While, Branch)) or has_effect(eqn.op):
        return False
    if isinstance(eqn.out.type, Bundle) or not all(isinstance(x, CONSTANT) for x in operands):
        return False
    return eqn.out.type.size <= max(_MOST_FOLDED, *(np.size(x) for x in operands), 0)


def _unsupported(eqn: Eqn, why: str = "") -> UnsupportedError:
    types = ", ".join(str(atom.type) for atom in eqn.operands)
    reason = f" ({eqn.op.lower.why})" if isinstance(eqn.op.lower, Host) and not why else why
    return UnsupportedError(
        f"to_jax has no rule for {eqn.op.name} of {types}{reason}",
        "Compute it outside, and pass it as an argument; or run the function on the host with "
        "tracker.interop.as_jax",
        eqn.where,
    )


def has_rule(op: Op) -> bool:
    """Whether `to_jax` has a rule for an op, or expands it."""
    return op.name in RULES or isinstance(op.lower, Expand)
