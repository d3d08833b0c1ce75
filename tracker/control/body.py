"""The bodies of loops and branches: traced once, into nested functions.

Owns: `trace_body` and its result `TracedBody`; `forbid_side_effects`, within which bodies are
traced; the helpers that the ops of control flow share.

A body's function takes first what the body reached from outside (`hoisted`), then its own values.
Invariant: a body is a pure function of these; where it is not, `UnsupportedInBody` is raised, and
the caller runs the plain Python loop instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tracker.autodiff.boundary import gradient_entry
from tracker.ir.graph import Atom, Function, name_variables, nested_functions
from tracker.ir.types import Type
from tracker.ir.verify import verify
from tracker.jit.tracing import IRBuilder, StateRollbackLog, enter_all, find_captured_state
from tracker.ops.shape.create import identity, item
from tracker.support.structs import record
from tracker.tape.record import apply, aval_of, data_of, value_of, wrap
from tracker.tape.tracer import Tracer, UnsupportedInBody, close_leaf, current_tracer
from tracker.tape.tracked import Tracked
from tracker.tape.value import Value, leaf, new_epoch

_body_counter = itertools.count(1)


@record()
class TracedBody:
    """A body: its function, and what it reached from outside, which are its first operands."""

    function: Function
    hoisted: list[Any]

    @property
    def types(self) -> list[Type]:
        """The types of the results."""
        return [atom.type for atom in self.function.outputs]


def trace_body(name: str, body: Callable[..., Sequence[Any]], samples: Sequence[Any]) -> TracedBody:
    """Trace `body`, which takes and gives flat lists of numbers and arrays, at these samples."""
    since = new_epoch()
    values = [leaf(data_of(sample)) for sample in samples]
    outer = current_tracer()
    flags, compares = (
        (outer.tests_identity_with_bool, outer.tests_identity)
        if outer is not None
        else (False, False)
    )
    listener = Tracer(since, tests_identity_with_bool=flags, tests_identity=compares)
    with enter_all(listener):
        try:
            results = list(body(*map(wrap, values)))
            read = [value_of(r) if isinstance(r, Tracked) else r for r in results]
        finally:
            for value in values:
                close_leaf(value)
    if outer is not None:
        inner, made = listener.recording, (value for value, *_ in listener.recording.equations)
        outer.recording.inner_values.update(inner.inner_values, values, made)
    builder = _BodyBuilder(listener, values)
    builder.build_equations()
    atoms = tuple(builder.atom(x) for x in read)
    function = Function(
        f"{name}{next(_body_counter)}",
        (*builder.captured, *(builder.vars[value] for value in values)),
        (),
        tuple(builder.body),
        atoms,
        nested_functions(builder.body),
    )
    name_variables(function)
    verify(function)
    return TracedBody(function, builder.arrays)


@contextmanager
def forbid_side_effects(*functions: Callable[..., Any]) -> Iterator[list[Callable[..., Any]]]:
    """Within it, bodies that call these functions, as they come from here, are traced once for all
    steps: `UnsupportedInBody` where one changes what it reads. That is taken back."""
    attempt = StateRollbackLog(find_captured_state(functions[0], functions[1:]))

    def watched(f: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            result = f(*args)
            if attempt.has_written:
                raise UnsupportedInBody("the body changes what it reads")
            return result

        return call

    try:
        yield list(map(watched, functions))
    except Exception as error:
        if not attempt.has_written:
            raise
        attempt.roll_back()
        raise UnsupportedInBody(str(error)) from error


class _BodyBuilder(IRBuilder):
    """As staging's, but what comes from outside is an operand, whoever made it."""

    def _outer_value(self, value: Value) -> Atom:
        if value in self.tracer.recording.inner_values:
            return super()._outer_value(value)  # which refuses
        return self._hoist(wrap(value), value.data, id(value))

    def _array_atom(self, array: Any) -> Atom:
        if self.tracer.recording.plain_arrays.at(array, self.position) is not array:
            raise UnsupportedInBody("the body writes into a plain array")
        return self._hoist(array, array, id(array))

    def _hoist(self, operand: Any, data: Any, key: int) -> Atom:
        if isinstance(data, tuple):
            raise UnsupportedInBody("the body takes the results of an outer equation apart")
        known = self.captures_by_key.get(key)
        if known is None:
            known = self._capture(data, None, key)
            self.arrays[-1] = operand
        return known


# What the ops share -------------------------------------------------------------------------------


def is_active(x: Any, include_integers: bool = False) -> bool:
    """Whether an operand has a derivative; that of integers only if somebody asks."""
    return include_integers or np.result_type(aval_of(x)).kind in "fc"


def needs_integer_derivatives(xs: Sequence[Any], requested: Sequence[Any]) -> bool:
    """Whether somebody asks for the derivative in integers, or has their tangents."""
    return any(
        a is not None and a is not False and not is_active(x)
        for x, a in zip(xs, requested, strict=True)
    )


def lift_operand(x: Any) -> Value:
    """A leaf that stands for an operand in a pass of one's own."""
    return value_of(apply(identity, (x,))) if isinstance(x, Tracked) else leaf(x)


def as_tangent_of(c: Any, x: Any) -> Any:
    """A cotangent or tangent (None: zero) as the exact type of what it belongs to."""
    if isinstance(x, Tracked):
        return as_tangent_of_value(c, value_of(x))
    constant = leaf(x)
    close_leaf(
        constant
    )  # open, it would be a derivative's that nobody ends, and nothing could be traced
    return as_tangent_of_value(c, constant)


def as_tangent_of_value(c: Any, value: Value) -> Any:
    """As `as_tangent_of`, of a value. Those of integers are floats, and never None in here."""
    made = gradient_entry(c, value)
    if made is not None:
        return made
    return np.zeros(value.aval.shape) if isinstance(value.aval, np.ndarray) else 0.0


def restore_weak_type(x: Any, type: Type) -> Any:
    """What was stacked, as the Python number that it was."""
    return apply(item, (x,)) if type.weak else x


def split_list(flat: Sequence[Any], *counts: int) -> list[list[Any]]:
    """A flat list in pieces of the given lengths; the rest is the last piece."""
    rest = iter(flat)
    return [list(itertools.islice(rest, n)) for n in counts] + [list(rest)]
