"""What is read late is there, under its own name, and is not read for a small function."""

import subprocess
import sys

from tracker.jit.runtime import lazy_imports


def test_every_stand_in_finds_its_function():
    standing = {
        name: x for name, x in vars(lazy_imports).items() if name != "later" and callable(x)
    }
    late = {name: x for name, x in standing.items() if hasattr(x, "found")}
    assert {"write_product", "plan_order", "roll"} <= set(late)
    for name, stand_in in late.items():
        assert stand_in.found().__name__ == name


def test_a_small_function_reads_no_rare_module():
    code = (
        "import sys, tracker; "
        "tracker.jit(lambda x: tracker.withgradient(lambda x: x * x, x))(0.5); "
        "kernels = ('sort', 'selection', 'matmul', 'tall_matmul'); "
        "names = ['codegen.control_flow', 'lapack.routines', *(f'kernels.{k}' for k in kernels)]; "
        "print([n for n in names if f'tracker.jit.{n}' in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
