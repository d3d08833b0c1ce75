"""Addresses of C functions: CPython's, NumPy's, and the helpers in `native_helpers.py`.

`address_of` resolves the names that texts call. NumPy's functions come from its C API table, whose
numbering is fixed within an ABI version. `use_block_allocator` makes NumPy allocate from
`allocator.py`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tracker.errors import CompileError
from tracker.jit.guards.class_guard import type_slot
from tracker.jit.llvm import engine, object_cache
from tracker.jit.llvm.lock import locked_cache
from tracker.jit.runtime import native_helpers

C_FUNCTION = re.compile(r"@(_?Py\w+|native\.\w+)\(")
_TP_ALLOC_SLOT = 47
_PYARRAY_TYPE_INDEX = 2
NUMPY_API_INDEX = {  # of functions in NumPy's C API table
    "PyArray_CopyInto": 50,
    "PyArray_Empty": 184,
    "PyArray_FromAny": 69,
    "PyArray_NewFromDescr": 94,
    "PyArray_Scalar": 60,
    "PyArray_SetBaseObject": 282,
    "PyDataMem_SetHandler": 304,
    "PyDataMem_GetHandler": 305,
}
_DEFAULT_HANDLER_INDEX = 306
_HANDLER_NAME = b"mem_handler"  # the capsule keeps a pointer to these bytes


def helper_module() -> engine.Module:
    """The functions that entries and plans share, and the slots of callable types."""
    return _helpers()[0]


def _handler_capsule() -> Any:
    """The capsule that makes NumPy allocate an array's memory from our blocks."""
    return _helpers()[1]


@locked_cache
def _helpers() -> tuple[engine.Module, Any]:
    """The module, and the capsule, which refer to each other."""
    text = native_helpers.helpers_text()
    names = set(C_FUNCTION.findall(text))
    symbols = {name: address_of(name) for name in names if name.startswith(("Py", "_Py"))}
    symbols |= {"_Py_NoneStruct": id(None), "ndarray": id(np.ndarray)}
    symbols["handler.numpy"] = _read_pointer(numpy_api()[_DEFAULT_HANDLER_INDEX])
    helpers = object_cache.compile_or_load(text, level=engine.QUICK, symbols=symbols)
    capsule = _new_capsule(helpers.address("tk.handler"), _HANDLER_NAME, None)
    ctypes.c_size_t.from_address(helpers.address("handler")).value = id(capsule)
    return helpers, capsule


@contextlib.contextmanager
def use_block_allocator() -> Iterator[None]:
    """Let NumPy allocate from our blocks in this thread meanwhile, unless the user has chosen a
    memory handler."""
    get_handler, set_handler = _handler_functions()
    if id(get_handler()) != _read_pointer(numpy_api()[_DEFAULT_HANDLER_INDEX]):
        yield
        return
    before = set_handler(_handler_capsule())
    try:
        yield
    finally:
        set_handler(before)


@functools.cache
def _handler_functions() -> tuple[Any, Any]:
    """NumPy's getter and setter of the memory handler."""
    kind = ctypes.py_object
    return (
        ctypes.PYFUNCTYPE(kind)(address_of("PyDataMem_GetHandler")),
        ctypes.PYFUNCTYPE(kind, kind)(address_of("PyDataMem_SetHandler")),
    )


def _read_pointer(address: int) -> int:
    return int(ctypes.c_size_t.from_address(address).value)


def address_of(name: str) -> int:
    """The address of a function of CPython's or NumPy's C API, or of a helper."""
    if name.startswith(("native.", "tk.")):
        return helper_module().address(name)
    if name in NUMPY_API_INDEX:
        return int(numpy_api()[NUMPY_API_INDEX[name]])
    try:
        function = getattr(ctypes.pythonapi, name)
    except AttributeError:
        raise CompileError(f"this Python has no function {name} in its C API") from None
    return _function_address(function)


def _function_address(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def scalar_allocator(cls: type) -> int:
    """The `tp_alloc` of a NumPy scalar class."""
    return int(type_slot(cls, _TP_ALLOC_SLOT))


_new_capsule = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", ctypes.pythonapi))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def library_symbols(path: str, names: Sequence[str]) -> dict[str, int]:
    """The addresses of the names that a shared library has; OSError if it cannot be loaded."""
    library = ctypes.CDLL(path)
    return {
        name: _function_address(getattr(library, name)) for name in names if hasattr(library, name)
    }


_C_TYPES: dict[str, Any] = {
    "i": ctypes.c_int,
    "q": ctypes.c_int64,
    "d": ctypes.c_double,
    "p": ctypes.c_void_p,
}


def call_c(address: int, types: str, *args: int | float) -> None:
    """Call a C function without result: i int, q 64-bit integer, d double, p pointer."""
    ctypes.CFUNCTYPE(None, *(_C_TYPES[type_] for type_ in types))(address)(*args)


@functools.cache
def numpy_api() -> Any:
    """NumPy's table of C functions; its numbering is fixed within an ABI version."""
    core = importlib.import_module("numpy._core._multiarray_umath")
    table = ctypes.cast(_capsule_pointer(core._ARRAY_API, None), ctypes.POINTER(ctypes.c_size_t))
    abi = ctypes.CFUNCTYPE(ctypes.c_uint)(table[0])() >> 24
    if abi != 2 or table[_PYARRAY_TYPE_INDEX] != id(np.ndarray):
        raise CompileError(f"NumPy {np.__version__} has C ABI {abi}, and native calls know ABI 2")
    return table
