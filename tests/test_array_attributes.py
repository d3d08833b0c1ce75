"""What tracked arrays say of themselves, as arrays do, and what cannot be set or deleted."""

import numpy as np
import pytest
from outcomes import outcomes

import tracker
import tracker.numpy as tnp
from tracker import ConversionError, gradient, jit, param

A = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("x", [A, A.T, A[:, ::2], np.array(2.5), np.zeros((0, 3))])
def test_flags_are_those_of_the_array_inside(x):
    t = param(x)
    flags = t.data.flags
    assert t.flags.c_contiguous == flags.c_contiguous
    assert t.flags["F_CONTIGUOUS"] == flags["F_CONTIGUOUS"]
    assert t.flags.writeable


def test_the_base_is_the_array_of_which_it_is_a_view():
    t = param(A)
    assert t.base is None
    assert (t * 1).base is None
    assert t[0].base is t
    assert t[0][1:].base is t
    assert t.T.reshape(2, 3, order="F").base is t
    assert t[[0, 1]].base is None
    assert tracker.jit(lambda x: x[0].base is x)(A.copy())


def test_generic_code_finds_its_namespace():
    def f(x):
        xp = x.__array_namespace__()
        y = xp.zeros(x.shape[0], dtype=x.dtype, device=x.device)
        for i in range(x.shape[0]):
            y[i] = xp.sum(xp.exp(x[i]))
        return xp.sum(xp.asarray(y).to_device("cpu"))

    want = np.sum(np.exp(A))
    np.testing.assert_allclose(f(A), want)
    for g in (f, tracker.jit(f)):
        value, (slope,) = tracker.withgradient(g, A)
        np.testing.assert_allclose(value, want)
        np.testing.assert_allclose(slope, np.exp(A))
    assert param(A).__array_namespace__(api_version="2023.12") is tnp
    with pytest.raises(ValueError):
        param(A).__array_namespace__(api_version="1066.10")
    with pytest.raises(ValueError, match="gpu"):
        param(A).to_device("gpu")


def test_dlpack_exports_where_no_gradient_is_lost():
    with pytest.raises(ConversionError, match=r"tracker\.data"):
        np.from_dlpack(param(A))
    assert param(A).__dlpack_device__() == A.__dlpack_device__()

    def f(x):
        assert np.from_dlpack(tnp.ones(3)).tolist() == [1, 1, 1]
        return np.sum(x)

    tracker.gradient(f, A)


@pytest.mark.parametrize("name", ["T", "mT", "base", "device", "flags"])
def test_attributes_that_cannot_be_set(name):
    with pytest.raises(AttributeError):
        setattr(param(A), name, A)


def test_a_real_array_has_no_imaginary_part_to_set():
    t = param(A) * 1
    with pytest.raises(TypeError, match="imag"):
        t.imag = 1.0
    z = t + 1j * t
    z.imag = 2.0
    np.testing.assert_array_equal(z.data, A + 2j)


def test_locking_changes_no_derivative():
    def f(x):
        y = np.exp(x)
        y.setflags(write=False)
        x.setflags(False)
        return np.sum(y)

    a = A.copy()
    np.testing.assert_allclose(gradient(f, a)[0], np.exp(A))
    assert a.flags.writeable
    with pytest.raises(ValueError, match="WRITEBACKIFCOPY"):
        param(A).setflags(uic=True)
    with pytest.warns(RuntimeWarning, match="the flags of a traced array are set"):
        assert jit(f)(a) == f(A.copy())
    assert not a.flags.writeable


@pytest.mark.parametrize("x", [A, np.array(2.5), np.float64(2.5), 2.5])
def test_elements_are_not_deleted(x):
    with pytest.raises((ValueError, TypeError)) as plain:
        del x[0]
    with pytest.raises(plain.type):
        t = param(x)
        del t[0]


@pytest.mark.parametrize("x", [np.float64(2.5), 2.5])
def test_a_number_contains_nothing(x):
    with pytest.raises(TypeError, match="not iterable"):
        2.5 in param(x)  # noqa: B015
    assert 2.5 in param(np.array(x))


def test_writing_the_real_part_keeps_the_imaginary_part():
    infinite = np.array([np.inf, 1.0, -np.inf, np.nan])

    def f(z, a):
        z.real = a
        w = z.copy()
        w.imag = a[::-1]
        return z, w, np.nan_to_num(w, nan=1.0, posinf=np.inf)

    want = f(infinite[::-1] + 0j, infinite)
    compiled = jit(f)
    for call in lambda z, a: tracker.data(f(param(z), a)), compiled, compiled:
        got = call(infinite[::-1] + 0j, infinite)
        for a, b in zip(want, got, strict=True):
            np.testing.assert_array_equal(np.real(tracker.data(b)), np.real(a))
            np.testing.assert_array_equal(np.imag(tracker.data(b)), np.imag(a))
    (slope,) = gradient(
        lambda z: np.sum(np.sqrt(np.imag(z))), np.array([0j, 4j]), check_finite=False
    )
    assert slope.real.tolist() == [0.0, 0.0]
    assert slope.imag.tolist() == [np.inf, 0.25]


PARTS = [
    "y.imag[...] = 2", "y.imag = 2", "y.imag += 1", "y.imag.fill(2)", "y.imag.sort()",
    "y.imag.T[...] = 1", "y.imag.flat[0] = 1", "np.imag(y)[...] = 2", "np.copyto(y.imag, 1)",
    "np.put(y.imag, [0], 1)", "np.add(y.imag, 1, out=y.imag)", "y.real = 2", "y.real = 1j",
    "y.real += 1", "np.real(y)[...] = 2", "y.shape = (1,)", "y.fill(3)", "y.put(0, 5)",
    "y.flat[0] = 3", "np.put(y, 0, 5)", "np.add.at(y, (), 1)", "y[...] = 1",
]  # fmt: skip
HAVE_PARTS = [
    *(np.arange(3.0), np.arange(3, dtype="f4"), np.arange(3.0) + 1j, np.array([1.5])),
    *(np.array(1.0), np.array(1 + 1j), np.float64(2.0), np.complex64(2 + 1j)),
]


@pytest.mark.parametrize("write", PARTS)
@pytest.mark.parametrize("x", HAVE_PARTS, ids=repr)
def test_parts_and_numbers_are_written_into_as_in_numpy(x, write):
    made = {}
    exec(f"def f(y):\n    {write}\n    return y * 1.0, y.real * 1.0, y.imag * 1.0", globals(), made)
    plain, *ours = outcomes(made["f"], x)
    assert ours == [plain] * 3


@pytest.mark.parametrize("x", [np.float64(2.0), np.complex64(2 + 1j)], ids=repr)
def test_resizing_a_numpy_scalar_does_nothing(x):
    plain, *ours = outcomes(lambda x: x.resize((2,)) or x * 1, x)
    assert ours == [plain] * 3


@pytest.mark.parametrize("x", [1.5, 1j])
@pytest.mark.parametrize("name", ["real", "imag"])
def test_the_parts_of_a_number_of_python_are_not_set(x, name):
    assert outcomes(lambda x: setattr(x * 1, name, 2), x) == (AttributeError,) * 4


def test_messages_of_refused_writes():
    with pytest.raises(ValueError, match=r"assignment destination is read-only. Write into a copy"):
        param(A).imag[...] = 2
    with pytest.raises(TypeError, match="array does not have imaginary part to set"):
        param(A).imag = 2
    with pytest.raises(AttributeError, match=r"attribute 'real' of 'numpy.generic' objects is not"):
        (param(A[0]) @ A[0]).real = 2
    with pytest.raises(AttributeError, match="'shape' of 'float' objects is not writable"):
        param(2.0).shape = (1,)
    with pytest.raises(TypeError, match=r"'numpy.float64' object does not support item assignment"):
        (param(A[0]) @ A[0])[...] = 1.0
