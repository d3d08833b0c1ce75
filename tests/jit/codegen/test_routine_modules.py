"""Routines that programs share are modules of their own."""

import numpy as np
import pytest

import tracker
from tracker.jit.codegen import routine_modules
from tracker.jit.llvm import engine
from tracker.jit.scalar.values import ModuleNeeds

X = np.random.default_rng(0).normal(size=50)


def modules(f, *args):
    fast = tracker.jit(f)
    for _ in range(2):
        np.testing.assert_allclose(fast(*args), f(*args), rtol=1e-14)
    (special,) = next(iter(fast._jitted.groups.values())).specializations
    return special.compiled.pieces[0].modules


def test_programs_have_the_same_module_of_a_routine():
    first = modules(lambda x: np.sort(x) * x, X)
    second = modules(lambda x: np.sort(x + 1.0)[::-1] - x, X[:30])
    (shared,) = {m.text for m in first} & {m.text for m in second}
    assert "define void @tk.order." in shared


@pytest.mark.parametrize("n", [10, 500])
def test_a_driver_that_calls_routines_has_no_loops(n):
    def steps(x):
        for _ in range(9):
            x = np.sort(x) * 0.9 + np.median(x) - np.searchsorted(np.sort(x), 0.3)
        return x

    driver, *others = modules(steps, np.linspace(1.0, 0.0, n))
    assert "call void @tk." in driver.text and "define internal void @tk." not in driver.text
    exported = [name for module in others for name in module.exports]
    assert len(exported) == len(set(exported)) and any(n.startswith("tk.") for n in exported)


def test_inseparable_routines_stay():
    needs = ModuleNeeds()
    inner = "define internal void @tk.inner(ptr noalias %p) {\n  ret void\n}\n"
    outer = (
        "define internal i64 @tk.outer(\n  ptr noalias %p, i1 %q\n) noinline {\n"
        "  call void @tk.inner(ptr %p)\n  %v = call i64 @llvm.abs.i64(i64 3, i1 false)\n"
        "  ret i64 %v\n}\n"
    )
    foreign = "define internal void @tk.foreign() noinline {\n  call void @other()\n  ret void\n}\n"
    unused = "define internal void @tk.unused() noinline {\n  ret void\n}\n"
    absolute, other = "declare i64 @llvm.abs.i64(i64, i1)", "declare void @other()"
    needs.intrinsics = {inner, outer, foreign, unused, absolute, other}
    driver = "call i64 @tk.outer(ptr %x, i1 true)\ncall void @tk.foreign()"
    (module,) = routine_modules.extract_routines(needs, [driver])
    assert module.exports == ("tk.outer",) and module.level == engine.OPTIMISED
    assert "\ndefine i64 @tk.outer(" in f"\n{module.text}" and inner in module.text
    assert absolute in module.text and other not in module.text
    assert needs.intrinsics == {
        foreign,
        absolute,
        other,
        "declare i64 @tk.outer(ptr noalias, i1)",
    }
    engine.compile_module(module.text)
    (again,) = routine_modules.extract_routines(needs, [driver]) or (None,)
    assert again is None
