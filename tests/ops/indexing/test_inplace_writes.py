"""Writes into tracked arrays: NumPy's numbers, NumPy's aliasing, and the right gradient."""

import operator

import numpy as np
import pytest
from aliasing_programs import ARRAYS, PROGRAMS, run, total
from compare_writes import same_as_numpy
from hypothesis import given
from tables import functions

import tracker
from tracker import gradient, jit, jvp, param
from tracker.testing import gradcheck, numerical_jvp


@given(PROGRAMS, ARRAYS)
def test_random_programs_give_numpys_numbers(program, x):
    wanted: list = []
    errors: list = []
    plain = run(program, x.copy(), wanted)
    found = run(program, param(x), errors)
    assert errors == wanted
    for a, b in zip(found, plain, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(tracker.data(a), b, rtol=1e-12, atol=1e-12)


@given(PROGRAMS, ARRAYS)
def test_random_programs_have_the_right_gradient(program, x):
    def f(a):
        return total(run(program, a.copy()))

    before = x.copy()
    (g,) = gradient(lambda a: total(run(program, a)), x)
    t = np.cos(np.arange(x.size) * 2.0).reshape(x.shape)
    (slope,) = numerical_jvp(lambda a: [f(a)], [x], [t])
    assert np.sum(g * t) == pytest.approx(slope, rel=1e-5, abs=1e-6)
    assert jvp(lambda a: total(run(program, a)), (x,), (t,))[1] == pytest.approx(np.sum(g * t))
    np.testing.assert_array_equal(x, before)


# Cases --------------------------------------------------------------------------------------------


V = np.array([0.5, -1.0, 2.0])
M = np.array([[0.1, 0.7, -0.3], [1.1, -0.4, 0.9]])
Z = np.array([1 + 2j, 0.5 - 1j])


class OfMatrices:
    def view_of_view(a):
        row = a[1]
        row[1:][0] = row[0] * 3
        return a * a

    def transposed_view(a):
        t = a.T
        t[0] *= 2
        t[2, 1] = a[0, 0] * a[1, 1]
        return a * a.T.sum()

    def reshaped_view(a):
        flat = a.reshape(-1)
        flat[1:4] = flat[1:4] ** 2
        a.ravel()[-1] = flat[0]
        return a * 2

    def reshape_that_copies(a):
        copy = a.T.reshape(-1)
        copy[:] = 0.0
        return a + copy.sum()

    def ravel_that_copies(a):
        copy, view = a[0, ::-1].ravel(), a[0, ::-1].reshape(-1)
        a[0] = 1.0
        view[0] = 3.0
        return a + copy.sum() * view

    def both_views(a):
        top, left = a[0], a[:, 0]
        top += left[1]
        left *= top[0]
        return a * top[1]

    def swapped_rows(a):
        a[0], a[1] = a[1], a[0]
        return a

    def masks(a):
        a[a < 0] *= a[a < 0]
        a[np.array([True, False]), 1:] = a[1, 0]
        a[a > 1] = 0.5
        return a

    def broadcast_values(a):
        y = np.ones_like(a)
        y[:, 1:] = a[:, :1]
        y[..., 0] = a[0, 0]
        y[None, 1] = a[0] * y[0]
        return y

    def integer_reads_copy(a):
        part = a[[0, 1]]
        part[:] = 0.0
        return a + part

    def functions(a):
        np.copyto(a[0], a[1], where=[True, False, True])
        np.put(a, [0, -1], [2.0, a[0, 1]] if not tracker.istracked(a) else np.stack([2.0, a[0, 1]]))
        np.putmask(a, a < 0, a * a)
        np.fill_diagonal(a, a[1, 2])
        return a

    def methods(a):
        b = a.copy()
        b.sort(axis=0)
        b.T.sort()
        b.put([1], a[0, 0])
        c = np.zeros_like(a)
        c.fill(a[1, 1])
        return b * c + a

    def flat_writes_of_fewer(a):
        a.flat[::2] = [a[0, 0] ** 2, a[0, 1]]
        a.flat[[0, 1, 4]] = a[1, :2] * 2
        return a

    def flat_writes(a):
        a.T.flat[1] = a[0, 1] ** 2
        a.flat[::2] *= 3
        return a

    def outs(a):
        assert np.exp(a, out=a) is a
        np.add(a[0], a[1], out=(a[0],))
        np.multiply(a, 2, out=a, where=a > 1)
        np.sum(a, axis=0, out=a[1])
        return a

    def placed(a):
        np.place(a, a < 0, a[1, :2] ** 2)
        np.put_along_axis(a, np.array([[2], [0]]), a[:, :1] * 3, axis=1)
        np.put_along_axis(a, np.array([4, 1, 4]), a[0], axis=None)
        return a

    def views_without_dimensions(a):
        whole = a.view()
        whole[0, 0] *= 2
        one = a[0, 1, ...]
        one[...] = one * a[1, 1] + 2
        two = a[..., 1, 2]
        two += one
        scalar = np.zeros((), like=a) if tracker.istracked(a) else np.zeros(())
        scalar[...][()] = two
        return a * one * two + scalar

    def read_and_written(a):
        """Reads of recent and of older writes, between other writes."""
        y = np.zeros_like(a[0])
        y[0] = a[0, 0]
        kept = y * 2
        y[1] = y[0] * a[0, 1]
        y[0] = y[0] + y[1]
        tail = y[1:]
        y[2] = y[-2] * y[0] + tail[0]
        tail[0] = y[2] ** 2
        y[1] += y[1]
        return np.stack([y * kept, y + tail[1]])

    def partitioned(a):
        a.T.partition(1)
        a.partition(1, axis=1)
        return a * np.arange(6.0).reshape(2, 3)

    def at_repeated_places(a):
        b = a[0] * 1.0
        np.multiply.at(b, [0, 1, 0, 0], a[1, [0, 1, 2, 0]])
        np.maximum.at(b, [1, 2, 1], a[1])
        np.negative.at(b, np.array([2, 2, 1]))
        np.subtract.at(b, (slice(1),), 2 * a[0, 0])
        np.divide.at(b, slice(1, 2), a[0, 0])
        np.add.at(b, (np.array([1, 1]),), a[1, 1])
        np.power.at(a, ([0, 1, 0], [0, 2, 0]), 2)
        return a * b

    def written_over_itself(a):
        b = np.exp(a)
        b[::-1] = b
        b[:, ::-1] = b
        return np.sin(b) * np.arange(6.0).reshape(2, 3)


class OfVectors:
    def swapped_elements(a):
        a[0], a[1] = a[1], a[0]
        return a * np.arange(1.0, 4.0)

    def overlapping(a):
        a[1:] = a[:-1] * 2
        a[:-1] += a[1:]
        return a

    def recurrence(a):
        y = np.zeros_like(a)
        y[0] = a[0]
        for i in range(1, len(a)):
            y[i] = 0.5 * y[i - 1] + a[i] ** 2
        return y

    def repeated_places(a):
        y = np.zeros_like(a)
        y[np.array([0, 1, 0])] = a
        return y * a


def complex_parts(z):
    z.real[0] = 3.0
    z.imag *= 2
    z.real[:] = z.imag
    return z * z


def augmented(a):
    a += 1
    a -= a / 3
    a *= a
    a /= 2 + a
    a **= 2
    a[0] //= 0.3
    a[1] %= 0.2
    return a


@pytest.mark.parametrize("f, x", [
    *((f, M) for f in functions(OfMatrices).values()),
    *((f, V) for f in functions(OfVectors).values()),
    (complex_parts, Z), (augmented, np.abs(M)),
], ids=lambda f: getattr(f, "__name__", ""))  # fmt: skip
def test_case(f, x):
    same_as_numpy(f, x, order=2)


def test_an_unshared_array_is_filled_in_place():
    def address(t):
        return t._value.data.__array_interface__["data"][0]

    t = param(np.arange(1.0, 6.0))
    y = np.zeros_like(t)
    y[0] = t[0]
    own = address(y)
    for i in range(1, 5):
        y[i] = t[i] * y[i - 1] + 1.0
    assert address(y) == own
    seen = y.data  # now somebody sees it
    y[0] = 7.0
    assert address(y) != own
    assert seen[0] == 1.0
    half = y * 0.5  # what was recorded keeps its numbers
    y[1] = 9.0
    assert half._value.operands[0].data[1] == 3.0
    assert y.data.tolist() == [7.0, 9.0, 10.0, 41.0, 206.0]


def test_an_array_without_views_can_be_resized():
    def f(a):
        a = a * 2
        a.resize((2, 2), refcheck=False)
        return a**2

    same_as_numpy(f, V)


@pytest.mark.parametrize("write", [
    lambda plain, t: np.place(plain, [True, False, False], t),
    lambda plain, t: np.put_along_axis(plain, np.array([0]), t[:1], 0),
    lambda plain, t: np.put(plain, [0], t),
    lambda plain, t: np.putmask(plain, [True, False, False], t),
    lambda plain, t: np.copyto(plain, t),
    lambda plain, t: np.multiply.at(plain, [0], t[0]),
])  # fmt: skip
def test_tracked_values_do_not_go_into_plain_arrays(write):
    before = V.copy()
    with pytest.raises(tracker.ConversionError, match="like=t"):
        write(V, param(V))
    np.testing.assert_equal(V, before)


@pytest.mark.parametrize("write", [
    lambda plain, at: np.put(plain, at, 2.0),
    lambda plain, at: np.put(plain, [at[1], at[0]], [3.0, 4.0]),
    lambda plain, at: np.put_along_axis(plain, at, 2.0, 0),
    lambda plain, at: np.add.at(plain, at, [1.0, 2.0]),
    lambda plain, at: np.multiply.at(plain, (at,), 0.0),
    lambda plain, at: np.place(plain, np.isin([0, 1, 2], at), [2.0]),
    lambda plain, at: np.putmask(plain, np.isin([0, 1, 2], at), 2.0),
    lambda plain, at: np.copyto(plain, 2.0, where=np.isin([0, 1, 2], at)),
])  # fmt: skip
def test_tracked_indices_may_select_writes_to_plain_arrays(write):
    def weighted(at, x):
        plain = np.ones(3)
        write(plain, at)
        return np.sum(plain * x)

    places, plain = np.array([2, 0]), np.ones(3)
    write(plain, places)
    for derivative in (lambda *a: gradient(weighted, *a), jit(lambda *a: gradient(weighted, *a))):
        none, got = derivative(places, V)
        assert none is None
        np.testing.assert_array_equal(got, plain)


@pytest.mark.parametrize("n", [3, 3000])
@pytest.mark.parametrize("derive", [
    lambda f, x: gradient(f, x),
    lambda f, x: jvp(f, (x,), (np.ones_like(x),)),
    lambda f, x: gradient(lambda a: np.sum(gradient(f, a)[0]), x),
    lambda f, x: tracker.jit(f)(x),
])  # fmt: skip
def test_read_only_arguments_stay_read_only(derive, n):
    def f(a):
        a[0] = 1.0
        return np.sum(a * a)

    x = np.zeros(n)
    derive(f, x.copy())
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        derive(f, x)
    derive(lambda a: np.sum(a.copy() ** 2), x)


CAPTURED = {
    "a factor": lambda t, c: t * c,
    "a product": lambda t, c: c.reshape(-1, 3) @ t[:3],
    "a mask": lambda t, c: np.where(c > 1, t, t * 2),
    "places": lambda t, c: t[c.astype(int)[:3] % 3] * t[:3],
    "an exponent": lambda t, c: t**c,
    "a bound": lambda t, c: np.maximum(t, c),
    "a view of it": lambda t, c: t * c[::-1].reshape(c.shape),
}


@pytest.mark.parametrize("n", [3, 3000])
@pytest.mark.parametrize("name", CAPTURED)
def test_a_captured_array_may_change_after_use(name, n):
    use, x = CAPTURED[name], np.linspace(0.5, 1.5, n)

    def f(t, change):
        c = np.linspace(0.7, 2.1, n)
        y = use(t, c)
        if change:
            c[:] = 99.0
        return np.sum(y * y)

    np.testing.assert_array_equal(
        gradient(lambda t: f(t, True), x)[0], gradient(lambda t: f(t, False), x)[0]
    )


def test_buffers_take_gradients():
    def f(a, b):
        out = np.zeros((2, 3), like=a)
        out[0] = a
        out[1] = b * out[0]
        scalar = np.zeros((), like=a)
        scalar[...] = b
        full = np.full(3, 2.0, like=a)
        full[1] = b
        return out * scalar + full

    a, b = param(V), param(2.0)
    np.testing.assert_allclose(f(a, b).data, np.stack([V, 2 * V]) * 2 + [2, 2, 2])
    tracker.back(np.sum(f(a, b)))
    np.testing.assert_allclose(a.grad, np.full(3, 2.0 + 4.0))
    assert b.grad == pytest.approx(V.sum() + 2 * 2 * V.sum() + 2)


def test_scalars_written_into_float32_stay_float32():
    def f(a, s):
        y = np.zeros_like(a)
        y[:] = s
        y += a * s
        return y

    y = f(param(V.astype(np.float32)), param(2.0))
    assert y.dtype == np.float32
    ga, gs = gradient(lambda a, s: np.sum(f(a, s)), V.astype(np.float32), 2.0)
    assert ga.dtype == np.float32
    assert gs == pytest.approx(3 + V.sum())
    assert type(gs) is float


def test_a_write_gives_the_array_a_new_value():
    x = param(V)
    before = x * 1.0
    kept = x.data
    x[0] = 100.0
    assert kept[0] == 0.5
    assert before.data[0] == 0.5
    assert x.data[0] == 100.0
    with pytest.raises(ValueError, match="read-only"):
        kept[0] = 1.0


def test_a_plain_array_changed_after_use_does_not_change_the_gradient():
    for n in (3, 3000):
        x, c = np.ones(n), np.full(n, 2.0)

        def f(t, c=c):
            y = t * c
            c[:] = 99.0
            z = y * c
            c[:] = 2.0
            return np.sum(z)

        np.testing.assert_allclose(gradient(f, x)[0], np.full(n, 198.0))


def test_update_is_seen_by_views():
    x = param(V)
    part = x[1:]
    tracker.update(x, np.ones(3))
    assert part.data.tolist() == [0.0, 3.0]


def test_rebinding_a_name_is_fine():
    def f(t):
        total = np.ones(3, np.float32)
        for i in range(3):
            total += t * (i + 1)
            total *= 2
            total[i] += t[i]
        rest = np.zeros(3)
        rest -= t
        rest[:2] /= total[1:]
        return total * rest

    found = f(param(V))
    assert tracker.istracked(found)
    np.testing.assert_allclose(found.data, f(V), rtol=1e-6)
    assert f(param(V.astype(np.float32))).dtype == f(V).dtype
    assert gradcheck(f, V, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("write, error, text", [
    (lambda a: a.__setitem__(3, 1.0), IndexError, "out of bounds"),
    (lambda a: a.__setitem__((0, 0), 1.0), IndexError, "too many indices"),
    (lambda a: a.__setitem__(slice(None), [1.0, 2.0]), ValueError, "broadcast"),
    (lambda a: a.__setitem__(0, 1j), TypeError, "complex"),
    (lambda a: a.__setitem__("x", 1.0), IndexError, "valid indices"),
    (lambda a: a.__iadd__(np.ones((2, 3))), ValueError, r"shape \(3,\)"),
    (lambda a: a.__imul__(1j), TypeError, "same_kind"),
    (lambda a: np.add(a, np.ones((2, 3)), out=a), ValueError, r"shape \(3,\)"),
    (lambda a: np.add(a, 1j, out=a), TypeError, "same_kind"),
    (lambda a: np.place(a, V > 0, []), ValueError, "empty"),
    (lambda a: a.resize(6), ValueError, "referenced by another array"),
    (lambda a: a[1:].resize(2), ValueError, "does not own"),
    (lambda a: operator.iadd(np.ones(3, int), a), TypeError, "same_kind"),
    (lambda a: operator.iadd(np.ones(1), a), ValueError, "shape"),
    (lambda a: param(2.0).__setitem__(0, 1.0), TypeError, "item assignment"),
])  # fmt: skip
def test_a_refused_write_changes_nothing(write, error, text):
    x = param(V)
    part = x[1:]
    for target in (x, part[:]):
        if target is not x and text not in ("complex", "valid indices"):
            continue
        with pytest.raises(error, match=text):
            write(target)
    assert x.data.tolist() == V.tolist()
    assert part.data.tolist() == V[1:].tolist()
    assert tracker.isleaf(x)


@pytest.mark.parametrize("write", [
    lambda a, z: a.__setitem__(slice(None), z),
    lambda a, z: a.__setitem__([0, 2], z[0]),
    lambda a, z: a.__setitem__(a > 0, z[1]),
    lambda a, z: a.fill(z[1]),
    lambda a, z: a.put([0, 1], z),
    lambda a, z: np.copyto(a, z, casting="unsafe"),
])  # fmt: skip
def test_writes_of_complex_values_keep_the_real_parts(write):
    """With NumPy's warning."""

    def f(x, z):
        a = x * 1
        write(a, z)
        return a

    z, want = V + 1j * V, f(V, np.real(V + 1j * V))
    with pytest.warns(np.exceptions.ComplexWarning):
        assert f(V, z).tolist() == want.tolist()
    with pytest.warns(np.exceptions.ComplexWarning):
        assert jit(f)(V, z).tolist() == want.tolist()
    with pytest.warns(np.exceptions.ComplexWarning):
        assert gradcheck(f, V, z)


@pytest.mark.parametrize("kind", [float, complex])
def test_a_written_integer_has_a_real_gradient(kind):
    def loss(a, n):
        a = a * 1
        a[...] = n
        return np.sum(np.real(a) + 2 * np.imag(a))

    for g in (gradient, jit(lambda *args: gradient(loss, *args[1:]))):
        _, n = g(loss, np.ones(3, kind), 2)
        assert (type(n), n) == (float, 3.0)


@pytest.mark.parametrize("write", [np.place, np.putmask])
def test_masks_may_be_tracked_numbers(write):
    a = np.zeros(3)
    write(a, param([0.0, 2.0, 0.5]), [7.0, 8.0, 9.0])
    assert a.tolist() == ([0.0, 7.0, 8.0] if write is np.place else [0.0, 8.0, 9.0])


def test_writes_differentiate_three_times():
    def f(a):
        y = np.zeros_like(a)
        for i in range(3):
            y[i] = a[i] ** 3
            y[: i + 1] *= a[0]
        return np.sum(y)

    assert gradcheck(f, V, order=3)


@pytest.mark.parametrize("write", [
    lambda y: np.copyto(y, 1.0),
    lambda y: np.place(y, [True], [1.0]),
    lambda y: np.putmask(y, [True], [1.0]),
])  # fmt: skip
def test_functions_that_write_into_arrays_refuse_numbers(write):
    """A write into a copy would be lost: NumPy raises."""

    def f(x):
        y = x[0]
        write(y)
        return y

    with pytest.raises(TypeError):
        f(V)
    for call in (lambda: f(param(V)), lambda: jit(f)(V), lambda: gradient(f, V)):
        with pytest.raises(TypeError, match=r"must be a numpy\.ndarray, not a tracked"):
            call()
