"""Train a small network, written in plain NumPy, on real handwritten digits.

1,797 scans of 8x8 pixels (they come with scikit-learn; nothing is downloaded). The model is a
dataclass, the loss is NumPy, the gradient has the model's structure, and Adam is ten lines over it.
The first epochs run on the eager tape; then the *same* functions run compiled, by `tracker.jit`.

Run: make demo        (pictures are saved in examples/out/)
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sklearn.datasets import load_digits

import tracker

EAGER_EPOCHS, EPOCHS, BATCH, RATE, DECAY = 3, 60, 50, 3e-3, 1e-4
OUT = Path(__file__).parent / "out"


@dataclass
class Dense:
    """A layer: weights (inputs, outputs) and bias (outputs,)."""

    weight: np.ndarray
    bias: np.ndarray

    @staticmethod
    def new(inputs: int, outputs: int, rng: np.random.Generator) -> Dense:
        scale = np.sqrt(1.0 / inputs)
        return Dense(rng.normal(0.0, scale, (inputs, outputs)), np.zeros(outputs))

    def __call__(self, x):
        return x @ self.weight + self.bias


@dataclass
class MLP:
    """64 - 128 - 10."""

    hidden: Dense
    output: Dense

    def __call__(self, x):
        return self.output(np.tanh(self.hidden(x)))


def log_softmax(logits):
    shifted = logits - np.max(logits, axis=1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))


def loss(model, images, targets):
    """Mean cross-entropy; `targets` is one-hot, (batch, 10)."""
    fit = -np.mean(np.sum(targets * log_softmax(model(images)), axis=1))
    decay = np.sum(model.hidden.weight**2) + np.sum(model.output.weight**2)
    return fit + DECAY * decay


@dataclass
class Adam:
    """Adam (Kingma and Ba, 2015): means of the gradient and of its square, one per parameter."""

    mean: MLP
    square: MLP
    step: int = 0

    @staticmethod
    def new(model: MLP) -> Adam:
        return Adam(tracker.tree.map(np.zeros_like, model), tracker.tree.map(np.zeros_like, model))

    def update(self, model: MLP, gradient: MLP) -> MLP:
        self.step += 1
        self.mean = tracker.tree.map(lambda m, g: 0.9 * m + 0.1 * g, self.mean, gradient)
        self.square = tracker.tree.map(
            lambda s, g: 0.999 * s + 0.001 * g * g, self.square, gradient
        )
        up, down = 1 - 0.9**self.step, 1 - 0.999**self.step

        def move(p, m, s):
            return p - RATE * (m / up) / (np.sqrt(s / down) + 1e-8)

        return tracker.tree.map(move, model, self.mean, self.square)


def batches(images, targets, rng):
    order = rng.permutation(len(images))
    for start in range(0, len(order) - BATCH + 1, BATCH):
        chosen = order[start : start + BATCH]
        yield images[chosen], targets[chosen]


def accuracy(model: MLP, images, labels) -> float:
    return float(np.mean(np.argmax(model(images), axis=1) == labels))


def train(epochs: int = EPOCHS, eager_epochs: int = EAGER_EPOCHS, quiet: bool = False):
    """Returns (model, test accuracy, losses by epoch, seconds a gradient by mode, test data)."""
    digits = load_digits()
    rng = np.random.default_rng(0)
    order = rng.permutation(len(digits.target))
    images, labels = digits.data[order] / 16.0, digits.target[order]
    targets = np.eye(10)[labels]
    cut = 1437  # four fifths
    model = MLP(Dense.new(64, 128, rng), Dense.new(128, 10, rng))
    adam = Adam.new(model)
    modes = {
        "eager": tracker.value_and_grad(loss),
        "compiled": tracker.value_and_grad(tracker.jit(loss)),
    }
    losses: list[float] = []
    seconds: dict[str, list[float]] = {"eager": [], "compiled": []}
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, disable=quiet) as progress:
        bar = progress.add_task("training", total=epochs)
        for epoch in range(epochs):
            mode = "eager" if epoch < eager_epochs else "compiled"
            total = []
            for x, t in batches(images[:cut], targets[:cut], rng):
                start = time.perf_counter()
                value, gradient = modes[mode](model, x, t)
                seconds[mode].append(time.perf_counter() - start)
                model = adam.update(model, gradient)
                total.append(float(value))
            losses.append(float(np.mean(total)))
            progress.update(bar, advance=1, description=f"{mode:8}  loss {losses[-1]:.4f}")
    test = images[cut:], labels[cut:]
    return model, accuracy(model, *test), losses, seconds, test


def draw(model: MLP, losses, seconds, test, path: Path) -> None:
    """A picture: the loss curve, and a few digits with their predictions."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    images, labels = test
    guesses = np.argmax(model(images), axis=1)
    wrong = np.flatnonzero(guesses != labels)[:4]
    shown = np.concatenate([wrong, np.arange(16 - len(wrong))])
    figure = plt.figure(figsize=(10, 4))
    left, right = figure.subfigures(1, 2)
    axis = left.subplots()
    axis.semilogy(np.arange(1, len(losses) + 1), losses, color="tab:blue")
    axis.axvspan(0, EAGER_EPOCHS + 0.5, color="tab:orange", alpha=0.2, label="eager")
    axis.set(xlabel="epoch", ylabel="loss", title="64-128-10 network on digits")
    axis.legend()
    for cell, i in zip(right.subplots(4, 4).ravel(), shown, strict=True):
        cell.imshow(images[i].reshape(8, 8), cmap="gray_r")
        colour = "black" if guesses[i] == labels[i] else "red"
        cell.set_title(f"{guesses[i]}", color=colour, fontsize=9, pad=2)
        cell.axis("off")
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    model, score, losses, seconds, test = train(quiet=not sys.stdout.isatty())
    images, labels = test
    print("\nThe loss, as it was recorded:\n")
    print(tracker.trace(loss, model, images[:BATCH], np.eye(10)[labels[:BATCH]]))
    eager, compiled = (np.median(seconds[mode]) * 1e6 for mode in ("eager", "compiled"))
    first = seconds["compiled"][0] * 1e3
    print(f"\nvalue and gradient of one batch:  eager {eager:.0f} us,  compiled {compiled:.0f} us")
    print(f"({eager / compiled:.1f} times faster; tracing and compiling took {first:.0f} ms, once)")
    print(f"test accuracy: {100 * score:.1f} % of {len(labels)} digits")
    draw(model, losses, seconds, test, OUT / "digits.png")
    print(f"saved {OUT / 'digits.png'}")
    assert score >= 0.97, "the network should get 97 % right"


if __name__ == "__main__":
    main()
