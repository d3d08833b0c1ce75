"""LLVM text of operations on one number: real, complex, integer, bits.

`Emitter` (`emitter.py`) is the object that `lower` functions of ops receive as `e`: `e.add(x, y)`
writes one instruction and returns its result, a `ScalarValue` (`values.py`). Real arithmetic is in
`real.py`, integers in `integer_math.py` and `bits.py`, complex numbers in `emitter.py` and
`complex_math.py`. Math functions are calls of `vmath`.

Knows `vmath` and the data of `ir`; never loops or memory layout. Start at `real.py`.
"""
