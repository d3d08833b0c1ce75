"""Recording: values, tracked arrays, traces.

Every operation on a tracked array goes through `record.apply`, which evaluates it and makes a
`Value`: the result, the op, its operands. A value holds its operands, so history lives exactly as
long as something refers to it; there is no global list. A derivative walks the operands backwards
(`tracker.autodiff`). While a function is traced, a `Tracer` observes the same calls and writes the
equations down for the compiler (`tracker.jit`).

What would turn tracked values into plain numbers goes through `conversions.py`, which raises if a
gradient would be lost.

`tracing` has what happens only in traces: lazy values, guards, escapes, placeholders.

May know `ir` and `support`; no op, no derivative, no compiler. Start at `record.py`, then
`value.py` and `tracing/tracer.py`.
"""
