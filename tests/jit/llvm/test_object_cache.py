"""Object code on disk: reused, and safe against damaged files and other users."""

import hashlib
import json
import os
import subprocess
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import fresh_python
import numpy as np
import pytest

import tracker
from tracker.jit.codegen.artifact import deserialize
from tracker.jit.llvm import engine, object_cache

TEXT = "define double @f(double %x) {\n  %y = fadd double %x, 1.5\n  ret double %y\n}\n"


def files(folder):
    return sorted(p for p in folder.rglob("*") if p.suffix in (".o", ".program", ".part"))


def content(name):
    return object_cache.read(name, lambda facts, data: (facts, data))


def signed(name, facts, data):
    """A file with a valid hash, whatever its content."""
    digest = hashlib.sha256(json.dumps([name, facts]).encode() + data).hexdigest()
    return json.dumps({**facts, "sha256": digest}).encode() + b"\n" + data


def was_loaded(module):
    return module.timings.parse == 0.0


def test_second_time_is_loaded(folder):
    first, second = object_cache.compile_or_load(TEXT), object_cache.compile_or_load(TEXT)
    assert not was_loaded(first)
    assert was_loaded(second)
    assert second.object_code == first.object_code
    assert second.exports == first.exports
    assert second.address("f") != first.address("f")
    assert "fadd" in second.llvm
    assert len(files(folder)) == 1


def test_off(folder, monkeypatch):
    monkeypatch.setenv("TRACKER_CACHE", "0")
    assert object_cache.directory() is None
    assert not was_loaded(object_cache.compile_or_load(TEXT))
    assert not files(folder)


def test_default_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("TRACKER_CACHE", "1")
    monkeypatch.delenv("TRACKER_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    own = f"tracker-{object_cache._FORMAT_VERSION}"
    assert object_cache.directory() == tmp_path / "tracker" / own
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert object_cache.directory() == tmp_path / ".cache" / "tracker" / own
    monkeypatch.setenv("TRACKER_CACHE_DIR", "~/kept")
    assert object_cache.directory() == tmp_path / "kept" / own


def test_without_a_home_folder_there_is_no_cache(monkeypatch):
    monkeypatch.setenv("TRACKER_CACHE", "1")
    for name in ("TRACKER_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 5)
    assert object_cache.directory() is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[:-8] + bytes(8),
        lambda data: b"not json\n" + data,
        lambda data: b'{"exports": ["f"], "size": 0}\n',
        lambda data: b"[1]\n" + data,
        lambda data: os.urandom(4096),
    ],
)
def test_damaged_file_is_replaced(folder, damage):
    object_cache.compile_or_load(TEXT)
    (path,) = files(folder)
    good = path.read_bytes()
    path.write_bytes(damage(good))
    assert not was_loaded(object_cache.compile_or_load(TEXT))
    assert path.read_bytes() == good
    assert was_loaded(object_cache.compile_or_load(TEXT))


def test_a_file_under_another_name_is_replaced(folder):
    other = TEXT.replace("1.5", "2.5")
    kept = {}
    for text in (TEXT, other):
        module, before = object_cache.compile_or_load(text), set(kept)
        kept.update((file, module.object_code) for file in files(folder) if file not in before)
    (one, code), (another, _) = kept.items()
    one.write_bytes(another.read_bytes())
    object_cache._recent.clear()
    assert object_cache.compile_or_load(TEXT).object_code == code
    assert object_cache.compile_or_load(TEXT).address("f")


def test_facts_are_part_of_the_hash(folder):
    object_cache.compile_or_load(TEXT)
    (file,) = files(folder)
    file.write_bytes(file.read_bytes().replace(b'["f"]', b'["g"]', 1))
    object_cache._recent.clear()
    assert object_cache.compile_or_load(TEXT).exports == ("f",)


def test_object_that_does_not_link_is_compiled_anew(folder):
    needs = "declare double @elsewhere(double)\n" + TEXT.replace(
        "%y = fadd double %x, 1.5", "%y = call double @elsewhere(double %x)"
    )
    here = engine.compile_module(TEXT)
    module = object_cache.compile_or_load(needs, symbols={"elsewhere": here.address("f")})
    again = object_cache.compile_or_load(needs, symbols={"elsewhere": here.address("f")})
    assert was_loaded(again)
    assert not was_loaded(module)
    with pytest.raises(tracker.CompileError):
        object_cache.compile_or_load(needs, symbols={})


def test_another_processor_or_version_has_files_of_its_own(folder, monkeypatch):
    object_cache.compile_or_load(TEXT)
    monkeypatch.setattr(engine, "host_description", lambda: "another machine")
    assert not was_loaded(object_cache.compile_or_load(TEXT))
    monkeypatch.setattr(object_cache, "_FORMAT_VERSION", 99)
    assert not was_loaded(object_cache.compile_or_load(TEXT))
    assert len(files(folder.parent)) == 3


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TRACKER_CACHE", "1")
    monkeypatch.setenv("TRACKER_CACHE_DIR", str(tmp_path / "file"))
    assert not was_loaded(object_cache.compile_or_load(TEXT))
    assert (tmp_path / "file").read_text() == "in the way"


def test_oldest_files_go_first(folder, monkeypatch):
    texts = [TEXT.replace("1.5", f"{k}.5") for k in range(6)]
    for age, text in enumerate(texts[:5]):
        object_cache.compile_or_load(text)
        newest = max(files(folder), key=lambda path: path.stat().st_mtime)
        os.utime(newest, (1000 + age, 1000 + age))
    size = files(folder)[0].stat().st_size
    monkeypatch.setattr(object_cache, "_MAX_TOTAL_BYTES", 3 * size)
    object_cache._prune(folder)
    assert [was_loaded(object_cache.compile_or_load(text)) for text in texts[2:5]] == [True] * 3
    assert not was_loaded(object_cache.compile_or_load(texts[0]))


def test_only_files_of_the_cache_are_removed(tmp_path, monkeypatch):
    """The configured folder may hold other files, and so may the one below it."""
    monkeypatch.setenv("TRACKER_CACHE", "1")
    monkeypatch.setenv("TRACKER_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(object_cache, "_MAX_TOTAL_BYTES", 1000)
    object_cache.put("0.o", {}, bytes(900))
    folder = object_cache.directory()
    users = [tmp_path / "thesis.o", tmp_path / "thesis.dat", folder / "thesis.dat"]
    for path in users:
        path.write_bytes(bytes(2000))
        os.utime(path, (1, 1))
    (folder / "x.o").mkdir()
    (folder / "y.o").symlink_to(users[0])
    for k in range(1, 20):
        object_cache.put(f"{k}.o", {}, bytes(900))
    assert all(path.exists() for path in users)
    assert (folder / "x.o").is_dir() and (folder / "y.o").is_symlink()
    assert content("19.o") == ({}, bytes(900)) and content("0.o") is None


def test_the_bound_holds_for_many_processes_together(folder):
    """No process alone writes enough to prune."""
    program = (
        "import sys; from tracker.jit.llvm import object_cache as cache\n"
        "cache._MAX_TOTAL_BYTES = 400_000\n"
        "for k in range(4): cache.put(f'{sys.argv[1]}.{k}.o', {}, bytes(30_000))\n"
    )
    runs = [subprocess.Popen([sys.executable, "-c", program, str(k)]) for k in range(6)]
    assert [run.wait() for run in runs] == [0] * 6
    sizes = [path.stat().st_size for path in files(folder)]
    assert 300_000 < sum(sizes) < 400_000 * 9 // 8 + 2 * 30_100


def test_stale_partial_files_are_removed(folder, monkeypatch):
    object_cache.put("a.o", {}, b"")
    old, new = folder / "b.o.x.part", folder / "c.o.y.part"
    for path in (old, new):
        path.write_bytes(b"{")
    hours_ago = time.time() - 2 * object_cache._STALE_SECONDS
    os.utime(old, (hours_ago, hours_ago))
    monkeypatch.setattr(object_cache, "_MAX_TOTAL_BYTES", 0)
    object_cache.put("d.o", {}, b"")
    assert not old.exists() and new.exists()


def a_pipe(path):
    os.mkfifo(path)


def a_link(path):
    path.with_name("elsewhere").write_bytes(signed(path.name, {}, b""))
    path.symlink_to(path.with_name("elsewhere"))


def writable_by_others(path):
    path.write_bytes(signed(path.name, {}, b""))
    path.chmod(0o666)


def much_of_nothing(path):
    path.touch()
    os.truncate(path, 1 << 40)


HUGE = {"lengths": [1 << 40], "modules": [], "symbols": [], "scratch": 0}
BOMB = zlib.compress(bytes(1 << 20))
IN_THE_WAY = {
    "deep": lambda path: path.write_bytes(b"[" * 100_000 + b"\n"),
    "number": lambda path: path.write_bytes(b"9" * 5000 + b"\n"),
    "text": lambda path: path.write_bytes(b'"\xff"\n'),
    "no zlib": lambda path: path.write_bytes(signed(path.name, {**HUGE, "lengths": [1]}, b"?")),
    "huge": lambda path: path.write_bytes(signed(path.name, HUGE, BOMB)),
    "bomb": lambda path: path.write_bytes(signed(path.name, {**HUGE, "lengths": [1]}, BOMB)),
    "minus": lambda path: path.write_bytes(signed(path.name, {**HUGE, "lengths": [-1]}, BOMB)),
    "empty": lambda path: path.write_bytes(b""),
    "zeros": much_of_nothing,
    "directory": lambda path: path.mkdir(),
    "pipe": a_pipe,
    "link": a_link,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "others": writable_by_others,
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without pipes that have names")
@pytest.mark.parametrize("put_there", IN_THE_WAY.values(), ids=IN_THE_WAY)
def test_invalid_files_are_ignored(folder, put_there):
    object_cache.put("x.program", {}, b"")
    for name in ("a.program", "b.o"):
        put_there(folder / name)
    assert object_cache.read("a.program", deserialize) is None
    assert object_cache.read("b.o", lambda facts, data: tuple(facts["exports"])) is None


@pytest.mark.parametrize("facts", [{}, {"exports": 1}, {"exports": [1]}, {"exports": ["g"]}])
@pytest.mark.parametrize("data", [b"", b"no object code", None])
def test_an_invalid_object_file_is_replaced(folder, facts, data):
    code = object_cache.compile_or_load(TEXT).object_code
    (path,) = files(folder)
    path.write_bytes(signed(path.name, facts, code if data is None else data))
    assert object_cache.compile_or_load(TEXT).address("f")
    assert was_loaded(object_cache.compile_or_load(TEXT))


def open_to_others(folder):
    folder.mkdir(parents=True)
    folder.chmod(0o777)


def a_link_elsewhere(folder):
    elsewhere = folder.parent.parent / "elsewhere"
    elsewhere.mkdir()
    folder.parent.mkdir()
    folder.symlink_to(elsewhere)


def of_another_user(folder):
    folder.mkdir(parents=True)
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(folder, 12345, 12345)


def test_code_of_a_higher_level_serves(folder):
    """Quick code is not compiled where optimised code exists, in memory or on disk."""
    optimised = object_cache.compile_or_load(TEXT).object_code
    quick = object_cache.compile_or_load(TEXT, level=engine.QUICK)
    assert was_loaded(quick) and quick.object_code == optimised
    assert len(files(folder)) == 1


def test_quick_code_does_not_serve_where_optimised_code_is_wanted(folder):
    object_cache.compile_or_load(TEXT, level=engine.QUICK)
    assert not was_loaded(object_cache.compile_or_load(TEXT))
    assert len(files(folder)) == 2


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="a system without owners of files")
@pytest.mark.parametrize("make", [open_to_others, a_link_elsewhere, of_another_user])
def test_a_folder_that_others_can_write_is_not_used(folder, make):
    make(folder)
    (folder / object_cache._file_name(TEXT, engine.OPTIMISED)).write_bytes(b"planted")
    before = files(folder)
    with pytest.warns(
        RuntimeWarning, match="Set TRACKER_CACHE_DIR to a folder of your own"
    ) as told:
        assert not was_loaded(object_cache.compile_or_load(TEXT))
    assert not was_loaded(object_cache.compile_or_load(TEXT))
    assert len(told) == 1 and str(folder) in str(told[0].message)
    assert files(folder) == before and before[0].read_bytes() == b"planted"
    object_cache._warned_of.clear()


def test_files_are_private(folder):
    old = os.umask(0)
    try:
        object_cache.put("a.o", {}, b"")
    finally:
        os.umask(old)
    assert content("a.o") == ({}, b"")
    assert all(path.stat().st_mode & 0o077 == 0 for path in (folder, *folder.iterdir()))


def test_many_threads_write_at_once(folder):
    with ThreadPoolExecutor(8) as pool:
        modules = list(pool.map(lambda _: object_cache.compile_or_load(TEXT), range(16)))
    assert len({module.object_code for module in modules}) == 1
    assert [path.suffix for path in files(folder)] == [".o"]


PROGRAM = """
import numpy as np, tracker
f = tracker.value_and_grad(tracker.jit(lambda x, k: np.sum(np.tanh(x @ x) * np.float64(2.0)) + k))
x = np.linspace(0.0, 1.0, 1600).reshape(40, 40)
for _ in range(10):  # the first ones are interpreted
    value, gradient = f(x, 1.0)
print(repr(float(value)), repr(float(np.sum(gradient))))
"""


def test_processes_share_what_they_compile(folder):
    outputs = set()
    counts = []
    for _ in range(2):
        outputs.add(fresh_python.run(PROGRAM).stdout)
        counts.append([(path.name, path.stat().st_mtime_ns) for path in files(folder)])
    assert len(outputs) == 1
    assert counts[0] == counts[1], "the second process compiled something"
    assert counts[0]


def test_text_is_the_same_for_equal_functions(folder):
    def build():
        return tracker.jit(lambda x: np.sum(np.exp(x) * x))

    x = np.arange(100.0)
    a, b = build(), build()
    assert a(x) == b(x)
    a(x), b(x)
    before = files(folder)
    build()(x)
    assert files(folder) == before
