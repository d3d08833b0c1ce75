"""The array that a frame stores an element into: what `a`, `model.state` or `rows[i]` stands for in
`rows[i][0] = x`.

It is read off the bytecode and the frame's variables; nothing of the user's code runs.
"""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
import types
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

from tracker.support.frames.holders import Place, attribute_place

UNKNOWN: Any = object()
STORES = ("STORE_SUBSCR", "STORE_SLICE")  # the latter from Python 3.12 on
_Step = tuple[str, Any]  # what to do to a stack, and the operand
_LOADS = ("LOAD_FAST", "LOAD_DEREF", "LOAD_GLOBAL", "LOAD_NAME")
_CONTAINERS, _KEYS = (dict, list, tuple), (str, int, float, bool, tuple)


class Target(NamedTuple):
    """What an expression stands for, and where that is held, unless by a local variable. Without
    text if it has calls, say."""

    text: str = ""
    array: Any = UNKNOWN
    place: Place | None = None


def stored_into(frame: FrameType) -> Target:
    """What the instruction that a frame executes stores into."""
    stack: list[Target] = []
    for kind, operand in _target_expression(frame.f_code, frame.f_lasti):
        if kind == "name":
            is_global = operand not in frame.f_locals and operand in frame.f_globals
            place = Place(frame.f_globals, operand) if is_global else None
            stack.append(Target(operand, variable(operand, frame), place))
        elif kind == "constant":
            stack.append(Target("", operand))
        elif kind == "attribute":
            text, x, _ = stack.pop()
            stack.append(
                Target(f"{text}.{operand}", member(x, operand), attribute_place(x, operand))
            )
        else:
            (_, key, _), (text, x, _) = stack.pop(), stack.pop()
            place = Place(x, key) if type(x) in (dict, list) else None
            stack.append(Target(f"{text}[...]", _item(x, key), place))
    return stack[0] if stack else Target()


def variable(name: str, frame: FrameType) -> Any:
    """What a name stands for in a frame."""
    for variables in (frame.f_locals, frame.f_globals, frame.f_builtins):
        if name in variables:
            return variables[name]
    return UNKNOWN


def member(x: Any, name: str) -> Any:
    """An attribute, found without running code of the object's class."""
    if isinstance(x, types.ModuleType):
        return vars(x)[name] if name in vars(x) else getattr(x, name, UNKNOWN)
    found = inspect.getattr_static(x, name, UNKNOWN)
    if isinstance(found, (classmethod, staticmethod)):
        return found.__func__
    return getattr(x, name, UNKNOWN) if type(found) is types.MemberDescriptorType else found


def _item(x: Any, key: Any) -> Any:
    if type(x) not in _CONTAINERS or type(key) not in _KEYS:
        return UNKNOWN
    try:
        return x[key]
    except (LookupError, TypeError):
        return UNKNOWN


@functools.lru_cache(maxsize=1024)
def _target_expression(code: CodeType, offset: int) -> Sequence[_Step]:
    """How to compute what the instruction at an offset stores into; nothing if that is unknown."""
    steps = [step for step in dis.get_instructions(code) if step.offset <= offset]
    if not steps or steps[-1].opname not in STORES:
        return ()
    # Counted from the end of the stack, below the key; `a[i] += x` loads `a` and `i` first.
    slot = -3 if steps[-1].opname == "STORE_SLICE" else -2
    if steps[-2].opname == "SWAP":
        slot -= 1
    found: list[_Step | None] = []
    depth = 0
    for operation, effect in _straight_line(steps):
        if found or depth == slot + 1:  # of the expression, which ends at this depth
            found.append(operation)
        depth -= effect
        if depth <= slot:
            break
    else:
        return ()
    known = tuple(each for each in reversed(found) if each is not None)
    return known if len(known) == len(found) else ()


def _straight_line(steps: Sequence[dis.Instruction]) -> Iterator[tuple[_Step | None, int]]:
    """What the instructions before the last one do, latest first, as far as nothing jumps between
    them: `(a if c else b)[0] = x` stores into one of two."""
    for step, following in reversed(list(itertools.pairwise(steps))):
        if following.is_jump_target:
            return
        yield from reversed(list(_operations(step)))


def _operations(step: dis.Instruction) -> Iterator[tuple[_Step | None, int]]:
    """What an instruction does, and by how much the stack grows: loads of two variables are one
    instruction from Python 3.13 on. None if the expression is unknown."""
    if step.opcode in dis.hasjrel:
        yield None, 0
        return
    effect = dis.stack_effect(step.opcode, step.arg, jump=False)
    names: Sequence[str] = ()
    if step.opname == "STORE_FAST_LOAD_FAST":
        names = step.argval[1:]
    elif step.opname.startswith(_LOADS):
        names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
    if names:
        if effect != len(names):  # below a global that is called, there is a place for its owner
            yield None, effect - len(names)
        yield from ((("name", name), 1) for name in names)
        return
    kind = _KINDS.get(step.opname)
    yield None if kind is None else (kind, step.argval), effect


_KINDS = {"LOAD_CONST": "constant", "LOAD_ATTR": "attribute", "BINARY_SUBSCR": "item"}
