"""Struct offsets for generated code, and the C functions that a text may call.

Offsets in CPython's and NumPy's structs are verified at import of `jit/abi/loader.py`; those in our
callable objects belong to `jit/abi/native_callable.py`. The functions called `native.` are in
`native_helpers.py`.
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

DECLARATIONS = {
    "native.release": "void @native.release(ptr, i64) cold",
    "native.tell": "i1 @native.tell(ptr, ptr, ptr) cold",
    "native.attribute": "ptr @native.attribute(ptr, ptr)",
    "native.held": "i1 @native.held(ptr, ptr, ptr)",
    "native.fields": "void @native.fields(ptr, ptr, ptr)",
    "native.distinct": "i1 @native.distinct(ptr, i64)",
    "native.unreported": "i1 @native.unreported(ptr) cold",
    "native.copy": "void @native.copy(ptr, ptr, i64)",
    "native.equal": "i1 @native.equal(ptr, ptr) cold",
    "native.dtype": "i1 @native.dtype(ptr, i8, i64) cold",
    "Py_IncRef": "void @Py_IncRef(ptr)",
    "Py_DecRef": "void @Py_DecRef(ptr)",
    "PyCell_Set": "i32 @PyCell_Set(ptr, ptr)",
    "PyComplex_FromDoubles": "ptr @PyComplex_FromDoubles(double, double)",
    "PyContextVar_Get": "i32 @PyContextVar_Get(ptr, ptr, ptr)",
    "PyDict_DelItem": "i32 @PyDict_DelItem(ptr, ptr)",
    "PyDict_GetItem": "ptr @PyDict_GetItem(ptr, ptr)",
    "PyDict_New": "ptr @PyDict_New()",
    "PyDict_Next": "i32 @PyDict_Next(ptr, ptr, ptr, ptr)",
    "PyDict_SetItem": "i32 @PyDict_SetItem(ptr, ptr, ptr)",
    "PyErr_Occurred": "ptr @PyErr_Occurred()",
    "PyEval_RestoreThread": "void @PyEval_RestoreThread(ptr)",
    "PyEval_SaveThread": "ptr @PyEval_SaveThread()",
    "PyFloat_FromDouble": "ptr @PyFloat_FromDouble(double)",
    "PyList_Append": "i32 @PyList_Append(ptr, ptr)",
    "PyList_New": "ptr @PyList_New(i64)",
    "PyList_SetItem": "i32 @PyList_SetItem(ptr, i64, ptr)",
    "PyLong_AsLongLongAndOverflow": "i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)",
    "PyLong_FromLongLong": "ptr @PyLong_FromLongLong(i64)",
    "PyObject_DelItem": "i32 @PyObject_DelItem(ptr, ptr)",
    "PyObject_GenericSetAttr": "i32 @PyObject_GenericSetAttr(ptr, ptr, ptr)",
    "PyObject_SetItem": "i32 @PyObject_SetItem(ptr, ptr, ptr)",
    "PyObject_Vectorcall": "ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)",
    "PyObject_VectorcallMethod": "ptr @PyObject_VectorcallMethod(ptr, ptr, i64, ptr)",
    "PyTuple_New": "ptr @PyTuple_New(i64)",
    "PyType_GenericAlloc": "ptr @PyType_GenericAlloc(ptr, i64)",
    "PyArray_CopyInto": "i32 @PyArray_CopyInto(ptr, ptr)",
    "PyArray_NewFromDescr": "ptr @PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)",
    "PyArray_SetBaseObject": "i32 @PyArray_SetBaseObject(ptr, ptr)",
}
