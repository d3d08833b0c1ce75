"""Which iterations of a loop may become symbolic, and what those that could not be rolled teach.

Some iterations stay plain, so that the others are alike: `IterationRange` leaves out the last ones,
and `FirstSymbolic` those before the first one that an inner loop makes symbolic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracker.control.python_loops.loop_code import LoopCode
from tracker.control.python_loops.places import Place
from tracker.tape.record import aval_of
from tracker.tape.tracing.loop_index import Affine, SymbolicIteration, note_short_end
from tracker.tape.tracing.tracer import Tracer

_ATTEMPTS = 3  # symbolic iterations; what is carried may have settled on a type by then
_RETRIES = 3
_LESSONS = 3  # attempts that fail because of containers that were not known by their parts
_MORE_ATTEMPTS = 8  # iterations of a loop that branches, which may take other paths
_MAX_PLAIN_AT_END = 3
_MAX_FIRST = 3


class Attempts:
    """How many iterations may still become symbolic.

    first         the number of the first one; with those before, the loop is likely to end
    retries       how many more, at iterations 4, 8, 16: inner loops that grow have enough
                  iterations by then
    places        of containers that are known by their parts, and of numbers in them that change
    steps         of places of integers that seem to move by the same number in each iteration; 0:
                  they do not
    extents       of places of arrays, by how much each extent seems to move in each iteration
    lessons       how often more of these may become known
    has_branched  whether an iteration has branched on values, so that there are more attempts
    """

    def __init__(self, first: int) -> None:
        self.first = first
        self.left, self.retries, self.lessons = _ATTEMPTS, _RETRIES, _LESSONS
        self.places: set[Place] = set()
        self.steps: dict[Place, int] = {}
        self.extents: dict[Place, tuple[int, ...]] = {}
        self.has_branched = False

    def allow(self, at: int) -> bool:
        """Whether iteration number `at` may be an attempt."""
        if not self.left and self.retries and at.bit_count() == 1:
            self.left, self.retries = 1, self.retries - 1
        return self.left > 0 and at >= self.first

    def stop(self) -> None:
        self.left = self.retries = 0

    def restart(self) -> None:
        self.left, self.retries = _ATTEMPTS, _RETRIES

    def note_branch(self) -> None:
        if not self.has_branched:
            self.has_branched, self.left = True, _MORE_ATTEMPTS

    def learn(
        self,
        places: set[Place],
        steps: Mapping[Place, int],
        extents: Mapping[Place, tuple[int, ...]],
    ) -> None:
        """The next attempt knows these places, and steps, too."""
        is_known = self.places >= places and self.steps.keys() >= steps.keys()
        if self.lessons and not (is_known and self.extents == extents):
            self.lessons -= 1
            self.left += 1
            self.places |= places
            self.steps = {**steps, **self.steps}
            self.extents = {**extents}


class IterationRange:
    """The iterations of a loop that may be rolled.

    counts        its trip count
    alike_until   the iteration from which on branches on plain numbers are other ones
    plain_at_end  how many of the last iterations are not rolled: loops in them are too short
    """

    def __init__(self, counts: Affine) -> None:
        self.counts = counts
        self.alike_until = self.plain_at_end = 0

    def allows(self, at: int) -> bool:
        """Whether an attempt at this iteration is not too late."""
        return not self.plain_at_end or at < self.counts.const - self.plain_at_end

    def last(self, at: int, since: int) -> Affine:
        """The number of the last iteration that this one, which comes so many iterations after the
        first that is rolled, may stand for."""
        end = self.counts.minus(Affine(self.plain_at_end))
        if at < self.alike_until:
            end = Affine(min(self.alike_until, end.const))
        return end.minus(Affine(1 + at - since))

    def all_from(self, at: int) -> Affine:
        """How many iterations there are from this one on."""
        return self.counts.minus(Affine(at))

    def rolled_from(self, at: int, is_last_plain: bool) -> Affine:
        """How many may be rolled from this one on."""
        return self.all_from(at).minus(Affine(max(self.plain_at_end, is_last_plain)))

    def is_segment(self, at: int) -> bool:
        """Whether this iteration and those like it are followed by others."""
        return at < self.alike_until < self.counts.const

    def start_segment(self, at: int, end: int) -> None:
        """Iterations are alike from this one to the end of a segment."""
        is_known = at < self.alike_until  # what iterations read is within their arrays
        self.alike_until = min(end, self.alike_until) if is_known else end

    def learn_end(self, iteration: SymbolicIteration) -> bool:
        """Leave one more of the last iterations plain, if loops in them have too few iterations."""
        learns = (
            iteration.ends_short and not self.counts.terms and self.plain_at_end < _MAX_PLAIN_AT_END
        )
        self.plain_at_end += learns
        return learns


class FirstSymbolic:
    """The first iteration of a loop that may be symbolic. Within a symbolic iteration of an outer
    loop, those before it are part of that one, if there are as many in all outer iterations.

    Where iterations that begin there cannot be rolled, the loop begins one later in the next outer
    iteration: by then numbers have settled on a type, and inner loops have iterations. `situation`
    is what that depends on.
    """

    def __init__(
        self, tracer: Tracer, code: LoopCode, counts: Affine, names: Mapping[str, Any]
    ) -> None:
        self.at, self._known = 0, tracer.first_symbolic
        self._situation: Any = None
        self._known_before: dict[Any, int] = {}
        if tracer.iterations:
            carried = code.carried & names.keys()
            classes = frozenset((name, type(aval_of(names[name]))) for name in carried)
            self._situation = code, classes
            self.at = self._known.get(self._situation, 0)
        if counts.terms and self.at > counts.low:
            self.at = counts.low
            note_short_end(counts)

    def begin(self) -> None:
        """A symbolic iteration begins."""
        self._known_before = dict(self._known)

    def learn(self, begun: int) -> None:
        """Symbolic iterations from this one on were not rolled. If loops in them have learned why,
        this one need not."""
        if self._situation is not None and self._known == self._known_before:
            self._known[self._situation] = min(begun + 1, _MAX_FIRST)
