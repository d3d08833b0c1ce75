"""Random numbers: draws from NumPy's generators as recorded effects.

A draw is a constant for derivatives, except in the parameters of some distributions, and an effect
for the compiler: compiled code draws anew on each call, the numbers that a plain call would draw,
in its order. `draw_ops.py` has the op, and what traces need: to roll draws back, and to notice
unrecorded ones. `generators.py` has recording versions of NumPy's generators. Start at
`draw_ops.record_draw`.

May know `tape` and `ops`. `numpy.random` is imported only when the user has imported it, or when a
function is traced that may draw from it.
"""
