"""Every Python block of README runs, and the values it shows are the values it gives."""

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.optimize  # noqa: F401  (imported here, because it changes warning filters)

import tracker

TEXT = (Path(__file__).parent.parent / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
SHOWN = re.compile(r"^(?P<code>[a-z]\w*\(.*\))\s+# (?P<value>.+)$")


@pytest.fixture(scope="module")
def names():
    """The blocks share their names, as they do for a reader."""
    return {"tracker": tracker}


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_block_runs(number, names):
    for earlier in BLOCKS[:number]:
        exec(earlier, names)
    exec(BLOCKS[number], names)
    for line in BLOCKS[number].splitlines():
        shown = SHOWN.match(line)
        if shown and " a call" not in shown["value"]:
            assert repr(eval(shown["code"], names)) == shown["value"]


def test_headline_values(names):
    exec(BLOCKS[0], names)
    f = names["f"]
    (g,) = tracker.gradient(f, [1, 2, 3])
    assert g.tolist() == [2.0, 7.0, 8.0]
    both = tracker.withgradient(f, [1, 2, 3])
    assert both.val == 20
    assert both.grad[0].tolist() == [2.0, 7.0, 8.0]
    x = tracker.param([1, 2, 3])
    tracker.back(f(x))
    np.testing.assert_array_equal(tracker.grad(x), [2.0, 7.0, 8.0])


def test_model_of_readme_gets_a_gradient_of_its_structure(names):
    for block in BLOCKS[:3]:
        exec(block, names)
    model = names["model"]
    gradient = tracker.gradient(lambda m: np.sum(m(np.array([0.1, 0.2]))), model)[0]
    assert type(gradient) is names["Chain"]
    first, second = gradient.layers
    t = np.tanh(0.3)
    np.testing.assert_allclose(first.weight, (1 - t**2) * np.array([[0.1, 0.2]]))
    np.testing.assert_allclose(first.bias, [1 - t**2])
    np.testing.assert_allclose(second.weight, [[t]])
    assert first.activation is None
    assert second.bias is None
    assert second.activation is None
