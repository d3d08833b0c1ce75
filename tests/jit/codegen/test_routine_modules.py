"""Routines that programs share are modules of their own."""

import numpy as np
import pytest
from compiled import agree

X = np.random.default_rng(0).normal(size=50)


def compiled_modules(f, *args):
    fast = agree(f, *args, tolerance=1e-14)
    (special,) = next(iter(fast._jitted.groups.values())).specializations
    return special.compiled.pieces[0].modules


def test_programs_have_the_same_module_of_a_routine():
    first = compiled_modules(lambda x: np.sort(x) * x, X)
    second = compiled_modules(lambda x: np.sort(x + 1.0)[::-1] - x, X[:30])
    (shared,) = {m.text for m in first} & {m.text for m in second}
    assert "define void @tk.order." in shared


@pytest.mark.parametrize("n", [10, 500])
def test_a_driver_that_calls_routines_has_no_loops(n):
    def steps(x):
        for _ in range(9):
            x = np.sort(x) * 0.9 + np.median(x) - np.searchsorted(np.sort(x), 0.3)
        return x

    driver, *others = compiled_modules(steps, np.linspace(1.0, 0.0, n))
    assert "call void @tk." in driver.text and "define internal void @tk." not in driver.text
    exported = [name for module in others for name in module.exports]
    assert len(exported) == len(set(exported)) and any(n.startswith("tk.") for n in exported)
