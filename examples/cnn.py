"""
A training step is one compiled function
========================================

Teaches that a whole training step compiles: dropout, loss, gradient and Adam are one function under
``tracker.jit``. The layers are functions of ``tracker.nn``, the optimiser is a pair of functions of
``tracker.optim``; dropout draws from a NumPy generator, the numbers that plain Python would draw.
The data are 1,797 scans of handwritten digits, 8x8 pixels, which come with scikit-learn.
"""

from dataclasses import dataclass
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import tracker
from tracker import nn, optim

EPOCHS, BATCH, DROPOUT = 20, 50, 0.2
INIT, UPDATE = optim.adam(6e-3)


@dataclass
class Net:
    """3x3 convolutions of 8 and 16 channels, a 2x2 pool after each, and a dense layer."""

    first: np.ndarray
    first_bias: np.ndarray
    second: np.ndarray
    second_bias: np.ndarray
    dense: np.ndarray
    dense_bias: np.ndarray

    @classmethod
    def new(cls, rng):
        shapes = (8, 1, 3, 3), (8, 1, 1), (16, 8, 3, 3), (16, 1, 1), (64, 10), (10,)
        scales = np.sqrt([2 / 9, 0, 2 / 72, 0, 2 / 64, 0])
        return cls(*(rng.normal(0, s, n).astype("f4") for s, n in zip(scales, shapes, strict=True)))

    def __call__(self, x, rng=None):
        """The scores of ten classes; with a generator, as in training, some inputs are dropped."""
        x = nn.relu(nn.conv(x, self.first, padding="same") + self.first_bias)
        x = nn.maxpool(x, 2)
        x = nn.relu(nn.conv(x, self.second, padding="same") + self.second_bias)
        x = np.reshape(nn.maxpool(x, 2), (len(x), -1))
        if rng is not None:
            x = nn.dropout(x, DROPOUT, rng=rng)
        return x @ self.dense + self.dense_bias


def loss(net, x, labels, rng):
    return nn.crossentropy(net(x, rng), labels)


def step(net, state, x, labels, rng):
    """One step of training: new network, new state, loss."""
    value, gradient = tracker.value_and_grad(loss)(net, x, labels, rng)
    net, state = UPDATE(net, gradient, state)
    return net, state, value


def load():
    """Images (n, 1, 8, 8) in float32 and labels: 1,400 to train, the rest to test."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = (digits.images[order, None] / 16.0).astype(np.float32)
    labels = digits.target[order]
    return (images[:1400], labels[:1400]), (images[1400:], labels[1400:])


def train(epochs=EPOCHS, compiled=True):
    """Returns the network, its mean loss by epoch, and the seconds of each step."""
    images, labels = load()[0]
    rng = np.random.default_rng(1)
    net = Net.new(rng)
    state, losses, seconds = INIT(net), [], []
    take = tracker.jit(step) if compiled else step
    for _ in range(epochs):
        total = 0.0
        for rows in np.split(rng.permutation(len(labels)), len(labels) // BATCH):
            before = perf_counter()
            net, state, value = take(net, state, images[rows], labels[rows], rng)
            seconds.append(perf_counter() - before)
            total += value * BATCH
        losses.append(total / len(labels))
    return net, losses, seconds


def draw(net, losses, confusion):
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
    left.semilogy(np.arange(1, len(losses) + 1), losses)
    left.set(xlabel="epoch", ylabel="loss (nats)", title="training")
    kernels = np.pad(net.first[:, 0], ((0, 0), (0, 1), (0, 1)), constant_values=np.nan)
    tiles = kernels.reshape(2, 4, 4, 4).transpose(0, 2, 1, 3).reshape(8, 16)[:-1, :-1]
    middle.imshow(tiles, cmap="RdBu", vmin=-1, vmax=1)
    middle.set(title="eight 3x3 kernels of the first layer", xticks=[], yticks=[])
    right.imshow(confusion, cmap="Blues", norm="symlog")
    right.set(xlabel="network says", ylabel="digit is", xticks=range(10), yticks=range(10))
    for i, j in np.argwhere(confusion):
        right.text(j, i, confusion[i, j], ha="center", va="center", color="w" if i == j else "k")
    return figure


def main():
    net, losses, seconds = train()
    eager = train(epochs=1, compiled=False)[2]
    images, labels = load()[1]
    guesses = np.argmax(net(images), axis=1)
    print(f"a step: eager {1e3 * np.median(eager):.2f} ms, compiled {1e3 * np.median(seconds):.2f}")
    print(f"test accuracy: {100 * np.mean(guesses == labels):.1f} % of {len(labels)} digits")
    confusion = np.histogram2d(labels, guesses, bins=10)[0].astype(int)
    draw(net, losses, confusion).savefig("cnn.png", dpi=110)
    print("saved cnn.png")


if __name__ == "__main__":
    main()
