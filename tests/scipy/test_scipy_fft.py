"""`tracker.scipy.fft`: SciPy's values, derivatives against differences, and compiled."""

import itertools

import numpy as np
import pytest
import scipy.constants
import scipy.fft
from scipy_cases import against_scipy
from tables import refused

from tracker import UnsupportedError, data, jit, param
from tracker.scipy import fft
from tracker.scipy.cluster import hierarchy, vq
from tracker.scipy.constants import convert_temperature, golden

RNG = np.random.default_rng(0)
X, ROWS = RNG.normal(size=7), RNG.normal(size=(4, 6))
COMPLEX = ROWS + 1j * RNG.normal(size=(4, 6))
TYPES = (1, 2, 3, 4)
COSINES = ("dct", "idct", "dst", "idst", "dctn", "idctn", "dstn", "idstn")
REAL = ("rfft", "rfft2", "rfftn", "ihfft", "ihfft2", "ihfftn")
WHOLE = ("fft", "ifft", "irfft", "hfft", "fft2", "ifft2", "irfft2", "hfft2", "fftn", "ifftn")
FOURIER = (*REAL, *WHOLE, "irfftn", "hfftn")


def agree(ours, theirs):
    ours, tight = data(ours), theirs.dtype.char in "dD"
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_allclose(
        ours, theirs, rtol=1e-10 if tight else 1e-4, atol=1e-12 if tight else 1e-5
    )


@pytest.mark.parametrize("name", COSINES)
def test_numbers_of_cosine_transforms(name):
    ours, theirs = getattr(fft, name), getattr(scipy.fft, name)
    key = "s" if name.endswith("n") else "n"
    for x, kind, n, norm, ortho in itertools.product(
        (X, X[:6], ROWS.astype("f"), COMPLEX),
        TYPES,
        (None, 5, 9),
        (None, "ortho", "forward"),
        (None, True, False),
    ):
        length = {} if n is None else {key: [n] if key == "s" else n}
        options = {"type": kind, "norm": norm, "orthogonalize": ortho, **length}
        agree(ours(param(x), **options), theirs(x, **options))
    agree(ours(param(ROWS), 2, None, 0), theirs(ROWS, 2, None, 0))


@pytest.mark.parametrize("name", FOURIER)
def test_numbers_of_fourier_transforms(name):
    ours, theirs = getattr(fft, name), getattr(scipy.fft, name)
    x = ROWS if name in REAL else COMPLEX
    lengths = {"s": (3, 5)} if name[-1] in "2n" else {"n": 5}
    for norm, options in itertools.product((None, "ortho", "forward", "backward"), ({}, lengths)):
        agree(ours(param(x), norm=norm, **options), theirs(x, norm=norm, **options))
    narrow = x.astype("f" if x is ROWS else "F")
    agree(ours(param(narrow)), theirs(narrow))


CASES = {
    name: (
        lambda m, x, name=name: tuple(getattr(m, name)(x, type=t, norm="ortho") for t in TYPES),
        ROWS[:2, :5],
    )
    for name in COSINES
}
CASES["hfft2, ihfftn"] = lambda m, x=COMPLEX[:2, :3]: (m.hfft2(x), np.abs(m.ihfftn(np.real(x))))
CASES["frequencies"] = lambda m, d=0.7: (m.fftfreq(7, d), m.rfftfreq(6, d=d))
CASES["shifts"] = lambda m, x=ROWS[:3, :4]: (
    m.ifftshift(x, 0)[:, :3] * np.abs(m.fftshift(m.rfft(x, norm="ortho", workers=2)))
)


test_case = against_scipy(fft, scipy.fft, CASES, order=2)


def test_names_of_scipys_in_compiled_code():
    """Captured arrays may leave a trace: no derivative depends on them."""
    fast = jit(lambda x: x * scipy_s(X)[0])
    scipy_s = lambda x: fft.fht(x, 0.1, 0.0)  # noqa: E731
    for factor in (1.0, 2.0):
        np.testing.assert_allclose(fast(factor * X), factor * X * scipy.fft.fht(X, 0.1, 0.0)[0])
    assert fast.cache_info().eager == 0


def test_plain_names():
    assert fft.next_fast_len(13) == scipy.fft.next_fast_len(13)
    np.testing.assert_array_equal(fft.dct(X), scipy.fft.dct(X))
    assert golden == scipy.constants.golden
    assert convert_temperature(0.0, "C", "K") == 273.15


m, p = fft, param(X)
test_refused = refused(
    {
        ValueError: {
            "type 5": lambda: m.dct(p, 5), "Invalid norm value 'x'": lambda: m.dct(p, norm="x"),
            "data points": lambda: m.dct(p[:1], 1),
            "of the same length": lambda: m.dctn(p, s=[3, 4], axes=[0])},
        UnsupportedError: {
            r"scipy\.fft\.fht has no derivative rule here": lambda: m.fht(p, 0.1, 0.0),
            r"cluster\.vq\.kmeans": lambda: vq.kmeans(param(ROWS), 2),
            r"cluster\.hierarchy\.linkage": lambda: hierarchy.linkage(param(ROWS))}},
)  # fmt: skip
