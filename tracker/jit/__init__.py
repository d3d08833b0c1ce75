"""The compiler. `api.py` is where a call comes in; `jit/pipeline/compile.py` shows the way through.

Nothing here imports llvmlite until something is compiled.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracker.jit.api import in_python as in_python
    from tracker.jit.api import newest_trace as newest_trace
    from tracker.jit.api import trace as trace
    from tracker.jit.kernels.python_callbacks import Callback as Callback
    from tracker.jit.pipeline.executor import compile_values as compile_values
    from tracker.jit.pipeline.loop_carried import planned as planned
    from tracker.jit.pipeline.partition import HostCall as HostCall
    from tracker.jit.pipeline.partition import partition as partition
    from tracker.jit.runtime.availability import why_unavailable as why_unavailable
    from tracker.jit.schedule.plan_data import Plan as Plan

_OFFERED = {  # to `control` and `debug`; imported at the first use
    "Callback": "kernels.python_callbacks",
    "HostCall": "pipeline.partition",
    "Plan": "schedule.plan_data",
    "compile_values": "pipeline.executor",
    "in_python": "api",
    "newest_trace": "api",
    "partition": "pipeline.partition",
    "planned": "pipeline.loop_carried",
    "trace": "api",
    "why_unavailable": "runtime.availability",
}


def __getattr__(name: str) -> Any:
    if name not in _OFFERED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_OFFERED[name]}"), name)
