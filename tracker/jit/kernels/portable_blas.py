"""Replacements for BLAS and the allocator in exported code, as LLVM text.

Code that is linked without Python brings its own definitions of the external names that a plan may
call: plain loops, which the compiler vectorises, instead of the tuned library.

Invariant: each function means what its namesake means in the calls that plans make: row-major,
alpha 1, beta 0 (gemv: any beta).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_SCRATCH_TEXT = """
declare noalias ptr @malloc(i64)
declare void @free(ptr)
define internal noalias ptr @tk.take(i64 %size) {
  %p = call ptr @malloc(i64 %size)
  ret ptr %p
}
define internal void @tk.give(ptr %p, i64 %size) {
  call void @free(ptr %p)
  ret void
}
"""
# z[i, j] = sum_p x[i, p] y[p, j]: a step of p adds a multiple of a row of y to a row of z.
_GEMM = """
define internal void @cblas_{letter}gemm(i32 %order, i32 %flipx, i32 %flipy, {int} %m, {int} %n,
    {int} %k, {t} %alpha, ptr %x, {int} %ldx, ptr %y, {int} %ldy, {t} %beta, ptr noalias %z,
    {int} %ldz) {{
entry:
  %fx = icmp eq i32 %flipx, 112
  %fy = icmp eq i32 %flipy, 112
  %xi = select i1 %fx, {int} 1, {int} %ldx
  %xp = select i1 %fx, {int} %ldx, {int} 1
  %yp = select i1 %fy, {int} 1, {int} %ldy
  %yj = select i1 %fy, {int} %ldy, {int} 1
  br label %rows
rows:
  %i = phi {int} [ 0, %entry ], [ %i1, %rowdone ]
  %zo = mul {int} %i, %ldz
  %zrow = getelementptr {t}, ptr %z, {int} %zo
  br label %clear
clear:
  %c = phi {int} [ 0, %rows ], [ %c1, %clear ]
  %zc = getelementptr {t}, ptr %zrow, {int} %c
  store {t} 0.0, ptr %zc
  %c1 = add nsw {int} %c, 1
  %cleared = icmp eq {int} %c1, %n
  br i1 %cleared, label %steps, label %clear
steps:
  %p = phi {int} [ 0, %clear ], [ %p1, %stepdone ]
  %xa = mul {int} %i, %xi
  %xb = mul {int} %p, %xp
  %xo = add {int} %xa, %xb
  %xe = getelementptr {t}, ptr %x, {int} %xo
  %a = load {t}, ptr %xe
  %yo = mul {int} %p, %yp
  %yrow = getelementptr {t}, ptr %y, {int} %yo
  br label %columns
columns:
  %j = phi {int} [ 0, %steps ], [ %j1, %columns ]
  %yc = mul {int} %j, %yj
  %ye = getelementptr {t}, ptr %yrow, {int} %yc
  %b = load {t}, ptr %ye
  %ze = getelementptr {t}, ptr %zrow, {int} %j
  %old = load {t}, ptr %ze
  %ab = fmul contract {t} %a, %b
  %new = fadd contract {t} %old, %ab
  store {t} %new, ptr %ze
  %j1 = add nsw {int} %j, 1
  %columnsdone = icmp eq {int} %j1, %n
  br i1 %columnsdone, label %stepdone, label %columns
stepdone:
  %p1 = add nsw {int} %p, 1
  %stepsdone = icmp eq {int} %p1, %k
  br i1 %stepsdone, label %rowdone, label %steps
rowdone:
  %i1 = add nsw {int} %i, 1
  %done = icmp eq {int} %i1, %m
  br i1 %done, label %end, label %rows
end:
  ret void
}}
"""
_GEMV = """
define internal void @cblas_{letter}gemv(i32 %order, i32 %flip, {int} %rows, {int} %columns,
    {t} %alpha, ptr %x, {int} %ldx, ptr %y, {int} %stepy, {t} %beta, ptr noalias %z,
    {int} %stepz) {{
entry:
  %f = icmp eq i32 %flip, 112
  %m = select i1 %f, {int} %columns, {int} %rows
  %k = select i1 %f, {int} %rows, {int} %columns
  %xi = select i1 %f, {int} 1, {int} %ldx
  %xp = select i1 %f, {int} %ldx, {int} 1
  br label %each
each:
  %i = phi {int} [ 0, %entry ], [ %i1, %ready ]
  %xo = mul {int} %i, %xi
  %row = getelementptr {t}, ptr %x, {int} %xo
  br label %sum
sum:
  %p = phi {int} [ 0, %each ], [ %p1, %sum ]
  %total = phi {t} [ 0.0, %each ], [ %more, %sum ]
  %xs = mul {int} %p, %xp
  %xe = getelementptr {t}, ptr %row, {int} %xs
  %ys = mul {int} %p, %stepy
  %ye = getelementptr {t}, ptr %y, {int} %ys
  %a = load {t}, ptr %xe
  %b = load {t}, ptr %ye
  %ab = fmul contract {t} %a, %b
  %more = fadd reassoc contract {t} %total, %ab
  %p1 = add nsw {int} %p, 1
  %summed = icmp eq {int} %p1, %k
  br i1 %summed, label %ready, label %sum
ready:
  %zs = mul {int} %i, %stepz
  %ze = getelementptr {t}, ptr %z, {int} %zs
  %none = fcmp oeq {t} %beta, 0.0
  %old = load {t}, ptr %ze
  %kept = fmul {t} %beta, %old
  %before = select i1 %none, {t} 0.0, {t} %kept
  %sum.all = fadd {t} %before, %more
  store {t} %sum.all, ptr %ze
  %i1 = add nsw {int} %i, 1
  %done = icmp eq {int} %i1, %m
  br i1 %done, label %end, label %each
end:
  ret void
}}
"""
# A matrix times its own transpose, as a general product.
_GRAM = """
define internal i64 @tk.{letter}gram(ptr %a, ptr noalias %z, i64 %n, i64 %k, i64 %lead,
    i64 %flip) {{
  %f = icmp ne i64 %flip, 0
  %left = select i1 %f, i32 112, i32 111
  %right = select i1 %f, i32 111, i32 112
  %m = {n}
  %p = {k}
  %l = {lead}
  call void @cblas_{letter}gemm(i32 101, i32 %left, i32 %right, {int} %m, {int} %m, {int} %p,
    {t} 1.0, ptr %a, {int} %l, ptr %a, {int} %l, {t} 0.0, ptr %z, {int} %m)
  ret i64 0
}}
"""
_REAL = (("d", "double"), ("s", "float"))
_PRODUCTS = {
    f"cblas_{letter}{name}": (text, {"letter": letter, "t": kind})
    for letter, kind in _REAL
    for name, text in (("gemm", _GEMM), ("gemv", _GEMV))
}
_GRAMS = {f"tk.{letter}gram": {"letter": letter, "t": kind} for letter, kind in _REAL}
_SCRATCH = {"tk.take", "tk.give"}
_PAUSE = "tk.pause"  # would handle Python's signals: there is no Python


def missing(symbols: Iterable[str]) -> list[str]:
    """The names that have no definition here."""
    return sorted(set(symbols) - set(_PRODUCTS) - _SCRATCH - set(_GRAMS) - {_PAUSE})


def with_definitions(text: str, symbols: Iterable[str], int_bits: int) -> str:
    """A module that defines these names instead of declaring them."""
    wanted = set(symbols)
    definitions = []
    for name in sorted(wanted & set(_GRAMS)):
        wanted.add(f"cblas_{_GRAMS[name]['letter']}gemm")
        definitions.append(_gram_text(f"i{int_bits}", **_GRAMS[name]))
    definitions += [
        _PRODUCTS[name][0].format(int=f"i{int_bits}", **_PRODUCTS[name][1])
        for name in sorted(wanted & set(_PRODUCTS))
    ]
    if wanted & _SCRATCH:
        definitions.append(_SCRATCH_TEXT)
        wanted |= _SCRATCH | {"malloc", "free"}
    if _PAUSE in wanted:
        definitions.append(
            f"define internal i64 @{_PAUSE}(ptr %since) alwaysinline {{\n  ret i64 0\n}}"
        )
    for name in wanted:
        text = re.sub(rf"^declare [^@\n]*@{re.escape(name)}\(.*\n", "", text, flags=re.MULTILINE)
    return "\n".join([text, *definitions])


def _gram_text(integer: str, **how: str) -> str:
    narrow = "trunc i64 {} to i32" if integer == "i32" else "add i64 {}, 0"
    extents = {name: narrow.format(f"%{name}") for name in ("n", "k", "lead")}
    return _GRAM.format(int=integer, **how, **extents)
