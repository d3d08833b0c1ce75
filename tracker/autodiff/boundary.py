"""The boundary of a derivative: arguments are lifted to leaves, results lowered to plain arrays.

All derivatives of a function take three steps: lift the arguments' numbers to fresh leaves of a new
epoch (`LiftedArguments`), run the function (`run_lifted`), walk the tape between leaves and results
(`reverse.py`, `forward.py`). `gradient_entry` and `lower_output` make what the user gets;
`compiled_derivative` is the way to the derivative of a jitted function instead.
"""

from __future__ import annotations

import contextlib
import enum
import sys
from collections.abc import Callable, Iterator, Sequence
from types import MethodType
from typing import Any, TypeAlias

import numpy as np

from tracker import tree
from tracker.autodiff.leaves import plain_cotangent, plain_data
from tracker.errors import NotTrackedError, UnsupportedError
from tracker.ops.declare.rule_helpers import project
from tracker.ops.shape.create import identity, item
from tracker.ops.shape.shape import in_memory_order
from tracker.random.draw_ops import is_numpy_generator, recording_argument
from tracker.rebinding import call_exchanged, exchange_suspended
from tracker.support.array_copies import snapshot
from tracker.support.array_likes import Refusal, array_from_object, hidden_numbers
from tracker.support.pickling import MadeMethod
from tracker.tape.labels import note_labels
from tracker.tape.live_leaves import counted_as_live, depends_on_live_leaf, is_history_needed
from tracker.tape.observers import RunningDerivative, current_observer, is_tracing
from tracker.tape.record import apply, aval_of, value_of, wrap
from tracker.tape.tracing.placeholders import resolve_placeholder
from tracker.tape.tracing.tracer import active_tracers, current_tracer, require_no_alias
from tracker.tape.tracked import Tracked
from tracker.tape.value import CLOSED, Value, is_lazy_copy, leaf, new_epoch


class LiftedArguments:
    """The arguments of one derivative: their numbers as fresh leaves, and their structures.

    leaves           per leaf of the flattened arguments its Value; None if it is not differentiated
    arrays           per array its tracked form, its leaf, and the caller's array
    freed_op         the op that values of the function get after the derivative, so that a kept
                     value does not keep its history; None if a pullback made meanwhile may need it
    pullback_count   of the process so far
    """

    freed_op: Any = None
    pullback_count = 0

    def __init__(self, args: Sequence[Any], argnums: Sequence[int] | None = None) -> None:
        self.epoch = new_epoch()
        self.leaves: list[Value | None] = []
        self.structures: list[tree.Structure] = []
        self.originals: list[Any] = []
        self.arrays: list[tuple[Any, Value, Any]] = []
        self.args = tuple(
            self._lift(arg, i) if argnums is None or i in argnums else recording_argument(arg)
            for i, arg in enumerate(args)
        )
        for value in self.leaves:
            if value is not None:
                break
        else:
            _refuse_without_numbers(args, argnums)

    def _lift(self, arg: Any, argnum: int) -> Any:
        if type(arg) is float or type(arg) is np.float64:  # fast path of small calls
            plain = leaf(arg)
            self.structures.append(tree.LEAF)
            self.originals.append(arg)
            self.leaves.append(plain)
            return wrap(plain)
        if type(arg) is np.ndarray and arg.dtype.kind in "biufc":
            plain = leaf(_match_writeable(snapshot(arg), arg))
            tracked = wrap(plain)
            self.structures.append(tree.LEAF)
            self.originals.append(arg)
            self.leaves.append(plain)
            self.arrays.append((tracked, plain, arg))
            return tracked
        found, structure = _flatten_argument(arg, argnum)
        if current_tracer() is not None:
            _abort_for_unknown_objects(structure, arg)
        self.structures.append(structure)
        self.originals.append(arg)
        lifted = []
        for x, is_trainable in zip(found, tree.trainable_mask(arg, structure), strict=True):
            is_flag = structure.cls is not None and type(x) is bool
            value = _lift_leaf(x, argnum) if is_trainable and not is_flag else None
            self.leaves.append(value)
            tracked = recording_argument(x) if value is None else wrap(value)
            lifted.append(tracked)
            if value is not None and isinstance(x, np.ndarray):
                self.arrays.append((tracked, value, x))
        return tree.unflatten(structure, lifted, arg)

    @property
    def own_leaves(self) -> list[Value]:
        return [value for value in self.leaves if value is not None]

    def dead_leaves(self) -> list[Value]:
        """Those of tracked arguments that a derivative, which is over, has left behind."""
        return [v for v in self.own_leaves if v.op is not None and not depends_on_live_leaf(v)]

    def check_aliased_writes(self) -> None:
        """Refuse a function that wrote into one of two arguments that share memory: the tape has
        two leaves, of which only one has changed."""
        for tracked, value, array in self.arrays:
            if tracked._value is value:
                continue
            if isinstance(array, Tracked):
                require_no_alias(value_of(array))
            for another, _, their in self.arrays:
                if another is not tracked and (their is array or _may_overlap(array, their)):
                    raise UnsupportedError(
                        "the function writes into an argument that shares memory with another "
                        f"(shapes {array.shape} and {their.shape})",
                        "Pass a copy of one of them",
                    )

    def gradient_entries(self, found: Sequence[Any]) -> list[Any]:
        """The user's entry for each leaf, from the cotangents of `own_leaves`."""
        arrived = iter(found)
        return [None if v is None else gradient_entry(next(arrived), v) for v in self.leaves]

    def unflatten(self, entries: list[Any]) -> tuple[Any, ...]:
        """The structures of the arguments around entries, one per leaf."""
        out = []
        at = 0
        for structure, original in zip(self.structures, self.originals, strict=True):
            if structure.cls is None:
                out.append(entries[at])
                at += 1
                continue
            part = entries[at : at + structure.count]
            at += structure.count
            out.append(_unflatten_or_none(structure, iter(part), original))
        if current_tracer() is not None:
            for structure, made in zip(self.structures, out, strict=True):
                register_created_objects(structure, made)
        return tuple(out)


def _unflatten_or_none(structure: tree.Structure, entries: Iterator[Any], original: Any) -> Any:
    """As `tree.unflatten`, but None for a structure without leaves."""
    if structure.cls is None:
        return next(entries)
    if not structure.count:
        return None
    parts = tree.children_or_attributes(original)
    originals = parts[1] if parts else (None,) * len(structure.children)
    kids = [
        _unflatten_or_none(s, entries, o)
        for s, o in zip(structure.children, originals, strict=True)
    ]
    return tree.rebuild(structure.cls, structure.names, kids, original)


def _may_overlap(a: Any, b: Any) -> bool:
    """Whether two arrays may share memory; a copy that is yet to be made shares none."""
    if any(isinstance(x, Tracked) and is_lazy_copy(value_of(x)) for x in (a, b)):
        return False
    return np.may_share_memory(plain_data(a), plain_data(b))


def _match_writeable(copy: Any, x: Any) -> Any:
    """The copy, read-only if the original is."""
    if not x.flags.writeable:
        copy = copy.view()
        copy.flags.writeable = False
    return copy


def _is_argument_leaf(x: Any) -> bool:
    """Whether an argument is one leaf: a list of numbers is an array, and methods are not
    trained."""
    return _is_number_list(x) or tree.is_method(x)


def _is_number_list(x: Any) -> bool:
    """As `tree.is_number_list`; the numbers may be tracked."""
    return type(x) is list and (tree.is_number_list(x) or tree.is_number_list(x, plain_data))


def stack_nested(x: Any) -> Any:
    """A nested list of numbers, some of them tracked, as an array; anything else as it is."""
    return np.stack([stack_nested(e) for e in x]) if type(x) is list and x else x


def _flatten_argument(arg: Any, argnum: int) -> tuple[list[Any], tree.Structure]:
    """The leaves and the structure of a differentiated argument."""
    try:
        return tree.flatten(arg, _is_argument_leaf, objects=True)
    except tree.TooDeepError as error:
        raise tree.TooDeepError(f"argument {argnum} (a {type(arg).__name__}): {error}") from None


UNTRACED_OBJECT = (
    "a derivative is taken with respect to an object that the trace does not take apart"
)


def _abort_for_unknown_objects(structure: tree.Structure, arg: Any) -> None:
    """Abort traces if an argument has objects that no trace has made: their attributes are not
    guarded."""
    known = {i for tracer in active_tracers() for i in tracer.instances}
    if any(id(x) not in known for x in tree.user_objects(structure, arg)):
        _abort_traces()


def _abort_traces() -> None:
    for tracer in active_tracers():
        tracer.abort(UNTRACED_OBJECT)


def register_created_objects(structure: tree.Structure, made: Any) -> None:
    """Register with the trace the objects of users' classes that a derivative has made."""
    tracer = current_tracer()
    if tracer is not None and made is not None:
        tracer.instances.update((id(x), x) for x in tree.user_objects(structure, made))


def _refuse_without_numbers(args: Sequence[Any], argnums: Sequence[int] | None) -> None:
    """Raise if there are arguments to differentiate, none of which holds a number."""
    names = [
        f"argument {i} is {_class_and_dtype(arg)}"
        for i, arg in enumerate(args)
        if argnums is None or i in argnums
    ]
    if not names:
        return
    raise NotTrackedError(
        f"there is no number to differentiate with respect to: {', '.join(names)}",
        "Give numbers or arrays (np.asarray(x), x.to_numpy()), or structures that hold them: "
        "lists, dicts, a @dataclass, what tracker.tree.register knows",
    )


def _class_and_dtype(x: Any) -> str:
    dtype = f" of {x.dtype}" if isinstance(x, np.ndarray) else ""
    return f"a {type(x).__name__}{dtype}"


def _lift_leaf(x: Any, argnum: int) -> Value | None:
    """A fresh leaf for a number or an array; None for anything else."""
    x = resolve_placeholder(x)
    if type(x) is list:
        x = np.array(x) if tree.is_number_list(x) else stack_nested(x)
    if isinstance(x, Tracked):  # of an outer derivative: a leaf that is computed from it
        value = value_of(apply(identity, (x,)))
        if value.op is CLOSED:  # an aborted trace has dropped its history
            value.op = None
        return value
    if type(x) is np.ndarray and x.dtype.kind in "biufc":
        return leaf(_match_writeable(snapshot(x), x))
    if isinstance(x, (bool, int, float, complex, np.bool_, np.number)):
        return None if isinstance(x, enum.Enum) else leaf(x)
    if isinstance(x, np.memmap) and x.dtype.kind in "biufc":
        return leaf(_match_writeable(np.array(x, subok=False), x))
    found = _array_like_leaf(x, argnum)
    if found is None:
        return None
    _abort_traces()
    return leaf(found)


def _array_like_leaf(x: Any, argnum: int) -> Any:
    """The array that a foreign object offers; None if it holds no numbers. Raises if the object
    would lose its meaning as an array."""
    if is_numpy_generator(x) or tree.is_method(x) or isinstance(x, np.memmap):
        return None
    found = _offered_array(x)
    if found is None:
        found = hidden_numbers(x)
    if not isinstance(found, Refusal):
        return found if found is None else note_labels(found, x)
    kind = UnsupportedError if isinstance(x, np.ndarray) else NotTrackedError
    raise kind(
        f"argument {argnum}: a {type(x).__name__} cannot be differentiated: it {found.why}",
        found.instead,
    )


def convert_array_likes(arg: Any, argnum: int) -> Any:
    """A differentiated argument with its foreign objects replaced by the arrays they offer."""
    if type(arg) is not list and _is_plain_class(arg):
        return arg
    found, structure = _flatten_argument(arg, argnum)
    arrays = [None if _is_plain_class(x) else _array_like_leaf(x, argnum) for x in found]
    if all(x is None for x in arrays):
        return arg
    pairs = zip(found, arrays, strict=True)
    return tree.unflatten(structure, [x if made is None else made for x, made in pairs], arg)


def _offered_array(x: Any) -> Any:
    """As `array_from_object`; the user's code that NumPy asks runs without drop-ins."""
    with exchange_suspended():
        return array_from_object(x)


def array_like_data(x: Any) -> Any:
    """The array that a foreign object offers; None if there is none."""
    found = None if _is_plain_class(x) else _offered_array(x)
    return None if isinstance(found, Refusal) else found


def convert_all_array_likes(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """As `convert_array_likes`, for all arguments; raises if there is no number among them."""
    if all(map(is_number_or_array, args)):
        return args
    made = tuple(convert_array_likes(arg, at) for at, arg in enumerate(args))
    if made and not any(
        tree.is_differentiable(x) for arg in made for x in _flatten_argument(arg, 0)[0]
    ):
        _refuse_without_numbers(args, None)
    return made


def is_number_or_array(x: Any) -> bool:
    """Whether `x` is surely a numeric NumPy array or a number (a quick test)."""
    cls = type(x)
    return (cls is np.ndarray and x.dtype.kind in "biufc") or cls is float or cls is np.float64


def _is_plain_class(x: Any) -> bool:
    """Whether `x` needs no look at the array that it might offer."""
    return type(x) in _PLAIN_CLASSES and (type(x) is not np.ndarray or x.dtype.kind in "biufc")


_PLAIN_CLASSES = {float, int, bool, complex, np.float64, np.ndarray, list, type(None), str, Tracked}


_NO_CONTEXT = contextlib.nullcontext()
_NUMBA_TEXTS = ("can't unbox array", "bad argument type for built-in operation")


def run_lifted(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], argnums: Any = None
) -> tuple[LiftedArguments, Any]:
    lifted, pullbacks = LiftedArguments(args, argnums), LiftedArguments.pullback_count
    if lifted.arrays:
        _check_identity(f, lifted.arrays)
    if kwargs:
        kwargs = {name: recording_argument(x) for name, x in kwargs.items()}
    running = RunningDerivative(lifted.own_leaves, lifted.arrays)
    try:
        dead = lifted.dead_leaves()
        with running, counted_as_live(dead) if dead else _NO_CONTEXT:
            y = call_exchanged(f, lifted.args, kwargs)
    except TypeError as error:
        if "numba" in sys.modules and str(error).startswith(_NUMBA_TEXTS):
            error.add_note("give numba's function its derivative: tracker.interop.from_numba(f)")
        raise
    finally:
        running.restore()
    lifted.check_aliased_writes()
    if pullbacks == LiftedArguments.pullback_count:
        lifted.freed_op = CLOSED
    return lifted, y


_LiftedArrays: TypeAlias = Sequence[tuple[Any, Value, Any]]  # as `LiftedArguments.arrays`
_check_identity: Callable[[Callable[..., Any], _LiftedArrays], None]


def set_identity_check(check: Callable[[Callable[..., Any], _LiftedArrays], None]) -> None:
    """Set the check of a function and its arrays before each run (called once, at import)."""
    global _check_identity
    _check_identity = check


def gradient_entry(c: Any, value: Value) -> Any:
    """The user's entry for a leaf, from its cotangent (None: nothing arrived)."""
    x = value.aval
    discrete = np.result_type(x).kind in "biu"
    if c is None:
        if discrete:
            return None
        is_recorded = is_tracing()
        return _cast_like(np.zeros_like(wrap(value)), x) if is_recorded else plain_cotangent(0.0, x)
    if isinstance(c, Tracked) and is_history_needed(value_of(c)):
        return _cast_like(c if discrete else project(c, x), x)
    return plain_cotangent(c, x)


def _cast_like(c: Any, x: Any) -> Any:
    """A recorded cotangent in the class that `plain_cotangent` gives: an array, a NumPy scalar or a
    Python number."""
    have = type(aval_of(c))
    if isinstance(x, np.ndarray):
        c = np.astype(c, x.dtype.type if x.dtype.kind in "fc" else np.float64)
        if have is not np.ndarray:
            return np.reshape(np.reshape(c, (1,)), ())
        return in_memory_order(c, "K", x) if 0 in aval_of(c).strides and x.ndim > 1 else c
    if isinstance(x, np.inexact):
        if have is np.ndarray:
            return c[()]
        return np.astype(c, x.dtype) if have in (float, complex) else c
    return c if have in (float, complex) else apply(item, (c,))


def lower_output(y: Any) -> Any:
    """A result as the user gets it: plain, unless an outer derivative or a trace needs it."""
    if not isinstance(y, Tracked):
        return y
    array = type(aval_of(y)) is np.ndarray
    if is_history_needed(value_of(y)):
        return np.copy(y) if array else y
    return value_of(y).data.copy("K") if array else plain_data(y)


def separate_outputs(results: Sequence[Any], inputs: Sequence[Any] = ()) -> list[Any]:
    """Results as independent writable arrays: views of inputs and of earlier results, and arrays
    with repeated elements, are copied."""
    taken = {id(_memory_base(x)) for x in inputs}
    return [_separate(x, taken) for x in results]


def _separate(x: Any, taken: set[int]) -> Any:
    if type(aval_of(x)) is not np.ndarray:
        return x
    owner = _memory_base(x)
    if id(owner) in taken or not _owns_all_elements(x, owner):
        return np.copy(x)
    taken.add(id(owner))
    return x


def _memory_base(x: Any) -> Any:
    """The array that owns the memory of an array: itself, or the base of a view."""
    view = getattr(x, "_view", None) if isinstance(x, Tracked) else None
    if view is not None:
        return _memory_base(view.base)
    return x.base if type(x) is np.ndarray and x.base is not None else x


def _owns_all_elements(x: Any, owner: Any) -> bool:
    """Whether an array, not a view, has each of its elements once."""
    if isinstance(x, Tracked):
        return owner is x
    known = type(owner) is np.ndarray and owner.flags.owndata
    return known and x.flags.writeable and (x.flags.forc or 0 not in x.strides)


ArgnumsOf = Callable[[int], Sequence[int]]  # given the number of positional arguments


def compiled_derivative(
    f: Callable[..., Any],
    key: Any,
    build: Callable[..., Any],
    *options: Any,
    argnums_of: ArgnumsOf = range,
) -> Callable[..., Any] | None:
    """The compiled derivative of a jitted function; None for a plain one, and while an observer
    is active. The derivative of a method takes the object as an undifferentiated argument."""
    function, bound = split_method(f)
    derive = getattr(function, "_tracker_derive", None)
    if derive is None or current_observer() is not None:
        return None
    if not bound:
        return derive(key, build, options, argnums_of)  # type: ignore[no-any-return]
    made = derive(
        ("method", key),
        _method_derivative,
        (build, *options),
        lambda count: [at + 1 for at in argnums_of(count - 1)],
    )
    return MethodType(made, *bound)


def split_method(f: Any) -> tuple[Any, tuple[Any, ...]]:
    """The function of a method, or of its derivative, and, as a tuple, its object; any other
    function and ()."""
    if type(f) is MadeMethod:
        return f.func, f.args
    return (f.__func__, (f.__self__,)) if type(f) is MethodType else (f, ())


def _method_derivative(
    g: Callable[..., Any], build: Callable[..., Any], *options: Any
) -> Callable[..., Any]:
    return lambda bound, *args, **kwargs: build(MethodType(g, bound), *options)(*args, **kwargs)
