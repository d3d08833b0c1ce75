"""
Bundle adjustment
=================

Teaches sparse Jacobians: ``vmap`` of the jacobian of *one* observation gives all blocks at once,
``scipy.sparse`` puts them in their places, and ``scipy.optimize.least_squares`` finds six numbers
of each camera and three of each point from pictures that show them. Cameras turn by rotation
vectors, with ``scipy.spatial.transform.Rotation``. Scene and pictures are computed.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import least_squares
from scipy.sparse import coo_matrix
from scipy.spatial.transform import Rotation

import tracker

CAMERAS, POINTS, FOCAL, NOISE = 12, 150, 800.0, 0.5  # focal length and noise in pixels


def project(camera, point):
    """The pixel where a camera (rotation vector, translation) sees a point (m)."""
    place = Rotation.from_rotvec(camera[:3]).apply(point) + camera[3:]
    return FOCAL * place[:2] / place[2]


projections = tracker.jit(tracker.vmap(project))
blocks = tracker.jit(tracker.vmap(lambda c, p: tracker.jacobian(project, c, p)))  # (k, 2, 6 and 3)


def scene(cameras=CAMERAS, points=POINTS, seed=0):
    """Cameras (n, 6) on an arc around points (m, 3) on a sphere and the floor below it."""
    rng = np.random.default_rng(seed)
    ball = rng.normal(size=(points, 3))
    ball /= np.linalg.norm(ball, axis=1, keepdims=True)
    floor = np.stack([*rng.uniform(-3, 3, (2, points)), np.full(points, -1.0)], axis=1)
    world = np.where(rng.random((points, 1)) < 0.5, ball, floor)
    found = []
    for angle in np.linspace(-1.0, 1.0, cameras):
        at = np.array([8.0 * np.sin(angle), -8.0 * np.cos(angle), 3.0 + 0.3 * rng.normal()])
        ahead = -at / np.linalg.norm(at)
        right = np.cross(ahead, [0.0, 0.0, 1.0])
        right /= np.linalg.norm(right)
        turn = np.array([right, np.cross(ahead, right), ahead])
        found.append(np.concatenate([Rotation.from_matrix(turn).as_rotvec(), -turn @ at]))
    return np.array(found), world


def photograph(cameras, points, seed=0):
    """Numbers of camera and point of each observation (k,), and its pixel (k, 2)."""
    rng = np.random.default_rng(seed)
    camera, point = np.nonzero(rng.random((len(cameras), len(points))) < 0.5)  # half is hidden
    seen = projections(cameras[camera], points[point])
    return camera, point, seen + NOISE * rng.normal(size=seen.shape)


def adjust(cameras, points, camera, point, pixels):
    """Cameras and points of least squares from a first guess, and SciPy's result."""
    n = cameras.size

    def unpack(x):
        return x[:n].reshape(-1, 6)[camera], x[n:].reshape(-1, 3)[point]

    def residuals(x):
        return np.ravel(projections(*unpack(x)) - pixels)

    def jacobian(x):
        values = np.concatenate(blocks(*unpack(x)), axis=2)
        places = [6 * camera[:, None] + np.arange(6), n + 3 * point[:, None] + np.arange(3)]
        columns = np.repeat(np.concatenate(places, axis=1)[:, None], 2, axis=1)
        rows = np.broadcast_to(np.arange(pixels.size).reshape(-1, 2, 1), columns.shape)
        shape = pixels.size, len(x)
        return coo_matrix((values.ravel(), (rows.ravel(), columns.ravel())), shape).tocsr()

    start = np.concatenate([cameras.ravel(), points.ravel()])
    found = least_squares(residuals, start, jacobian, x_scale="jac")
    return found.x[:n].reshape(-1, 6), found.x[n:].reshape(-1, 3), found


def align(points, truth):
    """Points, moved, turned and scaled onto the truth: pictures do not tell where the world is."""
    a, b = points - points.mean(axis=0), truth - truth.mean(axis=0)
    turn, _ = Rotation.align_vectors(b, a)
    return turn.apply(a) * np.linalg.norm(b) / np.linalg.norm(a) + truth.mean(axis=0)


def draw(truth, guess, found, jac, residuals):
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.3), layout="constrained")
    styles = {"first guess": (guess, "."), "found": (found, "x"), "true": (truth, "+")}
    for label, (points, style) in styles.items():
        axes[0].plot(points[:, 0], points[:, 2], style, ms=5, label=label)
    axes[0].set(xlabel="x (m)", ylabel="z (m)", title="points, from the side", ylim=(-1.6, 2.4))
    axes[0].legend()
    axes[1].spy(jac, markersize=0.4, aspect="auto")
    axes[1].set(xlabel="parameters", ylabel="residuals", title="nonzeros of the Jacobian")
    axes[2].hist(residuals, 60)
    axes[2].set(xlabel="residual (pixels)", ylabel="number", title="what is left")
    return figure


def main():
    cameras, points = scene()
    camera, point, pixels = photograph(cameras, points)
    rng = np.random.default_rng(1)
    guess = points + 0.2 * rng.normal(size=points.shape)
    start = cameras + np.repeat([0.02, 0.2], 3) * rng.normal(size=cameras.shape)
    _, adjusted, result = adjust(start, guess, camera, point, pixels)
    moved = align(adjusted, points)
    print(f"{len(pixels)} observations, {len(result.x)} parameters, {result.nfev} iterations")
    print(f"residuals: {np.std(result.fun):.3f} pixels (the noise is {NOISE})")
    for name, x in {"guessed": guess, "adjusted": moved}.items():
        off = 1e3 * np.sqrt(np.mean(np.sum((x - points) ** 2, axis=1)))
        print(f"points as {name}: off by {off:.1f} mm")
    draw(points, guess, moved, result.jac, result.fun).savefig("bundle_adjustment.png", dpi=110)
    print("saved bundle_adjustment.png")


if __name__ == "__main__":
    main()
