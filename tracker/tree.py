"""Nested structures (pytrees): tuples, lists, dicts, named tuples, dataclasses, registered classes.
A method of an array or a generator is a container of that object.

With `objects`, also objects of the user's own classes: one that holds a number is a container of
its attributes, another is a leaf.

Invariants: `unflatten(*flatten(x)[::-1])` rebuilds `x` without running a constructor (except for
SciPy's results); structures are hashable and compare by value; what is not a container is a leaf; a
structure is at most `MAX_DEPTH` containers deep.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import BuiltinMethodType, MethodType, MethodWrapperType
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tracker.errors import UnsupportedError, message
from tracker.support import instances
from tracker.support.array_likes import offers_array
from tracker.support.pickling import made_by, part_of
from tracker.support.structs import record

if TYPE_CHECKING:
    from tracker.support.type_variables import AnyArray, NumberList, T

__all__ = ["flatten", "leaves", "map", "ravel", "register", "unflatten"]


def __dir__() -> list[str]:
    return __all__


@record(frozen=True)
class Structure:
    """One container: its class, the names of its children (keys, fields), and the children.

    A leaf is `LEAF`. `count` is the number of leaves below.
    """

    cls: type | None
    names: tuple[Any, ...]
    children: tuple[Structure, ...]
    count: int

    def __repr__(self) -> str:
        if self.cls is None:
            return "*"
        inner = ", ".join(
            repr(child) if name is None else f"{name}={child!r}"
            for name, child in zip(self.labels(), self.children, strict=True)
        )
        return f"{self.cls.__name__}({inner})"

    def labels(self) -> tuple[Any, ...]:
        """A name for each child, None where only its position tells."""
        return self.names if len(self.names) == len(self.children) else (None,) * len(self.children)


class TooDeepError(UnsupportedError):
    """A structure contains itself, or has more levels than `MAX_DEPTH`."""


LEAF = Structure(None, (), (), 1)
_COMMON_LEAVES = {
    float,
    int,
    bool,
    complex,
    np.float64,
    np.ndarray,
    str,
    type(None),
}  # of common leaves
MAX_DEPTH = 100  # nested containers; recursion over structures stays within the stack

Flatten = Callable[[Any], tuple[Iterable[Any], Any]]
Unflatten = Callable[[Any, Sequence[Any]], Any]
_REGISTERED: dict[type, tuple[Flatten, Unflatten]] = {}
_METHODS = (BuiltinMethodType, MethodWrapperType, MethodType)
_RANDOM = ("numpy.random._generator", "numpy.random.mtrand", "random")


def register(cls: type, flatten: Flatten, unflatten: Unflatten) -> None:
    """Make a class a container.

    Parameters
    ----------
    cls : type
        The class; dataclasses and named tuples need not be registered.
    flatten : callable
        `flatten(obj)` gives (children, aux), with an aux that can be a key.
    unflatten : callable
        `unflatten(aux, children)` gives the object.

    See Also
    --------
    register_object

    Examples
    --------
    >>> class Pair:
    ...     def __init__(self, a, b): self.a, self.b = a, b
    >>> register(Pair, lambda p: ((p.a, p.b), None), lambda aux, children: Pair(*children))
    >>> leaves(Pair(1.0, 2.0))
    [1.0, 2.0]
    """
    _REGISTERED[cls] = (flatten, unflatten)


def register_object(cls: type) -> None:
    """Make a class a container of its objects' attributes.

    Parameters
    ----------
    cls : type
        The class. Derivatives look into objects of your own classes without it; this makes all
        functions of `tracker.tree` do so.

    See Also
    --------
    register

    Examples
    --------
    >>> class Line:
    ...     def __init__(self): self.slope = 2.0
    >>> register_object(Line)
    >>> leaves(Line())
    [2.0]
    """
    register(
        cls,
        lambda x: (tuple(vars(x).values()), tuple(vars(x))),
        functools.partial(instances.new_with_attributes, cls),
    )


def is_namedtuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def _has_extra_fields(cls: type) -> bool:
    """Whether a class is one of SciPy's named tuples, with attributes besides their elements."""
    return hasattr(cls, "_extra_fields")


def children_of(x: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """(names, children) of a container, or None for a leaf."""
    cls = type(x)
    if cls in _COMMON_LEAVES:
        return None
    if cls is tuple:
        return (), x
    if cls in _REGISTERED:
        kids, aux = _REGISTERED[cls][0](x)
        return (aux,), tuple(kids)
    if cls is dict or isinstance(x, dict):
        if hasattr(cls, "shape"):  # SciPy's `dok_array`, which iterates over its rows
            return None
        return tuple(x), tuple(x.values())
    if isinstance(x, tuple):
        beside = vars(x) if _has_extra_fields(cls) else {}
        return (*getattr(x, "_fields", ()), *beside), (*x, *beside.values())
    if isinstance(x, list):
        return (), tuple(x)
    if dataclasses.is_dataclass(cls):
        names = [f.name for f in dataclasses.fields(x) if hasattr(x, f.name)]
        if not instances.instance_dict(x).keys() <= set(names):  # `__post_init__` has set more
            names += [name for name in instances.attributes(x) if name not in names]
        return tuple(names), tuple(getattr(x, name) for name in names)
    if is_method(x):
        return (x.__name__,), (x.__self__,)
    return None


def children_or_attributes(x: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """(names, children) of a container or of an object of the user's own class; or None."""
    parts = children_of(x)
    if parts is not None or type(x) in _COMMON_LEAVES:
        return parts
    if instances.is_user_class(type(x)) and not offers_array(x):
        found = instances.attributes(x)
        return tuple(found), tuple(found.values())
    return parts


def user_objects(structure: Structure, x: Any) -> Iterator[Any]:
    """The objects of the user's own classes that are containers in `x`, of this structure.
    Containers that are None in `x`, as in gradients, are left out."""
    parts = children_or_attributes(x) if structure.children else None
    if parts is None:
        return
    if children_of(x) is None:
        yield x
    for below, child in zip(structure.children, parts[1], strict=True):
        yield from user_objects(below, child)


def rebuild(
    cls: type, names: tuple[Any, ...], children: Sequence[Any], template: Any = None
) -> Any:
    """A container of class `cls` with these children; other attributes are `template`'s."""
    if cls in _REGISTERED:
        return _REGISTERED[cls][1](names[0], children)
    if cls in _METHODS:
        return getattr(children[0], names[0])
    if issubclass(cls, dict):
        if cls is dict:
            return dict(zip(names, children, strict=True))
        made = copy.copy(template) if template is not None else _new_dict(cls)
        items = zip(names, children, strict=True)
        if cls.update in (dict.update, OrderedDict.update):
            made.update(items)
        else:  # a Counter's counts
            for name, child in items:
                dict.__setitem__(made, name, child)
        return made
    if is_namedtuple(cls):
        if not _has_extra_fields(cls):
            return cls._make(children) if hasattr(cls, "_make") else cls(*children)
        bunch: Any = cls
        count = len(bunch._fields)
        made = tuple.__new__(bunch, children[:count])
        vars(made).update(zip(names[count:], children[count:], strict=True))
        return made
    if issubclass(cls, (tuple, list)):
        return cls(children)
    if not dataclasses.is_dataclass(cls):
        return instances.new_with_attributes(cls, names, children)
    made = copy.copy(template) if template is not None else object.__new__(cls)
    instances.drop_cached_properties(made)
    for name, child in zip(names, children, strict=True):
        object.__setattr__(made, name, child)
    return made


def _new_dict(cls: Any) -> Any:
    """An empty dict of a class; some (SciPy's `RootResults`) cannot be made without entries."""
    try:
        return cls()
    except TypeError:
        return cls.__new__(cls)


def is_method(x: Any) -> bool:
    """Whether it is a bound method of an array or of a random generator."""
    if type(x) not in _METHODS:
        return False
    return isinstance(x.__self__, np.ndarray) or type(x.__self__).__module__ in _RANDOM


def is_number_list(x: Any, plain_of: Callable[[Any], Any] | None = None) -> bool:
    """Whether a list is an array in disguise: numbers, or equally long lists of them; not empty.
    `plain_of` gives the plain number of a placeholder."""
    return type(x) is list and _extents(x, plain_of, _MAX_RANK) is not None


_MAX_RANK = 64  # NumPy's arrays have no more axes


def _extents(x: Any, plain_of: Callable[[Any], Any] | None, ranks: int) -> tuple[int, ...] | None:
    """The shape of a number or of nested lists of numbers; None if it is neither."""
    if type(x) is not list:
        cls = type(x) if plain_of is None else type(plain_of(x))
        return () if issubclass(cls, (int, float, complex, np.number)) else None
    if not x or not ranks:
        return None
    first = _extents(x[0], plain_of, ranks - 1)
    if first is None or any(_extents(e, plain_of, ranks - 1) != first for e in x[1:]):
        return None
    return (len(x), *first)


def flatten(
    x: Any, is_leaf: Callable[[Any], bool] | None = None, *, objects: bool = False
) -> tuple[list[Any], Structure]:
    """The leaves of `x` in order, and its structure. With `objects`, objects of the user's own
    classes that hold numbers are containers.

    Parameters
    ----------
    x
        Any structure.
    is_leaf : callable, optional
        Says of a part of `x` whether it counts as a leaf.
    objects : bool
        Whether objects of your own classes that hold numbers are containers.

    Returns
    -------
    leaves : list
    structure : Structure
        Compares by value, and can be a key.

    See Also
    --------
    unflatten

    Examples
    --------
    >>> flatten({"w": [1.0, 2.0], "f": None})
    ([1.0, 2.0, None], dict(w=list(*, *), f=*))
    """
    found: list[Any] = []
    return found, _flatten_into(
        found, x, is_leaf, children_or_attributes if objects else children_of, MAX_DEPTH
    )


_Open = Callable[[Any], tuple[tuple[Any, ...], tuple[Any, ...]] | None]


def _flatten_into(
    found: list[Any], x: Any, is_leaf: Callable[[Any], bool] | None, open: _Open, depth: int
) -> Structure:
    parts = None if is_leaf is not None and is_leaf(x) else open(x)
    if parts is None:
        found.append(x)
        return LEAF
    if not depth:
        raise TooDeepError(_too_deep_text(x))
    before = len(found)
    kids = tuple([_flatten_into(found, child, is_leaf, open, depth - 1) for child in parts[1]])
    if (
        open is children_or_attributes
        and children_of(x) is None
        and not any(map(is_differentiable, found[before:]))
    ):
        found[before:] = [x]
        return LEAF
    return Structure(type(x), parts[0], kids, len(found) - before)


def _too_deep_text(x: Any) -> str:
    """The message for containers nested too deeply; `x` is the innermost one looked at."""
    return message(
        f"a structure contains itself, or is more than {MAX_DEPTH} containers deep; the innermost "
        f"one that was looked at is a {type(x).__name__}",
        "Give arrays, and structures without references back to what holds them; what is not "
        "differentiated can be passed by keyword",
    )


def unflatten(structure: Structure, leaves: Iterable[Any], template: Any = None) -> Any:
    """The value with this structure and these leaves.

    Parameters
    ----------
    structure : Structure
        From `flatten`.
    leaves : iterable
        As many as the structure has.
    template : optional
        A value of this structure, whose other attributes objects of your own classes get.

    Returns
    -------
    No constructor is run.

    See Also
    --------
    flatten

    Examples
    --------
    >>> unflatten(flatten({"w": (1.0, 2.0)})[1], [3.0, 4.0])
    {'w': (3.0, 4.0)}
    """
    given = list(leaves)
    if len(given) != structure.count:
        text = f"the structure {structure!r} has {structure.count} leaves; {len(given)} were given"
        raise ValueError(message(text, "Give as many leaves as tree.flatten has returned"))
    return _unflatten_from(structure, iter(given), template)


def _unflatten_from(structure: Structure, leaves: Iterator[Any], template: Any) -> Any:
    if structure.cls is None:
        return next(leaves)
    parts = None if template is None else children_or_attributes(template)
    templates = parts[1] if parts else (None,) * len(structure.children)
    kids = [
        _unflatten_from(child, leaves, t)
        for child, t in zip(structure.children, templates, strict=True)
    ]
    return rebuild(structure.cls, structure.names, kids, template)


def map(f: Callable[..., Any], x: Any, *rest: Any, objects: bool = True) -> Any:
    """Apply `f` to the leaves of structures that have the shape of `x`; `objects` of the user's own
    classes that hold numbers are containers.

    Parameters
    ----------
    f : callable
        Of one leaf of each structure.
    x, *rest
        Structures. Those in `rest` have the structure of `x`.
    objects : bool
        Whether objects of your own classes that hold numbers are containers.

    Returns
    -------
    Of the structure of `x`.

    Examples
    --------
    >>> map(lambda p, g: p - 0.5 * g, {"w": 1.0}, {"w": 2.0})
    {'w': 0.0}
    """
    parts = children_of(x)
    if parts is None:
        if type(x) in _COMMON_LEAVES:
            return f(x, *rest)
        return map_as(flatten(x, objects=objects)[1], f, x, *rest)
    columns = [_children_like(x, parts, other) for other in rest]
    kids = [map(f, *row, objects=objects) for row in zip(parts[1], *columns, strict=True)]
    return rebuild(type(x), parts[0], kids, x)


def map_as(structure: Structure, f: Callable[..., Any], x: Any, *rest: Any) -> Any:
    """As `map`, for an `x` with this structure."""
    if structure.cls is None:
        return f(x, *rest)
    parts = children_or_attributes(x)
    assert parts is not None
    columns = [_children_like(x, parts, other) for other in rest]
    kids = [
        map_as(child, f, *row)
        for child, *row in zip(structure.children, parts[1], *columns, strict=True)
    ]
    return rebuild(type(x), parts[0], kids, x)


def _children_like(
    x: Any, parts: tuple[tuple[Any, ...], tuple[Any, ...]], other: Any
) -> tuple[Any, ...]:
    """The children of `other`, which must match `x`; None stands for a container of None."""
    if other is None:
        return (None,) * len(parts[1])
    found = children_or_attributes(other)
    both = isinstance(x, dict) and isinstance(other, dict)
    if found is None or len(found[1]) != len(parts[1]) or (both and set(x) != set(other)):
        raise ValueError(
            f"structures differ: {flatten(x)[1]!r} and {flatten(other)[1]!r}; "
            "give tree.map structures of the same shape"
        )
    if both or (children_of(x) is None and set(found[0]) == set(parts[0])):
        named = dict(zip(*found, strict=True))
        return tuple(named[key] for key in parts[0])
    return found[1]


def leaves(x: Any, *, objects: bool = False) -> list[Any]:
    """The leaves of `x`, in order.

    Parameters
    ----------
    x
        Any structure.
    objects : bool
        As for `map`.

    Returns
    -------
    list

    Examples
    --------
    >>> leaves({"w": (1.0, 2.0), "b": 3.0})
    [1.0, 2.0, 3.0]
    """
    return flatten(x, objects=objects)[0]


def trainable_mask(arg: Any, structure: Structure) -> list[bool]:
    """Which leaves are trained: all but those of fields that a class's `trainable` leaves out."""
    if structure.cls is None:
        return [True]
    parts = children_or_attributes(arg)
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


def parameter_leaves(x: Any) -> tuple[list[Any], list[bool], Structure]:
    """The leaves of parameters, lists of numbers as arrays; which of them optimisers move (floats
    and complex numbers that are trainable: integers and bools are settings); and the structure."""
    found, structure = flatten(x, is_number_list, objects=True)
    found = [np.array(leaf) if type(leaf) is list else leaf for leaf in found]
    pairs = zip(found, trainable_mask(x, structure), strict=True)
    return found, [yes and _is_inexact(leaf) for leaf, yes in pairs], structure


def _is_inexact(leaf: Any) -> bool:
    if isinstance(leaf, (float, complex)):
        return True
    return is_numeric(leaf) and hasattr(leaf, "dtype") and leaf.dtype.kind in "fc"


@overload
def ravel(x: NumberList) -> tuple[AnyArray, Callable[[Any], AnyArray]]: ...
@overload
def ravel(x: T) -> tuple[AnyArray, Callable[[Any], T]]: ...
def ravel(x: Any) -> tuple[AnyArray, Callable[[Any], Any]]:
    """All floats of `x` in one vector, and the function that turns such a vector back into a
    structure.

    Parameters
    ----------
    x
        Any structure. A list of numbers is an array. Integers and bools inside structures, text and
        what is not trainable stay as they are, so that parameters and their gradient (of
        `withgradient` or `value_and_grad`) give vectors of one size.

    Returns
    -------
    vector : ndarray
        Of one dimension.
    back : callable
        Gives a structure like `x` for such a vector.

    Examples
    --------
    >>> vector, back = ravel({"w": np.ones(2), "b": 3.0, "layers": 2})
    >>> vector
    array([1., 1., 3.])
    >>> back(2 * vector)
    {'w': array([2., 2.]), 'b': 6.0, 'layers': 2}
    """
    found, trained, structure = parameter_leaves(x)
    if structure.cls is None:  # a single number or array, to which there are no settings
        trained = [is_numeric(found[0]) and type(x) is not bool]
    parts = [np.ravel(leaf) for leaf, yes in zip(found, trained, strict=True) if yes]
    vector = np.concatenate(parts) if parts else np.empty(0)

    def restore(flat: Any) -> Any:
        out, at = [], 0
        for leaf, yes in zip(found, trained, strict=True):
            if not yes:
                out.append(leaf)
                continue
            size = int(np.size(leaf))
            out.append(_like(leaf, np.reshape(flat[at : at + size], np.shape(leaf))))
            at += size
        return unflatten(structure, out, x)

    return vector, made_by(restore, part_of, functools.partial(ravel, x), 1)


def _like(leaf: Any, piece: Any) -> Any:
    """A part of a vector with the class and dtype of a float leaf; integers may become floats."""
    plain = type(piece) is np.ndarray
    if isinstance(leaf, (float, complex)) and not isinstance(leaf, np.generic):
        if _is_complex(piece):
            return piece[()]
        return leaf.__class__(piece[()]) if plain else piece.item()  # tracked values have `item`
    kind = leaf.dtype if hasattr(leaf, "dtype") else piece.dtype
    if kind.kind in "fc" and kind != piece.dtype and not (kind.kind == "f" and _is_complex(piece)):
        piece = piece.astype(kind)
    return piece if np.ndim(leaf) else piece[()]


def _is_complex(x: Any) -> bool:
    return bool(x.dtype.kind == "c")


def is_numeric(x: Any) -> bool:
    """Whether a leaf is a number or an array of numbers (bools count, objects and text do not)."""
    if isinstance(x, (bool, int, float, complex)):
        return True
    dtype = getattr(x, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind in "biufc" and hasattr(x, "shape")


def is_differentiable(x: Any) -> bool:
    """Whether a derivative may be taken with respect to a leaf: not for a bool."""
    return type(x) is not bool and (is_numeric(x) or is_number_list(x) or offers_array(x))
