"""Tracing: runs a function once on real values, and records what it computes and writes.

`trace.py` runs the function; `inputs.py` has the tracked values that stand for its arguments and
captured arrays, and `placeholder_swap.py` puts these where the code finds them. `side_effects.py`
compares the captured state before and after the run, and says whether the trace can serve another
call; `ir_builder.py` turns the recorded equations into an `ir.Function`.

After a run, aborted or not, no tracked value stays in the user's objects. Knows `jit/guards`,
`jit/discovery`, the tape and the IR; nothing is compiled here. Start at `trace_call` in `trace.py`.
"""

from tracker.jit.discovery.builtin_shims import BUILTIN_SHIMS as BUILTIN_SHIMS
from tracker.jit.discovery.builtin_shims import CountingEnumerate as CountingEnumerate
from tracker.jit.discovery.builtin_shims import CountingZip as CountingZip
from tracker.jit.discovery.builtin_shims import elements_of as elements_of
from tracker.jit.discovery.captured_state import CapturedState as CapturedState
from tracker.jit.discovery.captured_state import find_captured_state as find_captured_state
from tracker.jit.discovery.impure_calls import calls_unmonitored as calls_unmonitored
from tracker.jit.discovery.stdlib_objects import is_opaque as is_opaque
from tracker.jit.tracing.ir_builder import IRBuilder as IRBuilder
from tracker.jit.tracing.placeholder_swap import contains_handle as contains_handle
from tracker.jit.tracing.placeholder_swap import handles_within as handles_within
from tracker.jit.tracing.side_effects import StateRollbackLog as StateRollbackLog
from tracker.jit.tracing.side_effects import StateSnapshot as StateSnapshot
