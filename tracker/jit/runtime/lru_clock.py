"""The time of last use, for evicting the entries that were unused longest.

`CLOCK` counts the calls that no machine code took. Its cell is read by machine code, which stores
the time in an entry when the entry takes a call.
"""

from __future__ import annotations

import numpy as np

from tracker.support.array_copies import data_address


class _Clock:
    def __init__(self) -> None:
        self._cell = np.zeros(1, np.int64)
        self.address = data_address(self._cell)

    def tick(self) -> int:
        """The next time."""
        self._cell[0] += 1
        return int(self._cell[0])


CLOCK = _Clock()
