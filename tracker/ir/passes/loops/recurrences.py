"""Recurrence analysis: which repetitions of a run can be the iterations of a loop.

A value's position is the number of the step that makes it. Literals aside, all sources of operands
follow one pattern: from one repetition to the next the position moves by a constant
(`_AffinePattern`). Start at `RecurrenceAnalysis.add_run`.

Invariants: linear in the steps; operands of a candidate come from before it, or from within.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, Var, calls_python, operands_of
from tracker.ir.passes.loop_limits import MAX_REGISTER_ELEMENTS, MIN_REPETITIONS
from tracker.ir.passes.loops.loop_candidates import (
    DeferredUpdate,
    DeferredUpdates,
    LiteralSequence,
    LoopCandidate,
    LoopInvariant,
    MovingIndex,
    MovingSlice,
    OperandSource,
    OtherLoopResult,
    PreviousStep,
    SameStep,
)
from tracker.ir.passes.loops.repeat_detection import (
    MIN_STEPS,
    Run,
    has_variable_index,
    index_integers,
)
from tracker.ir.passes.loops.rotate import rotate_run
from tracker.ir.structural_keys import const_key
from tracker.ir.types import Bundle, Type
from tracker.support.structs import replace

_MAX_MERGED = 4  # repetitions that may become one iteration
_MANY_FACTOR = 8  # in a run or body that is so much longer than `MIN_STEPS`, shorter loops pay
_MAX_IN_REGISTERS = 16  # elements; arrays up to here are faster in straight-line code
_MIN_STEPS_IN_REGISTERS = 10_000  # of a loop with such arrays; a shorter one stays unrolled
_MIN_DEFERRED_SIZE = 64  # elements; a smaller array is carried while values are added to it


class RecurrenceAnalysis:
    """The loop candidates of a function; `locate` finds the slot and step of a value in them."""

    def __init__(self, function: Function) -> None:
        self.body = function.body
        self.position: dict[Var, int] = {
            var: -1 - n for n, var in enumerate((*function.inputs, *function.captures))
        }
        small = 0  # elements of values that fit into registers
        self.uses = function.uses
        for at, step in enumerate(function.body):
            if isinstance(step, Eqn):
                self.position[step.out] = at
                size = step.out.type.size
                small += size if size <= _MAX_IN_REGISTERS else 0
        self.in_registers = small <= MAX_REGISTER_ELEMENTS
        self.candidates: list[LoopCandidate] = []
        self.candidate_at: dict[int, LoopCandidate] = {}  # by the number of a step

    def add_run(self, run: Run) -> None:
        """Find the candidates of a run, with one repetition per iteration, or two, three, four."""
        run = rotate_run(run, self.body, self.position)
        best: list[LoopCandidate] = []
        for many in range(1, _MAX_MERGED + 1):
            wider = Run(run.start, run.period * many, run.count // many)
            if wider.count < MIN_REPETITIONS:
                break
            found = list(self._candidates(wider))
            if _covered_steps(found) > _covered_steps(best):
                best = found
            if 2 * _covered_steps(best) > run.period * run.count:
                break
        for candidate in best:
            self.candidates.append(candidate)
            self.candidate_at.update(
                dict.fromkeys(range(candidate.start, candidate.end), candidate)
            )

    def locate(self, var: Atom) -> tuple[LoopCandidate, int, int] | None:
        """The candidate, slot and step that a value comes from."""
        position = self.position.get(var, -1)  # type: ignore[arg-type]
        candidate = self.candidate_at.get(position)
        if candidate is None:
            return None
        step, slot = divmod(position - candidate.start, candidate.period)
        return candidate, slot, step

    def _candidates(self, run: Run) -> Iterator[LoopCandidate]:
        first = 0
        while run.count - first >= MIN_REPETITIONS:
            pattern = _AffinePattern(self, run, first)
            end = pattern.end()
            if end - first < MIN_REPETITIONS:
                first = max(first + 1, end - 2)
                continue
            candidate = pattern.candidate(end)
            if candidate is not None and self._is_profitable(candidate, run):
                yield candidate
            first = end

    def _is_profitable(self, candidate: LoopCandidate, run: Run) -> bool:
        """Whether a loop is faster: it is long, or one of many.

        A loop keeps in memory what straight-line code keeps in registers, unless there is too much
        of it, or it is too large for them, or Python is called, which takes longer than either.
        """
        steps = candidate.count * candidate.period
        period = self.body[candidate.start : candidate.start + candidate.period]
        eqns = [step for step in period if isinstance(step, Eqn)]
        sizes = [eqn.out.type.size for eqn in eqns]
        small = sum(1 < size <= _MAX_IN_REGISTERS for size in sizes)
        is_large = sum(size > _MAX_IN_REGISTERS for size in sizes) > small
        soon = is_large or not self.in_registers or any(map(calls_python, eqns))
        if steps >= (MIN_STEPS if soon else _MIN_STEPS_IN_REGISTERS):
            return True
        many = run.count * run.period >= _MANY_FACTOR * MIN_STEPS
        pays = (
            steps >= MIN_STEPS
            or many
            or (2 * steps >= MIN_STEPS and len(self.body) >= _MANY_FACTOR * MIN_STEPS)
        )
        return pays and (is_large or not small)


def _covered_steps(candidates: Sequence[LoopCandidate]) -> int:
    return sum(candidate.count * candidate.period for candidate in candidates)


class _AffinePattern:
    """How the operands of a run move from its repetition `first` on, judged by the next two.

    positions: per slot, for each operand its position in the second repetition and its shift from
    there to the next (None: a literal); index_numbers: the same for the integers of an index.
    """

    def __init__(self, analysis: RecurrenceAnalysis, run: Run, first: int) -> None:
        self.analysis = analysis
        self.run = run
        self.first = first
        self.begin = run.start + first * run.period
        self.positions: list[list[tuple[int, int] | None]] = []
        self.index_numbers: list[tuple[list[int], list[int]] | None] = []
        for slot in range(run.period):
            a, b = self.step(slot, first + 1), self.step(slot, first + 2)
            moves: list[tuple[int, int] | None] = []
            for p, q in zip(operands_of(a), operands_of(b), strict=True):
                if isinstance(p, Var) and isinstance(q, Var):
                    at = analysis.position[p]
                    moves.append((at, analysis.position[q] - at))
                else:
                    moves.append(None)
            self.positions.append(moves)
            numbers = None
            if isinstance(a, Eqn) and isinstance(b, Eqn) and has_variable_index(a):
                low, high = index_integers(a.params["index"]), index_integers(b.params["index"])
                numbers = low, [j - i for i, j in zip(low, high, strict=True)]
            self.index_numbers.append(numbers)

    def step(self, slot: int, at: int) -> Eqn | Guard:
        return self.analysis.body[self.run.start + at * self.run.period + slot]

    # Length

    def end(self) -> int:
        """The first repetition that does not follow the pattern."""
        if not self._first_matches():
            return self.first
        at = self.first + 2
        last = self.first + self._max_count()
        while at < last and self._matches(at):
            at += 1
        return at

    def _max_count(self) -> int:
        """The number of repetitions until an operand of an earlier loop leaves that loop."""
        count = self.run.count - self.first
        for at, by in filter(None, itertools.chain.from_iterable(self.positions)):
            other = self.analysis.candidate_at.get(at)
            if other is None or not by or by % other.period:
                continue
            step, by = (at - other.start) // other.period, by // other.period
            left = (other.count - 1 - step) // by if by > 0 else step // -by
            count = min(count, left + 2)  # `at` is that of the second repetition
        return count

    def _first_matches(self) -> bool:
        """Whether the first repetition can be the first iteration.

        Carried and invariant operands must come from before it, and those from an earlier loop from
        the same loop as in later repetitions.
        """
        firsts: dict[int, Atom] = {}
        for slot, moves in enumerate(self.positions):
            for operand, known in zip(operands_of(self.step(slot, self.first)), moves, strict=True):
                if known is None:
                    continue
                at, by = known
                if by == 0 and at >= self.begin:
                    return False
                other = self.analysis.candidate_at.get(at)
                if (
                    by
                    and other is not None
                    and self.analysis.candidate_at.get(at - by) is not other
                ):
                    return False
                if by == self.run.period and self.begin <= at < self.begin + self.run.period:
                    if self.analysis.position[operand] >= self.begin:  # type: ignore[index]
                        return False
                    if firsts.setdefault(at, operand) is not operand:
                        return False
        return self._matches(self.first, firsts)

    def _matches(self, at: int, firsts: Mapping[int, Atom] | None = None) -> bool:
        """Whether a repetition follows the pattern; `firsts`: carried positions that need not."""
        position, body, ahead = self.analysis.position, self.analysis.body, at - self.first - 1
        base = self.run.start + at * self.run.period
        for slot in range(self.run.period):
            step = body[base + slot]
            for operand, known in zip(operands_of(step), self.positions[slot], strict=True):
                if known is None or position[operand] == known[0] + ahead * known[1]:  # type: ignore[index]
                    continue
                if not firsts or known[0] not in firsts or known[1] != self.run.period:
                    return False
            numbers = self.index_numbers[slot]
            if numbers is not None and isinstance(step, Eqn):
                low, by = numbers
                if index_integers(step.params["index"]) != [
                    i + ahead * j for i, j in zip(low, by, strict=True)
                ]:
                    return False
        return True

    # Sources of operands

    def candidate(self, end: int) -> LoopCandidate | None:
        """The repetitions up to `end`, if every operand is of a kind that loops have."""
        candidate = LoopCandidate(self.begin, self.run.period, end - self.first)
        for slot in range(self.run.period):
            sources = []
            for at in range(len(self.positions[slot])):
                source = self._source(candidate, slot, at)
                if source is None:
                    return None
                sources.append(source)
            candidate.sources.append(sources)
        if not all(self._is_bundle_unpacked(candidate, slot) for slot in range(self.run.period)):
            return None
        self._find_deferred(candidate)
        for slot in range(self.run.period):
            if slot not in candidate.removed_slots and not self._add_moving_slice(candidate, slot):
                return None
        return candidate

    def _is_bundle_unpacked(self, candidate: LoopCandidate, slot: int) -> bool:
        """Whether a bundle, which no loop can return, is only read in its own iteration."""
        step = self.step(slot, self.first)
        if not isinstance(step, Eqn) or not isinstance(step.out.type, Bundle):
            return True
        within = sum(sources.count(SameStep(slot)) for sources in candidate.sources)
        steps = [self.step(slot, self.first + at) for at in range(candidate.count)]
        return all(self.analysis.uses[each.out] == within for each in steps)  # type: ignore[union-attr]

    def _add_moving_slice(self, candidate: LoopCandidate, slot: int) -> bool:
        """Enter a slot with an index that moves as a slice; False if it is none."""
        step, index = self.step(slot, self.first), self._affine_index(slot)
        if index is None or not isinstance(step, Eqn):
            return True
        source = candidate.sources[slot][0]
        if step.op.name != "getitem" or not isinstance(source, LoopInvariant):
            return False
        array = source.atom
        if not isinstance(array, Var) or index.moving_axis(array.type.shape) is None:
            return False
        candidate.slices[slot] = MovingSlice(array, index, step.out.type)
        return True

    def _affine_index(self, slot: int) -> MovingIndex | None:
        """The index of a slot, if it moves."""
        numbers, step = self.index_numbers[slot], self.step(slot, self.first)
        if numbers is None or not any(numbers[1]) or not isinstance(step, Eqn):
            return None
        return MovingIndex.of(step.params["index"], tuple(numbers[1]))

    def _source(self, candidate: LoopCandidate, slot: int, number: int) -> OperandSource | None:
        known = self.positions[slot][number]
        first = operands_of(self.step(slot, self.first))[number]
        if known is None:
            return self._literals(candidate, slot, number)
        at, by = known
        if _is_complex_number(first.type):
            return None
        if by == 0:
            return LoopInvariant(first) if not isinstance(first.type, Bundle) else None
        if by == candidate.period and at >= candidate.start:
            back, of = divmod(at - candidate.start, candidate.period)
            if back == 1:
                return SameStep(of)
            if isinstance(first.type, Bundle):
                return None
            candidate.carries[of] = first
            return PreviousStep(of, first)
        return self._other_loop_result(candidate, first, by)

    def _other_loop_result(
        self, candidate: LoopCandidate, first: Atom, by: int
    ) -> OperandSource | None:
        found = self.analysis.locate(first)
        if found is None or by % found[0].period or isinstance(first.type, Bundle):
            return None
        other, slot, step = found
        by //= other.period
        if not 0 <= step + by * (candidate.count - 1) < other.count:
            return None
        if slot in other.slices:
            moving = other.slices[slot]
            return replace(moving, index=moving.index.every(step, by))
        return OtherLoopResult(other, slot, step, by)

    def _literals(self, candidate: LoopCandidate, slot: int, number: int) -> OperandSource | None:
        values = [
            operands_of(self.step(slot, self.first + step))[number]
            for step in range(candidate.count)
        ]
        consts = [value for value in values if isinstance(value, Const)]
        if len(consts) < len(values):
            return None
        key = const_key(consts[0])
        if all(const_key(const) == key for const in consts):
            return LoopInvariant(consts[0])
        return LiteralSequence(tuple(consts)) if consts[0].type.dtype.kind in "biuf" else None

    # Deferred updates

    def _find_deferred(self, candidate: LoopCandidate) -> None:
        """Enter the arrays that a candidate only updates, each from its carry on."""
        updates: dict[OperandSource, list[tuple[int, DeferredUpdate, set[int]]]] = {}
        for slot in range(candidate.period):
            found = self._deferred_update(candidate, slot)
            if found is not None:
                array, update, slots = found
                updates.setdefault(array, []).append((slot, update, slots))
        for last, first in list(candidate.carries.items()):
            chain: list[DeferredUpdate] = []
            removed: set[int] = set()
            version: OperandSource = PreviousStep(last, first)
            while len(updates.get(version, ())) == 1:
                slot, update, slots = updates[version][0]
                chain.append(update)
                removed |= slots
                version = SameStep(slot)
                if slot == last:
                    break
            is_chain = version == SameStep(last) and _can_defer(chain, first.type, candidate.count)
            if is_chain and self._has_single_use(candidate, removed, last):
                candidate.deferred[last] = DeferredUpdates(first, tuple(chain))
                candidate.removed_slots |= removed
                del candidate.carries[last]

    def _deferred_update(
        self, candidate: LoopCandidate, slot: int
    ) -> tuple[OperandSource, DeferredUpdate, set[int]] | None:
        """The array that a slot updates, the update, and the slots that it takes."""
        step, sources = self.step(slot, self.first), candidate.sources[slot]
        if not isinstance(step, Eqn):
            return None
        if step.op.name == "put":
            index, (array, value) = self._affine_index(slot), sources
            if index is None or not isinstance(value, (LoopInvariant, SameStep, PreviousStep)):
                return None
            return array, DeferredUpdate(value, index, adds=False), {slot}
        if step.op.name != "add" or any(o.type != step.out.type for o in step.operands):
            return None
        for array, added in (sources, sources[::-1]):
            if not isinstance(added, SameStep) or isinstance(array, LoopInvariant):
                continue
            inner = self.step(added.slot, self.first)
            if not isinstance(inner, Eqn) or inner.op.name != "embed":
                continue
            value = candidate.sources[added.slot][0]
            if isinstance(value, (LoopInvariant, SameStep, PreviousStep)):
                index = self._affine_index(added.slot) or _constant_index(inner.params["index"])
                return array, DeferredUpdate(value, index, adds=True), {slot, added.slot}
        return None

    def _has_single_use(self, candidate: LoopCandidate, slots: set[int], last: int) -> bool:
        """Whether the results of slots have one reader each; the last one may have any number."""
        for step in range(candidate.count):
            for slot in slots:
                out = self.step(slot, self.first + step).out  # type: ignore[union-attr]
                is_end = (slot, step) == (last, candidate.count - 1)
                if self.analysis.uses[out] != 1 and not is_end:
                    return False
        return True


def _constant_index(index: tuple[object, ...]) -> MovingIndex:
    return MovingIndex.of(index, (0,) * len(index_integers(index)))


def _can_defer(updates: Sequence[DeferredUpdate], type: Type, count: int) -> bool:
    """Whether updates can be made after the loop, and whether that saves anything: a small sum into
    one place may as well be carried."""
    axes = {update.index.moving_axis(type.shape) for update in updates}
    shifts = {update.index.by for update in updates}
    is_constant = not any(any(by) for by in shifts)
    if not updates or len({update.adds for update in updates}) > 1:
        return False
    if is_constant:
        return type.size > _MIN_DEFERRED_SIZE
    if updates[0].adds:
        return all(
            not any(update.index.by) or update.index.moving_axis(type.shape) for update in updates
        )
    entries = [found[0] for found in axes if found is not None]
    if None in axes or any(
        update.index.width(entry) > 1 for update in updates for entry in entries
    ):
        return False
    return (len(shifts) == len(axes) == 1) or _keeps_write_order(updates, type.shape, count)


def _keeps_write_order(
    updates: Sequence[DeferredUpdate], shape: tuple[int, ...], count: int
) -> bool:
    """Whether the array is the same if all writes of one update come after all writes of the one
    before: no position is written by an earlier update later."""
    indices = [[part for part in update.index.first if part is not None] for update in updates]
    outlines = {tuple(isinstance(part, slice) for part in index) for index in indices}
    whole = [slice(0, n, 1) for n in shape]
    has_slices = any(
        isinstance(i, slice) and i != n
        for index in indices
        for i, n in zip(index, whole, strict=True)
    )
    if len(outlines) > 1 or has_slices:
        return False
    newest: dict[tuple[int, ...], int] = {}
    for step in range(count):
        for number, update in enumerate(updates):
            position = tuple(index_integers(update.index.at_step(step)))
            if newest.get(position, 0) > number:
                return False
            newest[position] = number
    return True


def _is_complex_number(type: Type) -> bool:
    """Whether a value takes two cells of a frame; bodies of loops have one for each value."""
    return type.dtype.kind == "c" and not type.shape
