"""The plan of a compiled function: which values are stored where, which loops are fused, which
writes happen in place, and what that costs.

Knows `ir`, never how code is written. Start at `plan.py`.
"""
