"""Staging: run a function on real values, listen to the gate, and get an `ir.Function`.

Owns: `stage` and its result, `Trace`. A trace says what the function computed (`function`), which
leaves of the arguments are its inputs, which arrays it captured, how results are put together, and
which argument arrays it wrote into. How notes become equations is in `ir_builder.py`.

Invariant: an exception in the traced function leaves no stage behind.
"""

from __future__ import annotations

import itertools
import operator
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any

import numpy as np

from tracker import tree
from tracker.errors import CompileError, UnsupportedError, message
from tracker.ir.graph import Function
from tracker.jit.discovery.builtin_shims import Answers
from tracker.jit.discovery.discovery import Reads, places_of, reads_of
from tracker.jit.discovery.impure_calls import Asking
from tracker.jit.discovery.lru_caches import Caches
from tracker.jit.discovery.opaque_objects import goes_on
from tracker.jit.discovery.purity_table import NOTHING, Pure
from tracker.jit.guards.conditions import Condition, distinct_in
from tracker.jit.guards.constants import Compared, Static
from tracker.jit.guards.matching import same_objects, with_places
from tracker.jit.guards.signature import Node, Signature, Update, signature_of
from tracker.jit.guards.source import Place, Spot, has_dict
from tracker.jit.llvm.signals import entered
from tracker.jit.tracing.errors import caught, is_librarys, is_of_c
from tracker.jit.tracing.gc_pause import USERS, collecting_seldom
from tracker.jit.tracing.inputs import Effects, Inputs
from tracker.jit.tracing.ir_builder import Output, ViewOf, build, views_of
from tracker.jit.tracing.placeholder_swap import (
    Containers,
    Known,
    StandIns,
    holds_handle,
    plain_keys_within,
    surely,
    with_plain_keys,
)
from tracker.jit.tracing.side_effects import Before, Updates, nodes_of, updates_of
from tracker.jit.tracing.stability import After
from tracker.ops.shape.create import buffer
from tracker.random.draw_ops import Patched, Watch, import_generators
from tracker.support.array_copies import own_copy
from tracker.support.instances import is_own_class
from tracker.support.structs import record
from tracker.tape.escape import refused, unlock
from tracker.tape.lazy import Deferral, Misjudged
from tracker.tape.record import data_of, value_of, wrap
from tracker.tape.tracer import Stage
from tracker.tape.tracked import Leaf, Tracked
from tracker.tape.value import NO_PARAMS, Value, is_due


@record()
class Trace:
    """See the file's header. `inputs[i]` is the leaf number of input i; `captures[i]` is the leaf
    number of an array that stands at a place, or an array that the code reached otherwise.

    `function` has the atoms of `outputs` that have one, then those of the leaves in `writes`.
    `call` is the signature of calls that the trace holds for; `lasting` whether a call leaves what
    the code reads as it was: else what it does to it happens only while plain Python runs. It holds
    only while the leaves in `writes` and `apart` share memory with no other, and its `conditions`
    hold. `varying`: where numbers at places are inputs. `updates`: what is put at places and into
    containers; `outputs` has the leaves of that after those of the result. `moving`: where the
    function itself puts another number than the one that this trace has for a constant, or one that
    was not there.
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
    conditions: tuple[Condition, ...] = ()
    varying: frozenset[Spot] = frozenset()
    updates: tuple[Update, ...] = ()
    is_sure: bool = True
    moving: tuple[frozenset[Spot], frozenset[Spot]] = frozenset(), frozenset()


@record()
class Staged:
    """A trace (None, and `why` it is), what the function returned, and what is still to be done.
    `leaves` are those of the call, and of what stands at places, `alone`: which of them must share
    memory with no other, `call`: what they are; `filled`: caches of the user's with tracked values,
    which were let go."""

    trace: Trace | None
    returned: _Returned
    effects: Effects
    call: Signature
    leaves: list[Any]
    alone: list[int]
    deferral: Deferral | None
    why: str = ""
    filled: bool = False

    def is_ahead(self, weight: Callable[[Value], int], soon: Callable[[int, int], int]) -> bool:
        """Whether the numbers of all that the call gives and writes are there, or soon are: see
        `Deferral.is_ahead`."""
        return self.deferral is None or self.deferral.is_ahead(self._values, weight, soon)

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
    `known`: the very objects that the caller gets."""

    outputs: list[Any]
    structure: tree.Structure
    template: Any
    known: Known

    def plain(self) -> Any:
        for at in range(len(self.outputs)):
            if id(self.outputs[at]) not in self.known.of and _is_alone(self.outputs, at):
                self.known.keep(self.outputs[at], data_of(self.outputs[at]))
        return self._made(self.structure, map(self.known.plain, self.outputs), self.template)

    def _made(self, structure: tree.Structure, leaves: Iterator[Any], template: Any) -> Any:
        """What has this structure: itself, if it is a container that is there already."""
        if structure.cls is None:
            return next(leaves)
        parts = tree.opened(template)
        assert parts is not None
        kids = [
            self._made(child, leaves, each)
            for child, each in zip(structure.children, parts[1], strict=True)
        ]
        known = self.known.of.get(id(template))
        return tree.rebuild(type(template), parts[0], kids, template) if known is None else known


def _is_alone(outputs: list[Any], at: int) -> bool:
    """Whether nobody can see the array of an output but who is given what the function returned."""
    if type(outputs[at]) is not Tracked:
        return False
    array = value_of(outputs[at]).form
    if type(array) is not np.ndarray or array.base is not None or not array.flags.writeable:
        return False
    del array
    return all(map(operator.le, _references(outputs, at), _ALONE))


def _references(outputs: list[Any], at: int) -> tuple[int, int, int]:
    """How many references there are to an output, its value, and the value's array."""
    value = value_of(outputs[at])
    return sys.getrefcount(outputs[at]), sys.getrefcount(value), sys.getrefcount(value.form)


def _references_if_alone() -> tuple[int, int, int]:
    """The same where there are no others but those of what the function returned."""
    result = (wrap(Value(np.zeros(1), None, (), NO_PARAMS)),)
    return _references(list(result), 0)


_ALONE = _references_if_alone()


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
    pure: Pure = NOTHING,
    varying: frozenset[Spot] = frozenset(),
    with_views: bool = False,
    deferring: bool = False,
    taken: Sequence[int] = (),
) -> Staged:
    """Trace `f` at these arguments, whose own arrays are left alone.

    on_error  told of an exception in `f`, and of what `f` had done by then
    reads     what `f` can read, where that is known already
    pure      what the user vouches for
    varying   where captured numbers are inputs, not constants
    with_views  whether a result that is a view of an argument is one of the caller's array
    deferring   whether the numbers of large arrays may be put off
    taken     the positional arguments that `f` differentiates
    """
    kwargs = kwargs or {}
    given, own = signature_of(args, kwargs, static, taken)
    if reads is None:
        reads = reads_of(f, static_leaves(given, own), pure)
    call, leaves = with_places(given, own, reads.places, varying)
    deferral = Deferral() if deferring else None
    run = _Run(args, kwargs, given, call, leaves, reads, pure, deferral)
    with collecting_seldom(USERS):
        outputs, structure, result = run.of(f, on_error, with_views)
    inputs, updates = run.inputs, run.updates
    effects = inputs.effects(run.containers, run.stand_ins.known)
    returned = _Returned(outputs, structure, result, run.stand_ins.known)
    why = run.why() or _changed(given, own, run.stand_ins.known)
    writes, apart = [w.number for w in effects.writes], inputs.apart(run.listener)
    alone = [*writes, *apart]
    staged = Staged(None, returned, effects, call, leaves, alone, run.deferral, why, run.filled)
    if staged.why:
        return staged
    shown = [*outputs, *updates.leaves] if updates else outputs
    with collecting_seldom():
        built = build(name or _name(f), run.listener, inputs, shown, run.views, run.nodes)
    after = After(run.places_now(f), given, own, call, leaves, varying)
    staged.trace = Trace(
        built.function,
        call,
        inputs.given,
        built.arrays,
        built.owners,
        built.outputs,
        structure,
        writes,
        updates is not None and after.is_as_before(updates.of),
        apart,
        (*(distinct_in(call) if reads.compares else ()), *inputs.flags(run.listener.flags_asked)),
        varying,
        tuple(updates.of) if updates else (),
        updates is None or updates.is_sure,
        after.moving,
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
        pure: Pure,
        deferral: Deferral | None,
    ) -> None:
        self.own = own = len(given.leaves)
        self.deferral = deferral
        self.inputs = Inputs(call, leaves, own, deferral)
        self.positional, self.named = _rebuilt(given, self.inputs.whole, args, kwargs)
        handed = (*self.positional, *self.named.values())
        self.containers = Containers((*args, *kwargs.values()), handed)
        self.stand_ins = StandIns(reads.places, self.inputs.at_places, self.inputs.at_spots)
        self.call, self.reads = call, reads
        self.modules = frozenset(sys.modules)
        self.at_places = leaves[own:]
        self.objects = static_leaves(given, leaves)
        self.listener = Stage(deferral=deferral, flags=reads.flags, compares=reads.compares)
        copies = zip(given.structures, handed, strict=True)
        self.listener.instances = {id(x): x for pair in copies for x in tree.objects_in(*pair)}
        self.pure = pure
        if reads.unknown:
            self.listener.spoil(reads.unknown)
        self.answers = Answers(reads.spaces)
        self.listener.given = frozenset(self.inputs.values)
        self.listener.originals = self.inputs.originals()
        self.listener.placed = frozenset(self.inputs.placed)
        self.caches, self.filled = Caches(reads.caches), False
        self.updates: Updates | None = None
        self.views: dict[int, ViewOf] = {}
        self.nodes: dict[int, Node] = {}

    def _asking(self, caller: FrameType) -> AbstractContextManager[Any]:
        """What watches a run that may call what is not known to be pure."""
        return Asking(self.listener.spoil, self.pure, caller) if self.reads.asks else nullcontext()

    def of(
        self,
        f: Callable[..., Any],
        on_error: Callable[[Exception, Effects], None] | None,
        with_views: bool,
    ) -> tuple[list[Any], tree.Structure, Any]:
        """The leaves of what `f` returns, their structure, and the thing itself."""
        if self.reads.draws:
            import_generators()
        watch = Watch(self.inputs.watched)
        with entered(self.listener, watch, Patched()):
            try:
                self.stand_ins.put(self.at_places, self.inputs.originals())
                before = Before(self.reads.places)
                with entered(self._asking(sys._getframe()), self.answers):
                    result = f(*self.positional, **self.named)
                watch.check()
                plain_keys_within(result)
                self.nodes = nodes_of(self.call, before, self.containers)
                outputs, structure = tree.flatten(
                    result, lambda x: self._is_whole(x, before), objects=True
                )
                self.inputs.check_memory(self.listener, outputs)
                self._made_anew(outputs)
                self._look_back(before, outputs, result, with_views)
            except Exception as error:
                self._explain(error)
                if on_error is not None:
                    known = self.stand_ins.known
                    on_error(error, self.inputs.effects(self.containers, known))
                raise
            finally:
                surely(lambda: self._put_back(f))
                self.filled = self.caches.let_go()
        if self.deferral is not None and self.deferral.wrong:
            raise Misjudged
        unlock(self.listener, outputs)
        _refuse_holders([x for x in outputs if id(x) not in self.nodes])
        self.inputs.check_shapes()
        return outputs, structure, result

    def _is_whole(self, x: Any, before: Before) -> bool:
        """Whether a result is not taken apart: it was there before, or is an object of a class of
        the user's that no derivative has made."""
        if id(x) in self.nodes or before.is_known(x):
            return True
        is_object = tree.children_of(x) is None and is_own_class(type(x))
        return is_object and id(x) not in self.listener.instances

    def _look_back(self, before: Before, outputs: list[Any], result: Any, with_views: bool) -> None:
        """See what the function has put where, what is a view of what, and what views hold, while
        somebody listens."""
        found = updates_of(
            self.call, self.inputs, self.reads, before, self.containers, self.nodes, result
        )
        self.updates, self.stand_ins.shares = found, found is None
        shown = [*outputs, *(found.leaves if found else ())]
        if with_views:
            self.views = views_of(shown, self.inputs)
            known, leaves = self.stand_ins.known, self.inputs.arrays
            known.of.update((k, v.cut(leaves[v.out.leaf])) for k, v in self.views.items())
        self.stand_ins.known.of.update(self.containers.originals)
        for handle in (*shown, *self.inputs.handles):
            if isinstance(handle, Tracked):
                value_of(handle)
        self.listener.look_back()

    def _made_anew(self, outputs: list[Any]) -> None:
        """What the function makes without its arguments it makes at each call: an array is a copy;
        of what else can be changed, there can be no trace."""
        for at in range(len(outputs)):
            x = outputs[at]
            if id(x) in self.nodes or not _can_be_changed(x) or sys.getrefcount(x) > _FRESH:
                continue
            if type(x) is np.ndarray and x.dtype.kind in "biufc":
                outputs[at] = buffer(own_copy(x))
            else:
                self.listener.spoil(
                    message(
                        f"the function returns a {type(x).__name__} that it makes at each call",
                        "Return arrays, numbers, text, and tuples, lists, dicts or dataclasses",
                    )
                )

    def _put_back(self, f: Callable[..., Any]) -> None:
        """Have plain data stand wherever `f` can look."""
        self.stand_ins.take_back()
        self.stand_ins.tidy([*self.places_now(f), *_imported(self.modules)])
        for x in self.objects:
            with_plain_keys(x)
        self.inputs.close()

    def places_now(self, f: Callable[..., Any]) -> list[Place]:
        """What `f` can read now: the same as before its run, if it puts nothing anywhere and the
        very same objects stand there; names need not be followed again for that."""
        puts = self.reads.stored or self.reads.fills
        has_new = len(sys.modules) > len(self.modules)
        if not puts and not has_new and same_objects(self.call, self.own) is not None:
            return self.reads.places
        known = {place: place for place in self.reads.places}  # with what is said of them
        return [known.get(place, place) for place in places_of(f, self.objects)]

    def _explain(self, error: Exception) -> None:
        """UnsupportedError for an error that plain arrays may not give rise to."""
        if self.deferral is not None:
            self.deferral.asked()
        unlock(self.listener, ())
        if refused(error, self.listener) or is_librarys(error) or is_of_c(error):
            raise UnsupportedError(f"{type(error).__name__}: {error}") from error

    def why(self) -> str:
        """Why there can be no trace, if so."""
        return self.listener.spoilt or caught(self.listener.errors)


def _imported(known: frozenset[str]) -> list[Place]:
    """Where modules that the function was the first to import may have put values of its trace:
    what they draw, they draw as it does."""
    new = [sys.modules[name] for name in sys.modules.keys() - known]
    return [
        Place("item", Static(vars(module)), name, f"{module.__name__}.{name}")
        for module in new
        if isinstance(module, types.ModuleType)
        for name, x in vars(module).items()
        if type(x) is Tracked or (tree.children_of(x) is not None and holds_handle(x))
    ]


def _changed(given: Signature, leaves: Sequence[Any], known: Known) -> str:
    """Why there can be no trace of a function that changes what nothing takes apart: a set. Plain
    data stands in it then."""
    why = ""
    for leaf, x in zip(given.leaves, leaves, strict=True):
        if isinstance(leaf, Compared) and not leaf.holds(x):
            why = message(
                f"the function changes a {type(x).__name__} that it is given",
                "Return a new one; what is done to lists, dicts and arrays is done at each call",
            )
            if isinstance(x, deque):
                x.extend([known.plain(x.popleft()) for _ in range(len(x))])
            elif isinstance(x, set):
                handles = [item for item in x if type(item) is Tracked]
                x.difference_update(handles)
                x.update(map(known.plain, handles))
    return why


_FRESH = 4  # references: the result's, the list's, the loop's, and the one to ask with
_CHANGEABLE = (set, bytearray, deque, np.ndarray)


def _can_be_changed(x: Any) -> bool:
    """Whether it matters if a result is the same object at each call."""
    if isinstance(x, (Tracked, type, types.ModuleType)):
        return False
    return isinstance(x, _CHANGEABLE) or goes_on(x) or (has_dict(x) and not callable(x))


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
