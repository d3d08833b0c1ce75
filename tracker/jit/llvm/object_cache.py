"""Files on disk, shared by processes, and object code kept in this process.

`read` and `put` access files of facts (JSON) and bytes in `directory()`: a folder of this cache
below $TRACKER_CACHE_DIR, else below `tracker` in the user's cache folder; TRACKER_CACHE=0 switches
them off. `compile_or_load` stores object code, under a hash of the text, the processor and LLVM's
version; `jit/pipeline/lowered_cache.py` stores the texts of programs. A file is a header line
(facts, and a hash of name, facts and bytes), then the bytes. `_FORMAT_VERSION` is part of the
folder's name; it changes when functions that texts call by name change their meaning.

Invariants:
- No text and no object code holds an address of a process.
- A file is written under another name and then renamed, so readers see complete files only.
- A file is read only if it is a regular file of this user, in a folder of this user, and no
  other user can write to either. A file that fails its hash is recomputed and replaced.
- Only files of these kinds are removed, and only from the cache's own folder.
- No error of the disk is raised.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

from tracker.errors import message, warn
from tracker.jit.llvm import engine
from tracker.support.deferred_signals import SIGNALS_DEFERRED

_MAX_TOTAL_BYTES = 256 << 20  # of all files; the oldest are removed at an eighth more
_MAX_FILE_BYTES = 64 << 20
_FORMAT_VERSION = 3
_SUFFIXES = (".o", ".program")
_PARTIAL_SUFFIX = ".part"  # of a file that is being written
_STALE_SECONDS = 3600  # age at which a partial file is abandoned
_TALLY_FILE = "written"  # its length counts what was written since the last prune
_BYTES_PER_TALLY = 4096  # each byte of the tally stands for so many
_MAX_RECENT = 64  # texts with object code in this process
# Follow no link, wait for no pipe, acquire no terminal.
_SAFE_OPEN_FLAGS = sum(
    getattr(os, f"O_{name}", 0) for name in ("NOFOLLOW", "NONBLOCK", "NOCTTY", "BINARY")
)
_Result = TypeVar("_Result")
_CachedObject = tuple[str, tuple[str, ...], bytes]  # text, exports, object code
_recent: dict[tuple[str, int], _CachedObject] = {}


_disk_override: ContextVar[bool | None] = ContextVar("tracker_cache", default=None)


@contextlib.contextmanager
def override_disk_cache(enabled: bool | None) -> Iterator[None]:
    """Use files, or not, inside the context; None: as TRACKER_CACHE says."""
    token = _disk_override.set(enabled)
    try:
        yield
    finally:
        _disk_override.reset(token)


def directory() -> Path | None:
    """The folder of the cache, whether or not it exists; None: no files."""
    enabled = _disk_override.get()
    if enabled is False or (enabled is None and os.environ.get("TRACKER_CACHE", "1") == "0"):
        return None
    named = _configured_folder()
    if named is None:
        return None
    folder = named / f"tracker-{_FORMAT_VERSION}"
    return folder if _is_private_folder(folder) else None


def _configured_folder() -> Path | None:
    configured = os.environ.get("TRACKER_CACHE_DIR")
    if configured:
        return Path(os.path.expanduser(configured))
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "tracker" if os.path.isabs(home) else None  # a user without a home


_warned_of: set[Path] = set()


def _is_private_folder(folder: Path) -> bool:
    """Whether only this user can write to a folder, or the folder does not exist; warns once."""
    with SIGNALS_DEFERRED:  # a signal handler may raise a TimeoutError, which is an OSError
        try:
            facts = os.lstat(folder)
        except OSError:
            return True
    if stat.S_ISDIR(facts.st_mode) and _is_owned_by_user(facts):
        return True
    if folder not in _warned_of:
        _warned_of.add(folder)
        what = f"compiled code is not kept on disk: others can write to {folder}"
        fix = "Set TRACKER_CACHE_DIR to a folder of your own, or TRACKER_CACHE=0"
        warn(message(what, fix, ""), RuntimeWarning)
    return False


def _is_owned_by_user(facts: os.stat_result) -> bool:
    """Whether this user owns a file or folder, and no other user may write to it."""
    if not hasattr(os, "geteuid"):  # Windows: a user's folders are closed to others
        return True
    return facts.st_uid == os.geteuid() and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def compile_or_load(
    text: str, *, level: int = engine.OPTIMISED, symbols: Mapping[str, int] | None = None
) -> engine.Module:
    """`engine.compile_module`, or object code of this or a higher level from memory or disk."""
    levels = sorted({level, engine.OPTIMISED}, reverse=True)
    for known in levels:
        recent = _recent.get((text, known))
        if recent is not None:
            text, exports, code = recent  # the stored text: shapes share one string
            return engine.load(code, exports, symbols=symbols, text=text, level=known)
    for known in levels:
        module = _read_object(text, known, symbols)
        if module is not None:
            break
    else:
        module, known = engine.compile_module(text, level=level, symbols=symbols), level
        put(_file_name(text, level), {"exports": module.exports}, module.object_code)
    _keep_recent(text, known, module)
    return module


def _keep_recent(text: str, level: int, module: engine.Module) -> None:
    """Keep object code in this process: another shape of a function often has the same text."""
    _recent[text, level] = (text, module.exports, module.object_code)
    while len(_recent) > _MAX_RECENT:
        _recent.pop(next(iter(_recent), ("", 0)), None)


def _read_object(text: str, level: int, symbols: Mapping[str, int] | None) -> engine.Module | None:
    """A module of a text that is on disk."""

    def load(facts: dict[str, Any], code: bytes) -> engine.Module:
        exports = tuple(facts["exports"])
        return engine.load(code, exports, symbols=symbols, text=text, level=level)

    return read(_file_name(text, level), load) if directory() is not None else None


def has_files(suffix: str) -> bool:
    """Whether there is any file with this suffix."""
    folder = directory()
    with SIGNALS_DEFERRED, contextlib.suppress(OSError):
        if folder is not None:
            with os.scandir(folder) as entries:
                return any(entry.name.endswith(suffix) for entry in entries)
    return False


def _file_name(text: str, level: int) -> str:
    parts = (engine.host_description(), str(level), text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest() + ".o"


def read(name: str, parse: Callable[[dict[str, Any], bytes], _Result]) -> _Result | None:
    """The result of `parse` for facts and data of a file; None if there is no valid file. Any
    exception counts as an invalid file, because a damaged file may lead to any. Signals are
    deferred, so that no exception is a signal handler's."""
    folder = directory()
    if folder is None:
        return None
    with SIGNALS_DEFERRED, contextlib.suppress(Exception):
        header, _, data = _read_trusted(folder / name).partition(b"\n")
        facts = json.loads(header)
        digest = facts.pop("sha256")
        if digest == _digest(name, facts, data):
            return parse(facts, data)
    return None


def _read_trusted(path: Path) -> bytes:
    """The bytes of a regular file that no other user can have written."""
    handle = os.open(path, os.O_RDONLY | _SAFE_OPEN_FLAGS)
    try:
        facts = os.fstat(handle)
        if (
            not (stat.S_ISREG(facts.st_mode) and _is_owned_by_user(facts))
            or facts.st_size > _MAX_FILE_BYTES
        ):
            raise ValueError(f"{path} is not a file of ours")
        with open(handle, "rb", closefd=False) as file:
            return file.read(_MAX_FILE_BYTES)
    finally:
        os.close(handle)


def put(name: str, facts: dict[str, Any], data: bytes) -> None:
    """Write a file, if the cache is on and the disk allows it."""
    folder = directory()
    if folder is None:
        return
    header = json.dumps({**facts, "sha256": _digest(name, facts, data)})
    content = header.encode() + b"\n" + data
    if len(content) > _MAX_FILE_BYTES:
        return
    with SIGNALS_DEFERRED, contextlib.suppress(OSError):
        _write(folder, name, content)
        if _should_prune(folder, len(content)):
            _prune(folder)


def _write(folder: Path, name: str, content: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, part = tempfile.mkstemp(dir=folder, prefix=f"{name}.", suffix=_PARTIAL_SUFFIX)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(part, folder / name)
    except BaseException:
        os.unlink(part)
        raise


def _digest(name: str, facts: Mapping[str, Any], data: bytes) -> str:
    """The hash of name, facts and data: a renamed file fails it."""
    digest = hashlib.sha256(json.dumps([name, facts]).encode())
    digest.update(data)
    return digest.hexdigest()


def _should_prune(folder: Path, size: int) -> bool:
    """Whether all processes together have written so much since the last prune that it is time for
    another. Each appends to one tally file; appending needs no lock."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _SAFE_OPEN_FLAGS
    handle = os.open(folder / _TALLY_FILE, flags, 0o600)
    try:
        is_new = not os.fstat(handle).st_size
        os.write(handle, bytes(1 + size // _BYTES_PER_TALLY))
        is_over = is_new or os.fstat(handle).st_size * _BYTES_PER_TALLY > _MAX_TOTAL_BYTES // 8
        if is_over:
            os.ftruncate(handle, 1)
    finally:
        os.close(handle)
    return is_over


def _prune(folder: Path) -> None:
    """Remove stale partial files, and the oldest files beyond the limit."""
    files = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # another process may be pruning
                facts = entry.stat(follow_symlinks=False)
                if not stat.S_ISREG(facts.st_mode):
                    continue
                if entry.name.endswith(_SUFFIXES):
                    files.append((facts.st_mtime, facts.st_size, entry.path))
                elif (
                    entry.name.endswith(_PARTIAL_SUFFIX)
                    and facts.st_mtime < time.time() - _STALE_SECONDS
                ):
                    os.unlink(entry.path)
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= _MAX_TOTAL_BYTES:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size
