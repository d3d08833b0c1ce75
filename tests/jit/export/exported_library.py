"""Exported functions as shared libraries, called through ctypes as `export`'s header says."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tracker import export, gradient, jit, tree
from tracker.jit.runtime import blas

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_cc = pytest.mark.skipif(CC is None, reason="no C compiler here")


def library(folder, *args, **options):
    """The exported functions as a shared library, linked by the C compiler, with NumPy's LAPACK."""
    found = blas.find()
    options = {"lapack": found.spelling, **options} if found else options
    made, header = export(*args, path=folder / "lib", **options)
    shared, libraries = folder / "lib.so", ["-lm"]
    if "Link with" in header.read_text():
        libraries += [found.path, f"-Wl,-rpath,{Path(found.path).parent}"]
    subprocess.run([CC, "-shared", "-o", shared, made, *libraries], check=True)
    return ctypes.CDLL(str(shared))


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def as_argument(leaf):
    """A leaf as C takes it: arrays and complex numbers by address, aligned for a real number."""
    array = np.asarray(leaf)
    if array.ndim or array.dtype.kind == "c":
        aligned = max(array.dtype.itemsize // 2, 1) if array.dtype.kind == "c" else 0
        memory = np.empty(array.nbytes + aligned, np.uint8)[aligned:]
        memory[:] = np.frombuffer(array.tobytes(), np.uint8)
        return memory.view(array.dtype).reshape(array.shape)
    return np.ctypeslib.as_ctypes_type(array.dtype)(array[()])


def call(function, args, like, sizes=()):
    """The status, and the results of the types of `like`, in memory that ends where they do."""
    results = [np.full(np.shape(x), 7, np.asarray(x).dtype) for x in like]
    given = [as_argument(leaf) for leaf in tree.leaves(args)]
    pointers = [pointer(x) if isinstance(x, np.ndarray) else x for x in (*given, *results)]
    status = function(*map(ctypes.c_int64, sizes), *pointers)
    return status, results


def assert_close(ours, x):
    tolerance = 1e-4 if np.asarray(x).dtype in (np.float32, np.complex64) else 1e-11
    np.testing.assert_allclose(ours, x, rtol=tolerance, atol=tolerance)


def assert_same_as_jitted(c, name, f, args, sizes=()):
    """The value and the gradient of the library are those of the jitted function."""
    value = jit(f)(*args)
    status, found = call(getattr(c, name), args, tree.leaves(value), sizes)
    assert status == 0
    for ours, x in zip(found, tree.leaves(value), strict=True):
        assert_close(ours, x)
    if isinstance(value, tuple) or np.ndim(value) or np.iscomplexobj(value):
        with pytest.raises(AttributeError):
            getattr(c, f"{name}_gradient")
        return
    grads = [g for g in tree.leaves(gradient(jit(f), *args)) if g is not None]
    status, found = call(getattr(c, f"{name}_gradient"), args, [value, *grads], sizes)
    assert status == 0
    for ours, x in zip(found, [value, *grads], strict=True):
        assert_close(ours, x)
