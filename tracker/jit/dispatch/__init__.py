"""Which specialisation serves a call, what happens on a first call, and when calls run in Python.

Start at `jitted.py`.
"""
