"""The bodies of loops and branches: traced once, into nested functions.

Owns: `nest` and its result `Nested`; `unchanged`, within which bodies are traced; the helpers that
the ops of control flow share.

A body's function takes first what the body reached from outside (`hoisted`), then its own values.
Invariant: a body is a pure function of these; where it is not, `Unstructured` is raised, and the
caller runs the plain Python loop instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tracker.autodiff.boundary import entry
from tracker.ir.graph import Atom, Function, name_variables, nested_functions
from tracker.ir.types import Type
from tracker.ir.verify import verify
from tracker.jit.discovery.discovery import reads_of
from tracker.jit.llvm.signals import entered
from tracker.jit.tracing.ir_builder import Builder
from tracker.jit.tracing.side_effects import Attempt
from tracker.ops.shape.create import identity, item
from tracker.support.array_copies import same_bytes
from tracker.support.structs import record
from tracker.tape.observers import current_stage
from tracker.tape.record import apply, data_of, form_of, value_of, wrap
from tracker.tape.tracer import Stage, Unstructured, close
from tracker.tape.tracked import Tracked
from tracker.tape.value import Value, leaf, new_epoch

_numbers = itertools.count(1)


@record()
class Nested:
    """A body: its function, and what it reached from outside, which are its first operands."""

    function: Function
    hoisted: list[Any]

    @property
    def types(self) -> list[Type]:
        """The types of the results."""
        return [atom.type for atom in self.function.outputs]


def nest(name: str, body: Callable[..., Sequence[Any]], samples: Sequence[Any]) -> Nested:
    """Trace `body`, which takes and gives flat lists of numbers and arrays, at these samples."""
    since = new_epoch()
    values = [leaf(data_of(sample)) for sample in samples]
    outer = current_stage()
    flags, compares = (outer.flags, outer.compares) if outer is not None else (False, False)
    listener = Stage(since, flags=flags, compares=compares)
    with entered(listener):
        try:
            results = list(body(*map(wrap, values)))
            read = [value_of(r) if isinstance(r, Tracked) else r for r in results]
        finally:
            for value in values:
                close(value)
    if outer is not None:
        outer.inner.update(listener.inner, values, (note[0] for note in listener.notes))
    builder = _Builder(listener, values)
    builder.read_notes()
    atoms = tuple(builder.atom(x) for x in read)
    function = Function(
        f"{name}{next(_numbers)}",
        (*builder.captured, *(builder.vars[value] for value in values)),
        (),
        tuple(builder.body),
        atoms,
        nested_functions(builder.body),
    )
    name_variables(function)
    verify(function)
    return Nested(function, builder.arrays)


@contextmanager
def unchanged(*functions: Callable[..., Any]) -> Iterator[list[Callable[..., Any]]]:
    """Within it, bodies that call these functions, as they come from here, are traced once for all
    steps: `Unstructured` where one changes what it reads. That is taken back."""
    attempt = Attempt(reads_of(functions[0], functions[1:]))

    def watched(f: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            result = f(*args)
            if attempt.has_put:
                raise Unstructured("the body changes what it reads")
            return result

        return call

    try:
        yield list(map(watched, functions))
    except Exception as error:
        if not attempt.has_put:
            raise
        attempt.undo()
        raise Unstructured(str(error)) from error


class _Builder(Builder):
    """As staging's, but what comes from outside is an operand, whoever made it."""

    def _outside(self, value: Value) -> Atom:
        if value in self.listener.inner:
            return super()._outside(value)  # which refuses
        return self._hoist(wrap(value), value.data, id(value))

    def _array(self, array: Any) -> Atom:
        images = self.listener.images.get(id(array), [])
        if images and not (len(images) == 1 and same_bytes(images[0][1], array)):
            raise Unstructured("the body writes into a plain array")
        return self._hoist(array, array, id(array))

    def _hoist(self, operand: Any, data: Any, key: int) -> Atom:
        if isinstance(data, tuple):
            raise Unstructured("the body takes the results of an outer equation apart")
        known = self.known.get(key)
        if known is None:
            known = self._capture(data, None, key)
            self.arrays[-1] = operand
        return known


# What the ops share -------------------------------------------------------------------------------


def moves(x: Any, integers: bool = False) -> bool:
    """Whether an operand has a derivative; that of integers only if somebody asks."""
    return integers or np.result_type(form_of(x)).kind in "fc"


def asks_of_integers(xs: Sequence[Any], asked: Sequence[Any]) -> bool:
    """Whether somebody asks for the derivative in integers, or has their tangents."""
    return any(
        a is not None and a is not False and not moves(x) for x, a in zip(xs, asked, strict=True)
    )


def stand_in(x: Any) -> Value:
    """A leaf that stands for an operand in a pass of one's own."""
    return value_of(apply(identity, (x,))) if isinstance(x, Tracked) else leaf(x)


def like(c: Any, x: Any) -> Any:
    """A cotangent or tangent (None: zero) as the exact type of what it belongs to."""
    if isinstance(x, Tracked):
        return exact(c, value_of(x))
    constant = leaf(x)
    close(
        constant
    )  # open, it would be a derivative's that nobody ends, and nothing could be traced
    return exact(c, constant)


def exact(c: Any, value: Value) -> Any:
    """As `like`, of a value. Those of integers are floats, and never None in here."""
    made = entry(c, value)
    if made is not None:
        return made
    return np.zeros(value.form.shape) if isinstance(value.form, np.ndarray) else 0.0


def as_input(x: Any, type: Type) -> Any:
    """What was stacked, as the Python number that it was."""
    return apply(item, (x,)) if type.weak else x


def cut(flat: Sequence[Any], *counts: int) -> list[list[Any]]:
    """A flat list in pieces of the given lengths; the rest is the last piece."""
    rest = iter(flat)
    return [list(itertools.islice(rest, n)) for n in counts] + [list(rest)]
