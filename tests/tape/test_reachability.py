"""Live leaves are found in linear time.

Each derivative in a loop of an outer function asks whether its argument depends on a live leaf,
which may be as far away as the loop is long.
"""

import gc
import weakref

import numpy as np
import pytest
from counting import lines_run

import tracker as tr
from tracker import gradient
from tracker.tape.live_leaves import depends_on_live_leaf, live_leaf
from tracker.tape.observers import close_leaf
from tracker.tape.record import value_of, wrap
from tracker.tape.tracing.tracer import Tracer
from tracker.tape.value import leaf

SHORT, LONG = 50, 200


@tr.custom_gradient
def _ruled(x):
    return np.sin(x), lambda g: (g * np.cos(x),)


@tr.custom_gradient
def _with_pullback(x):
    return tr.pullback(np.sin, x)


def _traced(f):
    with Tracer():
        gradient(f, wrap(leaf(1.0)))


STEPS = {
    "custom_gradient": _ruled,
    "a rule that is a pullback": _with_pullback,
    "gradient": lambda x: gradient(lambda v: np.sum(np.sin(v)), x)[0],
    "jvp": lambda x: tr.jvp(np.sin, (x,), (1.0,))[1],
    "checkpoint": lambda x: tr.checkpoint(np.sin, x),
    "hook": lambda x: tr.hook(lambda g: g * 0.5, np.sin(x)),
}
ROUTES = {
    "gradient": lambda f: gradient(f, 1.0),
    "gradient of gradient": lambda f: gradient(lambda x: gradient(f, x)[0], 1.0),
    "jvp": lambda f: tr.jvp(f, (1.0,), (1.0,)),
    "jvp of gradient": lambda f: tr.jvp(lambda x: gradient(f, x)[0], (1.0,), (1.0,)),
    "param": lambda f: f(tr.param(1.0) * 1.0),
    "traced": _traced,
}


def _chain(step, n):
    def chain(x):
        for _ in range(n):
            x = step(x)
        return x

    return chain


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("step", STEPS)
def test_cost_is_linear_in_the_length_of_a_chain(step, route):
    run = ROUTES[route]
    run(_chain(STEPS[step], 2))
    short, long = (lines_run(lambda n=n: run(_chain(STEPS[step], n))) for n in (SHORT, LONG))
    assert long < 1.1 * LONG / SHORT * short


def test_reachability_is_linear_in_a_graph_with_joins():
    """Two operands at each step: 2**n paths to the leaf."""
    first = leaf(1.0)
    x = wrap(first)

    def ask(x):
        for _ in range(LONG):
            x = np.sin(x) + np.cos(x)
            assert depends_on_live_leaf(value_of(x))
        close_leaf(first)
        assert not depends_on_live_leaf(value_of(x))

    assert lines_run(lambda: ask(x)) < 500 * LONG


def test_closed_leaves_are_not_live():
    outer, inner, param = leaf(1.0), leaf(2.0), tr.param(3.0)
    both = value_of(wrap(outer) * wrap(inner))
    all_three = value_of(wrap(both) * param)
    of_param = value_of(param * 2.0)
    assert live_leaf(all_three) in (outer, inner)
    close_leaf(inner)
    assert live_leaf(all_three) is live_leaf(both) is outer
    close_leaf(outer)
    assert live_leaf(both) is None
    assert live_leaf(all_three) is live_leaf(of_param) is value_of(param)
    assert depends_on_live_leaf(all_three) and not depends_on_live_leaf(all_three, params=False)


def test_cached_leaves_are_weak_references():
    param = tr.param(np.ones(3))
    y = np.sum(param * param)
    held = weakref.ref(value_of(param))
    assert depends_on_live_leaf(value_of(y))
    tr.back(y)
    del param
    gc.collect()
    assert held() is None
