"""Running the steps of a loop while it is traced: op by op, later by native code.

Traces have real values, so a recorded loop also runs once. When NumPy has run as many equations as
take the time of compiling the body (`_compile_cost`), it is compiled, and each further step costs
one native call. A loop that is known to take more is compiled as a whole (`run_natively`). Bodies
and loops that are equal share the compiled code: a nested loop is traced anew for each derivative
and trace of the outer loop, and calls that wait for the code of the whole program are interpreted.

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
from tracker.tape.plain_replay import plain_replay

_COMPILE_COST = 15_000  # equations that NumPy runs, at 2 us each, while a small body is compiled,
_COMPILE_COST_OF_EQUATION = 100  # and while one more equation of a body is
_BYTES_PER_EQUATION = 1 << 13  # that NumPy copies in about this time: carries that steps write into
_PROFILE_AFTER = 500  # equations before the body is looked up

_profiles: RecentlyUsed[str, _Profile] = RecentlyUsed(128)
_looked_up: WeakKeyDictionary[Function, _Profile] = WeakKeyDictionary()
_equations_replayed = 0  # in total, including nested loops


class _Profile:
    """How many equations of a body or loop were run, and its native code."""

    def __init__(self) -> None:
        self.equations_run = 0
        self.native: Callable[[Sequence[Any]], Sequence[Any] | None] | None = None


def make_stepper(function: Function) -> Stepper:
    """A function of plain values with the results of `function`."""
    if thread_state.make_stepper is not None:
        return thread_state.make_stepper(function, _fastest(function))
    replay = plain_replay(function)
    profile, is_shared = _Profile(), False

    def step(values: Sequence[Any]) -> Sequence[Any]:
        global _equations_replayed
        nonlocal profile, is_shared
        if profile.native is not None:
            found = profile.native(values)
            if found is not None:
                return found
        before = _equations_replayed
        results = replay(values)
        _equations_replayed += len(function.body)
        profile.equations_run += _equations_replayed - before
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
    op: Op, body: Function, steps: int, operands: Sequence[Any], params: dict[str, Any]
) -> tuple[Any, ...] | None:
    """The results of all steps of a counted loop, as one native call; None for a short loop, or
    where a guard fails."""
    written = sum(atom.type.nbytes for atom in body.outputs) // _BYTES_PER_EQUATION
    count = steps * (_equation_count(body) + written)
    if count < _compile_cost(body) or why_unavailable():
        return None
    inputs = [Var(type_of(x)) for x in operands]
    out = Var(op.infer(*(var.type for var in inputs), **params))
    assert isinstance(out.type, Bundle)
    picks = [Eqn(pick, (out,), {"at": at}, Var(type)) for at, type in enumerate(out.type.parts)]
    steps_and_picks = (Eqn(op, tuple(inputs), params, out), *picks)
    results = tuple([eqn.out for eqn in picks])
    function = Function("run", tuple(inputs), (), steps_and_picks, results, {body.name: body})
    name_variables(function)
    profile = _profile_of(function)
    if profile.native is None:
        if thread_state.make_stepper is not None:
            return None
        profile.native = _compile_body(function, runs_once=True)
    found = profile.native(operands)
    return None if found is None else tuple(found)


def _equation_count(body: Function) -> int:
    """The equations of a step, nested loops included."""
    total = 0
    for eqn in body.eqns:
        nested = eqn.params.get("body") if isinstance(eqn.op.lower, Loop) else None
        total += 1 if nested is None else eqn.params["length"] * _equation_count(nested)
    return total


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
