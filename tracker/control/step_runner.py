"""Running the steps of a loop while it is traced: op by op, later by native code.

Traces have real values, so a recorded loop also runs once. When NumPy has run as many equations as
take the time of compiling the body (`_compile_cost`), it is compiled, and each further step costs
one native call. A loop that is known to take more, or whose runs together have, is compiled as a
whole (`run_natively`): the steps of other loops may run it many times. Bodies and loops that are
equal share the compiled code: a nested loop is traced anew for each derivative and trace of the
outer loop, and calls that wait for the code of the whole program are interpreted.

Invariant: native code runs a step only if the body's guards hold; otherwise NumPy runs the step
and raises `ReplayDiverged`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from tracker.ir.fingerprint import fingerprint
from tracker.ir.graph import Eqn, Function, Var, name_variables
from tracker.ir.lowering import Loop
from tracker.ir.op import Op
from tracker.ir.types import Bundle, type_of
from tracker.jit import why_unavailable
from tracker.ops.declare.bundle import pick
from tracker.support.recently_used import RecentlyUsed
from tracker.support.structs import replace
from tracker.tape.observers import Stepper, thread_state
from tracker.tape.plain_replay import count_steps_run, plain_replay

_COMPILE_COST = 15_000  # equations that NumPy runs, at 2 us each, while a small body is compiled,
_COMPILE_COST_OF_EQUATION = 100  # and while one more equation of a body is
_BYTES_PER_EQUATION = 1 << 13  # that NumPy copies in about this time: carries that steps write into
_PROFILE_AFTER = 500  # equations before the body is looked up

_profiles: RecentlyUsed[str, _Profile] = RecentlyUsed(128)
_looked_up: WeakKeyDictionary[Function, _Profile] = WeakKeyDictionary()
_loops: WeakKeyDictionary[Function, dict[Any, _Profile]] = WeakKeyDictionary()  # by their bodies
_equation_counts: WeakKeyDictionary[Function, int] = WeakKeyDictionary()
_equations_run: WeakKeyDictionary[Function, int] = WeakKeyDictionary()  # of loops, likewise


class _Profile:
    """How many equations of a body or loop were run, and its native code."""

    def __init__(self) -> None:
        self.equations_run = 0
        self.native: Callable[[Sequence[Any]], Sequence[Any] | None] | None = None


def make_stepper(function: Function, may_compile: bool = True) -> Stepper:
    """A function of plain values with the results of `function`, which may be compiled after many
    calls."""
    if thread_state.make_stepper is not None:
        return thread_state.make_stepper(function, _fastest(function))
    if not may_compile:
        return _fastest(function)
    replay = plain_replay(function)
    is_shared = function in _looked_up
    profile = _looked_up[function] if is_shared else _Profile()

    def step(values: Sequence[Any]) -> Sequence[Any]:
        nonlocal profile, is_shared
        if profile.native is not None:
            found = profile.native(values)
            if found is not None:
                return found
        before = count_steps_run()
        results = replay(values)
        profile.equations_run += count_steps_run() - before
        if not is_shared and profile.equations_run > _PROFILE_AFTER:
            own, profile, is_shared = profile, _profile_of(function), True
            profile.equations_run += own.equations_run
            _looked_up[function] = profile
        elif (
            is_shared
            and profile.native is None
            and profile.equations_run > _compile_cost(function)
            and not why_unavailable()
        ):
            profile.native = _compile_body(function)
        return results

    return step


def _fastest(function: Function) -> Stepper:
    """What runs a step where nothing is to be compiled: native code, if there is some already."""
    replay = plain_replay(function)
    native = _looked_up[function].native if function in _looked_up else None
    return replay if native is None else lambda values: native(values) or replay(values)


def run_natively(
    op: Op,
    bodies: Sequence[Function],
    operands: Sequence[Any],
    params: dict[str, Any],
    steps: int = 0,
) -> tuple[Any, ...] | None:
    """The results of all steps of a loop, of which so many are known, as one native call; None
    until runs of the loop have taken long enough, or where a guard fails."""
    body = bodies[-1]
    known, now = _equations_run.get(body, 0), _equations_of_steps(body, steps)
    cost = _compile_cost(body)
    if known + now < cost or why_unavailable():
        _equations_run[body] = known + now
        return None
    return _run_whole(op, bodies, operands, params, runs_once=now >= cost)


def note_steps(body: Function, steps: int) -> None:
    """A loop with this body has taken so many steps, which were not known before."""
    _equations_run[body] = _equations_run.get(body, 0) + _equations_of_steps(body, steps)


def _equations_of_steps(body: Function, steps: int) -> int:
    """How many equations NumPy runs in the time of so many steps."""
    written = sum(atom.type.nbytes for atom in body.outputs) // _BYTES_PER_EQUATION
    return steps * (_equation_count(body) + written)


def _run_whole(
    op: Op,
    bodies: Sequence[Function],
    operands: Sequence[Any],
    params: dict[str, Any],
    runs_once: bool,
) -> tuple[Any, ...] | None:
    """The results of a loop, as one native call; None where a guard fails."""
    numbers = [x for x in params.values() if not isinstance(x, Function)]
    key = (*map(type_of, operands), *numbers)
    known = _loops.setdefault(bodies[-1], {})
    may_compile = thread_state.make_stepper is None
    profile = known.get(key)
    if profile is None or (profile.native is None and may_compile):
        function = _loop_function(op, bodies, operands, params)
        profile = known[key] = _profile_of(function)
        if profile.native is None and may_compile:
            profile.native = _compile_body(function, runs_once=runs_once)
    found = None if profile.native is None else profile.native(operands)
    return None if found is None else tuple(found)


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


def _profile_of(function: Function) -> _Profile:
    """What is known of functions equal to this one."""
    key = fingerprint(function)
    profile = None if key is None else _profiles.get(key)
    if profile is None:
        profile = _Profile()
        if key is not None:  # else, what Python runs may be another object
            _profiles.put(key, profile)
    return profile


def _compile_body(
    function: Function, runs_once: bool = False
) -> Callable[[Sequence[Any]], Sequence[Any] | None]:
    from tracker.jit import compile_values  # imports LLVM, so only here

    return compile_values(replace(function), runs_once)
