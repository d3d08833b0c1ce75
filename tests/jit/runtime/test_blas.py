"""NumPy's BLAS, and the fallback when there is none, or a broken one."""

import importlib.util
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import tracker
from tracker.jit.runtime import blas, c_symbols


@pytest.fixture
def setting(monkeypatch):
    return lambda value: monkeypatch.setenv("TRACKER_BLAS", str(value))


@pytest.fixture
def found(setting):
    setting("")
    library = blas.find()
    assert library is not None, blas.why_missing()
    return library


def test_numpys_own_library_is_found(found):
    assert os.path.exists(found.path) and found.int_bits in (32, 64)
    assert set(found.symbols) == set(blas.NAMES)
    assert blas.why_missing() == "" and blas.find() is found


def test_a_product(found):
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    c = np.zeros((2, 4))
    n = "q" if found.int_bits == 64 else "i"
    c_symbols.call_c(
        found.symbols["cblas_dgemm"],
        "iii" + 3 * n + "dp" + n + "p" + n + "dp" + n,
        *(101, 111, 111, 2, 4, 3, 1.0, a.ctypes.data, 3, b.ctypes.data, 4, 0.0, c.ctypes.data, 4),
    )
    np.testing.assert_array_equal(c, a @ b)


def test_forced(setting, found):
    setting(found.path)
    forced = blas.find()
    assert forced is not None and forced.path == found.path


def without_blas():
    return importlib.util.find_spec("_ctypes").origin


@pytest.mark.parametrize(
    "value, reason",
    [
        (lambda: "off", "off"),
        (lambda: "/nowhere/none.so", "no such file"),
        (without_blas, "no cblas_dgemm"),
    ],
)
def test_no_library(setting, value, reason):
    setting(value())
    assert blas.find() is None and reason in blas.why_missing()


def test_corrupt_files(setting, found, tmp_path):
    with open(found.path, "rb") as library:
        good = library.read()
    for name, content in (
        ("junk.so", b"junk" * 1000),
        ("empty.so", b""),
        ("half.so", good[: len(good) // 2]),
        ("header.so", good[:64]),
    ):
        (tmp_path / name).write_bytes(content)
        setting(tmp_path / name)
        assert blas.find() is None
        assert name in blas.why_missing() and len(blas.why_missing()) > len(name) + 20


def test_small_products_without_blas(setting):
    """They are unrolled, also in a loop's body, and for one of several lengths."""

    def decay(a, x):
        def step(c, _):
            c = np.tanh(a @ c)
            return c, c

        return np.sum(tracker.scan(step, x, np.arange(6.0))[0])

    def both(x, w):
        return np.dot(x, w) + np.sum(np.reshape(np.concatenate([x, w]), (2, -1)) @ w)

    setting("off")
    calls = [(decay, (np.eye(5) / 2 + 0.1, np.ones(5)))]
    calls += [(both, (np.linspace(0, 1, n), np.linspace(1, 3, n))) for n in (12, 13)]
    compiled = {f: tracker.jit(lambda *a, f=f: tracker.gradient(f, *a)) for f in (decay, both)}
    for f, args in calls:
        for _ in range(2):
            got, want = compiled[f](*args), tracker.gradient(f, *args)
            for a, b in zip(got, want, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12)


def test_a_wrong_product_is_not_trusted(found, monkeypatch):
    monkeypatch.setattr(blas, "_is_dgemm_right", lambda address, bits: False)
    library, reason = blas.examine(found.path)
    assert library is None and "wrong product" in reason


def test_nothing_loaded(monkeypatch):
    monkeypatch.setattr(blas, "_candidate_paths", lambda: iter(()))
    monkeypatch.setenv("TRACKER_BLAS", "")
    blas._search.cache_clear()
    try:
        assert blas.find() is None and "no BLAS library is loaded" in blas.why_missing()
    finally:
        blas._search.cache_clear()


@pytest.mark.parametrize("package", ["numpy", "scipy"])
def test_a_library_is_found_through_the_modules_that_use_it(monkeypatch, package):
    monkeypatch.setattr(Path, "is_dir", lambda path: False)  # as where NumPy is no wheel
    names = [name for name in blas._LINKED_TO_BLAS if name.startswith(package)]
    monkeypatch.setattr(blas, "_LINKED_TO_BLAS", names)
    found = [blas.examine(path)[0] for path in blas._candidate_paths()]
    assert found and all(library is not None for library in found)
    assert set(found[0].symbols) == set(blas.NAMES)


def test_no_scipy_is_no_library(monkeypatch):
    monkeypatch.setattr(Path, "is_dir", lambda path: False)
    monkeypatch.setattr(blas, "_LINKED_TO_BLAS", ["scipy.linalg.cython_blas"])
    for name in ("scipy", "scipy.linalg"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "scipy.linalg.cython_blas", raising=False)
    assert [*blas._candidate_paths()] == []
