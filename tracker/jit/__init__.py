"""The compiler. `decorator.py` is where a call comes in; `pipeline.py` shows the way through.

Nothing here imports llvmlite until something is compiled.
"""
