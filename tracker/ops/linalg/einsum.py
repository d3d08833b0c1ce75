"""`np.einsum` as a sequence of pairwise contractions.

`_pair` turns two labelled operands into one `np.matmul` with batch axes, or into a product and a
sum where there is no matrix. Everything is composed of other functions, so derivatives and
compilation need no rules here.

A term is (array, labels), one label per axis. Labels are characters; the axes of an ellipsis get
labels of their own, aligned at the right, so that they broadcast.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker.ops.declare.arguments import as_strong_array, dtype_of, refuse_keywords
from tracker.ops.declare.casting import store_out
from tracker.ops.declare.declare import implements
from tracker.ops.linalg.matmul import sum_in_dtype
from tracker.ops.linalg.triangles import as_array
from tracker.ops.shape.shape import in_memory_order
from tracker.tape.record import data_of

Labels = tuple[str, ...]
Term = tuple[Any, Labels]


@implements(np.einsum)
def einsum(*operands: Any, out: Any = None, optimize: Any = False, **keywords: Any) -> Any:
    """As NumPy's, in both call forms; `optimize` may be a path from `np.einsum_path`.

    More than two operands are contracted pair by pair, in the order of `optimize` or a greedy one.
    Axes of extent 1 broadcast.
    """
    dtype = keywords.pop("dtype", None)
    casting = keywords.pop("casting", "safe")
    order = keywords.pop("order", "K")
    refuse_keywords("np.einsum", **keywords)
    arrays, labels, wanted = _parse_operands(operands)
    if len(arrays) == 1 and out is None and set(labels[0]) <= set(wanted):
        order = "K"  # nothing is computed: NumPy returns a view in any order
    elif dtype is not None:
        arrays = [_cast(a, dtype_of(dtype), casting) for a in arrays]
    elif len({a.dtype for a in arrays}) > 1:
        common = np.result_type(*(a.dtype for a in arrays))
        arrays = [_as_precise(a, common) for a in arrays]
    terms = [_take_diagonals(*term) for term in zip(arrays, labels, strict=True)]
    for chosen in _path(arrays, labels, wanted, optimize):
        chosen_terms = [terms[i] for i in chosen]
        terms = [term for i, term in enumerate(terms) if i not in chosen]
        result = chosen_terms[0]
        for at, other in enumerate(chosen_terms[1:], 1):
            later = {label for _, ls in (*chosen_terms[at + 1 :], *terms) for label in ls}
            result = _pair(result, other, later | set(wanted))
        terms.append(result)
    result = in_memory_order(_finish(terms[0], wanted), order)
    result = result if wanted else as_strong_array(result)[()]  # a scalar
    return store_out(out, result, "same_kind" if casting == "safe" else casting)


def _as_precise(a: Any, common: np.dtype[Any]) -> Any:
    """An operand in the common dtype, in which NumPy sums: integers would overflow and short floats
    round. Real operands stay real."""
    if a.dtype.kind == "f" and common.kind == "c":
        common = np.empty(0, common).real.dtype
    return a if a.dtype == common else np.astype(a, common)


def _cast(a: Any, dtype: np.dtype[Any], casting: Any) -> Any:
    if not np.can_cast(a.dtype, dtype, casting):
        raise TypeError(
            f"Cannot cast einsum operand from {a.dtype!r} to {dtype!r} with casting rule "
            f"{casting!r}"
        )
    return np.astype(a, dtype)


# Parsing ------------------------------------------------------------------------------------------


def _parse_operands(operands: Sequence[Any]) -> tuple[list[Any], list[Labels], Labels]:
    """Arrays, their labels, the labels of the result."""
    if not operands:
        raise ValueError("must specify the einstein sum subscripts string and at least one operand")
    if isinstance(operands[0], str):
        text, *rest = operands
        arrays = [as_array(a) for a in rest]
        text = text.replace(" ", "")
    else:
        text, arrays = _from_lists(operands)
    labels, wanted = _parsed(text, tuple(map(np.ndim, arrays)))
    _check_extents(arrays, labels, text)
    return arrays, list(labels), wanted


@functools.lru_cache(maxsize=1024)
def _parsed(text: str, ndims: tuple[int, ...]) -> tuple[tuple[Labels, ...], Labels]:
    """The labels of operands and result."""
    given, arrow, result = text.partition("->")
    parts = given.split(",")
    if len(parts) != len(ndims):
        raise ValueError(
            f"einsum got {len(ndims)} operand(s) for {len(parts)} subscript(s) in {text!r}"
        )
    labels = tuple(_labels(part, n, text) for part, n in zip(parts, ndims, strict=True))
    ellipsis_ndim = max((sum(len(label) > 1 for label in ls) for ls in labels), default=0)
    return labels, _result_labels(labels, arrow, result, ellipsis_ndim, text)


def _from_lists(operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """einsum(a, [0, 1], b, [1, 2], [0, 2]) as text and arrays."""
    pairs, rest = len(operands) // 2, len(operands) % 2
    arrays = [as_array(operands[2 * i]) for i in range(pairs)]
    text = ",".join(_letters(operands[2 * i + 1]) for i in range(pairs))
    return (f"{text}->{_letters(operands[-1])}" if rest else text), arrays


def _letters(sublist: Any) -> str:
    out = ""
    for entry in sublist:
        if entry is Ellipsis:
            out += "..."
            continue
        number = int(entry)
        if not 0 <= number < 52:
            raise ValueError(f"subscript {number} of einsum is not within the range [0, 52)")
        out += chr(ord("A") + number) if number < 26 else chr(ord("a") + number - 26)
    return out


def _labels(part: str, ndim: int, text: str) -> Labels:
    """One label per axis; the axes of an ellipsis are "...1" (the last), "...2", and so on."""
    if part.count(".") not in (0, 3) or (part.count(".") == 3 and "..." not in part):
        raise ValueError(f"einsum subscripts {text!r} have a '.' that is no ellipsis")
    front, ellipsis, back = part.partition("...")
    for letter in front + back:
        if not (letter.isascii() and letter.isalpha()):
            raise ValueError(f"invalid subscript {letter!r} in einsum subscripts {text!r}")
    left = ndim - len(front) - len(back)
    if left < 0 or (left and not ellipsis):
        raise ValueError(
            f"einsum subscripts {part!r} name {len(front) + len(back)} axes; the operand has {ndim}"
        )
    return (*front, *_ellipsis_labels(left), *back)


def _ellipsis_labels(count: int) -> Labels:
    return tuple(f"...{i}" for i in range(count, 0, -1))


def _check_extents(arrays: Sequence[Any], labels: Sequence[Labels], text: str) -> None:
    known: dict[str, int] = {}
    for a, ls in zip(arrays, labels, strict=True):
        of_operand: dict[str, int] = {}
        for label, n in zip(ls, np.shape(a), strict=True):
            extent = of_operand.setdefault(label, n)
            if extent == n and 1 not in (n, known.get(label, n)):
                extent = known.get(label, n)
            if extent != n:
                raise ValueError(
                    f"einsum subscript {label!r} of {text!r} has extents {extent} and {n}"
                )
            known[label] = max(n, known.get(label, n)) if n else 0


def _result_labels(
    labels: Sequence[Labels], arrow: str, result: str, ellipsis_ndim: int, text: str
) -> Labels:
    every = [label for ls in labels for label in ls]
    if not arrow:  # the letters that occur once, in order
        once = sorted(label for label in set(every) if len(label) == 1 and every.count(label) == 1)
        return (*_ellipsis_labels(ellipsis_ndim), *once)
    ellipsis = ellipsis_ndim if "..." in result else 0
    wanted = _labels(result, len(result.replace("...", "")) + ellipsis, text)
    for label in wanted:
        if label not in every or wanted.count(label) > 1:
            raise ValueError(f"einsum cannot have subscript {label!r} in the result of {text!r}")
    if ellipsis_ndim and "..." not in result:
        raise ValueError(f"einsum subscripts {text!r} drop the axes of an ellipsis")
    return wanted


def _path(
    arrays: Sequence[Any], labels: Sequence[Labels], wanted: Labels, optimize: Any
) -> list[tuple[int, ...]]:
    """Which operands to contract, step by step (numbers as in `np.einsum_path`)."""
    if not isinstance(optimize, (bool, str)) and len(optimize):
        if optimize[0] == "einsum_path":
            return [tuple(step) for step in optimize[1:]]
        optimize = optimize[0]
    if len(arrays) <= 2:
        return [tuple(range(len(arrays)))]
    names = {label: i for i, label in enumerate(dict.fromkeys(x for ls in labels for x in ls))}
    shapes = [np.broadcast_to(np.zeros(()), np.shape(a)) for a in arrays]
    arguments: list[Any] = []
    for shape, ls in zip(shapes, labels, strict=True):
        arguments += [shape, [names[label] for label in ls]]
    how = optimize if isinstance(optimize, str) else "greedy"
    path = np.einsum_path(*arguments, [names[label] for label in wanted], optimize=how)[0]
    return [tuple(step) for step in path[1:]]


@implements(np.einsum_path)
def einsum_path(*operands: Any, **keywords: Any) -> Any:
    """Depends on shapes only."""
    return np.einsum_path(*(data_of(x) for x in operands), **keywords)


# Contraction --------------------------------------------------------------------------------------


def _take_diagonals(a: Any, labels: Labels) -> Term:
    """A term with repeated labels replaced by diagonals."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            a = np.diagonal(a, 0, i, j)
            labels = (*labels[:i], *labels[i + 1 : j], *labels[j + 1 :], label)
    return a, labels


def _summed(term: Term, keep: set[str]) -> Term:
    """A term summed over the labels that are not in `keep`."""
    a, labels = term
    summed_axes = tuple(i for i, label in enumerate(labels) if label not in keep)
    if not summed_axes:
        return term
    return sum_in_dtype(a, summed_axes), tuple(label for label in labels if label in keep)


def _extents(*terms: Term) -> dict[str, int]:
    found: dict[str, int] = {}
    for a, labels in terms:
        for label, n in zip(labels, np.shape(a), strict=True):
            found[label] = n if found.get(label, 1) == 1 else found[label]
    return found


def _squeezed(term: Term, extents: dict[str, int]) -> Term:
    """A term without axes of extent 1 that broadcast against the other term."""
    a, labels = term
    broadcast_axes = [i for i, n in enumerate(np.shape(a)) if n != extents[labels[i]]]
    if not broadcast_axes:
        return term
    rest = tuple(label for i, label in enumerate(labels) if i not in broadcast_axes)
    return np.squeeze(a, axis=tuple(broadcast_axes)), rest


def _pair(left: Term, right: Term, keep: set[str]) -> Term:
    """Contract two terms; the labels in `keep` stay."""
    extents = _extents(left, right)
    left, right = _squeezed(left, extents), _squeezed(right, extents)
    left = _summed(left, keep | set(right[1]))
    right = _summed(right, keep | set(left[1]))
    ls, rs = left[1], right[1]
    shared = [label for label in ls if label in rs]
    batch = [label for label in shared if label in keep]
    inner = [label for label in shared if label not in keep]
    rows = [label for label in ls if label not in rs]
    columns = [label for label in rs if label not in ls]
    if not inner or not (rows or columns):  # not a matrix product
        order = (*batch, *rows, *columns, *inner)
        product = _align_axes(left, order) * _align_axes(right, order)
        if inner:
            product = sum_in_dtype(product, tuple(range(len(order) - len(inner), len(order))))
        return product, tuple(order[: len(order) - len(inner)])
    x = _grouped(left, (batch, rows, inner), extents)
    y = _grouped(right, (batch, inner, columns), extents)
    labels = (*batch, *rows, *columns)
    return _reshaped(np.matmul(x, y), tuple(extents[label] for label in labels)), labels


def _align_axes(term: Term, order: Labels) -> Any:
    """A term's array with its axes in this order, and extent 1 for labels it lacks."""
    a, labels = term
    moved = _transposed(a, [labels.index(label) for label in order if label in labels])
    have = iter(np.shape(moved))
    return _reshaped(moved, tuple(next(have) if label in labels else 1 for label in order))


def _grouped(term: Term, groups: tuple[list[str], ...], extents: dict[str, int]) -> Any:
    """The array reshaped to (*batch axes, one axis per further group)."""
    a, labels = term
    batch, *rest = groups
    order = [label for group in groups for label in group]
    moved = _transposed(a, [labels.index(label) for label in order])
    lead = tuple(extents[label] for label in batch)
    sizes = tuple(math.prod(extents[label] for label in group) for group in rest)
    return _reshaped(moved, (*lead, *sizes))


def _transposed(a: Any, order: list[int]) -> Any:
    """Transposed, unless it is so already."""
    return a if order == sorted(order) else np.transpose(a, order)


def _reshaped(a: Any, shape: tuple[int, ...]) -> Any:
    return a if np.shape(a) == shape else np.reshape(a, shape)


def _finish(term: Term, wanted: Labels) -> Any:
    a, labels = _summed(term, set(wanted))
    return _transposed(a, [labels.index(label) for label in wanted])
