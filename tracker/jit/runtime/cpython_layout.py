"""Struct offsets for generated code.

Offsets in CPython's and NumPy's structs are verified at import of `jit/abi/loader.py`; those in our
callable objects belong to `jit/abi/native_callable.py`.
"""

from __future__ import annotations

import sys

# Offsets in CPython's and NumPy's structs; `loader.verify_layout` checks each of them.
TYPE, SIZE, VALUE, ITEMS = 8, 16, 16, 24
CELL_CONTENTS = 16
TYPE_FLAGS = 168  # of a class
# Of a dict, changed by each write. Without versions every name is looked up.
DICT_VERSION, HAS_DICT_VERSIONS = 24, sys.version_info < (3, 13)
FUNCTION_FIELDS = {"__code__": 48, "__defaults__": 56, "__kwdefaults__": 64}
DATA, NDIM, DIMS, STRIDES, DESCR, FLAGS = 16, 24, 32, 40, 56, 64
KIND, BYTEORDER, TYPE_NUMBER, ITEMSIZE = 24, 26, 28, 40
CAPSULE_POINTER = 16  # of a capsule
# NumPy's floating-point settings: three bits for each kind of error, 0 to ignore, 1 to warn, others
# to report it in another way.
REPORTED_ERRORS = 0o6666
# Offsets in native callables (`jit/abi/native_callable.py`).
CALL, DICT, WEAKREFS, SLOW, KEEP, ACTIVE, TABLE, OBJECT_SIZE = 16, 24, 32, 40, 48, 56, 64, 72

CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400
BIG_BYTES = 1 << 18  # larger arrays come from `allocator.py`
