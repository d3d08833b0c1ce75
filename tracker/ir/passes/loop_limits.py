"""Where a body repeats itself: runs of steps that are alike from one period to the next.

Owns: `find_runs` and its result `Run`. Two steps are alike when they have the same op, params and
types, and literals in the same places; which values they read, and the integers of a basic index,
may differ (`windows.py` asks how). Runs do not overlap, and inner loops are found before the loops
around them.

Invariant: linear in the steps. A run is found where a few steps in a row stand as they stood
before; comparing on from there is paid for by what it finds, or out of an allowance.
"""

from __future__ import annotations

MIN_BODY = 400  # steps of a body; shorter ones stay as they are


MIN_REPETITIONS = 8  # repetitions; fewer are no run


MAX_REGISTER_ELEMENTS = 12_000  # elements of all small values together that a body has in registers
