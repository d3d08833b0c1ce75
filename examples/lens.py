"""
Designing a lens by tracing rays
================================

Teaches that derivatives nest: rays are refracted at the normal of a surface, which is a
``tracker.gradient`` of its shape, and the design differentiates the whole trace once more, for
``scipy.optimize.least_squares``. Two aspheres of one glass make a lens of 50 mm, f/2, sharp within
4 degrees. Everything is computed.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import least_squares

import tracker

FOCAL, RIM, THICKNESS = 50.0, 12.5, 9.0  # mm: focal length, radius of the pupil, of the glass
FIELDS = np.radians([0.0, 1.0, 2.0])  # from the axis
GLASS = 1.5168  # refractive index of N-BK7 at 587.6 nm
START = {  # curvatures in 1/mm; aspheric terms of r^4 to r^8 in mm at the rim; where the film is
    "front": np.array([1 / 30.0, 0.0, 0.0, 0.0]),
    "back": np.array([-1 / 170.0, 0.0, 0.0, 0.0]),
    "film": np.array(44.0),
}


def sag(surface, r2):
    """Height of a surface above its vertex (mm), at the square of the distance from the axis."""
    curvature, *terms = surface
    sphere = curvature * r2 / (1.0 + np.sqrt(1.0 - curvature**2 * r2))
    return sphere + sum(a * (r2 / RIM**2) ** k for k, a in enumerate(terms, start=2))


def slope(surface, r2):
    """Derivative of the sag in r2."""
    return tracker.gradient(lambda r2: np.sum(sag(surface, r2)), r2)[0]


def refract(surface, place, ray, ratio):
    """Where rays (n, 3) meet a surface, by Newton's method, and their directions behind it."""
    place = place - ray * (place[:, 2:] / ray[:, 2:])
    for _ in range(6):
        r2, across = np.sum(place[:, :2] ** 2, axis=1), np.sum(place[:, :2] * ray[:, :2], axis=1)
        step = (sag(surface, r2) - place[:, 2]) / (ray[:, 2] - 2.0 * slope(surface, r2) * across)
        place = place + step[:, None] * ray
    bend = 2.0 * slope(surface, np.sum(place[:, :2] ** 2, axis=1))[:, None]
    normal = np.hstack([-bend * place[:, :2], np.ones_like(bend)])
    normal = normal / np.linalg.norm(normal, axis=1, keepdims=True)
    cosine = np.sum(normal * ray, axis=1, keepdims=True)
    bent = np.sqrt(1.0 - ratio**2 * (1.0 - cosine**2)) - ratio * cosine  # Snell's law
    return place, ratio * ray + bent * normal


def trace(lens, place, ray):
    """Where rays are at the front, at the back, and on the film."""
    glass = np.array([0.0, 0.0, THICKNESS])
    front, ray = refract(lens["front"], place, ray, 1.0 / GLASS)
    back, ray = refract(lens["back"], front - glass, ray, GLASS)
    film = back + ray * (lens["film"] - back[:, 2:]) / ray[:, 2:]
    return front, back + glass, film + glass


def beams(x, y):
    """Parallel rays through points of the pupil, of all fields: where they start, directions."""
    place = np.tile(np.stack([x, y, np.zeros_like(x)], axis=1), (len(FIELDS), 1))
    angle = np.repeat(FIELDS, len(x))
    return place, np.stack([np.zeros_like(angle), np.sin(angle), np.cos(angle)], axis=1)


def errors(lens, rings=6):
    """By how much rays miss their image, on the film (mm): (fields, rays, 2)."""
    radius = RIM * np.repeat(np.sqrt((np.arange(rings) + 0.5) / rings), 16)
    turn = 2.0 * np.pi * np.arange(16 * rings) / 16 + radius
    film = trace(lens, *beams(radius * np.cos(turn), radius * np.sin(turn)))[2]
    images = FOCAL * np.stack([0.0 * FIELDS, np.tan(FIELDS)], axis=1)
    return film[:, :2].reshape(len(FIELDS), -1, 2) - images[:, None]


def design(start=START):
    """The lens of least squares, in the form of the start."""
    vector, unravel = tracker.tree.ravel(start)

    def residuals(v):
        return np.ravel(errors(unravel(v)))

    jacobian = tracker.jit(lambda v: tracker.jacobian(residuals, v)[0])
    found = least_squares(tracker.jit(residuals), vector, jacobian, x_scale="jac")
    return unravel(found.x)


def draw(lenses):
    figure = plt.figure(figsize=(11, 6), layout="constrained")
    y = np.linspace(-RIM, RIM, 9)
    place, ray = beams(0.0 * y, y)
    for row, (name, lens) in zip(figure.subfigures(2, 1), lenses.items(), strict=True):
        left, *right = row.subplots(1, 4, width_ratios=[2, 1, 1, 1])
        front, back, film = trace(lens, place, ray)
        way = np.stack([front - 8.0 * ray, front, back, film]).reshape(4, len(FIELDS), -1, 3)
        for i, axis in enumerate(right):
            left.plot(way[:, i, :, 2], way[:, i, :, 1], color=f"C{i}", lw=0.7)
            axis.plot(*(1e3 * errors(lens)[i].T), ".", ms=3, color=f"C{i}")
            axis.set(title=f"{np.degrees(FIELDS[i]):.0f} degrees", xlabel="um", aspect="equal")
        for surface, z in (lens["front"], 0.0), (lens["back"], THICKNESS):
            left.plot(z + sag(surface, y**2), y, color="black")
        left.set(title=name, xlabel="along the axis (mm)", ylabel="mm", aspect="equal")
    return figure


def main():
    lenses = {"two spheres": START, "two aspheres": design()}
    for name, lens in lenses.items():
        spots = 1e3 * np.sqrt(np.sum(np.var(errors(lens), axis=1), axis=1))
        print(f"{name}: spots (root of mean square)", np.round(spots, 2), "um")
    draw(lenses).savefig("lens.png", dpi=110)
    print("saved lens.png")


if __name__ == "__main__":
    main()
