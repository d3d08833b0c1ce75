"""The equations of a loop, from the bodies of its iterations: `record_iterations`.

Where iterations branch on values, there is a body for each path that was seen. The loop ends before
the first iteration that takes another one: a `while_` equation counts the iterations, without
derivatives, and the `loop` equation takes this number. Where the trip count moves with an outer
loop, all iterations run, and the loop says whether none took another path.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker.autodiff.call_ops import detach
from tracker.control.body import TracedBody, split_list, trace_body
from tracker.control.branch import record_branch, trace_branches
from tracker.control.loop import record_loop
from tracker.control.python_loops.body.iteration_body import IterationBody
from tracker.control.while_loop import count_steps
from tracker.ir.graph import Function
from tracker.ir.passes.dead_code import dead_code
from tracker.support.structs import replace
from tracker.tape.record import data_of, replay
from tracker.tape.tracked import Tracked


class RecordedLoop:
    """The loop that starts where the first body's iteration does.

    count      how many iterations it takes: all, if it `takes_all`
    are_alike  whether all of them took one of the paths, if it `checks_paths` and was recorded
    """

    def __init__(
        self, bodies: Sequence[IterationBody], takes_all: bool = False, checks_paths: bool = False
    ) -> None:
        self.first = bodies[0]
        steps = [body.write() for body in bodies]
        self.starts, self.length = list(self.first.starts.values()), self.first.count
        self.rows = [stack for body in bodies for stack in body.rows.values()]
        self.step = steps[0] if len(bodies) == 1 else self._with_branches(bodies, steps)
        self.are_alike: Any = None
        self.checks_paths = checks_paths
        if takes_all:
            self.count = self.first.count_operand()
        else:
            self.count, self.length = count_steps(self.step, self.starts, self.rows, self.length)
            self.rows = [self._read_rows(stack[: self.length]) for stack in self.rows]

    def record(self) -> list[Any]:
        """Record the loop; returns its results."""
        step, starts = self.step, self.starts
        if self.checks_paths:
            step, starts = self._with_check(), [*starts, np.True_]
        found = record_loop(step, self.count, starts, self.rows, self.length, False)
        if self.checks_paths:
            self.are_alike = found.pop(len(self.starts))
        return found

    def _with_check(self) -> TracedBody:
        """The step, which also carries whether all iterations have taken one of the paths."""
        body, carries = self.step, len(self.starts)

        def step(*flat: Any) -> list[Any]:
            fixed, carried, (alike,), elements = split_list(flat, len(body.hoisted), carries, 1)
            *found, is_alike = replay(body.function, [*fixed, *carried, *elements])
            return [*found[:carries], np.logical_and(alike, is_alike), *found[carries:]]

        with np.errstate(all="ignore"):
            return trace_body("iteration", step, self._samples(np.True_), body.hoisted)

    def _samples(self, *more: Any) -> list[Any]:
        """What the first iteration reads."""
        return [*map(data_of, self.starts), *more, *(data_of(stack)[0] for stack in self.rows)]

    def _read_rows(self, stack: Any) -> Any:
        """Rows of which the first are read: the reverse loop, which gives a cotangent for each,
        leaves those of the others undefined."""
        if type(stack) is not Tracked or stack.dtype.kind not in "fc":
            return stack
        positions = np.arange(len(stack)).reshape(-1, *(1,) * (stack.ndim - 1))
        return np.where(positions < self.count, stack, detach(stack))

    def _with_branches(
        self, bodies: Sequence[IterationBody], steps: Sequence[TracedBody]
    ) -> TracedBody:
        """A body that takes the path of one of those given."""
        hoisted = [len(step.hoisted) for step in steps]
        rows = [len(body.rows) for body in bodies]
        carries = len(self.starts)

        def of_path(at: int, f: Function, fixed: Sequence[Any]) -> Callable[..., list[Any]]:
            def results(*operands: Any) -> list[Any]:
                carried, *elements = split_list(operands, carries, *rows)
                return replay(f, [*fixed, *carried, *elements[at]])

            return results

        functions = [step.function for step in steps]
        tests = [dead_code(replace(f, outputs=f.outputs[-1:])) for f in functions]

        def step(*flat: Any) -> list[Any]:
            *consts, operands = split_list(flat, *hoisted)
            paths = [of_path(at, functions[at], fixed) for at, fixed in enumerate(consts)]
            takes = [of_path(at, tests[at], fixed) for at, fixed in enumerate(consts)]
            alike = [test(*operands)[0] for test in takes]
            chosen: Any = len(paths) - 1
            for at in reversed(range(len(paths) - 1)):
                chosen = np.where(alike[at], at, chosen)
            samples = [data_of(x) for x in operands]
            branches, results = trace_branches(chosen, "path", paths, samples)
            found = record_branch(chosen, branches, operands, results)
            return [*found[:-1], functools.reduce(np.logical_or, alike)]

        consts = [x for each in steps for x in each.hoisted]
        with np.errstate(all="ignore"):  # the loop itself warns at the iterations that it runs
            return trace_body("iteration", step, self._samples(), consts)
