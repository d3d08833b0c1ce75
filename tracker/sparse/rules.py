"""How the dependence of an op's result follows from that of its operands, by kind of op.

An op that only moves elements is run on their numbers, which tells where each element comes from.
An op that no rule is for is dense: each element of its result depends on all elements of all
operands that have a derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from tracker.errors import UnsupportedError
from tracker.ir.lowering import Contract, Map, Reduce, Scan, View
from tracker.ir.op import OPS, Joint, Op
from tracker.ir.types import Bundle, Type
from tracker.support.structs import record

Dependence: TypeAlias = Any  # a boolean csr_array, or None
_MAX_ENTRIES = 1 << 28
_STEPS = frozenset(("sign", "floor", "ceil", "trunc", "rint"))


@record()
class AppliedOp:
    """An op at work: the types and dependences of its operands, the type of its result. `read`
    gives the numbers of an operand, or None where they are unknown; `matrices` receives SciPy's
    matrices whose places were read."""

    op: Op
    params: dict[str, Any]
    types: list[Type]
    deps: list[Any]
    out: Type
    read: Callable[..., Any]
    matrices: list[Any]

    @property
    def moving(self) -> list[tuple[int, Any]]:
        """The operands through which derivatives pass, and their dependences."""
        return [
            (k, dep)
            for k, dep in enumerate(self.deps)
            if dep is not None and not is_flat(self.op, k)
        ]


def is_flat(op: Op, k: int) -> bool:
    """Whether the derivative in operand k is zero everywhere."""
    if op.name in _STEPS:
        return True
    if isinstance(op.vjp, Joint):
        return False
    if op.partials is not None and k < len(op.partials):
        partial = op.partials[k]
        return not callable(partial) and partial == 0
    return op.vjp[min(k, len(op.vjp) - 1)] is None


def union(a: Dependence, b: Dependence) -> Dependence:
    if a is None or b is None or a is b:
        return b if a is None else a
    return a + b


def take_rows(dep: Any, rows: Any) -> Any:
    counts = np.diff(dep.indptr)
    _check_entries(int(counts[rows].sum()) if len(rows) else 0)
    return dep[rows]


def _check_entries(count: int) -> None:
    if count > _MAX_ENTRIES:
        raise UnsupportedError(
            f"the sparse pattern of an intermediate value would have {count:,} entries: "
            "nearly everything depends on everything",
            "Use tracker.jvp and tracker.pullback, which need no matrix, or tracker.jacobian",
        )


def numbers(type: Type) -> Any:
    return np.arange(type.size).reshape(type.shape)


def _grouped(dep: Any, groups: Any, count: int) -> Any:
    """The unions of rows with the same group."""
    groups = np.ravel(groups)
    ones = np.ones(groups.size, dtype=bool)
    which = sp.csr_array((ones, (groups, np.arange(groups.size))), shape=(count, groups.size))
    return (which @ dep).tocsr()


def dense(step: AppliedOp) -> Dependence:
    """Everything depends on everything."""
    made: Dependence = None
    for _, dep in step.moving:
        parts = dep if isinstance(dep, list) else [dep]
        for part in parts:
            if part is not None:
                made = union(made, _grouped(part, np.zeros(part.shape[0], dtype=int), 1))
    if made is None:
        return None
    if isinstance(step.out, Bundle):
        return [take_rows(made, np.zeros(t.size, dtype=int)) for t in step.out.parts]
    return take_rows(made, np.zeros(step.out.size, dtype=int))


def _elementwise(step: AppliedOp) -> Dependence:
    made: Dependence = None
    for k, dep in step.moving:
        if step.types[k].shape != step.out.shape:
            dep = take_rows(dep, np.broadcast_to(numbers(step.types[k]), step.out.shape).ravel())
        made = union(made, dep)
    return made


def _moved(step: AppliedOp) -> Dependence:
    """The op, run on the numbers of elements; 0 is no element."""
    given, stacked, first = [], [], 1
    moving = dict(step.moving)
    for k, type in enumerate(step.types):
        if k in moving:
            given.append(numbers(type) + first)
            stacked.append(moving[k])
            first += type.size
        elif is_flat(step.op, k) or type.dtype.kind in "biu":
            position = step.read(k)
            if position is None:
                return dense(step)
            given.append(position)
        else:
            given.append(np.zeros(type.shape, dtype=int))
    if not stacked:
        return None
    params = {k: np.dtype(int) if k == "dtype" else v for k, v in step.params.items()}
    sources = np.ravel(np.asarray(step.op.evaluate(*given, **params)))
    if sources.size != step.out.size:
        return dense(step)
    empty = sp.csr_array((1, stacked[0].shape[1]), dtype=bool)
    return take_rows(sp.vstack([empty, *stacked], format="csr"), sources)


def _scattered(step: AppliedOp) -> Dependence:
    """`scatter_add`: where each element of the value goes."""
    if not step.moving:
        return None
    positions = [step.read(k) for k in range(1, len(step.types))]
    if any(p is None for p in positions):
        return dense(step)
    shape = step.out.shape
    everywhere = np.arange(step.out.size).reshape(shape)
    target = OPS["gather"].evaluate(everywhere, *positions, index=step.params["index"])
    source = np.broadcast_to(numbers(step.types[0]), np.shape(target))
    dep = take_rows(step.deps[0], np.ravel(source))
    return _grouped(dep, target, step.out.size)


def _reduced(step: AppliedOp) -> Dependence:
    (_, dep), *_ = step.moving
    return _grouped(dep, _lines(step.types[0], step.params["axis"]), step.out.size)


def _lines(type: Type, axes: tuple[int, ...]) -> Any:
    """For each element, the number of the line along the axes that it is on."""
    shape = [1 if k in axes else extent for k, extent in enumerate(type.shape)]
    return np.broadcast_to(np.arange(np.prod(shape, dtype=int)).reshape(shape), type.shape)


def _along_axis(step: AppliedOp) -> Dependence:
    """Each element depends on its line along an axis."""
    axis = step.params.get("axis")
    axes = axis if isinstance(axis, tuple) else (axis,)
    made: Dependence = None
    for k, dep in step.moving:
        if step.types[k].shape != step.out.shape or None in axes:
            return dense(step)
        lines = _lines(step.out, tuple(a % step.out.ndim for a in axes))
        found = _grouped(dep, lines, int(lines.max(initial=-1)) + 1)
        made = union(made, take_rows(found, np.ravel(lines)))
    return made


def _product(step: AppliedOp) -> Dependence:
    """A matrix product: rows of the one factor, columns of the other, where it is nonzero."""
    a, b = step.types
    left, right = step.deps
    if a.ndim <= 2 and b.ndim <= 2 and (left is None) != (right is None):
        return _linear_product(step, 0 if left is None else 1)
    made: Dependence = None
    for type, dep, inner, wide in ((a, left, -1, 0), (b, right, -2, 1)):
        if dep is None:
            continue
        inner = inner % type.ndim if type.ndim > 1 else 0
        lines = _lines(type, (inner,))
        found = _grouped(dep, lines, int(lines.max(initial=-1)) + 1)
        shape = [1 if k == inner else extent for k, extent in enumerate(type.shape)]
        at = np.arange(found.shape[0]).reshape(shape)
        if type.ndim == 1:
            at = at.reshape((1,))
        elif wide == 0 and b.ndim == 1:
            at = at[..., 0]
        elif wide == 1 and a.ndim == 1:
            at = at[..., 0, :]
        made = union(made, take_rows(found, np.broadcast_to(at, step.out.shape).ravel()))
    return made


def _linear_product(step: AppliedOp, fixed: int) -> Dependence:
    """The product with a matrix that does not depend on the input."""
    other = 1 - fixed
    dep = step.deps[other]
    type = step.types[fixed]
    nonzeros = step.read(fixed, nonzeros=True) if type.ndim > 1 else None
    matrix = np.ones(type.shape, dtype=bool) if nonzeros is None else nonzeros
    shape = step.types[other].shape
    if fixed == 0:
        left = sp.csr_array(np.atleast_2d(matrix))
        places = sp.kron(left, sp.eye_array(shape[1] if len(shape) > 1 else 1), format="csr")
    else:
        right = sp.csr_array(matrix.T if matrix.ndim > 1 else np.atleast_2d(matrix))
        places = sp.kron(sp.eye_array(shape[0] if len(shape) > 1 else 1), right, format="csr")
    return (places.astype(bool) @ dep).tocsr()


def _convolved(step: AppliedOp) -> Dependence:
    """Positions of a convolution: element i + j of a full one; i of a valid one reads from i on."""
    made: Dependence = None
    rows = np.arange(step.out.size)
    for k, dep in step.moving:
        count, other = step.types[k].size, step.types[1 - k].size
        if step.op.name == "convolve":
            offsets = -np.arange(other)
        else:
            offsets = np.arange(other if k == 0 else step.out.size)
        if step.op.name == "slide" and k == 1:
            return dense(step)
        places = sp.diags_array(
            np.ones((offsets.size, 1)), offsets=offsets, shape=(rows.size, count), dtype=bool
        )
        made = union(made, (places.tocsr() @ dep).tocsr())
    return made


def _mapped_by_matrix(step: AppliedOp) -> Dependence:
    """The product with a sparse array of SciPy's."""
    ((_, dep),) = step.moving
    matrix = step.params["map"].places
    if matrix is None:
        return dense(step)
    step.matrices.append(matrix)
    given = matrix().astype(bool).tocsr()
    width = step.types[0].size // max(step.types[0].shape[0], 1)
    places = sp.kron(given, sp.eye_array(width), format="csr") if width != 1 else given
    return (places.astype(bool) @ dep).tocsr()


_RULES: dict[str, Callable[[AppliedOp], Dependence]] = {
    "gather": _moved,
    "scatter": _moved,
    "scatter_add": _scattered,
    "convolve": _convolved,
    "slide": _convolved,
    "linear_map": _mapped_by_matrix,
    **dict.fromkeys(("sort", "softmax", "logsoftmax", "fourier"), _along_axis),
}


def rule_for(op: Op) -> Callable[[AppliedOp], Dependence]:
    """The rule for an op."""
    kind = op.lower
    if op.name in _RULES:
        return _RULES[op.name]
    if op.name == "as_view":
        return dense
    if isinstance(kind, Map) or op.partials is not None:
        return _elementwise
    if isinstance(kind, View):
        return _moved
    if isinstance(kind, Reduce):
        return _reduced
    if isinstance(kind, Scan):
        return _along_axis
    return _product if isinstance(kind, Contract) else dense
