"""What is wanted of the windows that become loops: stacks of values, and what steps found.

Owns: `Needs`, which asks the steps outside of the windows and the windows themselves; `Need`, what
it found of one. `reroll.py` has each loop give just that.
"""

from __future__ import annotations

from tracker.ir.graph import Atom, Function, operands_of
from tracker.ir.passes.loops.candidates import Before, Fixed, Part, Residual, Window, Within
from tracker.ir.passes.loops.recurrences import Analysis
from tracker.support.structs import field, record


@record()
class Need:
    """The slots of a window of which a stack is wanted, and whether of the last step, too; those
    of which it is wanted what the steps found."""

    stacks: dict[int, bool] = field(default_factory=dict)
    found: set[int] = field(default_factory=set)


class Needs:
    """What steps outside of the windows, and other windows, want of each window."""

    def __init__(self, function: Function, analysis: Analysis) -> None:
        self.analysis = analysis
        self.of = {window: Need() for window in analysis.windows}
        for at, step in enumerate(function.body):
            if at not in analysis.inside:
                for atom in operands_of(step):
                    self.one(atom)
        for atom in function.outputs:
            self.one(atom)
        for window in analysis.windows:
            self.window(window)

    def one(self, atom: Atom) -> None:
        found = self.analysis.of(atom)
        if found is None:
            return
        window, slot, step = found
        if slot in window.parts:
            self.one(window.parts[slot].array)
        elif slot not in window.chains:
            last = step == window.count - 1
            if not last or slot not in window.carries:
                self.stack(window, slot, last)

    def stack(self, window: Window, slot: int, last: bool) -> None:
        stacks = self.of[window].stacks
        stacks[slot] = stacks.get(slot, False) or last

    def window(self, window: Window) -> None:
        for atom in window.carries.values():
            self.one(atom)
        for part in window.parts.values():
            self.one(part.array)
        for chain in window.chains.values():
            self.one(chain.first)
            for link in chain.links:
                self.piece(window, link.piece)
        for slot, sources in enumerate(window.sources):
            if slot in window.gone:
                continue
            for source in sources:
                if isinstance(source, Fixed):
                    self.one(source.atom)
                elif isinstance(source, Part):
                    self.one(source.array)
                elif isinstance(source, Residual):
                    ends = source.at, source.at + source.by * (window.count - 1)
                    self.stack(source.window, source.slot, source.window.count - 1 in ends)

    def piece(self, window: Window, piece: Fixed | Within | Before) -> None:
        """What a link of a chain puts somewhere."""
        if isinstance(piece, Fixed):
            self.one(piece.atom)
        elif isinstance(piece, Before):
            self.of[window].found.add(piece.slot)
        elif piece.slot in window.parts:
            self.one(window.parts[piece.slot].array)
        else:
            self.stack(window, piece.slot, last=True)
