"""LLVM: compiling a module's text, caching object code, loading it into the process.

The only room that imports llvmlite. Start at `engine.py`.
"""
