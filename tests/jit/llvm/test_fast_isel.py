"""Text for the fast code generator: the same numbers, in linear time."""

import ctypes
import math
import struct

import pytest

from tracker.jit.llvm import engine
from tracker.jit.llvm.fast_isel import rewrite_for_fast_isel

pytestmark = pytest.mark.optimised

OPERANDS = {"fabs": 1, "floor": 1, "ceil": 1, "trunc": 1, "rint": 1, "roundeven": 1}
OPERANDS |= {"copysign": 2, "maximum": 2, "minimum": 2, "fma": 3}
NUMBERS = [0.0, -0.0, 1.5, -2.5, 0.5, 1e300, -1e-310, math.inf, -math.inf, math.nan]


def steps(name, kind, count):
    """A program that calls an intrinsic `count` times."""
    bits = 64 if kind == "double" else 32
    symbol, ways = f"@llvm.{name}.f{bits}", ["%x", "%y", "%z"][: OPERANDS[name]]
    given = ", ".join(f"{kind} {way}" for way in ways)
    lines = [f"  %s{k} = call {kind} {symbol}({given})" for k in range(count)]
    declared = f"declare {kind} {symbol}({', '.join([kind] * len(ways))})"
    many = "\n".join(f"  store volatile {kind} %s{k}, ptr %to" for k in range(count))
    head = f"define void @f({kind} %x, {kind} %y, {kind} %z, ptr %to)"
    return "\n".join([declared, f"{head} {{", *lines, many, "  ret void", "}\n"])


@pytest.mark.parametrize("kind", ["double", "float"])
@pytest.mark.parametrize("name", OPERANDS)
def test_the_same_numbers(name, kind):
    number, code = (ctypes.c_double, "<d") if kind == "double" else (ctypes.c_float, "<f")
    found = []
    for count in (1, 1500):
        text = steps(name, kind, count)
        assert engine.choose_pipeline(text).codegen_level == (2 if count == 1 else 0)
        module = engine.compile_module(text)
        f = ctypes.CFUNCTYPE(None, number, number, number, ctypes.c_void_p)(module.address("f"))
        to, results = number(), []
        for x in NUMBERS:
            for y in NUMBERS[:: 1 if OPERANDS[name] > 1 else 10]:
                f(x, y, -1.0, ctypes.addressof(to))
                results.append("nan" if math.isnan(to.value) else struct.pack(code, to.value))
        found.append(results)
    assert found[0] == found[1]


@pytest.mark.parametrize("name", OPERANDS)
def test_long_blocks_have_no_unsupported_intrinsics(name):
    text = rewrite_for_fast_isel(steps(name, "double", 3), has_long_blocks=True)
    body = text[text.index("define void @f") :].split("\n}")[0]
    assert "@llvm." not in body and body.count(" = ") >= 3


def test_short_blocks_call_nothing():
    text = steps("maximum", "double", 3)
    assert rewrite_for_fast_isel(text, has_long_blocks=False) == text


def test_flags_and_literals():
    text = (
        "declare double @llvm.maximum.f64(double, double)\n"
        "declare double @llvm.fabs.f64(double)\n"
        "define double @f(double %x) {\n"
        "  %a = call nsz double @llvm.maximum.f64(double %x, double 2.0)\n"
        "  %b = call double @llvm.fabs.f64(double -3.0)\n"
        "  %c = fadd double %a, %b\n  ret double %c\n}\n"
    )
    changed = rewrite_for_fast_isel(text, has_long_blocks=True)
    assert "call double @fast.maximum.f64(double %x, double 2.0)" in changed
    module = engine.compile_module(changed, level=0)
    f = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(module.address("f"))
    assert [f(1.0), f(7.0)] == [5.0, 10.0]
