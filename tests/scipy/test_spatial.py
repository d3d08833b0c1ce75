"""Distances and rotations of `tracker.scipy.spatial`."""

import numpy as np
import pytest
import scipy.spatial
import scipy.spatial.transform
from scipy_cases import against_scipy
from tables import refused

from tracker import UnsupportedError, data, gradient, jit, param
from tracker.scipy import spatial
from tracker.scipy.spatial import distance, transform

RNG = np.random.default_rng(0)
A, B = RNG.uniform(0.2, 2.0, size=(4, 3)), RNG.uniform(0.2, 2.0, size=(2, 3))
W = np.array([0.5, 1.0, 2.0])
SPREAD = np.diag(W) + 0.1
METRICS = ("euclidean", "cityblock", "sqeuclidean", "cosine", "correlation", "chebyshev")
METRICS = (*METRICS, "braycurtis", "canberra", "jensenshannon", "minkowski")


def each(m, u, v, w):
    own = [m.distance.mahalanobis(u, v, SPREAD), m.distance.seuclidean(u, v, w)]
    own.append(m.distance.jensenshannon(u, v, 2.0))
    return np.stack(
        [getattr(m.distance, name)(u, v, w=w) for name in METRICS if name != "jensenshannon"] + own
    )


CASES = {
    "of vectors": (each, A[0], B[0], W),
    "of vectors, unweighted": lambda m, u=A[0], v=B[0]: np.stack(
        [getattr(m.distance, name)(u, v) for name in METRICS]
        + [m.distance.minkowski(u, v, p) for p in (1, 3, np.inf)]),
    "cdist": lambda m, a=A, b=B: tuple(m.distance.cdist(a, b, name) for name in METRICS),
    "cdist with keywords": lambda m, a=A, b=B, w=W: (
        m.distance.cdist(a, b, "minkowski", p=3, w=w) + m.distance.cdist(a, b, "cb", w=w),
        m.distance.cdist(a, b, "mahalanobis", VI=SPREAD) * m.distance.cdist(a, b, "se", V=w),
        m.distance.cdist(a, b, "seuclidean") + m.distance.cdist(a, b, "mahalanobis"),
        m.distance.cdist(a, b, m.distance.euclidean),
        m.distance.cdist(a, b, lambda u, v: np.sum(np.sin(u) * v))),
    "pdist": lambda m, a=A, w=W: (
        m.distance.pdist(a, "sqeuclidean", w=w) + m.distance.pdist(a, "seuclidean", V=[*w]),
        m.distance.squareform(m.distance.pdist(a)),
        m.distance.squareform(m.distance.cdist(a, a)) * m.distance.pdist(a, "seuclidean"),
        m.distance.pdist(a, lambda u, v: np.sum(np.sin(u) * v))),
    "distance_matrix": lambda m, a=A, b=B: (
        m.distance_matrix(a, b, 3) * m.minkowski_distance_p(a[:1], a[1:2], 3.0)[0]
        + m.minkowski_distance_p(a[0], a[1], np.inf)),
    "procrustes": lambda m, a=A, b=A**2: m.procrustes(a, b @ SPREAD),
}  # fmt: skip


test_case = against_scipy(spatial, scipy.spatial, CASES, slack=1e-6)


def test_points_that_coincide():
    (slope,) = gradient(lambda a: np.sum(distance.cdist(a, a)), A)
    assert np.isfinite(slope).all()
    assert data(distance.cdist(param(A.astype("f")), B)).dtype == float


def test_what_has_no_derivative():
    a = A > 1
    plain = scipy.spatial.distance
    assert distance.hamming(param(A[0]), A[1]) == plain.hamming(A[0], A[1])
    np.testing.assert_array_equal(
        jit(lambda x: distance.cdist(x, a, "jaccard"))(A), plain.cdist(A, a, "jaccard")
    )
    np.testing.assert_array_equal(distance.pdist(param(A), "hamming"), plain.pdist(A, "hamming"))


test_refused = refused(
    {
        UnsupportedError: {
            "cdist with out=": lambda: distance.cdist(param(A), B, out=np.zeros((4, 2))),
            "directed_hausdorff has no deri": lambda: distance.directed_hausdorff(param(A), B),
        },
        ValueError: {
            "2-dimensional": lambda: distance.cdist(param(A), A[0]),
            "has 3 columns": lambda: distance.cdist(param(A), A[:, :2]),
            "should be 1-D": lambda: distance.euclidean(param(A), A[0]),
            "p must be greater than 0": lambda: distance.minkowski(param(A[0]), A[1], -1),
            "non-negative": lambda: distance.euclidean(param(A[0]), A[1], -W),
            "Incompatible vector size": lambda: distance.squareform(param(A[0][:2])),
            "must be symmetric": lambda: distance.squareform(param(A[:3])),
            "contains 2-dimensional": lambda: spatial.distance_matrix(param(A), A[:, :2]),
        },
    }
)


# Rotations ----------------------------------------------------------------------------------------

VECTORS, TURN = RNG.normal(size=(4, 3)), np.array([0.3, -0.7, 0.4])
QUATS = RNG.normal(size=(4, 4))
ROTATIONS = {
    "from_rotvec": lambda m, r=TURN: m.Rotation.from_rotvec(r).as_matrix(),
    "rotvec of little": lambda m, r=TURN: m.Rotation.from_rotvec(r * 1e-4).as_rotvec() * 1e4,
    "from_quat": lambda m, q=QUATS: m.Rotation.from_quat(q).as_rotvec(degrees=True),
    "from_matrix": lambda m, q=QUATS: m.Rotation.from_matrix(
        m.Rotation.from_quat(q).as_matrix()
    ).as_quat(canonical=True, scalar_first=True),
    "from_matrix, not orthogonal": (
        lambda m, a: m.Rotation.from_matrix(a).as_quat(), np.eye(3) + 0.1 * VECTORS[:3]),
    "from_euler": lambda m, a=TURN: (
        m.Rotation.from_euler("xyz", a).as_quat() * m.Rotation.from_euler("ZYX", a).as_quat(),
        m.Rotation.from_euler("y", a[0], degrees=True).as_matrix(),
        m.Rotation.from_euler("zx", np.stack([a[:2], a[1:]])).as_mrp()),
    "as_euler": lambda m, q=QUATS: tuple(
        m.Rotation.from_quat(q).as_euler(seq, degrees=seq == "zyx")
        for seq in ("xyz", "zyx", "ZYX", "zxz", "YXY", "yzx")),
    "apply": lambda m, q=QUATS, v=VECTORS: (
        m.Rotation.from_quat(q).apply(v) + m.Rotation.from_quat(q[0]).apply(v, inverse=True),
        m.Rotation.from_quat(q).apply(v[0])),
    "products": lambda m, q=QUATS, r=TURN: (
        (m.Rotation.from_quat(q) * m.Rotation.from_rotvec(r)).as_quat()
        * (m.Rotation.from_rotvec(r).inv() * m.Rotation.from_quat(q[1:2])).magnitude()[0],
        (m.Rotation.from_mrp(r) ** 2.5).as_rotvec()),
    "many": lambda m, q=QUATS: (
        m.Rotation.concatenate([m.Rotation.from_quat(q)[1:], m.Rotation.identity()]).as_matrix()
        + m.Rotation.from_quat(q).mean(np.arange(1.0, 5.0)).as_matrix()),
    "align_vectors": lambda m, a=VECTORS, b=A: (
        m.Rotation.align_vectors(a, b)[0].as_matrix()
        + m.Rotation.align_vectors(b, a, np.arange(1.0, 5.0))[1]),
    "Slerp": (
        lambda m, q, t: m.Slerp([0.0, 1.0, 2.0, 4.0], m.Rotation.from_quat(q))(t).as_matrix(),
        QUATS, np.array([0.2, 1.7, 3.1])),
}  # fmt: skip


test_rotation = against_scipy(transform, scipy.spatial.transform, ROTATIONS, slack=2e-6)


def test_rotations_of_plain_numbers():
    ours, theirs = transform.Rotation, scipy.spatial.transform.Rotation
    np.testing.assert_allclose(
        ours.random(3, 0).as_matrix(), theirs.random(3, 0).as_matrix(), atol=1e-15
    )
    lock = ours.from_euler("xyz", [0.1, np.pi / 2, 0.0])
    with pytest.warns(UserWarning, match="Gimbal lock"):
        assert lock.as_euler("xyz").shape == (3,)
    assert lock.single
    assert len(ours.identity(3)) == 3
    assert ours.identity(3).shape == (3,)
    assert ours.identity().approx_equal(ours.from_rotvec([0, 0, 1e-12]))
    assert "from_quat" in repr(lock)
    np.testing.assert_allclose(ours.identity(3).reduce().as_matrix()[0], np.eye(3))


R = transform.Rotation
p = param(QUATS)
test_rotations_refused = refused(
    {
        ValueError: {
            "shape": lambda: R.from_quat(p[:, :3]),
            "zero norm": lambda: R.from_quat(p * 0),
            "determinant": lambda: R.from_matrix(-np.eye(3) * p[0, 0] ** 2),
            "3, 3": lambda: R.from_matrix(p),
            "3": lambda: R.from_rotvec(p),
            "up to 3": lambda: R.from_euler("xyw", p[0, :3]),
            "2 columns": lambda: R.from_euler("xy", p[0, :3]),
            "consecutive": lambda: R.from_quat(p).as_euler("xxy"),
            "to be 3 of": lambda: R.from_quat(p).as_euler("xy"),
            "4 times": lambda: transform.Slerp([0.0, 1.0], R.from_quat(p)),
            "at least 2": lambda: transform.Slerp([0.0], R.from_quat(p[:1])),
            "increasing": lambda: transform.Slerp([0, 1, 1, 2], R.from_quat(p)),
            "within the range": lambda: transform.Slerp(range(4), R.from_quat(p))(9.0),
        },
        UnsupportedError: {
            "Rotation.reduce": lambda: R.from_quat(p).reduce(),
            "mean with axis=": lambda: R.from_quat(p).mean(axis=0),
            "of one vector": lambda: R.align_vectors(p[:1, :3], VECTORS[:1]),
            "gimbal lock": lambda: R.from_quat(p[:1] * 0 + [0, 0.5**0.5, 0, 0.5**0.5]).as_euler(
                "xyz"
            ),
        },
        TypeError: {"not subscriptable": lambda: R.from_quat(p[0])[0]},
    }
)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int64, bool, np.float32])
@pytest.mark.parametrize("name", ["sqeuclidean", "braycurtis", "canberra"])
def test_vectors_of_integers_do_not_wrap_around(name, dtype):
    u, v = (np.random.default_rng(0).random((2, 5)) * 120).astype(dtype)
    compiled = jit(lambda u, v: getattr(distance, name)(u, v))
    want = getattr(scipy.spatial.distance, name)(u, v)
    for _ in range(2):
        got = compiled(u, v)
        assert type(got) is type(want)
        np.testing.assert_allclose(got, want, rtol=1e-6 if dtype == np.float32 else 1e-14)


@pytest.mark.parametrize("name", ["hamming", "jaccard", "dice", "russellrao", "yule"])
def test_numbers_that_are_called_back_are_numbers(name):
    u, v = np.array([1.0, 0.0, 1.0, 1.0]), np.array([1.0, 1.0, 0.0, 1.0])
    compiled = jit(lambda u, v: getattr(distance, name)(u, v))
    want = getattr(scipy.spatial.distance, name)(u, v)
    for _ in range(2):
        got = compiled(u, v)
        assert type(got) is type(want) and got == want
