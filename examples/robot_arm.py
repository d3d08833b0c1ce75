"""
A robot's arm in C: a gradient that leaves Python
=================================================

Teaches ``tracker.export``: a loss over the joints of an arm is written in NumPy, and exported with
its gradient as an object file and a header. A control loop in C links them, and runs without
Python. Here ``ctypes`` calls it, beside the same loop in Python: the arm draws a curve.
"""

import ctypes
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import tracker

JOINTS, STEPS, RATE = 7, 40, 0.06
LENGTHS, START = np.full(JOINTS, 2.4 / JOINTS), np.linspace(1.2, -0.4, JOINTS)

CONTROL = """
#include <string.h>
#include "arm.h"
/* Angles, (count, JOINTS), that follow the goals, (count, 2), from those of the first row. */
int follow(long count, const double *goals, double *angles) {
    double value, slope[JOINTS], d_goal[2];
    for (long i = 0; i < count; i++, goals += 2, angles += JOINTS) {
        if (i > 0) memcpy(angles, angles - JOINTS, sizeof slope);
        for (int step = 0; step < STEPS; step++) {
            if (arm_gradient(angles, goals, &value, slope, d_goal)) return 1;
            for (int k = 0; k < JOINTS; k++) angles[k] -= RATE * slope[k];
        }
    }
    return 0;
}
"""


def places(angles):
    """Of the joints and the hand, (JOINTS + 1, 2)."""
    along = np.cumsum(angles)
    ends = np.cumsum(LENGTHS * np.array([np.cos(along), np.sin(along)]), axis=1)
    return np.concatenate([np.zeros((1, 2)), ends.T])


def arm(angles, goal):
    """The loss: the hand is at the goal, and the joints bend little."""
    return np.sum((places(angles)[-1] - goal) ** 2) + 2e-4 * np.sum(angles[1:] ** 2)


def curve(count):
    """A rose with five leaves, (count, 2)."""
    t = np.linspace(0.0, np.pi, count)
    return np.stack([np.cos(t), np.sin(t)], axis=1) * 0.6 * np.cos(5 * t[:, None]) + [1.1, 0.8]


def in_python(loss, goals):
    """The loop of `CONTROL`."""
    slope, found = tracker.value_and_grad(loss), np.tile(START, (len(goals), 1))
    for i, goal in enumerate(goals):
        found[i] = found[max(i - 1, 0)]
        for _ in range(STEPS):
            found[i] -= RATE * slope(found[i], goal)[1]
    return found


def build(folder):
    """The library of the exported gradient and `CONTROL`; in a folder."""
    tracker.export(arm, np.zeros(JOINTS), np.zeros(2), path=folder / "arm", native=True)
    (folder / "control.c").write_text(CONTROL)
    sizes = f"-DJOINTS={JOINTS} -DSTEPS={STEPS} -DRATE={RATE}"
    command = f"cc -O2 -shared -fPIC {sizes} control.c arm.o -lm -o arm.so"
    subprocess.run(command.split(), cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "arm.so"))


def in_c(library, goals):
    found = np.tile(START, (len(goals), 1))
    pointers = (x.ctypes.data_as(ctypes.c_void_p) for x in (goals, found))
    if library.follow(ctypes.c_long(len(goals)), *pointers) != 0:
        raise ValueError("the exported code takes another branch")
    return found


def draw(found, times):
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
    colours = plt.get_cmap("viridis")(np.linspace(0.0, 1.0, len(found)))
    for at in range(0, len(found), max(1, len(found) // 40)):
        left.plot(*places(found[at]).T, "o-", color=colours[at], lw=1, ms=2.5, alpha=0.5)
    left.plot(*np.array([places(angles)[-1] for angles in found]).T, color="crimson", lw=2)
    left.set(title="what the hand draws, and where the arm is", aspect="equal")
    right.bar_label(right.barh(list(times), list(times.values())), fmt="%.3g", padding=3)
    right.margins(x=0.3)
    right.set(title="one gradient and step", xlabel="microseconds", xscale="log")
    return figure


def main():
    goals, times = curve(400), {}
    loops = {"Python": (in_python, arm), "Python, compiled": (in_python, tracker.jit(arm))}
    if shutil.which("cc"):
        with tempfile.TemporaryDirectory() as folder:
            loops["C"] = in_c, build(Path(folder))
    for name, (follow, loss) in loops.items():
        follow(loss, goals[:2])  # compiles
        some = goals[:20] if name == "Python" else goals
        before = time.perf_counter()
        found = follow(loss, some)
        times[name] = 1e6 * (time.perf_counter() - before) / (STEPS * len(some))
        print(f"{name:17} {times[name]:8.2f} microseconds for a gradient and a step")
    draw(found, times).savefig("robot_arm.png", dpi=110)
    print("saved robot_arm.png")


if __name__ == "__main__":
    main()
