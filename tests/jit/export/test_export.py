"""Exported functions: a C program that links the object file computes what Python does."""

import ctypes
import re
import shutil
import subprocess

import numpy as np
import pytest
from exported_library import CC, assert_same_as_jitted, call, library, needs_cc, pointer

import tracker
from tracker import CompileError, export, jit, scan, value_and_grad

RNG = np.random.default_rng(0)
W, B, X = RNG.normal(size=(5, 40)), RNG.normal(size=40), RNG.normal(size=(30, 5))


def model(params, x, scale):
    hidden = np.tanh(x @ params["w"] + params["b"])
    return np.mean(hidden**2) * scale + np.sum(np.exp(-params["b"]))


def recurrent(w, xs):
    return np.sum(scan(lambda h, x: (np.tanh(w @ h + x), None), np.zeros(4), xs)[0])


def recurrent_in_substeps(w, xs):
    def step(h, x):
        for _ in range(30):
            h = 0.5 * np.tanh(w @ h + x) + 0.25 * h
        return h, np.sum(h)

    last, sums = scan(step, np.zeros(4), xs)
    return np.sum(last) + sums @ sums


SQUARE, SMALL = RNG.normal(size=(30, 30)), RNG.normal(size=(5, 5))
SPD = SQUARE @ SQUARE.T + 30 * np.eye(30)
Z = RNG.normal(size=30) + 1j * RNG.normal(size=30)
V = Z.real.copy()


def gaussian_process(x, y, scale):
    k = np.exp(-(((x[:, None] - x) / scale) ** 2)) + 0.1 * np.eye(len(x))
    half = np.linalg.cholesky(k)
    return y @ np.linalg.solve(k, y) + np.sum(np.log(np.diag(half)))


# Of linear algebra, with the rows of a matrix that LAPACK factors and of one that loops do.
PROGRAMS = {
    "solve": (lambda a, b: np.sum(np.linalg.solve(a, b) ** 2), SPD, V),
    "solve, small": (lambda a, b: np.sum(np.linalg.solve(a, b) ** 2), SMALL, V[:5]),
    "solve, stacked": (
        lambda a, b: np.linalg.solve(a, b),
        np.stack([SPD, SQUARE]),
        np.stack([V, V])[..., None],
    ),
    "solve, float32": (lambda a: np.linalg.solve(a, a.T), SPD.astype(np.float32)),
    "Gaussian process": (gaussian_process, V, np.sin(V), 0.7),
    "slogdet, inv": (lambda a: np.linalg.slogdet(a)[1] + np.sum(np.linalg.inv(a)), SPD),
    "eigh": (lambda a: np.sum(np.linalg.eigh(a)[0][:3] ** 2), SPD),
    "svd": (lambda a: np.sum(np.sqrt(np.linalg.svd(a, compute_uv=False))), SQUARE),
    "qr": (lambda a: np.sum(np.abs(np.linalg.qr(a)[1])), SQUARE[:, :4]),
    "eig": (lambda a: np.sum(np.abs(np.linalg.eigvals(a)) ** 2), SQUARE),
    "lstsq": (lambda a, b: np.sum(np.linalg.lstsq(a, b)[0] ** 2), SQUARE[:, :4], V),
    "pinv": (lambda a: np.sum(np.linalg.pinv(a) ** 2), SQUARE[:, :4]),
    "complex solve": (lambda a, b: np.sum(np.abs(np.linalg.solve(a, b))), SPD + 1j * SQUARE, Z),
    "complex products": (lambda a, b: np.sum(np.abs(a @ b @ np.conj(a.T))), np.outer(Z, Z), SPD),
    "complex numbers": (lambda z, w, k: np.abs(np.exp(z) * w) ** k, 1 - 2j, 0.5j, 3.0),
    "complex result": (lambda z, w: (z * w, z[0] + w), Z, 2j),
    "complex64": (lambda z, w: z * np.complex64(w), Z.astype(np.complex64), np.complex64(1j)),
    "long steps": (value_and_grad(recurrent_in_substeps), SMALL[:4, :4], X[:, :4]),
    "a branch, a sort": (lambda x: np.sort(x)[:3] if x[0] > -9 else x[:3], V),
}


@needs_cc
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients(tmp_path, name):
    f, *args = PROGRAMS[name]
    c = library(tmp_path, f, *args, name="f")
    assert_same_as_jitted(c, "f", f, args)


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
def test_failures_are_told(tmp_path):
    """A matrix is singular, or not positive definite."""
    c = library(tmp_path, lambda a: np.sum(np.linalg.inv(np.linalg.cholesky(a))), SPD, name="f")
    assert call(c.f, [SPD], [0.0])[0] == 0
    assert call(c.f, [-SPD], [0.0])[0] == call(c.f_gradient, [-SPD], [0.0, SPD])[0] == 1


@pytest.mark.optimised  # which drops what is not called
def test_a_small_matrix_needs_no_lapack(tmp_path):
    def needs(rows):
        args = (np.eye(rows), np.ones(rows))
        _, header = export(lambda a, b: np.linalg.solve(a, b), *args, path=tmp_path / "f")
        return "Link with LAPACK" in header.read_text()

    assert needs(25) and not needs(24)


def test_names_of_lapack(tmp_path):
    def names(form):
        _, header = export(lambda a: np.linalg.inv(a), SPD, path=tmp_path / "f", lapack=form)
        return header.read_text()

    assert " cblas_dtrsm, dgetrf_. */" in names("{}").replace("cblas_dtrsv, ", "")
    assert "scipy_dgetrf_64_" in names("scipy_{}64_")
    with pytest.raises(CompileError, match=r"lapack='x' is none of 'scipy_\{\}64_', .*Choose one"):
        names("x")


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


LOG = []


@pytest.mark.parametrize(
    "f, text",
    [
        (lambda x: np.fft.fft(x).real, "cannot go into an object file"),
        (lambda x: x.astype(np.float16), "needs NumPy"),
        (lambda x: (x * 2, "name"), "no number or array"),
        (lambda x: x.fill(0.0), "writes into its arguments"),
        (lambda x: x * x.flags.writeable, "reads flags of its arguments"),
        (lambda x: LOG.append(1) or np.sum(x), "changes what it captured"),
    ],
)
def test_errors(tmp_path, f, text):
    with pytest.raises(CompileError, match=text):
        export(f, np.ones(4), path=tmp_path / "f")


def test_an_argument_without_a_type_in_c(tmp_path):
    half = np.ones(3, np.float16)
    with pytest.raises(CompileError, match=r"h of f is f16\[3\], which has no type .* Pass, and"):
        export(lambda x, h: x * 2, np.ones(3), half, path=tmp_path / "f", name="f")


def test_an_error_names_the_line(tmp_path):
    def spectrum(x):
        y = x * 2
        return np.sum(np.abs(np.fft.fft(y)))

    line = spectrum.__code__.co_firstlineno + 2
    with pytest.raises(CompileError, match=rf"calls the ufunc fft, .*test_export\.py:{line}\)"):
        export(spectrum, np.ones(4), path=tmp_path / "f")


def test_names_of_structures(tmp_path):
    """By keys, fields and positions, so that a reader of the header knows which is which."""

    def f(model, pair):
        first, second = model["layers"]
        return np.sum(first["w"] * second["w"]) * model["two words"] + pair[0] * pair[1]

    layers = [{"w": np.ones(2)}, {"w": np.ones(2)}]
    _, header = export(f, {"layers": layers, "two words": 1.0}, (1.0, 2.0), path=tmp_path / "f")
    names = ["model_layers_0_w", "model_layers_1_w", "model_two_words", "pair_0", "pair_1"]
    found = re.findall(r"(\w+)[,)]", header.read_text().partition("int f_gradient")[2])
    assert found == [*names, "value", *(f"d_{name}" for name in names)]


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
