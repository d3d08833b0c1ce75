"""LLVM: compiling, linking, freeing, errors, and the choice of pipeline."""

import ctypes
import functools
import os
import weakref

import numpy as np
import pytest
from concurrently import at_once

import tracker
from tracker.errors import CompileError
from tracker.jit.llvm import engine

pytestmark = pytest.mark.optimised

SQUARE = "define double @square(double %x) {\n  %y = fmul double %x, %x\n  ret double %y\n}\n"


def function(module, name, *types):
    return ctypes.CFUNCTYPE(*types)(module.address(name))


def straight(count):
    lines = [f"  %v{k + 1} = fadd double %v{k}, %y" for k in range(count)]
    body = "\n".join(lines)
    return f"define double @f(double %v0, double %y) {{\n{body}\n  ret double %v{count}\n}}\n"


def test_compile_and_call():
    module = engine.compile_module(SQUARE)
    assert function(module, "square", ctypes.c_double, ctypes.c_double)(3.0) == 9.0
    assert module.exports == ("square",)
    assert "fmul double" in module.llvm and "mulsd" in module.asm
    assert min(module.timings.codegen, module.timings.parse, module.timings.link) > 0
    assert "square" in repr(module)


IDLE = "declare void @lost()\ndefine internal void @idle() {\n  call void @lost()\n  ret void\n}\n"


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("unused", ["", IDLE])
def test_levels_and_unused_functions(level, unused):
    module = engine.compile_module(unused + SQUARE, level=level)
    assert function(module, "square", ctypes.c_double, ctypes.c_double)(3.0) == 9.0


def test_symbols_may_be_anywhere():
    """Functions and data at any distance, and one name with two meanings."""
    text = (
        "@far = external global i8\ndeclare i64 @twice(i64)\n"
        "define i64 @f() {\n  %a = ptrtoint ptr @far to i64\n"
        "  %r = call i64 @twice(i64 %a)\n  ret i64 %r\n}\n"
    )
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    twice, thrice = kind(lambda x: 2 * x), kind(lambda x: 3 * x)
    for far in (0x1000, 0x7FFF_FFFF_F000, 0x1234_5678_9ABC):
        for callback, factor in ((twice, 2), (thrice, 3)):
            address = ctypes.cast(callback, ctypes.c_void_p).value
            module = engine.compile_module(text, symbols={"far": far, "twice": address})
            assert function(module, "f", ctypes.c_int64)() == factor * far


def test_load_an_object_file():
    made = engine.compile_module(SQUARE)
    module = engine.load(made.object_code, made.exports)
    assert function(module, "square", ctypes.c_double, ctypes.c_double)(3.0) == 9.0
    with pytest.raises(CompileError, match="without its text"):
        assert module.llvm
    with pytest.raises(CompileError, match="no symbol 'cube'"):
        module.address("cube")


def test_a_linker_dies_with_its_last_library(monkeypatch):
    """LLVM keeps memory of a freed library until its linker dies; machine code stays in place when
    other libraries are linked."""
    monkeypatch.setattr(engine, "_LIBRARIES_PER_LINKER", 2)
    monkeypatch.setattr(engine, "_LINKER_POOL", engine._LinkerPool())
    made = engine.compile_module(SQUARE)
    linker = weakref.ref(engine._LINKER_POOL._linker)
    more = [engine.load(made.object_code, made.exports) for _ in range(5)]
    assert linker() is None
    for module in (made, *more):
        assert function(module, "square", ctypes.c_double, ctypes.c_double)(3.0) == 9.0


def test_a_corrupt_object_file_is_an_error():
    code = engine.compile_module(SQUARE).object_code
    for broken in (b"", b"junk" * 100, code[:100]):
        with pytest.raises(CompileError, match="linking failed"):
            engine.load(broken, ["square"])


def test_errors_show_the_line():
    with pytest.raises(CompileError) as caught:
        engine.compile_module("define i64 @f() {\n  %x = add i64 1, 2\n  ret i32 %x\n}\n")
    assert ">     3   ret i32 %x" in str(caught.value)
    with pytest.raises(CompileError, match="refused the IR"):
        engine.compile_module("define i64 @f() {\n  %x = add i64 %x, 2\n  ret i64 %x\n}\n")


def test_an_undefined_symbol_is_named():
    text = (
        "declare i64 @nowhere()\ndefine i64 @f() {\n  %x = call i64 @nowhere()\n  ret i64 %x\n}\n"
    )
    with pytest.raises(CompileError, match="no address for nowhere"):
        engine.compile_module(text)
    assert engine.compile_module(SQUARE).exports == ("square",)


def test_pipelines():
    assert engine.longest_block(straight(100)) in range(100, 104)
    note = "; a loop\n%i = phi i64 [0, %a]"
    assert engine.choose_pipeline(straight(50) + note) == engine.Pipeline(2)
    assert engine.choose_pipeline(straight(200) + note) == engine.Pipeline(2, lsr=False)
    assert engine.choose_pipeline(straight(50)) == engine.Pipeline(2)
    assert engine.choose_pipeline(straight(1000)) == engine.Pipeline(1)
    assert engine.choose_pipeline(straight(30_000)) == engine.Pipeline(0)
    assert engine.choose_pipeline(straight(30_000) + note) == engine.Pipeline(0)
    assert not engine.prepare(straight(50), engine.QUICK)[1].optimises


@pytest.mark.parametrize("count", [1000, 25_000])
def test_long_straight_line_code(count):
    module = engine.compile_module(straight(count))
    f = function(module, "f", ctypes.c_double, ctypes.c_double, ctypes.c_double)
    assert f(1.0, 2.0) == 1.0 + 2.0 * count


def chosen(count, kind):
    """Straight-line code with a select at each step, by a condition that is no comparison."""
    lines = [f"define {kind} @f({kind} %a0, {kind} %b) {{"]
    for k in range(count):
        lines += [
            f"  %p{k} = fcmp olt {kind} %a{k}, 3.0",
            f"  %q{k} = fcmp ogt {kind} %b, %a{k}",
            f"  %r{k} = or i1 %p{k}, %q{k}",
            f"  %s{k} = fadd {kind} %a{k}, %b",
            f"  %a{k + 1} = select i1 %r{k}, {kind} %s{k}, {kind} 0.5",
        ]
    return "\n".join([*lines, f"  ret {kind} %a{count}", "}\n"])


@pytest.mark.parametrize(
    ("kind", "number"), [("double", ctypes.c_double), ("float", ctypes.c_float)]
)
def test_selects_in_long_straight_line_code_do_not_branch(kind, number):
    """The fast code generator would branch, and move the rest of the block each time."""
    text = chosen(1000, kind)
    module = engine.compile_module(text)
    assert engine.choose_pipeline(text).codegen_level == 0
    assert not [line for line in module.asm.splitlines() if line.startswith("\tj")]
    f = function(module, "f", number, number, number)
    ten = engine.compile_module(chosen(10, kind))
    short = function(ten, "f", number, number, number)
    want = 1.0
    for _ in range(100):
        want = short(want, 0.75)
    assert f(1.0, 0.75) == want


def test_no_gvn_with_very_many_stores():
    write = "  store double 1.0, ptr %x\n"
    few, many = (
        f"define void @f(ptr %x) {{\n{write * count}  ret void\n}}\n"
        for count in (engine.MAX_GVN_WRITES, engine.MAX_GVN_WRITES + 1)
    )
    assert engine.choose_pipeline(few).gvn and not engine.choose_pipeline(many).gvn
    assert engine.compile_module(many).exports == ("f",)


def test_code_is_freed():
    """The memory of a dead module is reused."""

    def addresses(kept):
        found = set()
        for _ in range(40):
            kept.append(engine.compile_module(SQUARE))
            found.add(kept[-1].address("square"))
            del kept[:-1]
        return found

    everything = [engine.compile_module(SQUARE) for _ in range(40)]
    assert len({module.address("square") for module in everything}) == 40
    assert len(addresses([])) < 20


def test_threads_compile_at_once():
    results = []

    def work(k):
        text = SQUARE.replace("fmul double %x, %x", f"fadd double %x, {k}.0")
        module = engine.compile_module(text)
        f = function(module, "square", ctypes.c_double, ctypes.c_double)
        results.append((k, f(0.5)))

    at_once(*(functools.partial(work, k) for k in range(8)))
    assert sorted(results) == [(k, k + 0.5) for k in range(8)]


def test_a_forked_child_can_compile():
    engine.compile_module(SQUARE)
    child = os.fork()
    if child == 0:
        module = engine.compile_module(SQUARE)
        done = function(module, "square", ctypes.c_double, ctypes.c_double)(3.0) == 9.0
        os._exit(0 if done else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_host_names_processor_and_llvm():
    assert "llvm-" in engine.host_description()


def counting(loops):
    """A function of loops in a row, of six steps each, with one common exit. Each pass of GVN over
    its blocks gets one loop further."""
    blocks = "".join(
        f"""
loop.{k}:
  %i{k} = load i64, ptr %at
  %n{k} = add i64 %i{k}, 1
  %left{k} = sub i64 5, %i{k}
  %last{k} = icmp eq i64 %left{k}, 0
  store i64 %n{k}, ptr %at
  %status{k} = call i64 @step(ptr %x)
  %fine{k} = icmp eq i64 %status{k}, 0
  br i1 %fine{k}, label %fine.{k}, label %fail
fine.{k}:
  br i1 %last{k}, label %ended.{k}, label %loop.{k}
ended.{k}:
  store i64 0, ptr %at
  br label %{f"loop.{k + 1}" if k + 1 < loops else "out"}"""
        for k in range(loops)
    )
    return f"""
define internal i64 @step(ptr %x) noinline {{
  %old = load double, ptr %x
  %new = fadd double %old, 1.0
  store double %new, ptr %x
  ret i64 0
}}

define i64 @f(ptr %x) {{
  %at = alloca i64
  store i64 0, ptr %at
  br label %loop.0
{blocks}
out:
  ret i64 0
fail:
  ret i64 1
}}
"""


@pytest.mark.parametrize("level", [engine.OPTIMISED, engine.QUICK])
def test_no_gvn_with_very_many_loops(level):
    """LLVM passes over all values for each loop, and aborts the process at the hundredth."""
    few, many = (counting(engine.MAX_GVN_LOOPS + more) for more in (0, 100))
    assert engine.choose_pipeline(few).gvn and not engine.choose_pipeline(many).gvn
    module = engine.compile_module(many, level=level)
    x = ctypes.c_double(0.0)
    assert function(module, "f", ctypes.c_int64, ctypes.c_void_p)(ctypes.addressof(x)) == 0
    assert x.value == 6.0 * (engine.MAX_GVN_LOOPS + 100)


def test_sums_over_the_parts_of_a_loop():
    """With operations of phis, LLVM's value numbering does not end: it aborts the process."""

    def f(a, b, c):
        a, b, c = a.copy(), b.copy(), c.copy()
        s = 0.0
        for _ in range(30):
            c[1:, :] = b[:-1, :] * 0.5
            b[3, 4] += 0.1 * c[3, 4]
            s += a[1, 1] * b[2, 0]
        return np.sum(a * 1.1) + np.sum(b * b) + np.sum(np.sin(c)) + s

    arrays = [np.random.default_rng(k).normal(size=(66, 80)) for k in range(3)]
    derive = tracker.jit(lambda *x: tracker.gradient(f, *x))
    for _ in range(2):
        for got, want in zip(derive(*arrays), tracker.gradient(f, *arrays), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    assert "define" in derive.llvm(*arrays)  # once more, optimised


def many_arrays(count):
    """x[i] = the sum of a[k][i + k] over `count` arrays a."""
    loads = "\n".join(
        f"""  %at{k} = getelementptr double, ptr %a, i64 {100 * k}
  %place{k} = add i64 %i, {k}
  %p{k} = getelementptr double, ptr %at{k}, i64 %place{k}
  %v{k} = load double, ptr %p{k}
  %s{k + 1} = fadd double %s{k}, %v{k}"""
        for k in range(count)
    )
    return f"""
define void @f(ptr noalias %x, ptr noalias %a) {{
start:
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
  %s0 = fadd double 0.0, 0.0
{loads}
  %p = getelementptr double, ptr %x, i64 %i
  store double %s{count}, ptr %p
  %next = add i64 %i, 1
  %on = icmp ult i64 %next, 50
  br i1 %on, label %loop, label %end
end:
  ret void
}}
"""


def test_no_strength_reduction_with_many_arrays_and_no_change_with_few():
    few, many = many_arrays(3), many_arrays(40)
    before = engine.compile_module(few).object_code
    assert engine.choose_pipeline(few).lsr and not engine.choose_pipeline(many).lsr
    a, x = np.random.default_rng(0).normal(size=(40, 100)), np.zeros(50)
    module = engine.compile_module(many)
    assert module.asm
    call = function(module, "f", None, ctypes.c_void_p, ctypes.c_void_p)
    call(x.ctypes.data, a.ctypes.data)
    np.testing.assert_allclose(x, sum(a[k, k : k + 50] for k in range(40)), rtol=1e-12)
    assert engine.compile_module(few).object_code == before  # LLVM has one switch for all


@pytest.mark.parametrize("name", ["parse_assembly", "create_lljit_compiler", "JITLibraryBuilder"])
def test_a_recursion_error_is_not_taken_for_one_of_llvm(monkeypatch, name):
    def too_deep(*_, **__):
        raise RecursionError

    text = "define double @f(double %x) {\n  ret double %x\n}\n"
    with monkeypatch.context() as patch:
        patch.setattr(engine.llvm, name, too_deep)
        patch.setattr(engine, "_LINKER_POOL", engine._LinkerPool())
        with pytest.raises(RecursionError):
            engine.compile_module(text)
    assert engine.compile_module(text).address("f")
