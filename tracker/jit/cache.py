"""Files on disk, so that another process need not make again what one has made.

Owns: `get` and `put`, files of facts and bytes under `directory()`: $TRACKER_CACHE_DIR, else
`tracker` in the user's cache folder; TRACKER_CACHE=0 switches it off. Also `compile_or_load`, whose
files hold object code, and are named by a hash of the text, the processor, LLVM's version and
`_FORMAT`, which changes when the functions that texts call by name change their meaning. (The other
files are those of `recall.py`.) A file holds a header line (JSON: facts, and a hash of name, facts
and bytes), then the bytes.

Invariants: no text and no object code holds an address of a process; a file is written under
another name and then renamed, so readers see whole files only; a file that does not check out is
made anew and replaced; nothing here raises because of the disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from tracker.errors import CompileError
from tracker.jit import engine

_LIMIT = 256 << 20  # bytes of files to keep; beyond, the oldest go
_FORMAT = 2
_PRUNE_EVERY = 64  # files written by this process
_RECENT = 64  # texts whose object code is kept in this process
_written = itertools.count(1)
_Known = tuple[str, tuple[str, ...], bytes]  # a text, what it exports, its object code
_recent: dict[tuple[str, int], _Known] = {}


_kept: ContextVar[bool | None] = ContextVar("tracker_cache", default=None)


@contextlib.contextmanager
def kept(choice: bool | None) -> Iterator[None]:
    """Whether files are kept, within; None: as TRACKER_CACHE says."""
    token = _kept.set(choice)
    try:
        yield
    finally:
        _kept.reset(token)


def directory() -> Path | None:
    """Where files are kept; None: nowhere."""
    choice = _kept.get()
    if choice is False or (choice is None and os.environ.get("TRACKER_CACHE", "1") == "0"):
        return None
    chosen = os.environ.get("TRACKER_CACHE_DIR")
    if chosen:
        return Path(os.path.expanduser(chosen))
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "tracker" if os.path.isabs(home) else None  # a user without a home


def compile_or_load(
    text: str, *, level: int = engine.OPTIMISED, symbols: Mapping[str, int] | None = None
) -> engine.Module:
    """`engine.compile_module`, or the object code of an earlier time."""
    known = recent(text, level)
    if known is not None:
        text, exports, code = known  # the text as it is kept: a shape need not keep its own
        return engine.load(code, exports, symbols=symbols, text=text, level=level)
    module = _from_disk(text, level, symbols)
    _remember(text, level, module)
    return module


def recent(text: str, level: int) -> _Known | None:
    """A text, what it exports and its object code, if this process had it not long ago."""
    return _recent.get((text, level))


def _remember(text: str, level: int, module: engine.Module) -> None:
    """Keep object code in this process: another shape of a function often has the same text."""
    _recent[text, level] = (text, module.exports, module.object_code)
    while len(_recent) > _RECENT:
        _recent.pop(next(iter(_recent), ("", 0)), None)


def _from_disk(text: str, level: int, symbols: Mapping[str, int] | None) -> engine.Module:
    folder = directory()
    if folder is None:
        return engine.compile_module(text, level=level, symbols=symbols)
    name = f"{_key(text, level)}.o"
    found = get(name)
    if found is not None:
        # An object that does not link here is as good as none.
        with contextlib.suppress(CompileError, KeyError):
            exports = tuple(found[0]["exports"])
            return engine.load(found[1], exports, symbols=symbols, text=text, level=level)
    module = engine.compile_module(text, level=level, symbols=symbols)
    put(name, {"exports": module.exports}, module.object_code)
    return module


def _key(text: str, level: int) -> str:
    parts = (str(_FORMAT), engine.host(), str(level), text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def get(name: str) -> tuple[dict[str, Any], bytes] | None:
    """Facts and data of a file that checks out; None if there is none."""
    folder = directory()
    if folder is None:
        return None
    try:
        header, _, data = (folder / name).read_bytes().partition(b"\n")
        facts = json.loads(header)
        digest = facts.pop("sha256")
        return (facts, data) if digest == _digest(name, facts, data) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def put(name: str, facts: dict[str, Any], data: bytes) -> None:
    """Write a file, if files are kept, and if it can be written."""
    folder = directory()
    if folder is None:
        return
    header = json.dumps({**facts, "sha256": _digest(name, facts, data)})
    with contextlib.suppress(OSError):
        _write(folder / name, header.encode() + b"\n" + data)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
    if next(_written) % _PRUNE_EVERY == 0:
        _prune(path.parent)


def _digest(name: str, facts: Mapping[str, Any], data: bytes) -> str:
    """Of all that a file says, and of its name: it does not check out under another."""
    found = hashlib.sha256(json.dumps([name, facts]).encode())
    found.update(data)
    return found.hexdigest()


def _prune(folder: Path) -> None:
    """Remove the files that were written longest ago, once there are too many bytes."""
    files = []
    for entry in os.scandir(folder):
        with contextlib.suppress(OSError):  # another process may prune, too
            facts = entry.stat()
            files.append((facts.st_mtime, facts.st_size, entry.path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= _LIMIT:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size
