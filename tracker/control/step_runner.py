"""Running the steps of a loop while it is traced: op by op, later by native code.

Traces have real values, so a recorded loop also runs once. When NumPy has run as many equations as
take the time of compiling the loop (`_compile_cost`), in one run or in several, it is compiled as a
whole, and the rest is one native call (`run_natively`): the steps of other loops may run it many
times. Loops that are equal share the compiled code: a nested loop is traced anew for each
derivative and trace of the outer loop, and calls that wait for the code of the whole program are
interpreted.

Invariant: native code runs a loop only if its guards hold; otherwise NumPy runs the steps and
raises `ReplayDiverged`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from tracker.ir.fingerprint import fingerprint
from tracker.ir.graph import Eqn, Function, Var, name_variables
from tracker.ir.lowering import Loop, While
from tracker.ir.op import Op
from tracker.ir.types import Bundle, type_of
from tracker.jit import why_unavailable
from tracker.ops.declare.bundle import pick
from tracker.support.recently_used import RecentlyUsed
from tracker.support.structs import replace
from tracker.tape.observers import Stepper, thread_state
from tracker.tape.plain_replay import plain_replay
from tracker.tape.tracing.tracer import note_native_loop, note_trip_count

if TYPE_CHECKING:
    from tracker.jit import CompiledLoop

_COMPILE_COST = 15_000  # equations that NumPy runs, at 2 us each, while a small body is compiled,
_COMPILE_COST_OF_EQUATION = 100  # and while one more equation of a body is
_BYTES_PER_EQUATION = 1 << 13  # that NumPy copies in about this time: carries that steps write into
_SHARED_AFTER = 500  # equations with a body, those with equal bodies count, too

# By fingerprints: of loops their code, of bodies what was run; and the same by bodies.
_compiled: RecentlyUsed[str, CompiledLoop] = RecentlyUsed(128)
_shared_work: RecentlyUsed[str, _Work] = RecentlyUsed(128)
_loops: WeakKeyDictionary[Function, dict[Any, CompiledLoop | None]] = WeakKeyDictionary()
_equation_counts: WeakKeyDictionary[Function, int] = WeakKeyDictionary()
_work: WeakKeyDictionary[Function, _Work] = WeakKeyDictionary()


def make_stepper(function: Function) -> Stepper:
    """A function of plain values with the results of `function`."""
    replay = plain_replay(function)
    make = thread_state.make_stepper
    return replay if make is None else make(function, replay)


def run_natively(
    op: Op,
    bodies: Sequence[Function],
    operands: Sequence[Any],
    params: dict[str, Any],
    steps: int = 0,
) -> tuple[Any, ...] | None:
    """The results of a loop that has so many steps, if that is known, as one native call; None
    until runs of the loop have taken long enough, or where a guard fails."""
    body = bodies[-1]
    run = note_equations(body, _equations_of_steps(body, steps))
    if run < _compile_cost(body) or why_unavailable():
        return None
    native = _native_loop(op, bodies, operands, params)
    if native is None:
        return None
    native.steps += steps
    results = native(operands)
    if results is None:
        return None
    note_native_loop(body)
    if isinstance(op.lower, While):
        count = int(results[len(body.outputs)])
        native.steps += count
        note_trip_count(body, count)
    return results


class _Work:
    """How many equations were run in steps with a body, or with bodies that are equal."""

    def __init__(self) -> None:
        self.equations = 0
        self.is_shared = False


def note_equations(body: Function, run: int) -> int:
    """So many more equations are run in steps with this body: how many it were altogether."""
    work = _work.setdefault(body, _Work())
    work.equations += run
    if not work.is_shared and work.equations > _SHARED_AFTER:
        work.is_shared, mark = True, fingerprint(body)
        shared = None if mark is None else _shared_work.get(mark)
        if shared is not None:
            shared.equations += work.equations
            work = _work[body] = shared
        elif mark is not None:
            _shared_work.put(mark, work)
    return work.equations


def _equations_of_steps(body: Function, steps: int) -> int:
    """How many equations NumPy runs in the time of so many steps."""
    written = sum(atom.type.nbytes for atom in body.outputs) // _BYTES_PER_EQUATION
    return steps * (_equation_count(body) + written)


def _native_loop(
    op: Op, bodies: Sequence[Function], operands: Sequence[Any], params: dict[str, Any]
) -> CompiledLoop | None:
    """The native code of a loop, which those that are equal share; None if there is none, and none
    is to be compiled now."""
    numbers = [x for x in params.values() if not isinstance(x, Function)]
    key = (*map(type_of, operands), *numbers)
    known = _loops.setdefault(bodies[-1], {})
    may_compile = thread_state.make_stepper is None
    if known.get(key) is None and (may_compile or key not in known):
        function = _loop_function(op, bodies, operands, params)
        mark = fingerprint(function)
        native = None if mark is None else _compiled.get(mark)
        if native is None and may_compile:
            native = _compile(function)
            if mark is not None:  # else, what Python runs may be another object
                _compiled.put(mark, native)
        known[key] = native
    return known[key]


def _loop_function(
    op: Op, bodies: Sequence[Function], operands: Sequence[Any], params: dict[str, Any]
) -> Function:
    """A function that is this loop."""
    inputs = [Var(type_of(x)) for x in operands]
    out = Var(op.infer(*(var.type for var in inputs), **params))
    assert isinstance(out.type, Bundle)
    picks = [Eqn(pick, (out,), {"at": at}, Var(type)) for at, type in enumerate(out.type.parts)]
    steps = (Eqn(op, tuple(inputs), params, out), *picks)
    results = tuple([eqn.out for eqn in picks])
    nested = {body.name: body for body in bodies}
    function = Function("run", tuple(inputs), (), steps, results, nested)
    name_variables(function)
    return function


def _equation_count(body: Function) -> int:
    """The equations of a step, nested loops and branches included."""
    known = _equation_counts.get(body)
    if known is None:
        known = _equation_counts[body] = sum(map(_equations_in, body.eqns))
    return known


def _equations_in(eqn: Eqn) -> int:
    """How many equations run in one step."""
    nested = [_equation_count(x) for x in eqn.params.values() if isinstance(x, Function)]
    steps = eqn.params["length"] if isinstance(eqn.op.lower, Loop) else 1
    return steps * max(nested) if nested else 1


def _compile_cost(body: Function) -> int:
    """How many equations NumPy runs in the time of compiling a body."""
    return _COMPILE_COST + _COMPILE_COST_OF_EQUATION * body.text_length


def _compile(function: Function) -> CompiledLoop:
    from tracker.jit import CompiledLoop  # imports LLVM, so only here

    return CompiledLoop(_with_own_bodies(function))


def _with_own_bodies(function: Function) -> Function:
    """A copy that does not keep the loop's bodies alive, by which `_loops` finds its code."""
    own = {body: replace(body) for body in function.functions.values()}
    loop, *picks = function.body
    assert isinstance(loop, Eqn)
    params = {n: own[x] if isinstance(x, Function) else x for n, x in loop.params.items()}
    nested = {body.name: body for body in own.values()}
    return replace(function, body=(replace(loop, params=params), *picks), functions=nested)
