"""Sums of two matrix products with a factor in common: one product.

Owns: the pass `factor_products`. The pullback of `b @ b.T`, of a quadratic form, of a distance
between all pairs, adds two products of the same matrix:

    g @ b + (b.T @ g).T    ->    (g + g.T) @ b

Data: a product is known by its two `_Factor`s, each a matrix that is taken as it is or transposed;
the transpose of a product is one too, and so is a product in another shape (of a tensor). Like
`joining.py` it names ops, for it relates several.
Invariants: types stay; linear in the equations; results differ by the order of sums, which BLAS
chooses freely anyway.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tracker.ir.graph import Atom, Eqn, Function
from tracker.ir.passes import Writer, as_pass, with_body

_WIDE = 4  # columns (or rows) of the result, from which adding factors costs less than a product


class _Factor(NamedTuple):
    matrix: Atom
    flipped: bool

    @property
    def dtype(self) -> Any:
        return self.matrix.type.dtype

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.matrix.type.shape
        return (columns, rows) if self.flipped else (rows, columns)

    def transposed(self) -> _Factor:
        return _Factor(self.matrix, not self.flipped)


class _Product(NamedTuple):
    left: _Factor
    right: _Factor

    @property
    def shape(self) -> tuple[int, int]:
        return self.left.shape[0], self.right.shape[1]


@as_pass
def factor_products(function: Function) -> Function:
    """a @ x + b @ x -> (a + b) @ x, and x @ a + x @ b -> x @ (a + b)."""
    if not (function.has("matmul") and function.has("add")):
        return function
    products = _Products(function)
    new = Writer()
    found = False
    for step in function.body:
        pair = products.visit(step) if isinstance(step, Eqn) else None
        if pair is None:
            new.body.append(step)
            continue
        assert isinstance(step, Eqn)
        new.where = step.where
        factors, shape = _factored(new, *pair), step.out.type.shape
        if shape == pair[0].shape:
            new.make("matmul", *factors, out=step.out)
        else:
            new.make("reshape", new.make("matmul", *factors), shape=shape, out=step.out)
        found = True
    return with_body(function, new.body) if found else function


class _Products:
    """The products among the values of a function that were visited, as factors."""

    def __init__(self, function: Function) -> None:
        self._uses = function.uses
        self._flipped: dict[Atom, _Factor] = {}
        self._known: dict[Atom, _Product] = {}

    def visit(self, eqn: Eqn) -> tuple[_Product, _Product] | None:
        """Note what an equation says of products; the two that it adds, if one can be made of
        them."""
        name, operands = eqn.op.name, eqn.operands
        if name == "matmul" and all(o.type.ndim == 2 for o in operands):
            self._known[eqn.out] = _Product(*map(self._factor, operands))
        elif name == "transpose" and eqn.params["axes"] == (1, 0):
            self._flipped[eqn.out] = self._factor(operands[0]).transposed()
            product = self._only_here(operands[0])
            if product is not None and product.shape == operands[0].type.shape:
                left, right = product
                self._known[eqn.out] = _Product(right.transposed(), left.transposed())
        elif name == "reshape":
            product = self._only_here(operands[0])
            if product is not None:
                self._known[eqn.out] = product
        elif name == "add":
            a, b = map(self._only_here, operands)
            alike = operands[0].type.shape == operands[1].type.shape
            if alike and a is not None and b is not None and _pays(a, b):
                return a, b
        return None

    def _factor(self, matrix: Atom) -> _Factor:
        return self._flipped.get(matrix, _Factor(matrix, False))

    def _only_here(self, atom: Atom) -> _Product | None:
        """The product that an atom is, if nobody else reads it."""
        return self._known.get(atom) if self._uses[atom] == 1 else None


def _pays(a: _Product, b: _Product) -> bool:
    """Whether there is a factor in common, and adding the others is less than another product."""
    if a.shape != b.shape:
        return False
    if a.left == b.left:
        return a.right.dtype == b.right.dtype and a.shape[0] >= _WIDE
    return a.right == b.right and a.left.dtype == b.left.dtype and a.shape[1] >= _WIDE


def _factored(new: Writer, a: _Product, b: _Product) -> tuple[Atom, Atom]:
    if a.left == b.left:
        return _written(new, a.left), _sum(new, a.right, b.right)
    return _sum(new, a.left, b.left), _written(new, a.right)


def _sum(new: Writer, a: _Factor, b: _Factor) -> Atom:
    if a.flipped and b.flipped:
        return _written(new, _Factor(new.make("add", a.matrix, b.matrix), True))
    return new.make("add", _written(new, a), _written(new, b))


def _written(new: Writer, factor: _Factor) -> Atom:
    return new.make("transpose", factor.matrix, axes=(1, 0)) if factor.flipped else factor.matrix
