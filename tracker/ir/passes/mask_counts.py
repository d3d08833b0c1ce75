"""Selections by masks, `x[m]`, without the number of elements that are selected.

A trace has that number, K, in its types, and guards it: each call with another K would need a
trace of its own. Where a selection is only computed with elementwise, reduced, and written back,
all of it can be done on all N elements:

    y = gather x m; z = log y; w = scatter x z m    ->    w = where m (log x) x
    s = sum y                                       ->    s = sum (where m x 0.0)

Two traces that differ in K alone show where else K is: a literal that is K, K - 1, or the
reciprocal of one of these, in both of them (as a mean has it, and its pullback) is computed from
the count. Start at `without_mask_counts`. Code that asks for the length of a selection may do
anything with it, so its traces must not be given.

Invariants: linear in the equations; results differ by the order of sums; elements that are not
selected are computed, but nothing reads them; at least one element is selected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, Var, may_bail_out
from tracker.ir.lowering import Contract, Expand, Map, Reduce, View
from tracker.ir.op import OPS
from tracker.ir.passes.common_subexpressions import common_subexpressions
from tracker.ir.passes.dead_code import dead_code
from tracker.ir.passes.expand import expand_equation
from tracker.ir.passes.manager import BodyWriter, substitute, with_body
from tracker.ir.structural_keys import params_key
from tracker.ir.types import Type
from tracker.support.structs import record, replace

_SPLATS = ("broadcast_to", "zeros_like", "ones_like")
_EXTREMES = ("max", "min")
_FOLDS = ("sum", "prod", "mean", "any", "all", *_EXTREMES)
_ACCURATE_DTYPES = "?bhilqBHILQfdFD"  # what sums of halves are added up in is the reduction's own


class _HasCount(Exception):
    """The function cannot be written without a count."""


def _require(condition: bool) -> None:
    if not condition:
        raise _HasCount


@record(frozen=True)
class _Mask:
    """A mask whose true elements are guarded to be `selected`; `count` is their number."""

    mask: Var
    count: Var
    selected: int

    @property
    def size(self) -> int:
        return self.mask.type.size


@record(frozen=True)
class _SelectedRows:
    """A value with a row for each selected element, as one with a row for each element."""

    mask: _Mask
    rows: Var


def without_mask_counts(one: Function, other: Function) -> Function | None:
    """What two traces of the same code, whose masks select different numbers of elements, are for
    any number but zero; None if there is no such function."""
    if not one.has_op("mask_count"):
        return None
    try:
        first, second = (_DenseWriter(dead_code(common_subexpressions(f))) for f in (one, other))
        return _unified(first, second)
    except _HasCount:
        return None


class _DenseWriter(BodyWriter):
    """Writes the body of a function on all elements of each mask."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.masks: dict[Var, _Mask] = {}
        self.selections: dict[Atom, _SelectedRows] = {}
        self.positions: dict[Atom, _Mask] = {}  # of the elements that masks select
        self.splats: dict[Atom, Eqn] = {}  # equal rows, of a number that is one of the counts
        self.by: dict[Var, Atom] = {}
        counted = {eqn.out: eqn for eqn in function.eqns if eqn.op.name == "mask_count"}
        for step in function.body:
            self.where = step.where
            if isinstance(step, Guard) and step.operand in counted:
                self._add_mask(counted[step.operand], step)
            else:
                self.add(substitute(step, self.by))
        _require(self.selections.keys().isdisjoint(function.outputs))
        self.function = dead_code(with_body(function, self.body, self.by))

    def _add_mask(self, eqn: Eqn, guard: Guard) -> None:
        """Guard that a mask selects an element, instead of how many it selects."""
        (mask,) = eqn.operands
        if not isinstance(mask, Var) or guard.kind != "int" or guard.expected < 1:
            raise _HasCount
        self.masks[mask] = _Mask(mask, eqn.out, guard.expected)
        some = self.emit("greater_equal", eqn.out, Const.of(np.intp(1)))
        self.body.append(Guard(some, "bool", True, guard.where))

    def add(self, step: Eqn | Guard) -> None:
        if isinstance(step, Guard):
            self.body.append(step)
            return
        mask = self._mask_in(step)
        if mask is not None and step.op.name == "positions":
            self._add_positions(step, mask)
            return
        if mask is not None and step.op.name == "winners":  # each position is there once
            every = self.emit("broadcast_to", Const.of(np.True_), shape=(mask.size,))
            self._select(step.out, mask, every)
            return
        if mask is not None and step.op.name in ("gather", "scatter", "scatter_add"):
            self._add_indexed(step, mask)
            return
        found = [self.selections[o] for o in step.operands if o in self.selections]
        if not found:
            self._add_other(step)
            return
        _require(all(each.mask is found[0].mask for each in found))
        self._add_of_selection(step, found[0].mask)

    def _add_other(self, eqn: Eqn) -> None:
        """An equation that reads no selection."""
        self.body.append(eqn)
        shape = eqn.out.type.shape
        if not shape or all(shape[0] != mask.selected for mask in self.masks.values()):
            return
        if eqn.op.name in ("zeros_like", "ones_like") or (
            (eqn.op.name == "broadcast_to" or isinstance(eqn.op.lower, Map))
            and all(o in self.splats or _broadcasts(o, len(shape)) for o in eqn.operands)
        ):
            self.splats[eqn.out] = eqn

    def _mask_in(self, eqn: Eqn) -> _Mask | None:
        """The mask that indexes, or its positions."""
        last = eqn.operands[-1] if eqn.operands else None
        return self.positions.get(last) or self.masks.get(last)  # type: ignore[arg-type]

    def _add_positions(self, eqn: Eqn, mask: _Mask) -> None:
        """The positions of what a mask of one axis selects."""
        _require(mask.mask.type.ndim == 1)
        self.positions[eqn.out] = mask
        self._select(eqn.out, mask, self.emit("iota", shape=(mask.size,), axis=0))

    # Reads and writes by a mask ------------------------------------------------------------------

    def _add_indexed(self, eqn: Eqn, mask: _Mask) -> None:
        is_write = eqn.op.name == "scatter"
        *values, last = eqn.operands
        _require(len(eqn.params["index"]) == 1 and len(values) == 1 + is_write)
        if last in self.positions and eqn.params.get("shape", values[0].type.shape)[0] != mask.size:
            raise _HasCount  # positions in another array
        if eqn.op.name == "gather":
            (x,) = values
            if x in self.selections or not isinstance(x, Var):
                raise _HasCount
            trailing = x.type.shape[mask.mask.type.ndim :]
            self._select(eqn.out, mask, self.reshape(x, (mask.size, *trailing)))
            return
        out = eqn.out.type
        base: Atom = values[0] if is_write else Const.of(out.dtype.type(0))
        _require(base not in self.selections)
        value = self._written(values[-1], mask, out)
        trailing_axes = out.ndim - mask.mask.type.ndim
        chosen = self.reshape(mask.mask, mask.mask.type.shape + (1,) * trailing_axes)
        self._emit_as(eqn, "where", chosen, value, base)

    def _written(self, value: Atom, mask: _Mask, out: Type) -> Atom:
        """What is written at a mask, so that it broadcasts to the array."""
        selection = self.selections.get(value)
        if selection is not None:
            _require(selection.mask is mask)
            value = self.reshape(selection.rows, out.shape)
        elif value in self.splats:
            value = self._constant_row(value)
        elif value.type.ndim > out.ndim - mask.mask.type.ndim:
            raise _HasCount
        if value.type.dtype != out.dtype:
            value = self.emit("astype", value, dtype=out.dtype)
        return value

    def _constant_row(self, atom: Atom) -> Atom:
        """One of the rows of a value that are all equal."""
        if atom not in self.splats:
            return atom
        eqn = self.splats[atom]
        params = eqn.params
        if "shape" in params:
            params = {**params, "shape": (1, *eqn.out.type.shape[1:])}
        return self.emit(eqn.op.name, *map(self._constant_row, eqn.operands), **params)

    # What is computed of selections ---------------------------------------------------------------

    def _select(self, out: Var, mask: _Mask, rows: Var) -> None:
        self.selections[out] = _SelectedRows(mask, rows)

    def _add_of_selection(self, eqn: Eqn, mask: _Mask) -> None:
        op, shape = eqn.op, eqn.out.type.shape
        if isinstance(op.lower, Reduce):
            self._add_reduction(eqn, mask)
        elif isinstance(op.lower, Contract):
            self._add_product(eqn, mask)
        elif isinstance(op.lower, Expand) and op.name not in _SPLATS:
            expanded = expand_equation(eqn)
            if isinstance(expanded, str):
                raise _HasCount
            steps, result = expanded
            for step in steps:
                self.add(step)
            if result in self.selections:
                self.selections[eqn.out] = self.selections[result]
            else:
                self.by[eqn.out] = result
        elif not shape or shape[0] != mask.selected or may_bail_out(eqn):
            raise _HasCount
        elif isinstance(op.lower, Map) and op.name not in _SPLATS:
            operands = [self._operand(o, len(shape)) for o in eqn.operands]
            self._select(eqn.out, mask, self.emit(op.name, *operands, **eqn.params))
        else:
            self._add_view(eqn, mask)

    def _operand(self, atom: Atom, ndim: int) -> Atom:
        """An operand of an elementwise equation with rows of a mask."""
        if atom in self.selections:
            _require(atom.type.ndim == ndim)
            return self.selections[atom].rows
        if atom in self.splats and atom.type.ndim == ndim:
            return self._constant_row(atom)
        _require(_broadcasts(atom, ndim))
        return atom

    def _add_view(self, eqn: Eqn, mask: _Mask) -> None:
        """A view that has the same rows."""
        source, shape = eqn.operands[0], eqn.out.type.shape
        _require(len(eqn.operands) == 1 and source.type.shape[:1] == shape[:1])
        rows, params = self.selections[source].rows, dict(eqn.params)
        if eqn.op.name in ("reshape", *_SPLATS):
            _require(eqn.op.name != "broadcast_to" or source.type.ndim == len(shape))
            params["shape"] = (mask.size, *shape[1:])
        elif eqn.op.name == "getitem":
            first, *others = params["index"]
            _require(first == slice(0, mask.selected, 1))
            params["index"] = (slice(0, mask.size, 1), *others)
        elif eqn.op.name == "transpose":
            _require(params["axes"][0] == 0)
        elif params or not isinstance(eqn.op.lower, View) or source.type.shape != shape:
            raise _HasCount
        self._select(eqn.out, mask, self.emit(eqn.op.name, rows, **params))

    def _add_product(self, eqn: Eqn, mask: _Mask) -> None:
        """A product of each row, or the sum of products of two selections."""
        x, y = eqn.operands
        if x in self.selections and y not in self.selections and x.type.ndim == 2:
            product = self.emit(eqn.op.name, self.selections[x].rows, y, **eqn.params)
            self._select(eqn.out, mask, product)
            return
        _require(x in self.selections and y in self.selections and x.type.ndim == y.type.ndim == 1)
        product = self.emit("multiply", self.selections[x].rows, self.selections[y].rows)
        total = self._chosen(product, mask, product.type.dtype.type(0))
        self._emit_as(eqn, "sum", total, axis=(0,), keepdims=False)

    def _add_reduction(self, eqn: Eqn, mask: _Mask) -> None:
        (source,), name = eqn.operands, eqn.op.name
        rows, out = self.selections[source].rows, eqn.out.type
        axes = {axis % rows.type.ndim for axis in eqn.params["axis"]}
        if 0 not in axes:
            self._select(eqn.out, mask, self.emit(name, rows, **eqn.params))
            return
        _require(name in _FOLDS and out.dtype.char in _ACCURATE_DTYPES)
        if rows.type.dtype != out.dtype:
            rows = self.emit("astype", rows, dtype=out.dtype)
        chosen = self._chosen(rows, mask, _identity(name, out.dtype))
        if name != "mean":
            self._emit_as(eqn, name, chosen, **eqn.params)
            return
        total = self.emit("sum", chosen, **eqn.params)
        others = math.prod(source.type.shape[axis] for axis in axes - {0})
        count = self.emit("multiply", mask.count, Const.of(np.intp(others)))
        self._emit_as(eqn, "divide", total, self.emit("astype", count, dtype=out.dtype))

    def _chosen(self, rows: Var, mask: _Mask, otherwise: Any) -> Var:
        """The selected rows, and a number in place of the others."""
        is_selected = self.reshape(mask.mask, (mask.size,) + (1,) * (rows.type.ndim - 1))
        return self.emit("where", is_selected, rows, Const.of(otherwise))

    def _emit_as(self, eqn: Eqn, name: str, *operands: Atom, **params: Any) -> None:
        """Add an equation for the result of another one, if it has its type."""
        _require(OPS[name].infer(*[o.type for o in operands], **params) == eqn.out.type)
        self.emit(name, *operands, out=eqn.out, **params)


def _broadcasts(atom: Atom, ndim: int) -> bool:
    """Whether an operand is the same for all rows of a result with so many axes."""
    return atom.type.ndim < ndim or atom.type.shape[0] == 1


def _identity(fold: str, dtype: np.dtype[Any]) -> Any:
    """The number of the dtype that changes no result of a reduction."""
    if fold not in _EXTREMES:
        return dtype.type(fold in ("prod", "all"))
    if dtype.kind == "b":
        return dtype.type(fold == "min")
    _require(dtype.kind != "c")
    if dtype.kind == "f":
        return dtype.type(-np.inf if fold == "max" else np.inf)
    limits = np.iinfo(dtype)
    return dtype.type(limits.min if fold == "max" else limits.max)


# Two traces --------------------------------------------------------------------------------------

_FORMS: dict[str, Callable[[int], Any]] = {  # of a literal that a count decides
    "count": lambda k: k,
    "count - 1": lambda k: k - 1,
    "1 / count": lambda k: 1.0 / k,
    "1 / (count - 1)": lambda k: 1.0 / (k - 1) if k > 1 else math.nan,
}


def _unified(first: _DenseWriter, second: _DenseWriter) -> Function:
    """The function that two are but for literals that the counts decide."""
    _require(len(first.masks) == len(second.masks) > 0)
    pairs = list(zip(first.masks.values(), second.masks.values(), strict=True))
    return _Unifier(first.function, second.function, pairs).function


class _Unifier(BodyWriter):
    """Walks two functions, and writes what they have in common."""

    def __init__(self, one: Function, other: Function, masks: list[tuple[_Mask, _Mask]]) -> None:
        super().__init__()
        self.masks = masks
        self.to_one: dict[Var, Var] = dict(
            zip((*other.inputs, *other.captures), (*one.inputs, *one.captures), strict=True)
        )
        _require(len(one.body) == len(other.body))
        for step, beside in zip(one.body, other.body, strict=True):
            self.body.append(self._unify(step, beside))
        outputs = zip(one.outputs, other.outputs, strict=True)
        _require(all(self._is_same(a, b) for a, b in outputs))
        self.function = with_body(one, self.body)

    def _is_same(self, one: Atom, other: Atom) -> bool:
        if isinstance(one, Var) or isinstance(other, Var):
            return self.to_one.get(other) is one  # type: ignore[arg-type]
        return one.type == other.type and repr(one.value) == repr(other.value)

    def _unify(self, step: Eqn | Guard, beside: Eqn | Guard) -> Eqn | Guard:
        self.where = step.where
        if isinstance(step, Guard) and isinstance(beside, Guard):
            is_same = (step.kind, step.expected) == (beside.kind, beside.expected)
            _require(is_same and self._is_same(step.operand, beside.operand))
            return step
        if isinstance(step, Guard) or isinstance(beside, Guard) or step.op is not beside.op:
            raise _HasCount
        is_alike = step.out.type == beside.out.type and len(step.operands) == len(beside.operands)
        _require(is_alike and _same_params(step.params, beside.params))
        operands = zip(step.operands, beside.operands, strict=True)
        unified = tuple([self._operand(a, b, step) for a, b in operands])
        self.to_one[beside.out] = step.out
        if all(a is b for a, b in zip(unified, step.operands, strict=True)):
            return step
        _require(step.op.infer(*[o.type for o in unified], **step.params) == step.out.type)
        return replace(step, operands=unified)

    def _operand(self, one: Atom, other: Atom, eqn: Eqn) -> Atom:
        """The operand of both, computed from a count where it is one."""
        if isinstance(one, Var) or isinstance(other, Var):
            _require(self.to_one.get(other) is one)  # type: ignore[arg-type]
            return one
        _require(one.type == other.type)
        found = list(self._counts(one.value, other.value))
        if self._is_same(one, other):
            _require(all(a.selected != b.selected for a, b, _ in found))  # it may be a count
            return one
        dtype = eqn.out.type.dtype
        _require(bool(found) and dtype.kind in "iufc")
        mask, _, form = found[0]
        return self._computed(mask, form, dtype.type(0).real.dtype)

    def _counts(self, one: Any, other: Any) -> Iterator[tuple[_Mask, _Mask, str]]:
        """Of which masks two literals are the same form of the count."""
        for a, b in self.masks:
            for name, form in _FORMS.items():
                if one == form(a.selected) and other == form(b.selected):
                    yield a, b, name

    def _computed(self, mask: _Mask, form: str, dtype: np.dtype[Any]) -> Var:
        number = mask.count
        if "- 1" in form:
            number = self.emit("subtract", number, Const.of(np.intp(1)))
        if number.type.dtype != dtype:
            number = self.emit("astype", number, dtype=dtype)
        if form.startswith("1 /"):
            number = self.emit("divide", Const.of(dtype.type(1)), number)
        return number


def _same_params(one: dict[str, Any], other: dict[str, Any]) -> bool:
    if one == other:
        return True
    bodies = [isinstance(x, Function) for x in (*one.values(), *other.values())]
    if any(bodies):
        return {k: str(v) for k, v in one.items()} == {k: str(v) for k, v in other.items()}
    key = params_key(one)
    return key is not None and key == params_key(other)
