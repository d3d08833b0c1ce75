"""Derivatives: reverse and forward mode, custom rules, checkpointing, the public functions.

Knows the tape and the ops, never the compiler. Start at `gradients.py` for the public functions
and at `reverse.py` for the reverse pass.
"""
