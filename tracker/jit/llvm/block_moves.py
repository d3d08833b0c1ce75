"""Loops that fill with zeros or copy, as calls of `memset` and `memcpy`, which know how a processor
moves large blocks."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.jit.llvm.vector_code import LOAD, NAME, PURE_WORDS, SIZES, STORE, VectorCode

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
        name, _, instruction = line.strip().rpartition(" = ")
        word, _, rest = instruction.partition(" ")
        if word in PURE_WORDS:
            addresses.append(line)
            continue
        if word == "load" and (match := LOAD.fullmatch(rest)):
            loaded[name] = match[2]
            continue
        if word != "store" or not (match := STORE.fullmatch(rest)):
            return None
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
