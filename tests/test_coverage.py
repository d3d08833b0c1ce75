"""docs/coverage.md is complete, true and up to date."""

import re
from pathlib import Path

import coverage_table
import numpy as np
import pytest
import scipy

from tracker import UnsupportedError, param
from tracker.ir.op import NUMPY, UNSUPPORTED


def test_the_page_is_what_the_registry_says():
    text = coverage_table.PAGE.read_text()
    versions = re.search(r"NumPy ([\d.]+) and SciPy ([\d.]+);", text)
    if versions.groups() == (np.__version__, scipy.__version__):
        assert text == coverage_table.page(), "run python tests/coverage_table.py"


@pytest.mark.parametrize("space", coverage_table.rows())
def test_no_name_is_unaccounted_for(space):
    found = coverage_table.rows()[space]
    assert [n for n, status, _ in found if status == coverage_table.UNACCOUNTED] == []


@pytest.mark.parametrize("space", ["numpy", "numpy.fft"])
def test_every_differentiable_function_is_called_in_a_test(space):
    module = coverage_table.SPACES[space]
    text = "".join(path.read_text() for path in Path(__file__).parent.rglob("test_*.py"))
    short = re.escape(space.replace("numpy", "np"))
    called = {*re.findall(rf"(?<!\w){short}\.(\w+)", text)}
    called.update(re.findall(r"row\(\s*\"(\w+)\",", text))
    functions = [getattr(module, name) for name in called.intersection(dir(module))]
    names = [n for n, status, _ in coverage_table.rows()[space] if status == "differentiable"]
    missing = [n for n in names if not any(getattr(module, n) is f for f in functions)]
    assert missing == []


@pytest.mark.parametrize("function", list(UNSUPPORTED), ids=lambda f: f.__name__)
def test_what_is_refused_is_refused_by_name(function):
    with pytest.raises(UnsupportedError, match=function.__name__):
        NUMPY[function](param(np.ones(2)))
