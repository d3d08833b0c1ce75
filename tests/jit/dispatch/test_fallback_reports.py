"""What jitted functions and their derivatives say of themselves: names, counts, and why plain
Python runs."""

import collections
import contextvars
import dataclasses
import re
import time

import numpy as np
import pytest

import tracker
from tracker import jit
from tracker.errors import CompileError
from tracker.support.shown_text import ShownText

X = np.linspace(0.1, 1.0, 5)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def reads_the_clock(x):
    return x * time.time()


def branches(x):
    for k in tuple(range(40)):  # not rolled
        if x < k:  # this line branches
            return x + k
    return x


def gradient_of(f):
    """The compiled gradient that `gradient` makes and keeps."""
    tracker.gradient(f, X)
    (made,) = f._jitted.derivatives.values()
    return made


DERIVED = {
    "value_and_grad": tracker.value_and_grad,
    "value_and_grad of value_and_grad": lambda f: tracker.value_and_grad(tracker.value_and_grad(f)),
    "vmap": tracker.vmap,
    "gradient": gradient_of,
}


@pytest.mark.parametrize("what", DERIVED)
def test_derivatives_say_what_they_are(what):
    text = repr(DERIVED[what](jit(rosenbrock)))
    assert re.fullmatch(f"<{what} of jitted rosenbrock(, 1 trace)?>", text), text


def test_functions_count_their_traces_in_words():
    f = jit(rosenbrock)
    assert repr(f) == "<jitted rosenbrock>"
    f(X)
    assert repr(f) == "<jitted rosenbrock, 1 trace>"
    f(X[:3])
    assert repr(f) == "<jitted rosenbrock, 2 traces>"


def test_derivatives_are_counted():
    f = jit(rosenbrock)
    f(X)
    assert f.cache_info() == (1, 1, 1, 0)
    tracker.gradient(f, X)
    both = tracker.value_and_grad(f)
    both(X), both(X[:3])
    assert f.cache_info()[:2] == (4, 4)
    assert both.cache_info()[:2] == (2, 2)
    f.clear_cache()
    assert f.cache_info() == (0, 0, 0, 0)


def test_traces_that_serve_no_other_call_are_made_more_and_more_rarely():
    fast = jit(branches)
    for k in range(35):
        assert fast(k - 0.5) == branches(k - 0.5)
    assert fast.cache_info().traces == 5  # the fifth after 16 calls, the sixth after 32 more
    for k in (0.6, 1.6, 2.6, 3.6):
        assert fast(k - 1.0) == branches(k - 1.0)
    assert fast.cache_info().traces == 5


def test_the_warning_says_how_to_make_it_an_error_and_explain_says_it_again():
    for f, why, args in (
        (reads_the_clock, r"time.*test_fallback_reports\.py:\d+", (1.0,)),
        (branches, r"3 traces already.*test_fallback_reports\.py:\d+", (100.0,)),
    ):
        fast = jit(f, max_traces=3)
        with pytest.warns(RuntimeWarning, match=r"jit\(strict=True\) makes this an error") as told:
            for k in range(20):
                assert fast(k - 0.5) is not None
        (one,) = told
        assert re.search(f"{f.__name__} runs in plain Python.*{why}", str(one.message))
        text = fast.explain(*args)
        assert re.search(f"plain Python.*{why}", text, re.DOTALL), text


def test_a_derivative_that_runs_in_plain_python_says_so():
    both = tracker.value_and_grad(jit(lambda x: reads_the_clock(x)))
    with pytest.warns(RuntimeWarning, match="value_and_grad of function runs in plain Python"):
        both(1.0)
    assert both.explain(1.0).startswith("value_and_grad of function runs in plain Python")
    with pytest.raises(CompileError, match="value_and_grad of function runs in plain Python"):
        both.ir(1.0)
    with pytest.raises(CompileError, match="function cannot be traced"):
        jit(lambda x: reads_the_clock(x), strict=True).explain(1.0)


def test_explanations_are_shown_as_they_are():
    text = jit(rosenbrock).explain(X)
    assert repr(text) == str(text) and "\n  one native call" in text
    assert text._repr_html_().startswith("<pre>rosenbrock: 1 trace(s)")
    assert repr(ShownText("a < b")) == "a < b"
    assert ShownText("a < b")._repr_html_() == "<pre>a &lt; b</pre>"


def test_functions_that_are_not_compiled_say_what_they_are_too():
    for wrap in (lambda f: f, jit):
        for transform in (tracker.pullback, tracker.pushforward):
            _, made = transform(wrap(rosenbrock), X)
            what = transform.__name__
            assert repr(made).startswith(f"<function {what} of rosenbrock at")
    for transform in (tracker.value_and_grad, tracker.vmap):
        made = transform(rosenbrock)
        what = transform.__name__
        assert repr(made).startswith(f"<function {what} of rosenbrock at")
        assert repr(jit(made)) == f"<jitted {what}_of_rosenbrock>"
        assert "<function value_and_grad of vmap" in repr(
            tracker.value_and_grad(tracker.vmap(lambda x: x))
        )


class Scaled:
    factor = 2.0

    @tracker.jit
    def total(self, x):
        return self.factor * np.sum(x)


@pytest.mark.parametrize("ask", ["explain", "profile", "ir", "llvm", "asm"])
def test_what_is_asked_of_a_method_takes_the_object(ask):
    model = Scaled()
    assert getattr(model.total, ask)(model, X)
    with pytest.raises(
        TypeError, match=r"missing a required .* 'x'\. .* Model\.f\.explain\(model, x\)"
    ):
        getattr(model.total, ask)(X)


def test_a_call_that_raised_is_no_cause_of_a_trace():
    f = tracker.jit(lambda x, y: x * y)
    with pytest.raises(TypeError, match="'y'"):
        f(X)
    f(X, 2.0)
    assert "trace 1: the first call" in f.explain(X, 2.0)


class Unit:
    clock = 0

    def __init__(self):
        self.log, self.last, self.pair = [], None, [0.0]
        self.many = [float(k) for k in range(100)]


@dataclasses.dataclass
class Step:
    at: float


class Table(dict):
    pass


UNIT = Unit()
WINDOWS = []
ONE = OTHER = [0.0]
KNOWN, STEPS, MEMBERS, TABLE = {}, {}, set(), Table()
LEVEL = contextvars.ContextVar("LEVEL", default=0.0)


def counts_in_a_class(x):
    Unit.clock += 1
    return x * 2


def keeps_a_window(x):
    WINDOWS.append(collections.deque([x], maxlen=3))
    return x * 2


def keeps_a_set(x):
    WINDOWS.append({"a", 1})
    return x * 2


def keeps_an_object(x):
    UNIT.last = Unit()
    return x * 2


def keeps_a_view(x):
    y = x * np.ones(3)
    UNIT.last = [y, y[:2]]
    return x * 2


def changes_a_long_list(x):
    UNIT.many[3] = UNIT.many[3] + 1.0
    return x * UNIT.many[3]


def deletes_an_attribute(x):
    del UNIT.tmp
    return x * 2


def changes_a_list_of_two_names(x):
    ONE[0] = ONE[0] + 1
    return x * OTHER[0]


def has_tuples_for_keys(x):
    KNOWN[1, len(KNOWN)] = x
    return x * 2


def makes_a_dataclass(x):
    STEPS["a"] = Step(x)
    return x * STEPS["a"].at


def adds_to_a_set(x):
    MEMBERS.add(len(MEMBERS))
    return x * len(MEMBERS)


def sets_a_context_variable(x):
    LEVEL.set(LEVEL.get() + x)
    return x * 2


def changes_a_dict_of_its_own_class(x):
    TABLE["a"] = x
    return x * len(TABLE)


CHANGES = {
    deletes_an_attribute: r"it deletes Unit\.tmp\. Assign None",
    changes_a_list_of_two_names: "it changes global (ONE|OTHER), and finds it elsewhere, too",
    has_tuples_for_keys: "it changes the order of the keys of global KNOWN, or has keys",
    makes_a_dataclass: r"it makes Step\.at, which the next call finds\. Change the object",
    adds_to_a_set: "global MEMBERS is not the same after each call",
    sets_a_context_variable: "context variable LEVEL changes, and no assignment",
    changes_a_dict_of_its_own_class: "it changes global TABLE, of class Table",
    counts_in_a_class: r"it assigns to Unit\.clock, an attribute of a class\. Keep it in an object",
    keeps_a_window: r"it stores an object of class deque in global WINDOWS, .*Store list\(\.\.\.\)",
    keeps_a_set: r"it stores an object of class set in global WINDOWS, .*Store tuple\(\.\.\.\)",
    keeps_an_object: r"it stores an object of class Unit in Unit\.last, .*Store numbers, text",
    keeps_a_view: r"it stores an array, and stores or returns a view of it\. Store a copy",
    changes_a_long_list: r"it changes Unit\.many, a list whose items are no inputs.* in an array",
}


@pytest.mark.parametrize("f", CHANGES, ids=lambda f: f.__name__)
def test_the_warning_names_what_a_call_changes(f):
    fast = jit(f)
    with pytest.warns(RuntimeWarning) as told:
        for k in range(6):
            UNIT.tmp = 1.0
            fast(k + 0.5)
    (one,) = told
    why = f"each call changes what the next one reads: {CHANGES[f]}"
    assert re.search(why, str(one.message)), str(one.message)
    assert re.search(why, fast.explain(0.5))
