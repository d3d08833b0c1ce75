"""Equations of derivatives are recorded at the user's lines that they derive from."""

import inspect

import numpy as np
import pytest

import tracker

X = np.linspace(0.1, 1.0, 200)


def straight(x):
    y = np.sin(x)  # sine
    return np.sum(y**2)


def repeated(x):
    for k in range(30):
        x = x + np.sin(x) * k  # sine
    return np.sum(x)


def with_scan(x):
    def step(c, _):
        return np.sin(c), None  # sine

    return np.sum(tracker.scan(step, x, np.zeros(9))[0])


def rule(x):
    y = np.sin(x)
    return y, lambda d: (d * np.cos(x),)  # cosine


ruled = tracker.custom_gradient(rule)


def with_rule(x):
    return np.sum(ruled(x))


def marked(f, mark):
    """The number of the line of a function with this comment."""
    lines, first = inspect.getsourcelines(f)
    (at,) = [k for k, text in enumerate(lines) if text.rstrip().endswith(f"# {mark}")]
    return first + at


def lines_of(function, name):
    """The numbers of the lines of an op, in a function and those nested in it."""
    found = {int(e.where.rpartition(":")[2]) for e in function.eqns if e.op.name == name}
    return found.union(*(lines_of(f, name) for f in function.functions.values()))


TRANSFORMS = {
    "gradient": lambda f: lambda x: tracker.gradient(f, x)[0],
    "pullback": lambda f: lambda x: tracker.pullback(f, x)[1](1.0),
    "jvp": lambda f: lambda x: tracker.jvp(f, (x,), (x,))[1],
    "hessian": lambda f: lambda x: tracker.hessian(f, x[:5]),
    "vmap": lambda f: (
        lambda x: tracker.vmap(lambda r: tracker.gradient(f, r)[0])(np.reshape(x, (20, 10)))
    ),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("f", [straight, repeated, with_scan])
def test_rules_are_at_the_line_that_they_derive_from(f, transform):
    function = tracker.trace(TRANSFORMS[transform](f), X)
    line = marked(f, "sine")
    assert lines_of(function, "cos") == {line}
    assert lines_of(function, "sin") == {line}


def test_host_calls_of_derivatives_are_at_the_line_of_the_call():
    @tracker.custom_gradient(host=True)
    def outside(x):
        return np.tanh(x), lambda d: (d * x,)

    def f(x):
        y = np.sin(x)
        return np.sum(outside(y) * x)  # host

    function = tracker.trace(TRANSFORMS["gradient"](f), X)
    names = [e.op.name for e in function.eqns if e.op.name.startswith("outside")]
    assert len(names) == 2
    assert {lines for name in names for lines in lines_of(function, name)} == {marked(f, "host")}


def test_rules_of_the_users_are_at_their_own_lines():
    function = tracker.trace(TRANSFORMS["gradient"](with_rule), X)
    assert lines_of(function, "cos") == {marked(rule, "cosine")}
