"""Python loops of traced code: rolled up after a symbolic iteration, or run iteration by iteration.

Each program is compared with plain NumPy, with eager gradients, and with a second call on other
numbers.
"""

import contextlib
import functools
import io
import warnings

import fresh_python
import numpy as np
import pytest
from line_loop_programs import PROGRAMS
from pairwise_parameters import DEEP
from python_loop_programs import M, X
from tables import functions_of
from triangular_loop_programs import WHOLE

import tracker
from tracker.control.python_loops import iterator, rolling
from tracker.control.python_loops.body import growing_values
from tracker.control.python_loops.body.affine_subscripts import NotRollable
from tracker.control.python_loops.body.iteration_body import IterationBody


@pytest.fixture(autouse=True)
def every_loop_pays(monkeypatch):
    monkeypatch.setattr(iterator, "_MIN_TRIP_COUNT", 4)
    monkeypatch.setattr(rolling, "_MIN_EQUATIONS", 1)
    monkeypatch.setattr(rolling, "_MIN_EQUATIONS_OF_LARGE", 1)


@pytest.fixture
def every_gradient_pays(monkeypatch):
    monkeypatch.setattr("tracker.control.step_runner._compile_cost", lambda body: 1)


def _arrays(args):
    return [a.copy() for a in args]


def _plain(f, args):
    given = _arrays(args)
    return f(*given), given


def _assert_equal(a, b):
    if isinstance(a, tuple):
        assert isinstance(b, tuple) and len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            _assert_equal(x, y)
        return
    assert type(a) is type(b), (type(a), type(b))
    tolerance = 1e-5 if np.result_type(a) == np.float32 else 1e-12
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def _number(result):
    parts = result if isinstance(result, tuple) else (result,)
    return sum(np.sum(part * 1.0) for part in parts)


@pytest.fixture
def known_refusals_only(monkeypatch):
    """Any exception makes a loop a plain one; here only those that say why may."""
    errors, write = [], IterationBody.write

    def noted(body):
        try:
            return write(body)
        except NotRollable:
            raise
        except Exception as error:
            errors.append(error)
            raise

    monkeypatch.setattr(IterationBody, "write", noted)
    yield
    assert not errors


@pytest.mark.usefixtures("known_refusals_only")
@pytest.mark.parametrize(("f", "rolled", "args"), PROGRAMS)
def test_results_and_writes(f, rolled, args):
    compiled = tracker.jit(f)
    for scale in (1.0, 1.0, 0.7):
        given = [a * scale for a in args]
        want, written = _plain(f, given)
        have_args = _arrays(given)
        _assert_equal(want, compiled(*have_args))
        for a, b in zip(written, have_args, strict=True):
            _assert_equal(a, b)
    if rolled is not None:
        assert (" loop " in str(tracker.trace(tracker.jit(f), *_arrays(args)))) == rolled


def _check_gradients(f, args, transform):
    def loss(*arrays):
        return _number(f(*arrays))

    want, compiled = tracker.gradient(loss, *_arrays(args)), transform(loss)
    for _ in range(2):
        _assert_equal(tuple(want), tuple(compiled(*_arrays(args))))


@pytest.mark.usefixtures("every_gradient_pays")
@pytest.mark.parametrize(("f", "rolled", "args"), PROGRAMS)
def test_compiled_gradients(f, rolled, args):
    _check_gradients(f, args, lambda f: tracker.jit(lambda *arrays: tracker.gradient(f, *arrays)))


@pytest.mark.usefixtures("every_gradient_pays")
@pytest.mark.parametrize(("f", "rolled", "args"), PROGRAMS if DEEP else PROGRAMS[::2])
def test_gradients_of_compiled_functions(f, rolled, args):
    _check_gradients(f, args, lambda f: functools.partial(tracker.gradient, tracker.jit(f)))


@pytest.mark.parametrize(("f", "makers"), WHOLE)
def test_traces_do_not_grow_with_arrays(f, makers):
    traces = [tracker.trace(tracker.jit(f), *[make(n) for make in makers]) for n in (12, 17)]
    few, many = [str(trace).count(" loop ") for trace in traces]
    assert few == many


# Prints, exceptions, draws, large arrays, other transformations -----------------------------------


def _outcome(f, *args):
    """The result, the output, the writes, and the class of the exception."""
    printed, given, error, result = io.StringIO(), _arrays(args), None, None
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = f(*given)
        except Exception as raised:
            error = type(raised)
    return result, printed.getvalue(), given, error


class Effects:
    def prints(x):
        for i in range(9):
            print(i, "done")
            x[i] = x[i] * 2
        return x

    def prints_nothing_it_computes(x):
        y = x
        for _ in range(9):
            print("an iteration")
            y = y * 2
        return y

    def prints_some_iterations(x):
        y = x
        for i in range(40):
            y = y * 0.9 + 0.1 * i
            if i % 20 == 0:
                print(f"iteration {i}: {np.mean(y):.3f}", end=";")
        return y

    def prints_if_asked(x, verbose=False):
        y = x
        for i in range(12):
            y = y * 0.9 + 0.1 * i
            if verbose:
                print("iteration", i)
        return y

    def prints_by_a_function(x):
        form = "%d %.3f"

        def report(i, y):
            if i in (3, 7):
                print(f"{i} {y[0]:.2f} {form % (i, y[1])}")

        y = x
        for i in range(24):
            y = y * 0.9 + 0.1 * i
            report(i, y)
        return y

    def prints_in_an_inner_loop(x):
        y = x
        for i in range(9):
            for j in range(6):
                y = y * 0.95 + 0.01 * j
                if i == j:
                    print(i, j)
        return y

    def prints_until_a_condition_holds(x):
        y, n = x, 0
        while y[0] > 1e-3:
            y, n = y * 0.9, n + 1
            if n % 10 == 0:
                print(f"{n:>4d}: {float(y[0]):.2e}")
        return y

    def prints_on_a_condition(x):
        y = x
        for i in range(30):
            y = y * 0.9 + 0.01
            if y[0] < 0.2:
                print("small at", i)
                break
        return y

    def keeps_text_of_its_iterations(x):
        y, names = x, []
        for i in range(12):
            y = y * 0.9
            names.append(f"y{i}")
        print(names)
        return y

    def binds_text_of_its_iterations(x):
        y, name = x, ""
        for i in range(12):
            y = y * 0.9
            name = f"y{i}"
        print(name)
        return y

    def divides_by_a_counter_that_ends(x):
        y, n = x, 8
        while y[0] > 1e-9:
            n -= 1
            y = y * 0.9 + 0.0 / n
        return y

    def raises_beyond_the_end(x):
        for i in range(20):
            x[i] = x[i] * 2
        return x

    def raises_at_an_iteration(x):
        s = x[0]
        for i in range(9):
            x[i] = x[i] * 2
            s = s + x[1] * (1 / (5 - i))
        return s

    def raises_for_a_number_that_is_not_used(x):
        for i in range(20):
            x[i % 12] = x[i % 12] * 2
            1 % (9 - i)
        return x

    def raises_for_a_number_of_an_inner_loop(x):
        for i in range(12):
            for j in range(i):
                x[j] = x[j] * 0.9 + 1 / (17 - i - j)
        return x

    def raises_for_a_number_where_iterations_branch(x):
        for i in range(40):
            if x[0] > 0.5:
                x[:] = x * 0.9
            else:
                x[:] = x * 1.2
            x[1] = x[1] + 1 / (35 - i)
        return x

    def raises_while_a_condition_holds(x):
        n = 0
        while x[0] > 1e-9:
            x[:] = x * 0.7
            n += 1
            1 / (20 - n)
        return x

    def raises_on_a_condition(x):
        for i in range(9):
            x[i] = x[i] * 2
            if x[i] > 2:
                raise ValueError(i)
        return x

    def singular_at_an_iteration(x):
        s = x[0]
        for i in range(9):
            x[i] = x[i] * 2
            s = s + np.linalg.det(np.linalg.inv(np.eye(2) * (5 - i))) * x[1]
        return s

    def draws(x):
        generator = np.random.default_rng(3)
        y = x
        for _ in range(9):
            y = y + generator.normal(size=12)
        return y


@functions_of(Effects)
def test_outcomes_are_those_of_the_plain_function(f):
    want, have = _outcome(f, X), _outcome(tracker.jit(f), X)
    assert want[1] == have[1]
    assert want[3] == have[3]
    _assert_equal(tuple(want[2]), tuple(have[2]))
    if want[3] is None:
        _assert_equal(want[0], have[0])


@pytest.mark.parametrize("f", [Effects.prints_some_iterations, Effects.prints_if_asked])
def test_iterations_that_print_nothing_are_rolled(f):
    assert " loop " in str(tracker.trace(tracker.jit(f), X))


def _decay(x):
    y = x
    for i in range(20):
        y = y * 0.9 + 0.1 * np.sin(y) * x[::-1] + i
    return np.sum(y)


@pytest.mark.parametrize("transform", [tracker.hessian, tracker.jacobian])
def test_other_derivatives(transform):
    want = transform(_decay, X)
    np.testing.assert_allclose(tracker.jit(lambda x: transform(_decay, x))(X), want, rtol=1e-10)
    np.testing.assert_allclose(transform(tracker.jit(_decay), X), want, rtol=1e-10)


def test_rows_of_a_batch():
    want = np.stack([_decay(row) for row in M])
    np.testing.assert_allclose(tracker.vmap(_decay)(M), want, rtol=1e-12)
    np.testing.assert_allclose(tracker.jit(tracker.vmap(_decay))(M), want, rtol=1e-12)
    np.testing.assert_allclose(tracker.vmap(tracker.jit(_decay))(M), want, rtol=1e-12)


def test_checkpoints():
    f = lambda x: tracker.checkpoint(_decay, x)  # noqa: E731
    want = tracker.gradient(_decay, X)[0]
    have = tracker.jit(lambda x: tracker.gradient(f, x)[0])(X)
    np.testing.assert_allclose(have, want, rtol=1e-12)


def test_large_arrays():
    def f(x, m):
        y = x
        for i in range(10):
            y = y * 0.9 + m[i] * i
            m[i] = y
        return np.sum(y * y)

    size = 300_000  # computed later, outside of a trace
    x, m = np.linspace(0, 1, size), np.ones((10, size))
    want, (_, written) = _plain(f, (x, m))
    compiled = tracker.jit(f)
    for _ in range(2):
        given = _arrays((x, m))
        np.testing.assert_allclose(compiled(*given), want, rtol=1e-12)
        np.testing.assert_allclose(given[1], written, rtol=1e-12)


@pytest.mark.parametrize("name", ["gram_schmidt_by_hand", "cholesky_by_hand", "pairs_of_points"])
def test_triangles_of_large_arrays(name, monkeypatch):
    """No array is copied, and none selected from, in each iteration."""
    f, makers = next(program.values for program in WHOLE if program.id == name)
    args = [make(12) for make in makers]
    derive = tracker.jit(lambda *arrays: tracker.gradient(lambda *xs: _number(f(*xs)), *arrays))
    want = derive(*_arrays(args))
    monkeypatch.setattr(growing_values, "MAX_MASKED", 16)
    derive.clear_cache()
    for _ in range(2):
        _assert_equal(want, derive(*_arrays(args)))
    sizes = ([make(n) for make in makers] for n in (12, 17))
    large, larger = (str(tracker.trace(tracker.jit(f), *arrays)) for arrays in sizes)
    assert large.count(" loop ") == larger.count(" loop ")


def test_an_inner_loop_stays_one_if_the_outer_one_is_rolled_then_alone(monkeypatch):
    """There are too many lines to select from, which the first iterations do not tell."""

    @tracker.jit
    def f(x):
        y = np.zeros((len(x), len(x)))
        for i in range(len(x)):
            for j in range(i):
                y[j, :i] = x[j] * x[:i]
        return y

    monkeypatch.setattr(growing_values, "MAX_MASKED", 200)
    few, many = [str(tracker.trace(f, np.linspace(0.3, 1.7, n))) for n in (20, 40)]
    assert few.count(" loop ") == many.count(" loop ")
    x = np.linspace(0.3, 1.7, 40)
    for _ in range(2):
        np.testing.assert_allclose(f(x)[:-1, :-1], np.outer(x[:-1], x[:-1]), rtol=1e-12)


HASHED = """
import numpy as np, tracker

def waves(x):
    a, b, c, d = x.copy(), x.copy(), x.copy(), x * 2.0
    for _ in range(100):
        a[1:] += 0.1 * b[:-1]
        b[1:] -= 0.1 * c[:-1]
        c[1:] += 0.1 * d[:-1]
    return np.sum(a + b + c + d)

print(tracker.jit(waves).ir(np.ones(4000)))
"""


def test_hashes_do_not_decide_the_order_of_what_is_carried():
    """Else the next process would not find what this one has compiled."""
    found = {fresh_python.run(HASHED, PYTHONHASHSEED=seed).stdout for seed in "123"}
    assert len(found) == 1
    assert "= loop 100 " in found.pop()


def test_ranges_up_to_sums_of_thousands():
    def f(x, n):
        for _ in [0] * 2000:
            n = n + 1
        for _ in range(n - 1990):
            x = x * 1.1
        return x

    np.testing.assert_allclose(tracker.jit(f)(1.5, 3), f(1.5, 3))


def test_a_builtin_that_is_compared_is_no_shim():
    @tracker.jit
    def f(x):
        rows = range(8)
        for i in rows:
            x = x + (i if type(rows) is range and isinstance(rows, range) else 100)
        return x

    _assert_equal(f(X), X + 28.0)


def test_a_builtin_that_is_handed_on_is_no_shim():
    @tracker.jit
    def f(x):
        for numbers in list(map(range, [9, 9, 9, 9, 9, 9, 9, 9])):
            for i in numbers:
                x = x + i
        return x

    _assert_equal(f(X), X + 288.0)
