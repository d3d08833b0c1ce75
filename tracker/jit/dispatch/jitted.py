"""The Python side of a jitted function: its traces, and the calls that no machine code took.

Owns: `Jitted`, which runs what has a trace, and traces what has none; what becomes of traces is in
`trace_cache.py`. Start at `Jitted.slow`.

A trace holds for one signature (of the arguments, and of what the function reads besides them) and
one way through the guards. Invariant: a call runs the user's function once, whether it is traced,
compiled, or given up; twice only where a derivative's error stopped the trace, where arrays that
share memory were written into or a list that was given twice was changed, where a loop's body gave
away a value of its own, where it could not do with a captured number that varies, or C code with
what stood in a library's object, where large arrays gave a derivative with NaNs, where a call back
into Python raised, and where it cannot be compiled and was given arrays of another byte order.

Calls with arguments that no entry takes as they lie: of another byte order, alignment or class.

Owns: `call_with_copies` and `RunsPlain`. Arrays are laid out anew (`relayout.py`), machine code is
called with the copies, and what it has written into these goes back. Where that could be told from
the plain call, or no machine code takes the copies, the function runs plain, with what was given.
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
from tracker.autodiff.boundary import UNSEEN, Taken, unbound, with_arrays
from tracker.config import current
from tracker.errors import CompileError, ConversionError, IRError, UnsupportedError, warn
from tracker.jit.discovery.discovery import Reads, reads_of, with_fixed
from tracker.jit.discovery.impure_calls import TAKEN, is_taken
from tracker.jit.discovery.opaque_objects import goes_on
from tracker.jit.dispatch.specialization import (
    NONE,
    Family,
    Special,
    holds,
    is_entangled,
    is_shared,
    last_cause,
    leaves_for,
    meets,
    overlap,
    run_one,
)
from tracker.jit.dispatch.trace_cache import ENDLESS, HISTORY, ITERATES, PATIENCE, Options, Traces
from tracker.jit.guards import signature
from tracker.jit.guards.conditions import distinct_in
from tracker.jit.guards.matching import with_places
from tracker.jit.llvm.signals import UNDISTURBED, entered
from tracker.jit.runtime.availability import require
from tracker.jit.tracing.inputs import Effects
from tracker.jit.tracing.ir_builder import Entangled
from tracker.jit.tracing.placeholder_swap import TURN, bare
from tracker.jit.tracing.side_effects import Attempt
from tracker.jit.tracing.trace import Staged, stage, static_leaves
from tracker.random.draw_ops import Journal, UnheardDraws
from tracker.support import errstate
from tracker.tape.lazy import Misjudged
from tracker.tape.observers import current_stage, current_watch
from tracker.tape.tracked import Tracked

if TYPE_CHECKING:
    pass


from typing import TYPE_CHECKING

from tracker.jit.dispatch import relayout
from tracker.jit.guards.signature import Signature
from tracker.support.array_copies import same_bytes

if TYPE_CHECKING:
    pass


class Jitted(Traces):
    """See the file's header."""

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        super().__init__(function, options)
        self.derived: dict[Any, Any] = {}
        self.slow_calls = 0
        self.has_said_taken = False
        self.fixed = False  # whether arrays in objects of libraries are constants of traces
        self.copies: set[int] = set()  # the ids of arrays in `call_with_copies` just now

    def slow(self, *args: Any, **kwargs: Any) -> Any:
        """A call that no machine code took."""
        if current_stage() is not None or not current().jit:
            return self.function(*args, **kwargs)
        if self.is_derived and (arrays := self._arrays_of(args)) is not None:
            return self.native()(*arrays, **kwargs)
        try:
            call, leaves = self.signature_of(args, kwargs)
        except tree.TooDeep:  # which the plain function may not mind
            return self._once(args, kwargs, ENDLESS)
        if any(type(x) is Tracked for x in leaves):
            return self.function(*args, **kwargs)
        if current_watch() is not None:
            return self._watched(args, kwargs, call, leaves)
        if errstate.are_errors_reported():
            return self._plain(args, kwargs)
        if any(map(goes_on, leaves)):
            return self._once(args, kwargs, ITERATES)
        family = self.families.get(call)
        if family is not None and any(special.awaited for special in family.specials):
            return self._arrived(family)(*args, **kwargs)
        self.slow_calls += 1
        if not call.native:
            return call_with_copies(self, args, kwargs, call, leaves)
        with TURN.within(_WAIT) as is_ours:  # who traces may be waiting for this very thread
            if is_ours and not (family := self._family(call)).eager:
                return self._special(family, call, leaves, args, kwargs)
        return self._plain(args, kwargs)

    def unsupported(self, *args: Any, **kwargs: Any) -> Any:
        """A call where no machine code can be made."""
        if self.options.strict:
            require(f"{self.name} is strict")
        return self.function(*args, **kwargs)

    def _arrays_of(self, args: Sequence[Any]) -> list[Any] | None:
        """The arguments with plain arrays in the place of what offers them, if anything does."""
        taken = self.taken(args)
        given = [with_arrays(x, at) if at in taken else x for at, x in enumerate(args)]
        return None if all(map(operator.is_, given, args)) else given

    def _reads(self, call: signature.Signature, leaves: list[Any]) -> Reads:
        """What a call reads."""
        reads = reads_of(self.function, static_leaves(call, leaves), self.options.pure)
        return with_fixed(reads, self.function) if self.fixed else reads

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

    def _once(self, args: Sequence[Any], kwargs: dict[str, Any], why: str) -> Any:
        """A call with an iterator, which goes on: there will be no other like it; or with what
        has no signature."""
        if self.options.strict:
            raise CompileError(f"{self.name} is strict, and {why}")
        return self._plain(args, kwargs)

    def _arrived(self, family: Family) -> Callable[..., Any]:
        """Wait for what is being compiled, and have machine code take its calls; what to call."""
        for special in family.specials:
            special.job.wait()
        with TURN.within(_WAIT) as is_ours:
            if not is_ours:
                return self.function
            for special in family.specials:
                if special.awaited:
                    self._enter(special)
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
            reads = self._reads(call, leaves)
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
        call, leaves = self.signature_of(args, kwargs)
        family = self.families.get(call)
        if family is not None and not family.may_change:
            return Journal()
        with TURN.lock:
            return Attempt(self._reads(call, leaves), arrays=True)

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
        given = (*args, *kwargs.values())
        done = run_one(family, call, leaves, given)
        if done is not NONE:
            return done
        if meets(family, call, leaves, given):
            return self._plain(args, kwargs) if run else None
        if family.raised >= PATIENCE and run:
            return self._again(family, args, kwargs)
        if family.resting and run and not self.options.strict:
            family.resting -= 1
            return self._plain(args, kwargs)
        dead = [special for special in family.specials if not special.trace.call.alive]
        if dead:
            family.specials = [s for s in family.specials if s.trace.call.alive]
            self._free(dead)
        if len(family.specials) >= self.options.max_traces:
            what = f"it has {self.options.max_traces} traces already"
            self._give_up(family, f"{what} ({last_cause(family)})")
        reads = self._reads(call, leaves)
        family.may_change |= bool(reads.stored) or reads.fills
        if not family.eager and (why := reads.unknown or reads.beyond):
            self._refuse(family, why)
        if reads.asks and is_taken() and not family.eager:
            self._say_taken()
            return self._plain(args, kwargs) if run else None
        if family.eager or self._must_run(family, call, leaves, reads.places):
            if self.options.strict and family.eager == ITERATES:
                raise CompileError(f"{self.name} is strict, and {ITERATES}")
            return self._plain(args, kwargs) if run else None

        if reads.caches and run and not family.fills:
            family.fills = 1  # the first call does, as a rule
            return self.function(*args, **kwargs)
        full, everything = with_places(call, leaves, reads.places)
        if family.may_change and is_entangled(full, given):
            return self._plain(args, kwargs) if run else None
        distinct = distinct_in(full) if reads.compares else ()
        if any(len(each.of) > _MANY for each in distinct):
            self._refuse(family, "it compares objects, and is given many arrays")
            return self._plain(args, kwargs) if run else None
        if not holds(distinct, full, everything, given):
            return self._plain(args, kwargs) if run else None
        self.varying.look([special.trace.call for special in family.specials], full)
        try:
            return self._traced(family, args, kwargs, reads, full, run, deferring=True)
        except Misjudged:
            return self._traced(family, args, kwargs, reads, full, run, deferring=False)

    def _say_taken(self) -> None:
        """Nothing is traced while somebody else profiles: it is traced when they no longer do."""
        if self.options.strict:
            raise CompileError(f"{self.name} is strict, and {TAKEN}")
        if not self.has_said_taken:
            self.has_said_taken = True
            warn(f"{self.name} runs in plain Python for now: {TAKEN}", RuntimeWarning)

    def _again(self, family: Family, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """A call of a function that has raised each time lately: it is traced when it no longer
        does."""
        result = self._plain(args, kwargs)
        family.raised = 0
        return result

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
        attempt, modules = Attempt(reads), len(sys.modules)
        try:
            staged = self._stage(args, kwargs, reads, attempt, deferring)
        except Misjudged:
            attempt.undo()
            raise
        except Entangled:
            return self._plainly(args, kwargs, attempt, run)
        except Exception as error:
            if not _is_untraceable(error):
                family.raised += 1
                raise
            if self._may_pass(family, error, has_imported=len(sys.modules) > modules):
                return self._plainly(args, kwargs, attempt, run)
            return self._untraced(family, error, args, kwargs, attempt, run)
        family.raised = 0
        with UNDISTURBED:
            from tracker.jit.dispatch import first_call
            from tracker.jit.runtime import compile_queue

        if staged.effects.containers.tangled:
            return self._plainly(args, kwargs, attempt, run)
        if staged.filled and staged.trace is not None:
            family.fills += 1
            if family.fills == PATIENCE:
                self._give_up(family, "each call fills a cache with what it reads")
            return self._plainly(args, kwargs, attempt, run)
        special, is_ahead = None, first_call.is_ahead(staged, self._at_once)
        if staged.trace is None:
            if staged.why == UNSEEN and not self.options.strict:
                family.eager = UNSEEN
            else:
                self._refuse(family, staged.why)
            if is_shared(staged) or self._has_copies(args, kwargs):
                return self._plainly(args, kwargs, attempt, run)
        elif any(staged.trace.owners) and not self.is_derived:
            family.eager = HISTORY
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
                result = first_call.by_numpy(staged)
            else:
                result = first_call.by_machine_code(special, staged, args, kwargs)
        except Misjudged:
            attempt.undo()
            raise
        finally:
            if special is not None:
                compile_queue.begin(special.job)  # not before: who computes is not disturbed
                if special.job.has_result:
                    self._enter(special)
        deferral = staged.deferral
        if deferral is not None:
            del staged
            deferral.end()
        return result

    def _may_pass(self, family: Family, error: Exception, has_imported: bool) -> bool:
        """Whether it may have been another thread that drew random numbers while this one traced,
        or a module that was imported: then another call is traced."""
        alone = threading.active_count() == 1 and not has_imported
        if not isinstance(error, UnheardDraws) or alone:
            return False
        family.unsteady += 1
        return family.unsteady < PATIENCE

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
        """Trace a call. Where the function cannot do with numbers that vary, or a library with
        values of the trace in its own objects (C code takes none), it runs again."""
        varying = self.varying.spots
        fixed = None if self.fixed else with_fixed(reads, self.function)

        def cannot(error: Exception) -> bool:
            refused = isinstance(error, (TypeError, AttributeError)) or _is_untraceable(error)
            return refused and any(place in reads.places for place, _ in varying)

        def is_of_library(error: Exception) -> bool:
            may_be = isinstance(error, (TypeError, AttributeError, ValueError))
            return (may_be or _is_untraceable(error)) and fixed is not None and _has_fixed(fixed)

        def on_error(error: Exception, effects: Effects) -> None:
            if not (_is_untraceable(error) or cannot(error) or is_of_library(error)):
                if effects.entangled:  # the error is the user's: so is what was written
                    raise Entangled from error
                effects.carry_out()
                bare(error, effects.originals)

        try:
            with entered(attempt):
                return stage(
                    self.function,
                    args,
                    kwargs,
                    self.options.static,
                    self.name,
                    taken=self.taken(args),
                    on_error=on_error,
                    reads=reads,
                    pure=self.options.pure,
                    varying=varying,
                    with_views=True,
                    deferring=deferring,
                )
        except Exception as error:
            if not cannot(error) and not is_of_library(error):
                raise
            again = reads
            if cannot(error):
                self.varying.give_up()
            elif fixed is not None:
                again, self.fixed = fixed, True
        attempt.undo()
        return self._stage(args, kwargs, again, attempt, deferring)

    def _plainly(
        self, args: Sequence[Any], kwargs: dict[str, Any], attempt: Attempt, run: bool
    ) -> Any:
        """The plain function, which draws the trace's numbers again."""
        attempt.undo()
        return self._plain(args, kwargs) if run else None

    def derive(
        self, key: Any, build: Callable[[Callable[..., Any]], Callable[..., Any]], taken: Taken
    ) -> Any:
        """A jitted function of this one's derivative with respect to the arguments that are
        `taken`, made once for each key."""
        made = self.derived.get(key)
        if made is None:
            derivative = functools.wraps(self.function)(build(self.function))
            made = self.derived[key] = self.make(derivative, self.options)
            made._jitted.is_derived, made._jitted.takes = True, taken
        return made

    make: Callable[[Callable[..., Any], Options], Any]  # set by jit/api.py, which makes objects


_WAIT = 0.3  # seconds; a call that has waited so long for another's trace runs in plain Python
_TRACES_TO_LOOK = 3  # after which it is known what varies
_MANY = 300  # arrays, any two of which may be one: to compare them takes 20 us
_UNTRACEABLE = (ConversionError, UnsupportedError, IRError)


def _has_fixed(reads: Reads) -> bool:
    """Whether an array is a constant because a library's object holds it."""
    held = (place.read() for place in reads.places if place.is_fixed)
    return any(isinstance(x, np.ndarray) for each in held for x in tree.leaves(each))


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


def call_with_copies(
    jitted: Jitted,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    call: Signature,
    leaves: list[Any],
) -> Any:
    """The result of machine code for copies, or of the plain function for what was given."""
    function = jitted.function
    usual = [relayout.laid_out(x) for x in leaves]
    if any(s.cls is not None for s in call.structures) and _may_change(function, call, leaves):
        return function(*args, **kwargs)  # a container made anew is not the caller's
    if any(x is relayout.NOT_TAKEN for x in usual) or _share_memory(function, call, leaves, usual):
        return function(*args, **kwargs)
    given = iter(usual)
    templates = (*args, *kwargs.values())
    rebuilt = [
        tree.unflatten(structure, [next(given) for _ in range(structure.count)], template)
        for structure, template in zip(call.structures, templates, strict=True)
    ]
    copies = {id(copy) for x, copy in zip(leaves, usual, strict=True) if x is not copy}
    jitted.copies |= copies
    try:
        named = dict(zip(kwargs, rebuilt[len(args) :], strict=True))
        result = jitted.native()(*rebuilt[: len(args)], **named)
        return relayout.over_given(result, leaves, usual)
    except RunsPlain:
        pass
    finally:  # what was written into a copy belongs into the caller's array
        for x, copy in zip(leaves, usual, strict=True):
            if x is not copy and not same_bytes(np.asarray(x, copy.dtype), copy):
                x[...] = copy
        jitted.copies -= copies
    return function(*args, **kwargs)


class RunsPlain(Exception):
    """No machine code took the copies: the function is to run with what was given."""


def _may_change(function: Callable[..., Any], call: Signature, leaves: list[Any]) -> bool:
    """Whether the code may put something somewhere."""
    with TURN.lock:
        reads = reads_of(function, static_leaves(call, leaves))
    return bool(reads.stored) or reads.fills


def _share_memory(
    function: Callable[..., Any], call: Signature, leaves: list[Any], usual: list[Any]
) -> bool:
    """Whether an array to be laid out anew shares memory with another that the code sees, or the
    code sees how it lies."""
    with TURN.lock:
        reads = reads_of(function, static_leaves(call, leaves))
        _, everything = with_places(call, leaves, reads.places)
    if reads.layout:
        return True
    arrays = [(i, x) for i, x in enumerate(everything) if isinstance(x, np.ndarray)]
    return any(
        i != j and np.may_share_memory(x, y)
        for j, (x, copy) in enumerate(zip(leaves, usual, strict=True))
        if x is not copy
        for i, y in arrays
    )
