"""Builds an `ir.Function` from the equations that a tracer has recorded.

`TraceOutput` describes a leaf of the result. `control/body.py` uses `IRBuilder` for the bodies of
loops, too. Start at `build_function`.

Invariants
1. The function is verified before it is returned.
2. Captured arrays are inputs, by reference. A captured array that the traced code wrote to while it
   ran is scratch memory: its contents at each read are constants.
3. Equal small arrays that the code itself created are one capture, so that a loop whose steps each
   write `np.eye(3)` repeats itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from tracker.errors import UnsupportedError
from tracker.ir.graph import (
    Atom,
    Const,
    Eqn,
    Function,
    Guard,
    Var,
    name_variables,
    nested_functions,
)
from tracker.ir.types import type_of
from tracker.jit.guards.signature import (
    AliasOut,
    ArrayLeaf,
    ConstantOut,
    ContainerOut,
    InputOut,
    OutLeaf,
    SignaturePath,
    ViewOut,
    array_leaf,
    array_out,
    scalar_out,
)
from tracker.jit.tracing.inputs import TracedInputs
from tracker.ops.shape.create import item, to_discrete
from tracker.ops.shape.memory_order import MemoryOrder, k_order_strides
from tracker.support.array_copies import data_address
from tracker.support.structs import record
from tracker.tape.live_leaves import depends_on_live_leaf
from tracker.tape.record import GUARD_CONVERSIONS, value_of
from tracker.tape.tracing.liveness import unreferenced_operands
from tracker.tape.tracing.loop_index import IterationIndex
from tracker.tape.tracing.tracer import Tracer
from tracker.tape.tracked import Tracked
from tracker.tape.value import ParamState, Value, history_of


@record()
class TraceOutput:
    """One leaf of the result: its `atom` and memory order, if the function computes it; the
    function that makes it, if it is a view of an argument."""

    leaf: OutLeaf
    atom: Atom | None = None
    order: MemoryOrder = None
    make_view: Callable[[Any], Any] | None = None

    def view(self, leaves: Sequence[Any]) -> Any:
        """The view, of the leaves of a call."""
        assert self.make_view is not None and isinstance(self.leaf, ViewOut)
        return self.make_view(leaves[self.leaf.leaf])


@record()
class BuiltFunction:
    """A function; the arrays it captures (or the leaf numbers of captured state); the params that
    own them; and the leaves of the result."""

    function: Function
    arrays: list[Any]
    owners: list[ParamState | None]
    outputs: list[TraceOutput]


_MAX_COMPARED_BYTES = 1 << 16  # to compare such arrays takes less than an equation


class TraceAbandoned(Exception):
    """The trace cannot be used, and the plain function must run: the function used a value of an
    enclosing derivative, or raised after writing into aliased arguments."""


def build_function(
    name: str,
    tracer: Tracer,
    inputs: TracedInputs,
    outputs: list[Any],
    views: dict[int, TraceOutput],
    paths: Mapping[int, SignaturePath],
) -> BuiltFunction:
    """The recorded equations as a function that returns the outputs, then the written arrays.

    `paths` has the path of each container in the signature, by id.
    """
    builder = IRBuilder(tracer, [*inputs.argument_values], inputs.captured_values)
    builder.build_equations()
    results = _trace_outputs(builder, outputs, inputs.numbers_by_handle(), views, paths)
    atoms = [o.atom for o in results if o.atom is not None]
    atoms += [builder.atom(value_of(write.handle)) for write in inputs.argument_writes()]
    function = Function(
        name,
        tuple(builder.vars[value] for value in inputs.argument_values),
        tuple(builder.captured),
        tuple(builder.body),
        tuple(atoms),
        nested_functions(builder.body),
    )
    name_variables(function)
    return BuiltFunction(function, builder.arrays, builder.owners, results)


def find_views(outputs: list[Any], inputs: TracedInputs) -> dict[int, TraceOutput]:
    """The outputs that are NumPy views of arguments, by the id of the tracked array."""
    numbers = inputs.numbers_by_handle()
    found: dict[int, TraceOutput] = {}
    for x in outputs:
        base, cuts = x, []
        while type(base) is Tracked and (view := getattr(base, "_view", None)) is not None:
            cuts.append(view.cut)
            base = view.base
        if not cuts or id(base) not in numbers:
            continue
        number = numbers[id(base)]
        array = inputs.leaves[number]
        cut = functools.partial(_apply_views, tuple(reversed(cuts)))
        if isinstance(array_leaf(array), ArrayLeaf):
            made, value = cut(array), value_of(x).aval
            if type(made) is np.ndarray and np.may_share_memory(made, array):
                assert (made.shape, made.dtype) == (value.shape, value.dtype)
                offset = data_address(made) - data_address(array)
                may_write = made.flags.writeable or not array.flags.writeable
                out = ViewOut(number, made.dtype, made.shape, made.strides, offset, may_write)
                found[id(x)] = TraceOutput(out, make_view=cut)
    return found


def _apply_views(views: tuple[Callable[[Any], Any], ...], array: Any) -> Any:
    return functools.reduce(lambda x, cut: cut(x), views, array)


def _trace_outputs(
    builder: IRBuilder,
    outputs: list[Any],
    arguments: dict[int, int],
    views: dict[int, TraceOutput],
    paths: Mapping[int, SignaturePath],
) -> list[TraceOutput]:
    """How each leaf of the result is returned; existing objects are returned themselves."""
    results: list[TraceOutput] = []
    seen: dict[int, int] = {}
    for number, x in enumerate(outputs):
        if id(x) in paths:
            results.append(TraceOutput(ContainerOut(paths[id(x)])))
        elif not isinstance(x, Tracked):
            results.append(TraceOutput(ConstantOut(x)))
        elif id(x) in arguments:
            results.append(TraceOutput(InputOut(arguments[id(x)])))
        elif id(x) in seen:
            results.append(TraceOutput(AliasOut(seen[id(x)])))
        else:
            seen[id(x)] = number
            results.append(views.get(id(x)) or builder.output(x))
    return results


class IRBuilder:
    """Turns the equations that a tracer has recorded into IR."""

    def __init__(
        self,
        tracer: Tracer,
        inputs: list[Value],
        captured_values: Mapping[Value, int] | None = None,
    ) -> None:
        self.tracer = tracer
        self.captured_values = captured_values or {}  # leaf numbers
        self.vars: dict[Value, Var] = {value: Var(type_of(value.aval)) for value in inputs}
        self.body: list[Eqn | Guard] = []
        self.captured: list[Var] = []
        self.arrays: list[Any] = []
        self.owners: list[ParamState | None] = []
        self.captures_by_key: dict[Hashable, Var] = {}
        self.outer_values: set[Value] = set()  # computed without the trace
        self.unheld_arrays = unreferenced_operands(tracer.recording.equations)
        self.bool_ints: dict[Var, Var] = {}  # ints of Python bools
        self.source_lines: dict[tuple[int, int], str] = {}  # by id of the code, which hashes slowly
        self.position = 0  # of the equation being built

    def build_equations(self) -> None:
        guards = iter(self.tracer.guards.conversions)
        due = next(guards, None)
        known, find, aliases = self.vars, self.atom, self.tracer.recording.aliases
        for now, (value, code, line) in enumerate(self.tracer.recording.equations):
            if value in aliases:
                continue
            self.position = now
            while due is not None and due[0] <= self.position:
                self._add_guard(*due[1:])
                due = next(guards, None)
            operands = tuple(
                [(known.get(o) if type(o) is Value else None) or find(o) for o in value.operands]
            )
            if type(value.aval) in (int, float, complex):
                operands = tuple(map(self._bool_as_int, operands, value.operands))
            out = Var(type_of(value.aval))
            self.vars[value] = out
            if self.tracer.recording.known:
                self._read_equal_values(value)
            assert value.op is not None
            params = value.params
            if params and type(params.get("index")) is IterationIndex:
                params = {**params, "index": tuple(params["index"])}
            self.body.append(Eqn(value.op, operands, params, out, self._source_line(code, line)))
        while due is not None:
            self._add_guard(*due[1:])
            due = next(guards, None)

    def _read_equal_values(self, value: Value) -> None:
        """Read a value as one that is known to be equal, from here on."""
        recording = self.tracer.recording
        known = recording.known.get(value)
        if known is None and value.operands and type(value.operands[0]) is Value:
            known = recording.known.get((value.operands[0], value.params.get("at")))
        pairs = [(value, known)] if known is not None else []
        pairs += [(old, value) for old in recording.renewed.get(value, ())]
        for old, new in pairs:
            have, found = self.vars.get(old), self.vars.get(new)
            if have is not None and found is not None and have.type == found.type:
                self.vars[old] = found

    def _bool_as_int(self, atom: Atom, operand: Any) -> Atom:
        """An operand of Python arithmetic, where a bool counts as an int."""
        if type(operand.aval if type(operand) is Value else operand) is not bool:
            return atom
        if isinstance(atom, Const):
            return Const.of(int(atom.value))
        known = self.bool_ints.get(atom)
        if known is None:
            wide = Var(type_of(np.int64(0)))
            known = self.bool_ints[atom] = Var(type_of(0))
            where = self.body[-1].where if self.body else ""
            self.body.append(Eqn(to_discrete, (atom,), {"dtype": wide.type.dtype}, wide, where))
            self.body.append(Eqn(item, (wide,), {}, known, where))
        return known

    def _source_line(self, code: Any, line: int) -> str:
        if type(code) is str:  # of an equation that was recorded again
            return code
        key = id(code), line
        text = self.source_lines.get(key)
        if text is None:
            text = self.source_lines[key] = "" if code is None else f"{code.co_filename}:{line}"
        return text

    def _add_guard(self, value: Value, kind: str, at: tuple[Any, int], expected: Any) -> None:
        atom = self.atom(value)
        if isinstance(atom, Var):
            if expected is None:
                expected = GUARD_CONVERSIONS[kind](value.data)
            self.body.append(Guard(atom, kind, expected, self._source_line(*at)))

    def atom(self, operand: Any) -> Atom:
        """The atom of an operand: a variable, a literal, or a capture."""
        if type(operand) is Value:
            known = self.vars.get(operand)
            if known is not None:
                return known
            original = self.tracer.recording.aliases.get(operand)
            return self._outer_value(operand) if original is None else self.atom(original)
        if isinstance(operand, np.ndarray):
            return self._array_atom(operand)
        return Const.of(operand)

    def _outer_value(self, value: Value) -> Atom:
        """A value that the traced code did not compute: a param, captured state, or a constant by
        now."""
        if value in self.tracer.recording.inner_values:
            raise UnsupportedError(
                "a value made inside the body of a loop or branch is used outside of it",
                "Return it from the body: scan, while_loop, cond ... give back what it returns",
            )
        if value in self.captured_values:
            return self._capture(value.data, None, id(value), self.captured_values[value])
        if isinstance(value.params, ParamState):
            return self._capture(value.data, value.params, id(value.params))
        if depends_on_live_leaf(value, params=False):
            raise TraceAbandoned
        self._check_other_threads(value)
        if isinstance(value.aval, np.ndarray):
            return self._array_capture(value.data)
        return Const.of(value.data)

    def _check_other_threads(self, value: Value) -> None:
        """Refuse values that another thread has computed from the trace's own: they were not
        recorded."""
        history = list(history_of(value, self.outer_values))
        if not self.vars.keys().isdisjoint(history):
            raise UnsupportedError(
                "what another thread has computed of a traced value is no part of the trace",
                "Compute it in this thread",
            )
        self.outer_values.update(history)

    def _array_atom(self, array: Any) -> Atom:
        """A plain array: by reference, or its contents at this read if the traced code has changed
        it since."""
        then = self.tracer.recording.plain_arrays.at(array, self.position)
        if then is array:
            return self._array_capture(array)
        return self._capture(then, None, _content_key(then))

    def _array_capture(self, array: Any) -> Var:
        is_held = id(array) not in self.unheld_arrays
        return self._capture(array, None, id(array) if is_held else _content_key(array))

    def _capture(
        self, data: Any, owner: ParamState | None, key: Hashable, number: int | None = None
    ) -> Var:
        var = self.captures_by_key.get(key)
        if var is None:
            var = self.captures_by_key[key] = Var(type_of(data))
            self.captured.append(var)
            self.arrays.append(data if number is None else number)
            self.owners.append(owner)
        return var

    def output(self, x: Tracked) -> TraceOutput:
        value = value_of(x)
        atom = self.atom(value)
        if isinstance(value.aval, np.ndarray):
            order = k_order_strides(value.aval)
            return TraceOutput(array_out(atom.type, order), atom, order)
        is_python = not isinstance(value.aval, np.generic)
        return TraceOutput(scalar_out(atom.type, is_python), atom)


def _content_key(array: Any) -> Hashable:
    """Equal for arrays with the same contents and memory layout."""
    if array.nbytes > _MAX_COMPARED_BYTES or array.dtype.kind not in "biufc":
        return id(array)
    return array.dtype.str, array.shape, array.strides, array.tobytes()
