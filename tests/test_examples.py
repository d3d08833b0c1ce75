"""Examples are tests: they run, and they say what they promise."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import tracker

EXAMPLES = Path(__file__).parent.parent / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


@pytest.fixture(scope="module")
def digits():
    return load("digits")


def test_digits_trains_to_97_percent(digits):
    model, score, losses, seconds, _ = digits.train(quiet=True)
    assert score >= 0.97
    assert losses[-1] < losses[0] / 10
    assert len(seconds["eager"]) and len(seconds["compiled"])
    assert type(model) is digits.MLP


def test_digits_eager_and_compiled_take_the_same_steps(digits):
    eager = digits.train(epochs=2, eager_epochs=2, quiet=True)[0]
    compiled = digits.train(epochs=2, eager_epochs=0, quiet=True)[0]
    for a, b in zip(tracker.tree.leaves(eager), tracker.tree.leaves(compiled), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_digits_draws_a_picture(digits, tmp_path):
    model, _, losses, seconds, test = digits.train(epochs=1, eager_epochs=1, quiet=True)
    digits.draw(model, losses, seconds, test, tmp_path / "out" / "digits.png")
    assert (tmp_path / "out" / "digits.png").stat().st_size > 10_000
