"""Programs in plain NumPy, differentiated and compiled: as they are, and with only their import
line changed."""

import array
import types
from pathlib import Path

import numpy as np
import numpy_programs
import pytest

import tracker
from tracker import gradient, hessian, jit, jvp, value_and_grad
from tracker.testing import ngradient

SOURCE = Path(numpy_programs.__file__)


def changed():
    """The programs with `import tracker.numpy as np`."""
    text = SOURCE.read_text()
    assert text.count("\nimport numpy as np\n") == 1
    module = types.ModuleType("programs")
    text = text.replace("\nimport numpy as np\n", "\nimport tracker.numpy as np\n")
    exec(compile(text, str(SOURCE), "exec"), module.__dict__)
    return module


MODULE = changed()
CASES = [
    pytest.param(plain, getattr(module, plain.__name__), np.array(x), id=f"{plain.__name__}-{how}")
    for plain, x in numpy_programs.PROGRAMS.items()
    for how, module in (("unchanged", numpy_programs), ("drop-in", MODULE))
]


@pytest.mark.parametrize(("plain", "ours", "x"), CASES)
def test_program(plain, ours, x):
    want = plain(x)
    result = ours(x)
    assert type(result) is type(want) and result == want  # not differentiated: NumPy's own
    (slope,) = gradient(ours, x)
    np.testing.assert_allclose(slope, ngradient(plain, x)[0], rtol=1e-5, atol=1e-7)
    v = np.linspace(-1.0, 1.0, x.size)
    np.testing.assert_allclose(jvp(ours, (x,), (v,))[1], slope @ v, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("plain", "ours", "x"), CASES)
def test_program_compiled(plain, ours, x):
    fast = jit(ours)
    both = value_and_grad(fast)
    for factor in (1.0, 1.0, 1.03):
        np.testing.assert_allclose(fast(x * factor), plain(x * factor), rtol=1e-12)
        value, slope = both(x * factor)
        np.testing.assert_allclose(value, plain(x * factor), rtol=1e-12)
        np.testing.assert_allclose(slope, gradient(ours, x * factor)[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("module", [numpy_programs, MODULE], ids=["unchanged", "drop-in"])
@pytest.mark.parametrize("name", ["euler", "stiffness", "kalman", "spline", "kinematics"])
def test_program_twice_differentiated(name, module):
    plain, ours = getattr(numpy_programs, name), getattr(module, name)
    x = np.array(numpy_programs.PROGRAMS[plain])
    curvature = hessian(ours, x)
    differences = [
        (gradient(ours, x + 1e-5 * e)[0] - gradient(ours, x - 1e-5 * e)[0]) / 2e-5
        for e in np.eye(x.size)
    ]
    np.testing.assert_allclose(curvature, differences, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(jit(lambda x: hessian(ours, x))(x), curvature, rtol=1e-9, atol=1e-12)


def test_programs_run_natively():
    """Allocation and writes stay in machine code."""
    for name in ("euler", "heat", "laplace", "kinematics", "viterbi", "kalman", "bodies", "wave"):
        plain = getattr(numpy_programs, name)
        x = np.array(numpy_programs.PROGRAMS[plain])
        strict = jit(getattr(MODULE, name), strict=True)
        np.testing.assert_allclose(tracker.value_and_grad(strict)(x)[0], plain(x), rtol=1e-12)


MEMORY = {  # functions that return memory that they were given
    "frombuffer": np.frombuffer,
    "asarray": np.asarray,
    "ascontiguousarray": np.ascontiguousarray,
    "require": lambda given: np.require(given, float, "W"),
    "nan_to_num": lambda given: np.nan_to_num(np.asarray(given), copy=False),
    "meshgrid": lambda given: np.meshgrid(np.asarray(given), copy=False)[0],
}


@pytest.mark.parametrize("view", MEMORY.values(), ids=MEMORY)
def test_writes_reach_memory_of_others(view):
    def f(x):
        memory = array.array("d", [1.0, 2.0])
        view(memory)[0] = 5.0
        return memory[0] * x

    assert gradient(f, 2.0) == (5.0,)
    assert jit(f)(2.0) == f(2.0) == 10.0


def test_tracked_values_are_not_stored_in_memory_of_others():
    def f(x):
        y = np.frombuffer(bytearray(16))
        y[0] = x
        return y

    with pytest.raises(tracker.ConversionError, match=r"plain array.*np\.zeros_like\(t\)"):
        gradient(f, 2.0)
