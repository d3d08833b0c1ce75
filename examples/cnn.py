"""Train a small convolutional network on real handwritten digits, one compiled step at a time.

1,797 scans of 8x8 pixels (they come with scikit-learn; nothing is downloaded). The layers are
functions from `tracker.nn`, the optimiser is a pair of functions from `tracker.optim`, and a whole
training step (dropout, loss, gradient, Adam) is one function that `tracker.jit` compiles. Dropout
draws from a NumPy generator, anew in every step: the numbers that plain Python would draw.

Run: python examples/cnn.py
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits

import tracker
from tracker import nn, optim

EPOCHS, BATCH, RATE, DROPOUT = 20, 50, 6e-3, 0.2


@dataclass
class Net:
    """3x3 convolutions of 8 and 16 channels, a 2x2 pool after each, and a dense layer."""

    first: np.ndarray
    first_bias: np.ndarray
    second: np.ndarray
    second_bias: np.ndarray
    dense: np.ndarray
    dense_bias: np.ndarray

    @staticmethod
    def new(rng: np.random.Generator) -> Net:
        def weights(*shape: int, inputs: int) -> np.ndarray:
            return rng.normal(0.0, np.sqrt(2.0 / inputs), shape).astype(np.float32)

        def zeros(n: int) -> np.ndarray:
            return np.zeros(n, np.float32)

        return Net(
            *(weights(8, 1, 3, 3, inputs=9), zeros(8)),
            *(weights(16, 8, 3, 3, inputs=72), zeros(16)),
            *(weights(64, 10, inputs=64), zeros(10)),
        )

    def __call__(self, x, rng=None):
        """The scores of ten classes; with a generator, as in training, some inputs are dropped."""
        x = nn.relu(nn.conv(x, self.first, padding="same") + self.first_bias[:, None, None])
        x = nn.maxpool(x, 2)
        x = nn.relu(nn.conv(x, self.second, padding="same") + self.second_bias[:, None, None])
        x = np.reshape(nn.maxpool(x, 2), (len(x), -1))
        if rng is not None:
            x = nn.dropout(x, DROPOUT, rng=rng)
        return x @ self.dense + self.dense_bias


def loss(net, x, labels, rng):
    return nn.crossentropy(net(x, rng), labels)


INIT, UPDATE = optim.adam(RATE)


def step(net, state, x, labels, rng):
    """One step of training: new network, new state, loss."""
    value, gradient = tracker.value_and_grad(loss)(net, x, labels, rng)
    net, state = UPDATE(net, gradient, state)
    return net, state, value


def load():
    """Images (N, 1, 8, 8) in float32 and labels, for training and for the test."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = (digits.images[order, None] / 16.0).astype(np.float32)
    labels = digits.target[order]
    cut = 1437  # four fifths
    return (images[:cut], labels[:cut]), (images[cut:], labels[cut:])


def train(epochs: int = EPOCHS, compiled: bool = True):
    """Returns (network, accuracy on the test, mean loss by epoch, seconds by step)."""
    (images, labels), (test_images, test_labels) = load()
    rng = np.random.default_rng(1)
    net = Net.new(rng)
    state = INIT(net)
    take = tracker.jit(step) if compiled else step
    losses, seconds = [], []
    for _ in range(epochs):
        order = rng.permutation(len(labels))
        total = []
        for start in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            began = time.perf_counter()
            net, state, value = take(net, state, images[chosen], labels[chosen], rng)
            seconds.append(time.perf_counter() - began)
            total.append(float(value))
        losses.append(float(np.mean(total)))
    score = float(np.mean(np.argmax(net(test_images), axis=1) == test_labels))
    return net, score, losses, seconds


def main() -> None:
    _, score, losses, seconds = train()
    eager = train(epochs=1, compiled=False)[3]
    print("mean loss by epoch:", " ".join(f"{x:.3f}" for x in losses))
    print(f"test accuracy: {100 * score:.1f} %")
    ours, plain = np.median(seconds) * 1e3, np.median(eager) * 1e3
    print(f"a step: eager {plain:.2f} ms, compiled {ours:.2f} ms ({plain / ours:.1f} times faster)")
    print(f"tracing and compiling took {seconds[0]:.2f} s, once")
    assert score >= 0.97, "the network should get 97 % right"


if __name__ == "__main__":
    main()
