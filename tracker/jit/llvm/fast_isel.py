"""Rewriting text for LLVM's fast code generator (FastISel).

FastISel walks a block from its end. An instruction that it does not support goes to the other
generator, and the rest of the block is walked again: quadratic in long blocks. 4,000 `fabs` in a
row took 1.6 s; as integer operations they take 60 ms. The numbers stay the same.
"""

from __future__ import annotations

import re

_INTEGER_TYPES = {"double": ("i64", 63), "float": ("i32", 31)}
_SELECT = re.compile(
    r"^  (%[-\w.$]+) = select i1 ([^,\n]+), (double|float) ([^,\n]+), \3 ([^,\n]+)$", re.MULTILINE
)
_SIGN = re.compile(
    r"^  (%[-\w.$]+) = call (?:\w+ )*?(double|float) @llvm\.(?:fabs|copysign)\.f\d+"
    r"\(\2 ([^,)\n]+)(?:, \2 ([^)\n]+))?\)$",
    re.MULTILINE,
)
_CALL = re.compile(
    r" = call (?:\w+ )*?(double|float) @llvm\."
    r"((?:maximum|minimum|floor|ceil|trunc|rint|roundeven|fma)\.f(?:32|64))\(([^)\n]*)\)$",
    re.MULTILINE,
)


def rewrite_for_fast_isel(text: str, has_long_blocks: bool) -> str:
    """The same program in instructions that FastISel supports."""
    text = _SIGN.sub(_integer_sign_operation, _SELECT.sub(_select_integers, text))
    return _outline_intrinsics(text) if has_long_blocks else text


def _select_integers(match: re.Match[str]) -> str:
    """A select of floats as a select of integers.

    FastISel turns a select of floats into a branch and moves the rest of the block to a new one, so
    that every live value goes through memory. Where the condition is a comparison and the processor
    has AVX but not AVX-512, it blends with 16 bytes of memory at the address of a double, which may
    end a page (LLVM 22). InstCombine would undo this; texts for FastISel never go through it.
    """
    out, condition, kind, a, b = match.groups()
    bits = _INTEGER_TYPES[kind][0]
    return (
        f"  {out}.bits0 = bitcast {kind} {a} to {bits}\n"
        f"  {out}.bits1 = bitcast {kind} {b} to {bits}\n"
        f"  {out}.bits2 = select i1 {condition}, {bits} {out}.bits0, {bits} {out}.bits1\n"
        f"  {out} = bitcast {bits} {out}.bits2 to {kind}"
    )


def _integer_sign_operation(match: re.Match[str]) -> str:
    """`fabs` and `copysign` as integer operations."""
    out, kind, x, sign = match.groups()
    bits, top = _INTEGER_TYPES[kind]
    lines = [
        f"  {out}.bits0 = bitcast {kind} {x} to {bits}",
        f"  {out}.bits1 = and {bits} {out}.bits0, {2**top - 1}",
    ]
    size = f"{out}.bits1"
    if sign is not None:
        lines += [
            f"  {out}.bits2 = bitcast {kind} {sign} to {bits}",
            f"  {out}.bits3 = and {bits} {out}.bits2, {-(2**top)}",
            f"  {out}.bits4 = or {bits} {size}, {out}.bits3",
        ]
        size = f"{out}.bits4"
    return "\n".join([*lines, f"  {out} = bitcast {bits} {size} to {kind}"])


def _outline_intrinsics(text: str) -> str:
    """Intrinsics of a few instructions as calls of functions: FastISel supports calls."""
    functions: dict[str, str] = {}

    def call(match: re.Match[str]) -> str:
        kind, name, operands = match.groups()
        if name not in functions:
            names = [f"%x{at}" for at in range(operands.count(",") + 1)]
            parameters = ", ".join(f"{kind} {x}" for x in names)
            functions[name] = (
                f"define internal {kind} @fast.{name}({parameters}) "
                "noinline nounwind willreturn memory(none) {\n"
                f"  %y = call {kind} @llvm.{name}({parameters})\n  ret {kind} %y\n}}\n"
            )
        return f" = call {kind} @fast.{name}({operands})"

    text = _CALL.sub(call, text)
    return "\n".join([text, *functions.values()]) if functions else text
