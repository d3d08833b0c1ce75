"""The compiler behind `tracker.jit`.

A call goes through these rooms, and imports point down this list:

export                 object files with C headers, for programs without Python
api, explain, profile  what users call; `type_protocols.py` has its types, `pickling.py` how a
                       jitted function is made again
dispatch               finds a specialisation for a call, traces on a miss, falls back to Python
pipeline               IR passes, partition into native segments, compilation, linking
kernels, codegen       loops, reductions, products and sorts as LLVM text
lapack                 factorisations and solves
abi                    the native entry: checks arguments, builds results, writes state
schedule, scalar       the plan of kernels and buffers; arithmetic of one element
tracing                runs a function once, and records its equations and side effects
discovery, runtime     what a function can reach; threads, memory, C symbols, BLAS
guards                 signatures, sources, constants: what a specialisation is keyed by
llvm, vmath            llvmlite; math functions as IR text

Start at `api.py`; `pipeline/compile.py` shows the way of a trace to machine code. Nothing here
imports llvmlite until something is compiled.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracker.jit.api import in_python as in_python
    from tracker.jit.api import jit as jit
    from tracker.jit.api import newest_trace as newest_trace
    from tracker.jit.api import trace as trace
    from tracker.jit.api import traced_run as traced_run
    from tracker.jit.api import visible_calls as visible_calls
    from tracker.jit.discovery.inspection import is_jitted as is_jitted
    from tracker.jit.guards.signature import AliasOut as AliasOut
    from tracker.jit.guards.signature import ConstantOut as ConstantOut
    from tracker.jit.guards.signature import InputOut as InputOut
    from tracker.jit.kernels.python_callbacks import Callback as Callback
    from tracker.jit.pipeline.executor import CompiledLoop as CompiledLoop
    from tracker.jit.pipeline.loop_carried import planned as planned
    from tracker.jit.pipeline.partition import HostCall as HostCall
    from tracker.jit.pipeline.partition import partition as partition
    from tracker.jit.runtime.availability import why_unavailable as why_unavailable
    from tracker.jit.runtime.blas import limit_threads as limit_threads
    from tracker.jit.schedule.plan_data import Plan as Plan
    from tracker.jit.tracing.trace import TracedRun as TracedRun
    from tracker.jit.type_protocols import Jitted as Jitted

_OFFERED = {  # to `control`, `debug`, `distributed`, `interop`, `sparse`; imported at first use
    **dict.fromkeys(("in_python", "jit", "newest_trace", "trace", "traced_run"), "api"),
    **dict.fromkeys(("AliasOut", "ConstantOut", "InputOut"), "guards.signature"),
    **dict.fromkeys(("HostCall", "partition"), "pipeline.partition"),
    "Callback": "kernels.python_callbacks",
    "CompiledLoop": "pipeline.executor",
    "Jitted": "type_protocols",
    "Plan": "schedule.plan_data",
    "TracedRun": "tracing.trace",
    "is_jitted": "discovery.inspection",
    "limit_threads": "runtime.blas",
    "planned": "pipeline.loop_carried",
    "visible_calls": "api",
    "why_unavailable": "runtime.availability",
}


def __getattr__(name: str) -> Any:
    if name not in _OFFERED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_OFFERED[name]}"), name)
