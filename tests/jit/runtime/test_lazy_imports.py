"""Lazy imports name functions that exist, and a small function imports no rare module."""

import importlib

import fresh_python

from tracker.jit.pipeline.step_planners import STEP_PLANNERS


def test_every_lazy_import_finds_its_function():
    found = [*STEP_PLANNERS.by_lowering.values(), STEP_PLANNERS.row_operands]
    for room in ("program", "compile", "link", "partition", "loop_carried"):
        names = vars(importlib.import_module(f"tracker.jit.pipeline.{room}")).values()
        found += [x for x in names if hasattr(x, "found")]
    assert len(found) > 15
    for function in found:
        assert callable(function.found())


def test_a_small_function_imports_no_rare_module():
    code = (
        "import sys, tracker; "
        "tracker.jit(lambda x: tracker.withgradient(lambda x: x * x, x))(0.5); "
        "kernels = ('sort', 'selection', 'matmul', 'tall_matmul'); "
        "names = ['codegen.control_flow', 'lapack.routines', *(f'kernels.{k}' for k in kernels)]; "
        "print([n for n in names if f'tracker.jit.{n}' in sys.modules])"
    )
    out = fresh_python.run(code, TRACKER_CACHE="0")
    assert out.stdout.strip() == "[]"
