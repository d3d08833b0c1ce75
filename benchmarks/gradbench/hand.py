"""The eval ht: a hand's pose from points on its surface. Arrays are made and filled, so NumPy is
`tracker.numpy`."""

from __future__ import annotations

from case import Case, floats

import tracker.numpy as np
from tracker import jacobian, jit, jvp


def turned(angles):
    """The rotation by Euler's angles (x, z, y)."""
    x, z, y = angles
    about_x, about_y, about_z = np.eye(3), np.eye(3), np.eye(3)
    about_x[1:, 1:] = [[np.cos(x), -np.sin(x)], [np.sin(x), np.cos(x)]]
    about_y[::2, ::2] = [[np.cos(y), np.sin(y)], [-np.sin(y), np.cos(y)]]
    about_z[:2, :2] = [[np.cos(z), -np.sin(z)], [np.sin(z), np.cos(z)]]
    return about_z @ about_y @ about_x


def turned_about(axis):
    """The rotation about an axis by its length."""
    angle = np.sqrt(np.sum(axis**2))
    if angle < 1e-4:
        return np.eye(3)
    x, y, z = axis / angle
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    outer = np.outer(axis, axis) / angle**2
    return outer + (np.eye(3) - outer) * np.cos(angle) + cross * np.sin(angle)


def pose(theta, bones):
    """Global rotation, scale and translation, then three angles a bone."""
    found = np.zeros((bones + 3, 3))
    found[0], found[1], found[2] = theta[:3], 1.0, theta[3:6]
    for finger in range(5):
        angles, first = theta[6 + 4 * finger :], 5 + 4 * finger
        found[first, :2] = angles[:2]
        found[first + 1, 0] = angles[2]
        found[first + 2, 0] = angles[3]
    return found


def vertices(theta, model):
    parents = model["parents"]
    found = pose(theta, len(parents))
    bones = []
    for parent, base, angles in zip(parents, model["base_relatives"], found[3:], strict=True):
        local = np.eye(4)
        local[:3, :3] = turned(angles)
        bones.append((base if parent == -1 else bones[parent] @ base) @ local)
    moves = np.stack(bones) @ model["inverse_base_absolutes"]
    weighted = model["weights"][:, :, None] * model["base_positions"][:, None, :]
    places = np.einsum("vbj,bij->vi", weighted, moves[:, :3])
    if model["is_mirrored"]:
        places = places * np.array([-1.0, 1.0, 1.0])
    return places @ (turned_about(found[0]) * found[1]).T + found[2]


def residuals(us, theta, model, points, correspondences):
    places = vertices(theta, model)
    if us is None:
        return np.ravel(points - places[correspondences])
    corners = model["triangles"][correspondences]
    u, v = us[:, :1], us[:, 1:]
    a, b, c = (places[corners[:, i]] for i in range(3))
    return np.ravel(points - (u * a + v * b + (1 - u - v) * c))


@jit
def hand_jacobian(us, theta, *rest):
    of_theta = jacobian(lambda theta: residuals(us, theta, *rest), theta)[0]
    if us is None:
        return of_theta
    along = np.zeros_like(us)
    columns = []
    for i in range(2):  # each row has its own pair: one direction moves all of them
        direction = along.copy()
        direction[:, i] = 1.0
        columns.append(jvp(lambda us: residuals(us, theta, *rest), (us,), (direction,))[1])
    return np.concatenate([np.stack(columns, axis=1), of_theta], axis=1)


def read_hand(given):
    data, model = given["data"], given["data"]["model"]
    known = {
        "parents": tuple(model["parents"]),
        "is_mirrored": model["is_mirrored"],
        "triangles": np.array(model["triangles"], dtype=int),
    }
    for name in ("base_relatives", "inverse_base_absolutes", "base_positions", "weights"):
        known[name] = floats(model[name])
    us = floats(given["us"]) if len(given["us"]) else None
    correspondences = np.array(data["correspondences"], dtype=int)
    return us, floats(given["theta"]), known, floats(data["points"]), correspondences


EVALS = {
    "ht": {
        "objective": Case(read_hand, jit(residuals)),
        "jacobian": Case(read_hand, hand_jacobian),
    }
}
