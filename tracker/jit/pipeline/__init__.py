"""From a trace to machine code, in order: passes, partition, plan, text, compiled program.

Start at `compile.py`.
"""
