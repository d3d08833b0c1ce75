"""Large blocks of memory, reused from call to call.

The system clears every page of a fresh block on first touch, which takes longer than computing its
contents; the C library returns the end of its heap to the system when a few hundred kB are free. So
large results and scratch come from here: a freed block is kept and serves the next request of its
size. Kept blocks of `HUGE_PAGE` bytes or more are marked with MADV_FREE, so the system may take
them when memory runs short.

    ptr @tk.take(i64 size)         memory for `size` bytes; null if there is none
    void @tk.give(ptr, i64 size)   free it, with the requested size
    @tk.handler                    NumPy's struct PyDataMem_Handler over these two

Invariants:
- A block of MIN_BLOCK bytes or more is rounded up to `BLOCK_UNIT`, from `HUGE_PAGE` on to
  `HUGE_PAGE`, and counts as no longer than that when it is returned.
- At most `MAX_BLOCKS` blocks and `_kept_bytes_limit()` bytes are kept.
- If another thread holds the list, the C library serves the request: no thread waits, not even a
  forked child.
"""

from __future__ import annotations

import os
import sys

from tracker.jit.llvm.function_writer import FunctionWriter, c_function
from tracker.jit.runtime.cpython_layout import BIG_BYTES

NAMES = ("tk.take", "tk.give")
MIN_BLOCK = BIG_BYTES
BLOCK_UNIT = 1 << 16  # bytes
HUGE_PAGE = 1 << 21  # bytes: a huge page
MAX_BLOCKS = 32
_SLACK_BITS = 3  # a block may be longer than the request by a 2**-_SLACK_BITS part
_MAX_KEPT_BYTES = 1 << 30  # whatever the size of the memory
_MEMORY_FRACTION = 16  # at most this part of the machine's memory is kept
_MADV_HUGEPAGE, _MADV_FREE = (14, 8)  # Linux
_PADDING = "\\00" * (127 - len("tracker"))  # of the name of the handler


def _kept_bytes_limit() -> int:
    """The bytes that may be kept: a part of the machine's memory; none where MADV_FREE does not
    exist."""
    if sys.platform != "linux":
        return 0
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(_MAX_KEPT_BYTES, memory // _MEMORY_FRACTION)


VARIABLES = f"""
%handler = type {{ [127 x i8], i8, ptr, ptr, ptr, ptr, ptr }}
@blocks = internal global [{MAX_BLOCKS} x ptr] zeroinitializer
@lengths = internal global [{MAX_BLOCKS} x i64] zeroinitializer
@oldest = internal global i64 0
@kept = internal global i64 0
@busy = internal global i64 0
@tk.handler = global %handler {{ [127 x i8] c"tracker{_PADDING}", i8 1, ptr null,
  ptr @new, ptr @cleared, ptr @resized, ptr @freed }}
"""


def _length(c: FunctionWriter, size: str) -> str:
    """The length of the block for a request."""
    is_huge = c.let(f"icmp ugt i64 {size}, {HUGE_PAGE - BLOCK_UNIT}")
    unit = c.select(is_huge, HUGE_PAGE, BLOCK_UNIT)
    whole = c.let(f"and i64 {c.add(size, c.sub(unit, 1))}, {c.sub(0, unit)}")
    return c.select(c.let(f"icmp uge i64 {size}, {MIN_BLOCK}"), whole, size)


def _advise(c: FunctionWriter, block: str, length: str, what: int) -> None:
    with c.when(c.let(f"icmp uge i64 {length}, {HUGE_PAGE}")):
        c.call("i32", "madvise", [f"ptr {block}", f"i64 {length}", f"i32 {what}"])


def _enter(c: FunctionWriter) -> str:
    """Whether this thread now holds the list."""
    pair = c.let("cmpxchg ptr @busy, i64 0, i64 1 acquire monotonic")
    return c.let(f"extractvalue {{ i64, i1 }} {pair}, 1")


def _exit(c: FunctionWriter) -> None:
    c.emit("store atomic i64 0, ptr @busy release, align 8")


def _empty_slot(c: FunctionWriter, at: str, length: str) -> None:
    """A block of this length is no longer kept."""
    c.store(0, "@lengths", at)
    c.store(c.sub(c.load("@kept"), length), "@kept")


@c_function("tk.take", "i64 %size", "ptr")
def _take(c: FunctionWriter) -> str:
    with c.when(c.let(f"icmp ult i64 %size, {MIN_BLOCK}")):
        c.leave(c.call("ptr", "malloc", ["i64 %size"]))
    length = _length(c, "%size")
    with c.when(_enter(c)):
        slack = c.let(f"lshr i64 {length}, {_SLACK_BITS}")
        found, least = c.variable(MAX_BLOCKS), c.variable(c.add(slack, 1))
        with c.loop(0, MAX_BLOCKS) as i:  # one that is a little longer does, if none fits
            over = c.sub(c.load("@lengths", i), length)
            is_closer = c.let(f"icmp ult i64 {over}, {c.get(least)}")
            c.set(found, c.select(is_closer, i, c.get(found)))
            c.set(least, c.select(is_closer, over, c.get(least)))
        at = c.get(found)
        with c.when(c.compare("slt", at, MAX_BLOCKS)):
            _empty_slot(c, at, c.load("@lengths", at))
            block = c.load("@blocks", at, "ptr")
            _exit(c)
            c.leave(block)
        _exit(c)
    where, is_huge = c.array("ptr"), c.let(f"icmp uge i64 {length}, {HUGE_PAGE}")
    arguments = [f"ptr {where}", f"i64 {c.select(is_huge, HUGE_PAGE, 64)}", f"i64 {length}"]
    status = c.call("i32", "posix_memalign", arguments)
    c.return_if(c.let(f"icmp ne i32 {status}, 0"), "null")
    block = c.get(where, "ptr")
    _advise(c, block, length, _MADV_HUGEPAGE)
    return block


@c_function("tk.give", "ptr %block, i64 %size")
def _give(c: FunctionWriter) -> None:
    length, most = _length(c, "%size"), _kept_bytes_limit()
    is_big, fits = (
        c.let(f"icmp {test}")
        for test in (f"uge i64 %size, {MIN_BLOCK}", f"ule i64 {length}, {most}")
    )
    with c.when(c.let(f"and i1 {is_big}, {fits}")), c.when(_enter(c)):
        _advise(c, "%block", length, _MADV_FREE)
        with c.repeat() as trimming:  # what is too much goes, the oldest first
            total = c.add(c.load("@kept"), length)
            c.leave_if(c.let(f"icmp ule i64 {total}, {most}"), trimming)
            c.call("void", "evict", [])
        slot = c.variable(MAX_BLOCKS)
        with c.repeat() as searching:
            with c.loop(0, MAX_BLOCKS) as i:
                at = c.sub(MAX_BLOCKS - 1, i)
                is_empty = c.compare("eq", c.load("@lengths", at), 0)
                c.set(slot, c.select(is_empty, at, c.get(slot)))
            c.leave_if(c.compare("slt", c.get(slot), MAX_BLOCKS), searching)
            c.call("void", "evict", [])
        c.store("%block", "@blocks", c.get(slot), "ptr")
        c.store(length, "@lengths", c.get(slot))
        c.store(c.add(c.load("@kept"), length), "@kept")
        _exit(c)
        c.leave()
    c.call("void", "free", ["ptr %block"])


@c_function("evict", "", linkage="internal ")
def _evict(c: FunctionWriter) -> None:
    """Free the block in the oldest slot, if it has one, and go on to the next slot."""
    at = c.load("@oldest")
    c.store(c.let(f"urem i64 {c.add(at, 1)}, {MAX_BLOCKS}"), "@oldest")
    length = c.load("@lengths", at)
    with c.when(c.compare("ne", length, 0)):
        c.call("void", "free", [f"ptr {c.load('@blocks', at, 'ptr')}"])
        _empty_slot(c, at, length)


# NumPy's handler


@c_function("new", "ptr %context, i64 %size", "ptr", "internal ")
def _new(c: FunctionWriter) -> str:
    return c.call("ptr", "tk.take", ["i64 %size"])


@c_function("cleared", "ptr %context, i64 %count, i64 %each", "ptr", "internal ")
def _cleared(c: FunctionWriter) -> str:
    """To clear what we have is faster than to take it page by page, as the C library does."""
    size = c.mul("%count", "%each")
    with c.when(c.let(f"icmp ult i64 {size}, {HUGE_PAGE}")):
        c.leave(c.call("ptr", "calloc", ["i64 1", f"i64 {_length(c, size)}"]))
    block = c.call("ptr", "tk.take", [f"i64 {size}"])
    with c.when(c.logical_not(c.is_null(block))):
        c.clear_bytes(block, size)
    return block


@c_function("resized", "ptr %context, ptr %block, i64 %size", "ptr", "internal ")
def _resized(c: FunctionWriter) -> str:
    return c.call("ptr", "realloc", ["ptr %block", f"i64 {_length(c, '%size')}"])


@c_function("freed", "ptr %context, ptr %block, i64 %size", linkage="internal ")
def _freed(c: FunctionWriter) -> None:
    """Null is ignored, as by the C library: NumPy frees what it did not need."""
    with c.when(c.logical_not(c.is_null("%block"))):
        c.call("void", "tk.give", ["ptr %block", "i64 %size"])


def functions() -> tuple[FunctionWriter, ...]:
    """The two functions, and those of NumPy's struct."""
    return (_take(), _give(), _evict(), _new(), _cleared(), _resized(), _freed())
