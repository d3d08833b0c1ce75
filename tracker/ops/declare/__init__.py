"""How an op is declared: name, forward, pullback, pushforward, shapes, dtypes and lowering.

Shared by all families of ops. Start at `declare.py`.
"""
