"""Update chains: which equations update an array, and which of them can be done in place.

A loop such as `for i in range(n): t[i] = f(t[i - 1])` is n equations, each with a new array as its
result; so is the gradient of reading t slice by slice, a sum of n arrays that are zero outside of a
slice. Each of these equations is an `Update`: its base with some slices replaced or added to. Where
the base is dead afterwards the update is made in the base's memory (`inplace.py`), so the work is
linear in the slices. Views of an array that is updated later are moved before the update.

Invariants: one forward and one backward pass; a short chain is left alone, because fusing it with
its neighbours is faster, and so is an update of most of a large array. But where a loop carries the
array, it is updated where it is, if no element is made of others of the array: to read and write
one array takes half the time of reading one and writing another.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracker.ir.graph import Atom, Eqn, Function, Guard, Var
from tracker.ir.lowering import Map, Scatter, View
from tracker.ir.passes.memory_ssa import index_extents, partial_axes
from tracker.jit.schedule.cost import is_sum
from tracker.jit.schedule.plan_data import UNROLL_LIMIT, CarryMoves, UnrollLimits
from tracker.support.structs import field, record

_MIN_CHAIN = 5  # slices; chains of at least this length are written in place
_MIN_CHAIN_OF_LARGE = (
    8  # the same for slices that are most of one axis: one loop is split into few parts
)
_LARGE_ARRAY = 1 << 14  # elements; in a larger array, slices of half of it are not written in place
_MEDIUM_ARRAY = (
    1 << 12
)  # elements; in a larger array, nor is a chain that is mostly such slices and has
_MAX_LOOP_PARTS = 60  # at most this many: one loop over the array may be split into more parts
_MAX_STACKED_ROWS = 16  # of a stack; up to here one loop over all rows selects among them


@record(frozen=True)
class UpdateSlice:
    """`result[index] = value`, or `result[index] += value`; the value broadcasts."""

    value: Atom
    index: tuple[Any, ...]
    adds: bool = False


@record(frozen=True)
class Update:
    """The result is `base` (None: zeros) with some slices updated, or with a scatter applied.

    covers_all: the slices leave nothing of the base.
    """

    base: Atom | None
    slices: tuple[UpdateSlice, ...] = ()
    covers_all: bool = False
    scatter: Eqn | None = None

    @property
    def values(self) -> list[Atom]:
        """What is read besides the base."""
        if self.scatter is None:
            return [part.value for part in self.slices]
        assert isinstance(self.scatter.op.lower, Scatter)
        return [o for at, o in enumerate(self.scatter.operands) if at != self.scatter.op.lower.base]


@record()
class UpdateChains:
    """The updates of a body.

    body: the steps, reads before updates; updates: the update that gives a result; with_dead_base:
    results whose base is dead afterwards; never_made: arrays that are only added to others, as
    slices, and need no memory; in_carried: the writes into arrays that a loop carries, by these.
    """

    body: list[Eqn | Guard]
    updates: dict[Var, Update]
    with_dead_base: set[Var] = field(default_factory=set)
    never_made: set[Var] = field(default_factory=set)
    in_carried: dict[Var, Var] = field(default_factory=dict)

    @property
    def bases(self) -> set[Var]:
        return {c.base for c in self.updates.values() if isinstance(c.base, Var)}


def find_updates(
    function: Function, tiny: UnrollLimits, carried: Mapping[Var, Atom]
) -> UpdateChains:
    """The updates of arrays that are not unrolled. carried: the inputs of a loop's body whose
    memory is that of an output."""
    in_carried = _CarriedWrites(function).find(carried) if carried else {}
    finder = _UpdateFinder(tiny, in_carried)
    for eqn in function.eqns:
        finder.visit(eqn)
    chains = UpdateChains(list(function.body), finder.long_chains(), in_carried=in_carried)
    if chains.updates:
        _find_dead_bases(function, chains, finder.embedded)
    return chains


class _UpdateFinder:
    """The forward pass. A chain is identified by its first result."""

    def __init__(self, tiny: UnrollLimits, in_carried: Mapping[Var, Var]) -> None:
        self.tiny = tiny
        self.in_carried = in_carried
        self.found: dict[Var, Update] = {}
        self.embedded: dict[Var, UpdateSlice] = {}  # arrays of zeros with one slice set
        self.chain_of: dict[Atom, Var] = {}
        self.lengths: Counter[Var] = Counter()
        self.large_slices: Counter[Var] = Counter()  # slices of at least half of the array
        self.mixed_chains: set[Var] = set()  # with small slices, or slices along several axes
        self.axis: dict[Var, int] = {}
        self.scattered: set[Var] = set()  # chains whose arrays are in memory in any case

    def long_chains(self) -> dict[Var, Update]:
        return {
            var: update
            for var, update in self.found.items()
            if var in self.in_carried
            or self.chain_of[var] in self.scattered
            or self._is_long(self.chain_of[var])
        }

    def _is_long(self, chain: Var) -> bool:
        length = self.lengths[chain]
        if (
            chain.type.size > _MEDIUM_ARRAY
            and length <= _MAX_LOOP_PARTS
            and 2 * self.large_slices[chain] > length
        ):
            return False
        return length >= (_MIN_CHAIN if chain in self.mixed_chains else _MIN_CHAIN_OF_LARGE)

    def visit(self, eqn: Eqn) -> None:
        if self.tiny.admits(eqn.out.type):
            return
        lower = eqn.op.lower
        update = None
        if isinstance(lower, View) and lower.writes is not None:
            update = self.write_update(eqn, lower)
        elif isinstance(lower, Map) and is_sum(eqn.op):
            update = self.sum_update(eqn)
        elif isinstance(lower, Scatter) and lower.base is not None:
            update = Update(eqn.operands[lower.base], scatter=eqn)
        if update is None:
            return
        self.found[eqn.out] = update
        start = eqn.out if update.base is None else self.chain_of.get(update.base, eqn.out)
        self.chain_of[eqn.out] = start
        self.lengths[start] += max(len(update.slices), 1)
        if update.scatter is not None:
            self.scattered.add(start)
        for part in update.slices:
            self._record_slice(start, eqn.out.type.shape, part.index)

    def _record_slice(self, chain: Var, shape: tuple[int, ...], index: tuple[Any, ...]) -> None:
        """Record the shape of one slice of a chain."""
        axes = partial_axes(index, shape)
        small = 2 * index_size(index, shape) < math.prod(shape)
        self.large_slices[chain] += not small
        if (
            small
            or len(axes) > 1
            or any(self.axis.setdefault(chain, axis) != axis for axis in axes)
        ):
            self.mixed_chains.add(chain)

    def write_update(self, eqn: Eqn, lower: View) -> Update | None:
        assert lower.writes is not None
        writes = lower.writes(*(o.type for o in eqn.operands), **eqn.params)
        slices = tuple([UpdateSlice(eqn.operands[at], index) for at, index in writes.parts])
        if writes.base is None:
            rows = writes.covers and all(int in map(type, part.index) for part in slices)
            if rows and len(slices) <= _MAX_STACKED_ROWS:
                return None
            if len(slices) == 1 and not writes.covers:
                self.embedded[eqn.out] = UpdateSlice(slices[0].value, slices[0].index, adds=True)
            return Update(None, slices, writes.covers)
        shape = eqn.out.type.shape
        if eqn.out not in self.in_carried and _is_mostly_rewritten(shape, writes.parts[0][1]):
            return None
        return Update(eqn.operands[writes.base], slices, writes.covers)

    def sum_update(self, eqn: Eqn) -> Update | None:
        for total, term in (eqn.operands, eqn.operands[::-1]):
            part = self.embedded.get(term) if isinstance(term, Var) else None
            if part is None or total is term:
                continue
            if total.type == term.type == eqn.out.type:
                is_most = _is_mostly_rewritten(eqn.out.type.shape, part.index)
                return None if is_most else Update(total, (part,))
        return None


def arrays_to_keep(function: Function, carried: CarryMoves) -> CarryMoves:
    """The arrays that the body of a loop can update where they are."""
    inputs, outputs = function.inputs, function.outputs
    pairs = {inputs[at]: outputs[to] for at, to in carried if inputs[at].type.size > UNROLL_LIMIT}
    kept = set(_CarriedWrites(function).find(pairs).values()) if pairs else ()
    return tuple([(at, to) for at, to in carried if inputs[at] in kept])


class _CarriedWrites:
    """Finds the writes that can be made in arrays that a loop carries: an array is written slice by
    slice, the elements of a slice are made of none of its other elements, and nothing reads what it
    was before. What one of these writes has written is read from there."""

    def __init__(self, function: Function) -> None:
        self.outputs = function.outputs
        self.definitions: dict[Atom, Eqn] = {eqn.out: eqn for eqn in function.eqns}
        self.position = {eqn: number for number, eqn in enumerate(function.eqns)}
        reads = [eqn for eqn in function.eqns if not _is_view(eqn)]  # views move before a write
        self.last_read: dict[Atom, Eqn] = {o: eqn for eqn in reads for o in eqn.operands}
        self.writes_of: dict[Atom, list[Eqn]] = {}

    def find(self, carried: Mapping[Var, Atom]) -> dict[Var, Var]:
        """The array of each of these writes."""
        found = {old: chain for old, new in carried.items() if (chain := self._chain(old, new))}
        before = None
        while before != len(found):
            before = len(found)
            self.writes_of = defaultdict(list)
            for write in (write for chain in found.values() for write in chain):
                self.writes_of[write.operands[1]].append(write)
            found = {
                old: chain
                for old, chain in found.items()
                if not any(self._reads_aside(write, old, chain) for write in chain)
            }
        return {write.out: old for old, chain in found.items() for write in chain}

    def _chain(self, old: Var, new: Atom) -> list[Eqn]:
        """The writes that make one array of another."""
        if old.type.dtype == np.bool_ or self.outputs.count(new) != 1:
            return []
        chain: list[Eqn] = []
        atom = new
        while atom is not old:
            write = self.definitions.get(atom)
            if write is None or not _is_write_of_slice(write):
                return []
            chain.append(write)
            atom = write.operands[0]
            if self.last_read[atom] is not write or atom in self.outputs:
                return []
        return chain

    def _reads_aside(self, write: Eqn, old: Var, chain: Sequence[Eqn]) -> bool:
        """Whether elements are made of others of the array, without other memory in between."""
        versions = {old, *(each.out for each in chain)}
        value = write.operands[1]
        seen: set[tuple[Atom, bool]] = set()
        left = [(value, True)]  # and whether it has the elements in the same order
        while left:
            atom, aligned = step = left.pop()
            if atom in versions:
                return True
            eqn = None if step in seen else self.definitions.get(atom)
            seen.add(step)
            if eqn is None or not isinstance(eqn.op.lower, Map | View):
                continue
            aligned = aligned and atom.type.shape == value.type.shape
            # what was written before is read from there
            reads = [e for e in self.writes_of[atom] if self.position[e] < self.position[write]]
            if _is_view(eqn) and eqn.operands[0] in versions:
                reads.append(eqn)
            own = [e for e in reads if e.out in versions or e is eqn]
            if any(not aligned or each.params != write.params for each in own):
                return True
            if not reads:
                aligned = aligned and isinstance(eqn.op.lower, Map)
                left += [(o, aligned) for o in eqn.operands]
        return False


def _is_mostly_rewritten(shape: tuple[int, ...], index: tuple[Any, ...]) -> bool:
    """Whether an index covers half of a large array or more: then a copy costs little more."""
    size = math.prod(shape)
    return size > _LARGE_ARRAY and 2 * index_size(index, shape) >= size


def index_size(index: tuple[Any, ...], shape: tuple[int, ...]) -> int:
    """The number of elements that a canonical basic index covers."""
    return math.prod(index_extents(index, shape))


def _find_dead_bases(
    function: Function, chains: UpdateChains, embedded: dict[Var, UpdateSlice]
) -> None:
    """The backward pass. `live` holds what is live after the step; `views`, the views of an array
    that may be moved before the step."""
    bases = chains.bases
    live = {a for a in function.outputs if isinstance(a, Var)}
    views: dict[Var, list[int]] = {}
    moved_before: dict[int, list[int]] = {}
    for at in range(len(function.body) - 1, -1, -1):
        step = function.body[at]
        if isinstance(step, Guard):
            live.update(_variables([step.operand]))
            continue
        update = chains.updates.get(step.out)
        if step.out in embedded and step.out not in live and step.out not in views:
            chains.never_made.add(step.out)
        elif update is not None:
            if isinstance(update.base, Var) and update.base not in live:
                chains.with_dead_base.add(step.out)
                if update.base in views:
                    moved_before[at] = views.pop(update.base)[::-1]
            live.update(_variables([*update.values, update.base]))
        elif _is_view_of_base(step, bases):
            views.setdefault(step.operands[0], []).append(at)  # type: ignore[arg-type]
        else:
            live.update(_variables(step.operands))
    if moved_before:
        chains.body = _reordered_body(function, moved_before)


def _is_view_of_base(eqn: Eqn, bases: set[Var]) -> bool:
    """Whether an equation is a view of an array that is updated somewhere."""
    return _is_view(eqn) and eqn.operands[0] in bases


def _is_write_of_slice(eqn: Eqn) -> bool:
    """Whether the second operand is written into a part of the first one."""
    lower = eqn.op.lower
    if not isinstance(lower, View) or lower.writes is None:
        return False
    writes = lower.writes(*(o.type for o in eqn.operands), **eqn.params)
    return writes.base == 0 and not writes.covers and [at for at, _ in writes.parts] == [1]


def _is_view(eqn: Eqn) -> bool:
    lower = eqn.op.lower
    return isinstance(lower, View) and lower.writes is None and len(eqn.operands) == 1


def _reordered_body(function: Function, moved_before: dict[int, list[int]]) -> list[Eqn | Guard]:
    """The body, with steps moved to before another."""
    moved = {at for group in moved_before.values() for at in group}
    body: list[Eqn | Guard] = []
    for at, step in enumerate(function.body):
        body += [function.body[earlier] for earlier in moved_before.get(at, ())]
        if at not in moved:
            body.append(step)
    return body


def _variables(atoms: Any) -> list[Var]:
    return [atom for atom in atoms if isinstance(atom, Var)]
