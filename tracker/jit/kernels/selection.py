"""Selection: the keys at given ranks of each row (`Select`), their positions (`LocateSelected`).

Many short rows are sorted by the networks of `sorting_networks.py`. In a long row, quickselect
keeps the keys around the wanted rank: a sample gives two bounds, and one pass without a branch on a
key counts the keys below the bounds and copies those between. Where a sample misleads (many equal
keys, an adversarial order) the next pass halves the range of keys instead, so a row takes linear
time in any case. Ranks near each other are answered from the keys that the first of them left.

Invariants: ranks are clipped to the row; of several equal keys, the position is that of the key
that a stable sort would have put at the rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from tracker.ir.graph import Eqn
from tracker.ir.types import Type
from tracker.jit.kernels.sort import insertion_sort_text
from tracker.jit.kernels.sorting_networks import KeyRows, key_rows, select_routine
from tracker.jit.llvm.function_writer import FunctionWriter, RoutineText
from tracker.jit.schedule.plan_data import Buffer
from tracker.jit.schedule.steps import result_buffer
from tracker.support.structs import record

if TYPE_CHECKING:
    from tracker.jit.schedule.plan import Planner
    from tracker.jit.schedule.steps import Driver

_MAX_SORTED = 72  # keys; up to here all of them are sorted
_SAMPLE = 64  # keys
_SAMPLE_MARGIN = 10  # keys of the sample on each side of the expected rank
_MAX_NETWORK_ROW = 256  # keys; longer rows are not sorted by networks
_WORD = np.dtype(np.uint64)


@record(eq=False)
class SelectStep:
    """out = the result of routine `name` for all rows of the first operand."""

    eqn: Eqn
    name: str
    scratch: Buffer | None = None

    def emit(self, driver: Driver) -> None:
        """Call the routine for all rows."""
        keys, ranks = (o.type for o in self.eqn.operands[:2])
        rows, count = key_rows(keys), ranks.shape[-1]
        pointers = [f"ptr {driver.readable(o)}" for o in self.eqn.operands]
        pointers.append(f"ptr {driver.pointer(result_buffer(driver, self.eqn))}")
        if self.scratch is not None:
            pointers.append(f"ptr {driver.pointer(self.scratch)}")
        apart = 0 if self.eqn.operands[1].type.shape[0] == 1 else count  # 0: all rows' ranks
        arguments = f"{', '.join(pointers)}, i64 {rows.count}, i64 {count}, i64 {apart}"
        if self.scratch is not None and _uses_networks(rows):
            routine = select_routine(rows)
        else:
            routine = _ROUTINES[self.name](rows.bits)
            arguments += f", i64 {rows.length}"
        driver.needs.routines[routine.name] = routine
        driver.lines.append(f"  call void @{routine.name}({arguments})")


def plan_select(planner: Planner, eqn: Eqn) -> None:
    """Plan a `Select`: the keys at given ranks of each row."""
    rows = key_rows(eqn.operands[0].type)
    words = -(-(rows.length + 2 * _MAX_SORTED) * rows.bits // 64)
    words = rows.scratch_words if _uses_networks(rows) else words
    scratch = planner.buffer(Type((words,), _WORD), "scratch")
    planner.add_routine_step(SelectStep(eqn, "chosen", scratch))


def plan_locate(planner: Planner, eqn: Eqn) -> None:
    """Plan a `LocateSelected`: the positions of the keys at given ranks of each row."""
    planner.add_routine_step(SelectStep(eqn, "sources"))


def _uses_networks(rows: KeyRows) -> bool:
    return rows.length <= _MAX_NETWORK_ROW and rows.is_quick


# Routines for all rows: `count` ranks per row, `apart` from those of one row to the next row's.


def _row_routine(name: str, *pointers: str) -> FunctionWriter:
    sizes = ("i64 %rows", "i64 %count", "i64 %apart", "i64 %n")
    return FunctionWriter(f"tk.{name}", ["ptr %keys", "ptr %places", *pointers, *sizes])


@contextmanager
def _each_row(c: FunctionWriter, key: str) -> Iterator[tuple[str, str, str]]:
    """A loop over rows: the addresses of a row and of its ranks, and the place of its results."""
    with c.loop(0, "%rows") as row:
        keys = c.address("%keys", c.mul(row, "%n"), key)
        ranks = c.address("%places", c.mul(row, "%apart"), "i64")
        yield keys, ranks, c.mul(row, "%count")


def _chosen(bits: int) -> RoutineText:
    """The keys at the ranks of each row.

    Known of a row: the first rank, the number, and the distance in memory of sorted keys. (One key
    with distance 0 stands for all of them.)
    """
    key = f"i{bits}"
    c = _row_routine(f"chosen.{key}", "ptr %out", "ptr %room")
    known, last = c.array("[3 x i64]"), c.sub("%n", 1)
    with _each_row(c, key) as (keys, ranks, place):
        c.emit(f"store [3 x i64] zeroinitializer, ptr {known}")
        with c.loop(0, "%count") as i:
            asked = c.load(ranks, i, "i64")
            rank = c.call("i64", "llvm.umin.i64", [f"i64 {asked}", f"i64 {last}"])
            far = c.sub(rank, c.load(known, 0, "i64"))
            with c.when(c.let(f"icmp uge i64 {far}, {c.load(known, 1, 'i64')}")):
                arguments = f"ptr {keys}, i64 %n, i64 {rank}, ptr %room, ptr {known}"
                c.emit(f"call void @tk.choice.{key}({arguments})")
            far = c.sub(rank, c.load(known, 0, "i64"))
            x = c.load("%room", c.mul(far, c.load(known, 2, "i64")), key)
            c.store(x, "%out", c.add(place, i), key)
    c.ret()
    return c.routine({insertion_sort_text(bits), _partition(key), *_quickselect(key)})


def _quickselect(key: str) -> set[str]:
    """The keys near a rank of a row in order. Room: the sample, which is the answer in the end, the
    sample in order, and n keys."""
    parameters = ["ptr %keys", "i64 %n", "i64 %rank", "ptr %room", "ptr %known"]
    c = FunctionWriter(f"tk.choice.{key}", parameters)
    free = c.address("%room", 2 * _MAX_SORTED, key)
    source, target = c.variable("%keys", "ptr"), c.variable(free, "ptr")
    count, rank, base, equal = (c.variable(x) for x in ("%n", "%rank", 0, 0))
    least, most = c.variable(0, key), c.variable(-1, key)  # of the keys that may be at the rank
    first, final = c.variable(0, key), c.variable(0, key)  # of those that a pass copies
    halves = c.variable("false", "i1")
    with c.repeat() as search:
        row, to, m, k = (c.get(x) for x in (source, target, count, rank))
        low, high, halve = c.get(least), c.get(most), c.get(halves)
        c.leave_if(c.compare("sle", m, _MAX_SORTED), search)
        with c.when(halve):
            half = c.let(f"lshr {key} {c.let(f'sub {key} {high}, {low}')}, 1")
            c.set(first, low)
            c.set(final, c.let(f"add {key} {low}, {half}"))
        with c.when(c.logical_not(halve)):
            at = _sample(c, key, row, m, k)
            c.set(first, _bound(c, key, c.sub(at, _SAMPLE_MARGIN), low, (low, high)))
            c.set(final, _bound(c, key, c.add(at, _SAMPLE_MARGIN), high, (low, high)))
        p, q = c.get(first), c.get(final)
        given = f"ptr {row}, i64 {m}, {key} {p}, {key} {q}, ptr {to}"
        pair = c.let(f"call {{i64, i64}} @tk.between.{key}({given})")
        below, inside = (c.let(f"extractvalue {{i64, i64}} {pair}, {at}") for at in (0, 1))
        far = c.sub(k, below)
        hit = c.let(f"icmp ult i64 {far}, {inside}")
        single = c.let(f"and i1 {hit}, {c.let(f'icmp eq {key} {p}, {q}')}")
        with c.when(single):
            c.store(p, "%room", kind=key)
            c.set(equal, inside)
            c.extend(base, below)
        c.leave_if(single, search)
        under = c.let(f"icmp ult i64 {k}, {below}")
        lower = c.let(f"select i1 {under}, {key} {low}, {key} {c.let(f'add {key} {q}, 1')}")
        upper = c.let(f"select i1 {under}, {key} {c.let(f'sub {key} {p}, 1')}, {key} {high}")
        c.set(least, c.let(f"select i1 {hit}, {key} {p}, {key} {lower}"))
        c.set(most, c.let(f"select i1 {hit}, {key} {q}, {key} {upper}"))
        c.set(halves, c.logical_not(halve))
        few = c.compare("sle", inside, c.let(f"lshr i64 {m}, 1"))
        with c.when(c.let(f"and i1 {hit}, {few}")):  # go on with the copied keys
            begun = c.let(f"icmp eq ptr {to}, {free}")
            behind = c.address(free, inside, key)
            c.set(source, to)
            c.set(target, c.let(f"select i1 {begun}, ptr {behind}, ptr {free}"))
            c.set(count, inside)
            c.set(rank, far)
            c.extend(base, below)
            c.set(halves, "false")
    many, repeated = c.get(count), c.get(equal)
    sorts = c.compare("eq", repeated, 0)
    with c.when(sorts):
        c.emit(f"call void @tk.values.few.{key}(ptr {c.get(source)}, ptr %room, i64 {many})")
    c.store(c.get(base), "%known", 0, "i64")
    c.store(c.select(sorts, many, repeated), "%known", 1, "i64")
    c.store(c.let(f"zext i1 {sorts} to i64"), "%known", 2, "i64")
    c.ret()
    return {c.text(), *c.declared}


def _sample(c: FunctionWriter, key: str, row: str, count: str, rank: str) -> str:
    """Sort a sample of a row; the place in it where the key of a rank is expected."""
    stride = c.let(f"lshr i64 {count}, {_SAMPLE.bit_length() - 1}")
    with c.loop(0, _SAMPLE) as i:
        c.store(c.load(row, c.mul(i, stride), key), "%room", i, key)
    ordered = c.address("%room", _MAX_SORTED, key)
    c.emit(f"call void @tk.values.few.{key}(ptr %room, ptr {ordered}, i64 {_SAMPLE})")
    return c.let(f"udiv i64 {c.mul(rank, _SAMPLE)}, {count}")


def _bound(c: FunctionWriter, key: str, at: str, otherwise: str, limits: tuple[str, str]) -> str:
    """The key at a place of the sample, or another where there is no such place; within limits."""
    inside = c.let(f"icmp ult i64 {at}, {_SAMPLE}")
    drawn = c.load("%room", c.add(c.select(inside, at, 0), _MAX_SORTED), key)
    x = c.let(f"select i1 {inside}, {key} {drawn}, {key} {otherwise}")
    for name, limit in zip(("umax", "umin"), limits, strict=True):
        x = c.call(key, f"llvm.{name}.{key}", [f"{key} {x}", f"{key} {limit}"])
    return x


def _partition(key: str) -> str:
    """Copies the keys from %p to %q; how many are below these, and how many are copied."""
    parameters = ["ptr noalias %from", "i64 %m", f"{key} %p", f"{key} %q", "ptr noalias %to"]
    c = FunctionWriter(f"tk.between.{key}", parameters, result="{i64, i64}")
    below, inside, span = c.variable(0), c.variable(0), c.let(f"sub {key} %q, %p")
    with c.loop(0, "%m") as i:
        x = c.load("%from", i, key)
        c.store(x, "%to", c.get(inside), key)
        less, far = c.let(f"icmp ult {key} {x}, %p"), c.let(f"sub {key} {x}, %p")
        c.extend(below, c.let(f"zext i1 {less} to i64"))
        within = c.let(f"icmp ule {key} {far}, {span}")
        c.extend(inside, c.let(f"zext i1 {within} to i64"))
    one = c.let(f"insertvalue {{i64, i64}} poison, i64 {c.get(below)}, 0")
    both = c.let(f"insertvalue {{i64, i64}} {one}, i64 {c.get(inside)}, 1")
    c.ret(both)
    return c.text()


def _sources(bits: int) -> RoutineText:
    """The position of the key at each rank of each row."""
    key = f"i{bits}"
    c = _row_routine(f"sources.{key}", "ptr %chosen", "ptr %out")
    with _each_row(c, key) as (keys, ranks, place), c.loop(0, "%count") as i:
        rank, x = c.load(ranks, i, "i64"), c.load("%chosen", c.add(place, i), key)
        found = f"call i64 @tk.source.{key}(ptr {keys}, i64 %n, i64 {rank}, {key} {x})"
        c.store(c.let(found), "%out", c.add(place, i), "i64")
    c.ret()
    return c.routine([_source(key)])


def _source(key: str) -> str:
    """The key's only place, or of several the one with as many before it as the rank has."""
    parameters = ["ptr %keys", "i64 %n", "i64 %rank", f"{key} %key"]
    c = FunctionWriter(f"tk.source.{key}", parameters, result="i64")
    below, equal, found = c.variable(0), c.variable(0), c.variable(0)
    with c.loop(0, "%n") as i:
        x = c.load("%keys", i, key)
        less, same = c.let(f"icmp ult {key} {x}, %key"), c.let(f"icmp eq {key} {x}, %key")
        c.extend(below, c.let(f"zext i1 {less} to i64"))
        c.extend(equal, c.let(f"zext i1 {same} to i64"))
        c.set(found, c.select(same, i, c.get(found)))
    c.return_if(c.compare("sle", c.get(equal), 1), c.get(found))
    left = c.variable(c.sub("%rank", c.get(below)))
    with c.loop(0, "%n") as i:
        hit = c.let(f"icmp eq {key} {c.load('%keys', i, key)}, %key")
        before = c.extend(left, c.let(f"sext i1 {hit} to i64"))
        c.return_if(c.let(f"and i1 {hit}, {c.compare('eq', before, 0)}"), i)
    c.ret(c.get(found))
    return c.text()


_ROUTINES = {"chosen": _chosen, "sources": _sources}
