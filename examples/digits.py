"""
A network is your own dataclass
===============================

Teaches that a gradient has the structure of its argument: the model is a dataclass, its loss plain
NumPy, its gradient another object of the same class, and Adam ten lines over all three. The first
epochs run on the eager tape; then the *same* function runs compiled, by ``tracker.jit``. The data
are 1,797 scans of handwritten digits, 8x8 pixels, which come with scikit-learn.
"""

from dataclasses import dataclass
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.progress import track
from scipy.special import log_softmax
from sklearn.datasets import load_digits

import tracker
from tracker.tree import map as each

EAGER_EPOCHS, EPOCHS, BATCH, RATE, DECAY = 3, 60, 50, 3e-3, 1e-4


@dataclass
class MLP:
    """64 pixels - 128 - 10 classes."""

    hidden: np.ndarray
    hidden_bias: np.ndarray
    output: np.ndarray
    output_bias: np.ndarray

    def __call__(self, x):
        return np.tanh(x @ self.hidden + self.hidden_bias) @ self.output + self.output_bias


def loss(model, images, labels):
    """Mean cross-entropy, in nats, and weight decay."""
    log_p = log_softmax(model(images), axis=1)
    decay = np.sum(model.hidden**2) + np.sum(model.output**2)
    return -np.mean(log_p[np.arange(len(labels)), labels]) + DECAY * decay


class Adam:
    """Kingma and Ba (2015): running means of the gradient and of its square."""

    def __init__(self, model):
        self.step = 0
        self.mean = self.square = each(np.zeros_like, model)

    def update(self, model, gradient):
        self.step += 1
        up, down = 1 - 0.9**self.step, 1 - 0.999**self.step
        self.mean = each(lambda m, g: 0.9 * m + 0.1 * g, self.mean, gradient)
        self.square = each(lambda s, g: 0.999 * s + 0.001 * g * g, self.square, gradient)
        step = each(lambda m, s: m / up / (np.sqrt(s / down) + 1e-8), self.mean, self.square)
        return each(lambda p, s: p - RATE * s, model, step)


def load():
    """Images (n, 64) and labels (n,): 1,400 to train, the rest to test."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images, labels = digits.data[order] / 16.0, digits.target[order]
    return (images[:1400], labels[:1400]), (images[1400:], labels[1400:])


def train(epochs=EPOCHS, eager_epochs=EAGER_EPOCHS):
    """Returns model, mean loss by epoch, seconds of each value and gradient by mode."""
    images, labels = load()[0]
    rng = np.random.default_rng(0)
    hidden, output = rng.normal(0.0, 0.12, (64, 128)), rng.normal(0.0, 0.09, (128, 10))
    model = MLP(hidden, np.zeros(128), output, np.zeros(10))
    adam, losses, seconds = Adam(model), [], {"eager": [], "compiled": []}
    modes = {"eager": tracker.value_and_grad(loss)}
    modes["compiled"] = tracker.value_and_grad(tracker.jit(loss))
    for epoch in track(range(epochs), "training", console=Console(stderr=True)):
        mode, total = "eager" if epoch < eager_epochs else "compiled", 0.0
        for rows in np.split(rng.permutation(1400), 1400 // BATCH):
            start = perf_counter()
            value, gradient = modes[mode](model, images[rows], labels[rows])
            seconds[mode].append(perf_counter() - start)
            model = adam.update(model, gradient)
            total += value * BATCH
        losses.append(total / 1400)
    return model, losses, seconds


def draw(losses, images, labels, guesses):
    figure = plt.figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subfigures(1, 2)
    axis = left.subplots()
    axis.semilogy(np.arange(1, len(losses) + 1), losses)
    axis.axvspan(0, EAGER_EPOCHS + 0.5, color="tab:orange", alpha=0.2)
    axis.set(xlabel="epoch", ylabel="loss (nats)", title="training (orange: eager)")
    wrong_first = np.argsort(guesses == labels, kind="stable")
    for cell, i in zip(right.subplots(3, 5).flat, wrong_first[:15], strict=True):
        cell.imshow(images[i].reshape(8, 8), cmap="gray_r")
        cell.set_title(guesses[i], color="black" if guesses[i] == labels[i] else "red")
        cell.axis("off")
    return figure


def main():
    model, losses, seconds = train()
    images, labels = load()[1]
    print(f"The loss, as it was recorded:\n\n{tracker.trace(loss, model, images, labels)}\n")
    for mode, times in seconds.items():
        print(f"value and gradient of {BATCH} digits, {mode}: {1e6 * np.median(times):.0f} us")
    guesses = np.argmax(model(images), axis=1)
    print(f"test accuracy: {100 * np.mean(guesses == labels):.1f} % of {len(labels)} digits")
    draw(losses, images, labels, guesses).savefig("digits.png", dpi=110)
    print("saved digits.png")


if __name__ == "__main__":
    main()
