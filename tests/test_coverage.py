"""docs/coverage.md is complete, true and up to date."""

import re
from pathlib import Path

import coverage_table
import numpy as np
import pytest
import scipy

from tracker import UnsupportedError, param
from tracker.ir.op import NUMPY, REFUSED


def test_the_page_is_what_the_registry_says():
    text = coverage_table.PAGE.read_text()
    versions = re.search(r"NumPy ([\d.]+) and SciPy ([\d.]+);", text)
    if versions.groups() == (np.__version__, scipy.__version__):
        assert text == coverage_table.page(), "run python tests/coverage_table.py"


@pytest.mark.parametrize("space", ["numpy", "numpy.fft"])
def test_no_name_is_unaccounted_for(space):
    found = coverage_table.rows()[space]
    assert [n for n, status, _ in found if status == coverage_table.UNACCOUNTED] == []


def test_every_differentiable_function_is_called_in_a_test():
    text = "".join(path.read_text() for path in Path(__file__).parent.rglob("test_*.py"))
    for space in ("numpy", "numpy.fft"):
        short = space.replace("numpy", "np")
        for name, status, _ in coverage_table.rows()[space]:
            if status == "differentiable":
                found = re.search(rf"(?<!\w){re.escape(short)}\.{name}\b", text)
                assert found or _alias(name, text), f"{short}.{name}"


def _alias(name, text):
    """Another name of the same function is called, or the op has a row of its own."""
    function = getattr(np, name, None)
    names = [n for n in dir(np) if getattr(np, n) is function]
    return any(re.search(rf"np\.{n}\b|\.{n}\(|unary\.{n},|binary\.{n},", text) for n in names)


@pytest.mark.parametrize("function", list(REFUSED), ids=lambda f: f.__name__)
def test_what_is_refused_is_refused_by_name(function):
    with pytest.raises(UnsupportedError, match=function.__name__):
        NUMPY[function](param(np.ones(2)))
