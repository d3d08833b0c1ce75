"""Every array and scratch buffer between two inaccessible pages.

Run: python -m pytest -p guard_pages tests/jit (or any tests; make guarded runs those of the
compiler, make deep the random programs). Linux only.
"""

from __future__ import annotations

import ctypes
import functools
import resource
from typing import Any

import numpy._core._multiarray_umath as _multiarray

from tracker.jit.codegen import prologue
from tracker.jit.llvm import engine

_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

_NAME = b"mem_handler"  # what NumPy asks a capsule for: it keeps the pointer
_SET_HANDLER = 304  # in NumPy's table of C functions
_TEXT = """
%handler = type {{ [127 x i8], i8, ptr, ptr, ptr, ptr, ptr }}
@guarded.handler = global %handler {{ [127 x i8] c"guarded{padding}", i8 1, ptr null,
  ptr @made, ptr @cleared, ptr @resized, ptr @freed }}
@turn = internal global i64 1
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @mprotect(ptr, i64, i32)
declare i32 @munmap(ptr, i64)
declare void @abort()
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal ptr @block(i64 %asked) {{
entry:
  %some = call i64 @llvm.umax.i64(i64 %asked, i64 1)
  %more = add i64 %some, {rest}
  %pages = and i64 %more, -{page}
  %total = add i64 %pages, {around}
  %start = call ptr @mmap(ptr null, i64 %total, i32 0, i32 {private}, i32 -1, i64 0)
  %number = ptrtoint ptr %start to i64
  %failed = icmp eq i64 %number, -1
  br i1 %failed, label %none, label %open
none:
  ret ptr null
open:
  %first = call i32 @mprotect(ptr %start, i64 {page}, i32 3)
  %data = getelementptr i8, ptr %start, i64 {before}
  %second = call i32 @mprotect(ptr %data, i64 %pages, i32 3)
  %bad = or i32 %first, %second
  %closed = icmp ne i32 %bad, 0
  br i1 %closed, label %full, label %place
full:  ; the system has no more mappings to give: all of it is one, without guards
  %whole = call i32 @mprotect(ptr %start, i64 %total, i32 3)
  %lost = icmp ne i32 %whole, 0
  br i1 %lost, label %end, label %place
end:
  call void @abort()
  unreachable
place:
  store i64 %total, ptr %start
  %n = atomicrmw add ptr @turn, i64 7046029254386353131 monotonic
  %low = icmp slt i64 %n, 0
  %room = sub i64 %pages, %some
  %offset = select i1 %low, i64 0, i64 %room
  %p = getelementptr i8, ptr %data, i64 %offset
  ret ptr %p
}}
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)

define internal ptr @start(ptr %p) {{
  %number = ptrtoint ptr %p to i64
  %page = and i64 %number, -{page}
  %start = sub i64 %page, {before}
  %s = inttoptr i64 %start to ptr
  ret ptr %s
}}

define ptr @guarded.take(i64 %size) {{
  %more = add i64 %size, 15
  %whole = and i64 %more, -16
  %p = call ptr @made(ptr null, i64 %whole)
  ret ptr %p
}}

define void @guarded.give(ptr %p) {{
entry:
  %nothing = icmp eq ptr %p, null
  br i1 %nothing, label %done, label %give
give:
  %start = call ptr @start(ptr %p)
  %total = load i64, ptr %start
  %bad = call i32 @munmap(ptr %start, i64 %total)
  br label %done
done:
  ret void
}}

define void @guarded.give_sized(ptr %p, i64 %size) {{
  call void @guarded.give(ptr %p)
  ret void
}}

define internal ptr @made(ptr %context, i64 %size) {{
entry:
  %p = call ptr @block(i64 %size)
  %none = icmp eq ptr %p, null
  br i1 %none, label %done, label %fill
fill:
  call void @llvm.memset.p0.i64(ptr %p, i8 -1, i64 %size, i1 false)
  br label %done
done:
  ret ptr %p
}}

define internal ptr @cleared(ptr %context, i64 %count, i64 %each) {{
  %size = mul i64 %count, %each
  %p = call ptr @block(i64 %size)
  ret ptr %p
}}

define internal ptr @resized(ptr %context, ptr %old, i64 %size) {{
entry:
  %p = call ptr @made(ptr null, i64 %size)
  %fresh = icmp eq ptr %old, null
  br i1 %fresh, label %done, label %move
move:
  %start = call ptr @start(ptr %old)
  %total = load i64, ptr %start
  %from = ptrtoint ptr %old to i64
  %base = ptrtoint ptr %start to i64
  %used = sub i64 %from, %base
  %after = sub i64 %total, {page}
  %held = sub i64 %after, %used
  %size1 = call i64 @llvm.umin.i64(i64 %held, i64 %size)
  call void @llvm.memcpy.p0.p0.i64(ptr %p, ptr %old, i64 %size1, i1 false)
  call void @guarded.give(ptr %old)
  br label %done
done:
  ret ptr %p
}}

define internal void @freed(ptr %context, ptr %p, i64 %size) {{
  call void @guarded.give(ptr %p)
  ret void
}}
"""
_EXPORTS = {
    "malloc": "guarded.take",
    "free": "guarded.give",
    "tk.take": "guarded.take",
    "tk.give": "guarded.give_sized",
}


@functools.cache
def _module() -> engine.Module:
    page = resource.getpagesize()
    text = _TEXT.format(
        page=page,
        rest=page - 1,
        before=2 * page,
        around=3 * page,
        private=0x22,  # private and anonymous
        padding="\\00" * (127 - len("guarded")),
    )
    return engine.compile_module(text, level=1)


@functools.cache
def install() -> None:
    """From here on, in this thread; of what is compiled from here on."""
    module = _module()
    ours = {name: module.address(function) for name, function in _EXPORTS.items()}
    load = engine.load

    def guarded(code: bytes, exports: Any, *, symbols: Any = None, **rest: Any) -> engine.Module:
        names = tuple(exports)
        others = {name: at for name, at in ours.items() if name not in names}
        return load(code, names, symbols={**(symbols or {}), **others}, **rest)

    engine.load = guarded
    prologue._ON_STACK = 0
    api = ctypes.cast(_pointer(_multiarray._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(api[_SET_HANDLER])
    set_handler(_capsule(module.address("guarded.handler"), _NAME, None))


def pytest_configure(config: Any) -> None:
    install()
