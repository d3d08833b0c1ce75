"""Fourier transforms, polynomials, parts of floats, `np.emath`, `np.i0`."""

import numpy as np
import pytest
from cases import check
from op_rows import row, sample, x, z

from tracker import data, gradient, jit, param

A, V, W = x(2, 3), x(5), x(4, seed=1)
Z, Z2 = z(5), z(2, 3)
C = x(2, 3, 2)
NORMS = ["backward", "ortho", "forward"]

ROWS = [
    row(
        "fourier", *(sample(x(4), axis=0, inverse=i, norm=n) for n in NORMS for i in (False, True)),
        sample(z(5), axis=0, inverse=False, norm="backward"),
        sample(z(2, 3), axis=0, inverse=True, norm="forward")),
    row(
        "real_fourier",
        *(sample(x(n), axis=0, norm=m) for n, m in [(4, "ortho"), (5, "forward"), (1, "backward")]),
        sample(x(2, 3), axis=0, norm="backward")),
    row(
        "from_half",
        *(sample(z(3), axis=0, n=n, norm=m) for n, m in [(4, "ortho"), (5, "forward")]),
        sample(z(2, 3), axis=0, n=2, norm="backward")),
    row("nextafter", sample(np.float32(1.0), np.float32(2.0)), sample(x(3), 5.0)),
    row("spacing", sample(x(3))),
    row(
        "ldexp", sample(x(3), np.arange(3)), sample(x(2, 1), np.array([1, -2])),
        sample(x(), np.int64(2))),
    row("exponent", sample(x(3))),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["f8", "f4", "c16", "c8", "i4"])
@pytest.mark.parametrize("shape", [(8,), (1,), (3, 5), (4, 2, 3)])
def test_compiled_transforms_are_numpys_own_loops(kind, shape):
    a = (np.random.default_rng(0).normal(size=shape) * 9).astype(kind)
    calls = [
        lambda a, k=k, m=m: np.fft.fft(a, axis=k, norm=m) for k in (0, -1) for m in (None, *NORMS)
    ]
    calls += [lambda a, m=m: np.fft.ifft(a, 5, norm=m) for m in NORMS]
    calls += [lambda a, m=m: np.fft.irfft(a, 7, axis=0, norm=m) for m in NORMS]
    calls += [lambda a: np.fft.fftn(a), lambda a: np.fft.hfft(a, 6)]
    if kind[0] != "c":
        calls += [lambda a, m=m: np.fft.rfft(a, axis=0, norm=m) for m in NORMS]
        calls += [lambda a: np.fft.irfft(np.fft.rfft(a, 11), 9)]
    for call in calls:
        compiled, want = jit(call), call(a)
        compiled(a)
        got = compiled(a)
        assert (got.dtype, got.strides) == (want.dtype, want.strides)
        np.testing.assert_allclose(got, want, 1e-5 if want.real.dtype == "f4" else 1e-13, 1e-4)
        assert "host" not in compiled.explain(a)


@pytest.mark.parametrize("kind", ["?", "i1", "u1", "i2", "u2", "u4", "i8"])
def test_integers_of_any_size_are_transformed_in_double_precision(kind):
    a = np.array([[3, 0, 2, 1], [1, 2, 0, 5]]).astype(kind)
    for call in (np.fft.fft2, np.fft.rfft, np.fft.irfft, np.fft.hfft):
        compiled, want = jit(call), call(a)
        for _ in range(2):
            np.testing.assert_allclose(compiled(a), want, rtol=1e-14, atol=1e-14, strict=True)


CASES = {
    **{f"fft {m}": (lambda a, m=m: np.fft.fft(a, norm=m), V) for m in NORMS},
    **{f"ifft {m}": (lambda a, m=m: np.fft.ifft(a, norm=m), Z) for m in NORMS},
    **{f"rfft {m}": (lambda a, m=m: np.fft.rfft(a, norm=m), V) for m in NORMS},
    **{f"irfft {m}": (lambda a, m=m: np.fft.irfft(a, norm=m), Z) for m in NORMS},
    **{f"hfft {m}": (lambda a, m=m: np.fft.hfft(a, norm=m), Z) for m in NORMS},
    **{f"ihfft {m}": (lambda a, m=m: np.fft.ihfft(a, norm=m), V) for m in NORMS},
    "fft longer": (lambda a: np.fft.fft(a, 7), V),
    "fft shorter": (lambda a: np.fft.fft(a, n=2, axis=0), A),
    "fft of complex": (lambda a: np.fft.fft(a, axis=0) * np.fft.fft(a), Z2),
    "fft float32": (lambda a: np.fft.fft(a), V.astype(np.float32)),
    "rfft even": (lambda a: np.fft.rfft(a, 8), V),
    "rfft axis": (lambda a: np.fft.rfft(a, axis=0), A),
    "irfft odd": (lambda a: np.fft.irfft(a, 5), Z),
    "irfft of reals": (lambda a: np.fft.irfft(a, 9), V),
    "irfft axis": (lambda a: np.fft.irfft(a, axis=0), Z2),
    "hfft odd": (lambda a: np.fft.hfft(a, 7), Z),
    "fft2": (lambda a: np.fft.fft2(a), C),
    "fft2 s": (lambda a: np.fft.fft2(a, s=(3, 2), norm="ortho"), A),
    "ifft2": (lambda a: np.fft.ifft2(a, axes=(0, 1)), C),
    "rfft2": (lambda a: np.fft.rfft2(a), A),
    "irfft2": (lambda a: np.fft.irfft2(a, s=(2, 3)), Z2),
    "fftn": (lambda a: np.fft.fftn(a), C),
    "fftn axes": (lambda a: np.fft.fftn(a, axes=(0, 2), norm="forward"), C),
    "fftn same axis twice": (lambda a: np.fft.fftn(a, axes=(0, 0)), A),
    "ifftn": (lambda a: np.fft.ifftn(a, s=(4, 2), axes=(0, 1)), A),
    "rfftn": (lambda a: np.fft.rfftn(a, norm="ortho"), C),
    "irfftn": (lambda a: np.fft.irfftn(a, norm="forward"), Z2),
    "fftshift": (lambda a: np.fft.fftshift(a) * a, V),
    "ifftshift": (lambda a: np.fft.ifftshift(a, axes=1) * np.fft.fftshift(a, (0,)), A),
    "power spectrum": (lambda a: np.abs(np.fft.rfft(a)) ** 2 * np.fft.rfftfreq(5), V),
    # polynomials
    "polyval": (lambda p, t: np.polyval(p, t), V, W),
    "polyval of a list": (lambda a: np.polyval([a[0], 2.0, a[1]], a), V),
    "polyadd": (lambda a, b: np.polyadd(a, b) ** 2, V, W),
    "polysub": (lambda a, b: np.polysub(b, a) ** 2, V, W),
    "polymul": (lambda a, b: np.polymul(a, b), V, W),
    "polydiv": (lambda a, b: np.polydiv(a, b), V, W[:3]),
    "polyder": (lambda a: np.polyder(a, 2) ** 2, V),
    "polyint": (lambda a, k: np.polyint(a, 2, k) ** 2, V, x(2)),
    "poly": (lambda a: np.poly(a), V),
    "poly of complex pairs": (lambda a: np.poly(np.stack([a + 1j, a - 1j])), 0.7),
    "poly of a matrix": (lambda a: np.poly(a @ a.T), A),
    "roots": (lambda a: np.sort(np.roots(a)), np.array([1.0, -3.5, 1.2, 2.0])),
    "roots at zero": (lambda a: np.roots(np.append(np.append(0.0, a), 0.0)) ** 2, W[:3]),
    "polyfit": (lambda t, y: np.polyfit(t, y, 2), V, V**2 + 0.3 * V**3),
    "polyfit weights": (lambda y, w: np.polyfit(V, y, 1, w=w), V**2, V**2 + 0.5),
    "polyfit covariance": (lambda y: np.polyfit(V, y, 1, cov=True), V**2),
    "polyfit unscaled": (lambda y: np.polyfit(V, y, 1, cov="unscaled")[0], z(5).imag),
    "polyfit columns": (lambda y: np.polyfit(V, y, 1), x(5, 2)),
    "polyfit full": (lambda y: np.polyfit(V, y, 1, full=True)[1], V**2),
    "vander": (lambda a: np.vander(a) ** 2, W),
    "vander increasing": (lambda a: np.vander(a, 3, increasing=True) ** 2, W),
    # parts of numbers
    "modf": (lambda a: np.modf(a * 3.1), V),
    "frexp": (lambda a: np.frexp(a)[0] * np.frexp(a)[1], V),
    "ldexp": (lambda a: np.ldexp(a, [1, -1, 0, 3, 2]) ** 2, V),
    "nextafter": (lambda a: np.nextafter(a, 9.0) * a, V),
    "spacing": (lambda a: np.spacing(a) + a, V),
    "fix": (lambda a: np.fix(a * 3.1) * a, V),
    "real_if_close": (lambda a: np.real_if_close(a + 0j) ** 2, V),
    "real_if_close far": (lambda a: np.real_if_close(a), Z),
    "isreal": (lambda a: np.isreal(a) * a + np.iscomplex(a) * a, V),
    "i0": (np.i0, np.array([-9.5, -2.0, 0.0, 0.5, 7.9, 8.2, 20.0])),
    # leaving the real line
    "emath.sqrt": (np.emath.sqrt, V),
    "emath.sqrt inside": (np.emath.sqrt, np.abs(V)),
    "emath.log": (lambda a: np.emath.log(a) + np.emath.log2(a) * np.emath.log10(a), V),
    "emath.logn": (lambda a, n: np.emath.logn(n, a), V, 2.5),
    "emath.power": (lambda a: np.emath.power(a, 1.5), V),
    "emath.arcs": (lambda a: np.emath.arcsin(a) + np.emath.arccos(a), V),
    "emath.arctanh": (np.emath.arctanh, V),
}


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    check(CASES[name])


def test_i0_is_smooth_at_zero():
    second = gradient(lambda t: gradient(np.i0, t)[0], 0.0)[0]
    assert second == pytest.approx(0.5)


def test_infinity_splits_as_numpys():
    a = np.array([np.inf, -np.inf, 2.0])
    for ours, theirs in zip(np.modf(param(a)), np.modf(a), strict=True):
        np.testing.assert_array_equal(data(ours), theirs)


@pytest.mark.parametrize("function", [np.fft.irfft, np.fft.hfft])
def test_half_precision_comes_back(function):
    a = np.array([0.5, -1.0, 2.0], np.float16)
    want = function(a)
    for found in (function(param(a)).data, jit(function)(a)):
        assert found.dtype == want.dtype == np.float16
        np.testing.assert_allclose(found, want, rtol=2e-3)
    assert gradient(lambda a: np.sum(function(a)), a)[0].dtype == np.float16
