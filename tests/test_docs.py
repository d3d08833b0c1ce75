"""The examples in docs/ and in docstrings run, and give what they show."""

import doctest
import importlib
import re
from pathlib import Path

import numpy as np
import pytest

import tracker

DOCS = Path(__file__).parent.parent / "docs"
SHOWN = re.compile(r"^(?P<code>\S.*\S)  # (?P<value>.+)$")
MODULES = [
    "tracker.config", "tracker.optim.first_order", "tracker.optim.scipy_minimize",
    "tracker.support.numpy_version", "tracker.support.shown_text", "tracker.jit.api",
    "tracker.autodiff.custom_calls", "tracker.autodiff.stop_gradient", "tracker.debug",
    "tracker.debug.draw", "tracker.debug.nan_check", "tracker.debug.tape",
    "tracker.autodiff.gradients", "tracker.transforms.jacobians", "tracker.autodiff.leaves",
    "tracker.autodiff.params", "tracker.autodiff.pullbacks", "tracker.autodiff.checkpoint",
    "tracker.autodiff.custom_rules", "tracker.testing", "tracker.tree",
]  # fmt: skip


def blocks(name):
    return re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(), re.DOTALL)


def check_shown(block, names):
    """Each expression of a block has the value that its comment shows."""
    for line in block.splitlines():
        shown = SHOWN.match(line)
        if shown:
            assert repr(eval(shown["code"], names)) == shown["value"], shown["code"]


@pytest.mark.parametrize("number", range(len(blocks("derivatives.md"))))
def test_derivatives(number):
    found = blocks("derivatives.md")
    names = {}
    for block in found[: number + 1]:
        exec(block, names)
    check_shown(found[number], names)


def test_plain_numpy():
    names = {}
    for block in blocks("plain_numpy.md"):
        exec(block, names)
        check_shown(block, names)


def test_every_derivative_has_its_example():
    text = (DOCS / "derivatives.md").read_text()
    others = {"config", "export", "jit", "numpy", "trace", "tree", "nn", "optim", "scipy"}
    for name in tracker.__all__:
        if name[0].islower() and name not in others:
            assert re.search(rf"\b{name}\(|@tracker\.{name}\b", text), name


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name, tmp_path):
    module = importlib.import_module(name)
    names = {"np": np, "tracker": tracker, "path": tmp_path / "picture.svg"}
    names.update((n, getattr(tracker, n)) for n in tracker.__all__)
    names.update(vars(module))
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    failed, _ = doctest.testmod(module, extraglobs=names, optionflags=flags)
    assert not failed
