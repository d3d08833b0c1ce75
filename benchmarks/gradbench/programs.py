"""The evals made of loops and many small pieces: lstm, det, ba."""

from __future__ import annotations

import numpy as np
from case import Case, floats

from tracker import gradient, jacobian, jit, scan, vmap

# lstm: characters predicted one by one ------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def cell(weight, bias, hidden, state, x):
    w, b = weight.reshape(4, -1), bias.reshape(4, -1)
    forget = sigmoid(x * w[0] + b[0])
    ingate = sigmoid(hidden * w[1] + b[1])
    outgate = sigmoid(x * w[2] + b[2])
    change = np.tanh(hidden * w[3] + b[3])
    state = state * forget + ingate * change
    return outgate * np.tanh(state), state


@jit
def lstm(main, extra, state, sequence):
    def step(states, row):
        x, gold = row
        x = x * extra[0]
        new = []
        for i, (hidden, memory) in enumerate(states):
            hidden, memory = cell(main[2 * i], main[2 * i + 1], hidden, memory, x)
            new.append((hidden, memory))
            x = hidden
        y = x * extra[1] + extra[2]
        return new, np.sum(gold * (y - np.log(np.sum(np.exp(y)) + 2)))

    layers = [(state[i], state[i + 1]) for i in range(0, len(state), 2)]
    _, gains = scan(step, layers, (sequence[:-1], sequence[1:]))
    return -np.sum(gains) / sequence[1:].size


@jit
def lstm_gradient(main, extra, state, sequence):
    slopes = gradient(lambda m, e: lstm(m, e, state, sequence), main, extra)
    return np.concatenate([np.ravel(slope) for slope in slopes])


def read_lstm(given):
    return tuple(
        floats(given[name]) for name in ("main_params", "extra_params", "state", "sequence")
    )


# det: expansion by minors -------------------------------------------------------------------------


def minor(a, row, columns):
    if len(columns) == 1:
        return a[row, columns[0]]
    total = 0.0
    for i, column in enumerate(columns):
        term = a[row, column] * minor(a, row + 1, columns[:i] + columns[i + 1 :])
        total = total - term if i % 2 else total + term
    return total


@jit(static=("n",))
def det(flat, n):
    return minor(flat.reshape(n, n), 0, tuple(range(n)))


@jit(static=("n",))
def det_gradient(flat, n):
    return gradient(lambda flat: det(flat, n), flat)[0]


def read_det(given):
    return floats(given["A"]), given["ell"]


# ba: bundle adjustment ----------------------------------------------------------------------------

CAMERA, POINT = 11, 3


def rotated(axis, x):
    """A point turned around an axis by its length, after Rodrigues."""
    square = np.sum(axis**2)
    if square == 0:
        return x + np.cross(axis, x)
    angle = np.sqrt(square)
    unit = axis / angle
    along = unit * (np.dot(unit, x) * (1 - np.cos(angle)))
    return x * np.cos(angle) + np.cross(unit, x) * np.sin(angle) + along


def reprojection(camera, point, weight, feature):
    x, y, z = rotated(camera[:3], point - camera[3:6])
    seen = np.stack([x, y]) / z
    square = np.sum(seen**2)
    bent = seen * (1 + camera[9] * square + camera[10] * square**2)
    return weight * (bent * camera[6] + camera[7:9] - feature)


@jit
def ba(cameras, points, weights, features, of_camera, of_point):
    errors = vmap(reprojection)(cameras[of_camera], points[of_point], weights, features)
    return errors, 1 - weights**2


@jit
def ba_jacobian(cameras, points, weights, features, of_camera, of_point):
    """The sparse Jacobian: where rows begin, columns, values."""

    def block(camera, point, weight, feature):
        of = jacobian(lambda c, p, w: reprojection(c, p, w, feature), camera, point, weight)
        return np.concatenate([of[0], of[1], of[2][:, None]], axis=1)

    blocks = vmap(block)(cameras[of_camera], points[of_point], weights, features)
    p, width = len(weights), blocks.shape[2]
    after_cameras = CAMERA * len(cameras)
    own = after_cameras + POINT * len(points) + np.arange(p)
    columns = np.concatenate(
        [
            CAMERA * of_camera[:, None] + np.arange(CAMERA),
            after_cameras + POINT * of_point[:, None] + np.arange(POINT),
            own[:, None],
        ],
        axis=1,
    )
    starts = np.arange(0, 2 * width * p + 1, width)
    return (
        np.concatenate([starts, starts[-1] + 1 + np.arange(p)]),
        np.concatenate([np.repeat(columns, 2, axis=0).ravel(), own]),
        np.concatenate([blocks.ravel(), -2 * weights]),
    )


def read_ba(given):
    n, m, p = given["n"], given["m"], given["p"]
    cameras, points, features = (
        np.tile(floats(given[name]), (count, 1))
        for name, count in (("cam", n), ("x", m), ("feat", p))
    )
    at = np.arange(p)
    return cameras, points, np.full(p, float(given["w"])), features, at % n, at % m


def write_errors(result):
    errors, of_weights = result
    return {
        "reproj_error": {"elements": errors[0].tolist(), "repeated": len(errors)},
        "w_err": {"element": of_weights[0].item(), "repeated": len(of_weights)},
    }


def write_sparse(result):
    return {
        name: [*x[:30].tolist(), x[-1].item()]
        for name, x in zip(("rows", "cols", "vals"), result, strict=True)
    }


EVALS = {
    "lstm": {
        "objective": Case(read_lstm, lstm, float),
        "jacobian": Case(read_lstm, lstm_gradient),
    },
    "det": {
        "primal": Case(read_det, det, float),
        "gradient": Case(read_det, det_gradient),
    },
    "ba": {
        "objective": Case(read_ba, ba, write_errors),
        "jacobian": Case(read_ba, ba_jacobian, write_sparse),
    },
}
