"""Programs of users: type checkers accept them, find mistakes, and are told the truth.

An error that is ignored must occur: an unused `type: ignore` or `pyright: ignore` is an error.
"""

import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args, get_origin

import numpy as np
import pytest

HERE = Path(__file__).parent
CHECKERS = {
    "mypy": ["mypy", "--config-file", HERE / "mypy.ini", *sorted(HERE.glob("typed_*.py"))],
    "pyright": ["basedpyright", "--project", HERE, "--pythonpath", sys.executable],
}
PROGRAMS = ["typed_derivatives", "typed_drop_ins", "typed_jit", "typed_modules", "typed_rules"]


@pytest.mark.parametrize("checker", CHECKERS)
def test_checkers_find_the_mistakes_and_no_others(checker, tmp_path):
    command = [sys.executable, "-m", *CHECKERS[checker]]
    if checker == "mypy":  # not the cache of another run at the same time
        command += ["--cache-dir", tmp_path]
    # where pyright finds installed packages, which export less than a program's own modules
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent.parent)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


def is_of(value, claimed):
    """Whether a value has a type, as far as values tell."""
    origin, args = get_origin(claimed) or claimed, get_args(claimed)
    if hasattr(origin, "__value__"):  # an alias, which `NDArray` is in NumPy 2.5
        return is_of(value, origin.__value__[args])
    if origin is tuple and args[-1] is not ...:
        return len(value) == len(args) and all(map(is_of, value, args))
    if origin is dict:
        return isinstance(value, dict) and all(is_of(x, args[1]) for x in value.values())
    if origin in (tuple, list):
        return isinstance(value, origin) and all(is_of(x, args[0]) for x in value)
    if origin is np.ndarray:
        (scalar,) = get_args(args[1])
        return isinstance(value, np.ndarray) and is_of(value.dtype.type(), scalar)
    return origin is Any or isinstance(value, origin)


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_have_the_types_that_checkers_see(name, monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    module = importlib.import_module(name)
    claims = []
    monkeypatch.setattr(module, "assert_type", lambda *claim: claims.append(claim))
    array = np.array([1.0, 2.0])
    samples = {"rng": np.random.default_rng(0), "batch": np.eye(2), "w": array, "x": array}
    if name == "typed_jit":
        samples |= {"model": module.Model(array), "norm": module.Model.norm}
    if name == "typed_derivatives":
        layer = module.Dense(np.eye(2), array)
        samples |= {"layer": layer, "layers": [layer, layer]}
    for program in vars(module).values():
        if inspect.isfunction(program) and program.__module__ == name:
            parameters = inspect.signature(program).parameters
            if inspect.signature(program).return_annotation is None:
                program(*(samples[parameter] for parameter in parameters))
    assert claims
    for value, claimed in claims:
        assert is_of(value, claimed), (value, claimed)
