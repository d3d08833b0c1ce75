"""When repetition is rolled into a loop. Other passes follow these limits, too."""

from __future__ import annotations

from tracker.ir.passes.manager import Property

ROLLED = Property("repetition in long bodies is written as loops")

MIN_BODY = 400  # steps of a body; shorter ones stay as they are
MIN_REPETITIONS = 8  # fewer are no run
MAX_REGISTER_ELEMENTS = 12_000  # of all small values together that a body has in registers
