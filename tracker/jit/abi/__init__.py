"""The native call: checking arguments, building results, writing state back, and the callable type
through which Python calls machine code.

Start at `native_callable.py`.
"""
