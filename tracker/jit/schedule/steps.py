"""Steps that plan and emit themselves, and what the code generator offers them.

A matrix product, a LAPACK routine, a sort or a callback is neither unrolled nor a loop nest. Its
equation is planned by a function that is handed to the planner (`StepPlanners`), and becomes a
`Step`, which emits its own code through the `Driver` protocol. So neither the planner nor the code
generator knows the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from tracker.ir.graph import Atom, Eqn, Function, Var
from tracker.support.structs import record

if TYPE_CHECKING:
    from tracker.jit.scalar.emitter import Emitter
    from tracker.jit.scalar.values import ModuleNeeds, ScalarValue
    from tracker.jit.schedule.plan import Planner
    from tracker.jit.schedule.plan_data import Buffer, Location, Plan

StepPlanner = Callable[["Planner", Eqn], None]


class Step(Protocol):
    """A step that emits its own code."""

    @property
    def eqn(self) -> Eqn: ...

    def emit(self, driver: Driver) -> None: ...


class NamedStep(Step, Protocol):
    """A product or a routine; `name` says how it is computed."""

    @property
    def name(self) -> str: ...


@record(frozen=True)
class StepPlanners:
    """The functions that plan steps, by the class of the lowering.

    row_operands: the values of a function that only products by rows read: they need not be stored.
    """

    by_lowering: Mapping[type, StepPlanner]
    row_operands: Callable[[Function], set[Var]]


@record(frozen=True)
class LoopFunction:
    """A function made of loops, named @KERNEL in its text, and the arguments of its call.

    threads: how many share it; join: the function that combines the sums of threads, and its
    arguments.
    """

    text: str
    arguments: list[str]
    threads: int
    join: tuple[str, list[str]] | None


class Driver(Protocol):
    """The code generator of a plan, as steps see it: a function of straight-line code."""

    plan: Plan
    e: Emitter
    needs: ModuleNeeds
    lines: list[str]
    spills: list[str]  # stack allocations, at the start of the function
    symbols: set[str]  # external functions to be linked
    bodies: list[str]  # texts of other functions of the module

    def location(self, var: Var) -> Location:
        """The location of a value at this level."""

    def pointer(self, buffer: Buffer) -> str:
        """The address of a buffer."""

    def address(self, buffer: Buffer, at: int) -> str:
        """The address of an element."""

    def readable(self, atom: Atom) -> str:
        """The address of a whole value in C order."""

    def spill(self, var: Var) -> str:
        """The address of an unrolled value in memory."""

    def require(self, holds: ScalarValue) -> None:
        """Fail the call unless the condition holds."""

    def settle(self) -> None:
        """Check pending conditions: before effects."""

    def begin_effects(self) -> None:
        """The next line has an effect."""

    def end_draw(self, begun: int) -> None:
        """The draw from line `begun` on is over; one that failed has drawn nothing."""

    def check_status(self, status: str, can_fail: bool) -> None:
        """Continue if a call returned 0; fail if it returned 1; else it has set an exception."""

    def call_loops(self, loops: LoopFunction) -> None:
        """Call a function made of loops, by threads if it says so."""


def result_buffer(driver: Driver, eqn: Eqn) -> Buffer:
    """The memory for the result of a step."""
    buffer = driver.plan.locations[eqn.out].buffer
    assert buffer is not None
    return buffer
