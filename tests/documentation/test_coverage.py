"""The table of coverage (docs/reference/coverage.md) is complete and true."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from tracker import UnsupportedError, param
from tracker.ir.op import NUMPY, UNSUPPORTED

PATH = Path(__file__).parents[2] / "docs" / "ext" / "coverage_table.py"
spec = importlib.util.spec_from_file_location("coverage_table", PATH)
coverage_table = importlib.util.module_from_spec(spec)
spec.loader.exec_module(coverage_table)


@pytest.mark.parametrize("space", coverage_table.rows())
def test_no_name_is_unaccounted_for(space):
    found = coverage_table.rows()[space]
    assert [n for n, status, _ in found if status == coverage_table.UNACCOUNTED] == []


@pytest.mark.parametrize("space", ["numpy", "numpy.fft"])
def test_every_differentiable_function_is_called_in_a_test(space):
    module = coverage_table.SPACES[space]
    text = "".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
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


def test_what_to_jax_runs_is_read_from_its_rules():
    pytest.importorskip("jax")
    found = {f"{space}.{name}": coverage_table.in_jax(space, name) for space, name in [
        ("numpy", "sin"), ("numpy", "sum"), ("numpy", "median"), ("numpy.linalg", "solve"),
        ("scipy.special", "jv"), ("scipy.special", "betainc"), ("scipy.linalg", "expm"),
    ]}  # fmt: skip
    assert found == {
        "numpy.sin": "yes", "numpy.sum": "yes", "numpy.median": coverage_table.COMPOSED,
        "numpy.linalg.solve": "yes", "scipy.special.jv": "no", "scipy.special.betainc": "yes",
        "scipy.linalg.expm": coverage_table.COMPOSED,
    }  # fmt: skip
    assert {"jv", "draw"} <= set(coverage_table.ops_without_rule())
