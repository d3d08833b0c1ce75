"""Vector loops: the elements of the scalar loops, for any trip count, and no vectors where
lanes depend on each other."""

import ctypes

import numpy as np
import pytest
from compiled import agree

from tracker.jit.llvm import engine
from tracker.jit.llvm.loop_widening import widen_loops

pytestmark = pytest.mark.optimised

LENGTHS = [1, 2, 7, 8, 9, 15, 16, 17, 31, 40, 41, 64, 65, 130]


def loop(body, last="%n", cells="", after=""):
    """A function of two arrays and a length: a loop with this body, whose counter is %i."""
    return (
        "define void @f(ptr noalias %p, ptr noalias %q, i64 %n) {\n"
        f"{cells}  br label %pre1\npre1:\n  br label %loop1\nloop1:\n"
        f"  %i = phi i64 [ 0, %pre1 ], [ %next1, %latch1 ]\n{body}"
        f"  br label %latch1\nlatch1:\n  %next1 = add nuw nsw i64 %i, 1\n"
        f"  %more1 = icmp ult i64 %next1, {last}\n  br i1 %more1, label %loop1, label %done1\n"
        f"done1:\n{after}  ret void\n}}\n"
    )


def at(name, array, index, type="double"):
    return f"  {name} = getelementptr inbounds {type}, ptr {array}, i64 {index}\n"


def read(name, place, type="double"):
    return f"  {name} = load {type}, ptr {place}, align 8\n"


def write(value, place, type="double"):
    return f"  store {type} {value}, ptr {place}, align 8\n"


X = at("%x.at", "%p", "%i") + read("%x", "%x.at")
TO = at("%to", "%q", "%i")
CELL = "  %acc0 = alloca double\n  store double 0.0, ptr %acc0\n"
RESULT = read("%sum", "%acc0") + write("%sum", "%q")
ADD = read("%old", "%acc0") + "  %new = fadd reassoc double %old, %x\n" + write("%new", "%acc0")
MORE = "  %more = fadd reassoc double %kept, %x\n" + write("%more", "%acc0")
AGAIN = ADD + read("%kept", "%acc0") + MORE
SQUARED = "  %y = fmul double %x, %x\n" + TO + write("%y", "%to")
EVEN = "  %j = mul nsw i64 %i, 2\n" + at("%e.at", "%p", "%j") + read("%x", "%e.at")
BACK = "  %j = sub i64 20, %i\n" + at("%b.at", "%p", "%j") + read("%x", "%b.at")
PAIR = at("%even.to", "%q", "%j") + write("%x", "%even.to") + "  %k = add nsw i64 %j, 1\n"
PAIR += at("%odd.to", "%q", "%k") + "  %z = fneg double %x\n" + write("%z", "%odd.to")
FIRST = read("%a", "%p") + "  %y = fmul double %a, %x\n" + TO + write("%y", "%to")
NUMBER = "  %y = sitofp i64 %i to double\n" + TO + write("%y", "%to")
LARGE = "  %c = fcmp ogt double %x, 3.0\n  %y = select i1 %c, double %x, double 0.0\n"
LARGE += TO + write("%y", "%to")
ROOT = "declare double @llvm.sqrt.f64(double)\n"
ROOTS = "  %y = call double @llvm.sqrt.f64(double %x)\n" + TO + write("%y", "%to")

KEEP = write("%x", "%acc0")

WIDENED = {
    "squares": loop(X + SQUARED),
    "sum": loop(X + ADD, cells=CELL, after=RESULT),
    "sum of two": loop(X + AGAIN, cells=CELL, after=RESULT),
    "every other": loop(EVEN + SQUARED),
    "backwards": loop(BACK + SQUARED, last="20"),
    "interleaved": loop(EVEN + PAIR),
    "uniform factor": loop(X + FIRST),
    "counter as a number": loop(NUMBER),
    "select": loop(X + LARGE),
    "intrinsic": ROOT + loop(X + ROOTS),
    "last number": loop(X + SQUARED + KEEP, cells=CELL, after=RESULT),
    "last of few": loop(X + SQUARED + KEEP, "5", cells=CELL, after=RESULT),
    "few iterations": loop(X + SQUARED, last="5"),
}
IN_PLACE = TO + read("%x", "%to") + "  %y = fadd double %x, 1.0\n" + write("%y", "%to")
MOST = "declare double @llvm.maximum.f64(double, double)\n"
KEEP_MOST = read("%old", "%acc0") + write("%new", "%acc0")
KEEP_MOST = KEEP_MOST.replace(
    "  store", "  %new = call nsz double @llvm.maximum.f64(double %old, double %x)\n  store"
)
LONG = {
    "squares": WIDENED["squares"],
    "interleaved": WIDENED["interleaved"],
    "additions in place": loop(IN_PLACE),
    "squares and most": MOST
    + loop(
        X + SQUARED + KEEP_MOST,
        cells=CELL,
        after=at("%end", "%q", "201") + read("%m", "%acc0") + write("%m", "%end"),
    ),
}
BEFORE = "  %j = sub i64 %i, -1\n" + at("%b.at", "%q", "%i") + read("%x", "%b.at")
BEFORE += at("%to", "%q", "%j") + "  %y = fadd double %x, 1.0\n" + write("%y", "%to")
TWICE = TO + write("%x", "%to") + "  %j = add i64 %i, 1\n" + at("%next.to", "%q", "%j")
TWICE += "  %y = fneg double %x\n" + write("%y", "%next.to")
IN_ORDER = ADD.replace("reassoc ", "")
SCAN = ADD + TO + write("%old", "%to")
OTHER_CELL = CELL + "  %acc1 = alloca double\n"
DELAYED = ADD + write("%old", "%acc1") + read("%kept", "%acc1") + TO + write("%kept", "%to")
PARTIAL = ADD + TO + write("%new", "%to")
SAME = "  %y = fmul double %x, %x\n" + write("%y", "%q")
SCALAR = {
    "reads what the iteration before wrote": loop(BEFORE),
    "writes what the next iteration overwrites": loop(X + TWICE),
    "a sum in order": loop(X + IN_ORDER, cells=CELL, after=RESULT),
    "sums and products in a cell": loop(
        X + AGAIN.replace("%more = fadd", "%more = fmul"), cells=CELL
    ),
    "sums before each iteration": loop(X + SCAN, cells=CELL),
    "sums up to each iteration": loop(X + PARTIAL, cells=CELL),
    "sums by another cell": loop(X + DELAYED, cells=OTHER_CELL),
    "one place": loop(X + SAME),
}


ZEROS = TO + write("0x0000000000000000", "%to")
SHIFTED = "  %j = add nsw i64 %i, 3\n" + at("%s.at", "%p", "%j") + read("%x", "%s.at")
LOADED = "  %a = load i64, ptr %p\n  %m = and i64 %a, 1\n  %j = add i64 %i, %m\n"
BLOCKS = {
    "zeros": (loop(ZEROS), ["memset"]),
    "a copy": (loop(X + TO + write("%x", "%to")), ["memcpy"]),
    "a shifted copy": (loop(SHIFTED + TO + write("%x", "%to")), ["memcpy"]),
    "ones": (loop(TO + write("1.0", "%to")), []),
    "squares": (loop(X + SQUARED), []),
    "within one array": (loop(SHIFTED + at("%to", "%p", "%i") + write("%x", "%to")), []),
    "at a loaded place": (loop(LOADED + at("%to", "%q", "%j") + write("0.0", "%to")), []),
    "every other": (loop(EVEN + TO + write("%x", "%to")), []),
}


def run(text, n, monkeypatch, widen, offset=0):
    if not widen:
        monkeypatch.setattr(
            engine, "prepare", lambda text, level: (text, engine.Pipeline(0, optimises=False))
        )
    module = engine.compile_module(text)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    x, y = np.sqrt(np.arange(1.0, 401.0)), np.zeros(408)[offset:]
    kind(module.address("f"))(x.ctypes.data, y.ctypes.data, n)
    monkeypatch.undo()
    return y


@pytest.mark.parametrize("name", WIDENED)
def test_wide_loops_compute_the_same(name, monkeypatch):
    text = WIDENED[name]
    assert "load <" in widen_loops(text) or "store <" in widen_loops(text)
    for n in LENGTHS:
        wide, scalar = (run(text, n, monkeypatch, widen) for widen in (True, False))
        np.testing.assert_allclose(wide, scalar, rtol=1e-15 * n if "sum" in name else 0)


@pytest.mark.parametrize("offset", range(8))
@pytest.mark.parametrize(
    "name", ["squares", "interleaved", "additions in place", "squares and most"]
)
def test_stores_are_aligned_in_long_loops(name, offset, monkeypatch):
    for n in (95, 96, 103, 104, 151, 200):
        wide, scalar = (run(LONG[name], n, monkeypatch, widen, offset) for widen in (True, False))
        np.testing.assert_array_equal(wide, scalar)


@pytest.mark.parametrize("name", SCALAR)
def test_dependent_lanes_stay_scalar(name, monkeypatch):
    text = SCALAR[name]
    assert " x double>" not in widen_loops(text)
    for n in (1, 9, 40):
        wide, scalar = (run(text, n, monkeypatch, widen) for widen in (True, False))
        np.testing.assert_array_equal(wide, scalar)


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_are_moved_by_the_c_library(name, monkeypatch):
    text, moves = BLOCKS[name]
    wide = widen_loops(text)
    assert [move for move in ("memset", "memcpy") if f"call void @llvm.{move}." in wide] == moves
    for n in LENGTHS:
        moved, scalar = (run(text, n, monkeypatch, widen) for widen in (True, False))
        np.testing.assert_array_equal(moved, scalar)


def test_what_iterations_have_in_common_is_computed_before_a_scalar_loop():
    body = "  %a = load double, ptr %p\n  %k = sdiv i64 %n, 3\n  %m = mul i64 %n, 8\n"
    body += "  %t = add i64 %m, %i\n  %o = fmul double %a, 2.0\n" + at("%to", "%q", "%m")
    text = widen_loops(loop(body + write("%o", "%to")))
    before, _, inside = text.partition("\nloop1:\n")
    assert "%m = " in before and "%to = " in before
    for name in ("%a", "%k", "%t", "%o"):  # of a load, a division, the counter, a load
        assert f"{name} = " in inside


def test_loops_of_another_form_stay_as_they_are():
    text = (
        "define double @f(ptr %p, i64 %n) {\nhead:\n  br label %again\nagain:\n"
        "  %i = phi i64 [ 0, %head ], [ %j, %again ]\n  %v = getelementptr double, ptr %p, i64 %i\n"
        "  %x = load double, ptr %v\n  %j = add i64 %i, 1\n  %c = fcmp ogt double %x, 0.0\n"
        "  br i1 %c, label %again, label %end\nend:\n  ret double %x\n}\n"
    )
    assert widen_loops(text) == text


rng = np.random.default_rng(0)
PROGRAMS = {
    "sum of columns": lambda x: np.sum(x, axis=0),
    "sum of rows": lambda x: np.sum(x, axis=1),
    "rows over norms": lambda x: x / np.sqrt(np.sum(x * x, axis=1, keepdims=True)),
    "softmax": lambda x: np.exp(x) / np.sum(np.exp(x), axis=1, keepdims=True),
    "differences": lambda x: x[1:] - x[:-1],
    "reversed": lambda x: x[::-1, ::-1] * x,
    "strided": lambda x: x[::2, ::3] * 2,
    "padded": lambda x: np.pad(x, 1)[1:, :-1] + np.tanh(np.pad(x, 1)[:-1, 1:]),
    "all and any": lambda x: (np.all(x > -9, axis=1), np.any(x > 1, axis=0)),
    "minima": lambda x: np.minimum(np.min(x, axis=1), np.max(x)),
    "counts": lambda x: np.sum(x > 0, axis=1),
    "products": lambda x: np.prod(x, axis=1),
    "powers": lambda x: 2.5 ** np.sum(np.abs(x), axis=1) + np.hypot(1.0, x[:, 0]),
    "complex": lambda x: np.sum(np.abs((x + 1j * x) * (2 - 1j * x)), axis=1),
    "gathered": lambda x: np.sum(np.exp(x[np.arange(len(x))[::-1] // 2]), axis=1),
    "angles": lambda x: np.sum(np.sin(x) * np.cos(3 * x), axis=0),
    "outer": lambda x: np.sum((x[:, :1] - x[0]) ** 2, axis=1),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(
    "shape, dtype",
    [((3, 2), "d"), ((30, 3), "d"), ((30, 5), "f"), ((12, 17), "d"), ((9, 41), "f")],
)
def test_programs_over_short_and_long_rows(name, shape, dtype):
    f, x = PROGRAMS[name], rng.normal(size=shape).astype(dtype)
    rtol = 1e-4 if dtype == "f" else 1e-12
    agree(f, x, tolerance=rtol)
