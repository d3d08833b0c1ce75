"""`f.profile`: where the time of compiled calls goes, by kernel, with the user's lines.

The trace is compiled once more with a clock between its steps (`jit/pipeline/meter.py`), and called
many times, in turns with ordinary code, in rounds of which the fastest counts; once only, if it has
side effects. Between clocks, LLVM does less: the shares are those of the timed code, the time is
that of the ordinary one. What the steps do not take is the row of the call itself. Ordinary calls
run other code and pay nothing.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tracker.ir.graph import Eqn, Function
from tracker.ir.lowering import Contract, Host
from tracker.jit.abi import native_callable
from tracker.jit.codegen.stopwatch import is_open
from tracker.jit.dispatch.specialization import Specialization, match_leaves, run_trace
from tracker.jit.explain import control_text, kernel_text
from tracker.jit.guards.signature import Signature
from tracker.jit.pipeline.compile import compile_call
from tracker.jit.pipeline.link import CompiledTrace
from tracker.jit.pipeline.meter import Meter, Reading, compile_metered
from tracker.jit.runtime import compile_queue
from tracker.jit.schedule.plan_data import ControlFlow, Kernel, Plan
from tracker.jit.tracing.trace import GuardFailed
from tracker.support.shown_text import ShownText
from tracker.support.structs import record

_SECONDS = 0.2  # of calls, about, in so many rounds, of which the fastest counts
_ROUNDS = 50
_MAX_CALLS = 1_000  # of a round
_SHOWN_LINES = 3  # of a row, in the text
_MIN_SHARE = 0.001  # of a row, in the text
_CALL = "the call itself: its arguments, results and memory"


@record(frozen=True)
class ProfileRow:
    """One step of a call.

    kernel   what it does
    lines    the user's lines that it computes, as `file:line`; those with most equations first
    source   the text of these lines
    calls    how often it runs in a call of the function
    seconds  that it takes in a call, and its `share` of the time of the call
    """

    kernel: str
    lines: tuple[str, ...]
    source: tuple[str, ...]
    calls: float
    seconds: float
    share: float


@record(frozen=True)
class Profile:
    """The time of a call of a compiled function, the mean of `calls` calls, and its rows. The rows
    are those of the steps, longest first, and one of all else: their shares add up to 1."""

    name: str
    calls: int
    seconds: float
    rows: tuple[ProfileRow, ...]

    def __repr__(self) -> str:
        *steps, call = self.rows
        shown = [row for row in steps if row.share >= _MIN_SHARE]
        mean = f", the mean of {self.calls:,} calls" if self.calls > 1 else ""
        lines = [f"{self.name}: {_time(self.seconds)} a call{mean}"]
        for row in (*shown, call):
            lines.append(
                f"{_time(row.seconds):>9} {row.share:6.1%} {row.calls:9,.6g} x  {row.kernel}"
            )
            width = max(map(len, map(os.path.basename, row.lines[:_SHOWN_LINES])), default=0)
            for where, text in self._shown(row):
                lines.append(f"{'':31}{where:{width}}  {text}".rstrip())
        if hidden := len(steps) - len(shown):
            lines.append(f"and {hidden} step(s) of less than {_MIN_SHARE:.1%}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return ShownText(self)._repr_html_()

    @staticmethod
    def _shown(row: ProfileRow) -> Iterator[tuple[str, str]]:
        for where, text in list(zip(row.lines, row.source, strict=True))[:_SHOWN_LINES]:
            yield os.path.basename(where), text
        if len(row.lines) > _SHOWN_LINES:
            yield f"and {len(row.lines) - _SHOWN_LINES} more lines", ""


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1.0:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def profile(
    name: str,
    specialization: Specialization,
    call: Signature,
    leaves: list[Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> Profile | None:
    """The profile of calls of a trace; None if it does not serve this call."""
    trace, meter = specialization.trace, Meter()
    everything = match_leaves(trace, call, leaves)
    if everything is None:
        return None
    compiled = compile_queue.run_now(lambda: compile_metered(trace, meter)).result()

    def calls_of(code: CompiledTrace) -> Callable[[], Any]:
        if code.entry is None:
            given = (*args, *kwargs.values())
            return functools.partial(_run_stages, trace, code.run, everything, given)
        entry = native_callable.make_builtin(code.entry, name, _refuse)
        return functools.partial(entry, *args, **kwargs)

    run = calls_of(compiled)
    has_effects = trace.writes or trace.state_writes or compiled.function.has_side_effects
    if not has_effects:  # load caches, and compile what is compiled when it first runs
        _timed(run, meter, 1)
    once = _timed(run, meter, 1)
    if once is None or has_effects:
        return None if once is None else _profile_of(name, once, once)
    ordinary = calls_of(compile_queue.run_now(lambda: compile_call(trace)).result())
    _timed(ordinary, meter, 1)
    count = int(_SECONDS * 1e9 / _ROUNDS / max(once.nanoseconds, 1.0))
    count = max(1, min(_MAX_CALLS, count))
    rounds = [(_timed(run, meter, count), _timed(ordinary, meter, count)) for _ in range(_ROUNDS)]
    fastest = (
        min(filter(None, timings), key=lambda each: each.nanoseconds)
        for timings in zip(*rounds, strict=True)
    )
    return _profile_of(name, *fastest)


def _run_stages(*given: Any) -> Any:
    try:
        return run_trace(*given)
    except GuardFailed:
        return GuardFailed


def _refuse(*_: Any, **__: Any) -> type[GuardFailed]:
    return GuardFailed


@record(frozen=True)
class _Timing:
    """The nanoseconds of some calls, and what was counted meanwhile."""

    nanoseconds: float
    calls: int
    readings: list[Reading]


def _timed(run: Callable[[], Any], meter: Meter, calls: int) -> _Timing | None:
    """Time so many calls; None if the trace does not serve them."""
    meter.reset()
    started = time.perf_counter_ns()
    for _ in itertools.repeat(None, calls):
        result = run()
    taken = time.perf_counter_ns() - started - meter.compiling
    readings, clock = meter.readings()
    return None if result is GuardFailed else _Timing(taken - clock, calls, readings)


def _profile_of(name: str, timing: _Timing, ordinary: _Timing) -> Profile:
    calls = timing.calls
    slowdown = timing.nanoseconds / max(ordinary.nanoseconds, 1.0)
    sums: dict[tuple[str, tuple[str, ...]], tuple[int, float]] = {}
    for each in timing.readings:  # kernels that are alike share a row
        if each.count and (isinstance(each.step, Kernel) or _equations(each.step)):
            key = step_text(each.step), _places(each.step)
            count, taken = sums.get(key, (0, 0.0))
            sums[key] = count + each.count, taken + each.nanoseconds / slowdown
    steps = sum(taken for _, taken in sums.values())
    whole = max(ordinary.nanoseconds, steps, 1.0)
    rows = [_row(*key, *counted, whole, calls) for key, counted in sums.items()]
    rows.sort(key=lambda row: -row.seconds)
    rows.append(_row(_CALL, (), calls, whole - steps, whole, calls))
    return Profile(name, calls, whole / calls / 1e9, tuple(rows))


def _row(
    kernel: str, lines: tuple[str, ...], count: int, taken: float, whole: float, calls: int
) -> ProfileRow:
    source = tuple(
        linecache.getline(path, int(number)).strip()
        for path, _, number in (line.rpartition(":") for line in lines)
    )
    return ProfileRow(kernel, lines, source, count / calls, taken / calls / 1e9, taken / whole)


# Steps --------------------------------------------------------------------------------------------


def step_text(step: Any) -> str:
    """What a step of a plan does."""
    if isinstance(step, Kernel):
        return kernel_text(step)
    if isinstance(step, Plan):
        count = sum(isinstance(s, Eqn) for steps in step.unrolled.values() for s in steps)
        return f"unrolled: {count} equation(s)"
    if isinstance(step, ControlFlow):
        return control_text(step)
    eqn: Eqn = step.eqn
    if isinstance(eqn.op.lower, Host):
        return f"Python: {eqn.op.name} ({step.why})"
    if hasattr(step, "why"):
        return f"NumPy: {eqn.op.name} ({step.why})"
    types = [str(operand.type) for operand in eqn.operands]
    if isinstance(eqn.op.lower, Contract):
        return f"product {step.name}: {' @ '.join(types)}"
    return f"{getattr(step, 'name', eqn.op.name)}: {', '.join(types)}"


def _places(step: Any) -> tuple[str, ...]:
    """The user's lines of a step's equations, those with most first."""
    found = Counter(eqn.where for eqn in _equations(step) if eqn.where)
    return tuple(where for where, _ in found.most_common())


def _equations(step: Any) -> list[Eqn]:
    """The equations that a step computes; of a loop without rows of its own, those of its body."""
    if isinstance(step, Kernel):
        stored = [store.eqn for store in step.stores if store.eqn is not None]
        pieces = [(*piece.members, *piece.reductions) for piece in step.with_fused]
        return [*stored, *itertools.chain.from_iterable(pieces)]
    if isinstance(step, Plan):
        steps = itertools.chain.from_iterable(step.unrolled.values())
        return [s for s in steps if isinstance(s, Eqn)]
    if isinstance(step, ControlFlow) and not is_open(step):
        bodies = [each.function for each in step.bodies.values()]
        return [step.eqn, *itertools.chain.from_iterable(map(all_equations, bodies))]
    return [step.eqn]


def all_equations(function: Function) -> Iterator[Eqn]:
    """The equations of a function and of those in it."""
    yield from function.eqns
    for nested in function.functions.values():
        yield from all_equations(nested)
