"""Running a function once on placeholders, recording an `ir.Function` and its side effects.

Knows the tape, guards and discovery; never schedules or generates code. Start at `trace.py`.
"""
