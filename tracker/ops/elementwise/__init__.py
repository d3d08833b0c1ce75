"""Elementwise ops: NumPy's ufuncs, and the functions composed of them.

`unary.py` and `binary.py` are tables: ufunc, partial derivatives, scalar body. `comparison.py` adds
comparisons, bits, `where` and `clip`, `float_parts.py` and `select.py` composites, `activation.py`
the logistic function. The body is handed the scalar emitter `e`; the same body serves vector code.
"""
