"""The paths that the iterations of a loop take: what they branch on, in order.

A path is a tuple of steps: where an iteration has tested a value, with the outcome; and the inner
loops of which a value says that their iterations have taken known paths (`PathsWithin`). An inner
loop of which every path is known is no step.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from types import CodeType
from typing import TypeAlias

from tracker.control.python_loops.loop_code import LoopCode, may_leave
from tracker.support.structs import field, record
from tracker.tape.tracing.loop_index import SymbolicIteration
from tracker.tape.value import Value


@record(frozen=True)
class PathsWithin:
    """An inner loop whose iterations have taken these paths, and no other.

    loop   its code
    asked  how many iterations did: "all", or a number that is the least, or that of elements which
           they have appended
    tests  what they have branched on, with the outcomes
    """

    loop: LoopCode
    asked: str | int
    paths: frozenset[Path]
    tests: Sequence[tuple[Value, bool]] = field(compare=False, default_factory=tuple)

    def covers(self, other: Step) -> bool:
        """Whether this is known wherever the other one is."""
        return (
            isinstance(other, PathsWithin)
            and (self.loop, self.asked) == (other.loop, other.asked)
            and self.paths >= other.paths
        )


Step: TypeAlias = "PathsWithin | tuple[CodeType | None, int, bool]"
Path: TypeAlias = tuple[Step, ...]


def path_of(iteration: SymbolicIteration, conditions: Mapping[Value, bool]) -> Path:
    """The path of an iteration that has branched on these values. What no code tests (whether a
    divisor is zero) is known by its number."""
    steps: list[Step] = []
    numbers = itertools.count()
    for tested, outcome in conditions.items():
        within: PathsWithin | None = iteration.paths_within.get(tested)
        where = iteration.tests.get(tested)
        if within is not None:
            steps.append(within)
        else:
            steps.append((*where, outcome) if where else (None, next(numbers), outcome))
    return tuple(steps)


def stands_for(path: Path, other: Path) -> bool:
    """Whether an iteration that takes the other path takes this one, too: they differ in inner
    loops alone, of which this one knows more paths, or all."""
    rest = [*path]
    for step in other:
        is_covered = rest and isinstance(rest[0], PathsWithin) and rest[0].covers(step)
        if is_covered or rest[:1] == [step]:
            del rest[0]
        elif not isinstance(step, PathsWithin):
            return False
    return not rest


def are_all(paths: Sequence[Path]) -> bool:
    """Whether these are all paths that there are."""
    if len(paths) < 2:
        return [*paths] == [()]
    if not all(paths):
        return False
    sides: dict[bool, list[Path]] = {True: [], False: []}
    places = set()
    for first, *rest in paths:
        if isinstance(first, PathsWithin):
            return False
        *place, outcome = first
        places.add(tuple(place))
        sides[outcome].append(tuple(rest))
    return len(places) == 1 and all(map(are_all, sides.values()))


def may_leave_loop(
    loop: LoopCode, iteration: SymbolicIteration, tests: Iterable[tuple[Value, bool]]
) -> set[bool]:
    """Of each of these tests, whether the loop may be left where an iteration goes another way."""
    found: set[bool] = set()
    for tested, outcome in tests:
        within, where = iteration.paths_within.get(tested), iteration.tests.get(tested)
        if within is not None:
            found.add(True in may_leave_loop(loop, iteration, within.tests))
        else:
            found.add(where is None or may_leave(loop, *where, outcome))
    return found
