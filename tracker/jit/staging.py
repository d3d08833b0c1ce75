"""Staging: run a function on real values, listen to the gate, and get an `ir.Function`.

Owns: `stage` and its result, `Trace`. A trace says what the function computed (`function`), which
leaves of the arguments are its inputs, which arrays it captured, how results are put together, and
which argument arrays it wrote into.

Invariants
1. The function is verified before anybody sees it.
2. Captured arrays are inputs by reference; a captured array that the traced code itself changed
   while it ran was scratch paper, and is baked in as it was when it was read.
3. An exception in the traced function leaves no stage behind.
"""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracker import tree
from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, Var, name_variables
from tracker.ir.types import type_of
from tracker.ir.verify import verify
from tracker.jit.signature import Static, signature_of
from tracker.tape import Stage, Value, close, leaf, value_of, wrap
from tracker.tracked import Leaf, Tracked

CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "bool": bool,
    "int": int,
    "hash": lambda x: x.item() if hasattr(x, "item") else x,
    "floor": lambda x: int(np.floor(x)),
    "ceil": lambda x: int(np.ceil(x)),
    "round": lambda x: int(np.rint(x)),
}


@dataclass(slots=True)
class Output:
    """One leaf of the result: an atom of the function, or a constant object.

    kind: 'array', 'numpy' (a NumPy scalar), 'python' (a Python number), 'constant'.
    """

    kind: str
    atom: Atom | None
    constant: Any = None


@dataclass(slots=True)
class Write:
    """An argument's array, by leaf number, as the function left it: its atom, its numbers now."""

    number: int
    atom: Atom
    data: Any


@dataclass(slots=True)
class Trace:
    """See the file's header. `inputs[i]` is the leaf number (of all arguments) of input i.

    `function` has the atoms of `outputs` that are not constants, then those of `writes`.
    """

    function: Function
    inputs: list[int]
    captures: list[Any]
    owners: list[Leaf | None]
    outputs: list[Output]
    structure: tree.Structure
    result: Any
    writes: list[Write]


def is_input(x: Any) -> bool:
    """Whether an argument's leaf is traced (numbers and numeric arrays) or static."""
    if isinstance(x, np.ndarray):
        return x.dtype.kind in "biufc"
    if type(x) is int:
        return -(2**63) <= x < 2**63
    return isinstance(x, (bool, float, complex, np.bool_, np.number))


def stage(
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    static: frozenset[int | str] = frozenset(),
    name: str = "",
) -> Trace:
    """Trace `f` at these arguments. Their own arrays are never written into."""
    kwargs = kwargs or {}
    call, leaves = signature_of(args, kwargs, static)
    inputs: list[int] = []
    values: list[Value] = []
    whole = list(leaves)
    for number, x in enumerate(leaves):
        if is_input(x) and not isinstance(call.leaves[number], Static):
            value = leaf(np.array(x) if isinstance(x, np.ndarray) else x)
            inputs.append(number)
            values.append(value)
            whole[number] = wrap(value)
    handles = [whole[number] for number in inputs]
    given = iter(whole)
    templates = (*args, *kwargs.values())
    rebuilt = [
        tree.unflatten(structure, itertools.islice(given, structure.count), template)
        for structure, template in zip(call.structures, templates, strict=True)
    ]
    named = dict(zip(kwargs, rebuilt[len(args) :], strict=True))
    with Stage() as listener:
        try:
            result = f(*rebuilt[: len(args)], **named)
            outputs, out_structure = tree.flatten(result)
            for handle in (*outputs, *handles):  # views are read again while somebody listens
                if isinstance(handle, Tracked):
                    value_of(handle)
        finally:
            for value in values:
                close(value)
    builder = _Builder(listener, values)
    builder.read_notes()
    shown = [builder.output(out) for out in outputs]
    writes = [
        Write(number, builder.atom(value_of(handle)), value_of(handle).data)
        for number, value, handle in zip(inputs, values, handles, strict=True)
        if value_of(handle) is not value
    ]
    atoms = [o.atom for o in shown if o.atom is not None] + [write.atom for write in writes]
    function = Function(
        name or getattr(f, "__name__", "function").replace("<lambda>", "function"),
        tuple(builder.vars[value] for value in values),
        tuple(builder.captured),
        tuple(builder.body),
        tuple(atoms),
    )
    name_variables(function)
    verify(function)
    return Trace(
        function,
        inputs,
        builder.arrays,
        builder.owners,
        shown,
        out_structure,
        tree.unflatten(out_structure, map(data_copy, outputs), result),
        writes,
    )


def data_copy(x: Any) -> Any:
    """The plain data of a result, as the caller's own."""
    if not isinstance(x, Tracked):
        return x
    data = value_of(x).data
    return data.copy() if isinstance(data, np.ndarray) else data


class _Builder:
    """Turns what a stage heard into equations."""

    def __init__(self, listener: Stage, inputs: list[Value]) -> None:
        self.listener = listener
        self.vars: dict[Value, Var] = {value: Var(type_of(value.data)) for value in inputs}
        self.body: list[Eqn | Guard] = []
        self.captured: list[Var] = []
        self.arrays: list[Any] = []
        self.owners: list[Leaf | None] = []
        self.known: dict[int, Var] = {}
        self.lines: dict[tuple[types.CodeType | None, int], str] = {}

    def read_notes(self) -> None:
        guards = iter(self.listener.guards)
        due = next(guards, None)
        for count, (value, code, line) in enumerate(self.listener.notes):
            while due is not None and due[0] <= count:
                self._guard(*due[1:])
                due = next(guards, None)
            operands = tuple(self.atom(o) for o in value.operands)
            out = Var(type_of(value.data))
            self.vars[value] = out
            assert value.op is not None
            self.body.append(Eqn(value.op, operands, value.params, out, self._where(code, line)))
        while due is not None:
            self._guard(*due[1:])
            due = next(guards, None)

    def _where(self, code: Any, line: int) -> str:
        key = (code, line)
        text = self.lines.get(key)
        if text is None:
            text = self.lines[key] = "" if code is None else f"{code.co_filename}:{line}"
        return text

    def _guard(self, value: Value, kind: str, at: tuple[Any, int]) -> None:
        if value not in self.vars:
            return
        expected = CONVERSIONS[kind](value.data)
        self.body.append(Guard(self.vars[value], kind, expected, self._where(*at)))

    def atom(self, operand: Any) -> Atom:
        """The atom of an operand: a variable, a literal, or a capture."""
        if type(operand) is Value:
            known = self.vars.get(operand)
            if known is not None:
                return known
            owner = operand.params if isinstance(operand.params, Leaf) else None
            if isinstance(operand.data, np.ndarray) or owner is not None:
                return self._capture(operand.data, owner, id(owner or operand.data))
            return Const.of(operand.data)
        if isinstance(operand, np.ndarray) and operand.ndim:
            return self._capture(self._as_read(operand), None, id(operand))
        return Const.of(operand[()] if isinstance(operand, np.ndarray) else operand)

    def _as_read(self, array: Any) -> Any:
        """The array itself; what it held when it was read, if the traced code changed it since."""
        _, image = self.listener.images.get(id(array), (None, None))
        if image is None or np.array_equal(image, array, equal_nan=array.dtype.kind in "fc"):
            return array
        return image

    def _capture(self, data: Any, owner: Leaf | None, key: int) -> Var:
        var = self.known.get(key)
        if var is None:
            var = self.known[key] = Var(type_of(data))
            self.captured.append(var)
            self.arrays.append(data)
            self.owners.append(owner)
        return var

    def output(self, x: Any) -> Output:
        if not isinstance(x, Tracked):
            return Output("constant", None, x)
        value = value_of(x)
        atom = self.atom(value)
        if isinstance(value.data, np.ndarray):
            return Output("array", atom)
        return Output("numpy" if isinstance(value.data, np.generic) else "python", atom)


