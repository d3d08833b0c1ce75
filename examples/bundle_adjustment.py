"""
Bundle adjustment
=================

Teaches sparse Jacobians: ``vmap`` of the jacobian of *one* observation gives all blocks at once,
``scipy.sparse`` puts them in their places, and ``scipy.optimize.least_squares`` finds six numbers of
each camera and three of each point from where the points are seen in pictures. Cameras turn by
rotation vectors, ``scipy.spatial.transform.Rotation``. Scene and pictures are computed.
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


all_projections = tracker.vmap(project)
