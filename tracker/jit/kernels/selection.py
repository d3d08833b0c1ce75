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

import math
from typing import TYPE_CHECKING

import numpy as np

from tracker.ir.graph import Eqn
from tracker.ir.types import Type
from tracker.jit.kernels import sorting_networks
from tracker.jit.kernels.sort import insertion_sort_text
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
        bits, rows, n, count = _shape(self.eqn)
        pointers = [f"ptr {driver.readable(o)}" for o in self.eqn.operands]
        pointers.append(f"ptr {driver.pointer(result_buffer(driver, self.eqn))}")
        if self.scratch is not None:
            pointers.append(f"ptr {driver.pointer(self.scratch)}")
        apart = 0 if self.eqn.operands[1].type.shape[0] == 1 else count  # 0: all rows' ranks
        arguments = f"{', '.join(pointers)}, i64 {rows}, i64 {count}, i64 {apart}"
        if self.scratch is not None and _uses_networks(bits, rows, n):
            name, texts = sorting_networks.select_routine(bits, rows, n)
        else:
            name, texts = f"@tk.{self.name}.i{bits}", _texts(self.name, bits)
            arguments += f", i64 {n}"
        driver.lines.append(f"  call void {name}({arguments})")
        driver.needs.intrinsics |= texts


def plan_select(planner: Planner, eqn: Eqn) -> None:
    """Plan a `Select`: the keys at given ranks of each row."""
    bits, rows, n, _ = _shape(eqn)
    if _uses_networks(bits, rows, n):
        words = sorting_networks.scratch_words(bits, rows, n, values=True)
    else:
        words = -(-(n + 2 * _MAX_SORTED) * bits // 64)
    scratch = planner.buffer(Type((words,), _WORD), "scratch")
    planner.add_routine_step(SelectStep(eqn, "chosen", scratch))


def plan_locate(planner: Planner, eqn: Eqn) -> None:
    """Plan a `LocateSelected`: the positions of the keys at given ranks of each row."""
    planner.add_routine_step(SelectStep(eqn, "sources"))


def _shape(eqn: Eqn) -> tuple[int, int, int, int]:
    """The bits of a key, the number of rows, keys per row, and ranks per row."""
    keys, ranks = eqn.operands[0].type, eqn.operands[1].type
    *front, n = keys.shape
    return 8 * keys.dtype.itemsize, math.prod(front), n, ranks.shape[-1]


def _uses_networks(bits: int, rows: int, n: int) -> bool:
    return n <= _MAX_NETWORK_ROW and sorting_networks.is_quick(bits, rows, n, values=True)


def _texts(name: str, bits: int) -> set[str]:
    """The text of a routine for keys of `bits` bits."""
    if name == "sources":
        return {text.replace("$", f"i{bits}") for text in (_LOCATE_ROWS, _LOCATE)}
    texts = (_SELECT_ROWS, _QUICKSELECT, _PARTITION)
    return {insertion_sort_text(bits), *(text.replace("$", f"i{bits}") for text in texts)}


# A loop over rows and their ranks (`count` ranks per row, `apart` from those of a row to those
# of the next).
_PER_RANK = """
define internal void @tk.{name}.$(
  ptr %keys, ptr %places, {given}, i64 %rows, i64 %count, i64 %apart, i64 %n
) noinline {{
start:
{start}  br label %next
next:
  %row = phi i64 [0, %start], [%row.next, %done]
  %more = icmp ult i64 %row, %rows
  br i1 %more, label %work, label %end
work:
  %at = mul i64 %row, %n
  %from = getelementptr $, ptr %keys, i64 %at
  %own = mul i64 %row, %apart
  %wanted = getelementptr i64, ptr %places, i64 %own
  %to.at = mul i64 %row, %count
{row}  br label %each
each:
  %i = phi i64 [0, %work], [%i.next, %answer]
  %i.more = icmp ult i64 %i, %count
  br i1 %i.more, label %look, label %done
look:
  %cell = getelementptr i64, ptr %wanted, i64 %i
  %asked = load i64, ptr %cell
{answer}  %i.next = add i64 %i, 1
  br label %each
done:
  %row.next = add i64 %row, 1
  br label %next
end:
  ret void
}}
"""
# The keys at the ranks of each row. Known of a row: `many` sorted keys from rank `base` on; one key
# with step 0 stands for all of them.
_SELECT_ROWS = _PER_RANK.format(
    name="chosen",
    given="ptr %out, ptr %room",
    start="""\
  %known = alloca {i64, i64, ptr, i64}
  %last = sub i64 %n, 1
""",
    row="""\
  %to = getelementptr $, ptr %out, i64 %to.at
  store {i64, i64, ptr, i64} zeroinitializer, ptr %known
""",
    answer="""\
  %past = icmp ugt i64 %asked, %last
  %place = select i1 %past, i64 %last, i64 %asked
  %seen = load {i64, i64, ptr, i64}, ptr %known
  %seen.base = extractvalue {i64, i64, ptr, i64} %seen, 0
  %seen.many = extractvalue {i64, i64, ptr, i64} %seen, 1
  %seen.far = sub i64 %place, %seen.base
  %near = icmp ult i64 %seen.far, %seen.many
  br i1 %near, label %answer, label %find
find:
  call void @tk.choice.$(ptr %from, i64 %n, i64 %place, ptr %room, ptr %known)
  br label %answer
answer:
  %now = load {i64, i64, ptr, i64}, ptr %known
  %base = extractvalue {i64, i64, ptr, i64} %now, 0
  %found = extractvalue {i64, i64, ptr, i64} %now, 2
  %step = extractvalue {i64, i64, ptr, i64} %now, 3
  %far = sub i64 %place, %base
  %steps = mul i64 %far, %step
  %key.cell = getelementptr $, ptr %found, i64 %steps
  %key = load $, ptr %key.cell
  %to.cell = getelementptr $, ptr %to, i64 %i
  store $ %key, ptr %to.cell
""",
)
_QUICKSELECT = """
; The keys near a place of a row in order. Room: the sample, which is the answer in the end, the
; sample in order, and n keys.
define internal void @tk.choice.$(
  ptr %keys, i64 %n, i64 %place, ptr %room, ptr %known
) noinline {
start:
  %sorted = getelementptr $, ptr %room, i64 FEW
  %free = getelementptr $, ptr %sorted, i64 FEW
  br label %try
try:
  %from = phi ptr [%keys, %start], [%from.next, %turn]
  %to = phi ptr [%free, %start], [%to.next, %turn]
  %m = phi i64 [%n, %start], [%m.next, %turn]
  %k = phi i64 [%place, %start], [%k.next, %turn]
  %base = phi i64 [0, %start], [%base.next, %turn]
  %low = phi $ [0, %start], [%low.next, %turn]
  %high = phi $ [-1, %start], [%high.next, %turn]
  %halve = phi i1 [false, %start], [%halve.next, %turn]
  %few = icmp ule i64 %m, FEW
  br i1 %few, label %all, label %large
all:
  call void @tk.values.few.$(ptr %from, ptr %room, i64 %m)
  br label %give
large:
  %one = icmp eq $ %low, %high
  br i1 %one, label %only, label %way
way:
  br i1 %halve, label %half, label %sample
half:
  %wide = sub $ %high, %low
  %half.wide = lshr $ %wide, 1
  %middle = add $ %low, %half.wide
  br label %pass
sample:
  %stride = lshr i64 %m, LOG
  br label %draw
draw:
  %s = phi i64 [0, %sample], [%s.next, %draw]
  %s.at = mul i64 %s, %stride
  %s.cell = getelementptr $, ptr %from, i64 %s.at
  %s.key = load $, ptr %s.cell
  %s.to = getelementptr $, ptr %room, i64 %s
  store $ %s.key, ptr %s.to
  %s.next = add i64 %s, 1
  %drawn = icmp eq i64 %s.next, SAMPLE
  br i1 %drawn, label %bounds, label %draw
bounds:
  call void @tk.values.few.$(ptr %room, ptr %sorted, i64 SAMPLE)
  %share = mul i64 %k, SAMPLE
  %middle.at = udiv i64 %share, %m
  %first = sub i64 %middle.at, AROUND
  %first.cell = getelementptr $, ptr %sorted, i64 %first
  %final = add i64 %middle.at, AROUND
  %final.cell = getelementptr $, ptr %sorted, i64 %final
  %no.first = icmp slt i64 %first, 0
  %no.final = icmp sge i64 %final, SAMPLE
  %first.safe = select i1 %no.first, ptr %sorted, ptr %first.cell
  %final.safe = select i1 %no.final, ptr %sorted, ptr %final.cell
  %first.key = load $, ptr %first.safe
  %final.key = load $, ptr %final.safe
  %from.key = select i1 %no.first, $ %low, $ %first.key
  %to.key = select i1 %no.final, $ %high, $ %final.key
  %from.least = call $ @llvm.umax.$($ %from.key, $ %low)
  %from.kept = call $ @llvm.umin.$($ %from.least, $ %high)
  %to.least = call $ @llvm.umax.$($ %to.key, $ %low)
  %to.kept = call $ @llvm.umin.$($ %to.least, $ %high)
  br label %pass
pass:
  %p = phi $ [%low, %half], [%from.kept, %bounds]
  %q = phi $ [%middle, %half], [%to.kept, %bounds]
  %both = call {i64, i64} @tk.between.$(ptr %from, i64 %m, $ %p, $ %q, ptr %to)
  %below = extractvalue {i64, i64} %both, 0
  %inside = extractvalue {i64, i64} %both, 1
  %far = sub i64 %k, %below
  %in = icmp ult i64 %far, %inside
  br i1 %in, label %hit, label %miss
miss:
  %under = icmp ult i64 %k, %below
  %p.less = sub $ %p, 1
  %q.more = add $ %q, 1
  %miss.low = select i1 %under, $ %low, $ %q.more
  %miss.high = select i1 %under, $ %p.less, $ %high
  br label %stay
hit:
  %same = icmp eq $ %p, %q
  br i1 %same, label %equal, label %shrunk
shrunk:
  %most = lshr i64 %m, 1
  %less = icmp ule i64 %inside, %most
  br i1 %less, label %move, label %stay
stay:
  %stay.low = phi $ [%miss.low, %miss], [%p, %shrunk]
  %stay.high = phi $ [%miss.high, %miss], [%q, %shrunk]
  %other = xor i1 %halve, true
  br label %turn
move:
  %base.sum = add i64 %base, %below
  %behind = getelementptr $, ptr %free, i64 %inside
  %begun = icmp eq ptr %to, %free
  %room.next = select i1 %begun, ptr %behind, ptr %free
  br label %turn
turn:
  %from.next = phi ptr [%from, %stay], [%to, %move]
  %to.next = phi ptr [%to, %stay], [%room.next, %move]
  %m.next = phi i64 [%m, %stay], [%inside, %move]
  %k.next = phi i64 [%k, %stay], [%far, %move]
  %base.next = phi i64 [%base, %stay], [%base.sum, %move]
  %low.next = phi $ [%stay.low, %stay], [%p, %move]
  %high.next = phi $ [%stay.high, %stay], [%q, %move]
  %halve.next = phi i1 [%other, %stay], [false, %move]
  br label %try
equal:
  %equal.base = add i64 %base, %below
  store $ %p, ptr %room
  br label %give
only:
  %only.base = add i64 %base, %k
  store $ %low, ptr %room
  br label %give
give:
  %give.base = phi i64 [%base, %all], [%equal.base, %equal], [%only.base, %only]
  %give.many = phi i64 [%m, %all], [%inside, %equal], [1, %only]
  %give.step = phi i64 [1, %all], [0, %equal], [0, %only]
  %known.many = getelementptr i64, ptr %known, i64 1
  %known.from = getelementptr i64, ptr %known, i64 2
  %known.step = getelementptr i64, ptr %known, i64 3
  store i64 %give.base, ptr %known
  store i64 %give.many, ptr %known.many
  store ptr %room, ptr %known.from
  store i64 %give.step, ptr %known.step
  ret void
}
declare $ @llvm.umax.$($, $)
declare $ @llvm.umin.$($, $)
"""
for _name, _value in {
    "FEW": _MAX_SORTED,
    "LOG": _SAMPLE.bit_length() - 1,
    "SAMPLE": _SAMPLE,
    "AROUND": _SAMPLE_MARGIN,
}.items():
    _QUICKSELECT = _QUICKSELECT.replace(_name, str(_value))
_PARTITION = """
; Copies the keys from %p to %q; how many are below these, and how many are copied.
define internal {i64, i64} @tk.between.$(
  ptr noalias %from, i64 %m, $ %p, $ %q, ptr noalias %to
) noinline {
start:
  %wide = sub $ %q, %p
  br label %next
next:
  %i = phi i64 [0, %start], [%i.next, %next]
  %below = phi i64 [0, %start], [%below.next, %next]
  %inside = phi i64 [0, %start], [%inside.next, %next]
  %cell = getelementptr $, ptr %from, i64 %i
  %key = load $, ptr %cell
  %room = getelementptr $, ptr %to, i64 %inside
  store $ %key, ptr %room
  %less = icmp ult $ %key, %p
  %less.one = zext i1 %less to i64
  %below.next = add i64 %below, %less.one
  %far = sub $ %key, %p
  %in = icmp ule $ %far, %wide
  %in.one = zext i1 %in to i64
  %inside.next = add i64 %inside, %in.one
  %i.next = add i64 %i, 1
  %over = icmp eq i64 %i.next, %m
  br i1 %over, label %end, label %next
end:
  %one = insertvalue {i64, i64} poison, i64 %below.next, 0
  %both = insertvalue {i64, i64} %one, i64 %inside.next, 1
  ret {i64, i64} %both
}
"""
# The position of the key at each rank of each row.
_LOCATE_ROWS = _PER_RANK.format(
    name="sources",
    given="ptr %chosen, ptr %out",
    start="",
    row="""\
  %named = getelementptr $, ptr %chosen, i64 %to.at
  %to = getelementptr i64, ptr %out, i64 %to.at
""",
    answer="""\
  br label %answer
answer:
  %key.cell = getelementptr $, ptr %named, i64 %i
  %key = load $, ptr %key.cell
  %source = call i64 @tk.source.$(ptr %from, i64 %n, i64 %asked, $ %key)
  %to.cell = getelementptr i64, ptr %to, i64 %i
  store i64 %source, ptr %to.cell
""",
)
_LOCATE = """
; The key's only place, or of several the one with as many before it as the wanted place has.
define internal i64 @tk.source.$(ptr %keys, i64 %n, i64 %place, $ %key) noinline {
start:
  br label %next
next:
  %i = phi i64 [0, %start], [%i.next, %next]
  %below = phi i64 [0, %start], [%below.next, %next]
  %equal = phi i64 [0, %start], [%equal.next, %next]
  %last = phi i64 [0, %start], [%last.next, %next]
  %cell = getelementptr $, ptr %keys, i64 %i
  %x = load $, ptr %cell
  %less = icmp ult $ %x, %key
  %less.one = zext i1 %less to i64
  %below.next = add i64 %below, %less.one
  %same = icmp eq $ %x, %key
  %same.one = zext i1 %same to i64
  %equal.next = add i64 %equal, %same.one
  %last.next = select i1 %same, i64 %i, i64 %last
  %i.next = add i64 %i, 1
  %over = icmp eq i64 %i.next, %n
  br i1 %over, label %counted, label %next
counted:
  %single = icmp ule i64 %equal.next, 1
  br i1 %single, label %end, label %several
several:
  %before = sub i64 %place, %below.next
  br label %walk
walk:
  %j = phi i64 [0, %several], [%j.next, %step]
  %left = phi i64 [%before, %several], [%left.next, %step]
  %j.cell = getelementptr $, ptr %keys, i64 %j
  %y = load $, ptr %j.cell
  %hit = icmp eq $ %y, %key
  %none = icmp eq i64 %left, 0
  %found = and i1 %hit, %none
  br i1 %found, label %end, label %step
step:
  %hit.one = zext i1 %hit to i64
  %left.next = sub i64 %left, %hit.one
  %j.next = add i64 %j, 1
  %past = icmp eq i64 %j.next, %n
  br i1 %past, label %end, label %walk
end:
  %source = phi i64 [%last.next, %counted], [%j, %walk], [%last.next, %step]
  ret i64 %source
}
"""
