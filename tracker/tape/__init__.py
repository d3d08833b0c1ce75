"""Eager recording and the recording of traces: values, tracked arrays, observers, lazy values.

Knows `ir` and its passes, never an op or a derivative. Start at `record.py`, through which every
operation on a tracked array goes.
"""
