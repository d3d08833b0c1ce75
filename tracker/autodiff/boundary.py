"""What every derivative of a function shares: arguments as leaves, results released.

Owns: `LiftedArguments` (the arguments of one derivative), `run_lifted`, `gradient_entry` (what a
user gets for one leaf), `lower_output` (what a user gets of a result), `separate_outputs` (results
that can be written into, each for itself), `compiled_derivative` (the way to a jitted function's).

Every derivative has the same three steps: wrap the arguments' numbers in fresh leaves of a new
epoch, run the function, read the tape from the results to the leaves.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from types import MethodType
from typing import Any, TypeAlias

import numpy as np

from tracker import tree
from tracker.autodiff.leaves import plain_cotangent, plain_data
from tracker.errors import NotTrackedError, UnsupportedError, message
from tracker.ops.declare.rule_helpers import project
from tracker.ops.shape.create import identity, item
from tracker.ops.shape.shape import in_memory_order
from tracker.random.draw_ops import is_numpy_generator, recording_argument
from tracker.support.array_copies import snapshot
from tracker.support.array_likes import Refusal, array_from_object, hidden_numbers
from tracker.tape.observers import RunningDerivative, current_observer, is_tracing
from tracker.tape.placeholders import resolve_placeholder
from tracker.tape.reachability import is_history_needed
from tracker.tape.record import apply, aval_of, value_of, wrap
from tracker.tape.tracer import active_tracers, close_leaf, current_tracer, require_no_alias
from tracker.tape.tracked import Tracked
from tracker.tape.value import CLOSED, Value, leaf, new_epoch


class LiftedArguments:
    """The arguments of one derivative: their numbers as fresh leaves, and how to put results back.

    `leaves[i]` is the Value of leaf i of the flattened arguments, or None where it is not a number.
    `freed_op`: the op of what the function has computed once the derivative is done, for who keeps
    a value need not keep its history; None if a pullback was made meanwhile, which may go through
    it. `pullback_count` counts those that were made so far, by anybody.
    """

    freed_op: Any = None
    pullback_count = 0

    def __init__(self, args: Sequence[Any], argnums: Sequence[int] | None = None) -> None:
        self.epoch = new_epoch()
        self.leaves: list[Value | None] = []
        self.structures: list[tree.Structure] = []
        self.originals: list[Any] = []
        self.arrays: list[tuple[Any, Value, Any]] = []  # handle, leaf, array of the caller
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
        if type(arg) is float or type(arg) is np.float64:  # small calls: spare them the walk
            plain = leaf(arg)
            self.structures.append(tree.LEAF)
            self.originals.append(arg)
            self.leaves.append(plain)
            return wrap(plain)
        if type(arg) is np.ndarray and arg.dtype.kind in "biufc":
            plain = leaf(_match_writeable(snapshot(arg), arg))
            handle = wrap(plain)
            self.structures.append(tree.LEAF)
            self.originals.append(arg)
            self.leaves.append(plain)
            self.arrays.append((handle, plain, arg))
            return handle
        found, structure = _flatten_argument(arg, argnum)
        if current_tracer() is not None:
            _abort_for_unknown_objects(structure, arg)
        self.structures.append(structure)
        self.originals.append(arg)
        wrapped = []
        for x, yes in zip(found, trainable_mask(arg, structure), strict=True):
            flag = structure.cls is not None and type(x) is bool
            value = _lift_leaf(x, argnum) if yes and not flag else None
            self.leaves.append(value)
            handle = recording_argument(x) if value is None else wrap(value)
            wrapped.append(handle)
            if value is not None and isinstance(x, np.ndarray):
                self.arrays.append((handle, value, x))
        return tree.unflatten(structure, wrapped, arg)

    @property
    def own_leaves(self) -> list[Value]:
        return [value for value in self.leaves if value is not None]

    def check_aliased_writes(self) -> None:
        """A write into one of two arguments that share memory would have to reach both."""
        for handle, value, array in self.arrays:
            if handle._value is value:
                continue
            if isinstance(array, Tracked):
                require_no_alias(value_of(array))
            for other, _, their in self.arrays:
                if other is not handle and (
                    their is array or np.may_share_memory(plain_data(array), plain_data(their))
                ):
                    raise UnsupportedError(
                        message(
                            "the function writes into an argument that shares memory with another "
                            f"(shapes {array.shape} and {their.shape})",
                            "Pass a copy of one of them",
                        )
                    )

    def close(self) -> None:
        """The function has run: its leaves are constants for everyone else."""
        for value in self.own_leaves:
            close_leaf(value)

    def unflatten(self, entries: list[Any]) -> tuple[Any, ...]:
        """Entries, one per leaf, in the structures of the arguments."""
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
    """As `tree.unflatten`, but an empty structure gives None."""
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


def trainable_mask(arg: Any, structure: tree.Structure) -> list[bool]:
    """Which leaves are trained: all, unless a class names its trainable fields."""
    if structure.cls is None:
        return [True]
    parts = tree.children_or_attributes(arg)
    names, kids = parts if parts is not None else ((), ())
    allowed = getattr(type(arg), "trainable", None)
    if allowed is not None:
        allowed = arg.trainable() if callable(allowed) else arg.trainable
    out: list[bool] = []
    for i, (kid, below) in enumerate(zip(kids, structure.children, strict=True)):
        if allowed is not None and i < len(names) and names[i] not in allowed:
            out.extend([False] * below.count)
        elif below.cls is None:
            out.append(True)
        else:
            out.extend(trainable_mask(kid, below))
    return out


def _match_writeable(copy: Any, x: Any) -> Any:
    """A copy that may be written into only if the original may."""
    if not x.flags.writeable:
        copy = copy.view()
        copy.flags.writeable = False
    return copy


def _is_argument_leaf(x: Any) -> bool:
    """Whether it is one leaf of a derivative, and no container: a list of numbers is an array, and
    a method is not trained."""
    return _is_number_list(x) or tree.is_method(x)


def _is_number_list(x: Any) -> bool:
    """As `tree.is_number_list`, also where a trace or an outer derivative tracks the numbers."""
    return type(x) is list and (tree.is_number_list(x) or tree.is_number_list(x, plain_data))


def _stack_nested(x: Any) -> Any:
    return np.stack([_stack_nested(e) for e in x]) if type(x) is list else x


def _flatten_argument(arg: Any, argnum: int) -> tuple[list[Any], tree.Structure]:
    """The leaves of an argument that is differentiated, and its structure."""
    try:
        return tree.flatten(arg, _is_argument_leaf, objects=True)
    except tree.TooDeepError as error:
        raise tree.TooDeepError(f"argument {argnum} (a {type(arg).__name__}): {error}") from None


UNTRACED_OBJECT = (
    "a derivative is taken with respect to an object that the trace does not take apart"
)


def _abort_for_unknown_objects(structure: tree.Structure, arg: Any) -> None:
    """A trace cannot know what objects that it has not made will hold."""
    made = [stage.instances for stage in active_tracers()]
    for x in tree.user_objects(structure, arg):
        if not any(id(x) in known for known in made):
            _abort_traces()


def _abort_traces() -> None:
    for stage in active_tracers():
        stage.abort(UNTRACED_OBJECT)


def register_created_objects(structure: tree.Structure, made: Any) -> None:
    """Tell a trace of objects of the user's own classes that a derivative has made."""
    stage = current_tracer()
    if stage is not None and made is not None:
        stage.instances.update((id(x), x) for x in tree.user_objects(structure, made))


def _refuse_without_numbers(args: Sequence[Any], argnums: Sequence[int] | None) -> None:
    """Refuse a derivative with respect to nothing, where there are arguments."""
    names = [
        f"argument {i} is a {type(arg).__name__}"
        for i, arg in enumerate(args)
        if argnums is None or i in argnums
    ]
    if not names:
        return
    raise NotTrackedError(
        message(
            f"there is no number to differentiate with respect to: {', '.join(names)}",
            "Give numbers or arrays (np.asarray(x), x.to_numpy()), or structures that hold them: "
            "lists, dicts, a @dataclass, what tracker.tree.register knows",
        )
    )


def _lift_leaf(x: Any, argnum: int) -> Value | None:
    """A fresh leaf around a number or an array; None for what is not and has none. `argnum` is that
    of the argument it is in."""
    x = resolve_placeholder(x)
    if type(x) is list:
        x = np.array(x) if tree.is_number_list(x) else _stack_nested(x)
    if isinstance(x, Tracked):  # an outer derivative's value: stand for it
        value = value_of(apply(identity, (x,)))
        if value.op is CLOSED:  # a trace that is no longer of use has forgotten its history
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
    """The array of what is no number and none of NumPy's; None if it holds no numbers."""
    if is_numpy_generator(x) or tree.is_method(x) or isinstance(x, np.memmap):
        return None
    found = array_from_object(x)
    if found is None:
        found = hidden_numbers(x)
    if not isinstance(found, Refusal):
        return found
    kind = UnsupportedError if isinstance(x, np.ndarray) else NotTrackedError
    raise kind(
        message(
            f"argument {argnum}: a {type(x).__name__} cannot be differentiated: it {found.why}",
            found.instead,
        )
    )


def convert_array_likes(arg: Any, argnum: int) -> Any:
    """An argument that is differentiated, with the arrays that parts of it offer in their place;
    itself, if there are none."""
    if type(arg) is not list and _is_plain_class(arg):
        return arg
    found, structure = _flatten_argument(arg, argnum)
    arrays = [None if _is_plain_class(x) else _array_like_leaf(x, argnum) for x in found]
    if all(x is None for x in arrays):
        return arg
    pairs = zip(found, arrays, strict=True)
    return tree.unflatten(structure, [x if made is None else made for x, made in pairs], arg)


def array_like_data(x: Any) -> Any:
    """The array that an object of another class than NumPy's stands for; None if it is none."""
    found = None if _is_plain_class(x) else array_from_object(x)
    return None if isinstance(found, Refusal) else found


def convert_all_array_likes(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """As `convert_array_likes`, of all arguments, some number of which there must be."""
    if all(map(is_number_or_array, args)):
        return args
    made = tuple(convert_array_likes(arg, at) for at, arg in enumerate(args))
    if made and not any(
        tree.is_differentiable(x) for arg in made for x in _flatten_argument(arg, 0)[0]
    ):
        _refuse_without_numbers(args, None)
    return made


def is_number_or_array(x: Any) -> bool:
    """Whether it surely is one of NumPy's arrays, or a number; of most it is quickly said."""
    cls = type(x)
    return (cls is np.ndarray and x.dtype.kind in "biufc") or cls is float or cls is np.float64


def _is_plain_class(x: Any) -> bool:
    """Whether it is of a class of which nothing needs to be asked."""
    return type(x) in _PLAIN_CLASSES and (type(x) is not np.ndarray or x.dtype.kind in "biufc")


_PLAIN_CLASSES = {float, int, bool, complex, np.float64, np.ndarray, list, type(None), str, Tracked}


def run_lifted(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], argnums: Any = None
) -> tuple[LiftedArguments, Any]:
    wrapped, pullbacks = LiftedArguments(args, argnums), LiftedArguments.pullback_count
    if wrapped.arrays:
        _check_identity(f, wrapped.arrays)
    if kwargs:
        kwargs = {name: recording_argument(x) for name, x in kwargs.items()}
    try:
        with RunningDerivative(wrapped.own_leaves, wrapped.arrays):
            y = f(*wrapped.args, **kwargs)
    finally:
        wrapped.close()
    wrapped.check_aliased_writes()
    if pullbacks == LiftedArguments.pullback_count:
        wrapped.freed_op = CLOSED
    return wrapped, y


_LiftedArrays: TypeAlias = Sequence[
    tuple[Any, Value, Any]
]  # of each array: handle, leaf, the caller's
_check_identity: Callable[[Callable[..., Any], _LiftedArrays], None]


def set_identity_check(check: Callable[[Callable[..., Any], _LiftedArrays], None]) -> None:
    """Name what looks at a function and its arrays before it is run (said once, at import)."""
    global _check_identity
    _check_identity = check


def gradient_entry(c: Any, value: Value) -> Any:
    """What the user gets for one leaf."""
    x = value.aval
    discrete = np.result_type(x).kind in "biu"
    if c is None:
        if discrete:
            return None
        return _cast_like(np.zeros_like(wrap(value)), x) if is_tracing() else _zero_like(x)
    if isinstance(c, Tracked) and is_history_needed(c):
        return _cast_like(c if discrete else project(c, x), x)
    return plain_cotangent(c, x)


def _zero_like(x: Any) -> Any:
    return plain_cotangent(0.0, x)


def _cast_like(c: Any, x: Any) -> Any:
    """A recorded cotangent as the class that `plain_cotangent` gives: array, NumPy's or Python's
    number."""
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
    """What the user gets of a result."""
    if not isinstance(y, Tracked):
        return y
    array = type(aval_of(y)) is np.ndarray
    if is_history_needed(y):
        return np.copy(y) if array else y
    return value_of(y).data.copy("K") if array else plain_data(y)


def separate_outputs(results: Sequence[Any], inputs: Sequence[Any] = ()) -> list[Any]:
    """Results as arrays that can be written into, each its own: what is part of an array that was
    given, or of an earlier result, or repeats its elements, is copied."""
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
    """What an array lies in: itself, or what it is a view of."""
    view = getattr(x, "_view", None) if isinstance(x, Tracked) else None
    if view is not None:
        return _memory_base(view.base)
    return x.base if type(x) is np.ndarray and x.base is not None else x


def _owns_all_elements(x: Any, owner: Any) -> bool:
    """Whether an array is the only way to its elements, each of which it has once."""
    if isinstance(x, Tracked):
        return owner is x
    known = type(owner) is np.ndarray and owner.flags.owndata
    return known and x.flags.writeable and (x.flags.forc or 0 not in x.strides)


ArgnumsOf = Callable[
    [int], Sequence[int]
]  # of so many positional arguments, the differentiated ones


def compiled_derivative(
    f: Callable[..., Any],
    key: Any,
    build: Callable[..., Any],
    *options: Any,
    argnums_of: ArgnumsOf = range,
) -> Callable[..., Any] | None:
    """The compiled derivative of a jitted function; None of a plain one, and while values are
    watched. That of a method takes the object as a first argument, which is not differentiated."""
    function, bound = split_method(f)
    derive = getattr(function, "_tracker_derive", None)
    if derive is None or current_observer() is not None:
        return None
    if not bound:
        return derive(key, lambda g: build(g, *options), argnums_of)  # type: ignore[no-any-return]
    made = derive(
        ("method", key),
        lambda g: _method_derivative(g, lambda m: build(m, *options)),
        lambda count: [at + 1 for at in argnums_of(count - 1)],
    )
    return MethodType(made, *bound)


def split_method(f: Any) -> tuple[Any, tuple[Any, ...]]:
    """A method's function and the object that it is bound to; another function, and nothing."""
    return (f.__func__, (f.__self__,)) if type(f) is MethodType else (f, ())


def _method_derivative(g: Callable[..., Any], build: Callable[..., Any]) -> Callable[..., Any]:
    return lambda bound, *args, **kwargs: build(MethodType(g, bound))(*args, **kwargs)
