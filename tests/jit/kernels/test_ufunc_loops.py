"""Compiled code calls the inner loops of SciPy's own ufuncs."""

from pathlib import Path
from types import SimpleNamespace

import fresh_python
import numpy as np
import pytest
import scipy.special as sc
from equality import assert_same

from tracker import CompileError, gradient, jit, trace
from tracker.jit.abi import loader
from tracker.jit.export import object_file
from tracker.jit.runtime import ufunc_loops
from tracker.jit.scalar.emitter import Emitter
from tracker.jit.schedule.cost import _OpProbe, is_math

X = np.linspace(0.1, 0.9, 7)
MANY = np.linspace(0.1, 0.9, 600)
CALLS = {
    "one": lambda x: sc.spence(x),
    "two": lambda x: sc.gammainc(x + 1, 2.5),
    "three": lambda x: sc.betainc(2.0, x, 0.25),
    "several results": lambda x: sc.airy(x),
    "of complex numbers": lambda x: sc.wofz(x + 1j),
    "of which we have the real form": lambda x: sc.psi(x + 1j),
    "several complex results": lambda x: sc.airy(x * 1j),
    "an integer": lambda x: sc.kn(2, x),
    "any zeta": lambda x: sc.zeta(x + 2, 1.5),
    "a number": lambda x: sc.jv(0.5, x[3]),
    "an array of no axes": lambda x: sc.jv(np.sum(x), x[3]),
    "inside another loop": lambda x: np.sum(sc.gammaincc(x[:, None], x) ** 2, axis=0),
    "a value beside them": lambda x: sc.gammainc(x[0], x),
    "a table": lambda x: sc.gammaincc(x[: len(x) // 2, None], x[: len(x) // 3]),
    "not in C order": lambda x: sc.jv(np.tile(x, (2, 1)).T, np.tile(x, 2).reshape(-1, 2)[::-1]),
    "inside of sums": lambda x: np.sum(sc.j0(x) * x),
    "a derivative": lambda x: gradient(lambda x: np.sum(sc.j0(x) * sc.betaln(x, 2.0)), x)[0],
}
ROUNDED = "inside another loop", "inside of sums", "a derivative"


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("x", [X, MANY], ids=["few elements", "many"])
@pytest.mark.parametrize("name", CALLS)
def test_values_equal_scipys(name, x, dtype):
    """Calls of many elements are one call of the inner loop."""
    f, x = CALLS[name], x.astype(dtype)
    compiled = jit(f)
    first, want = compiled(x), f(x)
    assert_same(first, want)
    rounds = name in ROUNDED or len(x) > len(X)
    assert_same(compiled(x), want, tolerance=(1e-6 if dtype == np.float32 else 1e-12) * rounds)
    assert "one native call" in compiled.explain(x)


def test_equal_calls_are_one():
    compiled = jit(lambda x: sc.spence(x) + sc.spence(x))
    compiled(X)
    assert_same(compiled(X), 2 * sc.spence(X), tolerance=0)


def test_gradients():
    def loss(a, x):
        return np.sum(sc.betainc(a, 2.0, x) + sc.gammainc(a, x))

    a = np.linspace(0.5, 2.0, 7)
    compiled = jit(lambda a, x: gradient(loss, a, x))
    compiled(a, X)
    assert_same(compiled(a, X), gradient(loss, a, X), tolerance=1e-12)


def test_a_long_python_loop():
    def f(x):
        for i in range(300):
            x = sc.gammainc(x + 1, 0.5 + 0.01 * i)
        return x

    compiled = jit(f)
    compiled(0.3)
    assert_same(compiled(0.3), f(0.3), tolerance=1e-14)


def test_scipys_error_settings_are_respected():
    compiled = jit(lambda x: sc.spence(x))
    compiled(X)
    assert np.isnan(compiled(-X)).all()
    with sc.errstate(all="raise"), pytest.raises(sc.SpecialFunctionError, match="spence"):
        compiled(-X)
    with sc.errstate(all="warn"), pytest.warns(sc.SpecialFunctionWarning, match="spence"):
        assert np.isnan(compiled(-X)).all()
    assert_same(compiled(X), sc.spence(X), tolerance=0)


def test_export_rejects_ufunc_loops(tmp_path):
    with pytest.raises(CompileError, match="calls the ufunc spence, which cannot go"):
        object_file.export(lambda x: np.sum(sc.spence(x)), X, path=tmp_path / "f", name="f")


def test_a_missing_loop():
    with pytest.raises(CompileError, match="no loop for dd"):
        ufunc_loops.find(sc.spence, [np.dtype(float)] * 2)
    python = np.frompyfunc(lambda x: x, 1, 1)
    with pytest.raises(CompileError, match="no loop for O"):
        ufunc_loops.find(python, [np.dtype(object)])


def test_ufuncs_of_one_name_are_distinct():
    own, scipys = (ufunc_loops.find(module.log1p, [np.dtype(float)]) for module in (np, sc))
    assert own is ufunc_loops.find(np.log1p, [np.dtype(float)])
    assert own.symbol != scipys.symbol
    addresses = loader.loop_symbols([own, scipys])
    assert addresses[own.symbol] != addresses[scipys.symbol]


def test_a_ufunc_of_another_struct_layout_is_not_called(monkeypatch):
    nothing = loader._Ufunc.from_buffer_copy(bytes(200))
    monkeypatch.setattr(loader, "_Ufunc", SimpleNamespace(from_address=lambda _: nothing))
    with pytest.raises(CompileError, match="lays out <ufunc 'spence'> in an unknown way"):
        loader.loop_symbols([ufunc_loops.find(sc.spence, [np.dtype(float)])])


def test_cached_code_binds_loops_in_another_process(tmp_path):
    program = (
        "import numpy as np, scipy.special as sc, tracker\n"
        "f = tracker.jit(lambda x: sc.spence(x)); x = np.array([0.25, 0.5])\n"
        "f(x); assert (f(x) == sc.spence(x)).all()\n"
    )
    places = {"PYTHONPATH": str(Path(__file__).parents[3]), "TRACKER_CACHE_DIR": str(tmp_path)}
    for _ in range(2):
        fresh_python.run(program, **places, TRACKER_CACHE="1")
    assert list(tmp_path.glob("*/*.o"))


def test_called_ufuncs_cost_as_much_as_math_functions():
    (eqn,) = trace(lambda x: sc.gammainc(x, 2.5), np.ones(4)).eqns
    assert is_math(eqn)


def test_the_cost_model_looks_at_methods_that_emitters_have():
    overridden = {name for name, x in vars(_OpProbe).items() if callable(x) and name[0] != "_"}
    assert overridden <= set(dir(Emitter))
