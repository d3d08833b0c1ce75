"""Arrays that are created, reshaped, transposed, joined or cut into windows: no arithmetic.

`shape.py` has the ops on existing arrays, `create.py` casts, copies and allocation,
`constructors.py` NumPy's constructors, `ranges.py` linspace and its relatives, `windows.py` sliding
windows for convolution and pooling, `memory_order.py` strides. To the compiler most of these are
views: an index map that costs nothing when it is fused.
"""
