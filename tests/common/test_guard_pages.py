"""The guards of `guard_pages.py`: machine code that leaves a block, or uses it too late, ends
there.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
START = """
import sys
import faulthandler

faulthandler.enable()
sys.path[:0] = ["{root}", "{root}/tests/common", "{root}/tests/jit"]
import guard_pages

guard_pages.install()
import numpy as np
from tracker import jit
"""
READS = """
from smoke_native import ScalarOut, compiled, plan, slot

body = slot(0) + slot(1) + '''  %x = load ptr, ptr %s0
  %outside = getelementptr double, ptr %x, i64 {at}
  %v = load double, ptr %outside
  store double %v, ptr %s1
  ret i64 0
'''
f = compiled(plan(body), (np.ones(8),), [ScalarOut(float)])
print("begun", flush=True)
for _ in range(20):  # a block lies at either end of its pages
    f(np.ones(8))
"""
TOO_LATE = """
address = np.ones(8).__array_interface__["data"][0]
import ctypes
print("begun", flush=True)
ctypes.c_double.from_address(address).value
"""
SOUND = """
for n in (1, 3, 17):
    x = np.linspace(0.1, 1.0, n)
    g = jit(lambda x: (np.sort(x * 2.0)[::-1], np.cumsum(np.tanh(x)), x @ np.outer(x, x)))
    for _ in range(3):
        for got, want in zip(g(x), (np.sort(x * 2)[::-1], np.cumsum(np.tanh(x)), x * (x @ x))):
            np.testing.assert_allclose(got, want)
print("begun", flush=True)
"""
CHOICES = """
import ctypes
from tracker.jit.llvm import engine

text = '''
define void @f(ptr %x, ptr %y) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %next = add i64 %i, 1
  %v = load double, ptr %x
  %large = fcmp ogt double %v, 0.5
  %w = load double, ptr %y
  %chosen = select i1 %large, double %w, double 0.0
  store double %chosen, ptr %x
  %more = icmp ult i64 %next, 3
  br i1 %more, label %loop, label %done
done:
  ret void
}
'''
f = engine.compile_module(text, level=engine.QUICK)
call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(f.address("f"))
for _ in range(20):
    x, y = np.array([0.75]), np.array([0.625])
    call(*(each.__array_interface__["data"][0] for each in (x, y)))
    assert x[0] == 0.625
print("begun", flush=True)
"""
MANY = """
kept = [np.full(2, float(k)) for k in range(30_000)]
assert all(kept[k][1] == k for k in range(0, 30_000, 777))
print("begun", flush=True)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for pages")


def run(code):
    done = subprocess.run(
        [sys.executable, "-c", START.format(root=ROOT) + code], capture_output=True, text=True
    )
    assert done.stdout == "begun\n", done.stderr
    return done


@pytest.mark.parametrize("code", [READS.format(at=8), READS.format(at=-1), TOO_LATE])
def test_what_is_not_ours_cannot_be_read(code):
    assert "Segmentation fault" in run(code).stderr


def test_sound_code_is_not_disturbed():
    assert run(SOUND).returncode == 0


def test_the_fast_code_generator_reads_no_more_than_a_number():
    assert run(CHOICES).returncode == 0


def test_more_blocks_than_the_system_has_mappings_for():
    assert run(MANY).returncode == 0
