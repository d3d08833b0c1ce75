"""Index arithmetic of views, for indices that are known, affine in loop variables, or computed.

An index value is
    int            known now (unrolled code knows every index)
    AffineIndex    constant + sum of coefficient * loop variable
    ComputedIndex  the SSA name of an i64 computed in the loop (division, remainder, gather)

`IndexEmitter` is the first argument of the `source` functions of `View` lowerings. Its `within`
gives True, False, or the SSA name of a condition; where the answer only depends on the part of a
loop's range, it raises `SplitLoop`, and the loop is split at those points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from tracker.ir.types import Type
from tracker.support.structs import record


@record(frozen=True)
class AffineIndex:
    """constant + sum(coefficient * variable); `terms` sorted by variable, no zero coefficients."""

    terms: tuple[tuple[int, int], ...]
    constant: int = 0

    def __add__(self, other: Any) -> Any:
        if isinstance(other, int):
            return AffineIndex(self.terms, self.constant + other)
        if isinstance(other, ComputedIndex):
            return other + self
        total = dict(self.terms)
        for variable, coefficient in other.terms:
            total[variable] = total.get(variable, 0) + coefficient
        return normal_form(total, self.constant + other.constant)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + other * -1

    def __mul__(self, factor: int) -> Any:
        return normal_form({v: c * factor for v, c in self.terms}, self.constant * factor)

    __rmul__ = __mul__


def normal_form(terms: dict[int, int], constant: int) -> AffineIndex | int:
    """An `AffineIndex` in normal form; an int if no variable is left."""
    nonzero = tuple(sorted((v, c) for v, c in terms.items() if c))
    return AffineIndex(nonzero, constant) if nonzero else constant


@record(frozen=True)
class ComputedIndex:
    """An index computed in the loop."""

    name: str
    tools: IndexEmitter

    def __add__(self, other: Any) -> Any:
        if other == 0:
            return self
        return self.tools.compute("add", self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self.tools.compute("sub", self, other)

    def __mul__(self, factor: Any) -> Any:
        return self if factor == 1 else self.tools.compute("mul", self, factor)

    __rmul__ = __mul__


Index = int | AffineIndex | ComputedIndex


class SplitLoop(Exception):
    """The range of a loop variable must be split at these points before its body can be emitted."""

    def __init__(self, variable: int, points: Sequence[int]) -> None:
        super().__init__(variable, points)
        self.variable = variable
        self.points = tuple(points)


class SplitAtNumber(SplitLoop):
    """The same, at a number that is known when the code runs: `number + by`."""

    def __init__(self, variable: int, number: Any, by: int) -> None:
        super().__init__(variable, ())
        self.number, self.by = number, by


def _no_code(_: Any) -> str:
    raise NeedsCode


def _no_reading(which: int, index: Sequence[Any]) -> str:
    raise NeedsCode


_Answer = TypeVar("_Answer")


class NeedsCode(Exception):
    """The result must be computed in a loop body, and this emitter has none."""


class IndexEmitter:
    """Emits the index arithmetic of one loop body (of none: then all indices are known).

    ranges[v] is the half-open range of loop variable v. `write(instruction) -> name` emits an
    instruction; `name_of(v)` is the SSA name of a loop variable.
    """

    def __init__(
        self,
        ranges: dict[int, tuple[int, int]] | None = None,
        write: Callable[[str], str] | None = None,
        name_of: Callable[[int], str] | None = None,
        may_split: bool = True,
    ) -> None:
        self.ranges = ranges or {}
        self.write = write or _no_code
        self.name_of = name_of or _no_code
        self.may_split = may_split
        self.read: Callable[[int, Sequence[Any]], str] = _no_reading
        self.written: dict[Any, str] = {}

    def reading(
        self, read: Callable[[int, Sequence[Any]], str], emit: Callable[[], _Answer]
    ) -> _Answer:
        """The result of `emit()`, while `read(k, index)` names the integer that operand k holds."""
        before, self.read = self.read, read
        try:
            return emit()
        finally:
            self.read = before

    def once(self, key: Any, write: Callable[[], str]) -> str:
        """The SSA name of what `write` emits, memoised by `key`."""
        if key not in self.written:
            self.written[key] = write()
        return self.written[key]

    # Formulas for View declarations

    def held(self, which: int, index: Sequence[Index], extent: int) -> Any:
        """The position that an operand holds, counted from the start and clipped to the axis:
        whether it was inside is checked elsewhere."""
        value = self.read(which, index)
        negative = self.write(f"icmp slt i64 {value}, 0")
        from_end = self.write(f"add i64 {value}, {extent}")
        position = self.write(f"select i1 {negative}, i64 {from_end}, i64 {value}")
        inside = self.write(f"icmp ult i64 {position}, {extent}")
        return ComputedIndex(self.write(f"select i1 {inside}, i64 {position}, i64 0"), self)

    def flatten(self, index: Sequence[Index], shape: tuple[int, ...]) -> Any:
        """Position in C order."""
        flat: Any = 0
        stride = 1
        for i, extent in zip(reversed(index), reversed(shape), strict=True):
            flat = flat + i * stride if extent != 1 else flat
            stride *= extent
        return flat

    def unflatten(self, flat: Index, shape: tuple[int, ...]) -> tuple[Any, ...]:
        """Inverse of `flatten`."""
        out: list[Any] = []
        stride = 1
        for extent in shape:
            stride *= extent
        for extent in shape:
            stride = stride // extent if extent else 0
            if extent == 1:
                out.append(0)
                continue
            i, flat = self._divide(flat, stride)
            out.append(i)
        return tuple(out)

    def _divide(self, flat: Any, stride: int) -> tuple[Any, Any]:
        """flat = i * stride + rest, 0 <= rest < stride."""
        if isinstance(flat, int):
            return divmod(flat, stride) if stride else (0, 0)
        if isinstance(flat, AffineIndex):
            rest = normal_form({v: c for v, c in flat.terms if c % stride}, flat.constant)
            low, high = self.interval(rest)
            constant = low // stride
            if constant == high // stride:
                quotient = normal_form(
                    {v: c // stride for v, c in flat.terms if c % stride == 0}, constant
                )
                return quotient, rest + -constant * stride
        return self.compute("udiv", flat, stride), self.compute("urem", flat, stride)

    def within(self, i: Index, start: int, step: int, count: int) -> tuple[Any, Any]:
        """(k, inside) with i == start + k * step and inside: 0 <= k < count."""
        if isinstance(i, int):
            k, rest = divmod(i - start, step)
            return k, rest == 0 and 0 <= k < count
        if isinstance(i, AffineIndex) and step in (1, -1):
            k = (i - start) * step
            low, high = self.interval(k)
            if low >= 0 and high < count:
                return k, True
            if high < 0 or low >= count:
                return 0, False
            if self.may_split and len(k.terms) == 1 and abs(k.terms[0][1]) == 1:
                variable, coefficient = k.terms[0]
                edges = (-k.constant, count - k.constant)
                if coefficient < 0:
                    edges = (k.constant + 1, k.constant - count + 1)
                raise SplitLoop(variable, edges)
            return self._clamped(k, count)
        distance: Any = i - start
        if step < 0:
            distance, step = distance * -1, -step
        exact: Any = True
        quotient = distance
        if step != 1:
            quotient = self.compute("sdiv", distance, step)
            exact = self._test("eq", quotient * step, distance)
        safe, within = self._clamped(quotient, count)
        return safe, self.every([exact, within])

    def _clamped(self, k: Any, count: int) -> tuple[Any, Any]:
        """k where 0 <= k < count, else 0 (which is safe to read), and whether k was inside."""
        inside = self._test("ult", k, count)
        safe = self.write(f"select i1 {inside}, i64 {self.name(k)}, i64 0")
        return ComputedIndex(safe, self), inside

    def every(self, conditions: Sequence[Any]) -> Any:
        """The conjunction of conditions."""
        total: Any = True
        for condition in conditions:
            if condition is False or total is False:
                return False
            if condition is True:
                continue
            if total is True:
                total = condition
                continue
            total = self.write(f"and i1 {total}, {condition}")
        return total

    def either(self, embedded: tuple[int, Any, Any], v: Type, at: Sequence[Index]) -> Any:
        """Alternatives: operand 1 inside of the region, operand 0 at the same index elsewhere."""
        _, source, inside = embedded
        lead = len(source) - v.ndim
        index = tuple(0 if n == 1 else source[lead + i] for i, n in enumerate(v.shape))
        return [(1, index, inside), (0, tuple(at), True)]

    # Code

    def interval(self, i: Any) -> tuple[int, int]:
        """The least and greatest value within the ranges."""
        if isinstance(i, int):
            return i, i
        low = high = i.constant
        for variable, c in i.terms:
            first, last = self.ranges[variable][0] * c, (self.ranges[variable][1] - 1) * c
            low += min(first, last)
            high += max(first, last)
        return low, high

    def name(self, i: Any) -> str:
        """The SSA name (or literal) of an index."""
        if isinstance(i, int):
            return str(i)
        if isinstance(i, ComputedIndex):
            return i.name
        total = ""
        for variable, c in i.terms:
            term = self.name_of(variable)
            if c != 1:
                term = self.write(f"mul nsw i64 {term}, {c}")
            total = self.write(f"add nsw i64 {total}, {term}") if total else term
        return self.write(f"add nsw i64 {total}, {i.constant}") if i.constant else total

    def compute(self, instruction: str, a: Any, b: Any) -> ComputedIndex:
        return ComputedIndex(self.write(f"{instruction} i64 {self.name(a)}, {self.name(b)}"), self)

    def _test(self, relation: str, a: Any, b: Any) -> str:
        return self.write(f"icmp {relation} i64 {self.name(a)}, {self.name(b)}")


def linear_position(index: Iterable[Any], strides: Iterable[int], start: Any = 0) -> Any:
    """The position in memory of an index, as a formula."""
    for i, stride in zip(index, strides, strict=True):
        start = i * stride + start
    return start


def loop_index(shape: Sequence[int]) -> tuple[AffineIndex | int, ...]:
    """The index of any element of an array: a loop variable for each axis longer than one."""
    return tuple(AffineIndex(((i, 1),)) if n != 1 else 0 for i, n in enumerate(shape))


def view_formulas(eqn: Any, index: Sequence[Any], extents: Iterable[int]) -> Any:
    """The result of a view's `source` for an index, with loop variables of these extents; None
    where that needs code, or differs between parts of a range."""
    tools = IndexEmitter({i: (0, n) for i, n in enumerate(extents)}, may_split=False)
    try:
        return eqn.op.lower.source(tools, index, *(o.type for o in eqn.operands), **eqn.params)
    except (NeedsCode, SplitLoop):
        return None


def view_index(eqn: Any, index: Sequence[Any], extents: Iterable[int]) -> tuple[Any, ...] | None:
    """The index at which an element of a view reads its operand; None where that needs code or a
    condition, or where there are alternatives."""
    formulas = view_formulas(eqn, index, extents)
    if formulas is None or isinstance(formulas, list) or formulas[2] not in (None, True):
        return None
    return tuple(formulas[1])
