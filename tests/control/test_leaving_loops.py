"""Python loops that are left when a condition on values holds: one trace for any number of
iterations."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from leaving_loop_programs import NESTED, PROGRAMS

import tracker
from tracker.control.python_loops import rolling

POINTS = [np.array([a, b, 0.5]) for a in (1.3, 2.0, 3.7, 9.0) for b in (0.4, 1.1)]


@pytest.mark.filterwarnings("ignore:small")
@pytest.mark.parametrize(("f", "traces"), PROGRAMS)
def test_results(f, traces):
    compiled = tracker.jit(f)
    for p in POINTS + POINTS:
        want, have = f(p.copy()), compiled(p)
        np.testing.assert_allclose(have, want, rtol=1e-11)
        for a, b in zip(np.atleast_1d(have), np.atleast_1d(want), strict=True):
            assert type(a) is type(b)
    if traces is not None:
        assert compiled.cache_info().traces <= traces


@pytest.mark.filterwarnings("ignore:small")
@pytest.mark.parametrize(("f", "traces"), PROGRAMS)
def test_gradients(f, traces):
    def loss(p):
        result = f(p)
        return result[0] if isinstance(result, tuple) else result

    compiled = tracker.jit(lambda p: tracker.gradient(loss, p)[0])
    outside = tracker.jit(loss)
    for p in POINTS + POINTS:
        (want,) = tracker.gradient(loss, p)
        np.testing.assert_allclose(compiled(p), want, rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(tracker.gradient(outside, p)[0], want, rtol=1e-9, atol=1e-13)
    if traces is not None:
        assert compiled.cache_info().traces <= traces


@pytest.mark.parametrize(("f", "traces"), NESTED)
def test_loops_within_loops(f, traces):
    compiled = tracker.jit(tracker.value_and_grad(f))
    for p in POINTS:
        want, slopes = tracker.value_and_grad(f)(p, 12)
        have, found = compiled(p, 12)
        np.testing.assert_allclose(have, want, rtol=1e-9)
        np.testing.assert_allclose(found, slopes, rtol=1e-7, atol=1e-10)
    if traces is not None:
        assert compiled.cache_info().traces <= traces


@pytest.mark.parametrize(("f", "traces"), NESTED)
def test_loops_within_loops_are_one(f, traces, monkeypatch):
    monkeypatch.setattr(rolling, "_MIN_EQUATIONS", 1)
    few, more = (str(tracker.jit(f).ir(POINTS[0], n)) for n in (40, 80))
    assert more.count("\n") < 1.2 * few.count("\n")


# Drawn programs -----------------------------------------------------------------------------------

UPDATES = (
    "a = a * 0.8 + 0.02 * b",
    "b = b * 0.9 - 0.01 * a",
    "a, b = b, a",
    "v, u = u, v * 0.5 + 0.1 * u",
    "u = v",
    "u = u + 0.1 * v * a",
    "q = (q[1], q[0] * 0.9 + a)",
    "q = (q[0] + t, q[1])",
    "k += 1",
    "t = a * b",
    "s = s + a * 0.1",
    "s = s + np.sum(v) * 0.01",
    "v = v * 0.7 + 0.1 * a",
    "v[0] = v[0] * 0.5 + b",
    "v *= 0.9",
    "s = s + (a if a > 0.5 else b * b)",
    "s = s * 1.01 if k > 3 else s + 0.1",
    "if s > {c}: t = t + 1.0",
    "if a < {c}: continue",
    "if a < {c}: break",
    "if s > {c} and k > 2: break",
    "if np.max(v) < {c}: break",
    "if t > {c}: return t * a",
    "if b * b < {c}: s = s + table[k]",
    "s = s + table[n]",
    "if table[n] > {c}: a = a * 0.9\n        else: s = s + table[n] * b",
    "if a > b: a, b = b, a * 1.1",
    "s = s + min(a, b)",
    "if a * a > {c}:\n            s = s + a\n            k += 1\n        elif b < {c}: b = b + 0.3",
    "a = a if np.sin(9.0 * a) > 0 else a * 0.9",
    "for j in range(6): s = s + 0.01 * v[j % 3]",
    "for _ in range(30):\n            b = b * 0.8\n            if b < {c}: break",
)
HEADS = (
    "for i in range(30):",
    "for i, w in enumerate(table):",
    "while a > {c} and k < 40:",
    "while k < 40 and s < 9.0:",
    "while True:",
)
LONG = 200  # assignments that a jump cannot pass without an extended argument


NAMES = "abstkvwuq"


@st.composite
def programs(draw):
    number = st.sampled_from((0.05, 0.2, 0.4, 0.8, 1.5, 3.0))
    body = draw(st.lists(st.sampled_from(UPDATES), min_size=2, max_size=6))
    head = draw(st.sampled_from(HEADS))
    padding = ["unread = k"] * draw(st.sampled_from((0, LONG)))
    lines = ["k += 1", "n += 1"] if head.startswith("while") else ["n = i"]
    lines += ["if n >= 30: break", *body[:1], *padding, *body[1:], "a = a * 0.97"]
    text = [
        "    a, b, s, t, k, n = p[0], p[1], p[0] * 0.1, p[2], 0, -1",
        "    v, i, w, u, q = p * 0.3, 0, 0.0, p * 0.2, (p[1], 1.0)",
        f"    {head.format(c=draw(number))}",
        *(f"        {line.format(c=draw(number))}" for line in lines),
        "    u += a",
        "    return a + 2.0 * b + s + t + 0.1 * k + np.sum(v * u) + i * a + w * b + q[0] * q[1]",
    ]
    stored = "".join(draw(st.sets(st.sampled_from(NAMES)))) or "_"
    body = re.sub(rf"\b([{stored}])\b", r"held.\1", "\n".join(text))
    return f"def f(p):\n    held = SimpleNamespace()\n{body}"


@settings(max_examples=2 * settings.default.max_examples)
@given(programs(), st.booleans())
def test_drawn_programs(text, always_pays):
    space = {"np": np, "SimpleNamespace": SimpleNamespace, "table": np.linspace(0.1, 0.9, 256)}
    exec(text, space)
    f = space["f"]
    with pytest.MonkeyPatch.context() as patch:
        if always_pays:
            patch.setattr(rolling, "_MIN_EQUATIONS", 1)
        compiled = tracker.jit(tracker.value_and_grad(f))
        for p in POINTS:
            want, slopes = tracker.value_and_grad(f)(p)
            have, found = compiled(p)
            np.testing.assert_allclose(have, want, rtol=1e-9)
            np.testing.assert_allclose(found, slopes, rtol=1e-7, atol=1e-10)


@pytest.mark.filterwarnings("ignore:small")
@pytest.mark.parametrize("leaves", ["return a + n", "break", "a = a * 0.5"])
@pytest.mark.parametrize("head", ["for n in range(3000):", "while n < 3000 and a < 1e9:"])
def test_iterations_of_many_instructions(head, leaves):
    text = [
        "def f(p):",
        "    a, n = p[0] + p[1], 0",
        f"    {head}",
        "        if a > 20.0:",
        f"            {leaves}",
        *["        unread = n"] * LONG,
        "        a = a + 0.1 * p[2]",
        "        n = n + 1" * head.startswith("while"),
        "    return a * 2.0 - n",
    ]
    space = {}
    exec("\n".join(text), space)
    f = space["f"]
    compiled = tracker.jit(tracker.value_and_grad(f))
    for p in POINTS:
        want, slopes = tracker.value_and_grad(f)(p)
        have, found = compiled(p)
        np.testing.assert_allclose(have, want, rtol=1e-11)
        np.testing.assert_allclose(found, slopes, rtol=1e-9)


@pytest.mark.optimised
def test_backward_passes_of_three_nested_loops():
    """Carried numbers come through many bodies as what they are: LLVM took some for others."""

    def f(p):
        x, y, t, n = p[0], p[1] * 0.5, p[2], 0
        for i in range(10):
            n = 0
            while i > 2:
                n += 1
                if n > 12:
                    break
                m = 0
                while True:
                    m += 1
                    if m > 4:
                        break
                    t = t + 0.01 * x
                    if abs(p[(6 - n) % 7]) < 0.3:
                        break
        return x + t + y

    draw = np.random.default_rng(200330)
    _, small, large = (draw.standard_normal(7) * scale for scale in (1, 0.3, 2))
    compiled = tracker.jit(tracker.value_and_grad(f))
    for p in (small, large, large):
        want, slopes = tracker.value_and_grad(f)(p)
        have, found = compiled(p)
        np.testing.assert_allclose(have, want, rtol=1e-11)
        np.testing.assert_allclose(found, slopes, rtol=1e-11, atol=1e-13)
