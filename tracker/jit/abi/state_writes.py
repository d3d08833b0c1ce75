"""Writes of attributes, globals, closure cells and container items, as the plain function does
them.

All values are made first and written when nothing but memory can fail: a failing guard has written
nothing.

Invariant: the call owns both the value and its target meanwhile, because the object that is
replaced may run user code when it dies.
"""

from __future__ import annotations

from collections import defaultdict, deque

from tracker.jit.abi.call_checks import ArgumentChecks
from tracker.jit.abi.results import ResultBuilder
from tracker.jit.guards.captured_leaves import structure_at
from tracker.jit.guards.signature import StateWrite
from tracker.jit.guards.source import CellSource, ItemSource


class StateWriteEmitter:
    """The state writes, after the result is built; start at `emit`."""

    def __init__(self, inputs: ArgumentChecks, results: ResultBuilder) -> None:
        self.w, self.inputs, self.results = inputs.w, inputs, results
        self.updates = results.outputs.state_writes

    def emit(self) -> None:
        made = [
            None if update.structure is None else self.results.build_owned(update.structure)
            for update in self.updates
        ]
        for update, value in zip(self.updates, made, strict=True):
            target = self.inputs.targets[update.target]
            if value is None:
                self._delete(update, target)
            else:
                self._write(update, target, *value)

    def _write(self, update: StateWrite, target: str, x: str, made_slot: int) -> None:
        w = self.w
        if update.kind == "append" and self._container_class(update) is deque:
            self._append_to_deque(target, x)
            return
        if update.kind == "item" and self._container_class(update) is list:
            w.transfer(made_slot)  # the list takes the reference
            self._call_checked(f"@PyList_SetItem(ptr {target}, i64 {update.key}, ptr {x})")
            return
        self._call_checked(self._store_call(update, target, x))
        w.transfer(made_slot)
        w.decref(x)

    def _store_call(self, update: StateWrite, target: str, x: str) -> str:
        name = self.w.objects.name
        if update.kind == "append":
            return f"@PyList_Append(ptr {target}, ptr {x})"
        if update.kind == "item":
            setter = f"@{self._c_api_prefix(update)}_SetItem"
            return f"{setter}(ptr {target}, ptr {name(update.key)}, ptr {x})"
        source = update.target
        if isinstance(source, CellSource):
            return f"@PyCell_Set(ptr {target}, ptr {x})"
        if isinstance(source, ItemSource):
            return f"@PyDict_SetItem(ptr {target}, ptr {name(source.name)}, ptr {x})"
        attribute = update.key if isinstance(source, tuple) else source.name
        return f"@PyObject_GenericSetAttr(ptr {target}, ptr {name(attribute)}, ptr {x})"

    def _delete(self, update: StateWrite, target: str) -> None:
        key = self.w.objects.name(update.key)
        self._call_checked(f"@{self._c_api_prefix(update)}_DelItem(ptr {target}, ptr {key})")

    def _append_to_deque(self, target: str, x: str) -> None:
        """Append to a deque by its method; `x` is released when the call ends."""
        w = self.w
        cells = w.alloca("[2 x ptr]")
        w.store("ptr", target, cells, 0)
        w.store("ptr", x, cells, 8)
        name = w.objects.name("append")
        call = f"@PyObject_VectorcallMethod(ptr {name}, ptr {cells}, i64 2, ptr null)"
        answer = w.let(f"call ptr {call}")
        w.check(w.is_not_null(answer), "fail")
        w.decref(answer)

    def _c_api_prefix(self, update: StateWrite) -> str:
        """The C API for a container: an OrderedDict keeps its order outside the dict."""
        return "PyDict" if self._container_class(update) in (dict, defaultdict) else "PyObject"

    def _container_class(self, update: StateWrite) -> type | None:
        """The class of the container that is changed."""
        node = update.target
        assert isinstance(node, tuple)
        return structure_at(self.inputs.signature, node).cls

    def _call_checked(self, call: str) -> None:
        w = self.w
        w.check(w.equal("i32", w.let(f"call i32 {call}"), 0), "fail")
