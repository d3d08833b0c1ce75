"""Functions that entries and plans share, and the slots of callable types, as LLVM text.

They are compiled once for a machine, as one module, and bound like C functions (`c_symbols.py`).
"""

from __future__ import annotations

from tracker.jit.llvm.function_writer import FunctionWriter, c_function, functions_text
from tracker.jit.runtime import allocator, interrupt_checks
from tracker.jit.runtime.cpython_layout import (
    BYTEORDER,
    CALL,
    CAPSULE_POINTER,
    DICT,
    DICT_VERSION,
    HAS_DICT_VERSIONS,
    ITEMS,
    ITEMSIZE,
    KEEP,
    KIND,
    REPORTED_ERRORS,
    SIZE,
    SLOW,
    TYPE,
    TYPE_NUMBER,
)

_VARIABLES = f"""{allocator.VARIABLES}
@handler = global ptr null
@handler.numpy = external global ptr
@ndarray = external global ptr
@_Py_NoneStruct = external global i8
"""


def helpers_text() -> str:
    """All of these functions."""
    checks = (_unreported(), _attribute(), _fields(), _held(), _distinct(), _equal(), _dtype())
    others = (_copy(), _release(), _tell(), _empty(), _big(), interrupt_checks.pause())
    slots = (_slow(), _traverse(), _clear(), _dealloc(), _bind())
    return functions_text((*checks, *others, *slots, *allocator.functions()), _VARIABLES)


# Checks -------------------------------------------------------------------------------------------


@c_function("native.unreported", "ptr %errstate", "i1")
def _unreported(c: FunctionWriter) -> str:
    """Whether NumPy raises no floating-point error in this thread, prints none, and gives none to a
    function of the user's. %errstate: NumPy's context variable."""
    cell = c.variable("null", "ptr")
    c.call("i32", "PyContextVar_Get", ["ptr %errstate", "ptr null", f"ptr {cell}"])
    capsule = c.get(cell)
    with c.when(c.is_null(capsule)):
        c.call("void", "PyErr_Clear", [])
        c.leave("false")
    modes = c.field(c.field(capsule, CAPSULE_POINTER), 0, "i32")
    c.call("void", "Py_DecRef", [f"ptr {capsule}"])
    reported = c.let(f"and i32 {modes}, {REPORTED_ERRORS}")
    return c.let(f"icmp eq i32 {reported}, 0")


@c_function("native.attribute", "ptr %x, ptr %name", "ptr")
def _attribute(c: FunctionWriter) -> str:
    """An attribute, a new reference; null, and no error, where there is none."""
    found = c.call("ptr", "PyObject_GetAttr", ["ptr %x", "ptr %name"])
    with c.when(c.is_null(found)):
        c.call("void", "PyErr_Clear", [])
    return found


def _return_if_unchanged(c: FunctionWriter, held: str, value: str) -> str:
    """The version of a dict; return at once if it is that of the last look, in %version."""
    version = c.field(held, DICT_VERSION, "i64")
    if HAS_DICT_VERSIONS:
        c.return_if(c.compare("eq", version, c.load("%version")), value)
    return version


@c_function("native.fields", "ptr %x, ptr %names, ptr %version")
def _fields(c: FunctionWriter) -> None:
    """What an object's own dict has under some names (a tuple), null where it has nothing:
    borrowed, in the cells after the one with the dict's version at the last look."""
    count = c.field("%names", SIZE, "i64")
    cell, held = c.call("ptr", "_PyObject_GetDictPtr", ["ptr %x"]), c.variable("null", "ptr")
    with c.when(c.logical_not(c.is_null(cell))):
        c.set(held, c.load(cell, kind="ptr"))
    dict_ = c.get(held)
    with c.when(c.is_null(dict_)):
        c.clear_bytes("%version", c.mul(c.add(count, 1), 8))
        c.leave()
    version = _return_if_unchanged(c, dict_, "")
    first = c.address("%names", ITEMS, "i8")
    with c.loop(0, count) as i:
        name = c.load(first, i, "ptr")
        found = c.call("ptr", "PyDict_GetItem", [f"ptr {dict_}", f"ptr {name}"])
        c.store(found, "%version", c.add(i, 1), "ptr")
    c.store(version, "%version")


@c_function("native.held", "ptr %dict, ptr %pairs, ptr %version", "i1")
def _held(c: FunctionWriter) -> str:
    """Whether a dict has under some names what it had. %pairs: a tuple of what stands for nothing,
    then names and objects by turns. The cell holds the dict's version at the last look."""
    version = _return_if_unchanged(c, "%dict", "true")
    first = c.address("%pairs", ITEMS, "i8")
    nothing = c.load(first, kind="ptr")
    with c.loop(1, c.field("%pairs", SIZE, "i64"), step=2) as i:
        name, before = (c.load(first, at, "ptr") for at in (i, c.add(i, 1)))
        found = c.call("ptr", "PyDict_GetItem", ["ptr %dict", f"ptr {name}"])
        now = c.let(f"select i1 {c.is_null(found)}, ptr {nothing}, ptr {found}")
        c.return_if(c.let(f"icmp ne ptr {now}, {before}"), "false")
    c.store(version, "%version")
    return "true"


@c_function("native.distinct", "ptr %objects, i64 %count", "i1")
def _distinct(c: FunctionWriter) -> str:
    """Whether no two of some pointers are equal."""
    with c.loop(1, "%count") as i:
        x = c.load("%objects", i, "ptr")
        with c.loop(0, i) as j:
            c.return_if(c.let(f"icmp eq ptr {x}, {c.load('%objects', j, 'ptr')}"), "false")
    return "true"


@c_function("native.equal", "ptr %a, ptr %b", "i1")
def _equal(c: FunctionWriter) -> str:
    """The same exact type and equal: for types that compare without running Python code."""
    types = [c.field(x, TYPE) for x in ("%a", "%b")]
    c.return_if(c.let(f"icmp ne ptr {', '.join(types)}"), "false")
    equal = c.call("i32", "PyObject_RichCompareBool", ["ptr %a", "ptr %b", "i32 2"])
    return c.let(f"icmp eq i32 {equal}, 1")


@c_function("native.dtype", "ptr %descr, i8 %kind, i64 %size", "i1")
def _dtype(c: FunctionWriter) -> str:
    """A dtype object that is not NumPy's own one (unpickled, with metadata, long long) but equal to
    it."""
    tests = (
        (KIND, "i8", "eq", "%kind"),
        (BYTEORDER, "i8", "ne", ord(">")),
        (TYPE_NUMBER, "i32", "ult", 24),
        (ITEMSIZE, "i64", "eq", "%size"),
    )
    for offset, kind, relation, wanted in tests:
        holds = c.let(f"icmp {relation} {kind} {c.field('%descr', offset, kind)}, {wanted}")
        c.return_if(c.logical_not(holds), "false")
    return "true"


# Calls --------------------------------------------------------------------------------------------


@c_function("native.copy", "ptr %to, ptr %from, i64 %size")
def _copy(c: FunctionWriter) -> None:
    c.copy_bytes("%to", "%from", "%size")


@c_function("native.release", "ptr %refs, i64 %count")
def _release(c: FunctionWriter) -> None:
    with c.loop(0, "%count") as i:
        c.call("void", "Py_DecRef", [f"ptr {c.load('%refs', i, 'ptr')}"])


@c_function("native.tell", "ptr %ask, ptr %self, ptr %entry", "i1")
def _tell(c: FunctionWriter) -> str:
    """Tell Python (%ask) something about an entry of a callable. False: it raised an exception, as
    the handler of a signal may."""
    address = c.call("ptr", "PyLong_FromVoidPtr", ["ptr %entry"])
    args = c.cells_of("ptr", ["%self", address])
    arguments = ["ptr %ask", f"ptr {args}", "i64 2", "ptr null"]
    answer = c.call("ptr", "PyObject_Vectorcall", arguments)
    for thing in (address, answer):
        c.call("void", "Py_DecRef", [f"ptr {thing}"])
    return c.logical_not(c.is_null(answer))


# Slots of the types that native_callable.py makes -------------------------------------------------


@c_function("slow", "ptr %self, ptr %args, i64 %nargsf, ptr %kwnames", "ptr")
def _slow(c: FunctionWriter) -> str:
    """Call the slow path."""
    c.declared.add("declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)")
    given = f"ptr {c.field('%self', SLOW)}, {', '.join(c.parameters[1:])}"
    return c.let(f"musttail call ptr @PyObject_Vectorcall({given})")


@c_function("traverse", "ptr %self, ptr %visit, ptr %arg", "i32")
def _traverse(c: FunctionWriter) -> None:
    for offset in (TYPE, DICT, SLOW, KEEP):
        ref = c.field("%self", offset)
        with c.when(c.logical_not(c.is_null(ref))):
            stop = c.let(f"call i32 %visit(ptr {ref}, ptr %arg)")
            c.return_if(c.let(f"icmp ne i32 {stop}, 0"), stop)


def _replace(c: FunctionWriter, offset: int, new: str) -> None:
    """Replace a reference of %self."""
    old = c.field("%self", offset)
    c.store(new, c.address("%self", offset, "i8"), kind="ptr")
    c.call("void", "Py_DecRef", [f"ptr {old}"])


@c_function("clear", "ptr %self", "i32")
def _clear(c: FunctionWriter) -> None:
    """A cleared instance can still be called, by a finalizer: it then calls None, which is an
    error."""
    c.store("@slow", c.address("%self", CALL, "i8"), kind="ptr")
    c.call("void", "Py_IncRef", ["ptr @_Py_NoneStruct"])
    for offset, new in ((SLOW, "@_Py_NoneStruct"), (DICT, "null"), (KEEP, "null")):
        _replace(c, offset, new)


@c_function("dealloc", "ptr %self")
def _dealloc(c: FunctionWriter) -> None:
    cls = c.field("%self", TYPE)
    for release in ("PyObject_GC_UnTrack", "PyObject_ClearWeakRefs"):
        c.call("void", release, ["ptr %self"])
    c.call("i32", "clear", ["ptr %self"])
    _replace(c, SLOW, "null")
    c.call("void", "PyObject_GC_Del", ["ptr %self"])
    c.call("void", "Py_DecRef", [f"ptr {cls}"])


@c_function("bind", "ptr %self, ptr %instance, ptr %owner", "ptr")
def _bind(c: FunctionWriter) -> str:
    with c.when(c.is_null("%instance")):
        c.call("void", "Py_IncRef", ["ptr %self"])
        c.leave("%self")
    return c.call("ptr", "PyMethod_New", ["ptr %self", "ptr %instance"])


# Large arrays -------------------------------------------------------------------------------------
# In C order or with given strides, in our own blocks unless the user has chosen a memory handler,
# with the signatures of NumPy's functions: an entry's text is the same for small and large shapes.
# `@handler` is the capsule of our handler.


@c_function("native.empty", "i32 %rank, ptr %dims, ptr %descr, i32 %order", "ptr")
def _empty(c: FunctionWriter) -> str:
    array = ["ptr @ndarray", "ptr %descr", "i32 %rank", "ptr %dims"]
    return c.call("ptr", "native.big", [*array, "ptr null", "ptr null", "i32 0", "ptr null"])


_ARRAY = "ptr %class, ptr %descr, i32 %rank, ptr %dims, ptr %strides"


@c_function("native.big", f"{_ARRAY}, ptr %data, i32 %flags, ptr %like", "ptr")
def _big(c: FunctionWriter) -> str:

    def make() -> str:
        arguments = ["ptr @ndarray", *_ARRAY.split(", ")[1:], "ptr null", "i32 0", "ptr null"]
        return c.call("ptr", "PyArray_NewFromDescr", arguments)

    def use(handler: str) -> str:
        before = c.call("ptr", "PyDataMem_SetHandler", [f"ptr {handler}"])
        c.call("void", "Py_DecRef", [f"ptr {before}"])
        return before

    now = c.call("ptr", "PyDataMem_GetHandler", [])
    c.call("void", "Py_DecRef", [f"ptr {now}"])
    with c.when(c.let(f"icmp ne ptr {now}, @handler.numpy")):
        c.leave(make())
    with c.when(c.is_null(use(c.load("@handler", kind="ptr")))):
        c.leave(make())
    made = make()
    use("@handler.numpy")
    return made
