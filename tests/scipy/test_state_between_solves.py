"""Functions for solvers that read state which changes between one solution and the next."""

import functools
import types
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import integrate, optimize

import tracker


class Plant:
    level = 1.0

    def __init__(self, gain):
        self.gain, self.state = gain, 1.0

    def residual(self, x):
        return x - self.state + 0.1 * self.gain * x**3

    def rate(self, t, y):
        return self.state - self.gain * y

    def cost(self, x):
        return self.gain * (x - self.state) ** 2 + x

    def costs(self, x):
        return np.stack([x[0] - self.state, 0.1 * self.gain * x[0]])


def solve(f):
    return optimize.brentq(f, -50.0, 100.0, xtol=1e-13)


def roots(f):
    return optimize.root(f, np.ones(2), tol=1e-13).x


def attribute(k):
    plant = Plant(k)
    first = solve(plant.residual)
    plant.state = first * k
    second = solve(plant.residual)
    plant.state, plant.gain = 3.0, k * k
    return first + 2.0 * second + 3.0 * solve(plant.residual)


def array(k):
    plant = Plant(k)
    plant.state = np.array([1.0, 0.5])
    first = roots(lambda x: plant.residual(x))
    plant.state[:] = [2.0, 3.0]
    second = roots(lambda x: plant.residual(x))
    plant.state[:1] = first[1:]
    return np.sum(first + 2.0 * second + 3.0 * roots(lambda x: plant.residual(x)))


def appended(k):
    levels = [0.0]
    for i in range(3):
        levels.append(solve(lambda x: k * x - 1.0 - 0.1 * levels[-1] - len(levels)))
        levels[0] += i
    return sum(levels)


def entries(k):
    plant = types.SimpleNamespace(inflows={"a": 1.0})
    total = 0.0
    for name in "bcd":
        total += solve(lambda x: k * x - sum(plant.inflows.values()))
        plant.inflows[name] = 2.0 * total
        if name == "c":
            plant.inflows = {"z": 3.0, **plant.inflows}
            del plant.inflows["a"]
    return total


def closure_variable(k):
    level = 1.0

    def residual(x):
        return k * x - level

    first = solve(residual)
    level = 2.0
    second = solve(residual)
    level = first
    return first + 2.0 * second + 3.0 * solve(residual)


LEVEL = 1.0


def global_variable(k):
    global LEVEL
    first = solve(lambda x: k * x - LEVEL)
    LEVEL = first
    second = solve(lambda x: k * x - LEVEL)
    LEVEL = 1.0
    return first + 2.0 * second


def class_attribute(k):
    first = solve(lambda x: k * x - Plant.level)
    Plant.level = first
    second = solve(lambda x: k * x - Plant.level)
    Plant.level = 1.0
    return first + 2.0 * second


def default(k):
    plant = Plant(k)

    def residual(x, plant=plant):
        return plant.residual(x)

    first = solve(residual)
    plant.state = 2.0
    return first + 2.0 * solve(residual)


def partial(k):
    plant = Plant(k)
    residual = functools.partial(lambda plant, x: plant.residual(x), plant)
    first = solve(residual)
    plant.state = first
    return first + 2.0 * solve(residual)


def function(k):
    law = types.SimpleNamespace(residual=lambda x: k * x - 1.0)
    first = solve(lambda x: law.residual(x))
    law.residual = lambda x: k * x - first
    return first + 2.0 * solve(lambda x: law.residual(x))


@dataclass
class Balance:
    gain: float
    state: float = 1.0

    def __call__(self, x):
        return x - self.state + 0.1 * self.gain * x**3


def _of_args(make):
    def f(k):
        def residual(x, balance, options):
            return balance(x) * options["factor"] - 1.0

        given = make(k), {"factor": k}
        first = optimize.brentq(residual, -50.0, 100.0, given, xtol=1e-13)
        given[0].state, given[1]["factor"] = first, k + 1.0
        second = optimize.brentq(residual, -50.0, 100.0, given, xtol=1e-13)
        given[0].state = 5.0
        return first + 2.0 * second

    return f


def elements(k):
    """Elements of tracked arrays, written before the first solution and after it."""
    plant = types.SimpleNamespace(gains=np.zeros(2) + k)
    plant.gains[0] = plant.gains[1] * 1.3
    first = integrate.solve_ivp(
        lambda t, y: -plant.gains[0] * y, (0.0, 1.0), [1.0], rtol=1e-9, atol=1e-9
    ).y[0, -1]
    plant.gains[0] *= first
    second = integrate.odeint(
        lambda y, t: -plant.gains[0] * y, [1.0], [0.0, 1.0], rtol=1e-9, atol=1e-9
    )[1, 0]
    plant.gains[0] = plant.gains[0] + second
    return first + second + solve(lambda x: x - plant.gains[0])


SHARED = Plant(2.0)


def shared_object(k):
    """The state is there before the call, and another after it."""
    first = solve(lambda x: k * SHARED.residual(x) - 1.0)
    SHARED.state = 2.0
    second = solve(lambda x: k * SHARED.residual(x) - 1.0)
    SHARED.state = 1.0
    return first + 2.0 * second


def _with(solver):
    def f(k):
        plant = Plant(k)
        first = solver(plant)
        plant.state = first + 1.0
        second = solver(plant)
        plant.state = 5.0
        return first + 2.0 * second

    return f


SOLVERS = {
    "solve_ivp": lambda p: integrate.solve_ivp(p.rate, (0.0, 1.0), [1.0], rtol=1e-9, atol=1e-9).y[
        0, -1
    ],
    "odeint": lambda p: integrate.odeint(
        lambda y, t: p.rate(t, y), [1.0], [0.0, 1.0], rtol=1e-9, atol=1e-9
    )[1, 0],
    "quad": lambda p: integrate.quad(p.cost, 0.0, 1.0)[0],
    "newton": lambda p: optimize.newton(p.residual, 1.0, tol=1e-13),
    "fsolve": lambda p: optimize.fsolve(p.residual, np.ones(1), xtol=1e-13)[0],
    "minimize": lambda p: optimize.minimize(lambda x: np.sum(p.cost(x)), [0.5], tol=1e-12).x[0],
    "least_squares": lambda p: optimize.least_squares(p.costs, [1.0], xtol=1e-14).x[0],
}
PROGRAMS = [
    *(attribute, array, appended, entries, closure_variable, global_variable, class_attribute),
    *(default, partial, function, shared_object, elements),
]
CASES = {f.__name__: f for f in PROGRAMS} | {name: _with(f) for name, f in SOLVERS.items()}
CASES["dataclass in args"] = _of_args(Balance)


@pytest.mark.parametrize("name", CASES)
def test_solvers_read_the_state_of_their_time(name):
    f = CASES[name]
    compiled = tracker.jit(f)
    gradient = tracker.jit(lambda k: tracker.gradient(f, k)[0])
    for k in (1.5, 1.6, 1.5):
        value = f(k)
        want = (f(k + 1e-4) - f(k - 1e-4)) / 2e-4
        assert compiled(k) == pytest.approx(value, rel=1e-6)
        assert tracker.gradient(f, k)[0] == pytest.approx(want, rel=1e-4)
        assert tracker.gradient(compiled, k)[0] == pytest.approx(want, rel=1e-4)
        assert gradient(k) == pytest.approx(want, rel=1e-4)


def test_an_object_in_args_is_read_as_it_was():
    class Plain:
        def __init__(self, gain):
            self.gain, self.state = gain, 1.0

        __call__ = Balance.__call__

    f = _of_args(Plain)
    want = tracker.gradient(_of_args(Balance), 1.5)
    for g in (f, tracker.jit(f)):
        assert tracker.gradient(g, 1.5) == pytest.approx(want, rel=1e-12)


def test_compiled_code_takes_no_numbers_from_plain_objects_in_args():
    def f(k):
        return optimize.brentq(lambda x, p: x - p.gain, -9.0, 9.0, types.SimpleNamespace(gain=k))

    assert tracker.gradient(f, 1.5) == (1.0,)
    with pytest.raises(tracker.CompileError, match="Pass the value through args=, by itself or in"):
        tracker.jit(f, strict=True)(1.5)
