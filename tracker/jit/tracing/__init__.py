"""Running a function once on placeholders, recording an `ir.Function` and its side effects.

Knows the tape, guards and discovery; never schedules or generates code. Start at `trace.py`.
"""

from tracker.jit.discovery.discovery import find_sources as find_sources
from tracker.jit.tracing.placeholder_swap import contains_handle as contains_handle
from tracker.jit.tracing.side_effects import StateSnapshot as StateSnapshot
