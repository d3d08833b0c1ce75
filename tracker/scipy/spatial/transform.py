"""`scipy.spatial.transform` on tracked values: `Rotation` and `Slerp`. Names that are not defined
here are SciPy's own.

A rotation holds unit quaternions (x, y, z, w) along the last axis; everything else is computed from
them in NumPy. Signs, ranges of angles and the order of products are SciPy's. Near the identity,
where the angle has no derivative but the rotation vector has one, series are used.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.spatial.transform

from tracker.autodiff.leaves import plain_data
from tracker.errors import UnsupportedError
from tracker.scipy._bridge.classes import DropIn
from tracker.scipy._bridge.fallback import (
    as_array,
    is_tracked,
    made_by_scipy,
    no_derivative_rule,
    scipy_fallback,
)

if TYPE_CHECKING:
    from scipy.spatial.transform import *  # noqa: F403
else:
    __getattr__, __dir__ = scipy_fallback(scipy.spatial.transform)
_SERIES_LIMIT = 1e-6  # squared angles up to which series are used
_AXES = {"x": 0, "y": 1, "z": 2}


class Rotation(DropIn):
    """As `scipy.spatial.transform.Rotation`, of plain and of tracked numbers."""

    _theirs, _holds_tracked = scipy.spatial.transform.Rotation, False
    __array_ufunc__ = None

    def __init__(
        self, quat: Any, normalize: bool = True, copy: bool = True, scalar_first: bool = False
    ) -> None:
        quat = as_array(quat) * 1.0
        if np.shape(quat)[-1:] != (4,):
            raise ValueError(f"Expected `quat` to have shape (..., 4), got {np.shape(quat)}.")
        if scalar_first:
            quat = np.roll(quat, -1, axis=-1)
        if normalize:
            length = np.linalg.norm(quat, axis=-1, keepdims=True)
            if bool(np.any(length == 0)):
                raise ValueError("Found zero norm quaternions in `quat`.")
            quat = quat / length
        self._quat = quat

    # Constructors ---------------------------------------------------------------------------------

    @classmethod
    def from_quat(cls, quat: Any, *, scalar_first: bool = False) -> Rotation:
        return cls(quat, scalar_first=scalar_first)

    @classmethod
    def from_matrix(cls, matrix: Any, *, assume_valid: bool = False) -> Rotation:
        """The rotation nearest to the matrix."""
        m = as_array(matrix) * 1.0
        if np.shape(m)[-2:] != (3, 3):
            raise ValueError(f"Expected `matrix` to have shape (..., 3, 3), got {np.shape(m)}")
        if not assume_valid:
            if bool(np.any(np.linalg.det(m) <= 0)):
                raise ValueError("Non-positive determinant (left-handed or null coordinate frame)")
            if not bool(np.all(np.abs(m @ np.swapaxes(m, -1, -2) - np.eye(3)) < 1e-12)):
                u, _, vh = np.linalg.svd(m)
                m = u @ vh
        return cls(_quaternion_from_matrix(m))

    @classmethod
    def from_rotvec(cls, rotvec: Any, degrees: bool = False) -> Rotation:
        vector = as_array(rotvec) * (math.pi / 180 if degrees else 1.0)
        if np.shape(vector)[-1:] != (3,):
            raise ValueError(f"Expected `rot_vec` to have shape (..., 3), got {np.shape(vector)}")
        square = np.sum(np.square(vector), axis=-1, keepdims=True)
        is_small = square <= _SERIES_LIMIT
        angle = np.sqrt(np.where(is_small, 1.0, square))
        scale = np.where(is_small, 0.5 - square / 48 + square**2 / 3840, np.sin(angle / 2) / angle)
        real = np.where(is_small, 1 - square / 8 + square**2 / 384, np.cos(angle / 2))
        return cls(np.concatenate([vector * scale, real], axis=-1), normalize=False)

    @classmethod
    def from_euler(cls, seq: str, angles: Any, degrees: bool = False) -> Rotation:
        """Rotations about the fixed axes ("xyz") or the rotating ones ("XYZ")."""
        angles = as_array(angles) * (math.pi / 180 if degrees else 1.0)
        if not seq or len(seq) > 3 or not (set(seq) <= set("xyz") or set(seq) <= set("XYZ")):
            raise ValueError(f"Expected `seq` to be up to 3 of 'xyz' or of 'XYZ', got {seq!r}")
        if len(seq) == 1 and np.shape(angles)[-1:] != (1,):
            angles = np.expand_dims(angles, -1)
        if np.shape(angles)[-1:] != (len(seq),):
            raise ValueError(f"Expected `angles` to have {len(seq)} columns: {np.shape(angles)}")
        product: Any = None
        for i, letter in enumerate(seq):
            half = angles[..., i] / 2
            parts = [np.zeros_like(half)] * 3 + [np.cos(half)]
            parts[_AXES[letter.lower()]] = np.sin(half)
            turn = np.stack(parts, axis=-1)
            if product is None:
                product = turn
            else:
                product = (
                    _quaternion_product(turn, product)
                    if seq.islower()
                    else _quaternion_product(product, turn)
                )
        return cls(product, normalize=False)

    @classmethod
    def from_mrp(cls, mrp: Any) -> Rotation:
        """Modified Rodrigues parameters: the axis times the tangent of a quarter of the angle."""
        mrp = as_array(mrp) * 1.0
        square = np.sum(np.square(mrp), axis=-1, keepdims=True)
        return cls(np.concatenate([2 * mrp, 1 - square], axis=-1) / (1 + square), normalize=False)

    @classmethod
    def identity(cls, num: int | None = None) -> Rotation:
        one = np.array([0.0, 0.0, 0.0, 1.0])
        return cls(one if num is None else np.tile(one, (num, 1)))

    @classmethod
    def random(cls, *args: Any, **kwargs: Any) -> Rotation:
        return cls(scipy.spatial.transform.Rotation.random(*args, **kwargs).as_quat())

    @classmethod
    def concatenate(cls, rotations: Any) -> Rotation:
        return cls(np.concatenate([np.atleast_2d(r._quat) for r in rotations]), normalize=False)

    @classmethod
    def align_vectors(
        cls, a: Any, b: Any, weights: Any = None, return_sensitivity: bool = False
    ) -> Any:
        """The rotation that best maps b to a (W. Kabsch, 1976), and the root of the remaining
        squared distance."""
        if return_sensitivity:
            raise no_derivative_rule(
                "scipy.spatial.transform.Rotation.align_vectors(return_sensitivity=True)"
            )
        a, b = np.atleast_2d(as_array(a)) * 1.0, np.atleast_2d(as_array(b)) * 1.0
        weights = np.ones(np.shape(b)[0]) if weights is None else as_array(weights)
        if np.shape(a)[0] < 2 or bool(np.any(np.isinf(weights))):
            raise no_derivative_rule(
                "Rotation.align_vectors of one vector, or with an infinite weight,",
                "Give two vectors and finite weights",
            )
        u, s, vh = np.linalg.svd(np.einsum("ji,jk->ik", np.expand_dims(weights, 1) * a, b))
        if bool(np.linalg.det(u @ vh) < 0):
            turn = np.array([1.0, 1.0, -1.0])
            u, s = u * turn, s * turn
        left = np.sum(weights * np.sum(np.square(a) + np.square(b), axis=1)) - 2 * np.sum(s)
        return cls.from_matrix(u @ vh, assume_valid=True), np.sqrt(np.maximum(left, 0.0))

    # Conversions ----------------------------------------------------------------------------------

    def as_quat(self, canonical: bool = False, *, scalar_first: bool = False) -> Any:
        quat = _canonical(self._quat) if canonical else self._quat
        return np.roll(quat, 1, axis=-1) if scalar_first else quat

    def as_matrix(self) -> Any:
        x, y, z, w = (self._quat[..., i] for i in range(4))
        rows = [
            [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w],
        ]
        return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)

    def as_rotvec(self, degrees: bool = False) -> Any:
        quat = self._quat * np.where(self._quat[..., 3:] < 0, -1.0, 1.0)
        vector, real = quat[..., :3], quat[..., 3:]
        square = np.sum(np.square(vector), axis=-1, keepdims=True)
        is_small = square <= _SERIES_LIMIT
        sine = np.sqrt(np.where(is_small, 1.0, square))
        scale = np.where(
            is_small, 2 + square / 3 + 3 * square**2 / 20, 2 * np.arctan2(sine, real) / sine
        )
        return vector * scale * (180 / math.pi if degrees else 1.0)

    def as_mrp(self) -> Any:
        quat = self._quat * np.where(self._quat[..., 3:] < 0, -1.0, 1.0)
        return quat[..., :3] / (1 + quat[..., 3:])

    def as_euler(self, seq: str, degrees: bool = False, **options: Any) -> Any:
        """Angles about three axes (E. Bernardes, S. Viollet, 2022)."""
        if len(seq) != 3 or not (set(seq) <= set("xyz") or set(seq) <= set("XYZ")):
            raise ValueError(f"Expected `seq` to be 3 of 'xyz' or of 'XYZ', got {seq!r}")
        if any(a == b for a, b in itertools.pairwise(seq)):
            raise ValueError(f"Expected consecutive axes to be different, got {seq!r}")
        angles = _euler_angles(self._quat, seq)
        if angles is None:
            if is_tracked(self._quat):
                text = "Rotation.as_euler at a gimbal lock: the angles have no derivative there"
                raise UnsupportedError(text, "Use as_rotvec, as_quat or as_matrix")
            angles = self._as_scipy().as_euler(seq, **options)
        return angles * (180 / math.pi if degrees else 1.0)

    # Operations -----------------------------------------------------------------------------------

    def apply(self, vectors: Any, inverse: bool = False) -> Any:
        """The rotated vectors: each by its own rotation, if there are several."""
        matrix = self.as_matrix()
        matrix = np.swapaxes(matrix, -1, -2) if inverse else matrix
        return np.sum(matrix * np.expand_dims(as_array(vectors) * 1.0, -2), axis=-1)

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, Rotation):
            return NotImplemented
        return Rotation(_quaternion_product(self._quat, other._quat), normalize=False)

    def __pow__(self, n: Any, modulus: None = None) -> Rotation:
        if modulus is not None:
            raise NotImplementedError("modulus not supported")
        return Rotation.from_rotvec(n * self.as_rotvec())

    def inv(self) -> Rotation:
        return Rotation(self._quat * np.array([-1.0, -1.0, -1.0, 1.0]), normalize=False)

    def magnitude(self) -> Any:
        """The rotation angles."""
        length = np.linalg.norm(self._quat[..., :3], axis=-1)
        return 2 * np.arctan2(length, np.abs(self._quat[..., 3]))

    def mean(self, weights: Any = None, **options: Any) -> Rotation:
        """The rotation nearest to all, in the chordal L2 norm."""
        if options:
            raise no_derivative_rule(f"Rotation.mean with {next(iter(options))}=")
        quat = np.reshape(self._quat, (-1, 4))
        weighed = quat if weights is None else quat * np.expand_dims(as_array(weights), 1)
        _, vectors = np.linalg.eigh(np.transpose(weighed) @ quat)
        return Rotation(vectors[:, -1], normalize=False)

    def approx_equal(self, other: Rotation, atol: Any = None, degrees: bool = False) -> Any:
        limit = 1e-8 if atol is None else atol * (math.pi / 180 if degrees else 1.0)
        return (other * self.inv()).magnitude() < limit

    @property
    def single(self) -> bool:
        return np.ndim(self._quat) == 1

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(np.shape(self._quat)[:-1])

    def __len__(self) -> int:
        if self.single:
            raise TypeError("Single rotation has no len().")
        return int(np.shape(self._quat)[0])

    def __getitem__(self, index: Any) -> Rotation:
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return Rotation(self._quat[index], normalize=False)

    def __repr__(self) -> str:
        return f"Rotation.from_quat({plain_data(self._quat)!r})"

    def _as_scipy(self) -> Any:
        return scipy.spatial.transform.Rotation.from_quat(plain_data(self._quat))


def _quaternion_product(p: Any, q: Any) -> Any:
    """The product of quaternions: the rotation q, then p."""
    v, w, a, b = p[..., :3], p[..., 3:], q[..., :3], q[..., 3:]
    vector = w * a + b * v + np.cross(v, a)
    return np.concatenate([vector, w * b - np.sum(v * a, axis=-1, keepdims=True)], axis=-1)


def _canonical(quat: Any) -> Any:
    """With positive w; if w is 0, positive x; if that is 0, y; then z."""
    x, y, z, w = (quat[..., i] for i in range(4))
    last = (w == 0) & ((x < 0) | ((x == 0) & ((y < 0) | ((y == 0) & (z < 0)))))
    return quat * np.expand_dims(np.where((w < 0) | last, -1.0, 1.0), -1)


def _quaternion_from_matrix(m: Any) -> Any:
    """The quaternion, not normalized: of four formulas the one that divides by the largest
    number."""
    d = [m[..., i, i] for i in range(3)]
    trace = d[0] + d[1] + d[2]
    choice = np.argmax(np.stack([*d, trace], axis=-1), axis=-1)
    kinds = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        parts: list[Any] = [None] * 4
        parts[i] = 1 - trace + 2 * d[i]
        parts[j] = m[..., j, i] + m[..., i, j]
        parts[k] = m[..., k, i] + m[..., i, k]
        parts[3] = m[..., k, j] - m[..., j, k]
        kinds.append(np.stack(parts, axis=-1))
    vector = [m[..., (i + 2) % 3, (i + 1) % 3] - m[..., (i + 1) % 3, (i + 2) % 3] for i in range(3)]
    quat = np.stack([*vector, 1 + trace], axis=-1)
    for i in range(3):
        quat = np.where(np.expand_dims(choice == i, -1), kinds[i], quat)
    return quat


def _euler_angles(quat: Any, seq: str) -> Any:
    """Three angles; None at a gimbal lock."""
    outside = seq.islower()
    i, j, k = (_AXES[letter.lower()] for letter in (seq if outside else seq[::-1]))
    proper = i == k
    k = 3 - i - j if proper else k
    sign = (i - j) * (j - k) * (k - i) / 2
    a, b, c, d = quat[..., 3], quat[..., i], quat[..., j], quat[..., k] * sign
    if not proper:
        a, b, c, d = a - c, b + d, c + a, d - b
    middle = 2 * np.arctan2(np.hypot(c, d), np.hypot(a, b))
    if bool(np.any(middle <= 1e-7)) or bool(np.any(middle >= math.pi - 1e-7)):
        return None
    total, difference = np.arctan2(b, a), np.arctan2(d, c)
    first, third = total - difference, total + difference
    if not proper:
        third, middle = third * sign, middle - math.pi / 2
    ends = (first, third) if outside else (third, first)
    angles = np.stack([ends[0], middle, ends[1]], axis=-1)
    turns = np.where(angles < -math.pi, 2 * math.pi, np.where(angles > math.pi, -2 * math.pi, 0.0))
    return angles + turns


class Slerp(DropIn):
    """Interpolation between rotations at given times: about a fixed axis, at constant speed."""

    _theirs, _holds_tracked = scipy.spatial.transform.Slerp, False

    def __init__(self, times: Any, rotations: Rotation) -> None:
        self.times = as_array(times) * 1.0
        if rotations.single or len(rotations) == 1:
            raise ValueError("`rotations` must be a sequence of at least 2 rotations.")
        if np.shape(self.times) != (len(rotations),):
            raise ValueError(
                f"Expected {len(rotations)} times for as many rotations, got {np.shape(self.times)}"
            )
        if bool(np.any(self.times[1:] <= self.times[:-1])):
            raise ValueError("Times must be in strictly increasing order.")
        self.timedelta = np.diff(self.times)
        self.rotations = rotations[:-1]
        self.rotvecs = (self.rotations.inv() * rotations[1:]).as_rotvec()

    def __call__(self, times: Any) -> Rotation:
        at = as_array(times) * 1.0
        times = np.atleast_1d(at)
        if bool(np.any((times < self.times[0]) | (times > self.times[-1]))):
            raise ValueError("Interpolation times must be within the range of the given times.")
        last = np.shape(self.times)[0] - 2
        i = np.clip(np.searchsorted(self.times, times) - 1, 0, last)
        share = (times - self.times[i]) / self.timedelta[i]
        partial = Rotation.from_rotvec(self.rotvecs[i] * np.expand_dims(share, -1))
        found = Rotation(
            _quaternion_product(self.rotations[i]._quat, partial._quat), normalize=False
        )
        return found[0] if np.ndim(at) == 0 else found


@made_by_scipy(scipy.spatial.transform.Rotation, replaces=True)
def _rotation(theirs: Any) -> Rotation:
    return Rotation(theirs.as_quat(), normalize=False)


@made_by_scipy(scipy.spatial.transform.Slerp)
def _slerp(theirs: Any) -> Slerp:
    last = theirs.rotations[-1] * scipy.spatial.transform.Rotation.from_rotvec(theirs.rotvecs[-1])
    turns = np.concatenate([theirs.rotations.as_quat(), last.as_quat()[None]])
    return Slerp(theirs.times, Rotation(turns, normalize=False))
