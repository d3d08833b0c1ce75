"""Specialisations: the traces of each signature, matching them, and running one without its entry.

`SpecializationCache` has a `SignatureGroup` for each signature of arguments, whose
`Specialization`s are traces with their compile jobs.

Invariant: a trace runs only for leaves that it matches (`match_leaves`), and only if the arrays it
writes to share no memory with others (`has_overlap`).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracker import tree
from tracker.ir.graph import Const, Eqn, Guard
from tracker.jit.dispatch.interpreter import TakesTooLong, interpret
from tracker.jit.guards.captured_leaves import (
    possible_holder_aliases,
    signature_difference,
    unchanged_captures,
    with_captured_state,
)
from tracker.jit.guards.signature import (
    AliasLeaf,
    AliasOut,
    ArrayLeaf,
    ArrayOut,
    Condition,
    ConstantOut,
    ContainerOut,
    DistinctObjects,
    InputOut,
    ScalarOut,
    Signature,
    SignaturePath,
    ViewOut,
    no_alias_pairs,
)
from tracker.jit.guards.source import source_children
from tracker.jit.tracing.side_effects import apply_state_writes
from tracker.jit.tracing.trace import GuardFailed, Trace, TracedRun
from tracker.support.array_copies import overlaps_itself
from tracker.support.structs import field, record

if TYPE_CHECKING:
    from tracker.jit.pipeline.link import CompiledTrace
    from tracker.jit.runtime.compile_queue import Job

NO_RESULT = object()
MAX_IDLE_TRACES = 3  # with more, fewer and fewer calls are traced
_INITIAL_CAPACITY = 16
_MAX_SIGNATURES = 256  # per function; each takes 70 kB and more
_MAX_COMPARED_SIGNATURES = 16  # with a new one
_MAX_UNROLLED = 40  # elements; shorter arrays are unrolled, which fixes their length


@record()
class Specialization:
    """A trace, the job that compiles it, and a function that says why it was made.

    is_pending          until the native entry, if there is one, is installed, for which
                        `calls_to_interpret` do not wait
    traced_until        when the traced call had ended, as a tick of `jit/runtime/lru_clock.py`
    has_run_in_python   for another call
    optimised_job       compiles quick code again
    recorded_needs      once `recorded_calls.py` has asked, the leaves that each output depends on,
                        as bits
    """

    trace: Trace
    job: Job[CompiledTrace]
    describe_cause: Callable[[], str]
    calls_to_interpret: int = 0
    is_pending: bool = True
    traced_until: int = 0
    has_run_in_python: bool = False
    optimised_job: Job[CompiledTrace] | None = None
    recorded_needs: list[int] | None = None

    @property
    def compiled(self) -> CompiledTrace:
        return self.job.result()

    @property
    def is_awaited(self) -> bool:
        """Whether the next call needs machine code."""
        return self.is_pending and not self.calls_to_interpret

    @property
    def has_served(self) -> bool:
        """Whether the trace has run for another call than the traced one."""
        entry = self.compiled.entry if self.job.has_result else None
        return self.has_run_in_python or bool(entry and entry.last_used >= self.traced_until)

    def call(self, leaves: Sequence[Any], given: Sequence[Any]) -> Any:
        """Run the trace through Python, with all leaves and the arguments. A native entry was tried
        already. `TakesTooLong` asks for one."""
        result = self._call(leaves, given)
        self.has_run_in_python = True
        return result

    def _call(self, leaves: Sequence[Any], given: Sequence[Any]) -> Any:
        if self.is_pending and self.calls_to_interpret:
            self.calls_to_interpret -= 1
            try:
                return run_trace(self.trace, interpret(self.trace), leaves, given)
            except TakesTooLong:
                self.calls_to_interpret = 0
                raise
        return run_trace(self.trace, self.compiled.run, leaves, given)

    def covers(self, other: Trace) -> bool:
        """Whether another trace is valid for no call that this one is not valid for."""
        mine = self.trace
        if mine.signature != other.signature or mine.conditions != other.conditions:
            return False
        if mine.function.text_length != other.function.text_length:
            return False  # the text is long where paths are many
        if str(mine.function) != str(other.function):
            return False
        # The text only names captures.
        return all(map(same_capture, mine.captures, other.captures))


def same_capture(one: Any, other: Any) -> bool:
    """Whether two traces with the same text capture the same: the result of a guarded conversion
    may differ."""
    if one is other:
        return True
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return type(one) is type(other) is int and one == other
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


@record()
class SignatureGroup:
    """All specialisations of one signature, and the history that decides about falling back."""

    signature: Signature
    earlier_signatures: Sequence[Signature] = ()
    specializations: list[Specialization] = field(default_factory=list)
    fallback_reason: str = ""
    unstable_traces: int = 0  # calls that changed their captured state
    may_write_state: bool = False  # by its code
    aliasing_trace: Trace | None = None  # dropped: arrays of its call share memory
    cache_fills: int = 0
    failed_traces: int = 0  # in a row, because the function raised
    duplicate_traces: int = 0  # in a row, covered by a trace whose machine code failed a guard
    backoff_calls: int = 0  # calls still to run plain instead of being traced
    was_called: bool = False
    last_lookup: int = 0  # a tick of `jit/runtime/lru_clock.py`

    @property
    def backs_off(self) -> bool:
        """Whether this call is to run plain instead of being traced."""
        return self.backoff_calls > 0 and (
            self.duplicate_traces > 0 or self.idle_traces > MAX_IDLE_TRACES
        )

    @property
    def idle_traces(self) -> int:
        """How many traces have served no other call than the traced one."""
        return sum(not each.has_served for each in self.specializations)

    @property
    def last_used(self) -> int:
        """When a call last had this signature."""
        entries = [s.compiled.entry for s in self.specializations if s.job.has_result]
        times: list[int] = [entry.last_used for entry in entries if entry]
        return max(self.last_lookup, *times, 0)

    @property
    def lengths_vary(self) -> bool:
        """Whether there were calls with short arrays of other lengths."""
        return any(_have_other_lengths(self.signature, other) for other in self.earlier_signatures)


class SpecializationCache(dict[Signature, SignatureGroup]):
    """The groups of one function, by signature; beyond `capacity` it evicts before it adds."""

    def __init__(self) -> None:
        super().__init__()
        self.capacity = _INITIAL_CAPACITY

    def add(self, call: Signature) -> SignatureGroup:
        """Add a group."""
        called = (
            call
            for call, group in reversed(self.items())
            if group.specializations or not group.failed_traces
        )
        known = tuple(itertools.islice(called, _MAX_COMPARED_SIGNATURES))
        group = self[call] = SignatureGroup(call, known)
        return group

    def evict(self) -> list[Specialization]:
        """Remove the groups of signatures with dead objects, which match no call; if there are none
        and very many groups, the least recently used one. Returns their specialisations."""
        gone = [call for call in self if not call.is_alive]
        if not gone and len(self) >= _MAX_SIGNATURES:
            gone = [min(self, key=lambda call: self[call].last_used)]
        forgotten = [
            specialization for call in gone for specialization in self.pop(call).specializations
        ]
        self.capacity = min(_MAX_SIGNATURES, max(_INITIAL_CAPACITY, 2 * len(self)))
        return forgotten


def differ_in_extents(call: Signature, other: Signature) -> bool:
    """Whether two signatures are alike but for the extents of arrays."""
    if len(call.leaves) != len(other.leaves) or call.names != other.names:
        return False
    return call.structures == other.structures and all(
        leaf == beside
        or (
            isinstance(leaf, ArrayLeaf)
            and isinstance(beside, ArrayLeaf)
            and (leaf.dtype, len(leaf.shape)) == (beside.dtype, len(beside.shape))
        )
        for leaf, beside in zip(call.leaves, other.leaves, strict=True)
    )


def _have_other_lengths(call: Signature, other: Signature) -> bool:
    """Whether two signatures differ in array extents only, one of them short."""
    return differ_in_extents(call, other) and any(
        n != m and n <= _MAX_UNROLLED
        for leaf, beside in zip(call.leaves, other.leaves, strict=True)
        if isinstance(leaf, ArrayLeaf) and isinstance(beside, ArrayLeaf)
        for n, m in zip(leaf.shape, beside.shape, strict=True)
    )


def run_matching(
    group: SignatureGroup, call: Signature, leaves: list[Any], given: Sequence[Any]
) -> Any:
    """The result of the first trace that matches; NO_RESULT if none does."""
    for specialization in group.specializations:
        everything = match_leaves(specialization.trace, call, leaves)
        if everything is not None:
            try:
                return specialization.call(everything, given)
            except GuardFailed:
                continue
    return NO_RESULT


def needs_plain_call(
    group: SignatureGroup, call: Signature, leaves: list[Any], given: Sequence[Any]
) -> bool:
    """Whether a trace is known to be invalid for this call because an array that it writes to
    shares memory with another, or because objects that it compares are one object: plain Python
    must run, and another trace would not help."""
    traces = [specialization.trace for specialization in group.specializations]
    if group.aliasing_trace is not None:
        traces.append(group.aliasing_trace)
    for trace in traces:
        distinct = [each for each in trace.conditions if isinstance(each, DistinctObjects)]
        looks = distinct or _requires_no_alias(trace)
        everything = match_leaves(trace, call, leaves) if looks else None
        if everything is not None and (
            has_overlap(trace, everything)
            or not conditions_hold(distinct, trace.signature, everything, given)
        ):
            return True
    return False


def conditions_hold(
    conditions: Iterable[Condition], call: Signature, leaves: Sequence[Any], given: Sequence[Any]
) -> bool:
    """Whether conditions hold for a call with these leaves and arguments."""
    container = functools.partial(_container_at, call, given)
    return all(each.holds(leaves, container) for each in conditions)


def match_leaves(trace: Trace, call: Signature, leaves: list[Any]) -> list[Any] | None:
    """All leaves of a call as a trace takes them; None if its captured state differs."""
    values = unchanged_captures(trace.signature, len(leaves))
    if values is not None:  # the arguments match already
        return [*leaves, *values]
    full, everything = with_captured_state(call, leaves, trace.signature.sources, trace.promoted)
    return everything if full == trace.signature else None


def miss_cause(group: SignatureGroup, trace: Trace, full_signature: Signature) -> Callable[[], str]:
    """A function that describes why the present traces did not match: the difference from the most
    similar one. `full_signature` has all captured numbers."""
    if not group.specializations:
        return functools.partial(_signature_cause, group.signature, group.earlier_signatures)
    found = _trace_cause(group.specializations, trace, full_signature)
    return lambda: found


def _signature_cause(call: Signature, known: Sequence[Signature]) -> str:
    """The difference from the most similar known signature. (Described on demand: that takes as
    long as all passes over a small function.)"""
    causes = [signature_difference(old, call) for old in known]
    return min(causes)[1] if causes else "the first call"


def _trace_cause(
    specializations: list[Specialization], trace: Trace, full_signature: Signature
) -> str:
    alike = [s for s in specializations if s.trace.signature == trace.signature]
    if not alike:
        return signature_difference(specializations[-1].trace.signature, full_signature)[1]
    new = _guards_with_constants(trace)
    found = [_first_difference(_guards_with_constants(s.trace), new) for s in alike]
    return max(found, key=lambda difference: difference[0])[1]


def _guards_with_constants(trace: Trace) -> list[tuple[Guard, str, bytes]]:
    """All guards, each with the constant number and the array that it compares with, if any."""
    made: dict[Any, Eqn] = {}
    held = dict(zip(trace.function.captures, trace.captures, strict=True))
    found = []
    for step in trace.function.body:
        if isinstance(step, Guard):
            found.append((step, *_compared_constants(step.operand, made, held)))
        else:
            made[step.out] = step
    return found


def _compared_constants(atom: Any, made: dict[Any, Eqn], held: dict[Any, Any]) -> tuple[str, bytes]:
    """The number that a condition compares with, or the array's bytes: 4 for `equal c 4`, or for
    `all` of that."""
    eqn = made.get(atom)
    while eqn is not None and eqn.operands:
        constants = [str(x.value) for x in eqn.operands if isinstance(x, Const)]
        if constants:
            return ", ".join(constants), b""
        arrays = [x for atom in eqn.operands if isinstance(x := held.get(atom), np.ndarray)]
        if arrays:
            return "", arrays[0].tobytes()
        alone = len(eqn.operands) == 1 or all(o.type.dtype.kind == "b" for o in eqn.operands)
        eqn = made.get(eqn.operands[0]) if alone else None
    return "", b""


def _first_difference(
    old: list[tuple[Guard, str, bytes]], new: list[tuple[Guard, str, bytes]]
) -> tuple[int, str]:
    """After how many guards two traces differ, and how."""
    both = zip(old, new, strict=False)
    for at, ((a, before, array_before), (b, now, array_now)) in enumerate(both):
        if (a.kind, a.where, a.expected) != (b.kind, b.where, b.expected):
            return at, f"{b.kind} is {b.expected}, not {a.expected}, at {b.where}"
        if before != now:
            return at, f"a number is {now}, not {before}, at {b.where}"
        if array_before != array_now:
            return at, f"an array, of which plain numbers were made, has others, at {b.where}"
    return min(len(old), len(new)), "another way through"


def newest_cause(group: SignatureGroup) -> str:
    """Why the newest trace was made: a hint for users."""
    if not group.specializations:
        return "none allowed"
    return f"the last for: {group.specializations[-1].describe_cause()}"


def run_trace(
    trace: Trace,
    run: Callable[[Sequence[Any]], Sequence[Any]] | None,
    leaves: Sequence[Any],
    given: Sequence[Any],
) -> Any:
    """Run a trace through the executor or the interpreter: plain values in, structured results
    out."""
    if run is None or (_requires_no_alias(trace) and has_overlap(trace, leaves)):
        raise GuardFailed  # the native entry was tried already
    if not conditions_hold(trace.conditions, trace.signature, leaves, given):
        raise GuardFailed
    container = functools.partial(_container_at, trace.signature, given)
    apart = no_alias_pairs(trace.signature, trace.state_writes)
    if any(container(one) is container(other) for one, other in apart) or (
        trace.state_writes and aliases_holder(trace.signature, given)
    ):
        raise GuardFailed  # two containers are one object now
    captured = [
        owner.data if owner else leaves[source] if isinstance(source, int) else source
        for source, owner in zip(trace.captures, trace.owners, strict=True)
    ]
    found = iter(run([*(leaves[number] for number in trace.inputs), *captured]))
    results: list[Any] = []
    for out in trace.outputs:
        leaf = out.leaf
        if isinstance(leaf, ConstantOut):
            results.append(leaf.value)
        elif isinstance(leaf, InputOut):
            results.append(leaves[leaf.leaf])
        elif isinstance(leaf, ViewOut):
            results.append(out.view(leaves))
        elif isinstance(leaf, ContainerOut):
            results.append(container(leaf.path))
        elif isinstance(leaf, AliasOut):
            results.append(results[leaf.leaf])
        else:
            x = _as_result_class(leaf, next(found))
            results.append(_unshared(x, [*leaves, *captured, *results]))
    for number, value in zip(trace.writes, list(found), strict=True):
        leaves[number][...] = value
    if trace.state_writes:
        apply_state_writes(trace.state_writes, results[trace.structure.count :], container)
    return tree.unflatten(trace.structure, results[: trace.structure.count])


def aliases_holder(call: Signature, given: Sequence[Any]) -> bool:
    """Whether an object that the signature flattens is also the holder of a source."""
    return any(_container_at(call, given, n) is h.value for n, h in possible_holder_aliases(call))


def _container_at(call: Signature, given: Sequence[Any], path: SignaturePath) -> Any:
    """The container among the arguments, or at a source, at a path."""
    number, way = path
    x = given[number] if number < len(given) else call.sources[number - len(given)].read()
    for at in way:
        parts = source_children(x) or tree.children_or_attributes(x)
        assert parts is not None
        x = parts[1][at]
    return x


def _requires_no_alias(trace: Trace) -> bool:
    """Whether a trace is invalid for arrays that share memory."""
    return bool(trace.writes or trace.no_alias)


def has_overlap(trace: Trace, leaves: Sequence[Any]) -> bool:
    """Whether an array that the function writes to shares memory with another that it reads, or its
    own elements do."""
    fixed = [x for x in trace.captures if isinstance(x, np.ndarray)]
    alone = (*trace.writes, *trace.no_alias)
    return _have_overlap(trace.writes, alone, trace.signature, leaves) or any(
        np.may_share_memory(leaves[number], x) for number in alone for x in fixed
    )


def run_has_overlap(run: TracedRun) -> bool:
    """The same for a run that gave no trace."""
    writes = [write.leaf_number for write in run.effects.writes]
    return _have_overlap(writes, run.no_alias, run.signature, run.leaves)


def _have_overlap(
    writes: Iterable[int], no_alias: Iterable[int], call: Signature, leaves: Sequence[Any]
) -> bool:
    return any(overlaps_itself(leaves[number]) for number in writes) or any(
        number != other and np.may_share_memory(leaves[number], leaves[other])
        for number in no_alias
        for other, leaf in enumerate(call.leaves)
        if isinstance(leaves[other], np.ndarray) and not isinstance(leaf, AliasLeaf)
    )


def _as_result_class(leaf: ArrayOut | ScalarOut, x: Any) -> Any:
    """A value in the class that the plain function returns."""
    if isinstance(leaf, ArrayOut):
        return np.asarray(x)
    return np.asarray(x)[()] if issubclass(leaf.cls, np.generic) else np.asarray(x).item()


def _unshared(x: Any, leaves: Sequence[Any]) -> Any:
    """A result that shares no memory with an argument, a capture, or another result."""
    is_shared = isinstance(x, np.ndarray) and (x.base is not None or any(x is y for y in leaves))
    return x.copy(order="K") if is_shared else x
