"""Plain arrays in local variables become tracked when tracked values are stored into them; what
others refer to, too, does not."""

import functools
import inspect
import sys

import numpy as np
import pytest
import scipy.sparse

import tracker
from tracker import ConversionError

NODES = np.random.default_rng(0).random((4, 3))
NODES.flags.writeable = False
MATRIX = scipy.sparse.csr_array(NODES)
HIGH = NODES > 0.5


def diagonal(t):
    a = NODES @ NODES.T
    a[np.diag_indices(4)] += t
    return np.linalg.slogdet(a)[1]


def subscripts(t):
    a = NODES.copy()
    a[:, 1] += t
    a[1:3] = t * a[1:3]
    a[0, 2] = t
    a[np.array([0, 2, 1]), [0, 2, 1]] = t * t
    a[HIGH] *= t
    a[-1 if len(a) > 2 else 0, ::2] -= t
    a[...] = a * t
    return (a**2).sum()


exec(  # from Python 3.13 on, one instruction assigns a variable and reads it, on one line
    "def one_line(t):\n"
    "    a = NODES.copy(); a[0] += t; i = 1; a[i] = t; a[i, 0] = t; return (a**2).sum()"
)


def lists_of_tracked_and_plain_numbers(t):
    a = NODES.copy()
    a[0] = [t, 1.0, t * t]
    a[1:3] = [[t, 2, 3], [t, NODES[0, 0], t * 3]]
    return (a**2).sum()


def time_steps(t):
    a = NODES.copy()
    for i in range(1, 4):
        a[i] = a[i - 1] + t * np.sin(i)
    return (a**2).sum()


def sums_before_the_store(t):
    a = NODES.copy()
    b = t + a
    a[0] = b[1]
    return (a * b).sum()


def set_boundary(u, t):
    u[0] = t
    u[-1] = t * t


def written_by_a_called_function(t):
    u = NODES.copy()
    set_boundary(u, t)
    return (u**3).sum()


def written_by_a_closure(t):
    u = NODES.copy()

    def body(i):
        u[i, i] = t * i

    for i in range(3):
        body(i)
    return (u**2).sum()


def two_names(t):
    u = NODES.copy()
    v = u
    u[0, 0] = t
    v[0, 1] = t
    return (u * v).sum()


def single_precision(t):
    u = NODES.astype(np.float32)
    u[1] = t
    u[2, 1] = 2 * t
    return (u.astype(float) ** 2).sum()


def complex_numbers(t):
    u = NODES.astype(complex)
    u[1] = t
    u[2, 1] = t * 2j
    return (abs(u) ** 2).sum()


def fortran_order(t):
    u = NODES.T.copy(order="F")
    u[1] = t
    u[:, 2] *= t
    return (u**2).sum()


def nans(t):
    u = np.where(HIGH, -np.nan, NODES).copy()
    u[1] = t
    return np.nansum(u**2)


def failed_store(t):
    u = NODES.copy()
    try:
        u[0] = np.ones(7) * t
    except ValueError:
        u[1] = t
    return (u**2).sum()


def whole(t):
    u = NODES.copy()
    u += t
    u[0] *= t
    return (u**2).sum()


def recursion(t, depth=3):
    u = NODES[0].copy()
    u[0] = t
    return u.sum() if depth == 0 else u[0] * recursion(t * u[0], depth - 1)


def made_by_libraries(t):
    a, b = MATRIX.toarray(), np.frombuffer(np.arange(3.0).tobytes()).copy()
    b[0] = t
    a[1] = t * b
    return (a @ b).sum()


def functions(t):
    a = NODES @ NODES.T
    np.fill_diagonal(a, t)
    b = NODES @ NODES.T
    np.add.at(b, ([0, 1, 0], [1, 0, 1]), t)
    c = NODES @ NODES.T
    np.copyto(c, t * c, where=c > 1)
    d = NODES.copy()
    np.multiply(d, t, out=d)
    e = NODES.copy()
    np.put_along_axis(e, np.array([[2], [0], [1], [1]]), t, 1)
    f = NODES.copy()
    np.put(f, [1, 2], [t, t * t])
    return np.linalg.det(a) + (b * c).sum() + (d * e * f).sum()


def generator(t):
    def rows():
        u = NODES.copy()
        for i in range(4):
            u[i] *= t
            yield u[i].sum()

    return sum(rows())


WORK = [
    *(diagonal, subscripts, globals()["one_line"], time_steps, sums_before_the_store),
    *(lists_of_tracked_and_plain_numbers, written_by_a_called_function, written_by_a_closure),
    *(two_names, single_precision, complex_numbers, fortran_order, nans, failed_store, whole),
    *(recursion, generator, functions, made_by_libraries),
]


@pytest.mark.parametrize("f", WORK)
def test_local_arrays_become_tracked(f):
    t, h = 0.7, 1e-5
    expected = (f(t + h) - f(t - h)) / (2 * h)
    if f is single_precision:  # whose differences are rough: of 3 t^2 + (2 t)^2
        expected = 6 * t + 8 * t
    value, gradient = tracker.withgradient(f, t)
    np.testing.assert_allclose(value, f(t), 1e-6)
    np.testing.assert_allclose(gradient[0], expected, 1e-7)
    assert tracker.jvp(f, (t,), (1.0,))[1] == pytest.approx(expected)
    compiled = tracker.jit(f, strict=True)
    for _ in range(2):
        assert tracker.gradient(compiled, t)[0] == pytest.approx(gradient[0])


def view(t):
    u = NODES.copy()
    v = u[0]
    u[0] = t
    return v.sum()


def view_in_a_sum(t):
    u = NODES.copy()
    v = u[0]
    u[0] = v + t
    return v.sum()


def list_(t):
    u = NODES.copy()
    kept = [u]
    u[0] = t
    return kept[0].sum()


def default(t, u):
    u[0] = t
    return u.sum()


default.__defaults__ = (np.zeros(3),)


def suspended_generator(t):
    def first_rows(u):
        yield u[0, 0]
        yield u[0, 1]

    u = NODES.copy()
    rows = first_rows(u)
    start = next(rows)
    u[0] = t
    return start + next(rows)


def returned_owner():
    u = NODES.copy()

    def f(t):
        u[0] = t
        return u.sum()

    return f


def function(t):
    u = NODES.copy()
    v = u[0]
    np.add.at(u, 0, t)
    return v.sum()


REFUSED = [function, view, view_in_a_sum, list_, default, suspended_generator, returned_owner()]


@pytest.mark.parametrize("f", REFUSED, ids=lambda f: f.__qualname__)
def test_what_others_refer_to_does_not(f):
    held = [*(f.__defaults__ or ()), *(cell.cell_contents for cell in f.__closure__ or ())]
    before = [x.copy() for x in held]
    for _ in range(2):
        with pytest.raises(ConversionError, match=r"(u\[\.\.\.\] = t|numpy.add.at) would store"):
            tracker.gradient(f, 0.7)
    np.testing.assert_equal(held, before)


def test_tracers_go_on():
    events = []

    def trace(frame, event, arg):
        if frame.f_code is subscripts.__code__:
            events.append((event, frame.f_lineno))
            return trace
        return None

    def traced(f):
        events.clear()
        sys.settrace(trace)
        try:
            f(0.7)
        finally:
            sys.settrace(None)
        return [*events]

    plain = traced(subscripts)
    assert traced(functools.partial(tracker.gradient, subscripts)) == plain
    assert len(plain) == len(inspect.getsourcelines(subscripts)[0]) + 1
