"""Passes over repeated equations: a Python loop that a trace has unrolled becomes a `Loop` again.

Knows `ir` and `ir.passes`. Start at `reroll.py`.
"""
