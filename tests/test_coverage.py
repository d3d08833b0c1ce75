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


@pytest.mark.parametrize("space", coverage_table.rows())
def test_no_name_is_unaccounted_for(space):
    found = coverage_table.rows()[space]
    assert [n for n, status, _ in found if status == coverage_table.UNACCOUNTED] == []


@pytest.mark.parametrize("space", ["numpy", "numpy.fft"])
def test_every_differentiable_function_is_called_in_a_test(space):
    text = "".join(path.read_text() for path in Path(__file__).parent.rglob("test_*.py"))
    names = [n for n, status, _ in coverage_table.rows()[space] if status == "differentiable"]
    assert [
        name for name in names if not _is_called(coverage_table.SPACES[space], name, text)
    ] == []


def _is_called(space, name, text):
    """The function is called under one of its names, or its op has a row."""
    aliases = [n for n in dir(space) if getattr(space, n) is getattr(space, name)]
    short = space.__name__.replace("numpy", "np")
    forms = rf"(?<!\w){re.escape(short)}\.{{0}}\b|row\((unary|binary|special)\.{{0}},"
    return any(re.search(forms.format(n), text) for n in aliases)


@pytest.mark.parametrize("function", list(REFUSED), ids=lambda f: f.__name__)
def test_what_is_refused_is_refused_by_name(function):
    with pytest.raises(UnsupportedError, match=function.__name__):
        NUMPY[function](param(np.ones(2)))
