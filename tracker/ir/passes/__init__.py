"""Passes: functions from an `ir.Function` to an equivalent, cheaper one.

Knows `ir`; never the tape or the compiler. Start at `manager.py`, which runs passes in order.
"""
