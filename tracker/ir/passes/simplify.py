"""The pass `simplify`: constant folding, and rules that make equations cheaper.

Each rule is named for what it rewrites; those about slices are in `slice_rules.py`, the rewriter is
in `rewriter.py`. Rules name ops, because they relate several; a rule whose op is not declared never
applies.

Invariants
1. Exact: signed zeros, infinities and NaN come out as before (a NaN's sign and payload are not
   values). Absent for that reason: x + 0.0, x * 0, 0 - x, x * y * z in another order. Where NumPy
   differs from lane to lane (fmax of 0.0 and -0.0), the result is one that NumPy gives. Exceptions:
   adding the zeros of an `embed`, which only pullbacks make, may keep the sign of a cotangent of
   -0.0; the terms of a matrix product of equal rows may be added in another order.
2. Termination: an equation becomes an atom; or its op moves down in the order {power, sum,
   strong_multiply, divide}, {others}, multiply, {negative, square}, reshape, broadcast_to; or it
   stays at its level, and the tree of equations above its operands shrinks.

Other pairs of signs, and what is chosen or cast twice, are left to LLVM, which folds them exactly.
"""

from __future__ import annotations

import math

import numpy as np

from tracker.ir.graph import Atom, Const, Eqn, Function
from tracker.ir.passes import slice_rules  # noqa: F401  (enters its rules)
from tracker.ir.passes.manager import as_pass, with_body
from tracker.ir.passes.rewriter import (
    Definitions,
    broadcast_like,
    broadcast_source,
    is_signed_zero,
    literal_value,
    rewrite_as,
    rule,
    scalar,
)


@as_pass()
def simplify(function: Function) -> Function:
    """Apply the rules until none applies; unused equations are left to `dead_code`."""
    sweep = Definitions()
    for step in function.body:
        sweep.visit(step)
    if not sweep.changed:
        return function
    return with_body(function, sweep.body, sweep.replaced)


def _kind(eqn: Eqn) -> str:
    return eqn.out.type.dtype.kind


# ------------------------------------------------------------------------------------ arithmetic


_REDUCTIONS = ("sum", "prod", "max", "min", "any", "all")
_MATRIX_OPS = (
    *("solve", "solve_triangular", "inv", "det", "slogdet", "cholesky", "cholesky_pull", "qr"),
    *("pinv", "lstsq", "eigh", "eigvalsh", "eig", "svd", "svdvals", "lu", "permutation", "expm"),
)


@rule(*_REDUCTIONS, *_MATRIX_OPS)
def reduction_of_empty(eqn: Eqn, defs: Definitions) -> Atom | Eqn | None:
    """A reduction of no elements, or a routine of an empty matrix -> the numbers that NumPy gives;
    what raises in NumPy stays."""
    arrays = [operand.type for operand in eqn.operands if operand.type.shape]
    if not arrays or any(type.size for type in arrays):
        return None
    nothing = [np.zeros(operand.type.shape, operand.type.dtype) for operand in eqn.operands]
    with np.errstate(all="ignore"):
        try:
            found = np.ravel(eqn.op.evaluate(*nothing, **eqn.params))
        except ValueError:
            return None
    if len(set(found.tolist())) > 1:
        return rewrite_as(eqn, "table", (), values=tuple(found.tolist()), dtype=found.dtype)
    return broadcast_like(eqn, scalar(found[0] if found.size else 0, eqn.out.type.dtype))


@rule("mean")
def mean_of_empty(eqn: Eqn, defs: Definitions) -> Atom | Eqn | None:
    """-> NaN; tracing has already given NumPy's warning."""
    (x,) = (operand.type for operand in eqn.operands)
    if not x.shape or x.size:
        return None
    nan = complex(np.nan, np.nan) if eqn.out.type.dtype.kind == "c" else np.nan
    return broadcast_like(eqn, scalar(nan, eqn.out.type.dtype))


@rule("multiply", "strong_multiply", "add", "subtract")
def neutral_operand(eqn: Eqn, defs: Definitions) -> Atom | Eqn | None:
    """x * 1 -> x, x + -0.0 -> x (x + 0.0 turns -0.0 into 0.0), n + 0 -> n for integers, x - 0 -> x
    (also -0.0 - 0.0 is -0.0). Not for complex x: inf * (1+0j) has a NaN part."""
    a, b = eqn.operands
    if _kind(eqn) == "c":
        return None
    if _is_neutral(b, eqn):
        return broadcast_like(eqn, a)
    is_left = eqn.op.name != "subtract" and _is_neutral(a, eqn)
    return broadcast_like(eqn, b) if is_left else None


def _is_neutral(operand: Atom, eqn: Eqn) -> bool:
    if eqn.op.name not in ("add", "subtract"):
        return bool(literal_value(operand) == 1)
    is_negative = eqn.op.name == "add" and _kind(eqn) == "f"
    return is_signed_zero(operand, -1.0 if is_negative else 1.0)


@rule("finite_multiply")
def finite_multiply(eqn: Eqn, defs: Definitions) -> Eqn | None:
    """-> multiply: only the derivatives differ."""
    return rewrite_as(eqn, "multiply", eqn.operands)


@rule("strong_multiply")
def strong_multiply_by_literal(eqn: Eqn, defs: Definitions) -> Eqn | None:
    """A finite literal whose square is not zero -> multiply: it silences nothing, and no infinity
    or NaN of its own is to be silenced."""
    literals = [o.value for o in eqn.operands if isinstance(o, Const)]
    with np.errstate(all="ignore"):
        halves = np.array(literals, np.result_type(eqn.out.type.dtype, np.float16)) / 2
        keeps_all = np.isfinite(halves) & (np.square(halves) != 0)
    return rewrite_as(eqn, "multiply", eqn.operands) if np.any(keeps_all) else None


@rule("negative", "conjugate", "logical_not")
def involution(eqn: Eqn, defs: Definitions) -> Atom | None:
    """-(-x) -> x, and likewise conjugate and (of booleans) not: each undoes itself."""
    inner = defs.definition(eqn.operands[0], eqn.op.name)
    return None if inner is None else inner.operands[0]


@rule("positive", "copy", "identity", "conjugate", "real")
def identity_function(eqn: Eqn, defs: Definitions) -> Atom | None:
    """+x -> x, and the conjugate and real part of a real x: copies mean nothing in the IR."""
    (x,) = eqn.operands
    return None if _kind(eqn) == "c" and eqn.op.name in ("conjugate", "real") else x


@rule("add")
def add_negative(eqn: Eqn, defs: Definitions) -> Eqn | None:
    """a + -b -> a - b, which IEEE 754 defines to be the same; not for an integer that is cast: it
    may have wrapped around."""
    a, b = eqn.operands
    for x, y in ((a, b), (b, a)):
        minus, dtype = defs.definition(y, "negative"), y.type.dtype
        if minus is not None and (dtype.kind in "fc" or dtype == eqn.out.type.dtype):
            return rewrite_as(eqn, "subtract", (x, minus.operands[0]))
    return None


@rule("multiply")
def multiply_by_minus_one(eqn: Eqn, defs: Definitions) -> Eqn | None:
    """x * -1 -> -x."""
    a, b = eqn.operands
    if _kind(eqn) not in "fi":
        return None
    if literal_value(b) == -1:
        return rewrite_as(eqn, "negative", (a,))
    return rewrite_as(eqn, "negative", (b,)) if literal_value(a) == -1 else None


@rule("divide")
def divide_by_power_of_two(eqn: Eqn, defs: Definitions) -> Eqn | None:
    """x / 4 -> x * 0.25, x / 1 -> x * 1.0: both round the same number, as 0.25 is exact."""
    a, b = eqn.operands
    if _kind(eqn) != "f" or not isinstance(b, Const) or np.iscomplexobj(b.value):
        return None
    with np.errstate(all="ignore"):
        divisor = np.asarray(b.value, eqn.out.type.dtype)[()]
        inverse = 1 / divisor
        exact = abs(np.frexp(divisor)[0]) == 0.5 and 1 / inverse == divisor == b.value
    if not exact or not math.isfinite(inverse):
        return None
    return rewrite_as(eqn, "multiply", (a, Const.of(float(inverse) if b.type.weak else inverse)))


# NumPy's loops take these exponents apart since 2.3; before, they call pow, which is an ulp off.
_POWER_IS_ROOT = bool(np.signbit(np.power(np.float64(-0.0), 0.5)))
_POWERS = {2: "square", 0.5: "sqrt", -1: "reciprocal"} if _POWER_IS_ROOT else {2: "square"}
_COMPLEX_POWERS = {(float, 0.5): "sqrt", (int, -1): "reciprocal"}


@rule("power")
def power_by_literal(eqn: Eqn, defs: Definitions) -> Atom | Eqn | None:
    """x ** 2, 1, 0.5, 0, -1 -> square, x, sqrt, 1, reciprocal, as NumPy's own loops do for floats.

    The `**` of a scalar calls libm's pow, which may miss by an ulp where x * x does not, and which
    gives the root of -0.0 and of -inf another sign: that of a scalar stays a power. Of complex
    arrays, `**` takes so the literals of Python's only, the root and the reciprocal of which an
    exponential misses near the negative axis.
    """
    x, n = eqn.operands
    if not isinstance(n, Const):
        return None
    if eqn.out.type.dtype.kind == "c":
        name = _COMPLEX_POWERS.get((type(n.value), n.value)) if eqn.out.type.shape else None
        return None if name is None else rewrite_as(eqn, name, (x,))
    if eqn.out.type.dtype not in (np.float32, np.float64):
        return None
    if n.value == 1:
        return broadcast_like(eqn, x)
    if n.value == 0:
        return broadcast_like(eqn, scalar(1, eqn.out.type.dtype))
    name = _POWERS.get(n.value)
    if name is None or (name == "sqrt" and not eqn.out.type.shape):
        return None
    return rewrite_as(eqn, name, (x,))


@rule("where")
def where_constant(eqn: Eqn, defs: Definitions) -> Atom | Eqn | None:
    """where(True, a, b) -> a, where(c, a, a) -> a."""
    condition, a, b = eqn.operands
    if isinstance(condition, Const):
        return broadcast_like(eqn, a if condition.value else b)
    return broadcast_like(eqn, a) if a is b and a.type == eqn.out.type else None


# ------------------------------------------------------------------------- shapes and splats


@rule("reshape", "astype", "to_discrete", "broadcast_to")
def same_type(eqn: Eqn, defs: Definitions) -> Atom | None:
    """A change to the shape and dtype that x has -> x."""
    return eqn.operands[0]  # the sweep refuses it when the type differs


@rule("reshape", "broadcast_to")
def repeated_view(eqn: Eqn, defs: Definitions) -> Eqn | None:
    """reshape(reshape x) -> reshape x, broadcast_to(broadcast_to x) -> broadcast_to x."""
    inner = defs.definition(eqn.operands[0], eqn.op.name)
    if inner is None or set(eqn.params) != {"shape"} or set(inner.params) != {"shape"}:
        return None
    return rewrite_as(eqn, eqn.op.name, inner.operands, **eqn.params)


@rule("transpose")
def transpose_of_transpose(eqn: Eqn, defs: Definitions) -> Atom | Eqn | None:
    """transpose(transpose x) -> one transpose of x; transposing nothing -> x."""
    (x,) = eqn.operands
    if (axes := _transpose_axes(eqn)) == tuple(range(x.type.ndim)):
        return x
    if (inner := defs.definition(x, "transpose")) is None:
        return None
    first = _transpose_axes(inner)
    return rewrite_as(eqn, "transpose", inner.operands, axes=tuple([first[axis] for axis in axes]))


def _transpose_axes(eqn: Eqn) -> tuple[int, ...]:
    axes, ndim = eqn.params.get("axes"), eqn.operands[0].type.ndim
    if axes is None:
        return tuple(range(ndim))[::-1]
    return tuple([axis % ndim for axis in axes])


@rule("zeros_like", "ones_like")
def filled_array(eqn: Eqn, defs: Definitions) -> Atom | Eqn | None:
    """ones_like(x) -> a broadcast literal, which does not need x."""
    return broadcast_like(eqn, scalar(int(eqn.op.name == "ones_like"), eqn.out.type.dtype))


@rule("matmul")
def matmul_of_empty(eqn: Eqn, defs: Definitions) -> Atom | Eqn | None:
    """a[:, :0] @ b[:0] -> zeros."""
    if all(operand.type.size for operand in eqn.operands):
        return None
    return broadcast_like(eqn, scalar(0, eqn.out.type.dtype))


@rule("matmul")
def matmul_of_broadcast(eqn: Eqn, defs: Definitions) -> Eqn | None:
    """broadcast_to(row) @ b -> broadcast_to(row @ b), and the same for equal columns of b.

    The pullback of a sum begins with such a matrix. (BLAS may add up the terms of a row in another
    order than those of all rows.) An outer product stays one, for it can be added to others.
    """
    a, b = eqn.operands
    if a.type.shape[-1] == 1:
        return None
    for operand, axis in ((a, -2), (b, -1)):
        source, shape = broadcast_source(operand, defs), operand.type.shape
        if source is None or len(shape) < 2 or shape[axis] == 1:
            continue
        if (1, 1, *source.type.shape)[axis] != 1:
            continue
        slim = (*shape[:-2], 1, shape[-1]) if axis == -2 else (*shape[:-1], 1)
        one = defs.emit(eqn, "broadcast_to", (source,), shape=slim)
        product = defs.emit(eqn, "matmul", (one, b) if axis == -2 else (a, one))
        return rewrite_as(eqn, "broadcast_to", (product,), shape=eqn.out.type.shape)
    return None


@rule()
def broadcast_operand(eqn: Eqn, defs: Definitions) -> Eqn | None:
    """a * broadcast_to(b) -> a * b: elementwise ops broadcast by themselves.

    Not for power: NumPy's loop computes a scalar exponent in another way than an array of them.
    """
    if eqn.op.name == "power":
        return None
    for k, operand in enumerate(eqn.operands):
        source = broadcast_source(operand, defs)
        if source is not None:
            operands = (*eqn.operands[:k], source, *eqn.operands[k + 1 :])
            new = rewrite_as(eqn, eqn.op.name, operands, **eqn.params)
            if new is not None:
                return new
    return None


@rule()
def map_of_splats(eqn: Eqn, defs: Definitions) -> Eqn | None:
    """f(broadcast_to(scalar), ...) -> broadcast_to(f(scalar, ...)): computed once."""
    shape = eqn.out.type.shape
    if not shape or not eqn.operands or eqn.op.name == "power":
        return None
    sources = [broadcast_source(operand, defs) or operand for operand in eqn.operands]
    if any(source.type.shape for source in sources):
        return None
    one = defs.emit(eqn, eqn.op.name, tuple(sources), **eqn.params)
    return rewrite_as(eqn, "broadcast_to", (one,), shape=shape)


@rule("reshape", "transpose", "getitem")
def view_of_splat(eqn: Eqn, defs: Definitions) -> Atom | Eqn | None:
    """A view of a scalar, or of broadcast_to(scalar) -> broadcast_to(scalar), or the scalar."""
    (x,) = eqn.operands
    source = broadcast_source(x, defs) or x
    return None if source.type.shape else broadcast_like(eqn, source)


@rule("sum", "prod", "max", "min")
def reduction_of_one(eqn: Eqn, defs: Definitions) -> Atom | Eqn | None:
    """Over axes of extent 1 -> reshape; a sum adds 0.0, because NumPy's sum of -0.0 is 0.0.

    Not for a complex product: NumPy's starts at 1+0j, see `neutral_operand`.
    """
    (x,), axis, want = eqn.operands, eqn.params.get("axis"), eqn.out.type
    if set(eqn.params) != {"axis", "keepdims"} or not isinstance(axis, tuple):
        return None
    if any(x.type.shape[k] != 1 for k in axis) or x.type.dtype != want.dtype:
        return None
    if eqn.op.name != "sum" and _kind(eqn) == "c":
        return None
    if eqn.op.name == "sum" and _kind(eqn) in "fc":
        reshaped = defs.emit(eqn, "reshape", (x,), shape=want.shape)
        return rewrite_as(eqn, "add", (reshaped, Const.of(0.0)))
    return x if x.type == want else rewrite_as(eqn, "reshape", (x,), shape=want.shape)


@rule("sum")
def sum_of_splat(eqn: Eqn, defs: Definitions) -> Atom | Eqn | None:
    """The sum of a broadcast literal that is a small integer -> how often it is there times it.

    (The seed of a gradient, arriving at a scalar.) Small: every partial sum is exact.
    """
    (x,), axis, dtype = eqn.operands, eqn.params.get("axis"), eqn.out.type.dtype
    source = broadcast_source(x, defs)
    if not isinstance(source, Const) or dtype.kind != "f" or not isinstance(axis, tuple):
        return None
    if set(eqn.params) != {"axis", "keepdims"} or source.type.dtype != dtype:
        return None
    total = float(source.value) * math.prod(x.type.shape[k] for k in axis)
    if not float(source.value).is_integer() or abs(total) > 1 / np.finfo(dtype).eps:
        return None
    return broadcast_like(eqn, scalar(total + 0.0, dtype))
