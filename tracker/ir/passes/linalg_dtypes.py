"""Legalisation of linear algebra: casts to the dtypes that the library computes in.

NumPy computes decompositions in float64 or complex128, whatever the dtype, and returns them in the
dtype of the operands: operands of routines are cast before, results after. The operands of a
product are cast to the dtype of its result.

    cholesky(a: f32)     ->  w = astype(a, f64); y = cholesky(w): f64; astype(y, f32)
    matmul(a: f32, b)    ->  matmul(astype(a, f64), b)

Invariants: types stay; a transposed matrix is cast before it is transposed, so that it shares the
cast (and the factors) with the matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.ir.graph import Atom, Const, Eqn, Function
from tracker.ir.lowering import Contract, Routine
from tracker.ir.passes.expand import EXPANDED
from tracker.ir.passes.manager import BodyWriter, Property, as_pass, rewrite_equations

_REAL, _COMPLEX = np.dtype(np.float64), np.dtype(np.complex128)
_KINDS = "biufc"


LEGAL_DTYPES = Property(
    "products and routines read the dtypes that they compute in",
    lambda function: not any(_needs_casts(eqn) for eqn in function.eqns),
)


@as_pass(requires=(EXPANDED,), establishes=(LEGAL_DTYPES,))
def legalize_linalg_dtypes(function: Function) -> Function:
    """Write the casts around products and routines on matrices of other dtypes."""
    if not any(isinstance(op.lower, (Contract, Routine)) for op in function.ops):
        return function
    transposes: dict[Atom, Eqn] = {}

    def rewrite(new: BodyWriter, eqn: Eqn) -> bool:
        if eqn.op.name == "transpose":
            transposes[eqn.out] = eqn
        if not _needs_casts(eqn):
            return False
        _emit_casts(new, eqn, _operand_dtypes(eqn), transposes)
        return True

    return rewrite_equations(function, rewrite)


def _needs_casts(eqn: Eqn) -> bool:
    return [o.type.dtype for o in eqn.operands] != _operand_dtypes(eqn)


def _operand_dtypes(eqn: Eqn) -> list[np.dtype[Any]]:
    """The dtypes that the operands of a product or routine must have; others stay."""
    given, lower = [o.type.dtype for o in eqn.operands], eqn.op.lower
    if not isinstance(lower, (Contract, Routine)):
        return given
    if isinstance(lower, Contract):
        return [eqn.out.type.dtype] * len(given)
    matrices = [dtype for at, dtype in enumerate(given) if at not in lower.scalar_operands]
    if not all(dtype.kind in _KINDS for dtype in matrices):
        return given
    dtype = _COMPLEX if any(d.kind == "c" for d in matrices) else _REAL
    return [_REAL if at in lower.scalar_operands else dtype for at in range(len(given))]


def _emit_casts(
    new: BodyWriter, eqn: Eqn, dtypes: list[np.dtype[Any]], transposes: dict[Atom, Eqn]
) -> None:
    """The equation between casts of its operands and of its result."""

    def cast(atom: Atom, dtype: np.dtype[Any]) -> Atom:
        if atom.type.dtype == dtype:
            return atom
        if isinstance(atom, Const):
            return Const.of(dtype.type(atom.value))
        if atom in transposes:
            view = transposes[atom]
            return new.emit("transpose", cast(view.operands[0], dtype), **view.params)
        return new.emit("astype", atom, dtype=dtype)

    operands = tuple(map(cast, eqn.operands, dtypes))
    result = eqn.op.infer(*(o.type for o in operands), **eqn.params)
    if result == eqn.out.type:
        new.emit(eqn.op.name, *operands, out=eqn.out, **eqn.params)
        return
    found = new.emit(eqn.op.name, *operands, **eqn.params)
    new.emit("astype", found, out=eqn.out, dtype=eqn.out.type.dtype)
