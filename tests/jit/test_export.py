"""Exported functions: a C program that links the object file computes what Python does."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

import tracker
from tracker import CompileError, export, jit, scan, value_and_grad

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_cc = pytest.mark.skipif(CC is None, reason="no C compiler here")
RNG = np.random.default_rng(0)
W, B, X = RNG.normal(size=(5, 40)), RNG.normal(size=40), RNG.normal(size=(30, 5))


def model(params, x, scale):
    hidden = np.tanh(x @ params["w"] + params["b"])
    return np.mean(hidden**2) * scale + np.sum(np.exp(-params["b"]))


def recurrent(w, xs):
    return np.sum(scan(lambda h, x: (np.tanh(w @ h + x), None), np.zeros(4), xs)[0])


def library(folder, *args, **options):
    """The exported functions as a shared library, linked by the C compiler."""
    made, _ = export(*args, path=folder / "lib", **options)
    shared = folder / "lib.so"
    subprocess.run([CC, "-shared", "-o", shared, made, "-lm"], check=True)
    return ctypes.CDLL(str(shared))


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


@needs_cc
@pytest.mark.parametrize("native", [False, True])
def test_a_structure_products_and_numbers(tmp_path, native):
    params = {"w": W, "b": B}
    c = library(tmp_path, model, params, X, 0.7, name="model", native=native)
    value, grads = np.zeros(1), [np.zeros_like(W), np.zeros_like(B), np.zeros_like(X), np.zeros(1)]
    inputs = [pointer(W), pointer(B), pointer(X), ctypes.c_double(1.3)]
    assert c.model(*inputs, pointer(value)) == 0
    np.testing.assert_allclose(value[0], model(params, X, 1.3), rtol=1e-13)
    assert c.model_gradient(*inputs, pointer(value), *map(pointer, grads)) == 0
    want = tracker.gradient(model, params, X, 1.3)
    for found, g in zip(grads, tracker.tree.leaves(want), strict=True):
        np.testing.assert_allclose(np.squeeze(found), g, rtol=1e-12, atol=1e-14)


@needs_cc
def test_a_loop_that_may_be_long(tmp_path):
    """In Python it can be interrupted."""

    def root(x):
        return tracker.while_loop(lambda c: c * c - x > 1e-12, lambda c: (c + x / c) / 2, x)

    assert "tk.pause" in tracker.jit(root).llvm(3.0)
    c, value = library(tmp_path, root, 3.0, name="root"), np.zeros(1)
    assert c.root(ctypes.c_double(5.0), pointer(value)) == 0
    assert value[0] == pytest.approx(np.sqrt(5.0))


@needs_cc
def test_a_long_matrix_times_a_vector(tmp_path):
    """Multiplied part by part, of which the gradient adds up what the parts give."""

    def loss(v):
        return np.sum(np.tanh(x @ v))

    x, v = RNG.normal(size=(700, 30)), RNG.normal(size=30)
    c = library(tmp_path, loss, v, name="rows")
    value, grad = np.zeros(1), np.full_like(v, np.nan)
    assert c.rows_gradient(pointer(v), pointer(value), pointer(grad)) == 0
    np.testing.assert_allclose(value[0], loss(v), rtol=1e-12)
    np.testing.assert_allclose(grad, tracker.gradient(loss, v)[0], rtol=1e-10)


@needs_cc
def test_loops_and_captured_arrays(tmp_path):
    xs = RNG.normal(size=(9, 4))
    w = RNG.normal(size=(4, 4))
    c = library(tmp_path, jit(lambda w: recurrent(w, xs)), w, name="recurrent")
    value, grad = np.zeros(1), np.zeros_like(w)
    assert c.recurrent_gradient(pointer(w * 0.9), pointer(value), pointer(grad)) == 0
    want = value_and_grad(lambda w: recurrent(w, xs))(w * 0.9)
    np.testing.assert_allclose(value[0], want[0], rtol=1e-12)
    np.testing.assert_allclose(grad, want[1], rtol=1e-11)


@needs_cc
def test_a_large_matrix_times_its_own_transpose(tmp_path):
    a = RNG.normal(size=(50, 30))
    weights = RNG.normal(size=(50, 50))

    def f(a):
        return np.sum((a @ a.T) * weights) + np.sum(a.T @ a)

    c = library(tmp_path, f, a, name="gram")
    value, grad = np.zeros(1), np.zeros_like(a)
    assert c.gram_gradient(pointer(a), pointer(value), pointer(grad)) == 0
    want = value_and_grad(f)(a)
    np.testing.assert_allclose(value[0], want[0], rtol=1e-12)
    np.testing.assert_allclose(grad, want[1], rtol=1e-11, atol=1e-12)


@needs_cc
def test_another_branch_is_told(tmp_path):
    c = library(tmp_path, lambda x: x**2 if x > 0 else -x, 2.0, name="f")
    out = np.zeros(1)
    assert c.f(ctypes.c_double(3.0), pointer(out)) == 0 and out[0] == 9.0
    assert c.f(ctypes.c_double(-3.0), pointer(out)) == 1


@needs_cc
def test_a_program_without_python(tmp_path):
    export(lambda x: np.sum(np.sin(x) * x[::-1]), np.ones(4), path=tmp_path / "wave", name="wave")
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "wave.h"\n'
        "int main(void) {\n"
        "  double x[4] = {0.5, 1.0, 1.5, 2.0}, value, d[4];\n"
        "  if (wave_gradient(x, &value, d)) return 1;\n"
        '  printf("%.17g %.17g %.17g %.17g %.17g", value, d[0], d[1], d[2], d[3]);\n'
        "  return 0;\n}\n"
    )
    program = tmp_path / "main"
    sources = [tmp_path / "main.c", tmp_path / "wave.o"]
    subprocess.run([CC, "-Wall", "-Werror", "-o", program, *sources, "-lm"], check=True)
    out = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    x = np.array([0.5, 1.0, 1.5, 2.0])
    value, grad = value_and_grad(lambda x: np.sum(np.sin(x) * x[::-1]))(x)
    np.testing.assert_allclose([float(n) for n in out.split()], [value, *grad], rtol=1e-14)


def test_what_is_not_a_loss_has_no_gradient(tmp_path):
    _, header = export(
        lambda x, k: (x * k, x[0] > 0), np.ones(3, np.float32), 2, path=tmp_path / "g"
    )
    text = header.read_text()
    assert "int function(const float *x, int64_t k, float *value0, uint8_t *value1);" in text
    assert "_gradient" not in text


@pytest.mark.parametrize(
    "f, text",
    [
        (lambda x: np.fft.fft(x).real, "cannot go into an object file"),
        (lambda x: x.astype(np.float16), "needs NumPy"),
        (lambda x: (x * 2, "name"), "no number or array"),
        (lambda x: x.fill(0.0), "writes into its arguments"),
        (lambda x: x * x.flags.writeable, "reads flags of its arguments"),
        (lambda x: x * 1j, "no type in C"),
    ],
)
def test_errors(tmp_path, f, text):
    with pytest.raises(CompileError, match=text):
        export(f, np.ones(4), path=tmp_path / "f")


def test_names_that_c_cannot_have(tmp_path):
    """Keywords of C, letters of other alphabets, and the names of results are changed."""

    def double(short, value, θ, d_short_, pair, pair_0):
        return np.sum(short * value * θ * d_short_ * pair[0] * pair_0)

    x = np.ones(2)
    _, header = export(double, x, x, x, x, (x, 2.0), x, path=tmp_path / "f")
    text = header.read_text()
    assert "int double_(const double *short_, const double *value_, const double *_," in text
    assert "const double *d_short__, const double *pair_0_, double pair_1" in text
    assert "const double *pair_0, double *value" in text
    assert "double *d_short_, double *d_value_, double *d__, double *d_d_short__," in text
    shutil.which("cc") and subprocess.run(["cc", "-fsyntax-only", "-x", "c", header], check=True)
    for name in ("struct", "a b", "1st", "θ"):
        with pytest.raises(CompileError, match="no name that a C function can have"):
            export(double, x, x, x, x, (x, 2.0), x, path=tmp_path / "f", name=name)
