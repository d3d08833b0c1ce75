"""Random programs: compiled calls and derivatives give what the plain ones do, whatever is drawn.

Derivatives of every order and nesting are compared with the eager ones, and those with differences.
`TRACKER_HYPOTHESIS=deep` runs a thousand programs a property.
"""

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jit_programs import Raised, check_calls, outcome, programs

import tracker as tr
from tracker import gradient, jit


def tangents(arguments):
    rng = np.random.default_rng(3)
    return tuple(
        rng.normal(size=np.shape(x)) if np.shape(x) else float(rng.normal()) for x in arguments
    )


class Plain:
    """What is compared."""

    def results(p, *xs):
        return p(*xs)

    def gradients(p, *xs):
        return gradient(p.loss, *xs)

    def twice(p, *xs):
        return _twice(p.loss)(*xs)

    def pullbacks(p, *xs):
        return _pulled(p.loss, *xs)

    def second_derivatives(p, *xs):
        return gradient(lambda *ys: _squared_slopes(p, *ys), *xs)

    def forward_mode(p, *xs):
        return tr.jvp(p.loss, xs, tangents(xs))[1]

    def forward_over_reverse_and_over_that(p, *xs):
        """Hessian-vector products, and the third derivative along two tangents."""
        along = tangents(xs)

        def product(*ys):
            return tr.jvp(lambda *zs: gradient(p.loss, *zs), ys, along)[1]

        return product(*xs), tr.jvp(product, xs, along)[1]


def _twice(f):
    return lambda *xs: tr.withgradient(lambda *ys: f(*ys) * 2.0, *xs)


def _pulled(f, *xs):
    y, back = tr.pullback(f, *xs)
    return y, back(1.0), back(-2.5)


def _squared_slopes(p, *xs):
    return sum(np.sum(g * g) for g in gradient(p.loss, *xs) if g is not None) * 0.1


def derived(derive):
    """A derivative of a compiled loss."""

    def way(p):
        f = jit(p.loss)
        return lambda *xs: derive(f, *xs)

    return way


def _gradient_of_slopes(p):
    f = jit(lambda *xs: _squared_slopes(p, *xs))
    return lambda *xs: gradient(f, *xs)


def _pushed(f, *xs):
    return tr.jvp(f, xs, tangents(xs))[1]


COMPLEX = {"sizes": "mixed", "dtypes": ["c16", "c16", "f8", "c8", "i8"]}
SMOOTH = {"most": 6, "dtypes": ["f8"], "numbers": ["float", "np.float64"]}
MIXED = {"sizes": "mixed", "most": 6}
# Which programs; what is compared, also compiled whole; another way to it; the tolerance.
WAYS = {
    "tiny": ({"sizes": "tiny"}, Plain.results, jit, 1),
    "medium": ({"sizes": "medium"}, Plain.results, jit, 1),
    "long": ({"sizes": "mixed", "most": 20}, Plain.results, jit, 1),
    "complex": (COMPLEX, Plain.results, jit, 1),
    "gradients": ({"sizes": "mixed"}, Plain.gradients, derived(gradient), 10),
    "complex gradients": (COMPLEX | {"most": 6}, Plain.gradients, derived(gradient), 10),
    "compiled in differentiated in compiled": (
        *(MIXED, Plain.twice),
        *(lambda p: jit(_twice(jit(p.loss))), 10),
    ),
    "pullbacks": (MIXED, Plain.pullbacks, derived(_pulled), 10),
    "second derivatives": (
        MIXED | {"sizes": "tiny"},
        Plain.second_derivatives,
        _gradient_of_slopes,
        100,
    ),
    "forward mode": (SMOOTH | {"sizes": "mixed"}, Plain.forward_mode, derived(_pushed), 10),
    "forward over reverse": (
        *(SMOOTH | {"sizes": "tiny"}, Plain.forward_over_reverse_and_over_that),
        *(None, 1000),
    ),
}


@pytest.mark.parametrize("name", WAYS)
@given(data=st.data())
def test_random_programs(name, data):
    options, plain, way, tolerance = WAYS[name]
    program = data.draw(programs(**options))
    ways = [jit(lambda *xs: plain(program, *xs))] if way is not jit else []
    ways += [way(program)] if way else []
    check_calls(program, plain, *ways, tolerance=tolerance)


# Structures ---------------------------------------------------------------------------------------

Pair = namedtuple("Pair", "first second")


@dataclass
class Parts:
    one: Any
    rest: Any


PACKS = {  # without a list of numbers, which derivatives take for an array
    "tuple": tuple,
    "list": lambda xs: [tuple(xs), "a string", None],
    "dict": lambda xs: {f"x{k}": x for k, x in enumerate(xs)},
    "named tuple": lambda xs: Pair(xs[0], tuple(xs[1:])),
    "dataclass": lambda xs: Parts(xs[0], {"rest": tuple(xs[1:])}),
    "nested": lambda xs: {"a": [(xs[0], True)], "b": {"c": Pair(tuple(xs[1:]), None)}},
}
UNPACKS = {
    "tuple": list,
    "list": lambda s: s[0],
    "dict": lambda s: list(s.values()),
    "named tuple": lambda s: [s.first, *s.second],
    "dataclass": lambda s: [s.one, *s.rest["rest"]],
    "nested": lambda s: [s["a"][0][0], *s["b"]["c"].first],
}
packs = st.sampled_from(sorted(PACKS))


@given(program=programs("mixed"), pack=packs, result=packs)
def test_structures(program, pack, result):
    def f(p, s):
        return PACKS[result](list(p(*UNPACKS[pack](s))))

    compiled = jit(lambda s: f(program, s))
    check_calls(
        program,
        lambda p, *xs: f(p, PACKS[pack](list(xs))),
        lambda *xs: compiled(PACKS[pack](list(xs))),
    )


@given(program=programs("mixed", most=6), pack=packs)
def test_gradients_of_structures(program, pack):
    def loss(p, s):
        return p.loss(*UNPACKS[pack](s))

    def plain(p, *xs):
        return tr.withgradient(lambda s: loss(p, s), PACKS[pack](list(xs)))

    f, whole = jit(lambda s: loss(program, s)), jit(lambda *xs: plain(program, *xs))
    check_calls(
        program, plain, lambda *xs: tr.withgradient(f, PACKS[pack](list(xs))), whole, tolerance=10
    )


# The eager derivatives themselves -----------------------------------------------------------------


@given(program=programs("tiny", most=6, dtypes=["f8"], numbers=["float", "np.float64"]))
def test_eager_derivatives_are_those_of_the_numbers(program):
    """Reverse and forward mode agree with each other, and where it is smooth, with differences."""
    along = tangents(program.arguments)
    assume(not isinstance(outcome(program.loss, program.copies()), Raised))
    slope = tr.jvp(program.loss, tuple(program.copies()), along)[1]
    pulled = gradient(program.loss, *program.copies())
    parts = [np.sum(g * t) for g, t in zip(pulled, along, strict=True)]
    scale = 1.0 + sum(map(abs, parts))
    assert abs(sum(parts) - slope) <= 1e3 * program.tolerance * scale
    left, right = (_difference(program, along, h) for h in (-1e-6, 1e-6))
    assume(abs(left - right) < 1e-3 * scale and program.tolerance < 1e-9)
    assert abs((left + right) / 2 - slope) < 1e-4 * scale


def _difference(program, along, h):
    """The slope to one side."""
    near = [x + h * t for x, t in zip(program.copies(), along, strict=True)]
    pairs = zip(program.arguments, near, strict=True)
    moved = [np.asarray(y) if type(x) is np.ndarray else y for x, y in pairs]
    values = [outcome(program.loss, xs) for xs in (moved, program.copies())]
    assume(not isinstance(values[0], Raised))
    return (values[0] - values[1]) / h
