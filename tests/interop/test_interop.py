"""The public names of `tracker.interop`, and what it says without the libraries."""

import doctest
import importlib.util
import sys
from functools import partial

import numpy as np
import pytest

import tracker
from tracker import interop

for _name in ("torch", "sympy", "pytensor"):  # these change warning filters
    if importlib.util.find_spec(_name):
        importlib.import_module(_name)


def test_without_jax_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.delitem(sys.modules, "tracker.interop.jax_function", raising=False)
    with pytest.raises(ImportError, match=r"needs JAX. pip install 'tracker-grad\[jax\]'"):
        tracker.to_jax(np.sin, 1.0)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"needs PyTorch. pip install torch"):
        interop.as_torch(np.sin)


def test_there_is_nothing_else():
    assert dir(interop) == sorted(interop.__all__)
    with pytest.raises(AttributeError, match="no attribute 'from_cupy'"):
        _ = interop.from_cupy


EXAMPLES = {
    "to_jax": "jax", "stablehlo": "jax", "from_jax": "jax", "as_jax": "jax",
    "from_torch": "torch", "as_torch": "torch", "from_numba": "numba",
    "as_pytensor_op": "pytensor", "as_nutpie": "nutpie",
}  # fmt: skip


@pytest.mark.parametrize("name", interop.__all__)
def test_examples(name, request):
    library = pytest.importorskip(EXAMPLES[name])
    if EXAMPLES[name] == "jax":  # some examples switch it on
        request.addfinalizer(partial(library.config.update, "jax_enable_x64", False))
    f = getattr(interop, name)
    names = {"np": np, "tracker": tracker, name: f}
    flags = doctest.NORMALIZE_WHITESPACE
    runner = doctest.DocTestRunner(optionflags=flags)
    (example,) = (t for t in doctest.DocTestFinder(recurse=False).find(f, name, globs=names))
    runner.run(example)
    assert runner.tries
    assert not runner.failures
