"""Which arrays of a trace nothing can read any more.

A trace keeps every equation until the function has run; plain Python would have freed most results
long before. `dead_values` finds the arrays that can be freed.

An array is alive while its value is referenced by something besides the recorded equations (a
tracked array, a view, a running backward pass), or while a derivative may pull back through a value
that was computed from it. The latter needs a leaf that is open, or that is referenced (a pullback
that still exists) and was open when the value was recorded.

References are counted with `sys.getrefcount`; the equations themselves are read for types only.

Invariant: a value that is not understood counts as alive.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

_Holders = Sequence[tuple[Any, ...]]  # each holds a value, first
_NEVER, _ALWAYS = -1, sys.maxsize


def dead_values(
    recorded: _Holders,
    inputs: Collection[Any],
    running: Collection[Any],
    closed_at: Mapping[int, int],
) -> Iterator[Any]:
    """The recorded values whose arrays are not alive.

    inputs     the leaves of the trace itself, through which nothing is pulled back
    running    the leaves of derivatives that are running their functions
    closed_at  the id of each closed leaf -> how many equations had been recorded by then
    """
    used, others = _operand_uses(recorded)
    input_ids = {id(value) for value in inputs}
    running_ids = {id(value) for value in running}
    last_pullback: dict[
        int, int
    ] = {}  # a pullback may pass what depends on a value, if made before
    for other, references in zip(others, _extra_references(others, used), strict=True):
        value = other[0]
        if id(value) in input_ids:
            last_pullback[id(value)] = _NEVER
        elif value.op is None or value.operands:
            last_pullback[id(value)] = _ALWAYS
        else:
            last_pullback[id(value)] = closed_at.get(id(value), _NEVER) if references else _NEVER
    references_of = _extra_references(recorded, used)
    for index, (equation, references) in enumerate(zip(recorded, references_of, strict=True)):
        value = equation[0]
        limits = [last_pullback.get(id(operand), _NEVER) for operand in value.operands]
        if id(value) in running_ids:
            limits.append(_ALWAYS)
        last = max([when for when in limits if when > index], default=_NEVER)
        if references:
            last = max(last, closed_at.get(id(value), _NEVER))
        last_pullback[id(value)] = last
    reachable = {key for key, when in last_pullback.items() if when != _NEVER}
    for equation, references in zip(reversed(recorded), reversed(references_of), strict=True):
        value = equation[0]
        if id(value) in reachable:  # a pullback through it reads all its operands
            reachable.update(map(id, value.operands))
        elif not references and type(value.aval) is np.ndarray:
            yield value


def unreferenced_operands(recorded: _Holders) -> frozenset[int]:
    """The ids of constant arrays, plain operands or those of leaves, that only the recorded
    equations refer to: the function made them while it ran (`np.eye(3)`), so they can never change
    again."""
    plain, used = _constant_arrays(recorded)
    counts = _extra_references(plain, used)
    return frozenset(
        id(holder[0])
        for holder, count in zip(plain, counts, strict=True)
        if not count and _is_unshared(holder[0])
    )


def _constant_arrays(recorded: _Holders) -> tuple[_Holders, dict[int, int]]:
    """The arrays that are operands, or that leaves among these hold; and how often each, by id, is
    an operand or held by a leaf."""
    kind = type(recorded[0][0]) if recorded else None
    leaves: set[int] = set()
    used: dict[int, int] = {}
    found: dict[int, tuple[Any, ...]] = {}
    for operand in _each_operand(recorded):
        array = operand
        if type(operand) is kind:
            if operand.operands or id(operand) in leaves:
                continue
            leaves.add(id(operand))
            array = operand.aval
        if type(array) is np.ndarray:
            used[id(array)] = used.get(id(array), 0) + 1
            found[id(array)] = (array,)
    return list(found.values()), used


def _is_unshared(array: Any) -> bool:
    """Whether no memory or weak reference leads to an array without other references."""
    if weakref.getweakrefcount(array):
        return False
    base = array.base
    return base is None or (
        type(base) is np.ndarray and not _extra_references([(base,)], {id(base): 2})[0]
    )


def _operand_uses(recorded: _Holders) -> tuple[dict[int, int], _Holders]:
    """How often each value, by id, is an operand; and the operands that are not recorded."""
    kind = type(recorded[0][0])
    recorded_ids = {id(equation[0]) for equation in recorded}
    used: dict[int, int] = {}
    others: dict[int, tuple[Any, ...]] = {}
    for operand in _each_operand(recorded):
        if type(operand) is kind:
            key = id(operand)
            used[key] = used.get(key, 0) + 1
            if key not in recorded_ids and key not in others:
                others[key] = (operand,)
    return used, list(others.values())


def _each_operand(recorded: _Holders) -> Iterator[Any]:
    """The operands of recorded values, once per reference: values may share a tuple."""
    tuples = {id(equation[0].operands): equation[0].operands for equation in recorded}
    return itertools.chain.from_iterable(tuples.values())


def _extra_references(holders: _Holders, used: Mapping[int, int]) -> list[int]:
    """How many references each value has besides its holder and the counted operands."""
    return [
        sys.getrefcount(holder[0]) - _OWN_REFERENCES - used.get(id(holder[0]), 0)
        for holder in holders
    ]


_OWN_REFERENCES = 0
_OWN_REFERENCES = _extra_references([(object(),)], {})[0]
