"""What a trace puts off: nobody reads memory that was not written, and the first call gives what
the plain function does, whatever is asked for on the way.

Within `everything`, all that can be is put off, however small, and forms lie in memory full of
NaNs: whoever read one would be found out.
"""

import gc
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from counting import peak_bytes
from hypothesis import given
from jit_programs import check, programs

import tracker
from tracker import deferral, gradient, jit, last_uses, stage, tape, values
from tracker.jit import background, first_calls

N = 1 << 18
ARRAY = 8 * N
LATER = 1 << 60  # bytes: NumPy computes it all


@contextmanager
def everything(soon=0):
    """`soon`: how much NumPy computes on the first call, not machine code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first_calls, "SOON", soon)
        patch.setattr(last_uses, "_WORTH", 0)
        patch.setattr(deferral, "_room", lambda size: bytearray(b"\xff" * size))
        patch.setattr(deferral, "_blank", deferral._room(1 << 16))
        patch.setattr(deferral, "LARGE", 0)
        yield


@pytest.fixture(autouse=True)
def nothing_put_off_for_good():
    yield
    gc.collect()
    assert not values.is_anything_due()
    assert values.leaf(2.0).data == 2.0  # who asks next finds that none is left
    assert values.Value.__dict__["data"] is values._slot


@pytest.fixture
def computed(monkeypatch):
    """The values that were computed after they had been put off."""
    found = []
    fill = values._fill
    monkeypatch.setattr(values, "_fill", lambda value: (found.append(value.op), fill(value)))
    return found


def arrays(count, n=N):
    rng = np.random.default_rng(count)
    return [rng.normal(size=n) for _ in range(count)]


def same(f, *args, calls=2, tolerance=1e-12):
    """A compiled function's calls, the first one too, give what the plain one does."""
    want = f(*(np.array(x) for x in args))
    fast = jit(f)
    for _ in range(calls):
        have = fast(*(np.array(x) for x in args))
        for a, b in zip(tracker.tree.leaves(have), tracker.tree.leaves(want), strict=True):
            assert type(a) is type(b)
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    return fast


# Programs -----------------------------------------------------------------------------------------


def call(program, *xs):
    return program(*xs)


def slopes(program, *xs):
    return gradient(program.loss, *xs)


def afresh(plain, program, *xs):
    """A first call."""
    return jit(lambda *xs: plain(program, *xs))(*xs)


def agree(program, plain, compiled, soon=0):
    for given_ in (program.arguments, program.arguments, program.others(1)):
        with everything(soon):
            check(
                program,
                plain,
                compiled,
                lambda given_=given_: program.copies(given_),
                10 * program.tolerance,
                "compiled",
            )


@given(program=programs("mixed"))
def test_results(program):
    agree(program, call, jit(program))


@given(program=programs("mixed", most=6))
def test_gradients(program):
    agree(program, slopes, jit(lambda *xs: slopes(program, *xs)))


@given(program=programs("mixed", most=6))
def test_each_trace_by_itself(program):
    """As above, but each call is a first one."""
    agree(program, call, lambda *xs: afresh(call, program, *xs))


@given(program=programs("mixed"))
def test_results_that_numpy_computes(program):
    """As above, by NumPy, in arrays that are overwritten when they have served."""
    agree(program, call, lambda *xs: afresh(call, program, *xs), LATER)


@given(program=programs("mixed", most=6))
def test_gradients_that_numpy_computes(program):
    agree(program, slopes, lambda *xs: afresh(slopes, program, *xs), LATER)


@given(program=programs("mixed", most=6))
def test_gradients_where_numbers_are_freed_at_once(program):
    """As above, and what can be computed again is never kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "_ALLOWANCE", -1)
        patch.setattr(stage, "_SCAN", -1)
        agree(program, slopes, lambda *xs: afresh(slopes, program, *xs))


# Views and copies of what is put off --------------------------------------------------------------

PARTS = {
    "ravel of columns": lambda y: y[:, ::2].ravel(),
    "ravel of a transpose": lambda y: y.T.ravel(),
    "ravel as it lies": lambda y: y.T.ravel("K"),
    "reshape": lambda y: y.reshape(3, -1, 4),
    "reshape of a transpose": lambda y: y.T.reshape(-1),
    "flatten": lambda y: y.flatten(),
    "squeeze of a part": lambda y: np.squeeze(y[None])[1:],
    "row sums by einsum": lambda y: np.einsum("...i->...", y),
    "transpose by einsum": lambda y: np.einsum("ij->ji", y),
    "diagonal by einsum": lambda y: np.einsum("ii->i", y[:, :6]),
    "trace by einsum": lambda y: np.einsum("ii->", y[:, :6]),
    "diagonal": lambda y: np.diagonal(y) * 1,
    "broadcast": lambda y: np.broadcast_to(y[0], y.shape) * 1,
    "copy": lambda y: y.copy(),
    "sum": lambda y: np.sum(y, axis=0),
    "part": lambda y: y[1:, ::-1],
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("soon", [0, LATER])
def test_what_is_a_copy_of_it_is_none_of_its_views(name, soon):
    def f(x):
        y = np.exp(x)
        z = PARTS[name](y)
        y[...] = x * 2.0
        y[1:3] *= 3.0
        return np.sum(z * z) + np.sum(y)

    def g(x):
        y = np.exp(x)
        z = PARTS[name](y)
        if np.ndim(z):
            z[...] = z * 0.5 + 1.0
        return np.sum(y * y) + np.sum(z)

    x = np.random.default_rng(0).normal(size=(6, 8))
    for h in (f, g):
        with everything(soon):
            same(h, x)
            same(lambda x, h=h: gradient(h, x)[0], x)


# Large arrays -------------------------------------------------------------------------------------


def tanh_exp(x, w, b):
    return np.sum(np.tanh(x * w + b) * np.exp(-(x**2)))


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def greeks(s, k, t):
    d = (np.log(s / k) + 0.5 * t) / np.sqrt(t)
    return np.sum(s * np.tanh(d) - k * np.exp(-t) * np.tanh(d - np.sqrt(t)))


CASES = [
    (lambda *xs: tracker.withgradient(tanh_exp, *xs), 3),
    (lambda *xs: tracker.withgradient(rosenbrock, *xs), 1),
    (lambda x, v: tracker.hvp(rosenbrock, x, v), 2),
    (lambda x, v: tracker.jvp(np.tanh, (x,), (v,)), 2),
    (lambda *xs: gradient(greeks, *(np.abs(x) + 0.5 for x in xs)), 3),
    (lambda x, w: (np.where(x > 0, x * w, 0.5).reshape(2, -1).T + 1.0, x.max()), 2),
    (lambda x, w: np.concatenate([x, np.stack([w, x])[0] * 2.0]), 2),
]


@pytest.fixture
def machine_code(monkeypatch):
    """What is put off is left to machine code, however little it is."""
    monkeypatch.setattr(first_calls, "SOON", 0)
    monkeypatch.setattr(first_calls, "APIECE", 0)
    monkeypatch.setattr(first_calls, "EACH", 0)


@pytest.mark.parametrize(("f", "count"), CASES)
def test_nothing_is_computed_by_numpy(f, count, computed, machine_code):
    same(f, *arrays(count))
    assert not computed


@pytest.mark.parametrize(("f", "count"), CASES)
def test_what_numpy_computes(f, count, monkeypatch):
    monkeypatch.setattr(first_calls, "SOON", LATER)
    same(f, *arrays(count))


def by_hand(x):
    a, b = x[1:] - x[:-1] ** 2, 1.0 - x[:-1]
    slope = np.zeros_like(x)
    slope[:-1] = -400.0 * x[:-1] * a - 2.0 * b
    slope[1:] += 200.0 * a
    return 100.0 * np.sum(a**2) + np.sum(b**2), slope


def test_numpy_needs_no_more_memory_than_by_hand():
    (x,) = arrays(1, 4 * N)
    fast = jit(lambda x: tracker.withgradient(rosenbrock, x))
    assert peak(fast, x) <= peak(by_hand, x) + 4  # the compiler's own
    for have, want in zip((fast(x)[0], fast(x)[1][0]), by_hand(x), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-12)


def test_results_are_the_callers_own(monkeypatch):
    """Arguments are read where they lie; nothing that is given, or kept, lies there."""
    monkeypatch.setattr(first_calls, "SOON", LATER)
    kept = []

    def f(x, y):
        z = np.flip(x) if kept else x[::-1]
        kept.append(z)
        y[:] = x
        return x * 2.0, x[1:], z

    x, y = arrays(2)
    before = x.copy()
    double, rest, flipped = jit(f)(x, y)
    assert np.shares_memory(rest, x)
    assert np.shares_memory(flipped, x)
    x[:] = 0.0
    np.testing.assert_array_equal(double, 2.0 * before)
    np.testing.assert_array_equal(y, before)
    assert kept[0] is flipped


def test_a_view_of_an_argument_is_read_where_that_lies(computed):
    a = np.eye(30) + np.arange(30) / 100

    def f(a):
        part = a[1:].T
        return np.linalg.solve(a.T[::-1], part), part

    with everything():
        x, part = jit(f)(a)
        assert not computed
    assert np.shares_memory(part, a)
    np.testing.assert_allclose(x, f(a)[0], rtol=1e-12, atol=1e-12)


def test_what_is_used_again_is_not_overwritten(monkeypatch):
    monkeypatch.setattr(first_calls, "SOON", LATER)

    def f(x):
        a = x + 1.0
        b = a.reshape(2, -1)
        c = a * 2.0
        d = -c
        return b + d.reshape(2, -1), a - a, c, d / c

    same(f, *arrays(1), tolerance=0)


def test_a_choice_takes_the_place_of_either_side(monkeypatch):
    monkeypatch.setattr(first_calls, "SOON", LATER)

    def f(x):
        a, b = x * 2.0, x * 3.0
        c = np.where(x > 0, a, 1)
        return (
            np.where(x > 1, -2.0, x + 1.0),
            np.where(np.floor(x), c, b),
            np.where((x * x).astype(int), x - 1.0, x[:1]),
            np.where(x > 0, c, c),
            np.where(x < 0, x > 1, x < 2),
        )

    same(f, *arrays(1), tolerance=0)


def peak(f, *args):
    return peak_bytes(lambda: f(*args)) / ARRAY


def test_the_first_call_of_a_gradient_needs_the_memory_of_its_results(computed, machine_code):
    args = arrays(3, 8 * N)
    fast = jit(lambda *xs: tracker.withgradient(tanh_exp, *xs))
    most = peak(fast, *args)
    assert not computed
    assert most < 8 * 3 + 4  # the compiler's own


def distances(x, y):
    d = x[:, None] - y
    return np.sum(np.sqrt(d * d + 1.0))


def kernel(x, y):
    return np.sum(np.exp(x.reshape(-1, 1) @ y.reshape(1, -1) / 10))


@pytest.mark.parametrize("f", [distances, kernel])
def test_what_is_large_of_small_arrays_is_put_off_too(f, computed, machine_code):
    x, y = arrays(2, 1 << 10)
    fast = jit(lambda x, y: tracker.withgradient(f, x, y))
    most = peak_bytes(lambda: fast(x, y)) / deferral.LARGE
    assert not computed
    assert most < 2 * 3 + 2  # two arrays of 1 << 19 or 20 numbers, and the compiler's own
    same(lambda x, y: tracker.withgradient(f, x, y), x, y)


def test_small_arrays_are_computed_at_once(computed):
    fast = jit(lambda x: np.sin(x) * 2.0)
    x = np.linspace(0, 1, 100)
    np.testing.assert_allclose(fast(x), np.sin(x) * 2.0)
    assert not computed


def test_a_long_loop_puts_off_smaller_arrays(machine_code):
    x = np.linspace(0.1, 1, 1 << 14)
    steps = 2 * deferral._MUCH // x.nbytes
    seen = []

    def f(x):
        for _ in range(steps):
            x = np.sqrt(x)
            seen.append(tape.is_put_off(x))
        return x

    same(f, x)
    assert not seen[steps] and seen[2 * steps - 1]  # those of the first call that was traced


def test_many_small_products_are_computed_at_once():
    seen = []

    def f(x):
        y = x @ x[::-1]
        seen.append(tape.is_put_off(y))
        return np.sin(y)

    x = np.random.default_rng(0).normal(size=(800, 3, 3))
    np.testing.assert_allclose(jit(f)(x), f(x))
    assert seen == [False, False]


# Who asks for numbers -----------------------------------------------------------------------------


def test_a_branch_is_answered_by_the_numbers():
    def f(x):
        y = np.sin(x)
        return y * 2.0 if np.sum(y) > 0 else np.cos(y)

    (x,) = arrays(1)
    same(f, np.abs(x))
    same(f, -np.abs(x))


def test_what_is_asked_on_the_way(computed):
    seen = []

    def f(x):
        y = x * 2.0
        seen.append((float(tracker.data(np.sum(y))), int(np.argmax(y)), y.shape, y.dtype))
        z = np.sort(y)[::2] + 1.0
        return np.cumsum(z) * y[0]

    (x,) = arrays(1)
    same(f, x)
    assert computed
    assert all(now == (np.sum(x * 2.0), int(np.argmax(x)), x.shape, x.dtype) for now in seen)


def test_a_printed_value_is_its_numbers(capsys):
    def f(x):
        y = x * 2.0
        print(y[:2])
        return np.sum(y)

    x = np.ones(N)
    jit(f)(x)
    assert capsys.readouterr().out == "[2. 2.]\n"


def test_an_exception_of_the_user_after_values_were_put_off():
    def f(x):
        x *= 2.0
        raise RuntimeError("stop")

    x = np.ones(N)
    with pytest.raises(RuntimeError, match="stop"):
        jit(f)(x)
    np.testing.assert_array_equal(x, 2.0)


def test_numpy_raises_its_own_errors_at_once():
    def f(x):
        try:
            return x + np.ones(3)
        except ValueError:
            return x

    (x,) = arrays(1)
    same(f, x)
    with pytest.raises(ValueError, match="negative integer powers"):
        jit(lambda n: n ** np.array(-1))(np.arange(N))
    with pytest.raises(OverflowError):
        jit(lambda n: n + 300)(np.ones(N, np.uint8))
    with pytest.raises(ZeroDivisionError):
        jit(lambda x: 1.0 / (x[0] * 0.0).item())(x)


def test_floating_point_errors_are_raised_where_that_is_asked_for():
    def f(x):
        with np.errstate(divide="raise"):
            return 1.0 / x

    with pytest.raises(FloatingPointError):
        jit(f)(np.zeros(N))


# Taken for granted --------------------------------------------------------------------------------


def masked(x):
    return np.sum(np.where(x > 0, np.log(np.where(x > -1, x, 1.0)), 0.0))


def test_zeros_are_strong_in_the_first_call():
    """The quick pass gives NaN: that it would not was taken for granted, and is found out."""
    (x,) = arrays(1)
    x[:10] = 0.0
    with np.errstate(all="ignore"):
        want = gradient(masked, x)[0]
        assert np.isfinite(want).all()
        whole, inner = jit(lambda x: gradient(masked, x)), jit(masked)
        for _ in range(2):
            np.testing.assert_allclose(whole(x)[0], want, rtol=1e-12)
            np.testing.assert_allclose(gradient(inner, x)[0], want, rtol=1e-12)


def test_what_was_taken_for_granted_is_looked_at_before_anybody_gets_numbers():
    seen = []

    def f(x):
        g = gradient(masked, x)[0]
        seen.append(bool(np.isnan(np.sum(g))))
        return g

    (x,) = arrays(1)
    x[:10] = 0.0
    with np.errstate(all="ignore"):
        jit(f)(x)
    assert seen == [False]


def test_a_loss_that_is_not_finite():
    fast = jit(lambda x: np.sum(np.log(x)))
    with np.errstate(all="ignore"), pytest.raises(tracker.NonFiniteError, match="infinite"):
        gradient(fast, np.zeros(N))


# Writes, captures, effects ------------------------------------------------------------------------


def test_writes_reach_the_caller_and_see_what_was_there():
    def swap(x, y):
        x[:], y[:] = y * 2.0, x + 1.0
        return np.sum(x) - y[::2]

    plain, compiled = arrays(2), arrays(2)
    fast = jit(swap)
    for _ in range(2):
        want, have = swap(*plain), fast(*compiled)
        np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(compiled, plain, rtol=1e-12)


def test_a_captured_array_that_is_written_into():
    (c,) = arrays(1)
    start = c.copy()

    @jit
    def f(x):
        y = c * x
        c[:] = y + 1.0
        return y * 2.0

    x = np.full(N, 0.5)
    np.testing.assert_allclose(f(x), start, rtol=1e-12)
    np.testing.assert_allclose(c, start * 0.5 + 1.0, rtol=1e-12)


def test_a_plain_array_that_the_function_changes_meanwhile():
    def f(x):
        scratch = np.ones(N)
        y = x * scratch
        scratch[:] = 3.0
        z = x * scratch
        return (y + z) if np.sum(y) > np.inf else y - z

    (x,) = arrays(1)
    np.testing.assert_allclose(jit(f)(x), x - 3.0 * x, rtol=1e-12)


def test_a_handle_that_outlives_its_trace_has_the_numbers_of_then():
    kept = []

    def f(x):
        kept.append(x * 2.0)
        x[:] = 0.0
        return np.sum(x)

    x = np.ones(N)
    jit(f)(x)
    x[:] = 7.0
    np.testing.assert_array_equal(tracker.data(kept[0]), 2.0)
    kept.clear()


def test_a_generator_draws_once():
    def f(x, rng):
        return x * 2.0 + rng.normal(size=N)

    (x,) = arrays(1)
    fast = jit(f)
    mine, theirs = np.random.default_rng(3), np.random.default_rng(3)
    for _ in range(2):
        np.testing.assert_allclose(fast(x, mine), f(x, theirs), rtol=1e-12)


def test_views_of_arguments_that_are_returned_share_their_memory():
    (x,) = arrays(1)
    fast = jit(lambda x: (x[::2], np.sum(x * 2.0)))
    for _ in range(2):
        view, _ = fast(x)
        assert np.shares_memory(view, x)


@pytest.mark.filterwarnings("ignore:.*asks somebody else to compute:RuntimeWarning")
def test_another_thread_finds_the_numbers_of_a_handle():
    found = []

    def f(x):
        y = np.sin(x)
        other = threading.Thread(target=lambda: found.append(tracker.data(y).copy()))
        other.start()
        other.join()
        return y * 2.0

    x = np.linspace(0, 1, 5)
    with everything():
        jit(f)(x)
    np.testing.assert_array_equal(found[0], np.sin(x))


def test_a_trace_that_is_watched_computes():
    def f(x):
        return np.sum(np.log(x))

    with (
        np.errstate(all="ignore"),
        tracker.debug.nan_check(),
        pytest.raises(Exception, match="log"),
    ):
        jit(f)(np.full(N, -1.0))


# Forms --------------------------------------------------------------------------------------------


def test_the_door_stands_only_while_something_is_put_off():
    seen = []

    def f(x):
        before = values.Value.__dict__["data"]
        y = x + 1.0
        seen.append((before, values.Value.__dict__["data"], tape.is_put_off(y)))
        return y

    jit(f)(np.ones(N))
    assert seen == [(values._door, values._door, True)]
    assert values.Value.__dict__["data"] is values._slot


# Memory -------------------------------------------------------------------------------------------


def test_a_first_call_holds_little_more_than_the_gradient_by_hand(monkeypatch):
    """Of what machine code does not compute in the first call: sums that were asked for, products,
    running sums."""
    monkeypatch.setattr(stage, "_ALLOWANCE", ARRAY)
    side = 1 << 10  # an array is as large as four of the others here
    a, b = (x.reshape(side, side) for x in arrays(2, side * side))

    def products_by_hand(x):
        t = np.tanh(a @ x)
        value, g = np.sum(t**2), 2.0 * t * (1.0 - t**2)
        return value, a.T @ g

    def sums_by_hand(x):
        c = np.cumsum(x)
        return np.sum(c**2), np.cumsum((2.0 * c)[::-1])[::-1]

    for f, by_hand, x in (
        (lambda x: np.sum(np.tanh(a @ x) ** 2), products_by_hand, b),
        (lambda x: np.sum(np.cumsum(x) ** 2), sums_by_hand, b.ravel()),
    ):
        fast = jit(lambda x, f=f: tracker.withgradient(f, x))
        mine, by_numpy = peak(fast, x) / 4, peak(by_hand, x) / 4
        assert mine <= by_numpy + 1.2


def test_numbers_are_computed_at_most_twice(monkeypatch):
    """However often a trace needs room, a chain of values is not computed over and over."""
    monkeypatch.setattr(stage, "_ALLOWANCE", 0)
    monkeypatch.setattr(stage, "_SCAN", 0)
    count = [0]
    given_ = values._given

    def counted(due):
        count[0] += 1
        return given_(due)

    monkeypatch.setattr(values, "_given", counted)

    def f(x):
        total = 0.0
        for _ in range(50):
            x = np.tanh(x)
            total = total + np.sort(x * 2.0)[0]
        return total

    (x,) = arrays(1)
    assert jit(f)(x) == pytest.approx(f(x))
    assert count[0] <= 2 * 50 * len(("tanh", "multiply", "getitem", "add"))


def test_little_that_is_left_is_computed_and_machine_code_not_waited_for(monkeypatch, machine_code):
    (x,) = arrays(1)
    compiled = []
    later = background.later
    monkeypatch.setattr(background, "later", lambda work: compiled.append(work) or later(work))
    jit(lambda x: np.linalg.inv(np.reshape(x, (512, 512))) * 2.0)(x)
    assert len(compiled) == 1
    jit(lambda x: np.tanh(x) * np.exp(x) * 2.0)(x)
    assert len(compiled) == 1


def ragged(x):
    """Every step has loops of its own, and adds a piece to the gradient."""
    total = 0.0
    for k in range(40):
        total = total + np.sum(x[:, k:] * x[:, k : k + 1])
    return total


@pytest.mark.parametrize(("name", "size"), [("APIECE", 0), ("APIECE", 1 << 24), ("EACH", 1 << 23)])
def test_numpy_is_sooner_where_there_is_much_to_compile(name, size, monkeypatch, machine_code):
    monkeypatch.setattr(first_calls, name, size)
    compiled = []
    at_once = background.at_once
    monkeypatch.setattr(background, "at_once", lambda work: compiled.append(work) or at_once(work))
    (x,) = arrays(1)
    same(lambda x: gradient(ragged, x.reshape(-1, 64)), x)
    assert len(compiled) == (size == 0)


def test_the_pieces_of_a_long_sum_do_not_lie_about(monkeypatch):
    """Each is computed when it is added, as in the plain function."""
    monkeypatch.setattr(first_calls, "SOON", LATER)
    (x,) = arrays(1)
    fast = jit(lambda x: gradient(ragged, x.reshape(-1, 64)))
    assert peak(fast, x) < 12  # of 40 pieces


def test_forms_take_no_memory():
    assert peak(lambda: [deferral.blank((N,), np.dtype(float)) for _ in range(100)]) < 0.1
