"""The compiler. `api.py` is where a call comes in; `jit/pipeline/compile.py` shows the way through.

Nothing here imports llvmlite until something is compiled.
"""
