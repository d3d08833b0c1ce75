"""Solutions of `solve_ivp` and `odeint` as people write them, against closed forms: captured
parameters, ends and times that are differentiated, dense output, events, every method."""

import types

import numpy as np
import pytest
import scipy.integrate
from exact_derivatives import check_exact
from scipy_cases import calls_as_scipy

import tracker
from tracker import gradient, param
from tracker.scipy import integrate
from tracker.scipy.integrate import odeint, solve_ivp

TIGHT = {"rtol": 1e-9, "atol": 1e-10}
METHODS = ["RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA"]


def decay(t, y, a):
    return [-a * y[0], -2 * a * y[1]]


def decayed(a, t):
    return np.stack([np.exp(-a * t), 3 * np.exp(-2 * a * t)])


@pytest.mark.parametrize(
    "method, transform",
    [*((method, lambda f: f) for method in METHODS), *((m, tracker.jit) for m in METHODS[:3])],
    ids=[*METHODS, *(f"{method}, compiled" for method in METHODS[:3])],
)
def test_methods(method, transform):
    """A captured parameter, ends and times, at once."""

    def f(a, start, t, end):
        given = {"t_eval": np.stack([t, end]), "method": method, **TIGHT}
        y0 = [np.exp(-a * start), 3 * np.exp(-2 * a * start)]
        return solve_ivp(lambda t, y: decay(t, y, a), (start, end), y0, **given).y

    def exact(a, start, t, end):
        return decayed(a, np.stack([t, end]))

    rtol = 1e-5 if method in ("BDF", "LSODA") else 1e-6
    check_exact(transform(f), exact, 0.7, 0.1, 0.5, 1.0, rtol=rtol)


def wave(t, y, w):
    return [y[1], -(w**2) * y[0]]


def zero(t, y):
    return y[0]


def falls(t, y):
    return y[0]


def reaches_level(level):
    def event(t, y):
        return y[0] - level

    return event


def ends(event):
    event.terminal = True
    return event


falls.terminal, falls.direction = True, -1
EIGHT = np.arange(1.0, 9.0)


def shot(g, h, **more):
    return solve_ivp(lambda t, y: [y[1], -g], (0.0, 50.0), [h, 0.0], events=falls, **more, **TIGHT)


def swing(w, events, **more):
    given = {"events": events, **more, **TIGHT}
    return solve_ivp(lambda t, y: wave(t, y, w), (0.0, 4.0), [1.0, 0.0], **given)


def count(f):
    calls = []

    def counted(t, y):
        calls.append(t)
        return f(t, y)

    return counted


class Rate:
    def __init__(self, a):
        self.a = a

    def __call__(self, t, y):
        return -self.a * y


def of_rate(t, y, rate):
    return rate(t, y)


def forgotten(a):
    """A function whose parameter matters late only, and whose closure has other functions."""
    rate = lambda: a  # noqa: E731

    def f(t, y):
        return [-y[0] if t < 0.5 else -rate() * y[0]]

    return solve_ivp(f, (0.0, 1.0), [1.0], max_step=0.01, **TIGHT).y[0, -1]


def filled(t, y, a):
    dy = np.zeros_like(y)
    dy[0] = -a * y[0]
    return dy


# Of the equation y' = -a y, from 1 at 0.
UNIT = {"t_span": (0.0, 1.0), "y0": [1.0], **TIGHT}
DECAYS = {
    "a filled buffer": lambda a: solve_ivp(filled, args=(a,), **UNIT).y[0, -1],
    "closure": lambda a: solve_ivp(lambda t, y: -a * y, **UNIT).y[0, -1],
    "a buffer that a closure fills": lambda a: solve_ivp(lambda t, y: filled(t, y, a), **UNIT).y[
        0, -1
    ],
    "odeint, closure": lambda a: odeint(lambda y, t: [-a * y[0]], [1.0], [0.0, 1.0], **TIGHT)[
        -1, 0
    ],
    "an object": lambda a: solve_ivp(Rate(a), **UNIT).y[0, -1],
    "an object in args": lambda a: solve_ivp(of_rate, args=(Rate(a),), **UNIT).y[0, -1],
    "objects in containers, in args": lambda a: solve_ivp(
        lambda t, y, given, factor: given["rates"][0](t, y) * factor,
        args=({"rates": [Rate(a)]}, 1.0),
        **UNIT,
    ).y[0, -1],
    "an object in args of events": lambda a: (
        solve_ivp(
            of_rate, args=(Rate(a),), events=lambda t, y, rate: y[0] - np.exp(-0.5 * rate.a), **UNIT
        ).y_events[0][0, 0]
        ** 2
    ),
    "odeint, an object in args": lambda a: odeint(
        of_rate, [1.0], [0.0, 1.0], (Rate(a),), tfirst=True, **TIGHT
    )[-1, 0],
    "counted calls": lambda a: solve_ivp(count(lambda t, y: -a * y), **UNIT).y[0, -1],
}
PROGRAMS = {
    **{name: (f, lambda a: np.exp(-a), (0.7,)) for name, f in DECAYS.items()},
    "odeint, times": (
        lambda a, t: odeint(Rate(a), [1.0], [0.0, t, t, 2.0], tfirst=True, **TIGHT)[1:, 0],
        lambda a, t: np.exp(-a * np.stack([t, t, 2.0 + 0 * t])),
        (0.7, 0.4),
    ),
    "odeint, backwards in time": (
        lambda a, t: odeint(Rate(a), [1.0], [1.0, t, 0.0], tfirst=True, **TIGHT)[1:, 0],
        lambda a, t: np.exp(a * np.stack([1 - t, 1.0 + 0 * t])),
        (0.7, 0.4),
    ),
    "a solution that ends early": (
        lambda a: solve_ivp(lambda t, y: a * y**2, (0, 2), [1], t_eval=[0.5, 1.5], **TIGHT).y[0],
        lambda a: 1 / (1 - 0.5 * a) * np.ones(1),
        (1.0,),
    ),
    "backwards in time": (
        lambda a, end: solve_ivp(Rate(a), (1.0, end), [1.0], t_eval=[0.5, end], **TIGHT).y[0],
        lambda a, end: np.exp(-a * (np.stack([0.5 + 0 * end, end]) - 1.0)),
        (0.7, 0.2),
    ),
    "vectorized": (
        lambda a: solve_ivp(
            lambda t, y: np.stack([-a * y[0], y[0]]),
            (0.0, 1.0),
            [1.0, 0.0],
            vectorized=True,
            **TIGHT,
        ).y[1, -1],
        lambda a: (1 - np.exp(-a)) / a,
        (0.7,),
    ),
    "stiff, backwards in time": (
        lambda a, start, end: solve_ivp(
            lambda t, y: [-a * y[0] * t, y[0] * a**2], (start, end), [1.0, 1.0], "Radau", **TIGHT
        ).y[0, -1],
        lambda a, start, end: np.exp(-a * (end**2 - start**2) / 2),
        (0.7, 1.0, 0.2),
    ),
    "stiff, dense output": (
        lambda a, t: solve_ivp(Rate(a), (0.0, 1.0), [1.0], "Radau", dense_output=True, **TIGHT).sol(
            np.stack([t, 0.8])
        )[0],
        lambda a, t: np.exp(-a * np.stack([t, 0.8 + 0 * t])),
        (0.7, 0.3),
    ),
    "a number to start from": (
        lambda y0, a: odeint(lambda y, t, a: -a * y, y0, [0.0, 0.4, 1.1], (a,), **TIGHT)[1:, 0],
        lambda y0, a: y0 * np.exp(-a * np.array([0.4, 1.1])),
        (2.0, 0.7),
    ),
    "a complex state": (
        lambda a, end: (
            solve_ivp(
                lambda t, y, a: (2j - a) * y * t,
                (0.0, end),
                np.array([3 + 4j]),
                t_eval=[end],
                args=(a,),
                **TIGHT,
            )
            .y[0, -1]
            .imag
        ),
        lambda a, end: np.exp(-a * end**2 / 2) * (3 * np.sin(end**2) + 4 * np.cos(end**2)),
        (0.7, 1.1),
    ),
    "conjugate": (
        lambda a: np.abs(
            solve_ivp(lambda t, y: a * np.conj(y), (0.0, 1.0), np.array([3 + 4j]), **TIGHT).y[:, -1]
        ),
        lambda a: np.sqrt(9 * np.exp(2 * a) + 16 * np.exp(-2 * a)) * np.ones(1),
        (0.7,),
    ),
    "no interval": (
        lambda y0: solve_ivp(lambda t, y: -y, (0.0, 0.0), y0, **TIGHT).y[:, -1],
        lambda y0: y0,
        (np.array([1.0, 2.0]),),
    ),
    "many equations": (
        lambda a, end: solve_ivp(
            lambda t, y: -a * t * y, (0.0, end), np.linspace(1.0, 2.0, 70), **TIGHT
        ).y[:, -1],
        lambda a, end: np.exp(-a * end**2 / 2) * np.linspace(1.0, 2.0, 70),
        (0.7, 1.2),
    ),
    "dense output": (
        lambda w, t: swing(w, None, dense_output=True).sol(np.stack([t, 2.0]))[0],
        lambda w, t: np.cos(w * np.stack([t, 2.0 + 0 * t])),
        (1.3, 0.4),
    ),
    "dense output at one time": (
        lambda w, t: swing(w, None, dense_output=True).sol(t),
        lambda w, t: np.stack([np.cos(w * t), -w * np.sin(w * t)]),
        (1.3, 0.4),
    ),
    "times of events": (
        lambda w: swing(w, zero).t_events[0],
        lambda w: (np.arange(2) + 0.5) * np.pi / w,
        (1.3,),
    ),
    "events of one direction": (
        lambda w: swing(w, [falls], t_eval=[1.0]).t_events[0],
        lambda w: np.pi / 2 / w * np.ones(1),
        (1.3,),
    ),
    "states of events": (
        lambda w, level: swing(w, [zero, reaches_level(level)], method="DOP853").y_events[1][0],
        lambda w, level: np.stack([level, -w * np.sqrt(1 - level**2)]),
        (1.3, 0.4),
    ),
    "an event that ends a stiff method": (
        lambda g, h: shot(g, h, method="BDF", t_eval=[0.5]).t_events[0],
        lambda g, h: np.sqrt(2 * h / g) * np.ones(1),
        (9.81, 3.0),
    ),
    "a stiff method backwards in time": (
        lambda a, end: solve_ivp(
            Rate(a), (1.0, end), [1.0], "BDF", events=ends(reaches_level(1.2)), **TIGHT
        ).t[[0, -1]],
        lambda a, end: np.stack([1.0 + 0 * a, 1.0 - np.log(1.2) / a]),
        (0.7, 0.2),
    ),
    "an array of args": (
        lambda rates: solve_ivp(
            lambda t, y, a, b: -a * b * t * y, (0.0, 1.0), [1.0], args=rates, **TIGHT
        ).y[:, -1],
        lambda rates: np.exp(-rates[0] * rates[1] / 2) * np.ones(1),
        (np.array([0.7, 1.2]),),
    ),
    "an event that ends it": (
        lambda g, h: np.stack([shot(g, h).t[-1], shot(g, h).y[1, -1]]),
        lambda g, h: np.stack([np.sqrt(2 * h / g), -np.sqrt(2 * h * g)]),
        (9.81, 3.0),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    f, exact, args = PROGRAMS[name]
    order = 2 if "event" in name or name in ("closure", "odeint, times") else 1
    check_exact(f, exact, *args, order=order)


@pytest.mark.parametrize("transform", [lambda f: f, tracker.jit])
def test_one_number_as_args(transform):
    def final(a):
        return solve_ivp(lambda t, y, a: -a * y, (0.0, 1.0), [1.0], args=a).y[0, -1]

    with pytest.raises(TypeError, match=r"args must be a tuple.* Give args=\(a,\)"):
        tracker.gradient(transform(final), 0.5)


def test_a_parameter_that_matters_late():
    assert gradient(forgotten, 0.7)[0] == pytest.approx(-0.5 * np.exp(-0.85), rel=1e-6)


def test_states_between_the_steps_of_bdf():
    def f(a):
        return solve_ivp(Rate(a), (0.0, 1.0), [1.0], "BDF", **TIGHT)

    times = f(0.7).t
    found = gradient(lambda a: np.sum(f(a).y * np.cos(times)), 0.7)[0]
    assert found == pytest.approx(np.sum(-times * np.exp(-0.7 * times) * np.cos(times)), rel=1e-6)


@pytest.mark.parametrize("method", ["BDF", "LSODA", "odeint"])
def test_a_gradient_of_bdf_across_a_fast_transition(method):
    """LSODA and odeint use BDF there."""

    def f(mu):
        oscillator = lambda t, y: [y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]]  # noqa: E731
        control = {"rtol": 1e-4, "atol": np.full(2, 1e-6)}
        if method == "odeint":
            return odeint(oscillator, [2.0, 0.0], [0.0, 110.0], tfirst=True, **control)[-1, 0]
        given = {"method": method, "t_eval": [110.0], **control}
        return solve_ivp(oscillator, (0.0, 110.0), [2.0, 0.0], **given).y[0, -1]

    by_differences = -0.00884438  # of solutions with tolerances of 1e-11
    assert gradient(f, 100.0)[0] == pytest.approx(by_differences, rel=0.05)


@pytest.mark.parametrize("method", ["RK45", "Radau"])
def test_blocks_of_steps(method, monkeypatch):
    """Jacobians of all steps at once may be too large for memory."""

    def f(a, end):
        given = {"args": (a,), "method": method, "rtol": 1e-6}
        return solve_ivp(decay, (0.0, end), [1.0, 3.0], **given).y[1, -1]

    want = gradient(f, 0.7, 2.0)
    monkeypatch.setattr("tracker.scipy.integrate.step_adjoint._BLOCK_SIZE", 50)
    np.testing.assert_allclose(gradient(f, 0.7, 2.0), want, rtol=1e-12)


def test_params():
    """Params outside of a derivative are found, too."""
    a, holder = param(0.7), types.SimpleNamespace(b=param(2.0))
    found = solve_ivp(lambda t, y: [-a * y[0] * holder.b], (0.0, 1.0), [1.0], **TIGHT)
    tracker.back(found.y[0, -1])
    assert a.grad == pytest.approx(-2 * np.exp(-1.4), rel=1e-6)
    assert holder.b.grad == pytest.approx(-0.7 * np.exp(-1.4), rel=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_a_derivative_beside_an_outer_value(method):
    """Of a param, or of an array of an object that a trace stands in for."""

    class Rates:
        each, which = param([1.0, 2.0]), np.array([1, 0])

    def f(a):
        right = lambda t, y: -a * y * Rates.each[Rates.which]  # noqa: E731
        return np.sum(solve_ivp(right, (0.0, 1.0), [1.0, 1.0], method, [1.0], **TIGHT).y)

    want = -np.exp(-0.7) - 2 * np.exp(-1.4)
    assert gradient(f, 0.7)[0] == pytest.approx(want, rel=1e-5)
    Rates.each = np.array([1, 2])
    compiled = tracker.jit(lambda a: gradient(f, a)[0])
    for _ in range(2):
        assert compiled(0.7) == pytest.approx(want, rel=1e-5)


def test_results_are_scipys():
    def f(t, y):
        return [y[1], -9.81]

    given = {"t_span": (0.0, 50.0), "y0": [3.0, 0.0], "events": [falls, zero], "dense_output": True}
    theirs = scipy.integrate.solve_ivp(f, **given)
    plain = integrate.solve_ivp(f, **given)
    tracked = integrate.solve_ivp(f, **{**given, "y0": param([3.0, 0.0])})
    for found in (plain, tracked):
        np.testing.assert_allclose(tracker.data(found.t), theirs.t, rtol=1e-12)
        np.testing.assert_allclose(tracker.data(found.y), theirs.y, rtol=1e-12, atol=1e-12)
        for ours, wanted in zip(found.t_events, theirs.t_events, strict=True):
            np.testing.assert_allclose(tracker.data(ours), wanted, rtol=1e-12)
        np.testing.assert_allclose(tracker.data(found.sol(0.3)), theirs.sol(0.3), rtol=1e-12)
        assert (found.status, found.message, found.nfev) == (1, theirs.message, theirs.nfev)
        assert found.sol.t_min == 0.0
    value, info = integrate.odeint(
        lambda y, t: -y, param([1.0]), [0.0, 1.0], full_output=True, **TIGHT
    )
    assert info["message"] == "Integration successful."
    assert tracker.istracked(value)


EVEN = {"first_step": 0.05, "max_step": 0.05, "rtol": 1e-3}  # steps that no error makes smaller


def solution(m, k, times=(0.5, 1.0), **options):
    given = {"t_eval": times, "args": (k,), **options}
    found = m.solve_ivp(lambda t, y, k: [y[1], -k * np.sin(y[0])], (0.0, 1.0), [1.0, 0.5], **given)
    return found.t, found.y, found.status, found.success, len(found.message)


COMPILED = {
    "tolerances": (
        lambda m, k, rtol, step: solution(m, k, rtol=rtol, first_step=step),
        [(2.0, 1e-2, 0.1), (2.0, 1e-9, 0.01), (3.0, 1e-4, 2.0), (3.0, 1e-4, -1.0)],
    ),
    "times": (
        lambda m, k, times: solution(m, k, times),
        [(2.0, np.array(t)) for t in ([0.1, 0.5], [0.2, 0.9], [0.5, 0.1], [0.0, 1.1], [0.0, 1.0])],
    ),
    "largest step": (
        lambda m, k, step: solution(m, k, max_step=step, method="RK23"),
        [(2.0, 0.1), (2.0, 0.3), (2.0, 0.0)],
    ),
    "tolerances of each state": (
        lambda m, k, atol: solution(m, k, atol=atol, method="DOP853"),
        [(2.0, np.array([1e-3, 1e-8])), (2.0, np.array([1e-6, 1e-3])), (2.0, np.array([1.0, -1]))],
    ),
    "no times": (
        lambda m, k: solution(m, k, None, **EVEN),
        [(2.0,), (2.1,)],
    ),
    "Radau": (
        lambda m, k, step: solution(m, k, method="Radau", rtol=1e-10, atol=1e-10, max_step=step),
        [(2.0, 0.1), (3.0, np.inf), (3.0, 0.0)],
    ),
    "LSODA": (
        lambda m, k, rtol: solution(m, k, method="LSODA", rtol=rtol, atol=1e-12),
        [(2.0, 1e-12), (3.0, 1e-12), (3.0, 1e-11)],
    ),
    "BDF": (
        lambda m, k, step: solution(m, k, method="BDF", rtol=1e-12, atol=1e-12, first_step=step),
        [(2.0, 1e-3), (3.0, 1e-2), (3.0, -1.0)],
    ),
    "a rejected first step": (
        lambda m, k: solution(m, k, [0.0, 0.3, 1.0], first_step=1.0, rtol=1e-6),
        [(2.0,), (40.0,)],
    ),
}


def watched(m, w, events, **options):
    given = {"events": events, "args": (w,), "rtol": 1e-8, "atol": 1e-9, **options}
    found = m.solve_ivp(lambda t, y, w: wave(t, y, w), (0.0, 4.0), [1.0, 0.0], **given)
    return (found.t, found.y, found.status, *found.t_events, *found.y_events)


def crosses(level, terminal=False, direction=0):
    def event(t, y, w):
        return y[0] - level

    event.terminal, event.direction = terminal, direction
    return event


COMPILED |= {
    "events": (
        lambda m, w: watched(m, w, [crosses(0.5), crosses(0.2, direction=1)], t_eval=[1.0, 3.0]),
        [(2.0,), (3.0,), (0.1,)],
    ),
    "events that end it": (
        lambda m, w: watched(m, w, [crosses(-0.3), crosses(0.3, True), crosses(0.0, 3)], **EVEN),
        [(2.0,), (2.1,)],
    ),
    "the second event ends it": (
        lambda m, w: watched(
            m, w, [crosses(0.2, 2), crosses(0.1)], t_eval=[0.1, 0.9, 3.0], method="DOP853"
        ),
        [(2.0,), (0.1,), (30.0,)],
    ),
    "an event before all times": (
        lambda m, w: watched(m, w, crosses(0.9, True), t_eval=[3.0])[2:],
        [(2.0,), (0.01,)],
    ),
    "an event that cannot end it": (lambda m, w: watched(m, w, crosses(0.9, -1)), [(2.0,)]),
    "events backwards in time": (
        lambda m, w: m.solve_ivp(
            lambda t, y: wave(t, y, w), (0.0, -4.0), [1.0, 0.0], events=[zero, falls], rtol=1e-8
        ).t_events[0],
        [(2.0,), (2.1,)],
    ),
}
test_compiled_results_are_scipys = calls_as_scipy(integrate, scipy.integrate, COMPILED)


@pytest.mark.parametrize("method", METHODS[:3])
def test_evaluations_are_counted_as_scipy_does(method):
    def count(m, w):
        given = {"t_eval": [0.07, 0.08, 1.0], "method": method, "args": (w,), **EVEN}
        return m.solve_ivp(wave, (0.0, 2.0), [1.0, 0.0], events=crosses(0.9), **given).nfev

    def differentiated(w):
        counts.append(count(integrate, w))
        return w

    counts = []
    gradient(differentiated, 1.3)
    wanted = count(scipy.integrate, 1.3)
    assert counts == [wanted]
    assert tracker.jit(lambda w: count(integrate, w))(1.3) == wanted


def test_attributes_of_compiled_dense_output():
    @tracker.jit
    def f(w):
        return swing(w, None, dense_output=True).sol.t_max * w

    text = "compiled code does not hold what SciPy says as 't_max' of a solution"
    with pytest.warns(RuntimeWarning, match=text):
        assert f(1.3) == 4.0 * 1.3


def test_a_step_that_is_too_small():
    """Then compiled code asks SciPy, whose solution ends early."""

    def f(m, k):
        found = m.solve_ivp(
            lambda t, y, k: k * y**2, (0.0, 2.0), [1.0], args=(k,), t_eval=[0.5, 1.5]
        )
        return found.y, found.status, found.message

    compiled = tracker.jit(lambda k: f(integrate, k))
    for k in (0.5, 1.0, 0.4):
        ours, theirs = compiled(k), f(scipy.integrate, k)
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-9)
        assert ours[1:] == theirs[1:]


COMPILED_PROGRAMS = [
    *("a filled buffer", "closure", "an object", "backwards in time", "vectorized", "conjugate"),
    *("dense output", "dense output at one time", "odeint, closure", "odeint, times"),
    *("events of one direction", "states of events", "an event that ends it"),
    *("stiff, backwards in time", "stiff, dense output", "a number to start from"),
]


@pytest.mark.parametrize("name", COMPILED_PROGRAMS)
def test_compiled_programs(name):
    f, _, args = PROGRAMS[name]

    def loss(*args):
        y = f(*args)
        return np.sum(y * np.cos(np.arange(np.size(y))))

    value, slopes = tracker.withgradient(loss, *args)
    compiled = tracker.jit(lambda *args: tracker.withgradient(loss, *args))
    for _ in range(2):
        found = compiled(*args)
        assert found.val == pytest.approx(value, rel=1e-6)
        np.testing.assert_allclose(found.grad, slopes, rtol=1e-6, atol=1e-7)
    assert compiled.cache_info().traces == 1


@pytest.mark.parametrize(
    "name", ["an event that ends it", "odeint, closure", "stiff, dense output"]
)
def test_other_compiled_derivatives(name):
    f, exact, args = PROGRAMS[name]
    check_exact(tracker.jit(f), exact, *args)


@pytest.mark.parametrize("options", [{}, {"events": zero}])
@pytest.mark.parametrize("method", METHODS[3:])
def test_compiled_stiff_methods(method, options, monkeypatch):
    """With a captured tuple and a branch, and an option that native code does not need; and with
    events, by a callback."""

    def f(a, t):
        rates = (a, 2 * a)

        def right(t, y):
            return [-rates[0] * y[0] if t < 5 else 0.0, -rates[1] * y[1]]

        def slopes(t, y):
            return np.diag([-rates[0], -rates[1]])

        given = {"method": method, "t_eval": [t, 1.0], "jac": slopes, **options}
        return solve_ivp(right, (0.0, 1.0), [1.0, 3.0], **given, **TIGHT).y

    if not options:
        monkeypatch.delattr(scipy.integrate, "solve_ivp")
    compiled = tracker.jit(f)
    check_exact(compiled, lambda a, t: decayed(a, np.stack([t, 1.0 + 0 * t])), 0.7, 0.4, rtol=1e-5)
    assert compiled.cache_info().traces >= 1


@pytest.mark.parametrize("method", ["BDF", "LSODA"])
def test_compiled_dense_output_of_methods_of_several_steps(method):
    def f(a, t, name=None):
        given = {"method": method, "dense_output": True, **TIGHT}
        found = solve_ivp(lambda t, y: -a * y, (0.0, 1.0), [1.0], **given)
        return found.sol(t)[0] if name is None else np.size(getattr(found, name)) * a

    compiled = tracker.jit(f, static=("name",))
    for _ in range(2):
        assert gradient(compiled, 0.7, 0.5)[0] == pytest.approx(-0.5 * np.exp(-0.35), rel=1e-5)
    assert compiled.cache_info().eager == 0
    for name in ("t", "y", "nfev"):
        text = f"compiled code does not hold what SciPy says as {name!r} of a solution"
        with pytest.warns(RuntimeWarning, match=text):
            assert compiled(0.7, 0.5, name) == f(0.7, 0.5, name)


@pytest.mark.parametrize("count", [1, 33])
def test_a_stiff_equation_is_not_solved_by_an_explicit_method(count):
    """But by Radau's, and by SciPy if there are many equations."""

    def stiff(y, t, a):
        return -1e5 * (y - np.cos(a * t))

    def f(m, a):
        return m.odeint(stiff, np.ones(count), [0.0, 1.0], (a,))[1, 0]

    compiled = tracker.jit(lambda a: f(integrate, a))
    for a in (1.3, 1.3, 1.1):
        assert compiled(a) == pytest.approx(f(scipy.integrate, a), abs=1e-7)
        assert gradient(compiled, a)[0] == pytest.approx(-np.sin(a), abs=1e-4)


def kinetics(k, method, tolerance):
    """Robertson's reactions."""

    def f(t, y):
        slow, fast, reverse = k[0] * y[0], k[1] * y[1] ** 2, k[2] * y[1] * y[2]
        return [reverse - slow, slow - reverse - fast, fast]

    given = {"method": method, "rtol": tolerance, "atol": tolerance * 1e-4}
    if method == "odeint":
        del given["method"]
        y = odeint(f, [1.0, 0.0, 0.0], [0.0, 1.0, 100.0], tfirst=True, **given)[1:]
    else:
        y = solve_ivp(f, (0.0, 100.0), [1.0, 0.0, 0.0], t_eval=[1.0, 100.0], **given).y.T
    return np.log(y)


RATES = np.array([0.04, 3e7, 1e4])


@pytest.fixture(scope="module")
def tight_kinetics():
    """Values, and derivatives with respect to the logarithms of the rates by differences."""

    def of(logs):
        return kinetics(np.exp(logs), "Radau", 1e-11)

    logs = np.log(RATES)
    slopes = [(of(logs + step) - of(logs - step)) / 2e-4 for step in 1e-4 * np.eye(3)]
    return of(logs), np.stack(slopes, -1)


@pytest.mark.parametrize("method", ["Radau", "BDF", "LSODA", "odeint"])
def test_stiff_derivatives(method, tight_kinetics):
    value, slopes = tight_kinetics

    def f(logs):
        return kinetics(np.exp(logs), method, 1e-7)

    np.testing.assert_allclose(f(np.log(RATES)), value, rtol=1e-5)
    found = tracker.jacobian(f, np.log(RATES))[0]
    np.testing.assert_allclose(np.reshape(found, slopes.shape), slopes, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["Radau", "BDF", "LSODA", "odeint"])
def test_compiled_stiff_derivatives(method, tight_kinetics):
    value, slopes = tight_kinetics
    weights = np.arange(1.0, 7.0).reshape(2, 3)

    def loss(logs):
        return np.sum(weights * kinetics(np.exp(logs), method, 1e-7))

    compiled = tracker.jit(lambda logs: tracker.withgradient(loss, logs))
    for _ in range(2):
        found = compiled(np.log(RATES))
        assert found.val == pytest.approx(np.sum(weights * value), rel=1e-5)
        want = np.einsum("ij,ijk->k", weights, slopes)
        np.testing.assert_allclose(found.grad[0], want, rtol=1e-4)
    assert compiled.cache_info().traces == 1


@pytest.mark.parametrize(
    "run", [lambda f: f(2.0), lambda f: gradient(f, 2.0), lambda f: tracker.jit(f)(2.0)]
)
def test_an_unknown_method_is_refused(run):
    with pytest.raises(
        ValueError, match=r"no method 'RK4'\. Use one of RK23, |must be one of {'RK23"
    ):
        run(lambda a: solve_ivp(lambda t, y: -a * y, (0, 1), [1.0], method="RK4").y[0, -1])
