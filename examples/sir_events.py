"""
An epidemic, and the day of its peak
====================================

Teaches that gradients go through ``scipy.integrate.solve_ivp``, events included: the peak is an
event of the solution, and the derivative of its day in the parameters gives its standard error. The
data are the boys in bed with influenza in an English boarding school (BMJ, 4 March 1978); fourteen
numbers, which stand below.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

import tracker

BOYS, END = 763, 40.0  # all boys; the last day that is computed
IN_BED = np.array([3, 8, 26, 76, 225, 298, 258, 233, 189, 128, 68, 29, 14, 4.0])
DAYS = np.arange(1.0, 15.0)  # the first is 22 January
START = np.log([2.0, 0.5, 1.0])


def sir(t, state, contacts, recovery):
    """Susceptible and infected boys; both rates are per day."""
    susceptible, infected = state
    new = contacts * susceptible * infected / BOYS
    return [-new, new - recovery * infected]


def peak(t, state, contacts, recovery):
    """Zero when as many boys recover as fall ill."""
    return contacts * state[0] / BOYS - recovery


def over(t, state, contacts, recovery):
    """Zero when the last boy gets up."""
    return state[1] - 1.0


peak.direction = over.direction = -1.0


def solve(parameters, days):
    """SciPy's solution: states on the days; times and states of both events."""
    contacts, recovery, infected = np.exp(parameters)
    start, rates = [BOYS - infected, infected], (contacts, recovery)
    options = {"events": (peak, over), "rtol": 1e-8, "atol": 1e-6}
    return solve_ivp(sir, (0.0, END), start, t_eval=days, args=rates, **options)


def residuals(parameters):
    """Square roots of counts have about the same noise at all counts: a half."""
    return 2.0 * (np.sqrt(solve(parameters, DAYS).y[1]) - np.sqrt(IN_BED))


def answers(parameters):
    """What people ask for."""
    solution = solve(parameters, [END])
    return {
        "reproduction number": np.exp(parameters[0] - parameters[1]),
        "days in bed": np.exp(-parameters[1]),
        "peak: day": solution.t_events[0][0],
        "peak: boys in bed": solution.y_events[0][0, 1],
        "last boy gets up: day": solution.t_events[1][0],
        "boys never ill": solution.y[0, -1],
    }


def fit():
    """Parameters, and their covariance, scaled by how well the model fits."""

    def jacobian(parameters):
        return tracker.jacobian(residuals, parameters)[0]

    found = least_squares(tracker.jit(residuals), START, jac=tracker.jit(jacobian))
    scale = 2.0 * found.cost / (len(DAYS) - len(START))
    return found.x, scale * np.linalg.inv(found.jac.T @ found.jac)


def errors(jac, covariance):
    """Standard errors of results: for each row g of their jacobian, the root of g C g."""
    return np.sqrt(np.sum(jac @ covariance * jac, axis=1))


def with_errors(parameters, covariance):
    """Each answer and its standard error."""
    jac = tracker.jacobian(lambda p: np.array(list(answers(p).values())), parameters)[0]
    found = answers(parameters)
    return zip(found, found.values(), errors(jac, covariance), strict=True)


def draw(parameters, covariance):
    days = np.linspace(0.0, 25.0, 200)
    infected = solve(parameters, days).y[1]
    jac = tracker.jacobian(lambda p: solve(p, days).y[1], parameters)[0]
    sd = errors(jac, covariance)
    figure, axis = plt.subplots(figsize=(8, 4.5), layout="constrained")
    axis.plot(DAYS, IN_BED, "ko", ms=5, label="boys in bed")
    axis.plot(days, infected, color="tab:red", label="fit, two standard errors")
    axis.fill_between(days, infected - 2 * sd, infected + 2 * sd, color="tab:red", alpha=0.25)
    for name, value, error in with_errors(parameters, covariance):
        if name.endswith(": day"):
            axis.axvspan(value - 2 * error, value + 2 * error, color="tab:blue", alpha=0.2)
            axis.text(value, 350, f"{name} {value:.1f}", color="tab:blue", ha="center")
    axis.set(xlabel="day (1 is 22 January 1978)", ylabel="boys", ylim=(0, 370), xlim=(0, 25))
    axis.legend(loc=(0.42, 0.7))
    return figure


def main():
    parameters, covariance = fit()
    for name, value, error in with_errors(parameters, covariance):
        print(f"{name:22} {value:8.2f} +- {error:.2f}")
    draw(parameters, covariance).savefig("sir_events.png", dpi=110)
    print("saved sir_events.png")


if __name__ == "__main__":
    main()
