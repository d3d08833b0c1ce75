"""How the op files declare: factories over `define`, and the helpers that rules share.

Owns: `elementwise`, `piecewise` (ufuncs without a derivative), `declare`, `implements`; how entries
read arguments (`as_array`, `into`, `one_axis`, ...). What rules share is in `cotangents.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import mul
from types import BuiltinFunctionType, FunctionType, NoneType
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tracker.conversions import whole
from tracker.errors import ConversionError, UnsupportedError, message
from tracker.ir.op import (
    CONSTANT,
    METHODS,
    NUMPY,
    REFUSED,
    UFUNCS,
    Host,
    Lowering,
    Map,
    Op,
    Rule,
    define,
)
from tracker.ir.types import Type, type_of
from tracker.ops.cotangents import jvp_from, vjp_from
from tracker.ops.objects import array_of, is_left_to
from tracker.tape import apply, apply2, as_numbers, data_of, form_of, holds_tracked
from tracker.tracked import Tracked, install, public_name

NO_VALUE: Any = np._NoValue
_PYTHON = (bool, int, float, complex)
_WEAK_PYTHON = {"f": float, "i": int, "c": complex}
Body = Callable[..., Any]


# Types ------------------------------------------------------------------------------------------


def loop_dtypes(ufunc: np.ufunc, types: Sequence[Type]) -> tuple[np.dtype[Any], ...]:
    """The dtypes of the ufunc's inner loop for these operand types: operands, then results."""
    return _loop_dtypes(ufunc, *[(t.dtype, t.weak) for t in types])


@functools.lru_cache(maxsize=512)
def _loop_dtypes(ufunc: np.ufunc, *kinds: tuple[np.dtype[Any], bool]) -> tuple[np.dtype[Any], ...]:
    mixed = not all(weak for _, weak in kinds)  # alone, NumPy takes ints to be of any size
    given = [_WEAK_PYTHON[dtype.kind] if weak and mixed else dtype for dtype, weak in kinds]
    return ufunc.resolve_dtypes((*given, *(None,) * ufunc.nout))


def broadcast(types: Sequence[Type]) -> tuple[int, ...]:
    """The shape of what elementwise ops give of operands of these types."""
    if len(types) == 1:
        return types[0].shape
    shapes = {t.shape for t in types}
    shapes.discard(())
    if len(shapes) < 2:
        return shapes.pop() if shapes else ()
    return joint_shape(*shapes)


joint_shape = functools.lru_cache(maxsize=1024)(np.broadcast_shapes)  # asked of the same often


def infer_ufunc(ufunc: np.ufunc, python: Callable[..., Any] | None) -> Callable[..., Type]:
    """`infer` of a ufunc; `python` is the operator that Python numbers go through instead."""

    def infer(*types: Type) -> Type:
        if python is not None and (all(t.weak for t in types) or _is_pythons(types)):
            return type_of(python(*(_WEAK_PYTHON[t.dtype.kind](1) for t in types)))
        return Type(broadcast(types), loop_dtypes(ufunc, types)[ufunc.nin])

    return infer


def _is_pythons(types: Sequence[Type]) -> bool:
    """Whether Python's complex takes NumPy's float64, which is a float, for a float."""
    return len(types) == 2 and types[0] == _COMPLEX and types[1] == _FLOAT64


_COMPLEX, _FLOAT64 = type_of(0j), type_of(np.float64(0.0))


def dtype_given_by(function: Callable[..., Any]) -> Callable[[np.dtype[Any]], np.dtype[Any]]:
    """The dtype that NumPy's function gives of numbers of another one, which it is asked once."""
    return functools.cache(lambda dtype: function(np.ones(1, dtype)).dtype)


def infer_by_example(evaluate: Callable[..., Any]) -> Callable[..., Type]:
    """`infer` for an op whose result type depends on operand types only: run it on zeros."""

    def infer(*types: Type, **params: Any) -> Type:
        with np.errstate(all="ignore"):
            samples = [np.broadcast_to(np.zeros((), t.dtype), t.shape) for t in types]
            return type_of(evaluate(*samples, **params))

    return infer


# Factories --------------------------------------------------------------------------------------


def elementwise(
    ufunc: np.ufunc,
    *,
    partials: Sequence[Rule | float],
    lower: Body | Host,
    kinds: str = "f",
    operator: Callable[..., Any] | None = None,
    method: str | None = None,
    name: str | None = None,
    defined: Body | None = None,
    refuses: Callable[..., str] | None = None,
    requires: Callable[..., None] | None = None,
) -> Op:
    """Declare an op that is a ufunc, from its partial derivatives.

    operator  Python's operator of the same meaning (`operator.add`): its methods (`__add__`,
              `__radd__`) are installed, and Python numbers go through it and keep its arithmetic
    kinds     dtype kinds in which the body `lower` computes
    defined   see `Map`: where Python's operator does not raise
    refuses   see `Map`: why NumPy must do it for some operands
    requires  see `Map`: what must hold where it is compiled
    """
    op = define(
        name or ufunc.__name__,
        numpy=[ufunc],
        method=method,
        entry=None,
        infer=infer_ufunc(ufunc, operator),
        evaluate=operator or ufunc,
        jvp=[jvp_from(p) for p in partials],
        vjp=[vjp_from(p, i) for i, p in enumerate(partials)],
        lower=lower
        if isinstance(lower, Host)
        else map_lowering(ufunc, lower, kinds, defined, refuses, requires),
        partials=partials,
    )
    UFUNCS[ufunc] = op
    _install_operator(op, operator)
    return op


def piecewise(
    ufunc: np.ufunc,
    *,
    lower: Body | Host,
    kinds: str = "f",
    operator: Callable[..., Any] | None = None,
    defined: Body | None = None,
) -> Op:
    """Declare a ufunc whose results carry no derivative (comparisons, tests, bit operations)."""
    op = define(
        ufunc.__name__,
        numpy=[ufunc],
        method=None,
        entry=None,
        infer=infer_ufunc(ufunc, operator),
        evaluate=operator or ufunc,
        jvp=[None] * ufunc.nin,
        vjp=[None] * ufunc.nin,
        lower=lower if isinstance(lower, Host) else map_lowering(ufunc, lower, kinds, defined),
    )
    UFUNCS[ufunc] = op
    _install_operator(op, operator)
    return op


def map_lowering(
    ufunc: np.ufunc,
    body: Body,
    kinds: str,
    defined: Body | None = None,
    refuses: Callable[..., str] | None = None,
    requires: Callable[..., None] | None = None,
) -> Map:
    """The Map of a ufunc: the body computes in the dtypes of NumPy's inner loop."""

    def dtypes(*types: Type) -> tuple[np.dtype[Any], ...]:
        return loop_dtypes(ufunc, types)[: ufunc.nin]

    return Map(body, dtypes, kinds, defined, refuses, requires, "K")


_COMPARISONS = {"lt": "gt", "le": "ge", "eq": "eq", "ne": "ne", "gt": "lt", "ge": "le"}


def _install_operator(op: Op, operator: Callable[..., Any] | None) -> None:
    if operator is None:
        return
    name = operator.__name__.strip("_")
    if op.arity == 1:
        install(f"__{name}__")(lambda self: apply(op, (self,)))
        return
    reflected = f"__{_COMPARISONS.get(name, f'r{name}')}__"
    if op.constant:
        method = simple_operator(op, reflected)
        install(f"__{name}__")(_equality(op, method) if name in ("eq", "ne") else method)
        if name not in _COMPARISONS:  # Python reflects these itself: 2 < t is t > 2
            install(reflected)(simple_reflected(op))
        return
    install(f"__{name}__")(_operator_method(op, reflected))
    install(reflected)(_reflected_method(op))


_NO_NUMBERS = (NoneType, str, bytes, type, dict, set, FunctionType, BuiltinFunctionType)


def simple_operator(op: Op, reflected: str) -> Callable[..., Any]:
    """The method of an operator; `reflected` is that of what stands on the right."""

    def method(self: Any, other: Any) -> Any:
        try:
            return apply(op, (self, other))
        except UnsupportedError:
            if is_left_to(other, reflected, self):
                return NotImplemented
            return apply(op, (self, array_of(other, self)))

    return method


def simple_reflected(op: Op) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        try:
            return apply(op, (other, self))
        except UnsupportedError:
            return apply(op, (array_of(other, self), self))

    return method


def _equality(op: Op, compare: Callable[..., Any]) -> Callable[..., Any]:
    """The operator `==` or `!=`: of no number is the answer known that asks whether it is None."""

    def method(self: Any, other: Any) -> Any:
        cls = type(other)
        if cls in _NO_NUMBERS or (cls in (list, tuple) and type(form_of(self)) in _PYTHON):
            return op.evaluate(form_of(self), other)
        return compare(self, other)

    return method


def _operator_method(op: Op, reflected: str) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        try:
            return apply2(op, self, other)
        except UnsupportedError:
            if repeats(op, other, self):
                return other * int(self)
            if is_left_to(other, reflected, self):
                return NotImplemented
            return apply2(op, self, array_of(other, self))
        except ConversionError:
            if repeats(op, other, self):
                return other * int(self)
            return apply2(op, self, _array_of_list(other))

    return method


def _reflected_method(op: Op) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        if type(other) is complex:
            other = _before_array(other, form_of(self))
        try:
            return apply2(op, other, self)
        except UnsupportedError:
            if repeats(op, other, self):
                return other * int(self)
            return apply2(op, array_of(other, self), self)
        except ConversionError:
            if repeats(op, other, self):
                return other * int(self)
            return apply2(op, _array_of_list(other), self)

    return method


def repeats(op: Op, x: Any, n: Any) -> bool:
    """Whether Python's `x * n` says one sequence several times: n is no array."""
    sequence = isinstance(x, (list, tuple, str, bytes, bytearray))
    return sequence and op.evaluate is mul and isinstance(form_of(n), (int, np.integer))


def _before_array(number: complex, form: Any) -> Any:
    """Python's complex as the operand of this array: one without axes is not taken for a float,
    as NumPy's float64 is (see `_is_pythons`)."""
    if type(form) is not np.ndarray or form.ndim or form.dtype != np.float64:
        return number
    return np.complex128(number)


def _array_of_list(x: Any) -> Any:
    """The array of a list; called while the list itself is being refused."""
    if type(x) not in (list, tuple):
        raise
    return as_array(x)


def declare(name: str, *, numpy: Sequence[Callable[..., Any]] = (), **slots: Any) -> Op:
    """`define`, and lead NumPy's callables and the array method to the op through its entry."""
    op = define(name, numpy=numpy, **slots)
    entry = op.entry
    if entry is not None:

        def call(*args: Any, **kwargs: Any) -> Any:
            operands, params = entry(*args, **kwargs)
            return apply(op, operands, params)

        for function in numpy:
            NUMPY[function] = call
        if op.method is not None:
            METHODS[op.method] = call
    return op


def implements(*functions: Callable[..., Any], method: str | None = None) -> Callable[[Rule], Rule]:
    """Decorator: this function of tracked values stands for these NumPy functions."""

    def enter(function: Rule) -> Rule:
        for numpy_function in functions:
            NUMPY[numpy_function] = function
        if method is not None:
            METHODS[method] = function
        return function

    return enter


def constant(*functions: Callable[..., Any], method: str | None = None) -> Callable[[Rule], Rule]:
    """Decorator: as `implements`, for functions whose results carry no derivative."""
    CONSTANT.update(functions)
    return implements(*functions, method=method)


def discrete(
    function: Callable[..., Any],
    operands: str,
    params: str = "",
    *,
    method: str | None = None,
    numpy: bool = True,
    name: str | None = None,
    lower: Lowering | None = None,
) -> Op:
    """Declare a function whose results carry no derivative, and whose shape follows from shapes.

    operands, params  the names of its arguments: arrays, and the rest, which the op is told
    numpy             whether users call it: an entry is made in the tables
    """
    arrays, rest = operands.split(), params.split()
    op = declare(
        name or function.__name__,
        method=None,
        entry=None,
        infer=infer_by_example(function),
        evaluate=function,
        jvp=[None] * len(arrays),
        vjp=[None] * len(arrays),
        lower=lower or Host("an integer or boolean result"),
    )

    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        given = dict(zip((*arrays, *rest), args, strict=False)) | kwargs
        given = {k: v for k, v in given.items() if v is not NO_VALUE}
        found = tuple(as_array(given.pop(k)) for k in arrays)
        return into(out, apply(op, found, {k: whole(v) for k, v in given.items()}))

    if numpy:
        constant(function, method=method)(call)
    return op


def refused(why: str, instead: str, *functions: Callable[..., Any]) -> None:
    """These functions of tracked values raise, by name."""

    def refusal(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*_: Any, **__: Any) -> Any:
            raise UnsupportedError(message(f"{public_name(function)} {why}", instead))

        return call

    for function in functions:
        NUMPY[function] = refusal(function)
        REFUSED[function] = why


def into(out: Any, y: Any, casting: Any = "same_kind", ufunc: str = "") -> Any:
    """NumPy's `out=`: store and return the target, which must be able to hold a gradient."""
    if out is None or out is NO_VALUE:
        return y
    if isinstance(out, tuple) and len(out) == 1:
        out = out[0]
    if not isinstance(out, Tracked):
        if not isinstance(y, Tracked):
            out[...] = y
            return out
        if type(out) is np.ndarray and out.dtype.kind in "biu":  # whole numbers bear no gradient
            out[...] = fitted(y, out, casting, ufunc)
            return out
        raise ConversionError(
            message(
                f"out= would store a tracked value of shape {y.shape}, dtype {y.dtype} into a "
                "plain array and lose its gradient",
                "Make the target with np.zeros_like(t) or np.zeros(n, like=t)",
            )
        )
    out[...] = fitted(y, out, casting, ufunc)
    return out


def is_plain(name: str, target: Any, values: Any) -> bool:
    """Whether the target of a write is a plain array; what goes there must have no gradient then.
    The places where it goes have none: labels and masks are no obstacle (`whole`)."""
    if isinstance(target, Tracked):
        return False
    if holds_tracked(values):
        raise ConversionError(
            message(
                f"{name} would store a tracked value into a plain array and lose its gradient",
                "Make the target with np.zeros_like(t) or np.zeros(n, like=t)",
            )
        )
    return True


def as_large(y: Any, out: Any) -> Any:
    """The result of a ufunc in the shape of its out=, which may be the larger."""
    if not isinstance(out, (np.ndarray, Tracked)) or np.shape(y) == np.shape(out):
        return y
    both = np.broadcast_shapes(np.shape(y), np.shape(out))
    if both != np.shape(out):
        raise ValueError(
            f"non-broadcastable output operand with shape {np.shape(out)} doesn't match the "
            f"broadcast shape {both}"
        )
    return np.broadcast_to(y, both)


def fitted(y: Any, out: Any, casting: Any = "same_kind", ufunc: str = "") -> Any:
    """A result (of a ufunc) in the dtype of the array `out` that it is to go into, which it must
    fit."""
    if np.shape(y) != out.shape:
        raise ValueError(f"output array has shape {out.shape}, the result has shape {np.shape(y)}")
    kind = np.result_type(form_of(y))
    if kind == out.dtype:
        return y
    if not np.can_cast(kind, out.dtype, casting):
        raise TypeError(
            f"Cannot cast {f'ufunc {ufunc!r} ' * bool(ufunc)}output from {kind!r} to "
            f"{out.dtype!r} with casting rule {casting!r}"
        )
    return np.astype(as_array(y), out.dtype)


def no_cast(given: Any, want: Any, rule: str, *, is_array: Any = True) -> TypeError:
    """NumPy's error for a value of a dtype that a rule does not let be cast to another."""
    what = "array data" if is_array else "scalar"
    return TypeError(
        f"Cannot cast {what} from {given!r} to {want!r} according to the rule {rule!r}"
    )


def dtype_of(dtype: Any) -> np.dtype[Any]:
    """What a `dtype=` says: a dtype, or what NumPy makes one of, also one of NumPy's classes."""
    is_class = isinstance(dtype, type) and issubclass(dtype, np.dtype)
    made: np.dtype[Any] = np.dtype(dtype() if is_class else dtype)
    return made


def computed_in(
    ufunc: np.ufunc, inputs: Sequence[Any], dtype: Any, signature: Any, casting: Any
) -> tuple[Any, ...]:
    """The operands in the dtypes of the loop that these keywords of a ufunc's call choose: NumPy's
    own choice, with its errors."""
    if signature is None and dtype is not None:
        signature = (None,) * ufunc.nin + (dtype_of(dtype),) * ufunc.nout
    weak = (int, float, complex)
    inputs = [x if type(form_of(x)) in weak else as_array(x) for x in inputs]
    forms = map(form_of, inputs)
    kinds: list[Any] = [type(f) if type(f) in weak else np.result_type(f) for f in forms]
    wanted = {} if signature is None else {"signature": signature}
    free = (None,) * ufunc.nout
    if any(type(kind) is type for kind in kinds):  # Python's numbers fit any casting
        loop = ufunc.resolve_dtypes((*kinds, *free), casting="unsafe", **wanted)
        kinds = [d if type(k) is type else k for k, d in zip(kinds, loop, strict=False)]
    found = ufunc.resolve_dtypes((*kinds, *free), casting=casting, **wanted)
    pairs = list(zip(inputs, found, strict=False))
    return tuple(
        as_stored(x, d) if type(form_of(x)) is int else np.astype(as_array(x), d) for x, d in pairs
    )


def as_array(x: Any) -> Any:
    """An array, tracked or plain: what NumPy's functions make of what they are given first."""
    if hasattr(x, "dtype"):
        return x
    if type(x) in (list, tuple) and holds_tracked(x):
        return np.stack([as_array(e) for e in x])
    try:
        return np.asarray(x)
    except ValueError:  # of an object whose `__array__` gives a tracked one
        made = as_numbers(x)
        if made is None:
            raise
        return made


def as_stored(x: Any, dtype: np.dtype[Any]) -> Any:
    """What an array of this dtype keeps of a value that is put into it: of Python's numbers, also
    those in a list, NumPy casts none that is beyond all of an integer dtype, but raises."""
    if type(x) in (list, tuple) and dtype.kind in "iu":
        return np.stack([as_item(e, dtype) for e in x]) if holds_tracked(x) else np.array(x, dtype)
    kind = type(form_of(x))
    return as_item(x, dtype) if kind is int or kind is float else np.astype(as_array(x), dtype)


def as_item(x: Any, dtype: np.dtype[Any]) -> Any:
    """The same of what is put at a place of its own: of NumPy's numbers, too, if the dtype has a
    sign; without one, NumPy casts them."""
    form = form_of(x)
    numbers = (int, float, np.integer, np.floating) if dtype.kind == "i" else (int, float)
    own = isinstance(form, np.generic) and dtype.kind == "u"  # float64 is a float, too
    if dtype.kind in "iu" and isinstance(form, numbers) and type(form) is not bool and not own:
        fits = isinstance(x, Tracked) and np.can_cast(np.result_type(form), dtype)
        if not (fits or _is_within(x, dtype)):
            np.array(np.asarray(data_of(x)).item(), dtype)  # raises
    return as_stored(x, dtype) if type(x) in (list, tuple) else np.astype(as_array(x), dtype)


def _is_within(x: Any, dtype: np.dtype[Any]) -> Any:
    """Whether what is left of a number without its fraction is in the range of an integer dtype."""
    bounds: Any = np.iinfo(dtype)
    form = form_of(x)
    if isinstance(form, (int, np.integer)):
        own = np.iinfo(np.result_type(form)) if isinstance(x, Tracked) else bounds
        return (x >= max(bounds.min, own.min)) & (x <= min(bounds.max, own.max))
    if isinstance(form, np.floating):
        x = np.astype(as_array(x), np.float64)
    return (x > float(bounds.min) - 1) & (x < float(bounds.max) + 1)


def as_strong(x: Any) -> Any:
    """The same, of a Python number, too, whose dtype then counts as an array's does."""
    x = as_array(x)
    return np.reshape(x, ()) if type(form_of(x)) in (int, float, complex) else x


def order_of(order: Any) -> str:
    """What an `order=` says, in a capital letter."""
    if not isinstance(order, (str, type(None))):
        raise TypeError(f"order must be str, not {type(order).__name__}")
    letter = "C" if order is None else order.upper()
    if letter not in ("C", "F", "A", "K"):
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    return letter


def one_axis(a: Any, axis: Any) -> tuple[Any, int]:
    """The array and the axis along which NumPy's functions of lines go: all of it, in C order,
    where no axis is named. An array without axes is a line of one element."""
    if axis is None or (np.ndim(a) == 0 and axis in (0, -1)):
        return np.ravel(a), 0
    return a, normalize_axis_index(axis, np.ndim(a))


def refuse(function: str, **given: Any) -> None:
    """Refuse, by name, keywords that are not at their defaults."""
    for keyword, value in given.items():
        if value is not None and value is not NO_VALUE:
            raise UnsupportedError(
                message(
                    f"{function} with {keyword}={value!r} is not supported on tracked values",
                    f"Leave {keyword}= out, or use tracker.data(x) where no gradient is wanted",
                )
            )
