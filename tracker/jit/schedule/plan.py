"""The plan: where each value of a function lives, and which loops compute what.

Owns: `make_plan`, which fills the data structures of `plan_data.py` step by step; how a value comes
to be stored or copied is in `placement.py`, whether it pays in `cost.py`. Kernels are found by
(space, level): everything of one level and one space shares one loop. Start at `_Planner.step`.

Invariants: levels never decrease along uses, so the order of levels is a legal order; planning is
linear in the equations (a cheap expression is inlined, an expensive one is stored and read again).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tracker.ir.graph import (
    Atom,
    Const,
    Eqn,
    Function,
    Guard,
    Var,
    acts,
    calls_back,
    may_abandon,
)
from tracker.ir.lowering import (
    Borrow,
    Branch,
    Compact,
    Contract,
    Host,
    Locate,
    Loop,
    Lowering,
    Map,
    Pick,
    Reduce,
    Routine,
    Scan,
    Scatter,
    Search,
    Select,
    Sort,
    Table,
    View,
    While,
)
from tracker.ir.passes.loop_limits import UNROLLED
from tracker.ir.types import Bundle
from tracker.jit.runtime import lazy_imports
from tracker.jit.schedule.affine import formulas, index_of
from tracker.jit.schedule.cost import (
    SEVERAL,
    Weighing,
    is_math,
    is_slow,
    reading,
    sliced_by_products,
)
from tracker.jit.schedule.inplace import InPlace
from tracker.jit.schedule.loop_fusion import invite
from tracker.jit.schedule.placement import DEAR
from tracker.jit.schedule.plan_data import (
    TINY,
    Buffer,
    Control,
    Kernel,
    Place,
    Plan,
    Store,
    Tiny,
    address,
    whole_place,
)
from tracker.ops.shape.memory_order import MemoryOrder, c_strides

_VECTOR = 8  # elements; up to here a vector is unrolled where there is vector math
_PER_MATH = 40  # equations of vectors for each transcendental one; beyond, these are unrolled
_FEW_LOOPS = 40  # transcendental functions of vectors; beyond, these are unrolled
_IN_LOOP = 16  # elements; up to here a value in a loop is unrolled: its code is to stay near
_UNROLLED_IN_LOOP = 500  # elements of all unrolled values of a body, or of what stands around it
_HEAVY = 30  # what a transcendental function adds to the crowd: its code is long
_LINES = 6  # of code that an operation takes, with where its operands are


def make_plan(
    function: Function,
    strides: Sequence[tuple[int, ...]] | None = None,
    wanted: Sequence[MemoryOrder] = (),
    lengths_vary: bool = False,
    *,
    body: bool = False,
    carried: Mapping[Var, Atom] | None = None,
    bodies: Mapping[Function, Plan] | None = None,
) -> Plan:
    """Plan a function all of whose equations can be lowered. `strides` are those of its inputs,
    then of its captures, in elements (by default all are in C order); `wanted` those that its
    outputs are to have (None, or left out: C order). `lengths_vary`: the code is to be that of
    other lengths, too, so little is unrolled. `carried`: the inputs of a body that are to be read
    before anything takes their place, and the results that will; others that are made of these are
    to read them from memory. `bodies`: plans of bodies that are known."""
    if strides is None:
        strides = [c_strides(v.type.shape) for v in (*function.inputs, *function.captures)]
    most = _IN_LOOP if body else _VECTOR if lengths_vary else TINY
    planner = _Planner(function, strides, wanted, _tiny(function, most, body), body)
    planner.bodies.update(bodies or {})
    for old, new in (carried or {}).items():
        planner.apart.add(new)
        planner.in_place.watch(planner.places[old])
    for step in planner.in_place.changes.body:
        planner.step(step)
    planner.finish()
    return planner.plan


def _tiny(function: Function, tiny: int, body: bool) -> Tiny:
    """Up to which size values are unrolled: less in a long program, to keep its code short."""
    sizes = Counter(eqn.out.type.size for eqn in function.eqns)
    unrolled = _UNROLLED_IN_LOOP if body or function.functions else UNROLLED
    while tiny > 1 and sum(n * size for size, n in sizes.items() if size <= tiny) > unrolled:
        tiny //= 2
    return Tiny(_VECTOR if _is_vector_math(function, tiny) else tiny, tiny)


def _is_vector_math(function: Function, tiny: int) -> bool:
    """Whether there are transcendental functions of vectors that would be unrolled, but are quicker
    by fours; not so many of them that loops would take seconds to compile, nor so few that it is
    quick arithmetic which loops would hold up."""
    vectors = [
        eqn
        for eqn in function.eqns
        if eqn.out.type.ndim == 1 and _VECTOR < eqn.out.type.size <= tiny
    ]
    math = sum(map(is_math, vectors))
    return 0 < math <= _FEW_LOOPS and len(vectors) <= _PER_MATH * math


class _Planner(Weighing):
    """Says step by step what computes a value, and where."""

    def __init__(
        self,
        function: Function,
        strides: Sequence[tuple[int, ...]],
        wanted: Sequence[MemoryOrder],
        tiny: Tiny,
        body: bool,
    ) -> None:
        super().__init__(function, wanted, tiny, body)
        self.gathered: set[Var] = set()
        self.bodies: dict[Function, Plan] = {}
        self.turned: set[Var] | None = None  # see `scan.py`
        self.sliced: set[Atom] = set()
        self.calls_back = function.calls_back
        self.checked = 0  # the level from which all conditions so far have been looked at
        self.drawn = 0  # the level of the last step that has an effect
        if any(isinstance(eqn.op.lower, Contract) for eqn in function.eqns):
            self.gathered = lazy_imports.gathered(function)
            self.sliced = sliced_by_products(function)
        self.in_place = InPlace(self, function, tiny)
        self.bundles: dict[Var, list[Place]] = {}
        self.factors: dict[Any, tuple[Buffer, Buffer, int]] = {}  # see `jit/lapack/plan.py`
        self.gapless: dict[Any, Place] = {}  # likewise
        for number, var in enumerate(function.inputs):
            self.arrive(var, "input", number, strides[number])
        for number, var in enumerate(function.captures, start=len(function.inputs)):
            self.arrive(var, "capture", number - len(function.inputs), strides[number])

    # One step

    def step(self, step: Eqn | Guard) -> None:
        if isinstance(step, Guard):
            level = self.ready(step.operand)
            self.checked = max(self.checked, level)
            self.plan.scalars.setdefault(level, []).append(step)
            return
        changes = self.in_place.changes
        if step.out in changes.parts:
            return
        eqn = self.in_place.current(step)
        self.plan.definitions[eqn.out] = eqn
        if eqn.out in changes.by:
            self.in_place.change(eqn.out, changes.by[eqn.out])
            return
        self._plan(eqn, eqn.op.lower, [o for o in eqn.operands if isinstance(o, Var)])
        self.in_place.note(eqn)
        if self.calls_back and may_abandon(eqn):
            self.checked = max(self.checked, self._made_at(eqn.out))

    def _made_at(self, out: Var) -> int:
        """The level by which an equation has been computed."""
        bundle = self.bundles.get(out)
        return self.ready(out) if bundle is None else max((p.ready for p in bundle), default=0)

    def _plan(self, step: Eqn, lower: Lowering, operands: list[Var]) -> None:
        if isinstance(lower, Pick):
            self.places[step.out] = self.bundles[operands[0]][step.params["at"]]
        elif isinstance(lower, Table):
            buffer = self.buffer(step.out.type, "table")
            buffer.values = step.params["values"]
            self.places[step.out] = whole_place(buffer)
        elif isinstance(lower, (Loop, While, Branch)):
            self._control(step, operands)
        elif isinstance(lower, Contract):
            self._product(step, operands)
        elif isinstance(lower, Routine):
            lazy_imports.plan_call(self, step, lower)
        elif isinstance(lower, Scatter):
            self._scatter(step, lower)
        elif isinstance(lower, Compact):
            self._compact(step)
        elif isinstance(lower, Sort):
            lazy_imports.plan_order(self, step)
        elif isinstance(lower, Select):
            lazy_imports.plan_choice(self, step)
        elif isinstance(lower, Locate):
            lazy_imports.plan_source(self, step)
        elif isinstance(lower, Search):
            lazy_imports.plan_lookup(self, step)
        elif isinstance(lower, Borrow):
            lazy_imports.plan_loan(self, step)
        elif isinstance(lower, Host):
            lazy_imports.plan_callback(self, step)
        elif isinstance(lower, Reduce) and (
            any(map(self.is_big, operands)) or not self.tiny.takes(step.out.type)
        ):
            self._fold(step, operands[0])
        elif isinstance(lower, Scan) and not self.tiny.takes(step.out.type):
            lazy_imports.plan_scan(self, step)
        elif self.tiny.takes(step.out.type):
            self._scalar(step, operands)
        elif isinstance(lower, View):
            self._view(step, operands)
        else:
            self._map(step, operands)

    def _scalar(self, eqn: Eqn, operands: list[Var]) -> None:
        """An unrolled equation. A view sees through expressions; others read what is stored, as a
        matrix of a few elements does that is made of a vector which is not unrolled."""
        through = isinstance(eqn.op.lower, View)
        level = 0
        for o in operands:
            whole = self.places[o].kind != "expression" or through
            level = max(level, self.reach(o) if whole else self.store(o))
        self.places[eqn.out] = Place("tiny", level)
        self.plan.scalars.setdefault(level, []).append(eqn)

    def _map(self, eqn: Eqn, operands: list[Var]) -> None:
        space = eqn.out.type.shape
        level = 0
        same = []
        for o in operands:
            place = self.places[o]
            if self.is_asked_of_gathered(o) or self.is_apart(o) or self.is_long(o, eqn):
                level = max(level, self.store(o))
            elif place.kind == "expression" and o.type.shape == space:
                assert place.home is not None
                same.append(o)
                level = max(level, place.home.level)
            elif self.is_spread(o, eqn):
                level = max(level, self.store(o))
            else:
                level = max(level, self.reach(o))
        kernel = self.roomy(space, level)
        crowded, level = kernel.level > level, kernel.level
        dear = is_math(eqn)
        own = DEAR if dear else 1
        kernel.weight += _HEAVY if dear else 1
        for o in same:
            place = self.places[o]
            assert place.home is not None
            if place.home.level < level and not place.stored:
                most = min(self.cheap(o), DEAR - 1) if crowded else self.cheap(o)
                if self.again(o, level, most) > most:
                    self.store(o)
        shared = 0  # what the kernel computes for others, too
        for o in operands:
            place = self.places[o]
            if place.home is kernel:
                shared += place.cost
            elif place.kind == "expression" and not place.stored:
                own += self.again(o, level, place.cost)
        self.slow[eqn.out] += is_slow(eqn)
        kernel.lines += _HEAVY + _LINES * (own - DEAR) if dear else _LINES * own
        kernel.work += own
        self._expression(eqn, kernel, own + shared, operands)

    def _expression(self, eqn: Eqn, kernel: Kernel, cost: int, operands: list[Var]) -> None:
        kernel.members.append(eqn)
        counts = [self.slow[o] for o in operands if not self.places[o].stored]
        self.slow[eqn.out] += min(sum(counts), SEVERAL)
        place = self.places[eqn.out] = Place("expression", kernel.level, cost, kernel)
        place.chain = max(map(self.chain, operands), default=0) + is_math(eqn)
        kernel.chain = max(kernel.chain, place.chain)

    def _view(self, eqn: Eqn, operands: list[Var]) -> None:
        for o in operands:
            if self.is_spread(o, eqn) or self.is_apart(o):
                self.store(o)
        if len(eqn.operands) == 1 and operands and eqn.out not in self.gathered:
            o = operands[0]
            place = self.places[o]
            fresh = place.kind == "expression" and not place.stored
            if fresh and _is_reshape(eqn) and not _keeps_order(eqn):
                self.store(o)
            alias = self._alias(eqn, o)
            scattered = alias is None and place.kind == "memory" and _is_reshape(eqn)
            if scattered and not _keeps_order(eqn):  # else each element is found by division
                copy = self.copied(o)
                strides = c_strides(eqn.out.type.shape)
                alias = Place("memory", copy.ready, 0, None, copy.buffer, strides, copy.start)
            if alias is not None:
                self.places[eqn.out] = alias
                return
        level = 0
        cost = reading(eqn)
        space = eqn.out.type.shape
        for o in operands:
            level = max(level, self.reach(o))
            place = self.places[o]
            if place.kind == "expression" and not place.stored:
                cost += place.cost
        kernel = self.kernel(space, level)
        kernel.lines += _LINES * cost
        kernel.work += cost
        self._expression(eqn, kernel, cost, operands)

    def _alias(self, eqn: Eqn, o: Var) -> Place | None:
        """The view as another way to read the same memory, if strides can say it."""
        place = self.places[o]
        if not place.stored or not o.type.shape:  # a scalar has no memory
            return None
        shape = eqn.out.type.shape
        if _is_reshape(eqn) and place.strides == c_strides(o.type.shape):
            return Place(
                "memory", place.ready, 0, None, place.buffer, c_strides(shape), place.start
            )
        found = formulas(eqn, index_of(shape), shape)
        if found is None or isinstance(found, list) or found[2] not in (None, True):
            return None
        return address(place, found[1], len(shape), place.ready)

    def _fold(self, eqn: Eqn, o: Var) -> None:
        place = self.places[o]
        kernel = place.home or self.kernel(o.type.shape, place.ready)
        kernel.folds.append(eqn)
        ready = kernel.level + 1
        kind = "tiny" if self.tiny.takes(eqn.out.type) else "memory"
        buffer = self.buffer(eqn.out.type, "scratch")
        self.places[eqn.out] = Place(kind, ready, 0, None, buffer, self.order(eqn.out))

    def _product(self, eqn: Eqn, operands: list[Var]) -> None:
        if lazy_imports.plan_rows(self, eqn):
            return
        level = 0
        most = max(o.type.size for o in (*operands, eqn.out))
        small = most <= self.tiny.array or (most <= TINY and lazy_imports.why_no_call(eqn) != "")
        for o in operands:
            self._factor(o, operands)
            level = max(level, self.places[o].ready if small else self.matrix(o).ready)
        if small:
            self.places[eqn.out] = Place("tiny", level)
            self.plan.scalars.setdefault(level, []).append(eqn)
            return
        self.result(eqn.out, level + 1)
        self.plan.products.setdefault(level, []).append(eqn)

    def _factor(self, o: Var, operands: list[Var]) -> None:
        """Have in memory what a product reads. A view of what is there, or is the other factor, or
        of which products read much, is read from there: BLAS takes it as it lies, and knows a
        product with its own transpose."""
        if self.places[o].kind != "expression":
            return
        eqn = self.plan.definitions[o]
        base = eqn.operands[0] if len(eqn.operands) == 1 else None
        if isinstance(eqn.op.lower, View) and isinstance(base, Var) and not self.places[o].stored:
            if base in operands or base in self.sliced:
                self._factor(base, operands)
            alias = self._alias(eqn, base)
            if alias is not None:
                self.places[o] = alias
                return
        self.store(o)

    # Loops and branches

    def _control(self, eqn: Eqn, operands: list[Var]) -> None:
        assert isinstance(eqn.out.type, Bundle)
        wholes = {o: self.carried(o) for o in operands}
        level = max((place.ready for place in wholes.values()), default=0)
        if self.calls_back and calls_back(eqn):
            level = max(level, self.checked)
            if acts(eqn):  # callbacks come after all else of their level
                level = self.drawn = max(level, self.drawn + 1)
        results = []
        for part in eqn.out.type.parts:
            kind = "tiny" if self.tiny.takes(part) else "memory"
            buffer = self.buffer(part, "scratch")
            results.append(Place(kind, level + 1, 0, None, buffer, c_strides(part.shape)))
        self.bundles[eqn.out] = results
        keep = eqn.params.get("keep")
        spares: list[Buffer | None] = []
        if keep is not None:  # not a branch
            carries = eqn.params.get(
                "carries", len(results) - len(keep) - 1
            )  # a while: and a count
            for at, part in enumerate(eqn.out.type.parts[:carries]):
                moves = part.shape and at not in keep
                spares.append(self.buffer(part, "scratch") if moves else None)
        bodies = {
            name: self._body(nested)
            for name, nested in eqn.params.items()
            if isinstance(nested, Function)
        }
        first = eqn.params.get("consts", eqn.params.get("body_consts", 0))
        control = Control(eqn, wholes, results, spares, bodies, first)
        self.plan.controls.setdefault(level, []).append(control)

    def _body(self, function: Function) -> Plan:
        """The plan of a body, which loops and branches may share."""
        plan = self.bodies.get(function)
        if plan is None:
            plan = self.bodies[function] = make_plan(function, body=True)
        return plan

    # Loops that write in an order of their own

    def _scatter(self, eqn: Eqn, lower: Scatter) -> None:
        """A copy of the base, then a loop that writes the elements where they go."""
        self.store_if_dear(eqn.operands[lower.value])
        level = max((self.reach(o) for o in eqn.operands if isinstance(o, Var)), default=0)
        place = self.made(eqn.out, level, strides=self.order(eqn.out))
        space = lower.space(*(o.type for o in eqn.operands), **eqn.params)
        base = None if lower.base is None else eqn.operands[lower.base]
        self.plan.writes.setdefault(level, []).extend(
            [
                Kernel(eqn.out.type.shape, level, stores=[Store(base, place)]),
                Kernel(space, level, stores=[Store(eqn.operands[lower.value], place, by=eqn)]),
            ]
        )

    def _compact(self, eqn: Eqn) -> None:
        """A loop that stores the positions of true elements."""
        (mask,) = eqn.operands
        self.store_if_dear(mask)
        level = self.reach(mask) if isinstance(mask, Var) else 0
        place = self.made(eqn.out, level)
        kernel = Kernel(mask.type.shape, level, stores=[Store(mask, place, by=eqn)])
        self.plan.writes.setdefault(level, []).append(kernel)

    # The end

    def output(self, atom: Atom, strides: tuple[int, ...]) -> None:
        """Let a result be computed in its own memory; tiny ones are written at the end."""
        number = len(self.plan.outputs)
        if isinstance(atom, Const) or self.places[atom].kind == "tiny":
            self.plan.outputs.append(strides)
            return
        place = self.places[atom]
        if place.kind == "expression":
            self.store(atom)
        buffer = place.buffer
        assert buffer is not None
        whole = buffer.type.nbytes == atom.type.nbytes and place.start == 0
        fits = whole and place.strides == strides
        if buffer.role != "scratch" or not fits:
            buffer = self.buffer(atom.type, "output")
            if fits and place.home is not None:  # a result twice: written twice
                place.home.stores.append(Store(atom, whole_place(buffer, 0, strides)))
            else:
                self.copy(atom, buffer, strides)
        buffer.role, buffer.slot = "output", number
        self.plan.outputs.append(buffer)

    def finish(self) -> None:
        """Place the results; keep in each kernel what it needs."""
        for atom, order in self.outputs:  # a view of what was changed since is a copy
            self.output(self.in_place.fresh(atom), order or c_strides(atom.type.shape))
        for kernel in self.plan.kernels:
            kernel.members = self._needed(kernel)
        self.plan.kernels = [k for k in self.plan.kernels if k.stores or k.folds]
        invite(self.plan)
        highest = [k.level + 1 for k in self.plan.kernels]
        highest += [
            level + 1 for level in (*self.plan.writes, *self.plan.controls, *self.plan.calls)
        ]
        highest += [*self.plan.scalars, *(level + 1 for level in self.plan.products)]
        self.plan.levels = max(highest, default=0) + 1

    def _needed(self, kernel: Kernel) -> list[Eqn]:
        """The members that stores and folds of this kernel reach at the kernel's own index."""
        wanted = {s.value for s in kernel.stores if isinstance(s.value, Var)}
        wanted.update(o for e in kernel.folds for o in e.operands if isinstance(o, Var))
        out = []
        for eqn in reversed(kernel.members):
            if eqn.out in wanted:
                out.append(eqn)
                if isinstance(eqn.op.lower, Map):
                    wanted.update(o for o in eqn.operands if isinstance(o, Var))
        out.reverse()
        return out


def _is_reshape(eqn: Eqn) -> bool:
    """A view that keeps the C order of all elements."""
    return set(eqn.params) == {"shape"} and eqn.out.type.size == _operand_size(eqn)


def _operand_size(eqn: Eqn) -> int:
    return eqn.operands[0].type.size


def _keeps_order(eqn: Eqn) -> bool:
    """Only axes of extent 1 come or go, so that indices map without division."""
    before = [n for n in eqn.operands[0].type.shape if n != 1]
    return before == [n for n in eqn.out.type.shape if n != 1]
