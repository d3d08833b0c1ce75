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
    whose values at the start of each step are read.
    """

    stacks: dict[int, bool] = field(default_factory=dict)
    kept_carries: set[int] = field(default_factory=set)


class LiveOutAnalysis:
    """Collects the live-outs of each candidate."""

    def __init__(self, function: Function, analysis: RecurrenceAnalysis) -> None:
        self.analysis = analysis
        self.by_candidate = {window: LiveOuts() for window in analysis.candidates}
        for at, step in enumerate(function.body):
            if at not in analysis.candidate_at:
                for atom in operands_of(step):
                    self.mark_value(atom)
        for atom in function.outputs:
            self.mark_value(atom)
        for window in analysis.candidates:
            self.mark_candidate(window)

    def mark_value(self, atom: Atom) -> None:
        found = self.analysis.locate(atom)
        if found is None:
            return
        window, slot, step = found
        if slot in window.slices:
            self.mark_value(window.slices[slot].array)
        elif slot not in window.deferred:
            last = step == window.count - 1
            if not last or slot not in window.carries:
                self.mark_stack(window, slot, last)

    def mark_stack(self, window: LoopCandidate, slot: int, last: bool) -> None:
        stacks = self.by_candidate[window].stacks
        stacks[slot] = stacks.get(slot, False) or last

    def mark_candidate(self, window: LoopCandidate) -> None:
        for atom in window.carries.values():
            self.mark_value(atom)
        for part in window.slices.values():
            self.mark_value(part.array)
        for chain in window.deferred.values():
            self.mark_value(chain.first)
            for link in chain.updates:
                self.mark_update(window, link.piece)
        for slot, sources in enumerate(window.sources):
            if slot in window.removed_slots:
                continue
            for source in sources:
                if isinstance(source, LoopInvariant):
                    self.mark_value(source.atom)
                elif isinstance(source, MovingSlice):
                    self.mark_value(source.array)
                elif isinstance(source, OtherLoopResult):
                    ends = source.at, source.at + source.by * (window.count - 1)
                    self.mark_stack(source.window, source.slot, source.window.count - 1 in ends)

    def mark_update(
        self, window: LoopCandidate, piece: LoopInvariant | SameStep | PreviousStep
    ) -> None:
        """Mark the value of a deferred update."""
        if isinstance(piece, LoopInvariant):
            self.mark_value(piece.atom)
        elif isinstance(piece, PreviousStep):
            self.by_candidate[window].kept_carries.add(piece.slot)
        elif piece.slot in window.slices:
            self.mark_value(window.slices[piece.slot].array)
        else:
            self.mark_stack(window, piece.slot, last=True)
