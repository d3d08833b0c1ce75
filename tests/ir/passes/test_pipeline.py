"""The order of the passes: what they require is there, and each prefix keeps the values."""

import numpy as np
import pytest
from ir_programs import evaluate

import tracker
from tracker.errors import IRError
from tracker.ir.passes.common_subexpressions import COMPOSITE
from tracker.ir.passes.expand import EXPANDED
from tracker.ir.passes.manager import Pass, Property, run
from tracker.jit.pipeline.pass_order import PASSES

RNG = np.random.default_rng(0)
NAMES = [each.name for each in PASSES]


def mixed(x, w):
    """Something for most passes: products, a sort, reads at positions, writes, a loop."""
    order = np.argsort(x, kind="stable")
    y = np.sort(x) + x[order[::-1]]
    rows = np.stack([y, y * 0.5]).astype(np.float32)
    h = np.tanh(rows @ w)
    last, steps = tracker.scan(lambda c, r: (0.5 * c + r, np.sin(c)), h[0], h)
    out = np.concatenate([last, y])
    out[2:5] += steps[0, 0]
    out[2:5] = out[2:5] * 2.0
    return np.sum(out * out) + np.sum(w @ w.T)


def long(x, w):
    for _ in range(150):
        x = np.tanh(w @ x) + x
    return np.sum(x)


PROGRAMS = {
    "mixed": (mixed, RNG.normal(size=7), RNG.normal(size=(7, 4))),
    "long": (long, RNG.normal(size=6), RNG.normal(size=(6, 6)) / 6),
}


def trace(name):
    f, *args = PROGRAMS[name]
    return tracker.trace(lambda *a: tracker.withgradient(f, *a), *args), args


def check(function, passes):
    return run(function, passes, check=True, given=(COMPOSITE,))


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_prefix_keeps_the_values(name):
    function, args = trace(name)
    expected = evaluate(function, args)
    for each in PASSES:
        function = run(function, [each], check=True)
        for have, want in zip(evaluate(function, args), expected, strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-5 if name == "mixed" else 1e-10)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_order_meets_all_requirements(name):
    check(trace(name)[0], PASSES)


NEEDED = {
    "expand": "legalize_linalg_dtypes",
    "legalize_linalg_dtypes": "rewrite_products",
}


@pytest.mark.parametrize("name", dict.fromkeys(NAMES))
def test_a_pass_that_others_require_is_missed(name):
    function = trace("mixed")[0]
    passes = [each for each in PASSES if each.name != name]
    if name not in NEEDED:
        check(function, passes)
        return
    with pytest.raises(IRError, match=f"^{NEEDED[name]} requires of the passes before it: "):
        check(function, passes)


@pytest.mark.parametrize("at", range(len(PASSES) - 1))
def test_exchanged_neighbours_are_reported_where_one_requires_the_other(at):
    first, second = PASSES[at : at + 2]
    passes = [*PASSES[:at], second, first, *PASSES[at + 2 :]]
    needs = set(second.requires) & set(first.establishes) or set(first.requires) & set(
        second.removes
    )
    if not needs:
        check(trace("mixed")[0], passes)
        return
    with pytest.raises(IRError, match="requires of the passes before it"):
        check(trace("mixed")[0], passes)
    assert (first.name, second.name) in {
        ("reuse_sort_order", "expand"),
        ("expand", "legalize_linalg_dtypes"),
    }


def test_a_property_that_does_not_hold_is_reported():
    function = trace("mixed")[0]
    idle = Pass("idle", lambda f: f, establishes=(EXPANDED,))
    with pytest.raises(IRError, match="after idle this does not hold: ops that are lowered"):
        check(function, [idle])
    short = Property("short", lambda f: len(f.body) < 3)
    cut = Pass("cut", lambda f: tracker.trace(np.sin, 1.0), establishes=(short,))
    back = Pass("back", lambda f: function)
    with pytest.raises(IRError, match="after back this does not hold: short"):
        check(function, [cut, back])
    assert run(function, [idle, cut, back], given=()) is function  # not checked
