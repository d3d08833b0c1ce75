"""From plan to LLVM text: loops, elements, reductions, control flow.

Start at `lower.py`.
"""
