"""Promotion: captured numbers that change between calls become inputs of the trace.

A captured number starts as a constant: constants give better code, and may be used where no traced
number can. It is promoted once another value was seen, an integer (they count, index and choose)
once two others were, and at once where the function itself writes it. If the function cannot be
traced with inputs there, the numbers are constants for good. Attributes that differ between many
objects of one class are promoted too, so that these objects share code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from tracker.jit.guards.captured_leaves import can_be_promoted, captured_leaves
from tracker.jit.guards.constants import ConstantKey
from tracker.jit.guards.signature import Signature
from tracker.jit.guards.source import AttributeSource, SourcePath

_MAX_CLASS_CONSTANTS = 3  # differing values of an attribute, beyond which it is an input
_AttributeKind: TypeAlias = tuple[type, str, tuple[int, ...]]


class Promotion:
    """The paths at which the captured numbers of one jitted function are inputs."""

    def __init__(self) -> None:
        self.paths: frozenset[SourcePath] = frozenset()
        self._rejected: set[SourcePath] = set()
        self._seen_constants: dict[_AttributeKind, set[ConstantKey]] = {}
        self._changing_kinds: set[_AttributeKind] = set()  # that change within an object
        self._rejected_kinds: set[_AttributeKind] = set()

    def learn_from_miss(self, traced: Iterable[Signature], now: Signature) -> None:
        """Compare the traces so far with a call that none of them matches and that is about to be
        traced."""
        others: dict[SourcePath, set[ConstantKey]] = {}
        numbers = captured_numbers(now)
        for call in traced:
            for path, was in captured_numbers(call).items():
                if path in numbers and is_changed_number(was, numbers[path]):
                    others.setdefault(path, set()).add(was)
        found = {
            path
            for path, values in others.items()
            if len(values) > isinstance(numbers[path].value, (int, np.integer))
        }
        self.paths |= (found | self._promoted_by_class(numbers)) - self._rejected

    def _promoted_by_class(self, numbers: dict[SourcePath, ConstantKey]) -> set[SourcePath]:
        """The numbers that change in other objects of the class, or differ between its objects."""
        found: set[SourcePath] = set()
        for path, number in numbers.items():
            kind = _attribute_kind(path)
            if kind is not None and kind not in self._rejected_kinds and path not in self.paths:
                seen = self._seen_constants.setdefault(kind, set())
                if len(seen) > _MAX_CLASS_CONSTANTS or kind in self._changing_kinds:
                    found.add(path)
                elif not seen or is_changed_number(next(iter(seen)), number):
                    seen.add(number)
        return found

    def promote(self, paths: frozenset[SourcePath]) -> bool:
        """Promote numbers that the function itself writes; return whether any is new."""
        news = paths - self.paths - self._rejected
        self.paths |= news
        self._changing_kinds.update(filter(None, map(_attribute_kind, news)))
        return bool(news)

    def has_rejected(self, paths: frozenset[SourcePath]) -> bool:
        """Whether some of these stay constants: the function could not be traced otherwise."""
        return not self._rejected.isdisjoint(paths)

    def reject_all(self) -> None:
        """Make all promoted numbers constants: the function cannot be traced with inputs."""
        self._rejected |= self.paths
        self._rejected_kinds.update(filter(None, map(_attribute_kind, self.paths)))
        self.paths = frozenset()


def _attribute_kind(path: SourcePath) -> _AttributeKind | None:
    """What the paths of one attribute have in common over all objects of a class."""
    source, way = path
    holder = source.holder.value
    if not isinstance(source, AttributeSource) or holder is None or isinstance(holder, type):
        return None
    return type(holder), source.name, way


def is_changed_number(was: ConstantKey, now: ConstantKey) -> bool:
    return was != now and type(was.value) is type(now.value)


def captured_numbers(call: Signature) -> dict[SourcePath, ConstantKey]:
    """The captured numbers that are constants, by path."""
    return {
        path: leaf
        for path, leaf in captured_leaves(call).items()
        if isinstance(leaf, ConstantKey) and leaf.is_by_value and can_be_promoted(leaf.value)
    }
