"""The Python side of a jitted function: its traces, and the calls that no machine code took.

Owns: `Jitted`, which runs what has a trace, and traces what has none; what becomes of traces is in
`trace_cache.py`. Start at `Jitted.call_slow`.

A trace holds for one signature (of the arguments, and of what the function reads besides them) and
one way through the guards. Invariant: a call runs the user's function once, whether it is traced,
compiled, or given up; twice only where a derivative's error stopped the trace, where arrays that
share memory were written into or a list that was given twice was changed, where a loop's body gave
away a value of its own, where it could not do with a captured number that varies, or C code with
what stood in a library's object, where large arrays gave a derivative with NaNs, where a call back
into Python raised, and where it cannot be compiled and was given arrays of another byte order.

Calls with arguments that no entry takes as they lie: of another byte order, alignment or class.

Owns: `call_with_relayout` and `NeedsPlainCall`. Arrays are laid out anew (`relayout.py`), machine
code is called with the copies, and what it has written into these goes back. Where that could be
told from the plain call, or no machine code takes the copies, the function runs plain, with what
was given.
"""

from __future__ import annotations

import functools
import operator
import sys
import threading
from collections.abc import Callable, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any

import numpy as np

from tracker import tree
from tracker.autodiff.boundary import UNTRACED_OBJECT, ArgnumsOf, convert_array_likes, split_method
from tracker.config import current
from tracker.errors import CompileError, ConversionError, IRError, UnsupportedError, warn
from tracker.jit.discovery.discovery import CapturedState, find_captured_state, with_constant_arrays
from tracker.jit.discovery.impure_calls import PROFILER_IN_USE, is_profiler_in_use
from tracker.jit.discovery.opaque_objects import is_opaque
from tracker.jit.dispatch.specialization import (
    NO_RESULT,
    SignatureGroup,
    Specialization,
    aliases_holder,
    conditions_hold,
    has_overlap,
    match_leaves,
    needs_plain_call,
    newest_cause,
    run_has_overlap,
    run_matching,
)
from tracker.jit.dispatch.trace_cache import (
    MAX_FAILED_TRACES,
    READS_OPAQUE_OBJECT,
    READS_RECORDED_PARAM,
    UNFLATTENABLE,
    JitOptions,
    TraceCache,
)
from tracker.jit.guards import signature
from tracker.jit.guards.conditions import distinct_objects
from tracker.jit.guards.matching import with_captured_state
from tracker.jit.llvm.signals import SIGNALS_DEFERRED, enter_all
from tracker.jit.runtime.availability import require_native
from tracker.jit.tracing.inputs import PendingEffects
from tracker.jit.tracing.ir_builder import TraceAbandoned
from tracker.jit.tracing.placeholder_swap import TRACING_LOCK, untrack_error
from tracker.jit.tracing.side_effects import StateRollbackLog
from tracker.jit.tracing.trace import TracedRun, static_leaves, trace_call
from tracker.random.draw_ops import RollbackLog, UnrecordedDraws
from tracker.support import errstate
from tracker.tape.lazy import SpeculationFailed
from tracker.tape.observers import current_observer
from tracker.tape.tracer import current_tracer
from tracker.tape.tracked import Tracked

if TYPE_CHECKING:
    pass


from typing import TYPE_CHECKING

from tracker.jit.dispatch import relayout
from tracker.jit.guards.signature import Signature
from tracker.support.array_copies import same_bytes

if TYPE_CHECKING:
    pass


class Jitted(TraceCache):
    """The state of a jitted function; see the file's header."""

    def __init__(self, function: Callable[..., Any], options: JitOptions) -> None:
        super().__init__(function, options)
        self.derivatives: dict[Any, Any] = {}
        self.slow_calls = 0
        self.has_warned_of_profiler = False
        self.has_constant_library_arrays = (
            False  # whether arrays in objects of libraries are constants of traces
        )
        self.relayout_ids: set[int] = set()  # the ids of arrays in `call_with_relayout` just now

    def call_slow(self, *args: Any, **kwargs: Any) -> Any:
        """A call that no native entry has served."""
        if current_tracer() is not None or not current().jit:
            return self.function(*args, **kwargs)
        if self.is_derived and (arrays := self._with_plain_arrays(args)) is not None:
            return self.native()(*arrays, **kwargs)
        try:
            call, leaves = self.signature_of(args, kwargs)
        except tree.TooDeepError:  # which the plain function may not mind
            return self._call_untraceable(args, kwargs, UNFLATTENABLE)
        if any(type(x) is Tracked for x in leaves):
            return self.function(*args, **kwargs)
        if current_observer() is not None:
            return self._call_observed(args, kwargs, call, leaves)
        if errstate.are_errors_reported():
            return self._call_plain(args, kwargs)
        if any(map(is_opaque, leaves)):
            return self._call_untraceable(args, kwargs, READS_OPAQUE_OBJECT)
        group = self.groups.get(call)
        if group is not None and any(
            specialization.is_pending for specialization in group.specializations
        ):
            return self._install_compiled(group)(*args, **kwargs)
        self.slow_calls += 1
        if not call.is_native:
            return call_with_relayout(self, args, kwargs, call, leaves)
        with TRACING_LOCK.acquire_within(
            _LOCK_TIMEOUT
        ) as is_ours:  # who traces may be waiting for this very thread
            if is_ours and not (group := self._group(call)).fallback_reason:
                return self._run_or_trace(group, call, leaves, args, kwargs)
        return self._call_plain(args, kwargs)

    def call_unsupported(self, *args: Any, **kwargs: Any) -> Any:
        """A call where machine code is unavailable."""
        if self.options.strict:
            require_native(f"{self.name} is strict")
        return self.function(*args, **kwargs)

    def _with_plain_arrays(self, args: Sequence[Any]) -> list[Any] | None:
        """The arguments with array-likes converted to arrays; None if there are none."""
        taken = self.differentiated(args)
        given = [convert_array_likes(x, at) if at in taken else x for at, x in enumerate(args)]
        return None if all(map(operator.is_, given, args)) else given

    def _captured_state(self, call: signature.Signature, leaves: list[Any]) -> CapturedState:
        """The captured state of a call."""
        captured = find_captured_state(
            self.function, static_leaves(call, leaves), self.options.pure
        )
        return (
            with_constant_arrays(captured, self.function)
            if self.has_constant_library_arrays
            else captured
        )

    def _call_plain(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call the plain function; its arguments must be the caller's own."""
        if self._is_relayout_call(args, kwargs):
            raise NeedsPlainCall
        return self.function(*args, **kwargs)

    def _is_relayout_call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Whether the arguments are copies made by `call_with_relayout`."""
        if not self.relayout_ids:
            return False
        return not self.relayout_ids.isdisjoint(map(id, tree.leaves((tuple(args), kwargs))))

    def _call_untraceable(self, args: Sequence[Any], kwargs: dict[str, Any], reason: str) -> Any:
        """A call whose arguments can match no trace: an opaque object, or a structure without a
        signature."""
        if self.options.strict:
            raise CompileError(f"{self.name} is strict, and {reason}")
        return self._call_plain(args, kwargs)

    def _install_compiled(self, group: SignatureGroup) -> Callable[..., Any]:
        """Wait for pending compilations, and install their entries; return what to call."""
        for specialization in group.specializations:
            specialization.job.wait()
        with TRACING_LOCK.acquire_within(_LOCK_TIMEOUT) as is_ours:
            if not is_ours:
                return self.function
            for specialization in group.specializations:
                if specialization.is_pending:
                    self._install_entry(specialization)
        callable_: Callable[..., Any] = self.native()
        return callable_

    def _call_observed(
        self,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        call: signature.Signature,
        leaves: list[Any],
    ) -> Any:
        """A call within an observer: it is traced, so that the observer sees its equations, and not
        compiled."""
        with TRACING_LOCK.lock:
            captured = self._captured_state(call, leaves)
            rollback_log = StateRollbackLog(captured)
            try:
                staged = self._trace(args, kwargs, captured, rollback_log, is_lazy=False)
            except Exception as error:
                if not (isinstance(error, TraceAbandoned) or _is_untraceable(error)):
                    raise
                return self._roll_back_and_call_plain(args, kwargs, rollback_log, True)
        if run_has_overlap(staged):
            return self._roll_back_and_call_plain(args, kwargs, rollback_log, True)
        return staged.finish()

    def lookup(
        self,
        call: signature.Signature,
        leaves: list[Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> Specialization | None:
        """The first trace that matches a call (or the first of all), made if need be; None if the
        call runs in plain Python."""
        with TRACING_LOCK.lock:
            group = self._group(call)
            for _ in range(_LOOKUP_TRACES):
                if not group.specializations and not group.fallback_reason:
                    self._run_or_trace(group, call, leaves, args, kwargs, run=False)
            holding = (
                s for s in group.specializations if match_leaves(s.trace, call, leaves) is not None
            )
            return next(holding, group.specializations[0] if group.specializations else None)

    def rollback_log(self, args: Sequence[Any], kwargs: dict[str, Any]) -> RollbackLog:
        """A log that can roll back what a call does to generators and captured state."""
        call, leaves = self.signature_of(args, kwargs)
        group = self.groups.get(call)
        if group is not None and not group.may_write_state:
            return RollbackLog()
        with TRACING_LOCK.lock:
            return StateRollbackLog(self._captured_state(call, leaves), arrays=True)

    def _run_or_trace(
        self,
        group: SignatureGroup,
        call: signature.Signature,
        leaves: list[Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        run: bool = True,
    ) -> Any:
        """Run a trace that matches, or make one."""
        given = (*args, *kwargs.values())
        done = run_matching(group, call, leaves, given)
        if done is not NO_RESULT:
            return done
        if needs_plain_call(group, call, leaves, given):
            return self._call_plain(args, kwargs) if run else None
        if group.failed_traces >= MAX_FAILED_TRACES and run:
            return self._call_after_errors(group, args, kwargs)
        if group.backoff_calls and run and not self.options.strict:
            group.backoff_calls -= 1
            return self._call_plain(args, kwargs)
        dead = [
            specialization
            for specialization in group.specializations
            if not specialization.trace.signature.is_alive
        ]
        if dead:
            group.specializations = [s for s in group.specializations if s.trace.signature.is_alive]
            self._drop_entries(dead)
        if len(group.specializations) >= self.options.max_traces:
            what = f"it has {self.options.max_traces} traces already"
            self._fall_back(group, f"{what} ({newest_cause(group)})")
        captured = self._captured_state(call, leaves)
        group.may_write_state |= bool(captured.stored) or captured.writes_unknown
        if not group.fallback_reason and (why := captured.impure_reason or captured.over_limit):
            self._refuse(group, why)
        if captured.may_be_impure and is_profiler_in_use() and not group.fallback_reason:
            self._warn_of_profiler()
            return self._call_plain(args, kwargs) if run else None
        if group.fallback_reason or self._must_run_plain(group, call, leaves, captured.sources):
            if self.options.strict and group.fallback_reason == READS_OPAQUE_OBJECT:
                raise CompileError(f"{self.name} is strict, and {READS_OPAQUE_OBJECT}")
            return self._call_plain(args, kwargs) if run else None

        if captured.lru_caches and run and not group.cache_fills:
            group.cache_fills = 1  # the first call does, as a rule
            return self.function(*args, **kwargs)
        full, everything = with_captured_state(call, leaves, captured.sources)
        if group.may_write_state and aliases_holder(full, given):
            return self._call_plain(args, kwargs) if run else None
        distinct = distinct_objects(full) if captured.tests_identity else ()
        if any(len(each.members) > _MAX_COMPARED_ARRAYS for each in distinct):
            self._refuse(group, "it compares objects, and is given many arrays")
            return self._call_plain(args, kwargs) if run else None
        if not conditions_hold(distinct, full, everything, given):
            return self._call_plain(args, kwargs) if run else None
        self.promotion.learn_from_miss(
            [specialization.trace.signature for specialization in group.specializations], full
        )
        try:
            return self._trace_and_run(group, args, kwargs, captured, full, run, is_lazy=True)
        except SpeculationFailed:
            return self._trace_and_run(group, args, kwargs, captured, full, run, is_lazy=False)

    def _warn_of_profiler(self) -> None:
        """Nothing is traced while another profiler is active; say so once."""
        if self.options.strict:
            raise CompileError(f"{self.name} is strict, and {PROFILER_IN_USE}")
        if not self.has_warned_of_profiler:
            self.has_warned_of_profiler = True
            warn(f"{self.name} runs in plain Python for now: {PROFILER_IN_USE}", RuntimeWarning)

    def _call_after_errors(
        self, group: SignatureGroup, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        """A plain call of a function whose last traces all raised; the next call is traced."""
        result = self._call_plain(args, kwargs)
        group.failed_traces = 0
        return result

    def _trace_and_run(
        self,
        group: SignatureGroup,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        captured: CapturedState,
        full_signature: signature.Signature,
        run: bool,
        is_lazy: bool,
    ) -> Any:
        """Make a trace, and keep it; the result is machine code's where numbers were put off."""
        rollback_log, modules = StateRollbackLog(captured), len(sys.modules)
        try:
            staged = self._trace(args, kwargs, captured, rollback_log, is_lazy)
        except SpeculationFailed:
            rollback_log.roll_back()
            raise
        except TraceAbandoned:
            return self._roll_back_and_call_plain(args, kwargs, rollback_log, run)
        except Exception as error:
            if not _is_untraceable(error):
                group.failed_traces += 1
                raise
            if self._may_be_transient(group, error, has_imported=len(sys.modules) > modules):
                return self._roll_back_and_call_plain(args, kwargs, rollback_log, run)
            return self._call_refused(group, error, args, kwargs, rollback_log, run)
        group.failed_traces = 0
        with SIGNALS_DEFERRED:
            from tracker.jit.dispatch import first_call
            from tracker.jit.runtime import compile_queue

        if staged.effects.containers.has_aliases:
            return self._roll_back_and_call_plain(args, kwargs, rollback_log, run)
        if staged.has_filled_caches and staged.trace is not None:
            group.cache_fills += 1
            if group.cache_fills == MAX_FAILED_TRACES:
                self._fall_back(group, "each call fills a cache with what it reads")
            return self._roll_back_and_call_plain(args, kwargs, rollback_log, run)
        specialization, is_ahead = (
            None,
            first_call.is_numpy_soon_done(staged, self._compiles_synchronously),
        )
        if staged.trace is None:
            if staged.failure_reason == UNTRACED_OBJECT and not self.options.strict:
                group.fallback_reason = UNTRACED_OBJECT
            else:
                self._refuse(group, staged.failure_reason)
            if run_has_overlap(staged) or self._is_relayout_call(args, kwargs):
                return self._roll_back_and_call_plain(args, kwargs, rollback_log, run)
        elif any(staged.trace.owners) and not self.is_derived:
            group.fallback_reason = READS_RECORDED_PARAM
            return self._roll_back_and_call_plain(args, kwargs, rollback_log, run)
        elif has_overlap(staged.trace, staged.leaves):
            group.aliasing_trace = staged.trace
            return self._roll_back_and_call_plain(args, kwargs, rollback_log, run)
        else:
            specialization = self._keep_trace(group, staged.trace, full_signature, is_ahead and run)
        try:
            if not run:
                rollback_log.roll_back()
                return None
            if (
                is_ahead
                or specialization is None
                or rollback_log.has_draws()
                or specialization.trace.state_writes
            ):
                result = first_call.finish_with_numpy(staged)
            else:
                result = first_call.finish_with_machine_code(specialization, staged, args, kwargs)
        except SpeculationFailed:
            rollback_log.roll_back()
            raise
        finally:
            if specialization is not None:
                compile_queue.start(specialization.job)  # not before: who computes is not disturbed
                if specialization.job.has_result:
                    self._install_entry(specialization)
        scheduler = staged.scheduler
        if scheduler is not None:
            del staged
            scheduler.finish()
        return result

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

    def _call_refused(
        self,
        group: SignatureGroup,
        error: Exception,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        rollback_log: StateRollbackLog,
        run: bool,
    ) -> Any:
        """The plain function's result, where the call cannot be traced because of `error`."""
        if isinstance(error.__cause__, TypeError) and not self.options.strict:
            try:
                result = self._roll_back_and_call_plain(
                    args, kwargs, rollback_log, run
                )  # it may raise that, too
            except NeedsPlainCall:
                self._refuse(group, str(error), error)
                raise
            self._refuse(group, str(error), error)
            return result
        self._refuse(group, str(error), error)
        return self._roll_back_and_call_plain(args, kwargs, rollback_log, run)

    def _trace(
        self,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        captured: CapturedState,
        rollback_log: StateRollbackLog,
        is_lazy: bool,
    ) -> TracedRun:
        """Trace a call; see `Retry` for the cases in which the function runs again."""
        promoted = self.promotion.paths
        fixed = (
            None
            if self.has_constant_library_arrays
            else with_constant_arrays(captured, self.function)
        )

        def cannot(error: Exception) -> bool:
            refused = isinstance(error, (TypeError, AttributeError)) or _is_untraceable(error)
            return refused and any(source in captured.sources for source, _ in promoted)

        def is_of_library(error: Exception) -> bool:
            may_be = isinstance(error, (TypeError, AttributeError, ValueError))
            return (
                (may_be or _is_untraceable(error))
                and fixed is not None
                and _holds_constant_arrays(fixed)
            )

        def on_error(error: Exception, effects: PendingEffects) -> None:
            if not (_is_untraceable(error) or cannot(error) or is_of_library(error)):
                if effects.has_aliases:  # the error is the user's: so is what was written
                    raise TraceAbandoned from error
                effects.apply()
                untrack_error(error, effects.originals)

        try:
            with enter_all(rollback_log):
                return trace_call(
                    self.function,
                    args,
                    kwargs,
                    self.options.static,
                    self.name,
                    differentiated=self.differentiated(args),
                    on_error=on_error,
                    captured=captured,
                    vouched=self.options.pure,
                    promoted=promoted,
                    with_views=True,
                    is_lazy=is_lazy,
                )
        except Exception as error:
            if not cannot(error) and not is_of_library(error):
                raise
            again = captured
            if cannot(error):
                self.promotion.reject_all()
            elif fixed is not None:
                again, self.has_constant_library_arrays = fixed, True
        rollback_log.roll_back()
        return self._trace(args, kwargs, again, rollback_log, is_lazy)

    def _roll_back_and_call_plain(
        self, args: Sequence[Any], kwargs: dict[str, Any], rollback_log: StateRollbackLog, run: bool
    ) -> Any:
        """Call the plain function, which draws the same random numbers again."""
        rollback_log.roll_back()
        return self._call_plain(args, kwargs) if run else None

    def derive(
        self,
        key: Any,
        build: Callable[[Callable[..., Any]], Callable[..., Any]],
        differentiated: ArgnumsOf,
    ) -> Any:
        """The jitted derivative of this function with respect to the arguments that are
        `differentiated`, made once for each key."""
        made = self.derivatives.get(key)
        if made is None:
            derivative = functools.wraps(self.function)(build(self.function))
            made = self.derivatives[key] = self.make(derivative, self.options)
            made._jitted.is_derived = True
            made._jitted.differentiated_positions = differentiated
        return made

    make: Callable[[Callable[..., Any], JitOptions], Any]  # set by jit/api.py, which makes objects


_LOCK_TIMEOUT = (
    0.3  # seconds; a call that has waited so long for another's trace runs in plain Python
)
_LOOKUP_TRACES = 3  # after which it is known what varies
_MAX_COMPARED_ARRAYS = 300  # arrays, any two of which may be one: to compare them takes 20 us
_UNTRACEABLE = (ConversionError, UnsupportedError, IRError)


def _holds_constant_arrays(captured: CapturedState) -> bool:
    """Whether an array in a library's object is a constant of the trace."""
    held = (source.read() for source in captured.sources if source.is_constant)
    return any(isinstance(x, np.ndarray) for each in held for x in tree.leaves(each))


def _is_untraceable(error: BaseException | None) -> bool:
    """Whether an error is one of tracing; NumPy wraps some in a ValueError, as the cause."""
    while error is not None:
        if isinstance(error, _UNTRACEABLE):
            return True
        error = error.__cause__
    return False


def plain_function(f: Callable[..., Any]) -> Callable[..., Any]:
    """The plain function of a jitted one, bound to the same object; others unchanged."""
    function, bound = split_method(f)
    state = getattr(function, "_jitted", None)
    if state is None:
        return f
    return MethodType(state.function, *bound) if bound else state.function


def call_with_relayout(
    jitted: Jitted,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    call: Signature,
    leaves: list[Any],
) -> Any:
    """The result of machine code on copies in native layout, or of the plain function on the
    originals."""
    function = jitted.function
    usual = [relayout.to_native_layout(x) for x in leaves]
    if any(s.cls is not None for s in call.structures) and _may_write_state(function, call, leaves):
        return function(*args, **kwargs)  # a container made anew is not the caller's
    if any(x is relayout.UNSUPPORTED for x in usual) or _share_memory(
        function, call, leaves, usual
    ):
        return function(*args, **kwargs)
    given = iter(usual)
    templates = (*args, *kwargs.values())
    rebuilt = [
        tree.unflatten(structure, [next(given) for _ in range(structure.count)], template)
        for structure, template in zip(call.structures, templates, strict=True)
    ]
    copies = {id(copy) for x, copy in zip(leaves, usual, strict=True) if x is not copy}
    jitted.relayout_ids |= copies
    try:
        named = dict(zip(kwargs, rebuilt[len(args) :], strict=True))
        result = jitted.native()(*rebuilt[: len(args)], **named)
        return relayout.with_views_of_originals(result, leaves, usual)
    except NeedsPlainCall:
        pass
    finally:  # what was written into a copy belongs into the caller's array
        for x, copy in zip(leaves, usual, strict=True):
            if x is not copy and not same_bytes(np.asarray(x, copy.dtype), copy):
                x[...] = copy
        jitted.relayout_ids -= copies
    return function(*args, **kwargs)


class NeedsPlainCall(Exception):
    """No machine code took the copies: the plain function must run on the originals."""


def _may_write_state(function: Callable[..., Any], call: Signature, leaves: list[Any]) -> bool:
    """Whether the code may write captured state."""
    with TRACING_LOCK.lock:
        captured = find_captured_state(function, static_leaves(call, leaves))
    return bool(captured.stored) or captured.writes_unknown


def _share_memory(
    function: Callable[..., Any], call: Signature, leaves: list[Any], usual: list[Any]
) -> bool:
    """Whether an array to be laid out anew shares memory with another that the code sees, or the
    code sees how it lies."""
    with TRACING_LOCK.lock:
        captured = find_captured_state(function, static_leaves(call, leaves))
        _, everything = with_captured_state(call, leaves, captured.sources)
    if captured.reads_layout:
        return True
    arrays = [(i, x) for i, x in enumerate(everything) if isinstance(x, np.ndarray)]
    return any(
        i != j and np.may_share_memory(x, y)
        for j, (x, copy) in enumerate(zip(leaves, usual, strict=True))
        if x is not copy
        for i, y in arrays
    )
