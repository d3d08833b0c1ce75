"""The Python side of a jitted function: calls that no native entry has served.

`JittedState.call_slow` runs a matching trace without its entry, traces the call, or calls the plain
function; `trace_policy.py` decides what becomes of traces. A trace is valid for one signature (of
the arguments and captured state) and one path through its guards.

Invariant: a call runs the user's function once, traced or not; again only for the reasons in
`Retry`, after the first run was rolled back.

Arrays that no entry takes as they lie (another byte order, alignment or class) are copied into
native layout (`relayout.py`); what machine code writes into the copies is copied back. If the
function could tell the difference, or no machine code takes the copies, the plain function runs on
the originals.
"""

from __future__ import annotations

import functools
import operator
import sys
import threading
from collections.abc import Callable, Sequence
from enum import Enum
from types import MethodType
from typing import Any, NamedTuple

import numpy as np

from tracker import tree
from tracker.autodiff.boundary import UNTRACED_OBJECT, ArgnumsOf, convert_array_likes, split_method
from tracker.config import current
from tracker.errors import (
    CompileError,
    ConversionError,
    IRError,
    UnsupportedError,
    is_caused_by,
    warn,
)
from tracker.jit.discovery.captured_state import (
    CapturedState,
    find_captured_state,
    with_constant_arrays,
)
from tracker.jit.discovery.impure_calls import PROFILER_IN_USE, is_profiler_in_use
from tracker.jit.discovery.inspection import is_jitted
from tracker.jit.discovery.stdlib_objects import is_opaque
from tracker.jit.dispatch import relayout
from tracker.jit.dispatch.interpreter import TakesTooLong, is_faster_untraced
from tracker.jit.dispatch.recorded_calls import RecordedCalls
from tracker.jit.dispatch.specialization import (
    NO_RESULT,
    SignatureGroup,
    Specialization,
    SpecializationCache,
    aliases_holder,
    conditions_hold,
    differ_in_extents,
    has_overlap,
    match_leaves,
    needs_plain_call,
    newest_cause,
    run_has_overlap,
    run_matching,
)
from tracker.jit.dispatch.trace_policy import (
    MAX_FAILED_TRACES,
    READS_RECORDED_PARAM,
    UNFLATTENABLE,
    JitOptions,
    TracePolicy,
    opaque_reason,
)
from tracker.jit.dispatch.visible_calls import frame_function, is_profiled
from tracker.jit.guards.captured_leaves import with_captured_state
from tracker.jit.guards.signature import Signature, distinct_objects, signature_of
from tracker.jit.runtime.availability import require_native
from tracker.jit.runtime.lru_clock import CLOCK
from tracker.jit.runtime.progress import compile_stage
from tracker.jit.tracing.inputs import PendingEffects
from tracker.jit.tracing.ir_builder import TraceAbandoned
from tracker.jit.tracing.placeholder_swap import TRACING_LOCK, untrack_error
from tracker.jit.tracing.side_effects import StateRollbackLog
from tracker.jit.tracing.trace import TracedRun, rebuild_arguments, static_leaves, trace_call
from tracker.random.draw_ops import RollbackLog, UnrecordedDraws
from tracker.support import errstate
from tracker.support.array_copies import same_bytes
from tracker.support.deferred_signals import enter_all
from tracker.support.pickling import MadeFunction
from tracker.support.structs import record
from tracker.tape.observers import current_observer, has_active_transform
from tracker.tape.record import value_of
from tracker.tape.tracing.lazy import SpeculationFailed
from tracker.tape.tracing.tracer import current_tracer
from tracker.tape.tracked import Tracked
from tracker.tape.value import is_constant

_LOCK_TIMEOUT = 0.3  # seconds; a call that has waited longer for another trace runs in plain Python
_TRACED_SHAPES = 2  # extents of arguments whose first call is traced
_LOOKUP_TRACES = 3  # after these it is known which captured numbers change
_MAX_SECONDS_OF_QUICK = 2.0  # a function that takes longer waits for optimised code
_MAX_COMPARED_ARRAYS = 300  # to compare all pairs of so many arrays takes 20 us
_UNTRACEABLE = (ConversionError, UnsupportedError, IRError)


class Retry(Enum):
    """Why a call runs the user's function a second time: the plain function, or, from
    `CONSTANT_NUMBERS` on, another trace. Besides: the plain function where tracing raised an error
    of its own or was abandoned, or where an observer is active; another trace that is not lazy
    where a speculated value was wrong."""

    ALIASED_CONTAINER = "it changed a container that was passed twice, or that is captured"
    FILLED_CACHE = "it stored tracked values in an lru_cache"
    ALIASED_ARRAYS = "it wrote into an array that shares memory with another"
    RECORDED_PARAM = "its result must carry the recorded history of a param"
    RELAYOUT = "there is no trace, and its arguments are copies in native layout"
    CONSTANT_NUMBERS = "it failed where promoted numbers are inputs"
    CONSTANT_ARRAYS = "C code failed on tracked arrays in a library's object"


class NeedsPlainCall(Exception):
    """No machine code took the copies: the plain function must run on the originals."""


@record()
class SlowCall:
    """A call that no native entry has served. `runs`: False if only its trace is wanted."""

    args: Sequence[Any]
    kwargs: dict[str, Any]
    signature: Signature
    leaves: list[Any]
    runs: bool = True

    @property
    def given(self) -> tuple[Any, ...]:
        return (*self.args, *self.kwargs.values())


class Recipe(NamedTuple):
    """How pickle makes a derivative again: `build(f, *options)`, with `f` the jitted function of a
    plain one, or, if that is a derivative, what its own recipe makes."""

    build: Callable[..., Any]
    options: tuple[Any, ...]
    function: Callable[..., Any]
    recipe: Recipe | None


class JittedState:
    """The state of a jitted function; see the file's header."""

    make: Callable[[Callable[..., Any], JitOptions], Any]  # set by jit/api.py, which makes objects

    def __init__(self, function: Callable[..., Any], options: JitOptions) -> None:
        self.function = function
        self.options = options
        self.groups = SpecializationCache()
        self.traces = TracePolicy(function, options, self.groups)
        self.derivatives: dict[Any, Any] = {}
        self.is_derived = False  # a derivative: its results are plain, whatever it reads
        self.recipe: Recipe | None = None  # of a derivative
        self.argnums: ArgnumsOf = lambda _: ()  # with respect to which arguments
        self.slow_calls = 0
        self.has_warned_of_profiler = False
        self.has_constant_library_arrays = False  # arrays in libraries' objects are constants
        self.relayout_ids: set[int] = set()  # of the copies of relayout calls in progress
        self.is_visible = False  # to profilers, whether or not one is known to be active
        self.is_suspended = self.is_in_frame = False  # for calls that are visible; in such a call
        self.frame: Callable[..., Any] | None = None  # what runs such calls

    @property
    def name(self) -> str:
        """What the function is, for messages."""
        return self.traces.name

    def signature_of(
        self, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[Signature, list[Any]]:
        """The signature of a call, and its leaves."""
        return signature_of(args, kwargs, self.options.static, self.argnums(len(args)))

    def call_slow(self, *args: Any, **kwargs: Any) -> Any:
        """A call that no native entry has served."""
        if current_tracer() is not None or not current().jit:
            return self.function(*args, **kwargs)
        if self.is_derived and (arrays := self._with_plain_arrays(args)) is not None:
            return self.traces.native()(*arrays, **kwargs)
        try:
            call = SlowCall(args, kwargs, *self.signature_of(args, kwargs))
        except tree.TooDeepError:  # the plain function may not mind
            return self._call_untraceable(args, kwargs, UNFLATTENABLE)
        if any(type(x) is Tracked for x in call.leaves):
            if current_observer() is not None or errstate.are_errors_reported():
                return self.function(*args, **kwargs)
            return self.recorded_calls.call(args, kwargs)
        if current_observer() is not None:
            return self._call_observed(call)
        if errstate.are_errors_reported():
            return self._call_plain(args, kwargs)
        if reason := opaque_reason(call.signature, call.leaves):
            return self._call_untraceable(args, kwargs, reason)
        if not self.is_in_frame:
            if self.is_visible or is_profiled():
                return self._call_visibly(args, kwargs)
            if self.is_suspended:
                self.suspend(False)
                return self.traces.native()(*args, **kwargs)
        group = self.groups.get(call.signature)
        if group is not None and any(each.is_awaited for each in group.specializations):
            return self._install_compiled(group)(*args, **kwargs)
        self.slow_calls += 1
        if not call.signature.is_native:
            return self._call_with_relayout(call)
        # The thread that traces may wait for this very thread: do not wait for long.
        try:
            with TRACING_LOCK.acquire_within(_LOCK_TIMEOUT) as is_ours:
                if is_ours and not (group := self.traces.group(call.signature)).fallback_reason:
                    return self._run_or_trace(group, call)
        except TakesTooLong:
            return self._install_compiled(self.traces.group(call.signature))(*args, **kwargs)
        return self._call_plain(args, kwargs)

    def suspend(self, is_suspended: bool) -> None:
        """Let calls take the slow path, or go to machine code again."""
        from tracker.jit.abi import native_callable as native

        self.is_suspended = is_suspended
        (native.suspend if is_suspended else native.resume)(self.traces.native())

    def _call_visibly(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call machine code from a frame that profilers see; the next call comes here, too."""
        self.suspend(False)
        self.is_in_frame = True
        try:
            if self.frame is None:
                self.frame = frame_function(self.traces.title, self.function)
            return self.frame(self.traces.native(), args, kwargs)
        finally:
            self.is_in_frame = False
            self.suspend(True)

    def call_unsupported(self, *args: Any, **kwargs: Any) -> Any:
        """A call where machine code is unavailable."""
        if self.options.strict:
            require_native(f"{self.name} is strict")
        return self.function(*args, **kwargs)

    @functools.cached_property
    def recorded_calls(self) -> RecordedCalls:
        return RecordedCalls(self.name, self.function, self.traces.native(), self._recorded_group)

    def _recorded_group(self, args: Sequence[Any], kwargs: dict[str, Any]) -> SignatureGroup | None:
        """The group of calls with plain arguments like these, traced if this is not the first one;
        None if there is no trace, or if the function raises: what it wrote first is recorded."""
        call = SlowCall(args, kwargs, *self.signature_of(args, kwargs), runs=False)
        if not call.signature.is_native or any(map(is_opaque, call.leaves)):
            return None
        group = self.groups.get(call.signature)
        if group is None or not (group.specializations or group.fallback_reason):
            with TRACING_LOCK.acquire_within(_LOCK_TIMEOUT) as is_ours:
                if is_ours and group is None:
                    self.traces.group(call.signature)
                elif is_ours and group is not None:
                    try:
                        self._run_or_trace(group, call)
                    except CompileError:
                        raise
                    except Exception:
                        return None
        return None if group is None or group.fallback_reason else group

    def lookup(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Specialization | None:
        """The first trace that matches a call (or the first of all), made if need be; None if the
        call runs in plain Python."""
        call = SlowCall(args, kwargs, *self.signature_of(args, kwargs), runs=False)
        with TRACING_LOCK.lock:
            group = self.traces.group(call.signature)
            for _ in range(_LOOKUP_TRACES):
                if not group.specializations and not group.fallback_reason:
                    self._run_or_trace(group, call)
            for each in group.specializations:
                if match_leaves(each.trace, call.signature, call.leaves) is not None:
                    return each
            return group.specializations[0] if group.specializations else None

    def rollback_log(self, args: Sequence[Any], kwargs: dict[str, Any]) -> RollbackLog:
        """A log that can roll back what a call does to generators and captured state."""
        call, leaves = self.signature_of(args, kwargs)
        group = self.groups.get(call)
        if group is not None and not group.may_write_state:
            return RollbackLog()
        with TRACING_LOCK.lock:
            return StateRollbackLog(self._captured_state(call, leaves), arrays=True)

    def derive(
        self,
        key: Any,
        build: Callable[..., Callable[..., Any]],
        options: tuple[Any, ...],
        argnums: ArgnumsOf,
    ) -> Any:
        """The jitted derivative `build(function, *options)` of this function with respect to
        `argnums`, made once per key."""
        made = self.derivatives.get(key)
        if made is None:
            derivative = build(self.function, *options)
            if type(derivative) is MadeFunction:
                derivative = derivative.func
            derivative = functools.wraps(self.function)(derivative)
            made = self.derivatives[key] = self.make(derivative, self.options)
            made._jitted.is_derived, made._jitted.argnums = True, argnums
            made._jitted.recipe = Recipe(build, options, self.function, self.recipe)
            made._jitted.traces.transforms = f"{_transform(key)} of {self.traces.transforms}"
        return made

    # Calls that are not traced -------------------------------------------------------------------

    def _call_plain(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call the plain function; its arguments must be the caller's own."""
        if self._is_relayout_call(args, kwargs):
            raise NeedsPlainCall
        return self.function(*args, **kwargs)

    def _run_plain(self, call: SlowCall) -> Any:
        """The plain function's result, if one is wanted."""
        return self._call_plain(call.args, call.kwargs) if call.runs else None

    def _call_untraceable(self, args: Sequence[Any], kwargs: dict[str, Any], reason: str) -> Any:
        """A call whose arguments can match no trace: an opaque object, or a structure without a
        signature."""
        if self.options.strict:
            raise CompileError(f"{self.name} is strict, and {reason}")
        return self._call_plain(args, kwargs)

    def _with_plain_arrays(self, args: Sequence[Any]) -> list[Any] | None:
        """The arguments with array-likes converted to arrays; None if there are none."""
        argnums = self.argnums(len(args))
        given = [convert_array_likes(x, at) if at in argnums else x for at, x in enumerate(args)]
        return None if all(map(operator.is_, given, args)) else given

    def _install_compiled(self, group: SignatureGroup) -> Callable[..., Any]:
        """Wait for pending compilations, and install their entries; return what to call."""
        awaited = [each for each in group.specializations if each.is_awaited]
        for each in awaited:
            each.job.wait()
        with TRACING_LOCK.acquire_within(_LOCK_TIMEOUT) as is_ours:
            if not is_ours:
                return self.function
            for each in awaited:
                if each.is_pending:
                    self.traces.install_entry(each)
        callable_: Callable[..., Any] = self.traces.native()
        return callable_

    def _call_observed(self, call: SlowCall) -> Any:
        """Trace a call within an observer, which sees its equations; nothing is compiled."""
        with TRACING_LOCK.lock:
            captured = self._captured_state(call.signature, call.leaves)
            log = StateRollbackLog(captured)
            try:
                traced = self._trace(call, captured, log, is_lazy=False)
            except Exception as error:
                if not (isinstance(error, TraceAbandoned) or is_caused_by(error, *_UNTRACEABLE)):
                    raise
                return self._rerun_plain(call, log)
        if run_has_overlap(traced):
            return self._rerun_plain(call, log)
        return traced.finish()

    def _is_relayout_call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Whether the arguments are copies made by `_call_with_relayout`."""
        if not self.relayout_ids:
            return False
        return not self.relayout_ids.isdisjoint(map(id, tree.leaves((tuple(args), kwargs))))

    def _call_with_relayout(self, call: SlowCall) -> Any:
        """Call machine code on copies in native layout, or the plain function on the originals."""
        leaves = call.leaves
        native = [relayout.to_native_layout(x) for x in leaves]
        if self._needs_original_arguments(call, native):
            return self.function(*call.args, **call.kwargs)
        args, kwargs = rebuild_arguments(call.signature, native, call.args, call.kwargs)
        copies = [(x, copy) for x, copy in zip(leaves, native, strict=True) if x is not copy]
        ids = {id(copy) for _, copy in copies}
        self.relayout_ids |= ids
        try:
            result = self.traces.native()(*args, **kwargs)
            return relayout.with_views_of_originals(result, leaves, native)
        except NeedsPlainCall:
            pass
        finally:  # what was written into a copy belongs into the caller's array
            for x, copy in copies:
                if not same_bytes(np.asarray(x, copy.dtype), copy):
                    x[...] = copy
            self.relayout_ids -= ids
        return self.function(*call.args, **call.kwargs)

    def _needs_original_arguments(self, call: SlowCall, native: list[Any]) -> bool:
        """Whether the function can tell copies in native layout from its arguments: it may change
        a container, which would be a copy too; it reads how arrays lie in memory; or an array to
        be copied shares memory with another that it sees."""
        has_containers = any(s.cls is not None for s in call.signature.structures)
        if any(x is relayout.UNSUPPORTED for x in native):
            return True
        with TRACING_LOCK.lock:
            captured = self._captured_state(call.signature, call.leaves)
            if has_containers and captured.names.may_write:
                return True
            _, everything = with_captured_state(call.signature, call.leaves, captured.sources)
        return captured.names.reads_layout or any(
            i != j and np.may_share_memory(x, y)
            for j, (x, copy) in enumerate(zip(call.leaves, native, strict=True))
            if x is not copy
            for i, y in enumerate(everything)
            if isinstance(y, np.ndarray)
        )

    # Matching and tracing ------------------------------------------------------------------------

    def _captured_state(self, call: Signature, leaves: list[Any]) -> CapturedState:
        objects = static_leaves(call, leaves)
        captured = find_captured_state(self.function, objects, self.options.pure)
        if self.has_constant_library_arrays:
            return with_constant_arrays(captured, self.function)
        return captured

    def _run_or_trace(self, group: SignatureGroup, call: SlowCall) -> Any:
        """Run a trace that matches, or make one."""
        leaves, given = call.leaves, call.given
        result = run_matching(group, call.signature, leaves, given)
        if result is not NO_RESULT:
            return result
        if needs_plain_call(group, call.signature, leaves, given):
            return self._run_plain(call)
        if call.runs and self._is_another_shape(group):
            return self._run_plain(call)
        if group.failed_traces >= MAX_FAILED_TRACES and call.runs:
            result = self._run_plain(call)
            group.failed_traces = 0  # the next call is traced
            return result
        if group.backs_off and call.runs and not self.options.strict:
            group.backoff_calls -= 1
            return self._run_plain(call)
        self.traces.drop_dead(group)
        if len(group.specializations) >= self.options.max_traces:
            what = f"it has {self.options.max_traces} traces already"
            self.traces.fall_back(group, f"{what} ({newest_cause(group)})")
        captured = self._captured_state(call.signature, leaves)
        group.may_write_state |= captured.names.may_write
        if not self._may_trace(group, captured):
            return self._run_plain(call)
        full_signature, everything = with_captured_state(call.signature, leaves, captured.sources)
        if self._must_run_plain(group, full_signature, everything):
            return self._run_plain(call)
        if captured.lru_caches and call.runs and not group.cache_fills:
            group.cache_fills = 1  # the first call fills the caches, as a rule
            return self.function(*call.args, **call.kwargs)
        if group.may_write_state and aliases_holder(full_signature, given):
            return self._run_plain(call)
        distinct = distinct_objects(full_signature) if captured.names.tests_identity else ()
        if any(len(each.members) > _MAX_COMPARED_ARRAYS for each in distinct):
            self.traces.refuse(group, "it compares objects, and is given many arrays")
            return self._run_plain(call)
        if not conditions_hold(distinct, full_signature, everything, given):
            return self._run_plain(call)
        self.traces.promotion.learn_from_miss(
            [each.trace.signature for each in group.specializations], full_signature
        )
        try:
            return self._trace_and_run(group, call, captured, full_signature, is_lazy=True)
        except SpeculationFailed:  # rolled back already
            return self._trace_and_run(group, call, captured, full_signature, is_lazy=False)

    def _is_another_shape(self, group: SignatureGroup) -> bool:
        """Whether this is the first call with arrays of these extents, there were calls with
        others, and a trace would take longer than the call: there may be no second one."""
        was_called, group.was_called = group.was_called, True
        if was_called or self.options.strict:
            return False
        alike = [
            other.specializations[-1].trace
            for call in group.earlier_signatures
            if (other := self.groups.get(call)) is not None
            and other.specializations
            and differ_in_extents(group.signature, call)
        ]
        return len(alike) >= _TRACED_SHAPES and is_faster_untraced(alike[0])

    def _may_trace(self, group: SignatureGroup, captured: CapturedState) -> bool:
        """Whether the captured state allows traces; if not, the group may fall back for good."""
        if group.fallback_reason:
            return False
        if reason := captured.impure_reason or captured.over_limit:
            self.traces.refuse(group, reason)
            return False
        if captured.may_be_impure and is_profiler_in_use():
            self._warn_of_profiler()
            return False
        return True

    def _must_run_plain(
        self, group: SignatureGroup, full_signature: Signature, leaves: Sequence[Any]
    ) -> bool:
        """Whether the leaves have opaque objects, or tracked values whose history the result must
        carry."""
        if reason := opaque_reason(full_signature, leaves):
            self.traces.refuse(group, reason)
            return True
        tracked = [x for x in leaves if type(x) is Tracked]
        if any(hasattr(x, "_owner") for x in tracked) and not self.is_derived:
            group.fallback_reason = READS_RECORDED_PARAM
            return True
        if self.is_derived and not has_active_transform():
            return False  # the history is of a derivative that has ended
        return not all(hasattr(x, "_owner") or is_constant(value_of(x)) for x in tracked)

    def _warn_of_profiler(self) -> None:
        """Nothing is traced while another profiler is active; say so once."""
        if self.options.strict:
            raise CompileError(f"{self.name} is strict, and {PROFILER_IN_USE}")
        if not self.has_warned_of_profiler:
            self.has_warned_of_profiler = True
            warn(f"{self.name} runs in plain Python for now: {PROFILER_IN_USE}", RuntimeWarning)

    def _rerun_plain(self, call: SlowCall, log: StateRollbackLog) -> Any:
        """Roll back, and call the plain function, which draws the same random numbers again."""
        log.roll_back()
        return self._run_plain(call)

    def _trace_and_run(
        self,
        group: SignatureGroup,
        call: SlowCall,
        captured: CapturedState,
        full_signature: Signature,
        is_lazy: bool,
    ) -> Any:
        """Trace a call, compile the trace if it can serve others, and compute the result."""
        log, modules = StateRollbackLog(captured), len(sys.modules)
        try:
            traced = self._trace(call, captured, log, is_lazy, bool(group.specializations))
        except SpeculationFailed:
            log.roll_back()
            raise
        except TraceAbandoned:
            return self._rerun_plain(call, log)
        except Exception as error:
            if not is_caused_by(error, *_UNTRACEABLE):
                group.failed_traces += 1
                if not call.runs:
                    log.roll_back()
                    log.forget()
                raise
            if self._may_be_transient(group, error, has_imported=len(sys.modules) > modules):
                return self._rerun_plain(call, log)
            return self._refuse_and_rerun(group, error, call, log)
        group.failed_traces = 0
        if self._reject(group, call, traced) is not None:
            return self._rerun_plain(call, log)
        scheduler = traced.scheduler
        result = self._finish(group, call, traced, full_signature, log)
        if scheduler is not None and call.runs:
            del traced  # lazy values that nobody else refers to are not computed
            scheduler.finish()
        return result

    def _reject(self, group: SignatureGroup, call: SlowCall, traced: TracedRun) -> Retry | None:
        """Why the result of a traced run cannot be used, if so; a group whose other calls would be
        no better falls back."""
        trace = traced.trace
        if traced.effects.containers.has_aliases:
            return Retry.ALIASED_CONTAINER
        if traced.has_filled_caches and trace is not None:
            group.cache_fills += 1
            if group.cache_fills == MAX_FAILED_TRACES:
                self.traces.fall_back(group, "each call fills a cache with what it reads")
            return Retry.FILLED_CACHE
        if trace is None:
            if traced.failure_reason == UNTRACED_OBJECT and not self.options.strict:
                group.fallback_reason = UNTRACED_OBJECT
            else:
                self.traces.refuse(group, traced.failure_reason)
            if run_has_overlap(traced):
                return Retry.ALIASED_ARRAYS
            is_copy = self._is_relayout_call(call.args, call.kwargs)
            return Retry.RELAYOUT if is_copy else None
        if any(trace.owners) and not self.is_derived:
            group.fallback_reason = READS_RECORDED_PARAM
            return Retry.RECORDED_PARAM
        if has_overlap(trace, traced.leaves):
            group.aliasing_trace = trace
            return Retry.ALIASED_ARRAYS
        return None

    def _finish(
        self,
        group: SignatureGroup,
        call: SlowCall,
        traced: TracedRun,
        full_signature: Signature,
        log: StateRollbackLog,
    ) -> Any:
        """The result of a traced call: by machine code, where large arrays are still lazy."""
        from tracker.jit.dispatch import first_call
        from tracker.jit.runtime import compile_queue

        by_numpy = first_call.is_numpy_soon_done(traced, self.traces.compiles_synchronously)
        specialization = None
        if traced.trace is not None:
            can_wait = by_numpy and call.runs
            specialization = self.traces.keep(
                group,
                traced.trace,
                full_signature,
                can_wait=can_wait,
                can_be_quick=call.runs and traced.seconds < _MAX_SECONDS_OF_QUICK,
            )
        try:
            if not call.runs:
                log.roll_back()
                log.forget()
                return None
            if (
                by_numpy
                or specialization is None
                or specialization.trace.state_writes
                or log.has_draws()
            ):
                return first_call.finish_with_numpy(traced)
            return first_call.finish_with_machine_code(
                specialization, traced, call.args, call.kwargs
            )
        except SpeculationFailed:
            log.roll_back()
            raise
        finally:
            if specialization is not None:  # start late: compiling would slow the computation
                specialization.traced_until = CLOCK.tick()
                compile_queue.start(specialization.job)
                if specialization.is_awaited and specialization.job.has_result:
                    self.traces.install_entry(specialization)

    def _may_be_transient(
        self, group: SignatureGroup, error: Exception, has_imported: bool
    ) -> bool:
        """Whether another thread, or an import, may have drawn random numbers while this thread
        traced: then another call is traced."""
        alone = threading.active_count() == 1 and not has_imported
        if not isinstance(error, UnrecordedDraws) or alone:
            return False
        group.unstable_traces += 1
        return group.unstable_traces < MAX_FAILED_TRACES

    def _refuse_and_rerun(
        self, group: SignatureGroup, error: Exception, call: SlowCall, log: StateRollbackLog
    ) -> Any:
        """The plain function's result, where the call cannot be traced because of `error`."""
        if error.__cause__ is not None and not self.options.strict:
            try:  # the plain function may raise the same error: then there is nothing to announce
                result = self._rerun_plain(call, log)
            except NeedsPlainCall:
                self.traces.refuse(group, str(error), error)
                raise
            self.traces.refuse(group, str(error), error)
            return result
        self.traces.refuse(group, str(error), error)
        return self._rerun_plain(call, log)

    def _trace(
        self,
        call: SlowCall,
        captured: CapturedState,
        log: StateRollbackLog,
        is_lazy: bool,
        has_other_paths: bool = False,
    ) -> TracedRun:
        """Trace a call, again in another way if need be."""
        promoted = self.traces.promotion.paths

        def other_way(error: Exception) -> Retry | None:
            is_refusal = isinstance(error, (TypeError, AttributeError))
            is_refusal |= is_caused_by(error, *_UNTRACEABLE)
            if is_refusal and any(source in captured.sources for source, _ in promoted):
                return Retry.CONSTANT_NUMBERS
            if self.has_constant_library_arrays:
                return None
            if is_refusal or isinstance(error, ValueError):
                fixed = with_constant_arrays(captured, self.function)
                return Retry.CONSTANT_ARRAYS if _holds_constant_arrays(fixed) else None
            return None

        def on_error(error: Exception, effects: PendingEffects) -> None:
            if not is_caused_by(error, *_UNTRACEABLE) and other_way(error) is None:
                if call.runs:  # the error is the user's: so is what was written
                    if effects.has_aliases:
                        raise TraceAbandoned from error
                    effects.apply()
                untrack_error(error, effects.originals)

        try:
            with compile_stage("tracing", self.name), enter_all(log):
                return trace_call(
                    self.function,
                    call.args,
                    call.kwargs,
                    self.options.static,
                    self.name.replace(" ", "_"),
                    differentiated=self.argnums(len(call.args)),
                    on_error=on_error,
                    captured=captured,
                    vouched=self.options.pure,
                    promoted=promoted,
                    with_views=True,
                    is_lazy=is_lazy,
                    has_other_paths=has_other_paths,
                )
        except Exception as error:
            retry = other_way(error)
            if retry is None:
                raise
        if retry is Retry.CONSTANT_NUMBERS:
            self.traces.promotion.reject_all()
        else:
            captured = with_constant_arrays(captured, self.function)
            self.has_constant_library_arrays = True
        log.roll_back()
        return self._trace(call, captured, log, is_lazy, has_other_paths)


def _transform(key: Any) -> str:
    """The name of the function that made a derivative, from its key."""
    while type(key) is tuple:
        key = key[1] if key[0] == "method" else key[0]
    return str(key)


def _holds_constant_arrays(captured: CapturedState) -> bool:
    """Whether an array in a library's object is a constant of the trace."""
    held = (source.read() for source in captured.sources if source.is_constant)
    return any(isinstance(x, np.ndarray) for each in held for x in tree.leaves(each))


def plain_function(f: Callable[..., Any]) -> Callable[..., Any]:
    """The plain function of a jitted one, bound to the same object; others unchanged."""
    function, bound = split_method(f)
    if not is_jitted(function):
        return f
    plain: Callable[..., Any] = function._jitted.function
    return MethodType(plain, *bound) if bound else plain
