"""Which traces of a jitted function are kept and compiled, and when it falls back to plain Python.

Start at `TracePolicy.keep`.

Invariants: a trace is kept if another call can match it. A fallback is announced once, as a warning
at the user's line, or raises CompileError where the function is strict.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tracker.config import current
from tracker.errors import CompileError, message, warn
from tracker.jit.discovery.purity_table import NONE_VOUCHED, VouchedCallables
from tracker.jit.discovery.stdlib_objects import is_opaque
from tracker.jit.dispatch.interpreter import interpreted_calls
from tracker.jit.dispatch.mask_traces import without_counts
from tracker.jit.dispatch.specialization import (
    SignatureGroup,
    Specialization,
    SpecializationCache,
    miss_cause,
)
from tracker.jit.guards.captured_leaves import leaf_labels
from tracker.jit.guards.promotion import Promotion
from tracker.jit.guards.signature import ConstantOut, Signature
from tracker.jit.runtime.lru_clock import CLOCK
from tracker.jit.runtime.progress import compile_stage
from tracker.jit.tracing.gc_pause import infrequent_gc
from tracker.jit.tracing.placeholder_swap import TRACING_LOCK
from tracker.jit.tracing.trace import Trace
from tracker.support.deferred_signals import SIGNALS_DEFERRED
from tracker.support.shown_text import function_name
from tracker.support.structs import record

if TYPE_CHECKING:
    from tracker.jit.pipeline.link import CompiledTrace

READS_RECORDED_PARAM = "it reads a param, whose history is recorded"
UNFLATTENABLE = "it is given a structure that contains itself, or is too deep"
# After so many traces in a row that cannot be kept, or raise, calls run in plain Python.
MAX_FAILED_TRACES = 3
_MAX_BACKOFF_POWER = 8  # after duplicate and idle traces, up to 2**8 calls are not traced
# For whether optimised code is ready; a look takes as long as a small call.
_CALLS_BETWEEN_LOOKS = 8
_QUICK_SECONDS_PER_OPTIMISING = 3  # on one processor


def _deserves_optimising(quick: CompiledTrace, seconds: float) -> bool:
    """Whether quick code that has been in use for so long should be optimised. Where the compiler
    shares the processor with the program, it takes time from what runs meanwhile, perhaps other
    functions: a small part of what the quick code has had."""
    from tracker.jit.runtime.thread_pool import thread_count

    return thread_count() > 1 or seconds >= _QUICK_SECONDS_PER_OPTIMISING * quick.optimising_seconds


def opaque_reason(call: Signature, leaves: Sequence[Any]) -> str:
    """Which opaque object is among the leaves of a call; "" if there is none."""
    at = next((at for at, x in enumerate(leaves) if is_opaque(x)), None)
    if at is None:
        return ""
    cls = type(leaves[at])
    name = f"{cls.__module__}.{cls.__qualname__}".removeprefix("builtins.")
    what = f"it reads {leaf_labels(call)[at]}, of class {name}, whose state no trace can compare"
    return f"{what}. Pass what it gives as an argument"


@record(frozen=True)
class JitOptions:
    """The options of `jit`."""

    static: frozenset[int | str]
    cache: bool | None
    strict: bool
    max_traces: int
    pure: VouchedCallables = NONE_VOUCHED


class TracePolicy:
    """The traces of one jitted function; `native` weakly refers to the callable that users hold."""

    def __init__(
        self, function: Callable[..., Any], options: JitOptions, groups: SpecializationCache
    ) -> None:
        self.function = function
        self.options = options
        self.groups = groups
        self.promotion = Promotion()
        self.transforms = ""  # what a derivative is of another function: "hessian of "
        self.native: Any = None
        self._unconfirmed: Any = None  # the key of a trace that the next one must agree with

    @property
    def name(self) -> str:
        """What the function is, for messages."""
        return self.transforms + function_name(self.function)

    @property
    def title(self) -> str:
        """What the callable is, as users see it."""
        return f"{self.transforms}jitted {function_name(self.function)}"

    def group(self, call: Signature) -> SignatureGroup:
        """The group of a signature, created if need be."""
        group = self.groups.get(call)
        if group is None:
            if len(self.groups) >= self.groups.capacity:
                self._drop_entries(self.groups.evict())
            group = self.groups.add(call)
        group.last_lookup = CLOCK.tick()
        return group

    def keep(
        self,
        group: SignatureGroup,
        trace: Trace,
        full_signature: Signature,
        *,
        can_wait: bool,
        can_be_quick: bool,
    ) -> Specialization | None:
        """Compile a trace if it can match another call. `can_wait`: the result of this call needs
        no machine code. `can_be_quick`: code that took less time to compile will do at first."""
        changed, new = trace.changed_numbers
        self.promotion.promote(new)
        if self.promotion.promote(changed):
            return None  # the next trace has these numbers for inputs
        if not trace.is_stable or self.promotion.has_rejected(changed):
            group.unstable_traces += 1
            if group.unstable_traces == MAX_FAILED_TRACES:
                labels = sorted(source.label for source, _ in changed)
                why = trace.unstable_reason or f"it changes {', '.join(labels)}"
                self.fall_back(group, f"each call changes what the next one reads: {why}")
            return None
        if not self._is_confirmed(trace):
            return None
        found = without_counts(trace, group.specializations)
        if found is not None:
            trace, replaced = found
            group.specializations.remove(replaced)
            self._drop_entries([replaced])
        if any(each.covers(trace) for each in group.specializations):
            count = group.duplicate_traces = group.duplicate_traces + 1
            is_enough = count >= MAX_FAILED_TRACES
            group.backoff_calls = 2 ** min(count, _MAX_BACKOFF_POWER) if is_enough else 0
            return None
        group.duplicate_traces = 0
        group.backoff_calls = 2 ** min(group.idle_traces + 1, _MAX_BACKOFF_POWER)
        from tracker.jit.runtime import compile_queue

        can_be_quick = can_be_quick and not current().dump
        can_wait = can_wait and not self.compiles_synchronously
        how = {"can_be_quick": can_be_quick, "is_awaited": not can_wait}
        work = functools.partial(self._compile_trace, trace, group.lengths_vary, **how)
        job = compile_queue.enqueue(work) if can_wait else compile_queue.run_now(work)
        cause = miss_cause(group, trace, full_signature)
        interpreted = interpreted_calls(trace) if can_wait else 0
        specialization = Specialization(trace, job, cause, interpreted)
        group.specializations.append(specialization)
        return specialization

    def install_entry(self, specialization: Specialization) -> None:
        """Let the native callable use the entry of a specialisation."""
        from tracker.jit.abi import native_callable as native

        compiled = specialization.compiled
        if compiled.entry is not None:
            if compiled.optimised is not None:
                again = functools.partial(self._optimise, specialization, time.perf_counter())
                compiled.entry.on_called_often = again
            with SIGNALS_DEFERRED:
                native.push_entry(self.native(), compiled.entry)
        specialization.is_pending = False

    def _optimise(
        self, specialization: Specialization, installed_at: float, calls: int = _CALLS_BETWEEN_LOOKS
    ) -> None:
        """Optimise the code of a specialisation that is called often, in the background; once that
        is done, or if a call must wait for it, remove the quick code: the next call installs the
        new one. `calls`: until the next look, if it does not deserve that yet."""
        from tracker.jit.runtime import compile_queue

        quick = specialization.compiled
        assert quick.optimised is not None
        job = specialization.optimised_job
        if job is None:
            if not _deserves_optimising(quick, time.perf_counter() - installed_at):
                later = functools.partial(self._optimise, specialization, installed_at, 2 * calls)
                quick.entry.on_called_often = later
                quick.entry.count_again(calls)
                return
            work = functools.partial(self._compiled, quick.optimised)
            job = specialization.optimised_job = compile_queue.enqueue(work)
            if not self.compiles_synchronously:
                compile_queue.start(job)
        with TRACING_LOCK.acquire_within(0) as is_ours:
            is_ready = job.is_done or self.compiles_synchronously
            if not is_ours or not is_ready or specialization.is_pending:
                quick.entry.count_again(_CALLS_BETWEEN_LOOKS)
                return
            self._drop_entries([specialization])
            specialization.job, specialization.is_pending = job, True

    def drop_dead(self, group: SignatureGroup) -> None:
        """Forget the specialisations that refer to dead objects."""
        dead = [each for each in group.specializations if not each.trace.signature.is_alive]
        if dead:
            group.specializations = [s for s in group.specializations if s.trace.signature.is_alive]
            self._drop_entries(dead)

    def refuse(self, group: SignatureGroup, reason: str, error: Exception | None = None) -> None:
        """The function cannot be traced: raise if it is strict, or fall back."""
        if self.options.strict:
            raise CompileError(f"{self.name} cannot be traced: {reason}") from error
        self.fall_back(group, f"it cannot be traced: {reason}")

    def fall_back(self, group: SignatureGroup, reason: str) -> None:
        """Run calls of this signature in plain Python from now on."""
        group.fallback_reason = reason
        what = f"{self.name} runs in plain Python from now on for these arguments: {reason}"
        fix = "jit(strict=True) makes this an error; explain(*args) of the function says why"
        warn(message(what, fix, ""), RuntimeWarning)

    @property
    def compiles_synchronously(self) -> bool:
        """Whether a call waits for machine code even if it does not need it."""
        settings = current()
        return bool(settings.dump or settings.check or self.options.strict or settings.threads == 1)

    def _drop_entries(self, specializations: list[Specialization]) -> None:
        from tracker.jit.abi import native_callable as native

        installed = (s.compiled.entry for s in specializations if not s.is_pending)
        entries = [entry for entry in installed if entry]
        callable_ = self.native()
        if entries and callable_ is not None:
            native.remove_entries(callable_, entries)

    def _is_confirmed(self, trace: Trace) -> bool:
        """Whether a trace's writes are the function's own, not another thread's: two traces in a
        row agree."""
        if trace.is_certain:
            return True
        constants = [repr(o.leaf) for o in trace.outputs if isinstance(o.leaf, ConstantOut)]
        key = trace.signature, str(trace.function), repr(trace.state_writes), tuple(constants)
        if key == self._unconfirmed:
            return True
        self._unconfirmed = key
        return False

    def _compiled(self, compile: Callable[[], CompiledTrace]) -> CompiledTrace:
        """The result of the compiler, run with the options of this function."""
        with infrequent_gc(), compile_stage("planning", self.name):
            from tracker.jit.llvm import object_cache as cache

            with cache.override_disk_cache(self.options.cache):
                return compile()

    def _compile_trace(self, trace: Trace, lengths_vary: bool, **how: bool) -> CompiledTrace:
        from tracker.jit.pipeline.compile import compile_call

        compile = functools.partial(compile_call, trace, lengths_vary, **how)
        compiled = self._compiled(compile)
        if self.options.strict and compiled.host_calls:
            calls = [f"{h.eqn.op.name} ({h.why}) at {h.eqn.where}" for h in compiled.host_calls]
            raise CompileError(f"{self.name} is strict, and NumPy would run {'; '.join(calls)}")
        return compiled
