"""Call entries: every check of `smoke_native.py`, failing C calls, memory, odd interpreters."""

import gc
import sys
import tracemalloc

import fresh_python
import numpy as np
import pytest
import smoke_native as smoke
from smoke_native import F8, NOTHING, Bag, Point, compiled, entry, shape_of, took_slow_path

from tracker.errors import CompileError
from tracker.jit.abi import loader, native_callable
from tracker.jit.guards.signature import (
    ArrayOut,
    ConstantOut,
    InputOut,
    Outputs,
    ScalarOut,
    signature_of,
)
from tracker.jit.llvm import engine
from tracker.jit.runtime import c_symbols


@pytest.mark.parametrize("check", smoke.CHECKS, ids=lambda check: check.__name__)
def test_smoke(check):
    check()


FAILING = {
    "PyArray_Empty": "ptr @PyArray_Empty(i32 %rank, ptr %dims, ptr %descr, i32 %order)",
    "PyDict_New": "ptr @PyDict_New()",
    "PyDict_SetItem": "i32 @PyDict_SetItem(ptr %d, ptr %k, ptr %v)",
    "PyFloat_FromDouble": "ptr @PyFloat_FromDouble(double %x)",
    "PyList_New": "ptr @PyList_New(i64 %n)",
    "PyLong_FromLongLong": "ptr @PyLong_FromLongLong(i64 %n)",
    "PyObject_Vectorcall": "ptr @PyObject_Vectorcall(ptr %f, ptr %args, i64 %n, ptr %names)",
    "PyTuple_New": "ptr @PyTuple_New(i64 %n)",
    "PyType_GenericAlloc": "ptr @PyType_GenericAlloc(ptr %type, i64 %n)",
}


def failing(name):
    """IR that replaces a function of the C API by one that fails, as if out of memory."""
    head = FAILING[name]
    result = "i32 -1" if head.startswith("i32") else "ptr null"
    steals = "  call void @Py_DecRef(ptr %descr)\n" if name == "PyArray_Empty" else ""
    return (
        "declare ptr @PyErr_NoMemory()\n"
        + ("declare void @Py_DecRef(ptr)\n" if steals else "")
        + f"define internal {head} {{\n{steals}"
        + f"  %none = call ptr @PyErr_NoMemory()\n  ret {result}\n}}\n"
    )


@pytest.fixture
def failing_maker(monkeypatch):
    """NumPy's array constructor, which entries do not name, fails."""
    name, original = "PyArray_Empty", c_symbols.address_of
    text = failing(name).replace("define internal", "define")
    symbols = {each: original(each) for each in ("PyErr_NoMemory", "Py_DecRef")}
    module = engine.compile_module(text, level=engine.QUICK, symbols=symbols)
    address = module.address(name)
    monkeypatch.setattr(loader, "address_of", lambda x: address if x == name else original(x))
    return module


def test_a_failing_array_constructor_raises_and_frees_everything(failing_maker):
    check_that_a_failure_leaves_nothing("")


@pytest.mark.parametrize("name", [name for name in FAILING if name != "PyArray_Empty"])
def test_failing_c_calls_raise_and_free_everything(name):
    check_that_a_failure_leaves_nothing(failing(name))


def check_that_a_failure_leaves_nothing(text):
    x, token = np.arange(3.0), object()
    args = ([x], 1.5)
    leaves = [ArrayOut(F8, (3,)), ScalarOut(float), ScalarOut(int), ConstantOut(token), InputOut(0)]
    structure = shape_of(([0, 0], {"a": 0, "b": Point(0, Bag([0]))}))
    f = compiled(text + smoke.plan("  ret i64 0\n"), args, leaves, structure)
    gc.collect()  # objects of other tests may hold the dtype
    watched = [x, token, F8, Point, Bag, args[0]]
    before = [sys.getrefcount(one) for one in watched]
    for _ in range(200):
        with pytest.raises(MemoryError):
            f(*args)
    assert [sys.getrefcount(one) for one in watched] == before


def test_memory_stays_level_over_many_calls():
    x = np.arange(100.0)
    f = compiled(smoke.scaling(0, 1, 100, 2.0), (x,), [ArrayOut(F8, (100,))])
    smoke.call_often(f, (x,), 1000)
    tracemalloc.start()
    try:
        smoke.call_often(f, (x,), 1000)
        before = tracemalloc.get_traced_memory()[0]
        smoke.call_often(f, (x,), 100_000)
        assert tracemalloc.get_traced_memory()[0] - before < 2000
    finally:
        tracemalloc.stop()


def test_types_survive_the_end_of_the_interpreter():
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]; import smoke_native as s;"
        "sys.f = s.compiled(s.NOTHING, (1.0,), [s.ConstantOut('hit')]);"
        "sys.f.me = sys.f; import atexit; atexit.register(lambda: print(sys.f(1.0)))"
    )
    places = [p for p in sys.path if p]
    done = fresh_python.run(code, *places)
    assert (done.stdout, done.stderr) == ("hit\n", "")


def test_an_entry_can_come_from_an_object_file():
    signature, _ = signature_of((np.ones(3),), {})
    outputs = Outputs(shape_of(0), (ArrayOut(F8, (3,)),))
    plan = smoke.scaling(0, 1, 3, 2.0)
    first = loader.prepare_entry(plan, signature, outputs)
    module = engine.compile_module(first.text, symbols=first.symbols)
    second = loader.prepare_entry(plan, signature, outputs)
    assert second.text == first.text
    assert not any(str(address) in second.text for address in second.symbols.values())
    loaded = engine.load(module.object_code, module.exports, symbols=second.symbols)
    f = smoke.jitted(loader.NativeEntry(second, loaded))
    np.testing.assert_array_equal(f(np.ones(3)), [2, 2, 2])


@pytest.mark.optimised
def test_the_plan_is_inlined_and_its_slots_are_registers():
    plan = smoke.plan(
        smoke.slot(1)
        + "  %x = load double, ptr %s\n  %y = fmul double %x, %x\n"
        + "  store double %y, ptr %s1\n  ret i64 0\n"
    )
    text = entry(plan, (1.0,), [ScalarOut(float)]).module.llvm
    assert "@plan" not in text
    assert "fmul double" in text and "x i64], align 16" not in text


def test_refused_leaves():
    signature, _ = signature_of((np.ones(2, ">f8"),), {})
    assert not signature.is_native
    with pytest.raises(ValueError, match="f8"):
        smoke.entry_for(NOTHING, signature, Outputs(shape_of(0), (ConstantOut(1),)))


def test_a_layout_that_is_not_known_is_refused(monkeypatch):
    monkeypatch.setattr(loader.cpython_layout, "NDIM", 28)
    with pytest.raises(CompileError, match="array rank"):
        loader.verify_layout()


def test_an_entry_for_a_dead_object_takes_no_call():
    class Thing:
        pass

    signature, values = signature_of((Thing(),), {})
    values.clear()
    f = smoke.jitted(smoke.entry_for(NOTHING, signature, Outputs(shape_of(0), (ConstantOut(1),))))
    assert smoke.took_slow_path(f(Thing())) and smoke.took_slow_path(f(None))


def test_nested_calls_of_one_entry():
    def deeper(structure, children):
        return f(children[0] - 1.0) + 1 if children[0] > 0 else 0

    outputs = Outputs(shape_of(Bag([0])), (InputOut(0),), deeper)
    f = smoke.jitted(smoke.entry_for(NOTHING, signature_of((1.0,), {})[0], outputs))
    assert f(50.0) == 50


def test_reset_while_running_keeps_code_until_a_later_reset():
    def build(structure, children):
        native_callable.remove_all_entries(f)
        return len(native_callable.entries(f))

    outputs = Outputs(shape_of(Bag([0])), (InputOut(0),), build)
    f = smoke.jitted(smoke.entry_for(NOTHING, signature_of((1.0,), {})[0], outputs))
    assert f(1.0) == 0
    assert took_slow_path(f(1.0))
    native_callable.remove_all_entries(f)
