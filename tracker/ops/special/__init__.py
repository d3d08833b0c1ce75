"""The ufuncs of `scipy.special`, one file per family. Importing this package declares them all.

Nothing imports it before SciPy is loaded: `ops/ufunc_protocol.py` does so when the first ufunc that
is not NumPy's is called on a tracked array. Start at `table.py` (the format of an entry), then read
any family.

Invariant: every ufunc of `scipy.special` has an entry; an argument without a derivative is named in
it, and the error names it.
"""

from tracker.ops.special import (  # noqa: F401
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
