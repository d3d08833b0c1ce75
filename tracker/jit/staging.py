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

import functools
import itertools
import operator
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracker import tree
from tracker.deferral import Deferral, Misjudged
from tracker.draws import Patched, Watch
from tracker.errors import CompileError, UnsupportedError, is_internal, message
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
from tracker.jit.inputs import Effects, Inputs
from tracker.jit.places import Place, Spot, with_places
from tracker.jit.reads import is_library_file, places_of
from tracker.jit.signature import (
    Array,
    Signature,
    Static,
    ViewOut,
    array_leaf,
    signature_of,
)
from tracker.jit.standins import Containers, StandIns, holds_handle, plain
from tracker.jit.strides import MemoryOrder, kept_order
from tracker.leaving import refused, unlock
from tracker.ops.create import item, to_discrete
from tracker.origins import depends_elsewhere
from tracker.records import record
from tracker.replay import CONVERSIONS
from tracker.snapshots import same_bytes
from tracker.stage import Stage
from tracker.tape import is_put_off, value_of
from tracker.tracked import Leaf, Tracked
from tracker.values import Value


@record()
class Output:
    """One leaf of the result: an atom of the function, or a constant object.

    kind: 'array', 'numpy' (a NumPy scalar), 'python' (a Python number): `atom` says what it holds;
    'constant': the object `constant`; 'input': the very argument leaf number `constant`; 'view': a
    view of an argument, `constant` says which; 'same': the very object that result leaf number
    `constant` is. `order`: how an array lies in memory.
    """

    kind: str
    atom: Atom | None
    constant: Any = None
    order: MemoryOrder = None


@record()
class ViewOf:
    """A view of an array that is a leaf: where it lies, and `cut`, which makes it."""

    out: ViewOut
    cut: Callable[[Any], Any]


@record()
class Trace:
    """See the file's header. `inputs[i]` is the leaf number of input i; `captures[i]` is the leaf
    number of an array that stands at a place, or an array that the code reached otherwise.

    `function` has the atoms of `outputs` that have one, then those of the leaves in `writes`.
    `call` is the signature of calls that the trace holds for; `lasting` whether a call leaves what
    the code reads as it was: else what it does to it happens only while plain Python runs. It holds
    only while the leaves in `writes` and `apart` share memory with no other. `varying`: where
    numbers at places are inputs.
    """

    function: Function
    call: Signature
    inputs: list[int]
    captures: list[Any]
    owners: list[Leaf | None]
    outputs: list[Output]
    structure: tree.Structure
    writes: list[int]
    lasting: bool = True
    apart: tuple[int, ...] = ()
    varying: frozenset[Spot] = frozenset()


@record()
class Staged:
    """A trace (None, and `why` it is), what the function returned, and what is still to be done.
    `leaves` are those of the call, and of what stands at places."""

    trace: Trace | None
    returned: _Returned
    effects: Effects
    leaves: list[Any]
    deferral: Deferral | None
    why: str = ""

    @property
    def computed(self) -> bool:
        """Whether all that the call gives and writes is there."""
        handles = (*self.returned.outputs, *(write.handle for write in self.effects.writes))
        return not any(map(is_put_off, handles))

    def finish(self) -> Any:
        """The plain function's result, after what it wrote was carried out."""
        result = self.returned.plain()
        self.effects.carry_out()
        return result

    @property
    def whole(self) -> Trace:
        """The trace; CompileError if there is none."""
        if self.trace is None:
            raise CompileError(f"it cannot be traced: {self.why}")
        return self.trace


@record()
class _Returned:
    """What a function returned: the leaves, as handles where they are values, and the structure.
    `known`: the id of a handle -> the very object that the caller gets."""

    outputs: list[Any]
    structure: tree.Structure
    template: Any
    known: dict[int, Any]

    def plain(self) -> Any:
        results = [self.known.setdefault(id(x), plain(x)) for x in self.outputs]
        return tree.unflatten(self.structure, results, self.template)


class GuardFailed(Exception):
    """A compiled trace met a guard that does not hold."""


class Entangled(Exception):
    """The function reached a value that a derivative around the call is following."""


def stage(
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    static: frozenset[int | str] = frozenset(),
    name: str = "",
    *,
    on_error: Callable[[Exception, Effects], None] | None = None,
    places: Sequence[Place] | None = None,
    varying: frozenset[Spot] = frozenset(),
    with_views: bool = False,
    deferring: bool = False,
) -> Staged:
    """Trace `f` at these arguments, whose own arrays are left alone.

    on_error  told of an exception in `f`, and of what `f` had done by then
    places    what `f` can read, where that is known already
    varying   where captured numbers are inputs, not constants
    with_views  whether a result that is a view of an argument is one of the caller's array
    deferring   whether the numbers of large arrays may be put off
    """
    kwargs = kwargs or {}
    given, own = signature_of(args, kwargs, static)
    if places is None:
        places = places_of(f, static_leaves(given, own))
    call, leaves = with_places(given, own, places, varying)
    deferral = Deferral() if deferring else None
    inputs = Inputs(call, leaves, len(own), deferral)
    positional, named = _rebuilt(given, inputs.whole, args, kwargs)
    containers = Containers((*args, *kwargs.values()), (*positional, *named.values()))
    stand_ins = StandIns(places, inputs.at_places, inputs.at_spots)
    listener = Stage(deferral=deferral)
    listener.given, listener.placed = frozenset(inputs.values), frozenset(inputs.placed)
    with listener, Watch(inputs.generators) as watch, Patched():
        try:
            stand_ins.put(leaves[len(own) :])
            result = f(*positional, **named)
            watch.check()
            outputs, out_structure = tree.flatten(result)
            for handle in (*outputs, *inputs.handles):  # views are read while somebody listens
                if isinstance(handle, Tracked):
                    value_of(handle)
        except Exception as error:
            if deferral is not None:
                deferral.asked()
            unlock(listener, ())
            if refused(error, listener) or _is_librarys(error):
                raise UnsupportedError(f"{type(error).__name__}: {error}") from error
            if on_error is not None:
                on_error(error, inputs.effects(containers))
            raise
        finally:
            stand_ins.take_back()
            inputs.close()
    if deferral is not None and deferral.wrong:
        raise Misjudged
    unlock(listener, outputs)
    _refuse_holders(outputs)
    inputs.check_shapes()
    views = _views(outputs, inputs) if with_views else {}
    made = inputs.originals()
    made |= {key: view.cut(leaves[view.out.leaf]) for key, view in views.items()}
    effects = inputs.effects(containers)
    returned = _Returned(outputs, out_structure, result, made)
    staged = Staged(None, returned, effects, leaves, deferral)
    staged.why = listener.spoilt or _caught(listener.errors)
    if staged.why:
        return staged
    function, builder, shown = _function(name or _name(f), listener, inputs, outputs, views)
    staged.trace = Trace(
        function,
        call,
        inputs.given,
        builder.arrays,
        builder.owners,
        shown,
        out_structure,
        [write.number for write in effects.writes],
        not (containers.changed or stand_ins.disturbed)
        and _lasts(f, given, own, call, leaves, varying),
        inputs.among(listener.apart),
        varying,
    )
    return staged


def _is_librarys(error: Exception) -> bool:
    """Whether a library has raised an error that it may not have for the plain values: its code
    asks for a type by other ways than `isinstance`, as the encoder of json does."""
    if not isinstance(error, (TypeError, AttributeError)):
        return False
    files, at = [], error.__traceback__
    while at is not None:
        if not is_internal(at.tb_frame.f_code):
            files.append(at.tb_frame.f_code.co_filename)
        at = at.tb_next
    return bool(files) and files[-1] != files[0] and is_library_file(files[-1])


def _refuse_holders(outputs: list[Any]) -> None:
    """Refuse results that would be given back as they are, with values of the trace in them."""
    for x in outputs:
        if type(x) is not Tracked and holds_handle(x):
            raise UnsupportedError(
                message(
                    f"the function returns a {type(x).__name__} that holds values it computed",
                    "Return arrays, numbers, and tuples, lists, dicts or dataclasses of them; or "
                    "register the class with tracker.tree.register",
                    "",
                )
            )


def _caught(errors: list[Exception]) -> str:
    """Why a trace does not hold whose function went on after an error that a value gave rise to."""
    if not errors:
        return ""
    what = f"{type(errors[0]).__name__}: {errors[0]}"
    return message(
        f"the function goes on after an error that depends on values ({what})",
        "Ask for the value first: if d == 0",
    )


def _name(f: Callable[..., Any]) -> str:
    return str(getattr(f, "__name__", "function")).replace("<lambda>", "function")


def _function(
    name: str, listener: Stage, inputs: Inputs, outputs: list[Any], views: dict[int, ViewOf]
) -> tuple[Function, Builder, list[Output]]:
    """What was heard, as a function that gives the outputs, then what is written."""
    builder = Builder(listener, inputs.values, inputs.placed)
    builder.read_notes()
    shown = _outputs(builder, outputs, inputs.numbers(), views)
    atoms = [o.atom for o in shown if o.atom is not None]
    atoms += [builder.atom(value_of(write.handle)) for write in inputs.written()]
    function = Function(
        name,
        tuple(builder.vars[value] for value in inputs.values),
        tuple(builder.captured),
        tuple(builder.body),
        tuple(atoms),
        nested_functions(builder.body),
    )
    name_variables(function)
    verify(function)
    return function, builder, shown


def static_leaves(call: Signature, leaves: Sequence[Any]) -> list[Any]:
    """The objects among a call's arguments."""
    return [x for x, leaf in zip(leaves, call.leaves, strict=True) if isinstance(leaf, Static)]


def _rebuilt(
    call: Signature, whole: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments with other leaves."""
    given = iter(whole)
    templates = (*args, *kwargs.values())
    rebuilt = [
        tree.unflatten(structure, itertools.islice(given, structure.count), template)
        for structure, template in zip(call.structures, templates, strict=True)
    ]
    return rebuilt[: len(args)], dict(zip(kwargs, rebuilt[len(args) :], strict=True))


def _lasts(
    f: Callable[..., Any],
    given: Signature,
    own: Sequence[Any],
    call: Signature,
    leaves: Sequence[Any],
    varying: frozenset[Spot],
) -> bool:
    """Whether what the function reads is still as it was before it ran."""
    places = places_of(f, static_leaves(given, own))
    after, found = with_places(given, own, places, varying)
    return after == call and all(map(operator.is_, found, leaves))


def _views(outputs: list[Any], inputs: Inputs) -> dict[int, ViewOf]:
    """Which outputs, by the id of the handle, are views of what was given, as NumPy has it."""
    numbers = inputs.numbers()
    found: dict[int, ViewOf] = {}
    for x in outputs:
        base, cuts = x, []
        while type(base) is Tracked and (view := getattr(base, "_view", None)) is not None:
            cuts.append(view.cut)
            base = view.base
        if not cuts or id(base) not in numbers:
            continue
        number = numbers[id(base)]
        array = inputs.arrays[number]
        cut = functools.partial(_cut, tuple(reversed(cuts)))
        if isinstance(array_leaf(array), Array):
            made, value = cut(array), value_of(x).form
            if type(made) is np.ndarray and np.may_share_memory(made, array):
                assert (made.shape, made.dtype) == (value.shape, value.dtype)
                offset = _address(made) - _address(array)
                out = ViewOut(number, made.dtype, made.shape, made.strides, offset)
                found[id(x)] = ViewOf(out, cut)
    return found


def _address(array: Any) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _cut(cuts: tuple[Callable[[Any], Any], ...], array: Any) -> Any:
    return functools.reduce(lambda x, cut: cut(x), cuts, array)


def _outputs(
    builder: Builder, outputs: list[Any], arguments: dict[int, int], views: dict[int, ViewOf]
) -> list[Output]:
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
            view = views.get(id(x))
            shown.append(builder.output(x) if view is None else Output("view", None, view))
    return shown


class Builder:
    """Turns what a stage heard into equations."""

    def __init__(
        self, listener: Stage, inputs: list[Value], placed: Mapping[Value, int] | None = None
    ) -> None:
        self.listener = listener
        self.placed = placed or {}  # what stands at places -> its leaf number
        self.vars: dict[Value, Var] = {value: Var(type_of(value.form)) for value in inputs}
        self.body: list[Eqn | Guard] = []
        self.captured: list[Var] = []
        self.arrays: list[Any] = []
        self.owners: list[Leaf | None] = []
        self.known: dict[int, Var] = {}
        self.numbers: dict[Var, Var] = {}  # a Python bool -> the int that it is
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
            operands = tuple([self.atom(o) for o in value.operands])
            if type(value.form) in (int, float, complex):
                operands = tuple(map(self._number, operands, value.operands))
            out = Var(type_of(value.form))
            self.vars[value] = out
            assert value.op is not None
            self.body.append(Eqn(value.op, operands, value.params, out, self._where(code, line)))
        while due is not None:
            self._guard(*due[1:])
            due = next(guards, None)

    def _number(self, atom: Atom, operand: Any) -> Atom:
        """An operand of Python's arithmetic, in which a bool is an int."""
        if type(operand.form if type(operand) is Value else operand) is not bool:
            return atom
        if isinstance(atom, Const):
            return Const.of(int(atom.value))
        known = self.numbers.get(atom)
        if known is None:
            wide = Var(type_of(np.int64(0)))
            known = self.numbers[atom] = Var(type_of(0))
            where = self.body[-1].where if self.body else ""
            self.body.append(Eqn(to_discrete, (atom,), {"dtype": wide.type.dtype}, wide, where))
            self.body.append(Eqn(item, (wide,), {}, known, where))
        return known

    def _where(self, code: Any, line: int) -> str:
        key = (code, line)
        text = self.lines.get(key)
        if text is None:
            text = self.lines[key] = "" if code is None else f"{code.co_filename}:{line}"
        return text

    def _guard(self, value: Value, kind: str, at: tuple[Any, int], expected: Any) -> None:
        atom = self.atom(value)
        if isinstance(atom, Var):
            if expected is None:
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
        if value in self.placed:
            return self._capture(value.data, None, id(value), self.placed[value])
        if isinstance(value.params, Leaf):
            return self._capture(value.data, value.params, id(value.params))
        if depends_elsewhere(value, params=False):
            raise Entangled
        if isinstance(value.form, np.ndarray):
            return self._capture(value.data, None, id(value.data))
        return Const.of(value.data)

    def _array(self, array: Any) -> Atom:
        """A plain array: by reference; as it was, where the traced code changed it since."""
        images = self.listener.images.get(id(array), [])
        if not images or (len(images) == 1 and same_bytes(images[0][1], array)):
            return self._capture(array, None, id(array))
        image = next(image for since, image in reversed(images) if since <= self.now)
        return self._capture(image, None, id(image))

    def _capture(self, data: Any, owner: Leaf | None, key: int, number: int | None = None) -> Var:
        var = self.known.get(key)
        if var is None:
            var = self.known[key] = Var(type_of(data))
            self.captured.append(var)
            self.arrays.append(data if number is None else number)
            self.owners.append(owner)
        return var

    def output(self, x: Any) -> Output:
        if not isinstance(x, Tracked):
            return Output("constant", None, x)
        value = value_of(x)
        atom = self.atom(value)
        if isinstance(value.form, np.ndarray):
            return Output("array", atom, order=kept_order(value.form))
        return Output("numpy" if isinstance(value.form, np.generic) else "python", atom)
