"""SciPy's filter designs, linear systems and signals with parameters, against SciPy on plain
numbers, differences and compiled code."""

import numpy as np
import pytest
import scipy.signal
from scipy_cases import against_scipy

from tracker import ConversionError, gradient, jit
from tracker.scipy import signal

B, A = np.array([0.2, 0.3]), np.array([1.0, -0.5, 0.2])
T = np.linspace(0.05, 1.0, 12)
Z, P = np.array([-0.1]), np.array([-0.3, -0.4])
SYSTEM = np.array([[-1.0, 0.3], [0.2, -0.5]]), np.array([[1.0], [0.5]])
OUTPUT = np.array([[1.0, 0.2]]), np.array([[0.1]])
SECTION = np.array([[0.1, 0.2, 0.3, 1.0, 0.2, 0.1]])
FREQUENCY, BAND = np.array(0.3), np.array([0.2, 0.4])
STEPS = np.linspace(0.0, 1.0, 6)

PROGRAMS = {
    "bilinear": (lambda m, b, a: m.bilinear(b, a, 2.0), B, A),
    "bilinear, zeros": (lambda m, z, p: m.bilinear_zpk(z, p, 1.0, 2.0), Z, P),
    "butter": (lambda m, w: m.butter(3, w), FREQUENCY),
    "butter, high pass": (lambda m, w: m.butter(2, w, "high", output="sos"), FREQUENCY),
    "butter, band pass": (lambda m, w: m.butter(1, w, "band"), BAND),
    "cheby1": (lambda m, w: m.cheby1(2, 0.5, w), FREQUENCY),
    "cheby2": (lambda m, w: m.cheby2(2, 20.0, w), FREQUENCY),
    "ellip": (lambda m, w: m.ellip(2, 0.5, 20.0, w), FREQUENCY),
    "firwin": (lambda m, w: m.firwin(5, w), FREQUENCY),
    "iirnotch": (lambda m, w, q: m.iirnotch(w, q), FREQUENCY, np.array(20.0)),
    "iirpeak": (lambda m, w, q: m.iirpeak(w, q), FREQUENCY, np.array(20.0)),
    "lp2lp": (lambda m, b, a, w: m.lp2lp(b, a, w), B, A, np.array(0.7)),
    "lp2hp": (lambda m, b, a, w: m.lp2hp(b, a, w), B, A, np.array(0.7)),
    "normalize": (lambda m, b, a: m.normalize(b, a * 2.0), B, A),
    "sos2tf": (lambda m, s: m.sos2tf(s), SECTION),
    "zpk2tf": (lambda m, z, p: m.zpk2tf(z, p, 2.0), Z, P),
    "deconvolve": (lambda m, y, b: m.deconvolve(y, b), np.array([1.0, 2.0, 3.0, 4.0]), A[:2]),
    "lfiltic": (lambda m, b, a, y: m.lfiltic(b, a, y), B, A, T[:4]),
    "lfiltic, short": (lambda m, b, a, y, x: m.lfiltic(b, a, y, x), T[:4], A * 2, T[:1], T[:2]),
    "freqs": (lambda m, b, a: m.freqs(b, a, T)[1], B, A),
    "freqz_zpk": (lambda m, z, p: m.freqz_zpk(z, p, 1.0, T)[1], Z, P),
    "group_delay": (lambda m, b, a: m.group_delay((b, a), T)[1], B, A),
    "chirp": (lambda m, f: m.chirp(T, f, 1.0, 5.0), np.array(1.0)),
    "gausspulse": (lambda m, f: m.gausspulse(T, f), np.array(5.0)),
    "sweep_poly": (lambda m, b: m.sweep_poly(T, b), B),
    "lombscargle": (lambda m, x: m.lombscargle(T, x, 3 * T), np.sin(9 * T)),
    "lsim": (lambda m, a, b: m.lsim((a, b, *OUTPUT), np.sin(STEPS), STEPS)[1:], *SYSTEM),
    "dlsim": (lambda m, a, b: m.dlsim((a, b, *OUTPUT, 0.1), np.sin(STEPS))[1:], *SYSTEM),
    "step": (lambda m, a, b: m.step((a, b, *OUTPUT), T=STEPS)[1], *SYSTEM),
    "impulse": (lambda m, a, b: m.impulse((a, b, *OUTPUT), T=STEPS)[1], *SYSTEM),
    "freqresp": (lambda m, a, b: m.freqresp((a, b, *OUTPUT), T)[1], *SYSTEM),
    "bode": (lambda m, b, a: m.bode((b, a), T)[1:], B, A),
    "cont2discrete": (lambda m, a, b: m.cont2discrete((a, b, *OUTPUT), 0.1)[:2], *SYSTEM),
    "ss2tf": (lambda m, a, b: m.ss2tf(a, b, *OUTPUT), *SYSTEM),
}
test_designs = against_scipy(signal, scipy.signal, PROGRAMS, rtol=1e-9)


OF_OBJECTS = {
    "lti": lambda a: scipy.signal.step(scipy.signal.lti([1.0], [1.0, a, 2.0]), T=STEPS)[1],
    "TransferFunction": lambda a: scipy.signal.bode(
        scipy.signal.TransferFunction([1.0], [1.0, a, 2.0]), w=[0.1, 1.0]
    )[1],
    "ZerosPolesGain": lambda a: scipy.signal.impulse(
        system=scipy.signal.ZerosPolesGain([], [-a, -2.0], 3.0), T=STEPS
    )[1],
    "StateSpace": lambda a: scipy.signal.dstep(
        scipy.signal.StateSpace([[0.1 * a]], [[1.0]], [[1.0]], [[0.0]], dt=0.1), n=5
    )[1][0],
}


@pytest.mark.parametrize("name", OF_OBJECTS)
def test_objects_of_traced_numbers_have_values_but_no_gradient(name):
    f = OF_OBJECTS[name]
    fast = jit(f)
    with pytest.warns(RuntimeWarning, match="Give the numbers themselves to functions of linear"):
        np.testing.assert_allclose(fast(np.array(1.5)), f(1.5))
    np.testing.assert_allclose(fast(np.array(1.2)), f(1.2))
    with pytest.raises(
        ConversionError, match=rf"scipy\.signal\.{name} would turn .*\(\(num, den\)\)"
    ):
        gradient(lambda a: np.sum(f(a)), 1.5)
