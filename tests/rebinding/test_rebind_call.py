"""What the exchange must not do: reach other threads, libraries or child processes, or stay."""

import functools
import importlib
import os
import pickle
import signal
import sys
import threading
import types

import numpy
import pytest
from concurrently import at_once

import tracker
from tracker.rebinding import rebind_call
from tracker.rebinding.namespaces import namespace_of

USER = """
import numpy as np
from numpy import zeros
def f(x, before=lambda: None):
    before()
    y = zeros(2)
    y[0], y[1] = x * x, np.array([x, 2.0]).sum()
    return y.sum()
def kinds():
    return type(np.zeros(2)), type(zeros(2)), type(np.float64(1.0)), type(np.array([1.0]))
def fails(x):
    raise LookupError(np)
"""
PLAIN = (numpy.ndarray, numpy.ndarray, numpy.float64, numpy.ndarray)


def make_module(name="user_program", text=USER, file=None):
    module = types.ModuleType(name)
    if file is not None:
        module.__file__ = file
    exec(compile(text, file or f"<{name}>", "exec"), module.__dict__)
    return module


@pytest.fixture
def user():
    return make_module()


def is_restored(module):
    """By name, as the names of this file are exchanged, too."""
    return (module.np.__name__, type(module.zeros)) == ("numpy", types.BuiltinFunctionType)


def test_only_while_a_derivative_runs(user):
    seen = []
    x = tracker.param(2.0)
    with pytest.raises((tracker.ConversionError, ValueError)):
        user.f(x, lambda: seen.append(is_restored(user)))
    tracker.gradient(user.f, 2.0, before=lambda: seen.append(is_restored(user)))
    assert seen == [True, False]
    assert is_restored(user)
    y, back = tracker.pullback(user.f, 2.0)
    assert is_restored(user)
    assert (y, back(1.0)) == (8.0, (5.0,))


def test_after_an_exception(user):
    with pytest.raises(LookupError) as raised:
        tracker.gradient(user.fails, 2.0)
    assert raised.value.args[0].__name__ == "tracker.numpy"
    assert is_restored(user)
    assert not rebind_call.ACTIVE


def test_after_an_interrupt_anywhere(user):
    """An exception at any line of the exchange, as a signal handler raises it."""
    folder = os.path.dirname(rebind_call.__file__)
    lines, wanted = 0, 0

    def trace(frame, event, _):
        nonlocal lines
        if event == "line" and frame.f_code.co_filename.startswith(folder):
            lines += 1
            if lines == wanted:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    while lines >= wanted:
        lines, wanted = 0, wanted + 1
        sys.settrace(trace)
        try:
            assert rebind_call.call_exchanged(user.f, (2.0,)) == 8.0
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        assert is_restored(user), wanted
    assert wanted > 30
    assert tracker.gradient(user.f, 2.0) == (5.0,)


def test_signals(user, uncollected):
    """Ctrl-C at any time, but for callbacks of the collector, whose exceptions get lost."""
    tracker.gradient(user.f, 2.0)
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for wait in range(1, 60):
            try:
                signal.setitimer(signal.ITIMER_REAL, wait * 2e-5)
                with numpy.errstate():
                    for _ in range(1000):
                        tracker.gradient(user.f, 2.0)
            except KeyboardInterrupt:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert is_restored(user)
    finally:
        signal.signal(signal.SIGALRM, handler)
    assert tracker.gradient(user.f, 2.0) == (5.0,)


def in_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def test_another_thread_gets_numpy_s_results(user):
    seen = []
    tracker.gradient(user.f, 2.0, before=lambda: seen.append(in_thread(user.kinds)))
    assert seen == [PLAIN]


def test_threads_end_in_any_order(user):
    started, ended = threading.Event(), threading.Event()

    def hold_on():
        started.set()
        assert ended.wait(60)

    found = []
    thread = threading.Thread(
        target=lambda: found.append(tracker.gradient(user.f, 3.0, before=hold_on))
    )
    thread.start()
    assert started.wait(60)
    assert tracker.gradient(user.f, 2.0) == (5.0,)
    assert not is_restored(user)
    ended.set()
    thread.join()
    assert found == [(7.0,)]
    assert is_restored(user)


def test_compiled_calls_while_another_thread_differentiates(user):
    known, fresh = tracker.jit(user.f), tracker.jit(lambda x: user.f(x) * 2.0)
    assert [known(2.0), known(2.0)] == [8.0, 8.0]
    seen = []

    def both():
        return [known(3.0), tracker.value_and_grad(known)(2.0), fresh(2.0), fresh(3.0)]

    tracker.gradient(user.f, 2.0, before=lambda: seen.append(in_thread(both)))
    assert seen == [[14.0, (8.0, 5.0), 16.0, 28.0]] == [both()]
    assert is_restored(user)


def test_many_threads_at_once(user):
    wrong = []

    def work(x):
        slopes = {tracker.gradient(user.f, x)[0] for _ in range(200)}
        wrong.extend(slopes - {2 * x + 1})

    at_once(*(functools.partial(work, float(x)) for x in range(4)))
    assert not wrong
    assert is_restored(user)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_process_has_numpy_where_it_was(user):
    """Also what another thread had exchanged, which the child does not have."""

    def fork():
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.write(write, b"y" if is_restored(user) and user.kinds() == PLAIN else b"n")
            os._exit(0)
        os.waitpid(child, 0)
        return os.read(read, 1)

    seen = []
    tracker.gradient(user.f, 2.0, before=lambda: seen.append(in_thread(fork)))
    assert seen == [b"y"]


def test_nested_derivatives_of_other_modules(user, monkeypatch):
    monkeypatch.setitem(sys.modules, "other", make_module("other"))

    def outer(x):
        assert not is_restored(user)
        slope = tracker.gradient(sys.modules["other"].f, x)[0]
        assert is_restored(sys.modules["other"])
        assert not is_restored(user)
        return user.f(x) * slope

    assert tracker.gradient(outer, 2.0) == (5.0 * 5.0 + 8.0 * 2.0,)
    assert is_restored(user)


@pytest.mark.parametrize(
    "kept", ["make = staticmethod(np.zeros)", "def __init__(self): self.make = zeros"]
)
def test_what_a_nested_derivative_meets_first(user, kept):
    """Later derivatives of the same code find it, too."""
    exec(f"class Model:\n {kept}\n def other(self): pass\nmodel = Model()", vars(user))
    exec("def g(x):\n y = model.make(1); y[0] = x * x; return y[0]", vars(user))
    exec("def h(x): return g(x) * 1.0", vars(user))

    def outer(x):
        return tracker.gradient(user.h, x)[0] * user.g(x)

    assert tracker.gradient(outer, 2.0) == (24.0,)
    for _ in range(2):
        assert tracker.gradient(user.h, 2.0) == (4.0,)


def test_an_installed_package_is_left_alone(user, tmp_path):
    file = str(tmp_path / "site-packages" / "some_package" / "__init__.py")
    package = make_module("some_package", file=file)
    seen = []

    def f(x):
        seen.append(is_restored(package))
        return package.f(x)

    with pytest.raises((tracker.ConversionError, ValueError)):
        tracker.gradient(f, 2.0)
    with tracker.config(plain=("some_package",)):
        assert tracker.gradient(f, 2.0) == (5.0,)
    assert seen == [True, False]
    assert is_restored(package)


def test_switched_off(user):
    with tracker.config(plain=False) as settings:
        assert settings.plain is None
        with pytest.raises((tracker.ConversionError, ValueError)):
            tracker.gradient(user.f, 2.0)
        with tracker.config(plain=True):
            assert tracker.gradient(user.f, 2.0) == (5.0,)
    for wrong in ("no name", (3,)):
        with pytest.raises(ValueError, match="is no name of a package"):
            tracker.config(plain=wrong)


def test_what_the_user_binds_meanwhile_stays(user):
    def f(x):
        user.zeros = user.np.ones
        return x * user.kinds()[0](1)[0] if False else x * 2.0

    assert tracker.gradient(f, 2.0) == (2.0,)
    assert user.np is numpy
    assert numpy.array_equal(user.zeros(2), [1.0, 1.0])


def test_names_that_change_between_derivatives(user):
    assert tracker.gradient(user.f, 2.0) == (5.0,)
    user.zeros = numpy.ones
    assert tracker.gradient(user.f, 2.0) == (5.0,)
    exec("from numpy import empty\ndef g(x):\n y = empty(1); y[0] = x * x; return y[0]", vars(user))
    assert tracker.gradient(user.g, 2.0) == (4.0,)
    assert user.empty is numpy.empty
    user.zeros = lambda n: numpy.zeros(n)
    assert tracker.gradient(user.f, 2.0) == (5.0,)
    assert user.np is numpy


@pytest.mark.parametrize(
    ("model", "make"),
    [
        ("{'make': np.zeros}", "model['make']"),
        ("[np.zeros]", "model[0]"),
        ("type('Model', (), {'make': staticmethod(np.zeros)})", "model.make"),
        ("types.SimpleNamespace(make=np.zeros)", "model.make"),
        ("(lambda make: lambda n: make(n))(np.zeros)", "model.__closure__[0].cell_contents"),
    ],
)
def test_functions_that_change_between_derivatives(user, monkeypatch, model, make):
    """In what the globals lead to."""
    monkeypatch.setitem(sys.modules, user.__name__, user)
    text = f"import types\nmodel = {model}\ndef f(x):\n y = {make}(1); y[0] = x * x; return y[0]"
    exec(text, vars(user))
    assert tracker.gradient(user.f, 2.0) == (4.0,)
    exec(f"{make} = np.ones", vars(user))
    for _ in range(2):
        assert tracker.gradient(user.f, 2.0) == (4.0,)
    assert eval(make, vars(user)) is numpy.ones


@pytest.mark.parametrize(
    ("model", "add", "new"),
    [
        ("{'make': np.zeros}", "model['new'] = np.ones", "model['new']"),
        ("[np.zeros]", "model.append(np.ones)", "model[1]"),
        ("types.SimpleNamespace(make=np.zeros)", "model.new = np.ones", "model.new"),
    ],
)
def test_functions_that_come_between_derivatives(user, model, add, new):
    text = f"import types\nmodel = {model}\ndef f(x):\n y = {new}(1); y[0] = x * x; return y[0]"
    exec(text, vars(user))
    with pytest.raises((IndexError, KeyError, AttributeError)):
        tracker.gradient(user.f, 2.0)
    exec(add, vars(user))
    assert tracker.gradient(user.f, 2.0) == (4.0,)
    assert eval(new, vars(user)) is numpy.ones


@pytest.mark.parametrize(
    "made",
    [
        "np.vectorize(lambda a: a * a if a > 0 else a)",
        "functools.partial(np.full, 1)",
        "functools.partial(functools.partial(np.full), 1)",
        "functools.lru_cache(lambda a: np.full(1, a))",
        "[np.vectorize(lambda a: a * a)]",
        "(functools.partial(np.full, 1),)",
    ],
)
def test_functions_that_a_factory_makes(user, made):
    """Each has an object of its own in a cell, behind the same code."""
    get = "[0]" if made[0] in "[(" else ""
    argument = "2" if "lru_cache" in made else "x"
    text = f"""
import functools
def make():
    kept = {made}
    def f(x):
        return np.sum(kept{get}({argument})) * x
    return f
"""
    exec(text, vars(user))
    slopes = [tracker.gradient(user.make(), 2.0)[0] for _ in range(3)]
    assert slopes == [slopes[0]] * 3
    assert tracker.gradcheck(user.make(), 2.0)


def test_an_import_for_the_first_time(tmp_path, monkeypatch):
    """The code of the module runs as ever, and its functions as if it had been there before."""
    (tmp_path / "late_helper.py").write_text(USER + "TABLE = np.ones(3) + zeros(3)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    space = {"__name__": "user"}
    text = (
        "def f(x):\n import late_helper as h\n from late_helper import f as g\n"
        " return g(x) * h.TABLE[0]"
    )
    exec(text, space)
    try:
        assert tracker.gradient(space["f"], 2.0) == (5.0,)
        late = sys.modules["late_helper"]
        assert is_restored(late)
        assert type(late.TABLE) is numpy.ndarray
        assert tracker.gradient(space["f"], 2.0) == (5.0,)
        importlib.reload(late)
        assert is_restored(late)
        assert tracker.gradient(late.f, 2.0) == (5.0,)
    finally:
        del sys.modules["late_helper"]


def test_libraries_and_pickles_see_numpy(user):
    def f(x):
        data = pickle.loads(pickle.dumps({"a": numpy.arange(3), "b": numpy.float64(1.0)}))
        assert type(data["a"]) is sys.modules["numpy"].ndarray
        assert sys.modules["numpy"].zeros.__module__ == "numpy"
        assert pickle.loads(pickle.dumps(user.np.sin)) == sys.modules["numpy"].sin
        return user.f(x)

    assert tracker.gradient(f, 2.0) == (5.0,)


def test_a_generator_that_outlives_the_derivative(user):
    exec("def parts(n):\n for _ in range(n):\n  yield np.zeros(1), zeros(1)", vars(user))
    kept = []

    def f(x):
        kept.append(user.parts(2))
        assert all(map(tracker.istracked, next(kept[0])))
        return user.f(x)

    assert tracker.gradient(f, 2.0) == (5.0,)
    assert not any(map(tracker.istracked, next(kept[0])))


def test_shims_of_a_trace_are_no_changes_of_the_users():
    """Globals are looked at again only when the user has bound something there."""

    def f(x):
        for _ in range(2):
            x = x * x if isinstance(x, object) else x
        return numpy.sum(x)

    def version():
        return namespace_of(f.__globals__).version

    tracker.gradient(f, numpy.ones(3))
    seen = version()
    jitted = tracker.jit(lambda x: tracker.gradient(f, x))
    for n in (3, 3, 4):
        jitted(numpy.ones(n)), tracker.gradient(f, numpy.ones(n))
    assert version() == seen
