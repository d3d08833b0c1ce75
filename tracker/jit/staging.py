"""Staging: run a function on real values, listen to the gate, and get an `ir.Function`.

Owns: `stage` and its result, `Trace`. A trace says what the function computed (`function`), which
leaves of the arguments are its inputs, which arrays it captured, how results are put together, and
which argument arrays it wrote into.

Invariants
1. The function is verified before anybody sees it.
2. Captured arrays are inputs by reference; a captured array that the traced code itself changed
   while it ran was scratch paper, and is baked in as it was at each time it was read.
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
from tracker.errors import UnsupportedError, message
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
from tracker.ir.verify import verify
from tracker.jit.signature import Static, signature_of
from tracker.replay import CONVERSIONS
from tracker.tape import Stage, Value, close, leaf, same_bytes, value_of, wrap
from tracker.tracked import Leaf, Tracked


@dataclass(slots=True)
class Output:
    """One leaf of the result: an atom of the function, or a constant object.

    kind: 'array', 'numpy' (a NumPy scalar), 'python' (a Python number): `atom` says what it holds;
    'constant': the object `constant`; 'input': the very argument leaf number `constant`; 'same':
    the very object that result leaf number `constant` is.
    """

    kind: str
    atom: Atom | None
    constant: Any = None


@dataclass(slots=True)
class Write:
    """An argument's array, by leaf number, that the function wrote into, as the code saw it."""

    number: int
    handle: Tracked

    def carry_out(self, leaves: Sequence[Any]) -> None:
        leaves[self.number][...] = value_of(self.handle).data


@dataclass(slots=True)
class Trace:
    """See the file's header. `inputs[i]` is the leaf number (of all arguments) of input i.

    `function` has the atoms of `outputs` that have one, then those of the leaves in `writes`.
    """

    function: Function
    inputs: list[int]
    captures: list[Any]
    owners: list[Leaf | None]
    outputs: list[Output]
    structure: tree.Structure
    writes: list[int]


class Entangled(Exception):
    """The function reached a value that a derivative around the call is following."""


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
    on_error: Callable[[Exception, list[Write]], None] | None = None,
) -> tuple[Trace, Any, list[Write]]:
    """Trace `f` at these arguments: the trace, the result, and what is to be written into
    arguments, whose own arrays are left alone.

    on_error: told of an exception in `f`, and of what `f` had written by then.
    """
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
        except Exception as error:
            if on_error is not None:
                on_error(error, _written(inputs, values, handles))
            raise
        finally:
            for value in values:
                close(value)
    builder = Builder(listener, values)
    builder.read_notes()
    shown = _outputs(builder, outputs, dict(zip(map(id, handles), inputs, strict=True)))
    writes = _written(inputs, values, handles)
    atoms = [o.atom for o in shown if o.atom is not None]
    atoms += [builder.atom(value_of(write.handle)) for write in writes]
    function = Function(
        name or getattr(f, "__name__", "function").replace("<lambda>", "function"),
        tuple(builder.vars[value] for value in values),
        tuple(builder.captured),
        tuple(builder.body),
        tuple(atoms),
        nested_functions(builder.body),
    )
    name_variables(function)
    verify(function)
    done = Trace(
        function,
        inputs,
        builder.arrays,
        builder.owners,
        shown,
        out_structure,
        [write.number for write in writes],
    )
    plain = _plain_results(shown, outputs, leaves)
    return done, tree.unflatten(out_structure, plain, result), writes


def _written(inputs: list[int], values: list[Value], handles: list[Any]) -> list[Write]:
    """Which argument arrays hold something else than they did."""
    return [
        Write(number, handle)
        for number, value, handle in zip(inputs, values, handles, strict=True)
        if value_of(handle) is not value
    ]


def _outputs(builder: Builder, outputs: list[Any], arguments: dict[int, int]) -> list[Output]:
    """How each leaf of the result is given back; an object that is there already stays itself."""
    shown: list[Output] = []
    seen: dict[int, int] = {}
    for number, x in enumerate(outputs):
        if not isinstance(x, Tracked):
            shown.append(Output("constant", None, x))
        elif id(x) in arguments:
            shown.append(Output("input", None, arguments[id(x)]))
        elif id(x) in seen:
            shown.append(Output("same", None, seen[id(x)]))
        else:
            seen[id(x)] = number
            shown.append(builder.output(x))
    return shown


def _plain_results(shown: list[Output], outputs: list[Any], leaves: list[Any]) -> list[Any]:
    results: list[Any] = []
    for out, x in zip(shown, outputs, strict=True):
        if out.kind == "input":
            results.append(leaves[out.constant])
        elif out.kind == "same":
            results.append(results[out.constant])
        else:
            results.append(data_copy(x))
    return results


def data_copy(x: Any) -> Any:
    """The plain data of a result, as the caller's own."""
    if not isinstance(x, Tracked):
        return x
    data = value_of(x).data
    return data.copy() if isinstance(data, np.ndarray) else data


def _is_followed(root: Value) -> bool:
    """Whether a derivative that has not finished yet may ask where a value came from."""
    seen = {root}
    stack = [root]
    while stack:
        value = stack.pop()
        if value.op is None and not isinstance(value.params, Leaf):
            return True
        for operand in value.operands:
            if type(operand) is Value and operand not in seen:
                seen.add(operand)
                stack.append(operand)
    return False


class Builder:
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
        self.now = 0  # which note is being read

    def read_notes(self) -> None:
        guards = iter(self.listener.guards)
        due = next(guards, None)
        for now, (value, code, line) in enumerate(self.listener.notes):
            self.now = now
            while due is not None and due[0] <= self.now:
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
        atom = self.atom(value)
        if isinstance(atom, Var):
            expected = CONVERSIONS[kind](value.data)
            self.body.append(Guard(atom, kind, expected, self._where(*at)))

    def atom(self, operand: Any) -> Atom:
        """The atom of an operand: a variable, a literal, or a capture."""
        if type(operand) is Value:
            known = self.vars.get(operand)
            if known is not None:
                return known
            original = self.listener.aliases.get(operand)
            return self._outside(operand) if original is None else self.atom(original)
        if isinstance(operand, np.ndarray):
            return self._array(operand)
        return Const.of(operand)

    def _outside(self, value: Value) -> Atom:
        """A value that the traced code did not compute: a param, or what is a constant by now."""
        if value in self.listener.inner:
            raise UnsupportedError(
                message(
                    "a value made inside the body of a loop or branch is used outside of it",
                    "Return it from the body: scan, while_loop, cond ... give back what it returns",
                )
            )
        if isinstance(value.params, Leaf):
            return self._capture(value.data, value.params, id(value.params))
        if _is_followed(value):
            raise Entangled
        if isinstance(value.data, np.ndarray):
            return self._capture(value.data, None, id(value.data))
        return Const.of(value.data)

    def _array(self, array: Any) -> Atom:
        """A plain array: by reference; as it was, where the traced code changed it since."""
        images = self.listener.images.get(id(array), [])
        if not images or (len(images) == 1 and same_bytes(images[0][1], array)):
            return self._capture(array, None, id(array))
        image = next(image for since, image in reversed(images) if since <= self.now)
        return self._capture(image, None, id(image))

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
