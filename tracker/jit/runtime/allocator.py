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

from tracker.jit.llvm import engine, object_cache
from tracker.jit.llvm.lock import locked_cache
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


_TEXT = f"""
%block = type {{ ptr, i64 }}
%handler = type {{ [127 x i8], i8, ptr, ptr, ptr, ptr, ptr }}
@blocks = internal global [{MAX_BLOCKS} x %block] zeroinitializer
@oldest = internal global i64 0
@kept = internal global i64 0
@busy = internal global i64 0
@tk.handler = global %handler {{ [127 x i8] c"tracker{_PADDING}", i8 1, ptr null,
  ptr @new, ptr @cleared, ptr @resized, ptr @freed }}
declare i32 @posix_memalign(ptr, i64, i64)
declare i32 @madvise(ptr, i64, i32)
declare ptr @malloc(i64)
declare ptr @calloc(i64, i64)
declare ptr @realloc(ptr, i64)
declare void @free(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal i64 @length(i64 %size) alwaysinline {{
  %huge = icmp ugt i64 %size, {HUGE_PAGE - BLOCK_UNIT}
  %unit = select i1 %huge, i64 {HUGE_PAGE}, i64 {BLOCK_UNIT}
  %rest = sub i64 %unit, 1
  %more = add i64 %size, %rest
  %mask = sub i64 0, %unit
  %whole = and i64 %more, %mask
  %big = icmp uge i64 %size, {MIN_BLOCK}
  %length = select i1 %big, i64 %whole, i64 %size
  ret i64 %length
}}

define internal void @advise(ptr %block, i64 %length, i32 %what) {{
  %huge = icmp uge i64 %length, {HUGE_PAGE}
  br i1 %huge, label %say, label %done
say:
  %said = call i32 @madvise(ptr %block, i64 %length, i32 %what)
  br label %done
done:
  ret void
}}

define internal i1 @enter() alwaysinline {{
  %got = cmpxchg ptr @busy, i64 0, i64 1 acquire monotonic
  %mine = extractvalue {{ i64, i1 }} %got, 1
  ret i1 %mine
}}

define ptr @tk.take(i64 %size) {{
entry:
  %length = call i64 @length(i64 %size)
  %big = icmp uge i64 %size, {MIN_BLOCK}
  br i1 %big, label %ask, label %small
small:
  %s = call ptr @malloc(i64 %size)
  ret ptr %s
ask:
  %mine = call i1 @enter()
  br i1 %mine, label %search, label %fresh
search:
  %i = phi i64 [ 0, %ask ], [ %i1, %other ]
  %near = phi i64 [ {MAX_BLOCKS}, %ask ], [ %nearer, %other ]
  %lengthp = getelementptr [{MAX_BLOCKS} x %block], ptr @blocks, i64 0, i64 %i, i32 1
  %has = load i64, ptr %lengthp
  %fits = icmp eq i64 %has, %length
  br i1 %fits, label %found, label %other
other:  ; one that is a little longer does, if none fits
  %over = sub i64 %has, %length
  %room = lshr i64 %length, {_SLACK_BITS}
  %close = icmp ule i64 %over, %room
  %nearer = select i1 %close, i64 %i, i64 %near
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, {MAX_BLOCKS}
  br i1 %more, label %search, label %all
all:
  %any = icmp ult i64 %nearer, {MAX_BLOCKS}
  br i1 %any, label %found, label %leave
found:
  %at = phi i64 [ %i, %search ], [ %nearer, %all ]
  %cell = getelementptr [{MAX_BLOCKS} x %block], ptr @blocks, i64 0, i64 %at
  %kept = load ptr, ptr %cell
  %foundp = getelementptr %block, ptr %cell, i64 0, i32 1
  %whole = load i64, ptr %foundp
  store i64 0, ptr %foundp
  %sum = load i64, ptr @kept
  %less = sub i64 %sum, %whole
  store i64 %less, ptr @kept
  store atomic i64 0, ptr @busy release, align 8
  ret ptr %kept
leave:
  store atomic i64 0, ptr @busy release, align 8
  br label %fresh
fresh:
  %where = alloca ptr
  %huge = icmp uge i64 %length, {HUGE_PAGE}
  %start = select i1 %huge, i64 {HUGE_PAGE}, i64 64
  %bad = call i32 @posix_memalign(ptr %where, i64 %start, i64 %length)
  %ok = icmp eq i32 %bad, 0
  br i1 %ok, label %made, label %none
made:
  %block = load ptr, ptr %where
  call void @advise(ptr %block, i64 %length, i32 {_MADV_HUGEPAGE})
  ret ptr %block
none:
  ret ptr null
}}

define void @tk.give(ptr %block, i64 %size) {{
entry:
  %length = call i64 @length(i64 %size)
  %big = icmp uge i64 %size, {MIN_BLOCK}
  %room = icmp ule i64 %length, {_kept_bytes_limit()}
  %wanted = and i1 %big, %room
  br i1 %wanted, label %ask, label %drop
drop:
  call void @free(ptr %block)
  ret void
ask:
  %mine = call i1 @enter()
  br i1 %mine, label %keep, label %drop
keep:
  call void @advise(ptr %block, i64 %length, i32 {_MADV_FREE})
  br label %trim
trim:  ; what is too much goes, the oldest first
  %kept = load i64, ptr @kept
  %total = add i64 %kept, %length
  %over = icmp ugt i64 %total, {_kept_bytes_limit()}
  br i1 %over, label %evict, label %find
evict:
  call void @evict()
  br label %trim
find:
  %i = phi i64 [ 0, %trim ], [ %i1, %taken ]
  %cell = getelementptr [{MAX_BLOCKS} x %block], ptr @blocks, i64 0, i64 %i
  %cell.length = getelementptr %block, ptr %cell, i64 0, i32 1
  %has = load i64, ptr %cell.length
  %empty = icmp eq i64 %has, 0
  br i1 %empty, label %store, label %taken
taken:
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, {MAX_BLOCKS}
  br i1 %more, label %find, label %evict
store:
  store ptr %block, ptr %cell
  store i64 %length, ptr %cell.length
  store i64 %total, ptr @kept
  store atomic i64 0, ptr @busy release, align 8
  ret void
}}

; Free the block in the oldest slot, if it has one, and go on to the next slot.
define internal void @evict() {{
  %at = load i64, ptr @oldest
  %at1 = add i64 %at, 1
  %turn = urem i64 %at1, {MAX_BLOCKS}
  store i64 %turn, ptr @oldest
  %cell = getelementptr [{MAX_BLOCKS} x %block], ptr @blocks, i64 0, i64 %at
  %lengthp = getelementptr %block, ptr %cell, i64 0, i32 1
  %has = load i64, ptr %lengthp
  %empty = icmp eq i64 %has, 0
  br i1 %empty, label %done, label %free
free:
  %old = load ptr, ptr %cell
  call void @free(ptr %old)
  store i64 0, ptr %lengthp
  %kept = load i64, ptr @kept
  %less = sub i64 %kept, %has
  store i64 %less, ptr @kept
  br label %done
done:
  ret void
}}

define internal ptr @new(ptr %context, i64 %size) {{
  %p = call ptr @tk.take(i64 %size)
  ret ptr %p
}}

define internal ptr @cleared(ptr %context, i64 %count, i64 %each) {{
  %size = mul i64 %count, %each
  %huge = icmp uge i64 %size, {HUGE_PAGE}
  br i1 %huge, label %ours, label %theirs
theirs:
  %length = call i64 @length(i64 %size)
  %p = call ptr @calloc(i64 1, i64 %length)
  ret ptr %p
ours:  ; page by page, as the C library has it, takes longer than to clear what we have
  %q = call ptr @tk.take(i64 %size)
  %none = icmp eq ptr %q, null
  br i1 %none, label %out, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr %q, i8 0, i64 %size, i1 false)
  br label %out
out:
  ret ptr %q
}}

define internal ptr @resized(ptr %context, ptr %block, i64 %size) {{
  %length = call i64 @length(i64 %size)
  %p = call ptr @realloc(ptr %block, i64 %length)
  ret ptr %p
}}

define internal void @freed(ptr %context, ptr %block, i64 %size) {{
  %none = icmp eq ptr %block, null  ; as the C library has it: NumPy frees what it did not need
  br i1 %none, label %out, label %give
give:
  call void @tk.give(ptr %block, i64 %size)
  br label %out
out:
  ret void
}}
"""


@locked_cache
def _allocator_module() -> engine.Module:
    return object_cache.compile_or_load(_TEXT, level=engine.QUICK)


def symbols() -> dict[str, int]:
    """The addresses of the functions, and of the struct for NumPy."""
    return {name: _allocator_module().address(name) for name in (*NAMES, "tk.handler")}
