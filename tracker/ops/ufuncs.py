"""Ufunc calls beyond the plain one: `out=`, `where=`, `dtype=`, and the methods.

Of the methods, `reduce` leads to the reductions, `accumulate` to the cumulative functions, `outer`
to broadcasting, `at` (of add and subtract) to writing; `reduceat` is refused.
Owns: the handler behind `Tracked.__array_ufunc__`. Start at `protocol`.
"""

from __future__ import annotations

import dis
import sys
from typing import Any

import numpy as np

from tracker.errors import ConversionError, UnsupportedError, message, user_frame
from tracker.ir.op import NUMPY, UFUNCS, Op
from tracker.ops import index
from tracker.ops.declare import fitted, into, refuse
from tracker.tape import apply, data_of
from tracker.tracked import Tracked, set_ufunc_protocol

_PYTHON_NUMBERS = (float, int, complex)


def call(op: Op, operands: tuple[Any, ...]) -> Any:
    """A ufunc applied by name: Python numbers become NumPy's first, as NumPy itself does."""
    if all(type(data_of(x)) in _PYTHON_NUMBERS for x in operands):
        operands = tuple(np.astype(x, np.result_type(data_of(x))) for x in map(_as_array, operands))
    return apply(op, operands)


def _as_array(x: Any) -> Any:
    return x if isinstance(x, Tracked) else np.asarray(x)


def protocol(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `Tracked.__array_ufunc__` does with everything but the plain call of a common ufunc."""
    if method == "__call__":
        if ufunc.signature is not None:  # on vectors or matrices: with keywords of its own
            return _generalised(ufunc)(*inputs, **kwargs)
        return _call(ufunc, inputs, dict(kwargs))
    folded = _FOLDS.get((ufunc, method))
    if folded in NUMPY:
        names = ("axis", "dtype", "out", "keepdims", "initial", "where")
        given = {"axis": 0, **dict(zip(names, inputs[1:], strict=False)), **kwargs}
        kept = {k: v for k, v in given.items() if v is not None or k == "axis"}
        return NUMPY[folded](inputs[0], **kept)
    if method == "outer" and ufunc.nin == 2:
        a, b = map(_as_array, inputs)
        return ufunc(np.reshape(a, np.shape(a) + (1,) * np.ndim(b)), b, **kwargs)
    if method == "at" and ufunc in (np.add, np.subtract):
        target, key, values = inputs
        return _at(target, key, values, -1 if ufunc is np.subtract else 1)
    raise UnsupportedError(
        message(
            f"{_named(ufunc)}.{method} has no derivative rule here",
            "Write it with the plain functions, or use tracker.data(x) where no gradient is wanted",
        )
    )


def _generalised(ufunc: np.ufunc) -> Any:
    if ufunc not in NUMPY:
        raise UnsupportedError(message(f"np.{ufunc.__name__} has no derivative rule here"))
    return NUMPY[ufunc]


_FOLDS: dict[tuple[Any, str], Any] = {
    (np.add, "reduce"): np.sum,
    (np.multiply, "reduce"): np.prod,
    (np.maximum, "reduce"): np.max,
    (np.minimum, "reduce"): np.min,
    (np.logical_and, "reduce"): np.all,
    (np.logical_or, "reduce"): np.any,
    (np.add, "accumulate"): np.cumsum,
    (np.multiply, "accumulate"): np.cumprod,
}


def _at(target: Any, key: Any, values: Any, sign: int) -> None:
    """target[key] += sign * values, where every repetition of a place counts."""
    if not isinstance(target, Tracked):
        raise ConversionError(
            message(
                "ufunc.at would store a tracked value into a plain array and lose its gradient",
                "Make the target with np.zeros_like(t) or np.zeros(n, like=t)",
            )
        )
    added = index.added(np.shape(target), key, values)
    target += np.astype(sign * added, target.dtype)


def _call(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    out = kwargs.pop("out", None)
    where = kwargs.pop("where", True)
    dtype = kwargs.pop("dtype", None)
    target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    references = sys.getrefcount(target)  # with those of the calls that lead here
    refuse(_named(ufunc), **{k: v for k, v in kwargs.items() if _DEFAULTS.get(k) != v})
    if ufunc not in UFUNCS and ufunc not in NUMPY:
        _declare_foreign()
    op = UFUNCS.get(ufunc)
    if op is None and ufunc not in NUMPY:
        raise UnsupportedError(
            message(
                f"{_named(ufunc)} has no derivative rule here",
                "Use tracker.data(x) where no gradient is wanted, or write a rule with "
                "tracker.rrule",
            )
        )
    if dtype is not None:
        inputs = tuple(np.astype(_as_array(x), dtype) for x in inputs)
    result = NUMPY[ufunc](*inputs) if op is None else call(op, inputs)
    if ufunc.nout > 1:
        refuse(_named(ufunc), out=target, where=None if where is True else where)
        return result
    if target is None:
        if where is not True:
            raise UnsupportedError(
                message(
                    f"{_named(ufunc)} with where= and without out= leaves elements undefined",
                    "Give out=, or use np.where(mask, ..., other)",
                )
            )
        return result
    if type(target) is np.ndarray and isinstance(result, Tracked):
        alone = references <= _references_of_one_name and target.base is None
        if alone and inputs[0] is target and _is_augmented():
            return fitted(result, target)
    return into(target, result if where is True else np.where(where, result, target))


def _declare_foreign() -> None:
    """SciPy's ufuncs are declared when the first of them meets a tracked value: then SciPy is here,
    and who does without it never pays for it."""
    if "scipy.special" in sys.modules:
        from tracker.ops import special  # noqa: F401


def _named(ufunc: np.ufunc) -> str:
    return f"np.{ufunc.__name__}" if hasattr(np, ufunc.__name__) else ufunc.__name__


_DEFAULTS = {"casting": "same_kind", "order": "K", "subok": True}


# plain += t ---------------------------------------------------------------------------------------
#
# Python assigns what `+=` returns, so a name for a plain array can become a name for a tracked one.
# That is right when nobody else can see the array: it owns its numbers and has no other reference.


def _is_augmented() -> bool:
    """Whether the user's code is at an in-place operator (and not at np.add(a, t, out=a))."""
    frame = user_frame()
    if frame is None:
        return False
    code, at = frame.f_code.co_code, frame.f_lasti
    return code[at] == _BINARY_OP and code[at + 1] >= _FIRST_IN_PLACE


_BINARY_OP = dis.opmap["BINARY_OP"]
_PLUS_EQUALS = compile("a += b", "", "exec").co_code
_FIRST_IN_PLACE = _PLUS_EQUALS[_PLUS_EQUALS.index(_BINARY_OP) + 1]  # of the operators' numbers


def _count_references() -> int:
    """How many references a local name's array has in `_call`, when it is the only name."""
    found = []

    class Probe:
        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
            return outer(ufunc, method, inputs, kwargs)

    def outer(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return inner(ufunc, inputs, dict(kwargs))

    def inner(ufunc: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = kwargs.pop("out", None)
        target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
        found.append(sys.getrefcount(target))
        return target

    plain = np.zeros(1)
    probe: Any = Probe()
    plain += probe
    return found[0]


_references_of_one_name = _count_references()
set_ufunc_protocol(protocol)
