"""What every derivative of a function shares: arguments as leaves, results released.

Owns: `Wrapped` (the arguments of one derivative), `run`, `entry` (what a user gets for one leaf),
`release` (what a user gets of a result), `apart` (results that can be written into, each for
itself), `compiled_derivative` (the way to a jitted function's).

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
from tracker.autodiff.leaves import data, plain_cotangent
from tracker.errors import NotTrackedError, UnsupportedError, message
from tracker.ops.declare.rule_helpers import project
from tracker.ops.shape.create import identity, item
from tracker.ops.shape.shape import laid_out
from tracker.random.draw_ops import is_generator, recording
from tracker.support.array_copies import snapshot
from tracker.support.array_likes import Refusal, array_of, hidden_numbers
from tracker.tape.observers import Deriving, current_stage, current_watch, is_recording, stages
from tracker.tape.placeholders import settled
from tracker.tape.reachability import is_followed
from tracker.tape.record import apply, form_of, value_of, wrap
from tracker.tape.tracer import close, note_apart
from tracker.tape.tracked import Tracked
from tracker.tape.value import CLOSED, Value, leaf, new_epoch


class Wrapped:
    """The arguments of one derivative: their numbers as fresh leaves, and how to put results back.

    `leaves[i]` is the Value of leaf i of the flattened arguments, or None where it is not a number.
    `spent`: the op of what the function has computed once the derivative is done, for who keeps a
    value need not keep its history; None if a pullback was made meanwhile, which may go through it.
    `pullbacks` counts those that were made so far, by anybody.
    """

    spent: Any = None
    pullbacks = 0

    def __init__(self, args: Sequence[Any], only: Sequence[int] | None = None) -> None:
        self.since = new_epoch()
        self.leaves: list[Value | None] = []
        self.structures: list[tree.Structure] = []
        self.originals: list[Any] = []
        self.handles: list[tuple[Any, Value, Any]] = []  # handle, leaf, array of the caller
        self.args = tuple(
            self._wrap(arg, i) if only is None or i in only else recording(arg)
            for i, arg in enumerate(args)
        )
        for value in self.leaves:
            if value is not None:
                break
        else:
            _refuse_without_numbers(args, only)

    def _wrap(self, arg: Any, number: int) -> Any:
        if type(arg) is float or type(arg) is np.float64:  # small calls: spare them the walk
            plain = leaf(arg)
            self.structures.append(tree.LEAF)
            self.originals.append(arg)
            self.leaves.append(plain)
            return wrap(plain)
        if type(arg) is np.ndarray and arg.dtype.kind in "biufc":
            plain = leaf(_locked(snapshot(arg), arg))
            handle = wrap(plain)
            self.structures.append(tree.LEAF)
            self.originals.append(arg)
            self.leaves.append(plain)
            self.handles.append((handle, plain, arg))
            return handle
        found, structure = _flatten(arg, number)
        if current_stage() is not None:
            _tell_of_objects(structure, arg)
        self.structures.append(structure)
        self.originals.append(arg)
        wrapped = []
        for x, yes in zip(found, trained(arg, structure), strict=True):
            flag = structure.cls is not None and type(x) is bool
            value = _leaf_of(x, number) if yes and not flag else None
            self.leaves.append(value)
            handle = recording(x) if value is None else wrap(value)
            wrapped.append(handle)
            if value is not None and isinstance(x, np.ndarray):
                self.handles.append((handle, value, x))
        return tree.unflatten(structure, wrapped, arg)

    @property
    def own(self) -> list[Value]:
        return [value for value in self.leaves if value is not None]

    def check_writes(self) -> None:
        """A write into one of two arguments that share memory would have to reach both."""
        for handle, value, array in self.handles:
            if handle._value is value:
                continue
            if isinstance(array, Tracked):
                note_apart(value_of(array))
            for other, _, their in self.handles:
                if other is not handle and (
                    their is array or np.may_share_memory(data(array), data(their))
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
        for value in self.own:
            close(value)

    def restore(self, entries: list[Any]) -> tuple[Any, ...]:
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
            out.append(_restored(structure, iter(part), original))
        if current_stage() is not None:
            for structure, made in zip(self.structures, out, strict=True):
                note_objects(structure, made)
        return tuple(out)


def _restored(structure: tree.Structure, entries: Iterator[Any], original: Any) -> Any:
    """As `tree.unflatten`, but an empty structure gives None."""
    if structure.cls is None:
        return next(entries)
    if not structure.count:
        return None
    parts = tree.opened(original)
    originals = parts[1] if parts else (None,) * len(structure.children)
    kids = [_restored(s, entries, o) for s, o in zip(structure.children, originals, strict=True)]
    return tree.rebuild(structure.cls, structure.names, kids, original)


def trained(arg: Any, structure: tree.Structure) -> list[bool]:
    """Which leaves are trained: all, unless a class names its trainable fields."""
    if structure.cls is None:
        return [True]
    parts = tree.opened(arg)
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
            out.extend(trained(kid, below))
    return out


def _locked(copy: Any, x: Any) -> Any:
    """A copy that may be written into only if the original may."""
    if not x.flags.writeable:
        copy = copy.view()
        copy.flags.writeable = False
    return copy


def _is_one(x: Any) -> bool:
    """Whether it is one leaf of a derivative, and no container: a list of numbers is an array, and
    a method is not trained."""
    return _is_number_list(x) or tree.is_method(x)


def _is_number_list(x: Any) -> bool:
    """As `tree.is_number_list`, also where a trace or an outer derivative tracks the numbers."""
    return type(x) is list and (tree.is_number_list(x) or tree.is_number_list(x, data))


def _joined(x: Any) -> Any:
    return np.stack([_joined(e) for e in x]) if type(x) is list else x


def _flatten(arg: Any, number: int) -> tuple[list[Any], tree.Structure]:
    """The leaves of an argument that is differentiated, and its structure."""
    try:
        return tree.flatten(arg, _is_one, objects=True)
    except tree.TooDeep as error:
        raise tree.TooDeep(f"argument {number} (a {type(arg).__name__}): {error}") from None


UNSEEN = "a derivative is taken with respect to an object that the trace does not take apart"


def _tell_of_objects(structure: tree.Structure, arg: Any) -> None:
    """A trace cannot know what objects that it has not made will hold."""
    made = [stage.instances for stage in stages()]
    for x in tree.objects_in(structure, arg):
        if not any(id(x) in known for known in made):
            _spoil()


def _spoil() -> None:
    for stage in stages():
        stage.spoil(UNSEEN)


def note_objects(structure: tree.Structure, made: Any) -> None:
    """Tell a trace of objects of the user's own classes that a derivative has made."""
    stage = current_stage()
    if stage is not None and made is not None:
        stage.instances.update((id(x), x) for x in tree.objects_in(structure, made))


def _refuse_without_numbers(args: Sequence[Any], only: Sequence[int] | None) -> None:
    """Refuse a derivative with respect to nothing, where there are arguments."""
    names = [
        f"argument {i} is a {type(arg).__name__}"
        for i, arg in enumerate(args)
        if only is None or i in only
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


def _leaf_of(x: Any, number: int) -> Value | None:
    """A fresh leaf around a number or an array; None for what is not and has none. `number` is that
    of the argument it is in."""
    x = settled(x)
    if type(x) is list:
        x = np.array(x) if tree.is_number_list(x) else _joined(x)
    if isinstance(x, Tracked):  # an outer derivative's value: stand for it
        value = value_of(apply(identity, (x,)))
        if value.op is CLOSED:  # a trace that is no longer of use has forgotten its history
            value.op = None
        return value
    if type(x) is np.ndarray and x.dtype.kind in "biufc":
        return leaf(_locked(snapshot(x), x))
    if isinstance(x, (bool, int, float, complex, np.bool_, np.number)):
        return None if isinstance(x, enum.Enum) else leaf(x)
    if isinstance(x, np.memmap) and x.dtype.kind in "biufc":
        return leaf(_locked(np.array(x, subok=False), x))
    found = _offered(x, number)
    if found is None:
        return None
    _spoil()
    return leaf(found)


def _offered(x: Any, number: int) -> Any:
    """The array of what is no number and none of NumPy's; None if it holds no numbers."""
    if is_generator(x) or tree.is_method(x) or isinstance(x, np.memmap):
        return None
    found = array_of(x)
    if found is None:
        found = hidden_numbers(x)
    if not isinstance(found, Refusal):
        return found
    kind = UnsupportedError if isinstance(x, np.ndarray) else NotTrackedError
    raise kind(
        message(
            f"argument {number}: a {type(x).__name__} cannot be differentiated: it {found.why}",
            found.instead,
        )
    )


def with_arrays(arg: Any, number: int) -> Any:
    """An argument that is differentiated, with the arrays that parts of it offer in their place;
    itself, if there are none."""
    if type(arg) is not list and _is_usual(arg):
        return arg
    found, structure = _flatten(arg, number)
    arrays = [None if _is_usual(x) else _offered(x, number) for x in found]
    if all(x is None for x in arrays):
        return arg
    pairs = zip(found, arrays, strict=True)
    return tree.unflatten(structure, [x if made is None else made for x, made in pairs], arg)


def offered_array(x: Any) -> Any:
    """The array that an object of another class than NumPy's stands for; None if it is none."""
    found = None if _is_usual(x) else array_of(x)
    return None if isinstance(found, Refusal) else found


def with_all_arrays(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """As `with_arrays`, of all arguments, some number of which there must be."""
    if all(map(is_number_or_array, args)):
        return args
    made = tuple(with_arrays(arg, at) for at, arg in enumerate(args))
    if made and not any(tree.is_number(x) for arg in made for x in _flatten(arg, 0)[0]):
        _refuse_without_numbers(args, None)
    return made


def is_number_or_array(x: Any) -> bool:
    """Whether it surely is one of NumPy's arrays, or a number; of most it is quickly said."""
    cls = type(x)
    return (cls is np.ndarray and x.dtype.kind in "biufc") or cls is float or cls is np.float64


def _is_usual(x: Any) -> bool:
    """Whether it is of a class of which nothing needs to be asked."""
    return type(x) in _USUAL and (type(x) is not np.ndarray or x.dtype.kind in "biufc")


_USUAL = {float, int, bool, complex, np.float64, np.ndarray, list, type(None), str, Tracked}


def run(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], only: Any = None
) -> tuple[Wrapped, Any]:
    wrapped, pullbacks = Wrapped(args, only), Wrapped.pullbacks
    if wrapped.handles:
        _check_identity(f, wrapped.handles)
    if kwargs:
        kwargs = {name: recording(x) for name, x in kwargs.items()}
    try:
        with Deriving(wrapped.own, wrapped.handles):
            y = f(*wrapped.args, **kwargs)
    finally:
        wrapped.close()
    wrapped.check_writes()
    if pullbacks == Wrapped.pullbacks:
        wrapped.spent = CLOSED
    return wrapped, y


_Given: TypeAlias = Sequence[tuple[Any, Value, Any]]  # of each array: handle, leaf, the caller's
_check_identity: Callable[[Callable[..., Any], _Given], None]


def set_identity_check(check: Callable[[Callable[..., Any], _Given], None]) -> None:
    """Name what looks at a function and its arrays before it is run (said once, at import)."""
    global _check_identity
    _check_identity = check


def entry(c: Any, value: Value) -> Any:
    """What the user gets for one leaf."""
    x = value.form
    discrete = np.result_type(x).kind in "biu"
    if c is None:
        if discrete:
            return None
        return _in_class_of(np.zeros_like(wrap(value)), x) if is_recording() else _zero_like(x)
    if isinstance(c, Tracked) and is_followed(c):
        return _in_class_of(c if discrete else project(c, x), x)
    return plain_cotangent(c, x)


def _zero_like(x: Any) -> Any:
    return plain_cotangent(0.0, x)


def _in_class_of(c: Any, x: Any) -> Any:
    """A recorded cotangent as the class that `plain_cotangent` gives: array, NumPy's or Python's
    number."""
    have = type(form_of(c))
    if isinstance(x, np.ndarray):
        c = np.astype(c, x.dtype.type if x.dtype.kind in "fc" else np.float64)
        if have is not np.ndarray:
            return np.reshape(np.reshape(c, (1,)), ())
        return laid_out(c, "K", x) if 0 in form_of(c).strides and x.ndim > 1 else c
    if isinstance(x, np.inexact):
        if have is np.ndarray:
            return c[()]
        return np.astype(c, x.dtype) if have in (float, complex) else c
    return c if have in (float, complex) else apply(item, (c,))


def release(y: Any) -> Any:
    """What the user gets of a result."""
    if not isinstance(y, Tracked):
        return y
    array = type(form_of(y)) is np.ndarray
    if is_followed(y):
        return np.copy(y) if array else y
    return value_of(y).data.copy("K") if array else data(y)


def apart(results: Sequence[Any], given: Sequence[Any] = ()) -> list[Any]:
    """Results as arrays that can be written into, each its own: what is part of an array that was
    given, or of an earlier result, or repeats its elements, is copied."""
    taken = {id(_owner(x)) for x in given}
    return [_apart(x, taken) for x in results]


def _apart(x: Any, taken: set[int]) -> Any:
    if type(form_of(x)) is not np.ndarray:
        return x
    owner = _owner(x)
    if id(owner) in taken or not _is_whole(x, owner):
        return np.copy(x)
    taken.add(id(owner))
    return x


def _owner(x: Any) -> Any:
    """What an array lies in: itself, or what it is a view of."""
    view = getattr(x, "_view", None) if isinstance(x, Tracked) else None
    if view is not None:
        return _owner(view.base)
    return x.base if type(x) is np.ndarray and x.base is not None else x


def _is_whole(x: Any, owner: Any) -> bool:
    """Whether an array is the only way to its elements, each of which it has once."""
    if isinstance(x, Tracked):
        return owner is x
    known = type(owner) is np.ndarray and owner.flags.owndata
    return known and x.flags.writeable and (x.flags.forc or 0 not in x.strides)


Taken = Callable[[int], Sequence[int]]  # of so many positional arguments, the differentiated ones


def compiled_derivative(
    f: Callable[..., Any],
    key: Any,
    build: Callable[..., Any],
    *options: Any,
    taken: Taken = range,
) -> Callable[..., Any] | None:
    """The compiled derivative of a jitted function; None of a plain one, and while values are
    watched. That of a method takes the object as a first argument, which is not differentiated."""
    function, bound = unbound(f)
    derive = getattr(function, "_tracker_derive", None)
    if derive is None or current_watch() is not None:
        return None
    if not bound:
        return derive(key, lambda g: build(g, *options), taken)  # type: ignore[no-any-return]
    made = derive(
        ("method", key),
        lambda g: _of_method(g, lambda m: build(m, *options)),
        lambda count: [at + 1 for at in taken(count - 1)],
    )
    return MethodType(made, *bound)


def unbound(f: Any) -> tuple[Any, tuple[Any, ...]]:
    """A method's function and the object that it is bound to; another function, and nothing."""
    return (f.__func__, (f.__self__,)) if type(f) is MethodType else (f, ())


def _of_method(g: Callable[..., Any], build: Callable[..., Any]) -> Callable[..., Any]:
    return lambda bound, *args, **kwargs: build(MethodType(g, bound))(*args, **kwargs)
