"""The ufuncs of `scipy.special`, one file per family. Importing this package declares them all.

Nothing imports it before SciPy is there: `ops/ufunc_protocol.py` does when the first ufunc that is
not NumPy's meets a tracked value. Start at `table.py` (how an entry is written), then any family.

Invariant: every ufunc of `scipy.special` has an entry; an argument without a derivative is named
there, and refuses by that name.
"""

from tracker.ops.special import (
    airy,
    bessel,
    distributions,
    elementary,
    elliptic,
    error,
    gamma,
    incomplete,
    integrals,
    waves,
)

__all__ = [
    "airy",
    "bessel",
    "distributions",
    "elementary",
    "elliptic",
    "error",
    "gamma",
    "incomplete",
    "integrals",
    "waves",
]
