"""The traces of one signature: what each was made for, and how one is run without machine code.

Owns: `Special`, a trace and the job that compiles it; `Family`, all traces of a signature;
`Families`, those of a function; `run_one`, which the slow path asks first. Start at `Family`.

Invariant: a trace is run only for values that it was made for (`leaves_for`), and only if the
arrays it writes into share no memory with others (`overlap`).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracker import tree
from tracker.ir.graph import Const, Eqn, Guard
from tracker.jit.guards import signature
from tracker.jit.guards.conditions import Condition, Distinct
from tracker.jit.guards.matching import difference, holders_apart, same_objects, with_places
from tracker.jit.guards.source import children_of
from tracker.jit.tracing.side_effects import carry_out
from tracker.jit.tracing.trace import GuardFailed, Staged, Trace
from tracker.support.array_copies import overlaps_itself
from tracker.support.structs import field, record

if TYPE_CHECKING:
    from tracker.jit.pipeline.link import Compiled
    from tracker.jit.runtime.compile_queue import Job

NONE = object()
_CROWD = 16
_MOST = 256  # signatures of a function whose traces are kept; each takes 70 kB and more
_KNOWN = 16  # signatures that a new one is compared with
_SHORT = 40  # elements; shorter arrays are unrolled, and their code is good for one length


@record()
class Special:
    """One trace, the job that compiles it, and what says why it was made; `awaited` until machine
    code takes its calls, if it is one native entry."""

    trace: Trace
    job: Job[Compiled]
    cause: Callable[[], str]
    awaited: bool = True

    @property
    def compiled(self) -> Compiled:
        return self.job.result()

    def call(self, leaves: Sequence[Any], given: Sequence[Any]) -> Any:
        """A call in Python terms, of all leaves, and the arguments; machine code that is one native
        entry has been asked already."""
        return _python_call(self.trace, self.compiled, leaves, given)

    def matches(self, other: Trace) -> bool:
        """Whether another trace holds no more often than this one."""
        mine = self.trace
        if mine.call != other.call or mine.conditions != other.conditions:
            return False
        if str(mine.function) != str(other.function):
            return False
        return all(map(_same_capture, mine.captures, other.captures))  # the text has no numbers


def _same_capture(one: Any, other: Any) -> bool:
    """Whether what two traces with one text capture is the same: an array that holds what was asked
    of a value may hold another answer."""
    if one is other:
        return True
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return type(one) is type(other) is int and one == other
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


@record()
class Family:
    """All traces of one signature, `call`; `known` are some that came before it, `eager` says why
    it is run in plain Python, if it is."""

    call: signature.Signature
    known: Sequence[signature.Signature] = ()
    specials: list[Special] = field(default_factory=list)
    eager: str = ""
    unsteady: int = 0  # calls that changed what they read
    may_change: bool = False  # what the function reads, by what its code says
    together: Trace | None = None  # not kept, for arrays of its call share memory
    fills: int = 0  # traces in which the function filled a cache
    raised: int = 0  # traces in a row in which the function raised
    vain: int = 0  # traces in a row that were there already: machine code came to other numbers
    resting: int = 0  # calls that machine code does not take, and that are not traced, either
    used: int = 0  # when a call was last looked up here (see `jit/runtime/lru_clock.py`)

    @property
    def last_used(self) -> int:
        """When a call was last this signature's."""
        entries = [s.compiled.entry for s in self.specials if s.job.has_result]
        times: list[int] = [entry.used for entry in entries if entry]
        return max(self.used, *times, 0)

    @property
    def lengths_vary(self) -> bool:
        """Whether there were calls with short arrays of other lengths."""
        return any(_have_other_lengths(self.call, other) for other in self.known)


class Families(dict[signature.Signature, Family]):
    """The families of a function, by signature; `crowded` is how many there are before room is
    made for others."""

    def __init__(self) -> None:
        super().__init__()
        self.crowded = _CROWD

    def enter(self, call: signature.Signature) -> Family:
        """A new family."""
        known = tuple(itertools.islice(reversed(self), _KNOWN))
        family = self[call] = Family(call, known)
        return family

    def make_room(self) -> list[Special]:
        """Forget the traces for objects that are gone, of which no call can ask any more; where all
        are alive and there are very many, the one that was used least recently."""
        gone = [call for call in self if not call.alive]
        if not gone and len(self) >= _MOST:
            gone = [min(self, key=lambda call: self[call].last_used)]
        forgotten = [special for call in gone for special in self.pop(call).specials]
        self.crowded = min(_MOST, max(_CROWD, 2 * len(self)))
        return forgotten


def _have_other_lengths(call: signature.Signature, other: signature.Signature) -> bool:
    """Whether two signatures differ in the extents of arrays only, of which a short one does."""
    if len(call.leaves) != len(other.leaves) or call.names != other.names:
        return False
    short = False
    for leaf, beside in zip(call.leaves, other.leaves, strict=True):
        if leaf == beside:
            continue
        if not isinstance(leaf, signature.Array) or not isinstance(beside, signature.Array):
            return False
        if leaf.dtype != beside.dtype or len(leaf.shape) != len(beside.shape):
            return False
        lengths = zip(leaf.shape, beside.shape, strict=True)
        short |= any(n != m and n <= _SHORT for n, m in lengths)
    return short and call.structures == other.structures


def run_one(
    family: Family, call: signature.Signature, leaves: list[Any], given: Sequence[Any]
) -> Any:
    """The result of the first trace that holds; NONE if none does."""
    for special in family.specials:
        everything = leaves_for(special.trace, call, leaves)
        if everything is not None:
            try:
                return special.call(everything, given)
            except GuardFailed:
                continue
    return NONE


def meets(
    family: Family, call: signature.Signature, leaves: list[Any], given: Sequence[Any]
) -> bool:
    """Whether a trace is known to write into an array of this call that shares memory with another,
    or to compare two objects that are one here: then plain Python does what is right, and to trace
    it once more tells nothing new."""
    traces = [special.trace for special in family.specials]
    if family.together is not None:
        traces.append(family.together)
    for trace in traces:
        distinct = [each for each in trace.conditions if isinstance(each, Distinct)]
        looks = distinct or _may_meet(trace)
        everything = leaves_for(trace, call, leaves) if looks else None
        if everything is not None and (
            overlap(trace, everything) or not holds(distinct, trace.call, everything, given)
        ):
            return True
    return False


def holds(
    conditions: Iterable[Condition],
    call: signature.Signature,
    leaves: Sequence[Any],
    given: Sequence[Any],
) -> bool:
    """Whether conditions hold of a call with these leaves, and arguments."""
    container = functools.partial(_container, call, given)
    return all(each.holds(leaves, container) for each in conditions)


def leaves_for(trace: Trace, call: signature.Signature, leaves: list[Any]) -> list[Any] | None:
    """All leaves of a call, as a trace takes them; None if what it reads differs."""
    standing = same_objects(trace.call, len(leaves))
    if standing is not None:  # the arguments are those of the family
        return [*leaves, *standing]
    full, everything = with_places(call, leaves, trace.call.places, trace.varying)
    return everything if full == trace.call else None


def cause_of(family: Family, trace: Trace, full: signature.Signature) -> Callable[[], str]:
    """What says why the traces that there are did not do: what differs from the one that is most
    alike. `full`: the signature of the call, with all captured numbers."""
    if not family.specials:
        return functools.partial(_new_in, family.call, family.known)
    found = _cause_beside(family.specials, trace, full)
    return lambda: found


def _new_in(call: signature.Signature, known: Sequence[signature.Signature]) -> str:
    """What differs from the known signature that is most alike. (Put into words when somebody asks:
    that takes as long as all passes over a small function.)"""
    causes = [difference(old, call) for old in known]
    return min(causes)[1] if causes else "the first call"


def _cause_beside(specials: list[Special], trace: Trace, full: signature.Signature) -> str:
    alike = [s for s in specials if s.trace.call == trace.call]
    if not alike:
        return difference(specials[-1].trace.call, full)[1]
    new = _guards(trace)
    found = max((_branch(_guards(special.trace), new) for special in alike), key=lambda b: b[0])
    return found[1]


def _guards(trace: Trace) -> list[tuple[Guard, str, bytes]]:
    """All guards, each with the number that the trace has for a constant there, if any, and with
    those of an array."""
    made: dict[Any, Eqn] = {}
    held = dict(zip(trace.function.captures, trace.captures, strict=True))
    found = []
    for step in trace.function.body:
        if isinstance(step, Guard):
            found.append((step, *_constants_in(step.operand, made, held)))
        else:
            made[step.out] = step
    return found


def _constants_in(atom: Any, made: dict[Any, Eqn], held: dict[Any, Any]) -> tuple[str, bytes]:
    """The number that a condition compares with, or the array: of `equal c 4`, or of `all` of that,
    4. (An array is compared with the signs of its zeros, too, which comes second.)"""
    eqn = made.get(atom)
    while eqn is not None:
        constants = [str(x.value) for x in eqn.operands if isinstance(x, Const)]
        if constants:
            return ", ".join(constants), b""
        arrays = [x for atom in eqn.operands if isinstance(x := held.get(atom), np.ndarray)]
        if arrays:
            return "", arrays[0].tobytes()
        alone = len(eqn.operands) == 1 or all(o.type.dtype.kind == "b" for o in eqn.operands)
        eqn = made.get(eqn.operands[0]) if alone else None
    return "", b""


def _branch(
    old: list[tuple[Guard, str, bytes]], new: list[tuple[Guard, str, bytes]]
) -> tuple[int, str]:
    """After how many guards two traces part, and there."""
    both = zip(old, new, strict=False)
    for at, ((a, before, array_before), (b, now, array_now)) in enumerate(both):
        if (a.kind, a.where, a.expected) != (b.kind, b.where, b.expected):
            return at, f"{b.kind} is {b.expected}, not {a.expected}, at {b.where}"
        if before != now:
            return at, f"a number is {now}, not {before}, at {b.where}"
        if array_before != array_now:
            return at, f"an array, of which plain numbers were made, has others, at {b.where}"
    return min(len(old), len(new)), "another way through"


def last_cause(family: Family) -> str:
    """What people should look at: what the newest trace was made for."""
    return f"the last for: {family.specials[-1].cause()}" if family.specials else "none allowed"


def _python_call(
    trace: Trace, compiled: Compiled, leaves: Sequence[Any], given: Sequence[Any]
) -> Any:
    """How the slow path runs a trace: an executor's values in, structured results out."""
    if compiled.run is None or (_may_meet(trace) and overlap(trace, leaves)):
        raise GuardFailed  # machine code has been asked already
    if not holds(trace.conditions, trace.call, leaves, given):
        raise GuardFailed
    if any(
        _container(trace.call, given, one) is _container(trace.call, given, other)
        for one, other in signature.apart_of(trace.call, trace.updates)
    ) or (trace.updates and is_entangled(trace.call, given)):
        raise GuardFailed  # containers that are one object, and were two
    captured = [
        owner.data if owner else leaves[source] if isinstance(source, int) else source
        for source, owner in zip(trace.captures, trace.owners, strict=True)
    ]
    found = iter(compiled.run([*(leaves[number] for number in trace.inputs), *captured]))
    results: list[Any] = []
    for out in trace.outputs:
        if out.kind == "constant":
            results.append(out.constant)
        elif out.kind == "input":
            results.append(leaves[out.constant])
        elif out.kind == "view":
            results.append(out.constant.cut(leaves[out.constant.out.leaf]))
        elif out.kind == "node":
            results.append(_container(trace.call, given, out.constant))
        elif out.kind == "same":
            results.append(results[out.constant])
        else:
            results.append(_own(_in_class(out.kind, next(found)), [*leaves, *captured, *results]))
    for number, value in zip(trace.writes, list(found), strict=True):
        leaves[number][...] = value
    if trace.updates:
        values = results[trace.structure.count :]
        carry_out(trace.updates, values, functools.partial(_container, trace.call, given))
    return tree.unflatten(trace.structure, results)


def is_entangled(call: signature.Signature, given: Sequence[Any]) -> bool:
    """Whether an object that the signature takes apart is read at places of its own, too."""
    return any(_container(call, given, n) is h.value for n, h in holders_apart(call))


def _container(call: signature.Signature, given: Sequence[Any], node: signature.Node) -> Any:
    """The container among the arguments, or at a place, that a node says."""
    number, way = node
    x = given[number] if number < len(given) else call.places[number - len(given)].read()
    for at in way:
        parts = children_of(x) or tree.opened(x)
        assert parts is not None
        x = parts[1][at]
    return x


def _may_meet(trace: Trace) -> bool:
    """Whether a trace is wrong for arrays that `overlap`."""
    return bool(trace.writes or trace.apart)


def overlap(trace: Trace, leaves: Sequence[Any]) -> bool:
    """Whether an array that the function writes into shares memory with another that it reads, or
    its elements share it."""
    if any(overlaps_itself(leaves[number]) for number in trace.writes):
        return True
    fixed = [x for x in trace.captures if isinstance(x, np.ndarray)]
    alone = (*trace.writes, *trace.apart)
    beside = any(np.may_share_memory(leaves[number], x) for number in alone for x in fixed)
    return beside or _share_memory(alone, trace.call, leaves)


def is_shared(staged: Staged) -> bool:
    """The same of a run that gave no trace."""
    leaves, writes = staged.leaves, staged.effects.writes
    return any(overlaps_itself(leaves[write.number]) for write in writes) or _share_memory(
        staged.alone, staged.call, leaves
    )


def _share_memory(alone: Iterable[int], call: signature.Signature, leaves: Sequence[Any]) -> bool:
    """Whether one of these arrays shares memory with another leaf."""
    return any(
        number != other and np.may_share_memory(leaves[number], leaves[other])
        for number in alone
        for other, leaf in enumerate(call.leaves)
        if isinstance(leaves[other], np.ndarray) and not isinstance(leaf, signature.Twin)
    )


def _in_class(kind: str, x: Any) -> Any:
    """A value as the class of result that the plain function gives."""
    if kind == "array":
        return np.asarray(x)
    if kind == "numpy":
        return np.asarray(x)[()]
    return np.asarray(x).item()


def _own(x: Any, leaves: Sequence[Any]) -> Any:
    """A result that shares no memory with an argument, the trace, or another result."""
    return (
        x.copy() if isinstance(x, np.ndarray) and (x.base is not None or _is_one(x, leaves)) else x
    )


def _is_one(x: Any, leaves: Sequence[Any]) -> bool:
    return any(x is leaf for leaf in leaves)
