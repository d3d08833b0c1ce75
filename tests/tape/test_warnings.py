"""NumPy's RuntimeWarnings point at the user's line, and are subject to the user's filters."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import tracker.numpy as tnp
from tracker import gradient, jit, param

SCRIPT = """
import numpy as np, tracker
x = tracker.param(np.array([0.0, 1.0]))
np.log(x)
y = x / np.zeros(2)
for k in range(3): np.sqrt(x - 2)
tracker.gradient(lambda t: np.sum(np.where(t > 0, np.log(t), 0.0)), np.zeros(2))
with np.errstate(all="ignore"): np.log(x)
np.log(x, where=x > 0, out=np.zeros_like(x))
np.exp(x * 1000.0)
"""


def test_warnings_name_the_lines_of_a_script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    run = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
    told = [line.split("script.py:")[1] for line in run.stderr.split("\n") if "script.py:" in line]
    assert told == [
        "4: RuntimeWarning: divide by zero encountered in log",
        "5: RuntimeWarning: divide by zero encountered in divide",
        "5: RuntimeWarning: invalid value encountered in divide",
        "6: RuntimeWarning: invalid value encountered in sqrt",
        "7: RuntimeWarning: divide by zero encountered in log",
        "10: RuntimeWarning: overflow encountered in exp",
    ]


@pytest.fixture
def ours_in_front():
    """The filter that importing the package puts in, in front of those of the tests."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("error", category=RuntimeWarning, module=r"tracker\.tape\.record\Z")
        yield caught


def test_values_after_a_warning_are_those_of_numpy(ours_in_front):
    x = np.array([0.0, -1.0, 2.0])
    found = np.log(param(x)).data
    assert np.array_equal(found, np.log(x), equal_nan=True)
    ours, numpys = ours_in_front[:2], ours_in_front[2:]
    assert [str(w.message) for w in ours] == [str(w.message) for w in numpys]
    assert {w.filename for w in ours_in_front} == {__file__}
    assert {w.lineno for w in ours} == {numpys[0].lineno - 1}
    assert gradient(lambda t: np.sum(np.where(t > 0, np.log(t), 0.0)), x)[0].tolist() == [0, 0, 0.5]


def test_filters_and_modes_of_the_user_decide(ours_in_front):
    with pytest.raises(FloatingPointError), np.errstate(divide="raise"):
        np.log(param(0.0) * np.float64(1))
    with np.errstate(divide="ignore"):
        np.log(param(np.zeros(2)))
    assert not ours_in_front
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="divide by zero encountered in log"):
            np.log(param(np.zeros(2)))


def test_our_own_warnings_name_the_users_line():
    def opens(x):
        with open(os.devnull):
            return np.sum(x)

    x, f = np.linspace(0.0, 1.0, 30), jit(opens)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tnp.polyfit(param(x), x, 29)
        gradient(f, x)
        f(x[1:])
    lines = [w.lineno for w in caught]
    assert lines == list(range(lines[0], lines[0] + 3))
    assert {w.filename for w in caught} == {__file__}
