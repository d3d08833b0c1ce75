"""When repetition becomes a loop; also what steps of a loop should carry depends on this."""

from __future__ import annotations

from tracker.ir.passes.manager import Property

ROLLED = Property("repetition in long bodies is written as loops")

MIN_BODY = 400  # steps of a body; shorter ones stay as they are
MIN_REPETITIONS = 8  # fewer are no run
MAX_REGISTER_ELEMENTS = 12_000  # of all small values together that a body has in registers
