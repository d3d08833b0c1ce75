"""Which traces of a jitted function are kept and compiled, and when it falls back to plain Python.

Start at `TraceCache._keep_trace`.

Invariants: a trace is kept if another call can match it. A fallback is announced once, as a warning
at the user's line, or raises CompileError where the function is strict.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracker.autodiff.boundary import ArgnumsOf
from tracker.config import current
from tracker.errors import CompileError, warn
from tracker.jit.discovery.opaque_objects import is_opaque
from tracker.jit.discovery.purity_table import NONE_VOUCHED, VouchedCallables
from tracker.jit.dispatch.specialization import (
    SignatureGroup,
    Specialization,
    SpecializationCache,
    miss_cause,
)
from tracker.jit.guards import signature
from tracker.jit.guards.matching import with_captured_state
from tracker.jit.guards.promotion import Promotion
from tracker.jit.llvm.signals import SIGNALS_DEFERRED
from tracker.jit.runtime.lru_clock import CLOCK
from tracker.jit.tracing.gc_pause import infrequent_gc
from tracker.jit.tracing.trace import Trace
from tracker.support.structs import record
from tracker.tape.record import value_of
from tracker.tape.tracked import Tracked
from tracker.tape.value import is_constant

if TYPE_CHECKING:
    from tracker.jit.pipeline.link import CompiledTrace

READS_RECORDED_PARAM = "it reads a param, whose history is recorded"
READS_OPAQUE_OBJECT = (
    "it is given, or reads, an iterator, a source of random bits, or what hides its contents"
)
UNFLATTENABLE = "it is given a structure that contains itself, or is too deep"
MAX_FAILED_TRACES = (
    3  # after so many calls that changed what they read, a function runs in plain Python;
)
# or in which random numbers were drawn unheard, maybe by another thread
_MAX_BACKOFF_POWER = 8  # powers of two of calls that are not traced after traces in vain


@record(frozen=True)
class JitOptions:
    """The options of `jit`."""

    static: frozenset[int | str]
    cache: bool | None
    strict: bool
    max_traces: int
    pure: VouchedCallables = NONE_VOUCHED


class TraceCache:
    """See the file's header. `native` weakly refers to the native callable that users hold."""

    def __init__(self, function: Callable[..., Any], options: JitOptions) -> None:
        self.function = function
        self.options = options
        self.groups = SpecializationCache()
        self.is_derived = False  # a derivative: its results are plain, whatever it reads
        self.differentiated_positions: ArgnumsOf = lambda _: ()  # with respect to which arguments
        self.promotion = Promotion()
        self.unconfirmed_traces: set[Any] = set()  # the trace that another must agree with
        self.native: Any = None

    def differentiated(self, args: Sequence[Any]) -> Sequence[int]:
        """Which positional arguments are differentiated."""
        return self.differentiated_positions(len(args))

    def signature_of(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[signature.Signature, list[Any]]:
        """The signature of a call, and its leaves."""
        return signature.signature_of(args, kwargs, self.options.static, self.differentiated(args))

    def _group(self, call: signature.Signature) -> SignatureGroup:
        group = self.groups.get(call)
        if group is None:
            if len(self.groups) >= self.groups.capacity:
                self._drop_entries(self.groups.evict())
            group = self.groups.add(call)
        group.last_lookup = CLOCK.tick()
        return group

    def _drop_entries(self, specializations: list[Specialization]) -> None:
        from tracker.jit.abi import native_callable as native

        entries = [
            s.compiled.entry for s in specializations if not s.is_pending and s.compiled.entry
        ]
        callable_ = self.native()
        if entries and callable_ is not None:
            native.remove_entries(callable_, entries)

    def _install_entry(self, specialization: Specialization) -> None:
        """Let the native callable use the entry of a specialisation."""
        from tracker.jit.abi import native_callable as native

        entry = specialization.compiled.entry
        if entry is not None:
            with SIGNALS_DEFERRED:
                native.push_entry(self.native(), entry)
        specialization.is_pending = False

    @property
    def name(self) -> str:
        return function_name(self.function)

    def _must_run_plain(
        self,
        group: SignatureGroup,
        call: signature.Signature,
        leaves: list[Any],
        sources: list[Any],
    ) -> bool:
        """Whether the captured state has tracked values whose history the result must carry, or
        opaque objects."""
        _, everything = with_captured_state(call, leaves, sources)
        if any(map(is_opaque, everything)):
            group.fallback_reason = READS_OPAQUE_OBJECT
            return True
        handles = [x for x in everything if type(x) is Tracked]
        if any(hasattr(x, "_owner") for x in handles) and not self.is_derived:
            group.fallback_reason = READS_RECORDED_PARAM
            return True
        return not all(hasattr(x, "_owner") or is_constant(value_of(x)) for x in handles)

    def _refuse(self, group: SignatureGroup, reason: str, error: Exception | None = None) -> None:
        """The function cannot be traced."""
        if self.options.strict:
            raise CompileError(f"{self.name} cannot be traced: {reason}") from error
        self._fall_back(group, f"it cannot be traced: {reason}")

    def _keep_trace(
        self,
        group: SignatureGroup,
        trace: Trace,
        full_signature: signature.Signature,
        can_wait: bool,
    ) -> Specialization | None:
        """Compile a trace if it can match another call."""
        moved, new = trace.changed_numbers
        self.promotion.promote(new)
        if self.promotion.promote(moved):
            return None  # the next trace has these numbers for inputs
        if trace.is_stable and not self.promotion.has_rejected(moved):
            return (
                self._compile(group, trace, full_signature, can_wait)
                if self._is_confirmed(trace)
                else None
            )
        group.unstable_traces += 1
        if group.unstable_traces == MAX_FAILED_TRACES:
            self._fall_back(group, "each call changes what the next one reads")
        return None

    def _is_confirmed(self, trace: Trace) -> bool:
        """Whether a trace's writes are the function's own, not another thread's: two traces in a
        row agree."""
        if not trace.is_certain:
            constants = [repr(out.constant) for out in trace.outputs if out.kind == "constant"]
            key = trace.signature, str(trace.function), repr(trace.state_writes), tuple(constants)
            if key not in self.unconfirmed_traces:
                self.unconfirmed_traces = {key}
                return False
        return True

    def _compile(
        self,
        group: SignatureGroup,
        trace: Trace,
        full_signature: signature.Signature,
        can_wait: bool,
    ) -> Specialization | None:
        """Compile a trace. `can_wait`: the result of this call is known already."""
        if any(each.covers(trace) for each in group.specializations):
            group.duplicate_traces += (
                1  # it holds no more often than the trace that has just failed
            )
            group.backoff_calls = (
                2 ** min(group.duplicate_traces, _MAX_BACKOFF_POWER)
                if group.duplicate_traces >= MAX_FAILED_TRACES
                else 0
            )
            return None
        group.duplicate_traces = 0
        from tracker.jit.runtime import compile_queue

        work = functools.partial(self._compile_trace, trace, group.lengths_vary)
        can_wait = can_wait and not self._compiles_synchronously
        job = compile_queue.enqueue(work) if can_wait else compile_queue.run_now(work)
        specialization = Specialization(trace, job, miss_cause(group, trace, full_signature))
        group.specializations.append(specialization)
        return specialization

    @property
    def _compiles_synchronously(self) -> bool:
        """Whether a call waits for machine code even if it does not need it."""
        settings = current()
        told = settings.dump or settings.check or self.options.strict
        return bool(told) or settings.threads == 1

    def _compile_trace(self, trace: Trace, lengths_vary: bool) -> CompiledTrace:
        with infrequent_gc():
            with SIGNALS_DEFERRED:
                from tracker.jit.llvm import object_cache as cache
                from tracker.jit.pipeline.compile import compile_call

            with cache.override_disk_cache(self.options.cache):
                compiled = compile_call(trace, lengths_vary)
        if self.options.strict and compiled.host_calls:
            lines = "; ".join(
                f"{h.eqn.op.name} ({h.why}) at {h.eqn.where}" for h in compiled.host_calls
            )
            raise CompileError(f"{self.name} is strict, and NumPy would run {lines}")
        return compiled

    def _fall_back(self, group: SignatureGroup, reason: str) -> None:
        group.fallback_reason = reason
        text = f"{self.name} runs in plain Python from now on for these arguments: {reason}"
        warn(text, RuntimeWarning)


def function_name(function: Callable[..., Any]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__).replace("<lambda>", "function")
