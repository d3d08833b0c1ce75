"""Hooks run once, before the first leaf after the import of their library."""

import sys
import types

from tracker import gradient
from tracker.support import library_hooks


class Theirs:
    def double(self, x):
        return 2 * x


def test_hooks_run_with_the_first_leaf_after_the_import(monkeypatch):
    seen = []
    monkeypatch.setattr(library_hooks, "_hooks", {})
    library_hooks.when_imported("not_imported", seen.append)
    gradient(lambda x: x, 1.0)
    assert not seen
    module = types.ModuleType("not_imported")
    module.__spec__ = types.SimpleNamespace(_initializing=True)
    monkeypatch.setitem(sys.modules, "not_imported", module)
    gradient(lambda x: x, 1.0)
    assert not seen  # its import has not ended
    module.__spec__ = None
    monkeypatch.setitem(sys.modules, "another", types.ModuleType("another"))
    for _ in range(2):
        gradient(lambda x: x, 1.0)
    assert seen == [module]


def test_a_blocked_import_is_none(monkeypatch):
    monkeypatch.setattr(library_hooks, "_hooks", {})
    library_hooks.when_imported("blocked", lambda module: module.missing)
    monkeypatch.setitem(sys.modules, "blocked", None)
    assert gradient(lambda x: x * x, 1.0) == (2.0,)


def test_methods_are_wrapped_once():
    theirs = Theirs.double
    for _ in range(2):
        library_hooks.wrap_method(
            Theirs, "double", lambda method: lambda self, x: method(self, x) + 1
        )
    library_hooks.wrap_method(Theirs, "missing", lambda method: None)
    assert Theirs().double(1) == 3 and Theirs.double.__wrapped__ is theirs
