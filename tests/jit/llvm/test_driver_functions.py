"""Functions that call kernels: compiled quickly beside optimised kernels, bodies inlined."""

import ctypes

import pytest

from tracker.jit.llvm import engine
from tracker.jit.llvm.driver_functions import (
    inline_bodies,
    is_driver,
    without_optimising_drivers,
)

TEXT = """\
define internal void @k0(ptr noalias %p0) {
  store i64 7, ptr %p0
  ret void
}
define internal i64 @body0(ptr noalias %slots, ptr %scratch) {
  call void @k0(ptr %slots)
  ret i64 0
}
define internal i64 @body1(ptr noalias %slots, ptr %scratch) {
  call void @k0(ptr %slots)
  ret i64 0
}
define internal i64 @plan(ptr noalias %slots) {
  %a = call i64 @body0(ptr %slots, ptr %slots)
  %b = call i64 @body1(ptr %slots, ptr %slots)
  %c = call i64 @body1(ptr %slots, ptr %slots)
  ret i64 %c
}
define i64 @entry(ptr %slots) nounwind {
  %a = call i64 @plan(ptr %slots)
  ret i64 %a
}
"""
DRIVERS = ["body0", "body1", "plan", "entry"]


def heads(text):
    lines = [line for line in text.splitlines() if line.startswith("define ")]
    return {line.split("@")[1].split("(")[0]: line for line in lines}


def test_drivers_are_told_from_kernels():
    assert [name for name, line in heads(TEXT).items() if is_driver(line)] == DRIVERS
    assert is_driver(TEXT, TEXT.index("define internal i64 @plan"))


def test_only_drivers_are_compiled_quickly():
    changed = heads(without_optimising_drivers(TEXT))
    assert [name for name, line in changed.items() if " optnone noinline " in line] == DRIVERS


def test_bodies_with_one_caller_are_inlined():
    changed = heads(inline_bodies(TEXT))
    assert [name for name, line in changed.items() if " alwaysinline " in line] == ["body0"]


@pytest.mark.parametrize("level", [engine.OPTIMISED, engine.KERNELS_OPTIMISED, engine.QUICK])
def test_levels_compute_the_same(level):
    module = engine.compile_module(TEXT, level=level)
    cell = (ctypes.c_int64 * 1)()
    entry = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(module.address("entry"))
    assert entry(ctypes.addressof(cell)) == 0 and cell[0] == 7


def test_loops_of_inlined_bodies_count_together():
    """For LLVM aborts the process where one function has too many loops."""

    def function(name, loops):
        body = "".join(f"  br label %loop.v{k}\nloop.v{k}:\n" for k in range(loops))
        return f"define internal i64 @{name}(ptr noalias %slots) {{\n{body}  ret i64 0\n}}\n"

    half = engine.MAX_GVN_LOOPS // 2 + 1
    kernels = function("k0", half) + function("k1", half)
    assert engine.choose_pipeline(kernels).gvn
    assert not engine.choose_pipeline(function("body0", half) + function("plan", half)).gvn


NUMBERS = """\
define internal i64 @body0(ptr noalias %slots, ptr %scratch) {
  %a = load double, ptr %slots
  %b = call double @vm.exp(double %a)
  store double %b, ptr %slots
  ret i64 0
}
define internal i64 @body1(ptr noalias %slots, ptr %scratch) {
  %a = call i64 @body0(ptr %slots, ptr %slots)
  ret i64 0
}
"""


@pytest.mark.parametrize("lines", [1, 1000])
def test_loops_over_numbers_are_optimised_unless_they_are_long(lines):
    longer = "  %z = fadd double 1.0, 1.0\n" * lines
    text = NUMBERS.replace("  %a = call", longer + "  %a = call") + TEXT.replace(
        "@body0", "@body2"
    ).replace("@body1", "@body3")
    changed = heads(without_optimising_drivers(text))
    quick = [name for name, line in changed.items() if " optnone noinline " in line]
    others = ["body2", "body3", "plan", "entry"]
    assert quick == (others if lines == 1 else ["body1", *others])
    assert [name for name, line in changed.items() if " alwaysinline " in line] == ["body0"]
