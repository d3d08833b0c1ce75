"""
A normalising flow
==================

Teaches that a density is one more differentiable program: layers of RealNVP (Dinh et al., 2017)
turn two moons into a Gaussian, the logarithms of their determinants add up, and the likelihood of
the points trains them. The layers are objects of a class of one's own in a list, which the
gradient and ``tracker.optim`` follow. The points are those of scikit-learn's ``make_moons``.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.progress import track
from sklearn.datasets import make_moons

import tracker

LAYERS, WIDTH, BATCH = 6, 24, 256


@dataclass
class Coupling:
    """One coordinate, scaled and shifted by a small network of the other."""

    input: np.ndarray
    bias: np.ndarray
    output: np.ndarray
    keeps: int  # the coordinate that stays as it is

    @classmethod
    def new(cls, keeps, rng):
        output = 0.05 * rng.normal(size=(WIDTH, 2))
        return cls(rng.normal(size=(1, WIDTH)), rng.normal(size=WIDTH), output, keeps)

    def scale_and_shift(self, kept):
        found = np.tanh(kept[:, None] @ self.input + self.bias) @ self.output
        return 2.0 * np.tanh(found[:, 0]), found[:, 1]

    def forward(self, x):
        """Towards the Gaussian; with the logarithm of the jacobian's determinant."""
        scale, shift = self.scale_and_shift(x[:, self.keeps])
        y = np.empty_like(x)
        y[:, self.keeps] = x[:, self.keeps]
        y[:, 1 - self.keeps] = x[:, 1 - self.keeps] * np.exp(scale) + shift
        return y, scale

    def inverse(self, y):
        scale, shift = self.scale_and_shift(y[:, self.keeps])
        x = np.empty_like(y)
        x[:, self.keeps] = y[:, self.keeps]
        x[:, 1 - self.keeps] = (y[:, 1 - self.keeps] - shift) * np.exp(-scale)
        return x


def log_density(flow, x):
    """Of each point, in nats."""
    total = np.zeros(len(x))
    for layer in flow:
        x, logdet = layer.forward(x)
        total += logdet
    return total - 0.5 * np.sum(x**2, axis=1) - np.log(2.0 * np.pi)


def sample(flow, n, rng):
    x = rng.normal(size=(n, 2))
    for layer in reversed(flow):
        x = layer.inverse(x)
    return x


INIT, UPDATE = tracker.optim.adam(4e-3)


@tracker.jit
def step(flow, state, x):
    """The flow and the optimiser's state after one step, and the loss (nats a point)."""
    loss, slope = tracker.value_and_grad(lambda flow: -np.mean(log_density(flow, x)))(flow)
    return *UPDATE(flow, slope, state), loss


def train(steps=3000, seed=0):
    rng = np.random.default_rng(seed)
    flow = [Coupling.new(i % 2, rng) for i in range(LAYERS)]
    state, losses = INIT(flow), []
    for _ in track(range(steps), "training", console=Console(stderr=True)):
        x, _ = make_moons(BATCH, noise=0.08, random_state=rng.integers(2**31))
        flow, state, loss = step(flow, state, x)
        losses.append(loss)
    return flow, losses


def draw(flow, losses):
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    left.plot(losses, lw=0.5)
    left.set(xlabel="step", ylabel="loss (nats a point)", title="training")
    x, y = np.meshgrid(np.linspace(-1.8, 2.8, 200), np.linspace(-1.2, 1.7, 150))
    density = np.exp(log_density(flow, np.stack([x.ravel(), y.ravel()], axis=1))).reshape(x.shape)
    image = middle.pcolormesh(x, y, density, cmap="magma")
    figure.colorbar(image, ax=middle, label="density")
    middle.set(xlabel="x", ylabel="y", title="density of the flow")
    right.plot(*sample(flow, 1500, np.random.default_rng(1)).T, ".", ms=2)
    right.set(xlabel="x", ylabel="y", xlim=(-1.8, 2.8), title="1,500 points drawn from it")
    return figure


def main():
    flow, losses = train()
    test, _ = make_moons(5000, noise=0.08, random_state=12345)
    print(f"loss: {losses[0]:.3f} at first, {-np.mean(log_density(flow, test)):.3f} on new points")
    draw(flow, losses).savefig("flow.png", dpi=110)
    print("saved flow.png")


if __name__ == "__main__":
    main()
