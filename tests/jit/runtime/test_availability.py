"""Where no machine code can be made, everything runs without it, with one warning."""

import fresh_python
import numpy as np
import pytest

from tracker.errors import CompileError
from tracker.jit.abi import loader
from tracker.jit.guards import class_guard
from tracker.jit.runtime import availability

NO_LLVM = "sys.modules['llvmlite'] = None"
NO_LOCK = "sys._is_gil_enabled = lambda: False"
BUILD = "sys.version = '3.13.0 experimental free-threading build (main)'"
IS = "{**vars(sys.implementation), 'name': 'pypy'}"
OTHER = f"import types; sys.implementation = types.SimpleNamespace(**{IS})"
NO_POSIX = "del os.register_at_fork, os.fork, os.sched_getaffinity, os.sysconf, os.geteuid"
WINDOWS = f"import os; np.testing; {NO_POSIX}; sys.platform = 'win32'"
WRONG = "from tracker.jit.runtime import cpython_layout as structs; structs.VALUE += 8"
PLACES = {
    NO_LLVM: "Install it: pip install llvmlite",
    NO_LOCK: "this is free-threaded cpython",
    BUILD: "this is free-threaded cpython 3.13.0",
    OTHER: "this is pypy",
    WINDOWS: "this is Windows. Run the program on Linux or macOS",
    WRONG: "lays out float",
}
PROGRAM = """
import pickle, sys, warnings
import numpy as np
{place}
import tracker
x = np.arange(3.0)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    @tracker.jit
    def f(x, k=2.0):
        return np.sum(np.sin(x) * k)
    g = tracker.jit(lambda x: x * f(x), static="x")
class Model:
    @tracker.jit
    def loss(self, x):
        return np.sum(x * x)
(one,) = told
assert one.category is RuntimeWarning and one.filename == "<string>", one
print(one.message)
plain = f.__wrapped__
assert f(x) == f(x, k=2.0) == plain(x) and (g(x) == x * plain(x)).all()
assert Model().loss(x) == Model.loss(None, x) == 5.0
assert tracker.value_and_grad(f)(x)[0] == plain(x)
for derivative in (tracker.gradient, tracker.hessian, tracker.jacobian):
    np.testing.assert_array_equal(derivative(f, x), derivative(plain, x))
assert np.allclose(tracker.jit(lambda x: tracker.gradient(f, x)[0])(x), 2 * np.cos(x))
assert tracker.fori_loop(0, 30_000, lambda i, y: y + i, 0.0) == 30_000 * 29_999 / 2
assert "sin" in str(tracker.trace(f, x))
assert f.cache_info() == (0, 0, 0, 0) and repr(f) == "<jitted f>" and not f.clear_cache()
assert pickle.dumps(f)
strict = tracker.jit(lambda x: x, strict=True)
assert "f runs in plain Python" in f.explain(x)
assert str(one.message).partition(": ")[2] in f.explain(x), f.explain(x)
for refused in (f.ir, f.llvm, f.asm, f.profile, strict, lambda x: tracker.export(f, x, path="f")):
    try:
        refused(x)
    except tracker.CompileError as error:
        assert str(one.message).partition(": ")[2] in str(error), error
    else:
        raise AssertionError(refused)
"""


@pytest.mark.parametrize(
    "place", PLACES, ids=["no llvmlite", "no lock", "build", "another", "Windows", "layout"]
)
def test_everything_runs_in_plain_python(place):
    done = fresh_python.run(PROGRAM.replace("{place}", place))
    assert done.stderr == ""
    assert done.stdout.startswith("f and all other jitted functions run in plain Python: ")
    assert PLACES[place] in done.stdout and done.stdout.count("\n") == 1


def offsets():
    names = "TYPE SIZE VALUE ITEMS CELL_CONTENTS TYPE_FLAGS DATA NDIM DIMS STRIDES DESCR FLAGS KIND"
    versions = ["DICT_VERSION"] if loader.cpython_layout.HAS_DICT_VERSIONS else []
    return [*names.split(), "BYTEORDER", "TYPE_NUMBER", "ITEMSIZE", *versions]


@pytest.mark.parametrize("by", [-8, 4, 8, 16, 1 << 40])
@pytest.mark.parametrize("name", offsets())
def test_each_wrong_offset_is_found(monkeypatch, name, by):
    monkeypatch.setattr(loader.cpython_layout, name, getattr(loader.cpython_layout, name) + by)
    with pytest.raises(CompileError, match=r"lays out .*\. Upgrade tracker"):
        loader.verify_layout()


@pytest.mark.parametrize("name", loader.cpython_layout.FUNCTION_FIELDS)
def test_each_wrong_offset_of_a_function_is_found(monkeypatch, name):
    fields = loader.cpython_layout.FUNCTION_FIELDS
    monkeypatch.setitem(fields, name, fields[name] + 8)
    with pytest.raises(CompileError, match=f"lays out function {name} "):
        loader.verify_layout()


def test_a_wrong_offset_of_the_version_of_classes_is_found(monkeypatch):
    monkeypatch.setattr(class_guard, "VERSION_TAG_OFFSET", class_guard.VERSION_TAG_OFFSET + 16)
    check = class_guard.has_reliable_version_tags.__wrapped__
    monkeypatch.setattr(loader, "has_reliable_version_tags", check)
    with pytest.raises(CompileError, match="lays out class version "):
        loader.verify_layout()


def test_an_invalid_pointer_is_not_followed():
    assert loader._read_memory(8, 16) == loader._read_memory(2**63, 16) == b""
    array = np.arange(3)
    assert loader._read_memory(array.ctypes.data, 24) == array.tobytes()


def test_an_import_error_of_another_module_is_raised(monkeypatch):
    def import_module(_):
        raise ImportError("no", name="tracker.jit.wrong")

    monkeypatch.setattr(availability.importlib, "import_module", import_module)
    with pytest.raises(ImportError, match="no"):
        availability._why_llvm_unavailable.__wrapped__()
