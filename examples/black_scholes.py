"""
The Greeks of an option
=======================

Teaches that one price function is all one writes: its ``gradient`` is delta, vega, theta and rho,
its ``hessian`` gamma, vanna and volga, and ``vmap`` of both makes surfaces over spots and times.
Price and volatility are those of Google's shares in 2008, which come with matplotlib; the interest
rate is made up.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.cbook import get_sample_data
from scipy.special import ndtr

import tracker

NAMES = "spot", "volatility", "years", "rate"


def market():
    """Spot ($), volatility (of the last year, per root year), years to expiry, rate (per year)."""
    closes = get_sample_data("goog.npz")["price_data"]["adj_close"]
    volatility = np.sqrt(252.0) * np.std(np.diff(np.log(closes[-253:])))
    return np.array([closes[-1], volatility, 0.5, 0.03])


def price(inputs, strike):
    """Black and Scholes' price of a put ($)."""
    spot, volatility, years, rate = inputs
    width = volatility * np.sqrt(years)
    d = np.log(spot / strike) / width + (rate / volatility) * np.sqrt(years) + 0.5 * width
    return strike * np.exp(-rate * years) * ndtr(width - d) - spot * ndtr(-d)


def formulas(inputs, strike):
    """What textbooks derive by hand for the European put."""
    spot, volatility, years, rate = inputs
    width = volatility * np.sqrt(years)
    d = np.log(spot / strike) / width + (rate / volatility) * np.sqrt(years) + 0.5 * width
    bell, bond = np.exp(-0.5 * d**2) / np.sqrt(2.0 * np.pi), strike * np.exp(-rate * years)
    tail = ndtr(width - d)
    return {
        "delta": ndtr(d) - 1.0,
        "vega": spot * bell * np.sqrt(years),
        "theta": -spot * bell * volatility / (2.0 * np.sqrt(years)) + rate * bond * tail,
        "rho": -years * bond * tail,
        "gamma": bell / (spot * width),
        "vanna": -bell * (d - width) / volatility,
        "volga": spot * bell * np.sqrt(years) * d * (d - width) / volatility,
    }


def greeks(inputs, strike):
    """The same from the price alone, by one gradient and one hessian."""
    first = tracker.gradient(price, inputs, strike)[0]
    second = tracker.hessian(lambda x: price(x, strike), inputs)
    return {
        "delta": first[0],
        "vega": first[1],
        "theta": -first[2],
        "rho": first[3],
        "gamma": second[0, 0],
        "vanna": second[0, 1],
        "volga": second[1, 1],
    }


def surfaces(inputs, strike, points=60):
    """Spots ($), years to expiry, and delta and gamma at all of both, (points, points)."""
    spots = np.linspace(0.5, 1.5, points) * strike
    years = np.linspace(0.02, 1.0, points)

    def both(spot, time):
        x = np.array([spot, inputs[1], time, inputs[3]])
        slope = tracker.gradient(price, x, strike)[0]
        return slope[0], tracker.hvp(lambda x: price(x, strike), x, np.eye(4)[0])[0]

    everywhere = tracker.vmap(tracker.vmap(both, in_axes=(0, None)), in_axes=(None, 0))
    return spots, years, *everywhere(spots, years)


def draw(spots, years, delta, gamma):
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
    for axis, title, values in zip(axes, ("delta", "gamma (1/$)"), (delta, gamma), strict=True):
        levels = np.linspace(-1.0, 0.0, 21) if values is delta else 21
        image = axis.contourf(spots, years, values, levels, cmap="viridis")
        figure.colorbar(image, ax=axis, label=title)
        axis.set(xlabel="spot ($)", title=f"{title.split()[0]} of a put")
    axes[0].set(ylabel="time to expiry (years)")
    return figure


def main():
    inputs = market()
    strike = np.round(inputs[0], -1)
    market_data = ", ".join(f"{name} {x:.2f}" for name, x in zip(NAMES, inputs, strict=True))
    print(f"a put at {strike:.0f} $ costs {price(inputs, strike):.2f} $; {market_data}")
    derived = greeks(inputs, strike)
    for name, formula in formulas(inputs, strike).items():
        print(f"  {name:6} by hand {formula:12.6f}, by tracker {derived[name]:12.6f}")
    draw(*surfaces(inputs, strike)).savefig("black_scholes.png", dpi=110)
    print("saved black_scholes.png")


if __name__ == "__main__":
    main()
