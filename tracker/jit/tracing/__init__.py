"""Running a function once on placeholders, recording an `ir.Function` and its side effects.

Knows the tape, guards and discovery; never schedules or generates code. Start at `trace.py`.
Control flow, `vmap` and host callbacks trace functions of their own; they import from here.
"""

from tracker.jit.discovery.discovery import find_captured_state as find_captured_state
from tracker.jit.discovery.discovery import find_sources as find_sources
from tracker.jit.discovery.opaque_objects import is_opaque as is_opaque
from tracker.jit.llvm.signals import enter_all as enter_all
from tracker.jit.tracing.ir_builder import IRBuilder as IRBuilder
from tracker.jit.tracing.placeholder_swap import contains_handle as contains_handle
from tracker.jit.tracing.side_effects import StateRollbackLog as StateRollbackLog
from tracker.jit.tracing.side_effects import StateSnapshot as StateSnapshot
