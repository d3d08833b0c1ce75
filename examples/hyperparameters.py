"""
A hundred hyperparameters at once: gradients through a fit
==========================================================

Teaches ``tracker.implicit``: a ridge regression has one penalty for each of its 144 weights, and
the gradient of the loss on held-out data in all of them goes through the fit, by the implicit
function theorem: one linear system, whatever steps the solver has made. A grid of penalties would
have 144 dimensions. The data are computed: what few places of a picture say about a number.
"""

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.progress import track

import tracker
from tracker import implicit, optim

SIDE, NOISE = 12, 0.5
FITTED, HELD, NEW = 150, 600, 2000  # pictures: to fit to, for the penalties, and for the end


def truth():
    """The weight of each place, (SIDE, SIDE): a ring, and nothing elsewhere."""
    x, y = np.meshgrid(*2 * [np.linspace(-1.0, 1.0, SIDE)])
    return np.where(np.abs(np.hypot(x, y) - 0.6) < 0.12, 0.5 + 0.5 * x, 0.0)


def pictures(seed=0):
    """Random pictures (n, SIDE * SIDE), and the numbers that they give, with noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(FITTED + HELD + NEW, SIDE * SIDE))
    return x, x @ truth().ravel() + NOISE * rng.normal(size=len(x))


def misfit(model, x, y):
    return np.mean((x @ model["weights"] + model["offset"] - y) ** 2)


def problem(x, y):
    """The solver, from the logarithms of the penalties to the model, and the loss of its result on
    data that it has not seen."""
    held = slice(FITTED, FITTED + HELD)

    def penalised(model, logs):
        penalty = np.sum((1e-4 + np.exp(logs)) * model["weights"] ** 2)
        return misfit(model, x[:FITTED], y[:FITTED]) + penalty

    start = {"weights": np.zeros(SIDE * SIDE), "offset": 0.0}

    def solver(logs):
        return optim.lbfgs(penalised, start, logs, gtol=1e-8, ftol=0.0).x

    best_model = implicit.minimum(penalised, solver)

    def held_loss(logs):
        return misfit(best_model(logs), x[held], y[held])

    return solver, held_loss


def tune(held_loss, logs, rate=0.3, steps=80):
    """The logarithms of the penalties at the end, and the loss at each step of Adam."""
    step = tracker.value_and_grad(tracker.jit(held_loss))
    init, update = optim.adam(rate)
    state, losses = init(logs), []
    for _ in track(range(steps), "tuning", console=Console(stderr=True)):
        value, gradient = step(logs)
        logs, state = update(logs, gradient, state)
        losses.append(value)
    return logs, losses


def new_loss(model, x, y):
    """The loss on pictures that nothing was fitted to."""
    return misfit(model, x[FITTED + HELD :], y[FITTED + HELD :])


def draw(losses, logs, before, after):
    figure, axes = plt.subplots(1, 4, figsize=(15, 3.6), layout="constrained")
    axes[0].plot(losses)
    axes[0].axhline(NOISE**2, color="black", ls=":", label="noise")
    axes[0].set(title="loss on held-out pictures", xlabel="step", yscale="log")
    axes[0].legend()
    image = axes[1].imshow(logs.reshape(SIDE, SIDE), "viridis_r")
    axes[1].set(title="tuned penalties")
    figure.colorbar(image, ax=axes[1], label="logarithm")
    shown = {"weights, equal penalties": before, "weights, tuned penalties": after}
    for axis, (title, model) in zip(axes[2:], shown.items(), strict=True):
        axis.imshow(model["weights"].reshape(SIDE, SIDE), "RdBu", vmin=-1, vmax=1)
        axis.contour(truth() > 0, [0.5], colors="black", linewidths=0.7)
        axis.set(title=title)
    return figure


def main():
    x, y = pictures()
    solver, held_loss = problem(x, y)
    equal = np.full(SIDE * SIDE, np.log(0.1))
    logs, losses = tune(held_loss, equal)
    before, after = solver(equal), solver(logs)
    print(f"loss on held-out pictures: {losses[0]:.3f} at first, {losses[-1]:.3f} at last")
    for name, model in (("equal penalties", before), ("tuned", after)):
        print(f"{name:16} {new_loss(model, x, y):.3f} on new pictures, of {NOISE**2} at best")
    draw(losses, logs, before, after).savefig("hyperparameters.png", dpi=110)
    print("saved hyperparameters.png")


if __name__ == "__main__":
    main()
