"""Which calls are pure: their results depend on their arguments alone, so a trace may keep them.

The table has dotted names of modules, classes and functions; the longest entry that a name starts
with decides, and names without an entry are not known to be pure. `print`, `warnings`, `logging`
and progress bars of tqdm count as pure: their output is a side effect of tracing and no part of
the result. So do locks.
`VouchedCallables` adds what the user vouches for (`jit(pure=[f])`). Start at `is_pure`.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import types
from collections.abc import Iterable, Sequence
from types import CodeType, FrameType
from typing import Any

_PURE = (  # modules, and pure members of others
    "tracker numpy scipy pandas tqdm xarray "
    "abc _abc array base64 binascii bisect _bisect builtins cmath _codecs collections "
    "_collections _collections_abc colorsys contextlib contextvars _contextvars copy copyreg "
    "dataclasses datetime _datetime _pydatetime decimal _decimal _pydecimal difflib enum fractions "
    "functools _functools genericpath.commonprefix graphlib hashlib _hashlib _blake2 _md5 _sha1 "
    "_sha2 _sha3 _sha256 _sha512 heapq _heapq hmac html itertools json _json keyword logging math "
    "numbers operator _operator pprint random _random re re._constants _sre reprlib statistics "
    "_statistics string _string struct _struct textwrap types typing _typing typing_extensions "
    "unicodedata warnings _warnings weakref _weakref _weakrefset zlib "
    "__future__ _cyutility _io.BytesIO _io.StringIO _thread.LockType _thread.RLock _thread._local "
    "_thread.allocate_lock _thread.lock _ctypes._CData _ctypes.Array _ctypes.Structure "
    "_ctypes.Union _ctypes._Pointer _ctypes._SimpleCData nt.fspath posix.fspath os.fspath "
    "nt._path_normpath nt._path_splitroot nt._path_splitroot_ex posix._path_normpath "
    "posix._path_splitroot_ex "
    "sys.audit sys.exc_info sys.exception sys.getdefaultencoding sys.getsizeof sys.intern "
    "sys.flags sys.float_info sys.hash_info sys.int_info sys.thread_info sys.version_info "
    "_pickle.dumps _pickle.loads pickle.dumps pickle.loads "
    "threading.local uuid.UUID zoneinfo.ZoneInfo inspect.unwrap"
)
_IMPURE = (  # exceptions among these
    "builtins.breakpoint builtins.input builtins.open ctypes decimal.getcontext "
    "_decimal.getcontext _pydecimal.getcontext "
    "numpy.fromfile numpy.ctypeslib numpy._core.memmap numpy._core._ufunc_config.getbufsize "
    "numpy._core._ufunc_config.geterr numpy._core._ufunc_config.geterrcall "
    "numpy._core.arrayprint.get_printoptions numpy.lib._datasource numpy.lib._npyio_impl "
    "numpy.lib.format numpy.lib._format_impl pandas.io random.SystemRandom scipy.datasets scipy.io "
    "xarray.backends xarray.tutorial threading.active_count threading.enumerate "
    "tqdm.contrib.concurrent tqdm.contrib.tmap tqdm.std.tqdm.pandas"
)
_IMPURE_METHODS = (  # exceptions among the methods of their classes
    "datetime.datetime.now datetime.datetime.today datetime.datetime.utcnow datetime.date.today "
    "numpy.ndarray.tofile numpy.ndarray.dump tqdm.std.tqdm.format_dict"
)
_TABLE = {
    **dict.fromkeys(_PURE.split(), True),
    **dict.fromkeys((*_IMPURE.split(), *_IMPURE_METHODS.split()), False),
}
# Calls made by these packages are no part of what a function computes.
_EXEMPT_PACKAGES = frozenset({"logging", "warnings", "importlib", "tqdm"})
_EXEMPT_MODULES = frozenset({"tracker.support.deferred_signals", "tracker.control.step_runner"})
# Classes that draw entropy when they are given no seed.
SEEDABLE_CLASSES = frozenset(
    ("MT19937", "PCG64", "PCG64DXSM", "Philox", "RandomState", "SFC64", "SeedSequence")
)
IMPURE_METHOD_NAMES = frozenset(name.rpartition(".")[2] for name in _IMPURE_METHODS.split())
# C classes whose calls cannot be observed: their objects may be read where the code names no member
# of theirs but these.
_CONSTANT_MEMBERS = {
    "mpi4py.MPI.Comm": frozenset(
        ("Get_name", "Get_rank", "Get_size", "is_inter", "is_intra", "name", "rank", "size")
    ),
}
# Names that lead to objects which the code does not name, or that run other code.
REFLECTIVE_NAMES = frozenset(
    {
        *("__subclasses__", "__globals__", "__builtins__", "__loader__", "f_back", "f_globals"),
        *("eval", "exec", "compile", "__import__"),
    }
)


@functools.lru_cache(maxsize=8192)
def is_pure(name: str) -> bool | None:
    """Whether calls under this dotted name are known to be pure (True) or impure (False); None if
    unknown."""
    while name:
        if name in _TABLE:
            return _TABLE[name]
        name = name.rpartition(".")[0]
    return None


def impure_members(cls: type) -> frozenset[str] | None:
    """The names that code must not use, for objects of the class to count as pure; None if they
    never do."""
    for base in cls.__mro__:
        if (constant := _CONSTANT_MEMBERS.get(class_name(base))) is not None:
            return frozenset(name for name in dir(cls) if name[:2] != "__") - constant
    return None


@functools.lru_cache(maxsize=1024)
def _is_partly_pure(module: str) -> bool:
    """Whether the table has entries within a module."""
    return any(name.startswith(module + ".") for name in _TABLE)


def is_pure_frame(frame: FrameType) -> bool | None:
    """The same as `is_pure`, for the Python function running in a frame."""
    module = frame.f_globals.get("__name__")
    if type(module) is not str:
        return None
    return is_pure(frame_name(frame) if _is_partly_pure(module) else module)


def is_exempt(frame: FrameType) -> bool:
    """Whether calls from a frame, direct or not, are no part of what the function computes:
    warnings, logging, imports, pending signals, compiling the body of a loop."""
    name = str(frame.f_globals.get("__name__"))
    return name in _EXEMPT_MODULES or name.partition(".")[0] in _EXEMPT_PACKAGES


def frame_name(frame: FrameType) -> str:
    return f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}"


def class_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def builtin_name(called: Any) -> str:
    """The dotted name of a builtin function, or of a C method, by its defining class."""
    owner = getattr(called, "__objclass__", None) or called.__self__
    if owner is None or isinstance(owner, types.ModuleType):
        return f"{called.__module__}.{called.__qualname__}"
    for cls in (owner if isinstance(owner, type) else type(owner)).__mro__:
        if called.__name__ in vars(cls):
            return f"{class_name(cls)}.{called.__name__}"
    return f"{class_name(type(owner))}.{called.__name__}"


class VouchedCallables:
    """Functions, methods, classes and modules that a user declares pure."""

    def __init__(self, vouched: Iterable[Any] = ()) -> None:
        self._vouched = tuple(vouched)
        self._codes = {id(code) for x in self._vouched for code in _codes_of(x)}
        self._modules = tuple(x.__name__ for x in self._vouched if isinstance(x, types.ModuleType))

    def __reduce__(self) -> Any:
        others = [x for x in self._vouched if not isinstance(x, types.ModuleType)]
        return _vouched, (self._modules, others)

    def covers(self, x: Any) -> bool:
        """Whether an object is one of these, or an instance or member of one."""
        if not self._vouched:
            return False
        owner = getattr(x, "__self__", None) if isinstance(x, _BOUND_METHODS) else x
        classes = type(owner).__mro__ + (owner.__mro__ if isinstance(owner, type) else ())
        if any(v is x or v is owner or any(v is cls for cls in classes) for v in self._vouched):
            return True
        if isinstance(x, types.BuiltinFunctionType) and x in self._vouched:
            return True
        if isinstance(x, types.ModuleType):
            return self._is_within(x.__name__)
        is_defined = isinstance(x, (type, types.FunctionType, types.BuiltinFunctionType))
        return self._is_within(str((is_defined and x.__module__) or type(owner).__module__))

    def covers_frame(self, frame: FrameType) -> bool:
        """The same for the Python function running in a frame."""
        if not self._vouched:
            return False
        module = str(frame.f_globals.get("__name__"))
        return id(frame.f_code) in self._codes or self._is_within(module)

    def _is_within(self, module: str) -> bool:
        return any(module == name or module.startswith(name + ".") for name in self._modules)


_BOUND_METHODS = (types.BuiltinFunctionType, types.MethodType, types.MethodWrapperType)


def _codes_of(x: Any) -> list[CodeType]:
    """The code of a Python function, through its wrappers, or of all functions of a class."""
    found: list[CodeType] = []
    while x is not None:
        if isinstance(x, type):
            return [code for raw in vars(x).values() for code in _codes_of(raw)]
        if isinstance(x, types.FunctionType):
            found += [x.__code__, *_called_generators(x)]
        x = next(
            (vars_of for name in _WRAPPER_ATTRIBUTES if (vars_of := _wrapped(x, name)) is not None),
            None,
        )
    return found


def _called_generators(f: types.FunctionType) -> list[CodeType]:
    """The code of generator functions that a function calls: they may run after it has returned."""
    named = [f.__globals__.get(name) for name in f.__code__.co_names]
    return [
        x.__code__
        for x in named
        if isinstance(x, types.FunctionType)
        and x.__module__ == f.__module__
        and inspect.isgeneratorfunction(x)
    ]


_WRAPPER_ATTRIBUTES = ("_jitted", "function", "__wrapped__", "__func__", "func", "fget")


def _wrapped(x: Any, name: str) -> Any:
    held = getattr(x, name, None)
    return held if callable(held) or name == "_jitted" else None


def _vouched(modules: Sequence[str], others: list[Any]) -> VouchedCallables:
    """What pickle makes, which cannot hold modules."""
    return VouchedCallables([*map(importlib.import_module, modules), *others])


NONE_VOUCHED = VouchedCallables()
