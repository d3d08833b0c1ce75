"""Recording: values, tracked arrays, traces.

Every operation on a tracked array goes through `record.apply`, which evaluates it and makes a
`Value`: the result, the op, its operands. A value holds its operands, so history lives exactly as
long as something refers to it; there is no global list. A derivative walks the operands backwards
(`tracker.autodiff`). While a function is traced, a `Tracer` observes the same calls and writes the
equations down for the compiler (`tracker.jit`).

What would turn tracked values into plain numbers goes through `conversions.py`, which raises if a
gradient would be lost.

Three things happen only in traces. Large results may be lazy: shape, dtype and strides are known,
the numbers are computed when something reads them (`lazy.py`). Values may escape into plain Python
under a guard (`escape.py`, `value_guards.py`). Tracked arrays stand as placeholders in the user's
own objects (`placeholders.py`).

May know `ir` and `support`; no op, no derivative, no compiler. Start at `record.py`, then
`value.py` and `tracer.py`.
"""
