"""Bodies of loops and branches, traced once into nested functions.

`trace_body` does it, inside `forbid_side_effects`. The inputs of a body's function are first the
outer values that the body uses (`hoisted`), then its own arguments. Below are helpers that the
control-flow ops share.

Invariant: a body is a pure function of these inputs; otherwise `UnsupportedInBody` is raised, and
the caller traces the plain Python loop instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tracker.autodiff.boundary import gradient_entry
from tracker.ir.fingerprint import located_fingerprint
from tracker.ir.graph import Atom, Function, Guard, name_variables, nested_functions
from tracker.ir.op import Op
from tracker.ir.types import Type
from tracker.jit.tracing import IRBuilder, StateRollbackLog, find_captured_state
from tracker.ops.shape.create import identity, item
from tracker.rebinding import call_exchanged
from tracker.support.deferred_signals import enter_all
from tracker.support.structs import record, replace
from tracker.tape.observers import close_leaf
from tracker.tape.record import apply, aval_of, data_of, record_result, value_of, wrap
from tracker.tape.tracing.lazy import LazyScheduler
from tracker.tape.tracing.placeholders import resolve_placeholder
from tracker.tape.tracing.tracer import (
    Tracer,
    UnsupportedInBody,
    current_tracer,
    stop_gradient_suspended,
)
from tracker.tape.tracked import Tracked
from tracker.tape.value import Value, leaf, new_epoch

body_counter = itertools.count(1)


@record()
class TracedBody:
    """A body's function, and its first operands: outer values, and constants of all steps."""

    function: Function
    hoisted: list[Any]

    @property
    def types(self) -> list[Type]:
        """The types of the results."""
        return [atom.type for atom in self.function.outputs]

    def serves_others(self, consts: Sequence[Any]) -> bool:
        """Whether equal bodies of other values are this one: it takes nothing from outside but what
        it was given, and has no guards."""
        has_guards = any(isinstance(step, Guard) for step in self.function.body)
        return len(self.hoisted) == len(consts) and not has_guards


def trace_body(
    name: str,
    body: Callable[..., Sequence[Any]],
    samples: Sequence[Any],
    consts: Sequence[Any] = (),
) -> TracedBody:
    """Trace `body`, a function from and to flat lists of numbers and arrays, at these samples;
    `consts` are what it is given before these."""
    traced, _ = _trace(name, body, samples, consts, LazyScheduler(of_body=True))
    return traced


def trace_with_results(
    name: str,
    body: Callable[..., Sequence[Any]],
    samples: Sequence[Any],
    consts: Sequence[Any] = (),
) -> tuple[TracedBody, list[Any]]:
    """The same, and what it gives at these samples."""
    traced, results = _trace(name, body, samples, consts, None)
    return traced, [x.data if type(x) is Value else x for x in results]


def _trace(
    name: str,
    body: Callable[..., Sequence[Any]],
    samples: Sequence[Any],
    consts: Sequence[Any],
    scheduler: LazyScheduler | None,
) -> tuple[TracedBody, list[Any]]:
    """The traced body, and the values or plain data that it gave."""
    epoch = new_epoch()
    values = [leaf(data_of(sample)) for sample in (*consts, *samples)]
    outer = current_tracer()
    tracer = Tracer(
        epoch,
        scheduler,
        tests_identity_with_bool=outer is not None and outer.tests_identity_with_bool,
        tests_identity=outer is not None and outer.tests_identity,
    )
    with enter_all(tracer), stop_gradient_suspended():
        try:
            results = list(call_exchanged(body, [*map(wrap, values)]))
            outputs = [value_of(r) if isinstance(r, Tracked) else r for r in results]
        finally:
            for value in values:
                close_leaf(value)
    if outer is not None:
        inner, made = tracer.recording, (value for value, *_ in tracer.recording.equations)
        outer.recording.inner_values.update(inner.inner_values, values, made)
        outer.recording.trip_counts.update(inner.trip_counts)
        outer.recording.native_loops.update(inner.native_loops)
    traced = BodyBuilder(tracer, values).build(name, outputs)
    traced.hoisted += consts
    return traced, outputs


def recorded(op: Op, operands: tuple[Any, ...], params: dict[str, Any], found: Any) -> Any:
    """What `apply` gives of an op that has run, with these results."""
    is_tracked = Tracked in map(type, map(resolve_placeholder, operands))
    return record_result(op, operands, params, found) if is_tracked else found


def renamed(function: Function) -> Function:
    """A body that was changed, with a name of its own."""
    made = replace(function, name=f"{function.name}_{next(body_counter)}")
    name_variables(made)
    return made


def reusable_key(function: Function) -> Hashable | None:
    """Equal for functions that are traced again alike: for bodies of the same lines, in which no
    code of the user's runs. None of others."""
    if function.functions or function.calls_python or function.has_side_effects:
        return None
    return located_fingerprint(function)


@contextmanager
def forbid_side_effects(*functions: Callable[..., Any]) -> Iterator[list[Callable[..., Any]]]:
    """A context that gives the functions with a check: a call that changes state which the
    functions read raises `UnsupportedInBody`, and the state is restored."""
    log = StateRollbackLog(find_captured_state(functions[0], functions[1:]))

    def checked(f: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            result = f(*args)
            if log.has_written:
                raise UnsupportedInBody("the body changes what it reads")
            return result

        return call

    try:
        yield list(map(checked, functions))
    except Exception as error:
        if not log.has_written:
            raise
        log.roll_back()
        raise UnsupportedInBody(str(error)) from error


class BodyBuilder(IRBuilder):
    """As the trace of a jitted function, but every outer value becomes an operand."""

    def build(self, name: str, results: Sequence[Any]) -> TracedBody:
        """The body that gives these results of the recorded equations."""
        inputs = tuple(self.vars.values())
        self.build_equations()
        atoms = tuple([self.atom(x) for x in results])
        function = Function(
            f"{name}{next(body_counter)}",
            (*self.captured, *inputs),
            (),
            tuple(self.body),
            atoms,
            nested_functions(self.body),
        )
        name_variables(function)
        return TracedBody(function, self.arrays)

    def _outer_value(self, value: Value) -> Atom:
        if value in self.tracer.recording.inner_values:
            return super()._outer_value(value)  # raises
        return self._hoist(wrap(value), value.data, id(value))

    def _array_atom(self, array: Any) -> Atom:
        if self.tracer.recording.plain_arrays.at(array, self.position) is not array:
            raise UnsupportedInBody("the body writes into a plain array")
        return self._hoist(array, array, id(array))

    def _hoist(self, operand: Any, data: Any, key: int) -> Atom:
        if isinstance(data, tuple):
            raise UnsupportedInBody("the body takes the results of an outer equation apart")
        atom = self.captures_by_key.get(key)
        if atom is None:
            atom = self._capture(data, None, key)
            self.arrays[-1] = operand
        return atom


# What the ops share -------------------------------------------------------------------------------


def is_active(x: Any, include_integers: bool = False) -> bool:
    """Whether an operand has a derivative; integers only if they are included."""
    return include_integers or np.result_type(aval_of(x)).kind in "fc"


def needs_integer_derivatives(xs: Sequence[Any], requested: Sequence[Any]) -> bool:
    """Whether a derivative in an integer is requested, or an integer has a tangent."""
    return any(
        a is not None and a is not False and not is_active(x)
        for x, a in zip(xs, requested, strict=True)
    )


def lift_operand(x: Any) -> Value:
    """A leaf for an operand of a body, for a separate pass over the body."""
    return value_of(apply(identity, (x,))) if isinstance(x, Tracked) else leaf(x)


def as_tangent_of(c: Any, x: Any) -> Any:
    """A cotangent or tangent (None: zero) cast to the type of its primal."""
    if isinstance(x, Tracked):
        return as_tangent_of_value(c, value_of(x))
    constant = leaf(x)
    close_leaf(constant)  # an open leaf would look like one of a running derivative
    return as_tangent_of_value(c, constant)


def as_tangent_of_value(c: Any, value: Value) -> Any:
    """As `as_tangent_of`, for a value. Integers have float tangents, None is made zero."""
    made = gradient_entry(c, value)
    if made is not None:
        return made
    return np.zeros(value.aval.shape) if isinstance(value.aval, np.ndarray) else 0.0


def restore_weak_type(x: Any, type: Type) -> Any:
    """An element of a stack, as a Python number if the carry was one."""
    return apply(item, (x,)) if type.weak else x


def split_list(flat: Sequence[Any], *counts: int) -> list[list[Any]]:
    """A list in parts of the given lengths, and the rest as a last part."""
    rest = iter(flat)
    return [list(itertools.islice(rest, n)) for n in counts] + [list(rest)]
