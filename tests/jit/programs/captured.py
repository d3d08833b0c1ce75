"""What tests of captures share: an object with arrays."""

import numpy as np

from tracker import jit


class Model:
    shift = 1.0

    def __init__(self, n=3):
        self.w = np.ones(n)
        self.rate = 0.5
        self.layers = [np.ones(n), np.zeros(n)]
        self.named = {"b": np.full(n, 2.0)}
        self.activation = np.tanh

    def plain(self, x):
        y = self.activation(x * self.w) * self.rate + self.shift
        for layer in self.layers:
            y = 2 * layer + y
        return self.last(y)

    def last(self, y):
        return y + self.named["b"] * self.twice

    @property
    def twice(self):
        return 2 * self.rate

    @jit
    def step(self, x):
        return self.plain(x)

    def __call__(self, x):
        return self.plain(x) + 1.0
