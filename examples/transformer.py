"""
A transformer that reads Python's manual
========================================

Teaches that a network may be a function of nested dicts: attention, normalisation and layers are
twenty lines of NumPy, and a step of training is one jitted function. It learns, character by
character, the language reference that ``help()`` shows, which comes with Python.
"""

from pydoc_data.topics import topics
from textwrap import fill

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.progress import track

import tracker
from tracker import nn

CONTEXT, WIDTH, HEADS, BLOCKS, BATCH = 48, 48, 4, 2, 24  # characters, features, ..., texts


def load():
    """The text as numbers of characters, and the characters."""
    text = "\n".join(topics[name] for name in sorted(topics))
    alphabet, numbers = np.unique(list(text), return_inverse=True)
    return numbers, alphabet.tolist()


def initial(n, rng):
    """Weights for n different characters, in nested dicts."""

    def matrix(n, m):
        return rng.normal(0.0, n**-0.5, (n, m)).astype(np.float32)

    shapes = {"qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH)}
    shapes |= {"up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
    blocks = [{name: matrix(*s) for name, s in shapes.items()} for _ in range(BLOCKS)]
    return {"read": matrix(WIDTH, n).T, "place": matrix(WIDTH, CONTEXT).T, "blocks": blocks}


def normalise(x):
    """Mean 0 and variance 1 over the features."""
    x = x - np.mean(x, axis=-1, keepdims=True)
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + np.float32(1e-5))


def attend(w, x):
    """Every place asks all places before it, in HEADS ways at once."""
    batch, n, _ = x.shape
    query, key, value = (x @ w["qkv"]).reshape(batch, n, 3, HEADS, -1).transpose(2, 0, 3, 1, 4)
    scores = query @ key.swapaxes(-1, -2) / np.float32(np.sqrt(key.shape[-1]))
    share = nn.softmax(scores + np.triu(np.full((n, n), -np.inf, np.float32), k=1))
    return (share @ value).swapaxes(1, 2).reshape(batch, n, -1) @ w["out"]


def scores(weights, text):
    """Of each character as the next one, after each place of texts (batch, n)."""
    x = weights["read"][text] + weights["place"][: text.shape[1]]
    for w in weights["blocks"]:
        x = x + attend(w, normalise(x))
        x = x + nn.gelu(normalise(x) @ w["up"]) @ w["down"]
    return normalise(x) @ weights["read"].T


def loss(weights, text):
    """Mean cross-entropy of the next character (nats)."""
    return nn.crossentropy(scores(weights, text[:, :-1]), text[:, 1:])


INIT, UPDATE = tracker.optim.adam(3e-3)


@tracker.jit
def step(weights, state, text):
    value, slope = tracker.value_and_grad(loss)(weights, text)
    return *UPDATE(weights, slope, state), value


def train(steps=1000, seed=0):
    text, alphabet = load()
    rng = np.random.default_rng(seed)
    weights = initial(len(alphabet), rng)
    state, losses = INIT(weights), []
    for _ in track(range(steps), "training", console=Console(stderr=True)):
        starts = rng.integers(len(text) - CONTEXT, size=(BATCH, 1))
        weights, state, value = step(weights, state, text[starts + np.arange(CONTEXT + 1)])
        losses.append(float(value))
    return weights, alphabet, losses


def write(weights, alphabet, start, n=900, seed=0):
    """Continues a text, a character at a time."""
    rng = np.random.default_rng(seed)
    text = [alphabet.index(character) for character in start]
    for _ in range(n):
        p = nn.softmax(scores(weights, np.array([text[-CONTEXT:]]))[0, -1].astype(float) / 0.7)
        text.append(rng.choice(len(alphabet), p=p))
    return "".join(alphabet[i] for i in text)


def draw(losses, text):
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    left.plot(losses, lw=0.6)
    left.set(xlabel="step", ylabel="loss (nats a character)", title="training")
    right.text(0.0, 0.95, fill(text, 60), family="monospace", va="top", parse_math=False)
    right.set(title="what it writes", xticks=[], yticks=[], frame_on=False)
    return figure


def main():
    weights, alphabet, losses = train()
    print(f"loss: {losses[0]:.2f} at first, {np.mean(losses[-50:]):.2f} nats a character at last")
    draw(losses, write(weights, alphabet, "The ")).savefig("transformer.png", dpi=110)
    print("saved transformer.png")


if __name__ == "__main__":
    main()
