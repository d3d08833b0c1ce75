"""What repetitions read, from one to the next: which of them can be the steps of a loop.

Owns: `RecurrenceAnalysis`, which turns the runs of `repeat_detection.py` into the windows of
`candidates.py`. Start at `RecurrenceAnalysis.add_run`.

A value's place is the number of the step that makes it. All kinds of sources but literals are one
thing: from one repetition to the next the place moves by a constant (`_AffinePattern`).

Invariants: linear in the steps; operands of a window come from before it, or from within.
"""

from __future__ import annotations

import functools
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
    MovingSlice,
    OperandSource,
    OtherLoopResult,
    PreviousStep,
    SameStep,
    WindowIndex,
)
from tracker.ir.passes.loops.repeat_detection import (
    MIN_STEPS,
    Run,
    has_variable_index,
    index_integers,
)
from tracker.ir.passes.loops.rotate import rotate_run
from tracker.ir.passes.memory_ssa import are_disjoint
from tracker.ir.structural_keys import const_key
from tracker.ir.types import Bundle, Type

_MAX_MERGED = 4  # repetitions that may become one step of a loop
_MANY_FACTOR = (
    8  # times as long as a window that pays: a run, or body, of which shorter ones pay, too
)
_MAX_IN_REGISTERS = 16  # elements; arrays up to here are quicker in straight-line code
_MIN_STEPS_IN_REGISTERS = (
    10_000  # steps in a window that has such arrays; fewer stay as they are in a short body
)
_MIN_DEFERRED_SIZE = 64  # elements of an array whose sum is not carried while pieces are added
_MAX_LATE_STEPS = 8  # steps from the end in which an array may be looked at from outside


class RecurrenceAnalysis:
    """The windows of a function; `locate` says which value comes from where in them."""

    def __init__(self, function: Function) -> None:
        self.body = function.body
        self.position: dict[Var, int] = {
            var: -1 - n for n, var in enumerate((*function.inputs, *function.captures))
        }
        small = 0  # elements of values that may be in registers
        self.uses = function.uses
        for at, step in enumerate(function.body):
            if isinstance(step, Eqn):
                self.position[step.out] = at
                size = step.out.type.size
                small += size if size <= _MAX_IN_REGISTERS else 0
        self.in_registers = small <= MAX_REGISTER_ELEMENTS
        self.candidates: list[LoopCandidate] = []
        self.candidate_at: dict[int, LoopCandidate] = {}  # step number -> the window that it is in

    @functools.cached_property
    def readers(self) -> dict[Atom, list[Eqn]]:
        """The equations that read parts of each array."""
        found: dict[Atom, list[Eqn]] = {}
        for step in self.body:
            if isinstance(step, Eqn) and step.op.name == "getitem":
                found.setdefault(step.operands[0], []).append(step)
        return found

    def add_run(self, run: Run) -> None:
        """Find the windows of a run: of single repetitions, or of two, three, four at a time."""
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
        for window in best:
            self.candidates.append(window)
            self.candidate_at.update(dict.fromkeys(range(window.start, window.end), window))

    def locate(self, var: Atom) -> tuple[LoopCandidate, int, int] | None:
        """The window, slot and step that a value comes from."""
        place = self.position.get(var, -1)  # type: ignore[arg-type]
        window = self.candidate_at.get(place)
        if window is None:
            return None
        step, slot = divmod(place - window.start, window.period)
        return window, slot, step

    def _candidates(self, run: Run) -> Iterator[LoopCandidate]:
        first = 0
        while run.count - first >= MIN_REPETITIONS:
            pattern = _AffinePattern(self, run, first)
            end = pattern.end()
            if end - first < MIN_REPETITIONS:
                first = max(first + 1, end - 2)
                continue
            window = pattern.candidate(end)
            if window is not None and self._is_profitable(window, run):
                yield window
            first = end

    def _is_profitable(self, window: LoopCandidate, run: Run) -> bool:
        """Whether it is long enough, or one of many, as the rows of a table are: a loop keeps in
        memory what straight-line code may have in registers, if there is not too much of it, nor
        more that is too large for them, and Python is not called, which takes longer than either.
        """
        steps = window.count * window.period
        period = self.body[window.start : window.start + window.period]
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


def _covered_steps(windows: Sequence[LoopCandidate]) -> int:
    return sum(window.count * window.period for window in windows)


class _AffinePattern:
    """How the operands of a run move from its repetition `first` on, judged by the next two.

    places: per slot, for each operand its place in the second repetition and by how much it moves
    (None: a literal); numbers: the same of the integers of an index.
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
            places: list[tuple[int, int] | None] = []
            for p, q in zip(operands_of(a), operands_of(b), strict=True):
                if isinstance(p, Var) and isinstance(q, Var):
                    at = analysis.position[p]
                    places.append((at, analysis.position[q] - at))
                else:
                    places.append(None)
            self.positions.append(places)
            numbers = None
            if isinstance(a, Eqn) and isinstance(b, Eqn) and has_variable_index(a):
                low, high = index_integers(a.params["index"]), index_integers(b.params["index"])
                numbers = low, [j - i for i, j in zip(low, high, strict=True)]
            self.index_numbers.append(numbers)

    def step(self, slot: int, at: int) -> Eqn | Guard:
        return self.analysis.body[self.run.start + at * self.run.period + slot]

    # How far it goes

    def end(self) -> int:
        """The first repetition that does not go on as the others."""
        if not self._first_matches():
            return self.first
        at = self.first + 2
        last = self.first + self._max_count()
        while at < last and self._matches(at):
            at += 1
        return at

    def _max_count(self) -> int:
        """How many repetitions there can be until an operand from an earlier window leaves it."""
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
        """Whether the first repetition can be the first step: what is carried comes from before,
        and so does what is fixed; what an earlier window gives is of the window from the start."""
        firsts: dict[int, Atom] = {}
        for slot, places in enumerate(self.positions):
            for operand, known in zip(
                operands_of(self.step(slot, self.first)), places, strict=True
            ):
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
        """Whether a repetition goes on as the others; `firsts`: places that need not."""
        place, body, ahead = self.analysis.position, self.analysis.body, at - self.first - 1
        base = self.run.start + at * self.run.period
        for slot in range(self.run.period):
            step = body[base + slot]
            for operand, known in zip(operands_of(step), self.positions[slot], strict=True):
                if known is None or place[operand] == known[0] + ahead * known[1]:  # type: ignore[index]
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

    # What the operands are

    def candidate(self, end: int) -> LoopCandidate | None:
        """The repetitions up to `end`, if every operand is of a kind that loops have."""
        window = LoopCandidate(self.begin, self.run.period, end - self.first)
        for slot in range(self.run.period):
            sources = []
            for at in range(len(self.positions[slot])):
                source = self._source(window, slot, at)
                if source is None:
                    return None
                sources.append(source)
            window.sources.append(sources)
        if not all(self._is_bundle_unpacked(window, slot) for slot in range(self.run.period)):
            return None
        self._find_deferred(window)
        for slot in range(self.run.period):
            if slot not in window.removed_slots and not self._add_moving_slice(window, slot):
                return None
        return window

    def _is_bundle_unpacked(self, window: LoopCandidate, slot: int) -> bool:
        """Whether a bundle, which is no result of a loop, is taken apart where it is made."""
        step = self.step(slot, self.first)
        if not isinstance(step, Eqn) or not isinstance(step.out.type, Bundle):
            return True
        within = sum(sources.count(SameStep(slot)) for sources in window.sources)
        steps = [self.step(slot, self.first + at) for at in range(window.count)]
        return all(self.analysis.uses[each.out] == within for each in steps)  # type: ignore[union-attr]

    def _add_moving_slice(self, window: LoopCandidate, slot: int) -> bool:
        """Enter a slot whose index moves among the parts; False if it cannot be one."""
        step, place = self.step(slot, self.first), self._affine_index(slot)
        if place is None or not isinstance(step, Eqn):
            return True
        source = window.sources[slot][0]
        if step.op.name != "getitem" or not isinstance(source, LoopInvariant):
            return False
        array = source.atom
        if not isinstance(array, Var) or place.moving_axis(array.type.shape) is None:
            return False
        window.slices[slot] = MovingSlice(array, place, step.out.type)
        return True

    def _affine_index(self, slot: int) -> WindowIndex | None:
        """The index of a slot, if it moves."""
        numbers, step = self.index_numbers[slot], self.step(slot, self.first)
        if numbers is None or not any(numbers[1]) or not isinstance(step, Eqn):
            return None
        return WindowIndex.of(step.params["index"], tuple(numbers[1]))

    def _source(self, window: LoopCandidate, slot: int, number: int) -> OperandSource | None:
        """What operand `number` of a slot is."""
        known = self.positions[slot][number]
        first = operands_of(self.step(slot, self.first))[number]
        if known is None:
            return self._literals(window, slot, number)
        at, by = known
        if _is_complex_number(first.type):
            return None
        if by == 0:
            return LoopInvariant(first) if not isinstance(first.type, Bundle) else None
        if by == window.period and at >= window.start:
            back, of = divmod(at - window.start, window.period)
            if back == 1:
                return SameStep(of)
            if isinstance(first.type, Bundle):
                return None
            window.carries[of] = first
            return PreviousStep(of, first)
        return self._other_loop_result(window, first, by)

    def _other_loop_result(
        self, window: LoopCandidate, first: Atom, by: int
    ) -> OperandSource | None:
        found = self.analysis.locate(first)
        if found is None or by % found[0].period or isinstance(first.type, Bundle):
            return None
        other, slot, step = found
        by //= other.period
        if not 0 <= step + by * (window.count - 1) < other.count:
            return None
        if slot in other.slices:
            part = other.slices[slot]
            place = WindowIndex.of(part.index.at_step(step), tuple(i * by for i in part.index.by))
            return MovingSlice(part.array, place, part.type)
        return OtherLoopResult(other, slot, step, by)

    def _literals(self, window: LoopCandidate, slot: int, number: int) -> OperandSource | None:
        values = [
            operands_of(self.step(slot, self.first + step))[number] for step in range(window.count)
        ]
        consts = [value for value in values if isinstance(value, Const)]
        if len(consts) < len(values):
            return None
        key = const_key(consts[0])
        if all(const_key(const) == key for const in consts):
            return LoopInvariant(consts[0])
        return LiteralSequence(tuple(consts)) if consts[0].type.dtype.kind in "biuf" else None

    # Arrays that are only written

    def _find_deferred(self, window: LoopCandidate) -> None:
        """Enter the chains of a window, each from its carry on."""
        links: dict[OperandSource, list[tuple[int, DeferredUpdate, set[int]]]] = {}
        for slot in range(window.period):
            found = self._deferred_update(window, slot)
            if found is not None:
                total, link, gone = found
                links.setdefault(total, []).append((slot, link, gone))
        for last, first in list(window.carries.items()):
            chain, gone = [], set()
            at: OperandSource = PreviousStep(last, first)
            while len(links.get(at, ())) == 1:
                slot, link, slots = links[at][0]
                chain.append(link)
                gone |= slots
                at = SameStep(slot)
                if slot == last:
                    break
            worth = at == SameStep(last) and _can_defer(chain, first.type, window.count)
            if worth and self._has_single_use(window, gone, last, chain):
                window.deferred[last] = DeferredUpdates(first, tuple(chain))
                window.removed_slots |= gone
                del window.carries[last]

    def _deferred_update(
        self, window: LoopCandidate, slot: int
    ) -> tuple[OperandSource, DeferredUpdate, set[int]] | None:
        """The array that a slot writes a piece into, the link, and the slots that this takes."""
        step, sources = self.step(slot, self.first), window.sources[slot]
        if not isinstance(step, Eqn):
            return None
        if step.op.name == "put":
            place, (total, piece) = self._affine_index(slot), sources
            if place is None or not isinstance(piece, (LoopInvariant, SameStep, PreviousStep)):
                return None
            return total, DeferredUpdate(piece, place, adds=False), {slot}
        if step.op.name != "add" or any(o.type != step.out.type for o in step.operands):
            return None
        for total, added in (sources, sources[::-1]):
            if not isinstance(added, SameStep) or isinstance(total, LoopInvariant):
                continue
            inner = self.step(added.slot, self.first)
            if not isinstance(inner, Eqn) or inner.op.name != "embed":
                continue
            piece = window.sources[added.slot][0]
            if isinstance(piece, (LoopInvariant, SameStep, PreviousStep)):
                place = self._affine_index(added.slot) or _constant_index(inner.params["index"])
                return total, DeferredUpdate(piece, place, adds=True), {slot, added.slot}
        return None

    def _has_single_use(
        self, window: LoopCandidate, slots: set[int], last: int, links: Sequence[DeferredUpdate]
    ) -> bool:
        """Whether what these slots give has one use; what is there after the loop, any number, and
        so have parts that no later step writes into."""
        for step in range(window.count):
            for slot in slots:
                out = self.step(slot, self.first + step).out  # type: ignore[union-attr]
                if self.analysis.uses[out] == 1 or (slot, step) == (last, window.count - 1):
                    continue
                if slot != last or not self._may_be_read_late(window, out, step, links):
                    return False
        return True

    def _may_be_read_late(
        self, window: LoopCandidate, out: Var, step: int, links: Sequence[DeferredUpdate]
    ) -> bool:
        """Whether all but the next step read parts of an array, after the loop, that are no others
        then."""
        readers = self.analysis.readers.get(out, ())
        if len(readers) != self.analysis.uses[out] - 1 or window.count - step > _MAX_LATE_STEPS:
            return False
        later = [link.index.at_step(n) for n in range(step + 1, window.count) for link in links]
        return all(
            self.analysis.position[reader.out] >= window.end
            and all(are_disjoint(reader.params["index"], at, out.type.shape) for at in later)
            for reader in readers
        )


def _constant_index(index: tuple[object, ...]) -> WindowIndex:
    return WindowIndex.of(index, (0,) * len(index_integers(index)))


def _can_defer(links: Sequence[DeferredUpdate], type: Type, count: int) -> bool:
    """Whether these links can be made after the loop, and whether that saves anything: where
    nothing moves, a small sum may as well be carried."""
    places = {link.index.moving_axis(type.shape) for link in links}
    speeds = {link.index.by for link in links}
    still = not any(any(by) for by in speeds)
    if not links or len({link.adds for link in links}) > 1:
        return False
    if still:
        return type.size > _MIN_DEFERRED_SIZE
    if links[0].adds:
        return all(not any(link.index.by) or link.index.moving_axis(type.shape) for link in links)
    entries = [found[0] for found in places if found is not None]
    if None in places or any(link.index.width(entry) > 1 for link in links for entry in entries):
        return False
    return (len(speeds) == len(places) == 1) or _keeps_write_order(links, type.shape, count)


def _keeps_write_order(links: Sequence[DeferredUpdate], shape: tuple[int, ...], count: int) -> bool:
    """Whether an array is the same where all pieces of one link are written after all of the one
    before: no place gets a piece of an earlier link later."""
    indices = [[part for part in link.index.index if part is not None] for link in links]
    outlines = {tuple(isinstance(part, slice) for part in index) for index in indices}
    whole = [slice(0, n, 1) for n in shape]
    cut = any(
        isinstance(i, slice) and i != n for at in indices for i, n in zip(at, whole, strict=True)
    )
    if len(outlines) > 1 or cut:
        return False
    newest: dict[tuple[int, ...], int] = {}
    for step in range(count):
        for number, link in enumerate(links):
            place = tuple(index_integers(link.index.at_step(step)))
            if newest.get(place, 0) > number:
                return False
            newest[place] = number
    return True


def _is_complex_number(type: Type) -> bool:
    """Whether a value takes two cells of a frame, where bodies have one for each."""
    return type.dtype.kind == "c" and not type.shape
