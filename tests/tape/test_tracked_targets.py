"""Plain arrays become tracked when tracked values are written into them: those of local variables
for good, those of objects and containers while a derivative runs. If something else refers to
them, the write is refused."""

import contextlib
import ctypes
import dataclasses
import functools
import inspect
import signal
import sys
import threading
import weakref

import numpy as np
import pytest
import scipy.sparse

import tracker
from tracker import ConversionError

NODES = np.random.default_rng(0).random((4, 3))
NODES.flags.writeable = False
MATRIX = scipy.sparse.csr_array(NODES)
HIGH = NODES > 0.5
SCALAR = np.array(1.0)


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


def no_dimensions(t):
    b = SCALAR.copy()
    b[()] = t
    b[...] = b * t
    return 3 * b


WORK = [
    *(diagonal, subscripts, globals()["one_line"], time_steps, sums_before_the_store),
    *(lists_of_tracked_and_plain_numbers, written_by_a_called_function, written_by_a_closure),
    *(two_names, single_precision, complex_numbers, fortran_order, nans, failed_store, whole),
    *(recursion, generator, functions, made_by_libraries, no_dimensions),
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


def function(t):
    u = NODES.copy()
    v = u[0]
    np.add.at(u, 0, t)
    return v.sum()


def weak_reference(t):
    u = NODES.copy()
    v = weakref.ref(u)
    u[0] = t
    return v().sum()


def pointer(t):
    u = NODES.copy()
    v = u.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    u[0] = t
    return v[0]


def one_of_two(t):
    u, v = NODES.copy(), NODES.copy()
    (u if t > 0 else v)[0] = t
    return (u * v).sum()


REFUSED = [
    *(view, view_in_a_sum, function, default, suspended_generator, weak_reference, pointer),
    one_of_two,
]


@pytest.mark.parametrize("f", REFUSED, ids=lambda f: f.__qualname__)
def test_what_others_refer_to_does_not(f):
    for _ in range(2):
        with pytest.raises(ConversionError, match=r"([ux]\[\.\.\.\] = t|numpy.add.at) would store"):
            tracker.gradient(f, 0.7)
    assert not default.__defaults__[0].any()


@dataclasses.dataclass(slots=True)
class Slots:
    x: np.ndarray


class Model:
    """Arrays that are made before, in all kinds of places."""

    of_class = np.zeros(3)
    also_of_class = np.zeros(3)

    def __init__(self):
        self.state = np.zeros((3, 3))
        self.rows = [np.zeros(3), np.ones(3)]
        self.named = {"x": np.zeros(3), "rows": [np.ones(3)]}
        self.slots = Slots(np.zeros(3))
        self.cell = np.zeros(3)
        cell = self.cell

        def write(t):
            cell[1:] = t

        self.write = write

    def arrays(self):
        return [
            *(self.state, *self.rows, self.named["x"], *self.named["rows"]),
            *(self.slots.x, self.cell, GLOBAL, Model.of_class, self.also_of_class),
        ]

    def __call__(self, t):
        i = 1
        self.state[i, 0] = t
        self.rows[i][1:3] = t
        self.rows[-1][0] = t * t
        self.named["x"][i] += t
        named = self.named
        named["rows"][0][...] -= t
        self.slots.x[2] = t
        state = self.state
        state[0] = t * state[1]
        GLOBAL[0] = t
        np.add.at(GLOBAL, [0, 1, 1], t)
        self.write(t)
        Model.of_class[1] = t
        self.also_of_class[1] = t
        again = self.also_of_class
        again[0] = t * t
        assert "also_of_class" not in vars(self)
        exec("state[2] = t * t; del state", {"state": state, "t": t})
        return sum((x**3).sum() for x in self.arrays())


GLOBAL = np.zeros(2)


def run_on_new_model(run):
    """What `run` makes of a model, and the model's arrays afterwards."""
    GLOBAL[:] = Model.of_class[:] = Model.also_of_class[:] = 0.0
    model = Model()
    places = model.arrays()
    result = run(model)
    assert all(x is y for x, y in zip(places, model.arrays(), strict=True))
    assert all(type(x) is np.ndarray for x in places)
    return result, [x.copy() for x in places]


def test_arrays_of_objects_and_containers_are_tracked_meanwhile():
    t, h = 0.7, 1e-6
    value, arrays = run_on_new_model(lambda model: model(t))
    above, _ = run_on_new_model(lambda model: model(t + h))
    below, _ = run_on_new_model(lambda model: model(t - h))
    for derive in (
        lambda model: tracker.withgradient(model, t),
        lambda model: tracker.jvp(model, (t,), (1.0,)),
    ):
        (found, slope), now = run_on_new_model(derive)
        assert found == pytest.approx(value)
        assert np.squeeze(slope) == pytest.approx((above - below) / (2 * h))
        for x, y in zip(now, arrays, strict=True):
            np.testing.assert_allclose(x, y)


def test_they_stay_tracked_until_the_outermost_derivative_is_done():
    model = Model()

    def outer(a):
        def inner(b):
            model.state[0, 0] = a * b
            return (model.state**2).sum()

        return tracker.gradient(inner, 2.0)[0] + model.state[0, 0] ** 2

    assert tracker.gradient(outer, 3.0) == (48.0,)  # of 2 a^2 b + a^2 b^2
    assert type(model.state) is np.ndarray and model.state[0, 0] == 6.0


def test_they_are_plain_where_they_have_been_moved_to():
    model, history = Model(), []
    plain = [model.state, model.cell]

    def f(t):
        model.state[0] = t
        model.cell[0] = t * t
        model.state, model.cell = model.cell, model.state
        history.append(model.cell)
        return (model.state**2).sum() * model.cell.sum()

    assert tracker.gradient(f, 2.0)[0] == pytest.approx(15 * 2.0**4)
    assert model.state is plain[1] and model.cell is history[0] is plain[0]


def test_what_another_thread_follows_stays_tracked():
    model, found = Model(), []
    written, done = threading.Event(), threading.Event()

    def of_thread(t):
        model.state[0, 0] = t * t
        written.set()
        assert done.wait(60)
        return model.state[0, 0] * 1.0

    def f(t):
        model.state[1, 1] = t
        thread.start()
        assert written.wait(60)
        return model.state[1, 1] * t

    thread = threading.Thread(target=lambda: found.append(tracker.gradient(of_thread, 3.0)))
    assert tracker.gradient(f, 2.0) == (4.0,)
    done.set()
    thread.join()
    assert found == [(6.0,)]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="POSIX")
def test_an_interrupt_leaves_no_tracked_arrays_and_no_marks():
    def interrupt(*_):
        raise KeyboardInterrupt

    def f(t):
        model.state[0] = t
        model.rows[0][1] += t * t
        return (model.state**2).sum()

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for delay in np.linspace(1e-5, 1e-3, 500):
            model = Model()
            # NumPy replaces errors of `float`, and leaves its `errstate`
            with np.errstate(), contextlib.suppress(KeyboardInterrupt, ValueError):
                signal.setitimer(signal.ITIMER_REAL, delay)
                tracker.gradient(f, 0.7)
                signal.setitimer(signal.ITIMER_REAL, 0)
            for array in (model.state, model.rows[0]):
                assert type(array) is np.ndarray and not np.isnan(array).any()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_they_are_plain_after_an_error():
    model = Model()

    def f(t):
        model.state[0] = t
        raise KeyError

    with pytest.raises(KeyError):
        tracker.gradient(f, 2.0)
    assert type(model.state) is np.ndarray
    np.testing.assert_equal(model.state[0], 2.0)


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
