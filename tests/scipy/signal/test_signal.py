"""Convolution and the linear filter of `tracker.scipy.signal`."""

import numpy as np
import pytest
import scipy.signal
from pairwise_parameters import crossed
from scipy_cases import against_scipy, check_program
from tables import refused

from tracker import data, jit, param
from tracker.scipy import signal
from tracker.testing import gradcheck

RNG = np.random.default_rng(0)
LONG, SHORT = RNG.normal(size=9), RNG.normal(size=4)
WIDE, SMALL = RNG.normal(size=(5, 4)), RNG.normal(size=(2, 3))
WAVE = RNG.normal(size=200)
Z, W = WIDE + 1j * WIDE[::-1], SMALL - 2j * SMALL


@crossed(
    name=["convolve", "correlate", "fftconvolve", "oaconvolve"],
    mode=["full", "same", "valid"],
    operands=[(LONG, SHORT), (SHORT, LONG), (WIDE, SMALL)],
)
def test_convolutions(name, mode, operands):
    def f(m, a=operands[0], b=operands[1]):
        return getattr(m, name)(a, b, mode)

    check_program(signal, scipy.signal, f, rtol=1e-11)


@pytest.mark.parametrize("kinds", ["ll", "bB", "ld"])
@pytest.mark.parametrize("method", ["auto", "direct", "fft"])
def test_convolutions_of_integers_are_integers(kinds, method):
    a, b = (np.array(x, kind) for x, kind in zip(([3, 1, 2, 4], [2, 0, 5]), kinds, strict=True))
    for name in ("convolve", "correlate"):
        want = getattr(scipy.signal, name)(a, b, "same", method)
        compiled = jit(lambda a, b, name=name: getattr(signal, name)(a, b, "same", method))
        for _ in range(2):
            np.testing.assert_allclose(compiled(a, b), want, rtol=1e-14, strict=True)
    assert signal.convolve(param(np.zeros(0)), b).shape == (0,)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("a, b", [(Z, W), (W, Z)])
def test_correlations_of_complex_matrices(a, b, mode):
    """SciPy exchanges the operands where only the second leaves room; the result is conjugate."""
    found = data(signal.correlate2d(param(a), b, mode))
    np.testing.assert_allclose(found, scipy.signal.correlate2d(a, b, mode), atol=1e-12)


@pytest.mark.parametrize("name", ["convolve", "correlate", "fftconvolve"])
def test_convolutions_of_complex_numbers(name):
    z, ours, theirs = LONG + 1j * LONG[::-1], getattr(signal, name), getattr(scipy.signal, name)
    np.testing.assert_allclose(data(ours(param(z), SHORT)), theirs(z, SHORT), atol=1e-12)
    np.testing.assert_allclose(data(ours(SHORT, param(z))), theirs(SHORT, z), atol=1e-12)
    assert gradcheck(lambda z: ours(z, SHORT), z)


def test_convolution_of_scalars():
    assert data(signal.convolve(param(2.0), 3.0)) == 6.0


test_other_convolutions = against_scipy(
    signal,
    scipy.signal,
    {
        "by FFT": lambda m, a=WAVE[:90]: m.convolve(a, WAVE[:70]),
        "along an axis": lambda m, a=WIDE, b=WIDE[:, :2]: m.fftconvolve(a, b, axes=1),
    },
    rtol=1e-11,
)
FILTERS = {}
for _b, _a in (([0.5, 0.2], [1.3, -0.4, 0.2]), ([0.5], [2.0, 0.3]), ([0.5, 0.2, 0.1], [2.0])):
    _c, _d = np.array(_b), np.array(_a)
    FILTERS[f"{_b} / {_a}"] = lambda m, b=_c, a=_d, x=LONG: m.lfilter(b, a, x)
    FILTERS[f"{_b} / {_a}, columns"] = lambda m, x=WIDE, *, b=_b, a=_a: m.lfilter(b, a, x, axis=0)
STATEFUL = (
    ([0.5, 0.2, 0.1], [1.3, -0.4, 0.2], 7),
    ([0.5, 0.2, 0.1, 0.4], [1.0], 2),  # a state that outlasts the signal
    ([0.5], [2.0, 0.3, 0.3, 0.1], 2),
)
for _b, _a, _n in STATEFUL:
    _c, _d, _state = np.array(_b), np.array(_a), np.linspace(-1.0, 1.0, max(len(_a), len(_b)) - 1)
    _states = np.multiply.outer(_state, np.arange(4) + 1.0)
    FILTERS[f"{_b} / {_a}, with a state"] = lambda m, b=_c, a=_d, x=LONG[:_n], zi=_state: (
        np.concatenate(m.lfilter(b, a, x, zi=zi))
    )
    FILTERS[f"{_b} / {_a}, columns with a state"] = lambda m, x=WIDE, zi=_states, *, b=_b, a=_a: (
        m.lfilter(b, a, x, axis=0, zi=zi)[1]
    )
test_lfilter = against_scipy(signal, scipy.signal, FILTERS, order=2, rtol=1e-11)


@pytest.mark.parametrize("b, a, n", STATEFUL)
def test_lfilter_in_two_halves(b, a, n):
    state = np.linspace(-1.0, 1.0, max(len(a), len(b)) - 1)
    first, left = signal.lfilter(b, a, param(LONG[:4]), zi=state)
    rest = signal.lfilter(b, a, LONG[4:], zi=left)[0]
    whole = scipy.signal.lfilter(b, a, LONG, zi=state)[0]
    np.testing.assert_allclose(data(np.concatenate([first, rest])), whole)


def test_plain_functions_are_scipys():
    np.testing.assert_array_equal(signal.butter(2, 0.3), scipy.signal.butter(2, 0.3))


P = param(LONG)
test_refused = refused(
    {
        ValueError: {
            r"Unexpected shape for zi: \(1,\) is needed": lambda: signal.lfilter(
                [1.0], [1.0, 0.5], P, zi=[0.0, 1.0]
            ),
            "in1 has 1 dimensions, in2 has 2": lambda: signal.convolve(P, WIDE),
            "acceptable modes are full, same, valid; not 'half'": lambda: signal.convolve(
                P, SHORT, "half"
            ),
            "needs one operand at least as large": lambda: signal.convolve(
                param(np.ones((3, 1))), np.ones((1, 3)), "valid"
            ),
        }
    }
)
