"""Loops that fill with zeros or copy, as calls of `memset` and `memcpy`, which know how a processor
moves large blocks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tracker.jit.llvm.vector_code import NAME, SIZES, STORE, UNIFORM_WORDS, VectorCode

_LOADED = re.compile(r"  (%[\w.]+) = load (\w+), ptr (%[\w.]+)[^\n]*")
_ZEROS = {"0", "0x0000000000000000", "0.0"}
_MEMSET = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"
_MEMCPY = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"


def block_moves(body: Sequence[str], code: VectorCode, first: str, last: str) -> list[str] | None:
    """The calls that do what a loop from `first` to `last` does, at least once, whose vector form
    is `code`; None if it computes."""
    addresses: list[str] = []
    loaded: dict[str, str] = {}  # value -> address
    calls: list[str] = []
    written: set[str] = set()
    count = f"%count{code.tag}"
    for line in body:
        if match := _LOADED.fullmatch(line):
            loaded[match[1]] = match[3]
            continue
        match = STORE.fullmatch(line.removeprefix("  store "))
        if match is None:
            if line.strip().rpartition(" = ")[2].partition(" ")[0] not in UNIFORM_WORDS:
                return None
            addresses.append(line)
            continue
        type, value, pointer, _ = match.groups()
        source, size = loaded.get(value), f"%bytes{code.tag}.{len(calls)}"
        if not _is_contiguous(code, pointer, SIZES[type]):
            return None
        if source is not None and _is_contiguous(code, source, SIZES[type]):
            move = f"@llvm.memcpy.p0.p0.i64(ptr {pointer}, ptr {source}, i64 {size}, i1 false)"
        elif value in _ZEROS:
            move = f"@llvm.memset.p0.i64(ptr {pointer}, i8 0, i64 {size}, i1 false)"
        else:
            return None
        calls += [f"  {size} = mul i64 {count}, {SIZES[type]}", f"  call void {move}"]
        written.add(code.root(pointer))
    if not written.isdisjoint(map(code.root, loaded.values())):
        return None
    if any(name in loaded for line in addresses for name in NAME.findall(line)):
        return None
    code.module.intrinsics |= {_MEMSET, _MEMCPY}
    counter = code.counter
    return [
        *(NAME.sub(lambda name: first if name[0] == counter else name[0], a) for a in addresses),
        f"  {count} = sub i64 {last}, {first}",
        *calls,
    ]


def _is_contiguous(code: VectorCode, pointer: str, size: int) -> bool:
    return code.linear.get(pointer) == size
