"""Math functions of long texts are called; the numbers are those of inlined ones."""

import numpy as np
import pytest

import tracker
from tracker.jit.llvm import engine, math_calls
from tracker.jit.llvm.math_calls import call_math_of_long_texts

pytestmark = pytest.mark.optimised

FUNCTION = (
    "define internal double @vm.{0}(double %x) alwaysinline {{\n"
    "  %y = fmul double %x, {1}\n  %z = fadd double %y, 1.0\n  ret double %z\n}}\n"
)
OFTEN, RARE = FUNCTION.format("often", "2.0"), FUNCTION.format("rare", "3.0")


def text(count):
    """A function that calls one math function `count` times, and another once."""
    lines = ["define double @f(double %v0) {"]
    lines += [f"  %v{k + 1} = call double @vm.often(double %v{k})" for k in range(count)]
    lines += [f"  %last = call double @vm.rare(double %v{count})", "  ret double %last", "}\n"]
    return OFTEN + RARE + "\n".join(lines)


def test_long_texts_call_what_they_use_often(monkeypatch):
    short = text(10)
    assert call_math_of_long_texts(short) == short
    monkeypatch.setattr(math_calls, "_MAX_INLINED_LINES", 20)
    assert call_math_of_long_texts(text(2)) == text(2)
    called = call_math_of_long_texts(short)
    assert "@vm.often(double %x) noinline nounwind willreturn memory(none) {" in called
    assert "@vm.rare(double %x) alwaysinline {" in called


@pytest.mark.parametrize("level", [engine.OPTIMISED, engine.QUICK])
def test_called_functions_compute_the_same(monkeypatch, level):
    monkeypatch.setattr(math_calls, "_MAX_INLINED_LINES", 0)
    module = engine.compile_module(text(10), level=level)
    assert "call double @vm.often" in module.llvm and "@vm.rare" not in module.llvm


def test_programs_that_call_math(monkeypatch):
    changed = []

    def spied(text):
        changed.append(call_math_of_long_texts(text) != text)
        return call_math_of_long_texts(text)

    def f(x):
        for k in range(1, 6):
            x = np.tanh(x * k) + np.exp(-x * x) - np.cos(x) * np.sin(x + k)
        return np.sum(x)

    x = np.linspace(-1.0, 1.0, 37)
    monkeypatch.setattr(math_calls, "_MAX_INLINED_LINES", 0)
    monkeypatch.setattr(engine, "call_math_of_long_texts", spied)
    with tracker.config(threads=1):
        called = tracker.jit(lambda x: tracker.value_and_grad(f)(x), cache=False)
        value, gradient = [called(x) for _ in range(3)][-1]
    want = tracker.value_and_grad(f)(x)
    np.testing.assert_allclose(value, want[0], rtol=1e-13)
    np.testing.assert_allclose(gradient, want[1], rtol=1e-11, atol=1e-13)
    assert any(changed)
