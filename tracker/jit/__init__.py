"""The compiler. `decorator.py` is where a call comes in; `compiling.py` shows the way through.

Nothing here imports llvmlite until something is compiled.
"""
