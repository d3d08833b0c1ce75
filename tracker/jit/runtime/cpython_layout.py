"""Struct offsets and helper functions for generated code.

Offsets in CPython's and NumPy's structs are verified at import of `jit/abi/loader.py`; those in our
callable objects belong to `jit/abi/native_callable.py`. `DECLARATIONS` are the C functions that a
text may call; `HELPERS` and `BIG_ARRAY_HELPERS` are texts that are compiled once for a process and
bound like C functions.
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

# Whether a dict's version is unchanged since the cell `%version` was written.
_DICT_UNCHANGED = f"""  %v.cell = getelementptr i8, ptr %dict, i64 {DICT_VERSION}
  %v = load i64, ptr %v.cell
  %known = load i64, ptr %version
  %same = icmp eq i64 %v, %known
  %quick = and i1 %same, {str(HAS_DICT_VERSIONS).lower()}
"""

HELPERS = f"""
declare void @Py_DecRef(ptr)
declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare void @PyErr_Clear()
declare ptr @_PyObject_GetDictPtr(ptr)
declare ptr @PyDict_GetItem(ptr, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define void @native.copy(ptr %to, ptr %from, i64 %size) nounwind {{
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %size, i1 false)
  ret void
}}

; Whether NumPy raises no floating-point error in this thread, prints none, and gives none to a
; function of the user's. %errstate: NumPy's context variable.
declare i32 @PyContextVar_Get(ptr, ptr, ptr)
define i1 @native.unreported(ptr %errstate) nounwind {{
  %cell = alloca ptr
  store ptr null, ptr %cell
  %got = call i32 @PyContextVar_Get(ptr %errstate, ptr null, ptr %cell)
  %capsule = load ptr, ptr %cell
  %none = icmp eq ptr %capsule, null
  br i1 %none, label %unknown, label %known
unknown:
  call void @PyErr_Clear()
  ret i1 false
known:
  %pointer.cell = getelementptr i8, ptr %capsule, i64 {CAPSULE_POINTER}
  %settings = load ptr, ptr %pointer.cell
  %modes = load i32, ptr %settings
  call void @Py_DecRef(ptr %capsule)
  %reported = and i32 %modes, {REPORTED_ERRORS}
  %fine = icmp eq i32 %reported, 0
  ret i1 %fine
}}

; An attribute, a new reference; null, and no error, where there is none.
define ptr @native.attribute(ptr %x, ptr %name) nounwind {{
  %found = call ptr @PyObject_GetAttr(ptr %x, ptr %name)
  %none = icmp eq ptr %found, null
  br i1 %none, label %missing, label %done
missing:
  call void @PyErr_Clear()
  ret ptr null
done:
  ret ptr %found
}}

; What an object's own dict has under some names (a tuple), null where it has nothing: borrowed, in
; the cells after the one with the dict's version at the last look.
define void @native.fields(ptr %x, ptr %names, ptr %version) nounwind {{
  %count.cell = getelementptr i8, ptr %names, i64 {SIZE}
  %count = load i64, ptr %count.cell
  %cell = call ptr @_PyObject_GetDictPtr(ptr %x)
  %none = icmp eq ptr %cell, null
  br i1 %none, label %missing, label %some
some:
  %dict = load ptr, ptr %cell
  %empty = icmp eq ptr %dict, null
  br i1 %empty, label %missing, label %ask
ask:
{_DICT_UNCHANGED}  br i1 %quick, label %done, label %look
look:
  %first = getelementptr i8, ptr %names, i64 {ITEMS}
  br label %loop
loop:
  %i = phi i64 [0, %look], [%next, %loop]
  %name.cell = getelementptr ptr, ptr %first, i64 %i
  %name = load ptr, ptr %name.cell
  %found = call ptr @PyDict_GetItem(ptr %dict, ptr %name)
  %next = add i64 %i, 1
  %found.cell = getelementptr ptr, ptr %version, i64 %next
  store ptr %found, ptr %found.cell
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %note
note:
  store i64 %v, ptr %version
  br label %done
missing:
  %cells = add i64 %count, 1
  %size = mul i64 %cells, 8
  call void @llvm.memset.p0.i64(ptr %version, i8 0, i64 %size, i1 false)
  br label %done
done:
  ret void
}}

; Whether a dict has under some names what it had. %pairs: a tuple of what stands for nothing, then
; names and objects by turns. The cell holds the dict's version at the last look.
define i1 @native.held(ptr %dict, ptr %pairs, ptr %version) nounwind {{
{_DICT_UNCHANGED}  br i1 %quick, label %yes, label %look
look:
  %count.cell = getelementptr i8, ptr %pairs, i64 {SIZE}
  %count = load i64, ptr %count.cell
  %first = getelementptr i8, ptr %pairs, i64 {ITEMS}
  %nothing = load ptr, ptr %first
  br label %loop
loop:
  %i = phi i64 [1, %look], [%next, %alike]
  %name.cell = getelementptr ptr, ptr %first, i64 %i
  %name = load ptr, ptr %name.cell
  %j = add i64 %i, 1
  %was.cell = getelementptr ptr, ptr %first, i64 %j
  %was = load ptr, ptr %was.cell
  %found = call ptr @PyDict_GetItem(ptr %dict, ptr %name)
  %none = icmp eq ptr %found, null
  %now = select i1 %none, ptr %nothing, ptr %found
  %is = icmp eq ptr %now, %was
  br i1 %is, label %alike, label %no
alike:
  %next = add i64 %i, 2
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %note
note:
  store i64 %v, ptr %version
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}}

; Whether no two of some pointers, at least two, are equal.
define i1 @native.distinct(ptr %objects, i64 %count) nounwind {{
start:
  br label %outer
outer:
  %i = phi i64 [1, %start], [%i.next, %beyond]
  %x.cell = getelementptr ptr, ptr %objects, i64 %i
  %x = load ptr, ptr %x.cell
  br label %inner
inner:
  %j = phi i64 [0, %outer], [%j.next, %other]
  %y.cell = getelementptr ptr, ptr %objects, i64 %j
  %y = load ptr, ptr %y.cell
  %is = icmp eq ptr %x, %y
  br i1 %is, label %no, label %other
other:
  %j.next = add i64 %j, 1
  %before = icmp ult i64 %j.next, %i
  br i1 %before, label %inner, label %beyond
beyond:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %count
  br i1 %more, label %outer, label %yes
yes:
  ret i1 true
no:
  ret i1 false
}}

define void @native.release(ptr %refs, i64 %count) nounwind {{
start:
  br label %loop
loop:
  %i = phi i64 [0, %start], [%next, %one]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %cell = getelementptr ptr, ptr %refs, i64 %i
  %ref = load ptr, ptr %cell
  call void @Py_DecRef(ptr %ref)
  %next = add i64 %i, 1
  br label %loop
done:
  ret void
}}

; The same exact type and equal: for types that compare without running Python code.
define i1 @native.equal(ptr %a, ptr %b) nounwind {{
  %a.cell = getelementptr i8, ptr %a, i64 {TYPE}
  %b.cell = getelementptr i8, ptr %b, i64 {TYPE}
  %a.type = load ptr, ptr %a.cell
  %b.type = load ptr, ptr %b.cell
  %same = icmp eq ptr %a.type, %b.type
  br i1 %same, label %compare, label %no
compare:
  %equal = call i32 @PyObject_RichCompareBool(ptr %a, ptr %b, i32 2)
  %yes = icmp eq i32 %equal, 1
  ret i1 %yes
no:
  ret i1 false
}}

; A dtype object that is not NumPy's own one (unpickled, with metadata, long long) but equal to it.
define i1 @native.dtype(ptr %descr, i8 %kind, i64 %size) nounwind {{
  %kind.cell = getelementptr i8, ptr %descr, i64 {KIND}
  %order.cell = getelementptr i8, ptr %descr, i64 {BYTEORDER}
  %number.cell = getelementptr i8, ptr %descr, i64 {TYPE_NUMBER}
  %size.cell = getelementptr i8, ptr %descr, i64 {ITEMSIZE}
  %k = load i8, ptr %kind.cell
  %o = load i8, ptr %order.cell
  %n = load i32, ptr %number.cell
  %s = load i64, ptr %size.cell
  %k.ok = icmp eq i8 %k, %kind
  %o.ok = icmp ne i8 %o, {ord(">")}
  %n.ok = icmp ult i32 %n, 24
  %s.ok = icmp eq i64 %s, %size
  %ko = and i1 %k.ok, %o.ok
  %ns = and i1 %n.ok, %s.ok
  %ok = and i1 %ko, %ns
  ret i1 %ok
}}

; Tell Python (%ask) something about an entry of a callable. False: it raised an exception, as the
; handler of a signal may.
declare ptr @PyLong_FromVoidPtr(ptr)
define i1 @native.tell(ptr %ask, ptr %self, ptr %entry) nounwind {{
  %args = alloca [2 x ptr]
  %second = getelementptr ptr, ptr %args, i64 1
  %address = call ptr @PyLong_FromVoidPtr(ptr %entry)
  store ptr %self, ptr %args
  store ptr %address, ptr %second
  %answer = call ptr @PyObject_Vectorcall(ptr %ask, ptr %args, i64 2, ptr null)
  call void @Py_DecRef(ptr %address)
  call void @Py_DecRef(ptr %answer)
  %fine = icmp ne ptr %answer, null
  ret i1 %fine
}}

; Instances of the types that native_callable.py makes: slow path, collection, binding.
declare void @Py_IncRef(ptr)
declare void @PyObject_GC_UnTrack(ptr)
declare void @PyObject_GC_Del(ptr)
declare void @PyObject_ClearWeakRefs(ptr)
declare ptr @PyMethod_New(ptr, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
@_Py_NoneStruct = external global i8

define ptr @slow(ptr %self, ptr %args, i64 %nargsf, ptr %kwnames) nounwind {{
  %cell = getelementptr i8, ptr %self, i64 {SLOW}
  %callable = load ptr, ptr %cell
  %r = musttail call ptr @PyObject_Vectorcall(ptr %callable, ptr %args, i64 %nargsf, ptr %kwnames)
  ret ptr %r
}}

define internal i32 @visit_field(ptr %self, i64 %offset, ptr %visit, ptr %arg) alwaysinline {{
  %cell = getelementptr i8, ptr %self, i64 %offset
  %ref = load ptr, ptr %cell
  %none = icmp eq ptr %ref, null
  br i1 %none, label %done, label %some
some:
  %stop = call i32 %visit(ptr %ref, ptr %arg)
  ret i32 %stop
done:
  ret i32 0
}}

define i32 @traverse(ptr %self, ptr %visit, ptr %arg) nounwind {{
  %a = call i32 @visit_field(ptr %self, i64 {TYPE}, ptr %visit, ptr %arg)
  %a.go = icmp eq i32 %a, 0
  br i1 %a.go, label %next.b, label %stop
next.b:
  %b = call i32 @visit_field(ptr %self, i64 {DICT}, ptr %visit, ptr %arg)
  %b.go = icmp eq i32 %b, 0
  br i1 %b.go, label %next.c, label %stop
next.c:
  %c = call i32 @visit_field(ptr %self, i64 {SLOW}, ptr %visit, ptr %arg)
  %c.go = icmp eq i32 %c, 0
  br i1 %c.go, label %next.d, label %stop
next.d:
  %d = call i32 @visit_field(ptr %self, i64 {KEEP}, ptr %visit, ptr %arg)
  br label %stop
stop:
  %r = phi i32 [%a, %0], [%b, %next.b], [%c, %next.c], [%d, %next.d]
  ret i32 %r
}}

define internal void @replace(ptr %self, i64 %offset, ptr %new) {{
  %cell = getelementptr i8, ptr %self, i64 %offset
  %old = load ptr, ptr %cell
  store ptr %new, ptr %cell
  call void @Py_DecRef(ptr %old)
  ret void
}}

; A cleared instance can still be called, by a finalizer: it then calls None, which is an error.
define i32 @clear(ptr %self) nounwind {{
  %call = getelementptr i8, ptr %self, i64 {CALL}
  store ptr @slow, ptr %call
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  call void @replace(ptr %self, i64 {SLOW}, ptr @_Py_NoneStruct)
  call void @replace(ptr %self, i64 {DICT}, ptr null)
  call void @replace(ptr %self, i64 {KEEP}, ptr null)
  ret i32 0
}}

define void @dealloc(ptr %self) nounwind {{
  %cell = getelementptr i8, ptr %self, i64 {TYPE}
  %type = load ptr, ptr %cell
  call void @PyObject_GC_UnTrack(ptr %self)
  call void @PyObject_ClearWeakRefs(ptr %self)
  %cleared = call i32 @clear(ptr %self)
  call void @replace(ptr %self, i64 {SLOW}, ptr null)
  call void @PyObject_GC_Del(ptr %self)
  call void @Py_DecRef(ptr %type)
  ret void
}}

define ptr @bind(ptr %self, ptr %instance, ptr %owner) nounwind {{
  %unbound = icmp eq ptr %instance, null
  br i1 %unbound, label %same, label %method
same:
  call void @Py_IncRef(ptr %self)
  ret ptr %self
method:
  %r = call ptr @PyMethod_New(ptr %self, ptr %instance)
  ret ptr %r
}}
"""

# Large arrays, in C order or with given strides, in our own blocks unless the user has chosen a
# memory handler. They have the signatures of NumPy's functions, so that an entry's text is the same
# for small and large shapes.
BIG_ARRAY_HELPERS = """
@ndarray = external global ptr
@handler = external global ptr
@handler.numpy = external global ptr
declare ptr @PyDataMem_GetHandler()
declare ptr @PyDataMem_SetHandler(ptr)
declare ptr @PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare void @Py_DecRef(ptr)

define ptr @native.empty(i32 %rank, ptr %dims, ptr %descr, i32 %order) {
  %made = call ptr @native.big(ptr @ndarray, ptr %descr, i32 %rank, ptr %dims, ptr null, ptr null,
    i32 0, ptr null)
  ret ptr %made
}

define ptr @native.big(ptr %class, ptr %descr, i32 %rank, ptr %dims, ptr %strides, ptr %data,
    i32 %flags, ptr %like) {
  %now = call ptr @PyDataMem_GetHandler()
  %usual = icmp eq ptr %now, @handler.numpy
  call void @Py_DecRef(ptr %now)
  br i1 %usual, label %ours, label %theirs
theirs:
  %plain = call ptr @PyArray_NewFromDescr(ptr @ndarray, ptr %descr, i32 %rank, ptr %dims,
    ptr %strides, ptr null, i32 0, ptr null)
  ret ptr %plain
ours:
  %before = call ptr @PyDataMem_SetHandler(ptr @handler)
  %set = icmp ne ptr %before, null
  br i1 %set, label %make, label %theirs
make:
  call void @Py_DecRef(ptr %before)
  %made = call ptr @PyArray_NewFromDescr(ptr @ndarray, ptr %descr, i32 %rank, ptr %dims,
    ptr %strides, ptr null, i32 0, ptr null)
  %after = call ptr @PyDataMem_SetHandler(ptr @handler.numpy)
  call void @Py_DecRef(ptr %after)
  ret ptr %made
}
"""
