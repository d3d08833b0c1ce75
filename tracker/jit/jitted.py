"""The Python side of a jitted function: its traces, and the calls that no machine code took.

Owns: `Jitted`, which has a `Family` of traces for each signature (`families.py`). Start at
`Jitted.slow`.

A trace holds for one signature (of the arguments, and of what the function reads besides them) and
one way through the guards. Invariant: a call runs the user's function once, whether it is traced,
compiled, or given up; twice only where a derivative's error stopped the trace, where arrays that
share memory were written into or a list that was given twice was changed, where a loop's body gave
away a value of its own, where it could not do with a captured number that varies, where large
arrays gave a derivative with NaNs, and where it cannot be compiled and was given arrays of another
byte order.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any

from tracker import tree
from tracker.config import current
from tracker.deferral import Misjudged
from tracker.draws import Journal, UnheardDraws
from tracker.errors import CompileError, ConversionError, IRError, UnsupportedError, warn
from tracker.jit import signature
from tracker.jit.building import Entangled
from tracker.jit.collecting import collecting_seldom
from tracker.jit.families import (
    NONE,
    Families,
    Family,
    Special,
    cause_of,
    is_entangled,
    is_shared,
    last_cause,
    leaves_for,
    meets,
    overlap,
    run_one,
)
from tracker.jit.inputs import Effects
from tracker.jit.interrupts import UNDISTURBED
from tracker.jit.odd_calls import RunsPlain, call_with_copies
from tracker.jit.places import goes_on, with_places
from tracker.jit.reads import Reads, reads_of
from tracker.jit.staging import Staged, Trace, stage, static_leaves
from tracker.jit.standins import TURN, bare
from tracker.jit.state import Attempt
from tracker.jit.varying import Varying
from tracker.listening import current_stage, current_watch
from tracker.records import record
from tracker.tape import value_of
from tracker.tracked import Tracked
from tracker.values import is_constant
from tracker.wrapping import unbound

if TYPE_CHECKING:
    from tracker.jit.binding import Compiled


@record(frozen=True)
class Options:
    """What `jit` was told: see there."""

    static: frozenset[int | str]
    cache: bool | None
    strict: bool
    max_traces: int


class Jitted:
    """See the file's header. `native` is a weak reference to the object that users hold."""

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        self.function = function
        self.options = options
        self.families = Families()
        self.derived: dict[Any, Any] = {}
        self.is_derived = False  # a derivative: its results are plain, whatever it reads
        self.slow_calls = 0
        self.varying = Varying()
        self.unsure: set[Any] = set()  # the trace that another must agree with
        self.copies: set[int] = set()  # the ids of arrays in `call_with_copies` just now
        self.native: Any = None

    def slow(self, *args: Any, **kwargs: Any) -> Any:
        """A call that no machine code took."""
        if current_stage() is not None or not current().jit:
            return self.function(*args, **kwargs)
        call, leaves = signature.signature_of(args, kwargs, self.options.static)
        if any(type(x) is Tracked for x in leaves):
            return self.function(*args, **kwargs)
        if current_watch() is not None:
            return self._watched(args, kwargs, call, leaves)
        if any(map(goes_on, leaves)):
            return self._once(args, kwargs)
        family = self.families.get(call)
        if family is not None and any(special.awaited for special in family.specials):
            return self._arrived(family)(*args, **kwargs)
        self.slow_calls += 1
        if not call.native:
            return call_with_copies(self, args, kwargs, call, leaves)
        if not TURN.lock.acquire(timeout=_WAIT):  # who traces may be waiting for this very thread
            return self._plain(args, kwargs)
        try:
            family = self._family(call)
            if not family.eager:
                return self._special(family, call, leaves, args, kwargs)
        finally:
            TURN.lock.release()
        return self._plain(args, kwargs)

    def _plain(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The plain function; what it is given is the caller's own."""
        if self._has_copies(args, kwargs):
            raise RunsPlain
        return self.function(*args, **kwargs)

    def _has_copies(self, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Whether it is `call_with_copies` that calls."""
        if not self.copies:
            return False
        return not self.copies.isdisjoint(map(id, tree.leaves((tuple(args), kwargs))))

    def _once(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """A call with an iterator, which goes on: there will be no other like it."""
        if self.options.strict:
            raise CompileError(f"{self.name} is strict, and {_ITERATES}")
        return self._plain(args, kwargs)

    def _arrived(self, family: Family) -> Callable[..., Any]:
        """Wait for what is being compiled, and have machine code take its calls; what to call."""
        for special in family.specials:
            special.job.wait()
        if not TURN.lock.acquire(timeout=_WAIT):
            return self.function
        try:
            for special in family.specials:
                if special.awaited:
                    self._enter(special)
        finally:
            TURN.lock.release()
        callable_: Callable[..., Any] = self.native()
        return callable_

    def _watched(
        self,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        call: signature.Signature,
        leaves: list[Any],
    ) -> Any:
        """A call while values are watched: the function is traced, so that the watch sees what it
        computes, and nothing is compiled."""
        with TURN.lock:
            reads = reads_of(self.function, static_leaves(call, leaves))
            attempt = Attempt(reads)
            try:
                staged = self._stage(args, kwargs, reads, attempt, deferring=False)
            except Exception as error:
                if not (isinstance(error, Entangled) or _is_untraceable(error)):
                    raise
                return self._plainly(args, kwargs, attempt, True)
        if is_shared(staged):
            return self._plainly(args, kwargs, attempt, True)
        return staged.finish()

    def lookup(
        self,
        call: signature.Signature,
        leaves: list[Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> Special | None:
        """The first trace for a signature and what stands at places now (or the first of all), made
        if need be; None if it runs in plain Python."""
        with TURN.lock:
            family = self._family(call)
            for _ in range(_TRACES_TO_LOOK):
                if not family.specials and not family.eager:
                    self._special(family, call, leaves, args, kwargs, run=False)
            holding = (s for s in family.specials if leaves_for(s.trace, call, leaves) is not None)
            return next(holding, family.specials[0] if family.specials else None)

    def attempt(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Journal:
        """What takes back what a call does to generators, and to what the function reads."""
        call, leaves = signature.signature_of(args, kwargs, self.options.static)
        family = self.families.get(call)
        if family is not None and not family.may_change:
            return Journal()
        with TURN.lock:
            return Attempt(reads_of(self.function, static_leaves(call, leaves)), arrays=True)

    def _family(self, call: signature.Signature) -> Family:
        family = self.families.get(call)
        if family is None:
            if len(self.families) >= self.families.crowded:
                self._free(self.families.make_room())
            family = self.families.enter(call)
        return family

    def _free(self, specials: list[Special]) -> None:
        from tracker.jit import callable as native

        entries = [s.compiled.entry for s in specials if not s.awaited and s.compiled.entry]
        callable_ = self.native()
        if entries and callable_ is not None:
            native.drop(callable_, entries)

    def _special(
        self,
        family: Family,
        call: signature.Signature,
        leaves: list[Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        run: bool = True,
    ) -> Any:
        """Run a trace that holds, or make one."""
        done = run_one(family, call, leaves, (*args, *kwargs.values()))
        if done is not NONE:
            return done
        if meets(family, call, leaves):
            return self._plain(args, kwargs) if run else None
        dead = [special for special in family.specials if not special.trace.call.alive]
        if dead:
            family.specials = [s for s in family.specials if s.trace.call.alive]
            self._free(dead)
        if len(family.specials) >= self.options.max_traces:
            what = f"it has {self.options.max_traces} traces already"
            self._give_up(family, f"{what} ({last_cause(family)})")
        reads = reads_of(self.function, static_leaves(call, leaves))
        family.may_change |= bool(reads.stored) or reads.fills
        alike = signature.alike_in(call) if reads.compares else ()
        if not family.eager and (why := _too_much(reads, alike)):
            self._refuse(family, why)
        if any(leaves[one] is leaves[other] for one, other in alike):
            return self._plain(args, kwargs) if run else None
        if family.eager or self._must_run(family, call, leaves, reads.places):
            if self.options.strict and family.eager == _ITERATES:
                raise CompileError(f"{self.name} is strict, and {_ITERATES}")
            return self._plain(args, kwargs) if run else None

        if reads.caches and run and not family.fills:
            family.fills = 1  # the first call does, as a rule
            return self.function(*args, **kwargs)
        full, _ = with_places(call, leaves, reads.places)
        if family.may_change and is_entangled(full, (*args, *kwargs.values())):
            return self._plain(args, kwargs) if run else None
        self.varying.look([special.trace.call for special in family.specials], full)
        try:
            return self._traced(family, args, kwargs, reads, full, run, deferring=True)
        except Misjudged:
            return self._traced(family, args, kwargs, reads, full, run, deferring=False)

    def _traced(
        self,
        family: Family,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        reads: Reads,
        full: signature.Signature,
        run: bool,
        deferring: bool,
    ) -> Any:
        """Make a trace, and keep it; the result is machine code's where numbers were put off."""
        attempt = Attempt(reads)
        try:
            staged = self._stage(args, kwargs, reads, attempt, deferring)
        except Misjudged:
            attempt.undo()
            raise
        except Entangled:
            return self._plainly(args, kwargs, attempt, run)
        except Exception as error:
            if not _is_untraceable(error):
                raise
            return self._untraced(family, error, args, kwargs, attempt, run)
        with UNDISTURBED:
            from tracker.jit import background, first_calls

        if staged.effects.containers.tangled:
            return self._plainly(args, kwargs, attempt, run)
        if staged.filled and staged.trace is not None:
            family.fills += 1
            if family.fills == _PATIENCE:
                self._give_up(family, "each call fills a cache with what it reads")
            return self._plainly(args, kwargs, attempt, run)
        special, is_ahead = None, first_calls.is_ahead(staged, self._at_once)
        if staged.trace is None:
            self._refuse(family, staged.why)
            if is_shared(staged) or self._has_copies(args, kwargs):
                return self._plainly(args, kwargs, attempt, run)
        elif any(staged.trace.owners) and not self.is_derived:
            family.eager = _HISTORY
            return self._plainly(args, kwargs, attempt, run)
        elif overlap(staged.trace, staged.leaves):
            family.together = staged.trace
            return self._plainly(args, kwargs, attempt, run)
        else:
            special = self._keep(family, staged.trace, full, is_ahead and run)
        try:
            if not run:
                attempt.undo()
                return None
            if is_ahead or special is None or attempt.has_moved() or special.trace.updates:
                result = first_calls.by_numpy(staged)
            else:
                result = first_calls.by_machine_code(special, staged, args, kwargs)
        except Misjudged:
            attempt.undo()
            raise
        finally:
            if special is not None:
                background.begin(special.job)  # not before: who computes is not disturbed
                if special.job.has_result:
                    self._enter(special)
        deferral = staged.deferral
        if deferral is not None:
            del staged
            deferral.end()
        return result

    def _may_be_others(self, family: Family, error: Exception) -> bool:
        """Whether it may have been another thread that drew random numbers while this one traced:
        then another call is traced."""
        if not isinstance(error, UnheardDraws) or threading.active_count() == 1:
            return False
        family.unsteady += 1
        return family.unsteady < _PATIENCE

    def _enter(self, special: Special) -> None:
        """Have machine code take the calls that a trace holds for."""
        from tracker.jit import callable as native

        entry, special.awaited = special.compiled.entry, False
        if entry is not None:
            native.push_entry(self.native(), entry)

    def _untraced(
        self,
        family: Family,
        error: Exception,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        attempt: Attempt,
        run: bool,
    ) -> Any:
        """The plain function's result, where it cannot be traced for this reason."""
        if self._may_be_others(family, error):
            return self._plainly(args, kwargs, attempt, run)
        if isinstance(error.__cause__, TypeError) and not self.options.strict:
            try:
                result = self._plainly(args, kwargs, attempt, run)  # it may raise that, too
            except RunsPlain:
                self._refuse(family, str(error), error)
                raise
            self._refuse(family, str(error), error)
            return result
        self._refuse(family, str(error), error)
        return self._plainly(args, kwargs, attempt, run)

    def _stage(
        self,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        reads: Reads,
        attempt: Attempt,
        deferring: bool,
    ) -> Staged:
        """Trace a call. Where the function cannot do with numbers that vary, it runs again."""
        varying = self.varying.spots

        def cannot(error: Exception) -> bool:
            refused = isinstance(error, (TypeError, AttributeError)) or _is_untraceable(error)
            return refused and any(place in reads.places for place, _ in varying)

        def on_error(error: Exception, effects: Effects) -> None:
            if not _is_untraceable(error) and not cannot(error):  # it is the user's: so is what
                if effects.entangled:  # was written
                    raise Entangled from error
                effects.carry_out()
                bare(error, effects.originals)

        try:
            with attempt:
                return stage(
                    self.function,
                    args,
                    kwargs,
                    self.options.static,
                    self.name,
                    on_error=on_error,
                    reads=reads,
                    varying=varying,
                    with_views=True,
                    deferring=deferring,
                )
        except Exception as error:
            if not cannot(error):
                raise
        self.varying.give_up()
        attempt.undo()
        return self._stage(args, kwargs, reads, attempt, deferring)

    def _plainly(
        self, args: Sequence[Any], kwargs: dict[str, Any], attempt: Attempt, run: bool
    ) -> Any:
        """The plain function, which draws the trace's numbers again."""
        attempt.undo()
        return self._plain(args, kwargs) if run else None

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
            family.eager = _ITERATES
            return True
        handles = [x for x in everything if type(x) is Tracked]
        if any(hasattr(x, "_owner") for x in handles) and not self.is_derived:
            family.eager = _HISTORY
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
        if family.unsteady == _PATIENCE:
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
            return None  # it holds no more often than the trace that has just failed
        from tracker.jit import background

        work = functools.partial(self._compiled, trace, family.lengths_vary)
        can_wait = can_wait and not self._at_once
        job = background.later(work) if can_wait else background.at_once(work)
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
                from tracker.jit import cache
                from tracker.jit.compiling import compile_call

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

    def derive(self, key: Any, build: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Any:
        """A jitted function of this one's derivative, made once for each key."""
        made = self.derived.get(key)
        if made is None:
            derivative = functools.wraps(self.function)(build(self.function))
            made = self.derived[key] = self.make(derivative, self.options)
            made._jitted.is_derived = True
        return made

    make: Callable[[Callable[..., Any], Options], Any]  # set by decorator.py, which makes objects


_HISTORY = "it reads a param, whose history is recorded"
_ITERATES = "it is given, or reads, an iterator or a source of random bits"
_WAIT = 0.3  # seconds; a call that has waited so long for another's trace runs in plain Python
_TRACES_TO_LOOK = 3  # after which it is known what varies
_MANY = 1000  # pairs of arrays that may be one
_PATIENCE = 3  # after so many calls that changed what they read, a function runs in plain Python;
# or in which random numbers were drawn unheard, maybe by another thread
_UNTRACEABLE = (ConversionError, UnsupportedError, IRError)


def _too_much(reads: Reads, alike: Sequence[tuple[int, int]]) -> str:
    """What there is too much of for calls to be looked at, if so."""
    many = "it compares objects, and is given many arrays" if len(alike) > _MANY else ""
    return reads.beyond or many


def _is_untraceable(error: BaseException | None) -> bool:
    """Whether an error is tracing's own; NumPy wraps some in a ValueError, of which they are the
    cause."""
    while error is not None:
        if isinstance(error, _UNTRACEABLE):
            return True
        error = error.__cause__
    return False


def plain_of(f: Callable[..., Any]) -> Callable[..., Any]:
    """The plain function of a jitted one, bound to what that is bound to; another as it is."""
    function, bound = unbound(f)
    state = getattr(function, "_jitted", None)
    if state is None:
        return f
    return MethodType(state.function, *bound) if bound else state.function


def name_of(function: Callable[..., Any]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__).replace("<lambda>", "function")
