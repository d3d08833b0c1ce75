"""Live-outs of loop candidates: which results later steps, and other loops, read."""

from __future__ import annotations

from tracker.ir.graph import Atom, Function, operands_of
from tracker.ir.passes.loops.loop_candidates import (
    LoopCandidate,
    LoopInvariant,
    MovingSlice,
    OtherLoopResult,
    PreviousStep,
    SameStep,
)
from tracker.ir.passes.loops.recurrences import RecurrenceAnalysis
from tracker.support.structs import field, record


@record()
class LiveOuts:
    """The slots of a loop whose stack is read, and whether in the last step, too; and the carries
    whose values at the start of each step are read."""

    stacks: dict[int, bool] = field(default_factory=dict)
    kept_carries: set[int] = field(default_factory=set)


class LiveOutAnalysis:
    """Collects the live-outs of each candidate."""

    def __init__(self, function: Function, analysis: RecurrenceAnalysis) -> None:
        self.analysis = analysis
        self.by_candidate = {candidate: LiveOuts() for candidate in analysis.candidates}
        for at, step in enumerate(function.body):
            if at not in analysis.candidate_at:
                for atom in operands_of(step):
                    self.mark_value(atom)
        for atom in function.outputs:
            self.mark_value(atom)
        for candidate in analysis.candidates:
            self.mark_candidate(candidate)

    def mark_value(self, atom: Atom) -> None:
        found = self.analysis.locate(atom)
        if found is None:
            return
        candidate, slot, step = found
        if slot in candidate.slices:
            self.mark_value(candidate.slices[slot].array)
        elif slot not in candidate.deferred:
            last = step == candidate.count - 1
            if not last or slot not in candidate.carries:
                self.mark_stack(candidate, slot, last)

    def mark_stack(self, candidate: LoopCandidate, slot: int, last: bool) -> None:
        stacks = self.by_candidate[candidate].stacks
        stacks[slot] = stacks.get(slot, False) or last

    def mark_candidate(self, candidate: LoopCandidate) -> None:
        for atom in candidate.carries.values():
            self.mark_value(atom)
        for moving in candidate.slices.values():
            self.mark_value(moving.array)
        for deferred in candidate.deferred.values():
            self.mark_value(deferred.first)
            for update in deferred.updates:
                self.mark_update(candidate, update.value)
        for slot, sources in enumerate(candidate.sources):
            if slot in candidate.removed_slots:
                continue
            for source in sources:
                if isinstance(source, LoopInvariant):
                    self.mark_value(source.atom)
                elif isinstance(source, MovingSlice):
                    self.mark_value(source.array)
                elif isinstance(source, OtherLoopResult):
                    ends = source.at, source.at + source.by * (candidate.count - 1)
                    self.mark_stack(
                        source.candidate, source.slot, source.candidate.count - 1 in ends
                    )

    def mark_update(
        self, candidate: LoopCandidate, value: LoopInvariant | SameStep | PreviousStep
    ) -> None:
        if isinstance(value, LoopInvariant):
            self.mark_value(value.atom)
        elif isinstance(value, PreviousStep):
            self.by_candidate[candidate].kept_carries.add(value.slot)
        elif value.slot in candidate.slices:
            self.mark_value(candidate.slices[value.slot].array)
        else:
            self.mark_stack(candidate, value.slot, last=True)
