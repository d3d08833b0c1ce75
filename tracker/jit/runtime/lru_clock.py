"""When code was used last, so that what was not used for longest can go.

Owns: `CLOCK`, the number of calls so far that no machine code took. It lies where machine code can
read it, which notes the time when it takes a call.
"""

from __future__ import annotations

import numpy as np


class _Clock:
    def __init__(self) -> None:
        self._cell = np.zeros(1, np.int64)
        self.address = int(self._cell.__array_interface__["data"][0])

    def tick(self) -> int:
        """The next time."""
        self._cell[0] += 1
        return int(self._cell[0])


CLOCK = _Clock()
