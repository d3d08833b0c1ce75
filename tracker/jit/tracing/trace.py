"""Traces a call: runs the function on real values, and builds an `ir.Function` of what it computed.

A `Trace` says what the function computes, which leaves are its inputs, which arrays it captures,
how results are put together, and what it writes. `ir_builder.py` builds the equations. Start at
`trace_call`.

Invariant: an exception in the traced function leaves no tracer behind.
"""

from __future__ import annotations

import itertools
import operator
import sys
import time
import types
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from tracker import tree
from tracker.errors import CompileError, UnsupportedError, message
from tracker.ir.graph import Function
from tracker.jit.discovery.builtin_shims import BuiltinShims
from tracker.jit.discovery.captured_state import CapturedState, find_captured_state
from tracker.jit.discovery.impure_calls import ImpureCallMonitor, calls_unmonitored
from tracker.jit.discovery.lru_caches import WatchedCaches
from tracker.jit.discovery.purity_table import NONE_VOUCHED, VouchedCallables
from tracker.jit.discovery.stdlib_objects import is_opaque
from tracker.jit.discovery.write_only import lists_at
from tracker.jit.guards.captured_leaves import unchanged_captures, with_captured_state
from tracker.jit.guards.constants import ConstantKey, StructuralKey
from tracker.jit.guards.signature import (
    ArrayLeaf,
    Condition,
    Leaf,
    Signature,
    SignaturePath,
    StateWrite,
    distinct_objects,
    leaf_strides,
    signature_of,
)
from tracker.jit.guards.source import ItemSource, Source, SourcePath, has_instance_dict
from tracker.jit.tracing.gc_pause import USER_CODE_THRESHOLD, infrequent_gc
from tracker.jit.tracing.inputs import PendingEffects, TracedInputs
from tracker.jit.tracing.ir_builder import TraceOutput, build_function, find_views
from tracker.jit.tracing.placeholder_swap import (
    ArgumentContainers,
    PlaceholderSwap,
    PlainValues,
    contains_handle,
    run_idempotent,
    untrack_keys,
    untrack_nested_keys,
)
from tracker.jit.tracing.side_effects import (
    ObservedWrites,
    PostTraceState,
    StateDiff,
    StateSnapshot,
    container_paths,
)
from tracker.jit.tracing.tracing_artifacts import may_come_of_tracing, swallowed_error_reason
from tracker.ops.shape.create import buffer
from tracker.ops.shape.memory_order import MemoryOrder, is_dense, nontrivial_strides
from tracker.random.draw_ops import DrawMonitor, PatchedGlobals, import_generators
from tracker.rebinding import call_exchanged, original_of, prepare_exchange
from tracker.support.array_copies import copy_with_layout
from tracker.support.deferred_signals import enter_all
from tracker.support.instances import is_user_class
from tracker.support.shown_text import function_name
from tracker.support.structs import field, record
from tracker.tape.record import data_of, value_of, wrap
from tracker.tape.tracing.escape import end_exports, is_escape_failure
from tracker.tape.tracing.lazy import LazyScheduler, SpeculationFailed
from tracker.tape.tracing.tracer import Tracer
from tracker.tape.tracked import Tracked
from tracker.tape.value import NO_PARAMS, ParamState, Value


@record()
class Trace:
    """One recorded path through a function.

    function    returns the atoms of `outputs` that have one, then the contents of `writes`
    signature   of the calls that the trace is valid for
    inputs      the leaf number of each input of the function
    captures    each a leaf number of captured state, or an array reached otherwise
    owners      the param that owns a captured array, if any
    outputs     the leaves of the result, then those of `state_writes`
    writes      leaf numbers of arrays written to; these and `no_alias` share memory with no other
    unstable_reason  how a call changes its captured state besides the `state_writes`, if so
    conditions  further guards on the leaves
    promoted    where captured numbers are inputs
    is_certain  whether no other thread can have made the `state_writes`
    reads_extents     whether the code may know how many elements a mask selects
    changed_numbers   where the function changes a number that is a constant of this trace, and
                where it writes one that was not there
    trip_counts       bodies of loops -> the most iterations that a loop took
    native_loops      bodies of loops that ran natively
    """

    function: Function
    signature: Signature
    inputs: list[int]
    captures: list[Any]
    owners: list[ParamState | None]
    outputs: list[TraceOutput]
    structure: tree.Structure
    writes: list[int]
    unstable_reason: str = ""
    no_alias: tuple[int, ...] = ()
    conditions: tuple[Condition, ...] = ()
    promoted: frozenset[SourcePath] = frozenset()
    state_writes: tuple[StateWrite, ...] = ()
    is_certain: bool = True
    reads_extents: bool = False
    changed_numbers: tuple[frozenset[SourcePath], frozenset[SourcePath]] = frozenset(), frozenset()
    trip_counts: Mapping[Function, int] = field(default_factory=dict)
    native_loops: Collection[Function] = ()

    @property
    def is_stable(self) -> bool:
        """Whether a call leaves its captured state as it was, apart from `state_writes`."""
        return not self.unstable_reason

    @property
    def output_orders(self) -> list[MemoryOrder]:
        """The memory orders of the outputs: those of the plain function; of a written argument,
        that of the array, if it has no gaps."""
        orders = [out.order for out in self.outputs if out.atom is not None]
        return orders + [_packed_strides(self.signature.leaves[number]) for number in self.writes]


@record()
class TracedRun:
    """A traced call: its trace, its result, and the effects still to be applied.

    `trace` is None for a `failure_reason`. `outputs` are the leaves of `result`, tracked where they
    are values. `leaves` are those of `signature`, captured state included; those in `no_alias` must
    share memory with no other. `has_filled_caches`: caches of the user's had stored tracked values,
    and were cleared. `seconds`: how long the function ran.
    """

    trace: Trace | None
    outputs: list[Any]
    structure: tree.Structure
    result: Any
    effects: PendingEffects
    signature: Signature
    leaves: list[Any]
    no_alias: list[int]
    scheduler: LazyScheduler | None
    failure_reason: str = ""
    has_filled_caches: bool = False
    seconds: float = 0.0

    @property
    def result_values(self) -> list[Value]:
        """The values that it returns and writes."""
        handles = (*self.outputs, *(write.handle for write in self.effects.writes))
        return [value_of(x) for x in handles if type(x) is Tracked]

    def finish(self) -> Any:
        """The plain function's result, after applying its writes."""
        if self.scheduler is not None:
            self.scheduler.compute(self.result_values)
        outputs, plain = self.outputs, self.effects.plain_values
        for at in range(len(outputs)):
            if id(outputs[at]) not in plain.by_id and _is_unreferenced(outputs, at):
                plain.bind(outputs[at], data_of(outputs[at]))
        result = self._rebuild(self.structure, map(plain.get, outputs), self.result)
        self.effects.apply()
        return result

    def _rebuild(self, structure: tree.Structure, leaves: Iterator[Any], template: Any) -> Any:
        """Rebuild a structure; a container that exists already is used itself."""
        if structure.cls is None:
            return next(leaves)
        parts = tree.children_or_attributes(template)
        assert parts is not None
        kids = [
            self._rebuild(child, leaves, each)
            for child, each in zip(structure.children, parts[1], strict=True)
        ]
        known = self.effects.plain_values.by_id.get(id(template))
        return tree.rebuild(type(template), parts[0], kids, template) if known is None else known

    @property
    def required_trace(self) -> Trace:
        """The trace; CompileError if there is none."""
        if self.trace is None:
            raise CompileError(f"it cannot be traced: {self.failure_reason}")
        return self.trace


def _is_unreferenced(outputs: list[Any], at: int) -> bool:
    """Whether only the returned result refers to the array of an output."""
    if type(outputs[at]) is not Tracked:
        return False
    array = value_of(outputs[at]).aval
    if type(array) is not np.ndarray or array.base is not None or not array.flags.writeable:
        return False
    del array
    return all(map(operator.le, _reference_counts(outputs, at), _UNREFERENCED))


def _reference_counts(outputs: list[Any], at: int) -> tuple[int, int, int]:
    """The reference counts of an output, its value, and the value's array."""
    value = value_of(outputs[at])
    return sys.getrefcount(outputs[at]), sys.getrefcount(value), sys.getrefcount(value.aval)


def _unreferenced_counts() -> tuple[int, int, int]:
    """The reference counts where only a returned result refers to them."""
    result = (wrap(Value(np.zeros(1), None, (), NO_PARAMS)),)
    return _reference_counts(list(result), 0)


_UNREFERENCED = _unreferenced_counts()


class GuardFailed(Exception):
    """A guard of a compiled trace does not hold."""


@infrequent_gc(USER_CODE_THRESHOLD)
def trace_call(
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    static: frozenset[int | str] = frozenset(),
    name: str = "",
    *,
    on_error: Callable[[Exception, PendingEffects], None] | None = None,
    captured: CapturedState | None = None,
    vouched: VouchedCallables = NONE_VOUCHED,
    promoted: frozenset[SourcePath] = frozenset(),
    with_views: bool = False,
    is_lazy: bool = False,
    differentiated: Sequence[int] = (),
    has_other_paths: bool = False,
) -> TracedRun:
    """Trace `f` at these arguments, without writing to the caller's arrays.

    on_error        called with an exception of `f`, and the effects of `f` until then
    captured        the captured state of `f`, if known already
    vouched         callables that the user declares pure
    promoted        where captured numbers are inputs, not constants
    with_views      whether a result that is a view of an argument is one of the caller's array
    is_lazy         whether large arrays may be computed later
    differentiated  the positional arguments with respect to which `f` differentiates
    has_other_paths  whether a call like this one has branched differently
    """
    prepare_exchange(f, args, kwargs)
    given, own = signature_of(args, kwargs, static, differentiated)
    if captured is None:
        captured = find_captured_state(f, static_leaves(given, own), vouched)
    call, leaves = with_captured_state(given, own, captured.sources, promoted)
    scheduler = LazyScheduler() if is_lazy else None
    run = _TracingRun(args, kwargs, given, call, leaves, captured, vouched, scheduler)
    run.tracer.has_other_paths = has_other_paths
    started = time.perf_counter()
    outputs, structure, result = run.execute(f, on_error, with_views)
    seconds = time.perf_counter() - started
    inputs, updates = run.inputs, run.state_writes
    plain_values = run.swap.plain_values
    effects = inputs.effects(run.containers, plain_values)
    writes, no_alias = [w.leaf_number for w in effects.writes], inputs.no_alias_numbers(run.tracer)
    traced = TracedRun(
        trace=None,
        outputs=outputs,
        structure=structure,
        result=result,
        effects=effects,
        signature=call,
        leaves=leaves,
        no_alias=[*writes, *no_alias],
        scheduler=scheduler,
        failure_reason=run.tracer.abort_reason
        or swallowed_error_reason(run.tracer.errors)
        or _restore_changed_statics(given, own, plain_values),
        has_filled_caches=run.has_filled_caches,
        seconds=seconds,
    )
    if traced.failure_reason:
        return traced
    results = [*outputs, *updates.leaves] if updates else outputs
    with infrequent_gc():
        built = build_function(
            name or function_name(f), run.tracer, inputs, results, run.views, run.container_paths
        )
    now = with_captured_state(given, own, run.sources_now(f), promoted)
    after = PostTraceState(call, leaves, *now)
    distinct = distinct_objects(call) if captured.names.tests_identity else ()
    traced.trace = Trace(
        function=built.function,
        signature=call,
        inputs=list(inputs.argument_values.values()),
        captures=built.arrays,
        owners=built.owners,
        outputs=built.outputs,
        structure=structure,
        writes=writes,
        unstable_reason=run.unstable_reason
        if updates is None
        else after.difference(updates.writes),
        no_alias=no_alias,
        conditions=(*distinct, *inputs.flag_conditions(run.tracer.guards.flag_queries)),
        promoted=promoted,
        state_writes=tuple(updates.writes) if updates else (),
        is_certain=updates is None or updates.is_certain,
        reads_extents=run.tracer.guards.reads_extents,
        changed_numbers=after.changed_numbers,
        trip_counts=run.tracer.recording.trip_counts,
        native_loops=run.tracer.recording.native_loops,
    )
    return traced


class _TracingRun:
    """One run of a function under a tracer: its inputs, and what it leaves behind."""

    def __init__(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        given: Signature,
        call: Signature,
        leaves: list[Any],
        captured: CapturedState,
        vouched: VouchedCallables,
        scheduler: LazyScheduler | None,
    ) -> None:
        self.argument_count = own = len(given.leaves)
        self.scheduler = scheduler
        self.inputs = TracedInputs(call, leaves, own, scheduler)
        self.positional, self.named = rebuild_arguments(
            given, self.inputs.traced_leaves, args, kwargs
        )
        handed = (*self.positional, *self.named.values())
        self.containers = ArgumentContainers((*args, *kwargs.values()), handed)
        self.swap = PlaceholderSwap(
            captured.sources, self.inputs.handles_by_id, self.inputs.handles_by_path
        )
        self.signature, self.captured = call, captured
        self.modules = frozenset(sys.modules)
        self.captured_leaves = leaves[own:]
        self.static_objects = static_leaves(given, leaves)
        self.tracer = Tracer(
            scheduler=scheduler,
            tests_identity_with_bool=captured.names.tests_identity_with_bool,
            tests_identity=captured.names.tests_identity,
        )
        if captured.may_be_impure:
            self.tracer.unmonitored = calls_unmonitored
        copies = zip(given.structures, handed, strict=True)
        self.tracer.instances = {id(x): x for pair in copies for x in tree.user_objects(*pair)}
        self.pure = vouched
        if captured.impure_reason:
            self.tracer.abort(captured.impure_reason)
        self.shims = BuiltinShims(captured.shimmed_globals, captured.compared_iterables)
        self.tracer.arguments = frozenset(self.inputs.argument_values)
        self.tracer.original_arrays = self.inputs.originals()
        self.tracer.captures = frozenset(self.inputs.captured_values)
        self.caches, self.has_filled_caches = WatchedCaches(captured.lru_caches), False
        self.before: StateSnapshot | None = None
        self.state_writes: ObservedWrites | None = None
        self.unstable_reason = ""  # why there are none
        self.views: dict[int, TraceOutput] = {}
        self.container_paths: dict[int, SignaturePath] = {}

    def execute(
        self,
        f: Callable[..., Any],
        on_error: Callable[[Exception, PendingEffects], None] | None,
        with_views: bool,
    ) -> tuple[list[Any], tree.Structure, Any]:
        """The leaves of the result of `f`, their structure, and the result."""
        if self.captured.names.draws_random:
            import_generators()
        watch = DrawMonitor(self.inputs.random_sources)
        monitor: AbstractContextManager[Any] = nullcontext()
        if self.captured.may_be_impure:
            monitor = ImpureCallMonitor(self.tracer.abort, self.pure, sys._getframe())
        with enter_all(self.tracer, watch, PatchedGlobals()):
            try:
                self.swap.install(self.captured_leaves, self.inputs.originals())
                before = self.before = StateSnapshot(self.captured.sources)
                with enter_all(monitor, self.shims):
                    result = call_exchanged(f, self.positional, self.named)
                watch.check()
                untrack_nested_keys(result)
                self.container_paths = container_paths(self.signature, before, self.containers)
                outputs, structure = tree.flatten(
                    result, lambda x: self._is_result_leaf(x, before), objects=True
                )
                outputs = list(map(original_of, outputs))
                self.inputs.check_returned_memory(self.tracer, outputs)
                self._replace_fresh_results(outputs)
                self._collect_effects(before, outputs, result, with_views)
            except Exception as error:
                self._raise_if_untraceable(error)
                if on_error is not None:
                    known = self.swap.plain_values
                    on_error(error, self.inputs.effects(self.containers, known))
                self.tracer.errors.clear()  # `error` among them, whose frames hold the tracer
                raise
            finally:
                run_idempotent(lambda: self._restore(f))
                self.has_filled_caches = self.caches.clear_tracked() or self.tracer.fills_caches
        if self.scheduler is not None and self.scheduler.has_failed:
            raise SpeculationFailed
        end_exports(self.tracer, outputs)
        _refuse_tracked_holders([x for x in outputs if id(x) not in self.container_paths])
        self.inputs.check_shapes()
        return outputs, structure, result

    def _is_result_leaf(self, x: Any, snapshot: StateSnapshot) -> bool:
        """Whether a result is not flattened: it existed before, or is an object of a user class
        that no derivative has created."""
        if id(x) in self.container_paths or snapshot.contains_dataclass(x):
            return True
        is_object = tree.children_of(x) is None and is_user_class(type(x))
        return is_object and id(x) not in self.tracer.instances

    def _collect_effects(
        self, snapshot: StateSnapshot, outputs: list[Any], result: Any, with_views: bool
    ) -> None:
        """Find writes, views of arguments, and their values, while the tracer is active."""
        paths = self.container_paths
        diff = StateDiff(
            self.signature, self.inputs, self.captured, snapshot, self.containers, paths
        )
        found, self.unstable_reason = diff.find_writes(result), diff.refusal
        self.state_writes, self.swap.keeps_views = found, found is None
        results = [*outputs, *(found.leaves if found else ())]
        if with_views:
            self.views = find_views(results, self.inputs)
            known, leaves = self.swap.plain_values, self.inputs.leaves
            known.by_id.update((k, v.view(leaves)) for k, v in self.views.items())
        self.swap.plain_values.by_id.update(self.containers.originals)
        numbers = self.inputs.argument_values.values()
        for handle in (*results, *map(self.inputs.traced_leaves.__getitem__, numbers)):
            if isinstance(handle, Tracked):
                value_of(handle)
        self.tracer.release_after_run()

    def _replace_fresh_results(self, outputs: list[Any]) -> None:
        """Results that the function creates without its arguments are new at each call: arrays are
        copied; for other mutable objects there is no trace."""
        for at in range(len(outputs)):
            x = outputs[at]
            if id(x) in self.container_paths or not _is_mutable_result(x):
                continue
            if sys.getrefcount(x) > _FRESH_REFERENCE_COUNT:
                continue
            if type(x) is np.ndarray and x.dtype.kind in "biufc":
                outputs[at] = buffer(copy_with_layout(x))
            else:
                self.tracer.abort(
                    message(
                        f"the function returns a {type(x).__name__} that it makes at each call",
                        "Return arrays, numbers, text, and tuples, lists, dicts or dataclasses",
                    )
                )

    def _restore(self, f: Callable[..., Any]) -> None:
        """Put plain data at every source of `f`."""
        self.swap.restore()
        sources = self.sources_now(f, self._appended_items())
        self.swap.clean_new_sources([*sources, *_sources_in(_new_modules(self.modules))])
        for x in self.static_objects:
            untrack_keys(x)
        self.inputs.close()

    def _appended_items(self) -> list[Any]:
        """What the run has appended to lists that the function does not read."""
        known = self.before.containers if self.before is not None else {}
        lists = [x for s in self.captured.sources if s.is_append_only for x in lists_at(s.read())]
        return [item for x in lists if id(x) in known for item in x[len(known[id(x)][1][1]) :]]

    def sources_now(self, f: Callable[..., Any], others: Sequence[Any] = ()) -> list[Source]:
        """The sources of `f` now, and on other objects that it does not read: those before the run,
        if it writes nothing and they have the same objects; then its names need not be followed
        again."""
        may_differ = self.captured.names.may_write or bool(_new_modules(self.modules))
        if not may_differ and unchanged_captures(self.signature, self.argument_count) is not None:
            return self.captured.sources
        known = {source: source for source in self.captured.sources}  # with their flags
        now = find_captured_state(f, (*self.static_objects, *others)).sources
        return [known.get(source, source) for source in now]

    def _raise_if_untraceable(self, error: Exception) -> None:
        """Raise UnsupportedError for an error that plain arrays may not cause."""
        if self.scheduler is not None:
            self.scheduler.before_read()
        end_exports(self.tracer, ())
        if is_escape_failure(error, self.tracer) or may_come_of_tracing(error):
            raise UnsupportedError(f"{type(error).__name__}: {error}") from error


def _new_modules(known: frozenset[str]) -> list[types.ModuleType]:
    """The modules, but ours, that the function was the first to import, or another thread since."""
    names = [n for n in sys.modules.keys() - known if not n.startswith(("tracker.", "llvmlite."))]
    return [module for n in names if isinstance(module := sys.modules.get(n), types.ModuleType)]


def _sources_in(modules: Iterable[types.ModuleType]) -> list[Source]:
    """Sources in modules that may hold values of the trace."""
    return [
        ItemSource(ConstantKey(vars(module)), name, f"{module.__name__}.{name}")
        for module in modules
        for name, x in vars(module).copy().items()
        if type(x) is Tracked or (tree.children_of(x) is not None and contains_handle(x))
    ]


def _restore_changed_statics(given: Signature, leaves: Sequence[Any], known: PlainValues) -> str:
    """Why there can be no trace of a function that changes a container which signatures do not
    flatten; "" if it does not. Puts plain data into the container."""
    why = ""
    for leaf, x in zip(given.leaves, leaves, strict=True):
        if isinstance(leaf, StructuralKey) and not leaf.holds(x):
            why = message(
                f"the function changes a {type(x).__name__} that it is given",
                "Return a new one; what is done to lists, dicts and arrays is done at each call",
            )
            if isinstance(x, deque):
                x.extend([known.get(x.popleft()) for _ in range(len(x))])
            elif isinstance(x, set):
                handles = [item for item in x if type(item) is Tracked]
                x.difference_update(handles)
                x.update(map(known.get, handles))
    return why


_FRESH_REFERENCE_COUNT = 4  # of the result, the list, the loop, and `getrefcount`
_MUTABLE_CLASSES = (set, bytearray, deque, np.ndarray)


def _is_mutable_result(x: Any) -> bool:
    """Whether it matters that a result is the same object at each call."""
    if isinstance(x, (Tracked, type, types.ModuleType)):
        return False
    return (
        isinstance(x, _MUTABLE_CLASSES)
        or is_opaque(x)
        or (has_instance_dict(x) and not callable(x))
    )


def _refuse_tracked_holders(outputs: list[Any]) -> None:
    """Refuse results that would be returned as they are, with tracked values in them."""
    for x in outputs:
        if type(x) is not Tracked and contains_handle(x):
            raise UnsupportedError(
                f"the function returns a {type(x).__name__} that holds values it computed",
                "Return arrays, numbers, and tuples, lists, dicts or dataclasses of them; or "
                "register the class with tracker.tree.register",
                "",
            )


def _packed_strides(leaf: Leaf) -> MemoryOrder:
    if not isinstance(leaf, ArrayLeaf) or leaf.strides is None:
        return None
    strides = leaf_strides(leaf)
    return strides if is_dense(nontrivial_strides(strides, leaf.shape), leaf.shape) else None


def static_leaves(call: Signature, leaves: Sequence[Any]) -> list[Any]:
    """The objects among a call's arguments."""
    objects = (ConstantKey, StructuralKey)
    return [x for x, leaf in zip(leaves, call.leaves, strict=False) if isinstance(leaf, objects)]


def rebuild_arguments(
    call: Signature, leaves: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    given = iter(leaves)
    templates = (*args, *kwargs.values())
    rebuilt = [
        tree.unflatten(structure, itertools.islice(given, structure.count), template)
        for structure, template in zip(call.structures, templates, strict=True)
    ]
    return rebuilt[: len(args)], dict(zip(kwargs, rebuilt[len(args) :], strict=True))
