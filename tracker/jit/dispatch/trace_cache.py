"""The traces of a jitted function: which are kept, compiled, entered; which calls have none.

Owns: `Traces`, the base of `Jitted`, with a `Family` of traces for each signature
(`specialization.py`), and `Options`. Start at `Traces._keep`.

Invariants: a trace is kept if another call can be of its kind; who gives up says so once, at the
user's line, or raises where the function is strict.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracker.autodiff.boundary import Taken
from tracker.config import current
from tracker.errors import CompileError, warn
from tracker.jit.discovery.opaque_objects import goes_on
from tracker.jit.discovery.purity_table import NOTHING, Pure
from tracker.jit.dispatch.specialization import Families, Family, Special, cause_of
from tracker.jit.guards import signature
from tracker.jit.guards.matching import with_places
from tracker.jit.guards.promotion import Varying
from tracker.jit.llvm.signals import UNDISTURBED
from tracker.jit.runtime.lru_clock import CLOCK
from tracker.jit.tracing.gc_pause import collecting_seldom
from tracker.jit.tracing.trace import Trace
from tracker.support.structs import record
from tracker.tape.record import value_of
from tracker.tape.tracked import Tracked
from tracker.tape.value import is_constant

if TYPE_CHECKING:
    from tracker.jit.pipeline.link import Compiled

HISTORY = "it reads a param, whose history is recorded"
ITERATES = "it is given, or reads, an iterator, a source of random bits, or what hides its contents"
ENDLESS = "it is given a structure that contains itself, or is too deep"
PATIENCE = 3  # after so many calls that changed what they read, a function runs in plain Python;
# or in which random numbers were drawn unheard, maybe by another thread
_LONGEST_REST = 8  # powers of two of calls that are not traced after traces in vain


@record(frozen=True)
class Options:
    """What `jit` was told: see there."""

    static: frozenset[int | str]
    cache: bool | None
    strict: bool
    max_traces: int
    pure: Pure = NOTHING


class Traces:
    """See the file's header. `native` is a weak reference to the object that users hold."""

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        self.function = function
        self.options = options
        self.families = Families()
        self.is_derived = False  # a derivative: its results are plain, whatever it reads
        self.takes: Taken = lambda _: ()  # with respect to which arguments
        self.varying = Varying()
        self.unsure: set[Any] = set()  # the trace that another must agree with
        self.native: Any = None

    def taken(self, args: Sequence[Any]) -> Sequence[int]:
        """Which positional arguments are differentiated."""
        return self.takes(len(args))

    def signature_of(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[signature.Signature, list[Any]]:
        """The signature of a call and its leaves."""
        return signature.signature_of(args, kwargs, self.options.static, self.taken(args))

    def _family(self, call: signature.Signature) -> Family:
        family = self.families.get(call)
        if family is None:
            if len(self.families) >= self.families.crowded:
                self._free(self.families.make_room())
            family = self.families.enter(call)
        family.used = CLOCK.tick()
        return family

    def _free(self, specials: list[Special]) -> None:
        from tracker.jit.abi import native_callable as native

        entries = [s.compiled.entry for s in specials if not s.awaited and s.compiled.entry]
        callable_ = self.native()
        if entries and callable_ is not None:
            native.drop(callable_, entries)

    def _enter(self, special: Special) -> None:
        """Have machine code take the calls that a trace holds for."""
        from tracker.jit.abi import native_callable as native

        entry = special.compiled.entry
        if entry is not None:
            with UNDISTURBED:
                native.push_entry(self.native(), entry)
        special.awaited = False

    @property
    def name(self) -> str:
        return name_of(self.function)

    def _must_run(
        self,
        family: Family,
        call: signature.Signature,
        leaves: list[Any],
        places: list[Any],
    ) -> bool:
        """Whether the function reads tracked values, whose history the result must carry, or what
        no trace can know again."""
        _, everything = with_places(call, leaves, places)
        if any(map(goes_on, everything)):
            family.eager = ITERATES
            return True
        handles = [x for x in everything if type(x) is Tracked]
        if any(hasattr(x, "_owner") for x in handles) and not self.is_derived:
            family.eager = HISTORY
            return True
        return not all(hasattr(x, "_owner") or is_constant(value_of(x)) for x in handles)

    def _refuse(self, family: Family, why: str, error: Exception | None = None) -> None:
        """The function cannot be traced."""
        if self.options.strict:
            raise CompileError(f"{self.name} cannot be traced: {why}") from error
        self._give_up(family, f"it cannot be traced: {why}")

    def _keep(
        self, family: Family, trace: Trace, full: signature.Signature, can_wait: bool
    ) -> Special | None:
        """Compile a trace, if it can be of use again."""
        moved, new = trace.moving
        self.varying.add(new)
        if self.varying.add(moved):
            return None  # the next trace has these numbers for inputs
        if trace.lasting and not self.varying.has_given_up(moved):
            return self._compile(family, trace, full, can_wait) if self._is_sure(trace) else None
        family.unsteady += 1
        if family.unsteady == PATIENCE:
            self._give_up(family, "each call changes what the next one reads")
        return None

    def _is_sure(self, trace: Trace) -> bool:
        """Whether it was the function that has put something where it stands, and no other thread
        meanwhile: two traces agree."""
        if not trace.is_sure:
            constants = [repr(out.constant) for out in trace.outputs if out.kind == "constant"]
            key = trace.call, str(trace.function), repr(trace.updates), tuple(constants)
            if key not in self.unsure:
                self.unsure = {key}
                return False
        return True

    def _compile(
        self, family: Family, trace: Trace, full: signature.Signature, can_wait: bool
    ) -> Special | None:
        """`can_wait`: the result is known already, so machine code is for the next call."""
        if any(each.matches(trace) for each in family.specials):
            family.vain += 1  # it holds no more often than the trace that has just failed
            family.resting = 2 ** min(family.vain, _LONGEST_REST) if family.vain >= PATIENCE else 0
            return None
        family.vain = 0
        from tracker.jit.runtime import compile_queue

        work = functools.partial(self._compiled, trace, family.lengths_vary)
        can_wait = can_wait and not self._at_once
        job = compile_queue.later(work) if can_wait else compile_queue.at_once(work)
        special = Special(trace, job, cause_of(family, trace, full))
        family.specials.append(special)
        return special

    @property
    def _at_once(self) -> bool:
        """Whether a call waits for machine code even if it has no need of it."""
        settings = current()
        told = settings.dump or settings.check or self.options.strict
        return bool(told) or settings.threads == 1

    def _compiled(self, trace: Trace, lengths_vary: bool) -> Compiled:
        with collecting_seldom():
            with UNDISTURBED:
                from tracker.jit.llvm import object_cache as cache
                from tracker.jit.pipeline.compile import compile_call

            with cache.kept(self.options.cache):
                compiled = compile_call(trace, lengths_vary)
        if self.options.strict and compiled.hosts:
            lines = "; ".join(f"{h.eqn.op.name} ({h.why}) at {h.eqn.where}" for h in compiled.hosts)
            raise CompileError(f"{self.name} is strict, and NumPy would run {lines}")
        return compiled

    def _give_up(self, family: Family, why: str) -> None:
        family.eager = why
        text = f"{self.name} runs in plain Python from now on for these arguments: {why}"
        warn(text, RuntimeWarning)


def name_of(function: Callable[..., Any]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__).replace("<lambda>", "function")
