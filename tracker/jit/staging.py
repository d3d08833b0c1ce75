"""Staging: run a function on real values, listen to the gate, and get an `ir.Function`.

Owns: `stage` and its result, `Trace`. A trace says what the function computed (`function`), which
leaves of the arguments are its inputs, which arrays it captured, how results are put together, and
which argument arrays it wrote into. How notes become equations is in `building.py`.

Invariant: an exception in the traced function leaves no stage behind.
"""

from __future__ import annotations

import itertools
import operator
import sys
import types
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from tracker import tree
from tracker.deferral import Deferral, Misjudged
from tracker.draws import Patched, Watch
from tracker.errors import CompileError, UnsupportedError, is_internal, message
from tracker.ir.graph import Function
from tracker.jit.answers import Answers
from tracker.jit.asking import Asking
from tracker.jit.building import Output, build, views_of
from tracker.jit.compared import Compared, Static
from tracker.jit.inputs import Effects, Inputs
from tracker.jit.libraries import is_library_file
from tracker.jit.places import Spot, goes_on, with_places
from tracker.jit.reads import Reads, places_of, reads_of
from tracker.jit.signature import Signature, signature_of
from tracker.jit.standins import (
    Containers,
    StandIns,
    holds_handle,
    plain,
    plain_keys_within,
    surely,
    with_plain_keys,
)
from tracker.leaving import refused, unlock
from tracker.ops.create import buffer
from tracker.records import record
from tracker.snapshots import own_copy
from tracker.stage import Stage
from tracker.tape import value_of
from tracker.tracked import Leaf, Tracked
from tracker.values import Value, is_due


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

    def is_ahead(self, soon: int, weight: Callable[[Value], int]) -> bool:
        """Whether the numbers of all that the call gives and writes are there, or soon are: see
        `Deferral.is_ahead`."""
        return self.deferral is None or self.deferral.is_ahead(self._values, soon, weight)

    @property
    def is_left(self) -> bool:
        """Whether there are numbers to be computed."""
        return any(map(is_due, self._values))

    @property
    def _values(self) -> list[Value]:
        handles = (*self.returned.outputs, *(write.handle for write in self.effects.writes))
        return [value_of(x) for x in handles if type(x) is Tracked]

    def finish(self) -> Any:
        """The plain function's result, after what it wrote was carried out."""
        if self.deferral is not None:
            self.deferral.compute(self._values)
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


def stage(
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    static: frozenset[int | str] = frozenset(),
    name: str = "",
    *,
    on_error: Callable[[Exception, Effects], None] | None = None,
    reads: Reads | None = None,
    varying: frozenset[Spot] = frozenset(),
    with_views: bool = False,
    deferring: bool = False,
) -> Staged:
    """Trace `f` at these arguments, whose own arrays are left alone.

    on_error  told of an exception in `f`, and of what `f` had done by then
    reads     what `f` can read, where that is known already
    varying   where captured numbers are inputs, not constants
    with_views  whether a result that is a view of an argument is one of the caller's array
    deferring   whether the numbers of large arrays may be put off
    """
    kwargs = kwargs or {}
    given, own = signature_of(args, kwargs, static)
    if reads is None:
        reads = reads_of(f, static_leaves(given, own))
    call, leaves = with_places(given, own, reads.places, varying)
    run = _Run(args, kwargs, given, call, leaves, reads, Deferral() if deferring else None)
    outputs, structure, result = run.of(f, on_error)
    inputs = run.inputs
    views = views_of(outputs, inputs) if with_views else {}
    made = inputs.originals()
    made |= {key: view.cut(leaves[view.out.leaf]) for key, view in views.items()}
    effects = inputs.effects(run.containers)
    returned = _Returned(outputs, structure, result, made)
    staged = Staged(None, returned, effects, leaves, run.deferral, run.why())
    if staged.why:
        return staged
    built = build(name or _name(f), run.listener, inputs, outputs, views)
    staged.trace = Trace(
        built.function,
        call,
        inputs.given,
        built.arrays,
        built.owners,
        built.outputs,
        structure,
        [write.number for write in effects.writes],
        not run.disturbed and _lasts(f, given, own, call, leaves, varying),
        inputs.among(run.listener.apart),
        varying,
    )
    return staged


class _Run:
    """One run of a function while a stage listens: what it is given, and what it leaves behind."""

    def __init__(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        given: Signature,
        call: Signature,
        leaves: list[Any],
        reads: Reads,
        deferral: Deferral | None,
    ) -> None:
        own = len(given.leaves)
        self.deferral = deferral
        self.inputs = Inputs(call, leaves, own, deferral)
        self.positional, self.named = _rebuilt(given, self.inputs.whole, args, kwargs)
        handed = (*self.positional, *self.named.values())
        self.containers = Containers((*args, *kwargs.values()), handed)
        self.stand_ins = StandIns(reads.places, self.inputs.at_places, self.inputs.at_spots)
        self.at_places = leaves[own:]
        self.objects = static_leaves(given, leaves)
        self.listener = Stage(deferral=deferral)
        self.asking = Asking(self._spoil) if reads.asks else nullcontext()
        self.answers = Answers(reads.spaces)
        self.listener.given = frozenset(self.inputs.values)
        self.listener.placed = frozenset(self.inputs.placed)

    def of(
        self, f: Callable[..., Any], on_error: Callable[[Exception, Effects], None] | None
    ) -> tuple[list[Any], tree.Structure, Any]:
        """The leaves of what `f` returns, their structure, and the thing itself."""
        with self.listener, Watch(self.inputs.watched) as watch, Patched():
            try:
                self.stand_ins.put(self.at_places, self.inputs.originals())
                with self.asking, self.answers:
                    result = f(*self.positional, **self.named)
                watch.check()
                plain_keys_within(result)
                outputs, structure = tree.flatten(result)
                self._made_anew(outputs)
                for handle in (*outputs, *self.inputs.handles):
                    if isinstance(handle, Tracked):
                        value_of(handle)  # views are read while somebody listens
            except Exception as error:
                self._explain(error)
                if on_error is not None:
                    on_error(error, self.inputs.effects(self.containers))
                raise
            finally:
                surely(lambda: self._put_back(f))
        if self.deferral is not None and self.deferral.wrong:
            raise Misjudged
        unlock(self.listener, outputs)
        _refuse_holders(outputs)
        self.inputs.check_shapes()
        return outputs, structure, result

    def _made_anew(self, outputs: list[Any]) -> None:
        """What the function makes without its arguments it makes at each call: an array is a copy;
        of what else can be changed, there can be no trace."""
        for at in range(len(outputs)):
            x = outputs[at]
            if not _can_be_changed(x) or sys.getrefcount(x) > _FRESH:
                continue
            if type(x) is np.ndarray and x.dtype.kind in "biufc":
                outputs[at] = buffer(own_copy(x))
            else:
                self._spoil(
                    message(
                        f"the function returns a {type(x).__name__} that it makes at each call",
                        "Return arrays, numbers, text, and tuples, lists, dicts or dataclasses",
                    )
                )

    def _put_back(self, f: Callable[..., Any]) -> None:
        """Have plain data stand wherever `f` can look."""
        self.stand_ins.take_back()
        self.stand_ins.tidy(places_of(f, self.objects))
        for x in self.objects:
            with_plain_keys(x)
        self.inputs.close()

    def _explain(self, error: Exception) -> None:
        """UnsupportedError for an error that plain arrays may not give rise to."""
        if self.deferral is not None:
            self.deferral.asked()
        unlock(self.listener, ())
        if refused(error, self.listener) or _is_librarys(error):
            raise UnsupportedError(f"{type(error).__name__}: {error}") from error

    def _spoil(self, why: str) -> None:
        self.listener.spoilt = self.listener.spoilt or why

    def why(self) -> str:
        """Why there can be no trace, if so."""
        return self.listener.spoilt or _caught(self.listener.errors)

    @property
    def disturbed(self) -> bool:
        """Whether it changed what it was given, or what stands at places, as objects."""
        return bool(self.containers.changed or self.stand_ins.disturbed)


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


_FRESH = 4  # references: the result's, the list's, the loop's, and the one to ask with
_CHANGEABLE = (set, bytearray, deque, np.ndarray)


def _can_be_changed(x: Any) -> bool:
    """Whether it matters if a result is the same object at each call."""
    if isinstance(x, (Tracked, type, types.ModuleType)):
        return False
    return isinstance(x, _CHANGEABLE) or goes_on(x) or (hasattr(x, "__dict__") and not callable(x))


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


def static_leaves(call: Signature, leaves: Sequence[Any]) -> list[Any]:
    """The objects among a call's arguments."""
    objects = (Static, Compared)
    return [x for x, leaf in zip(leaves, call.leaves, strict=False) if isinstance(leaf, objects)]


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
