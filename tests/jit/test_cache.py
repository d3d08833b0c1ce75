"""Object code on disk: found again, and safe against what disks and neighbours do."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tracker
from tracker.jit import cache, engine

TEXT = "define double @f(double %x) {\n  %y = fadd double %x, 1.5\n  ret double %y\n}\n"


def files(folder):
    return sorted(folder.iterdir()) if folder.exists() else []


def was_loaded(module):
    return module.timings.parse == 0.0


def test_second_time_is_loaded(folder):
    first, second = cache.compile_or_load(TEXT), cache.compile_or_load(TEXT)
    assert not was_loaded(first)
    assert was_loaded(second)
    assert second.object_code == first.object_code
    assert second.exports == first.exports
    assert second.address("f") != first.address("f")
    assert "fadd" in second.llvm
    assert len(files(folder)) == 1


def test_off(folder, monkeypatch):
    monkeypatch.setenv("TRACKER_CACHE", "0")
    assert cache.directory() is None
    assert not was_loaded(cache.compile_or_load(TEXT))
    assert not files(folder)


def test_default_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("TRACKER_CACHE", "1")
    monkeypatch.delenv("TRACKER_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.directory() == tmp_path / "tracker"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.directory() == tmp_path / ".cache" / "tracker"
    monkeypatch.setenv("TRACKER_CACHE_DIR", "~/kept")
    assert cache.directory() == tmp_path / "kept"


def test_a_user_without_a_home_keeps_nothing(monkeypatch):
    monkeypatch.setenv("TRACKER_CACHE", "1")
    for name in ("TRACKER_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 5)
    assert cache.directory() is None


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
    cache.compile_or_load(TEXT)
    (path,) = files(folder)
    good = path.read_bytes()
    path.write_bytes(damage(good))
    assert not was_loaded(cache.compile_or_load(TEXT))
    assert path.read_bytes() == good
    assert was_loaded(cache.compile_or_load(TEXT))


def test_a_file_that_bears_anothers_name_is_replaced(folder):
    other = TEXT.replace("1.5", "2.5")
    kept = {}
    for text in (TEXT, other):
        module, before = cache.compile_or_load(text), set(kept)
        kept.update((file, module.object_code) for file in files(folder) if file not in before)
    (one, code), (another, _) = kept.items()
    one.write_bytes(another.read_bytes())
    cache._recent.clear()
    assert cache.compile_or_load(TEXT).object_code == code
    assert cache.compile_or_load(TEXT).address("f")


def test_facts_are_checked_as_the_code_is(folder):
    cache.compile_or_load(TEXT)
    (file,) = files(folder)
    file.write_bytes(file.read_bytes().replace(b'["f"]', b'["g"]', 1))
    cache._recent.clear()
    assert cache.compile_or_load(TEXT).exports == ("f",)


def test_object_that_does_not_link_is_compiled_anew(folder):
    needs = "declare double @elsewhere(double)\n" + TEXT.replace(
        "%y = fadd double %x, 1.5", "%y = call double @elsewhere(double %x)"
    )
    here = engine.compile_module(TEXT)
    module = cache.compile_or_load(needs, symbols={"elsewhere": here.address("f")})
    again = cache.compile_or_load(needs, symbols={"elsewhere": here.address("f")})
    assert was_loaded(again)
    assert not was_loaded(module)
    with pytest.raises(tracker.CompileError):
        cache.compile_or_load(needs, symbols={})


def test_another_processor_or_version_has_files_of_its_own(folder, monkeypatch):
    cache.compile_or_load(TEXT)
    monkeypatch.setattr(engine, "host", lambda: "another machine")
    assert not was_loaded(cache.compile_or_load(TEXT))
    monkeypatch.setattr(cache, "_FORMAT", 99)
    assert not was_loaded(cache.compile_or_load(TEXT))
    assert not was_loaded(cache.compile_or_load(TEXT, level=1))
    assert len(files(folder)) == 4


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TRACKER_CACHE", "1")
    monkeypatch.setenv("TRACKER_CACHE_DIR", str(tmp_path / "file"))
    assert not was_loaded(cache.compile_or_load(TEXT))
    assert (tmp_path / "file").read_text() == "in the way"


def test_oldest_files_go_first(folder, monkeypatch):
    texts = [TEXT.replace("1.5", f"{k}.5") for k in range(6)]
    for age, text in enumerate(texts[:5]):
        cache.compile_or_load(text)
        newest = max(files(folder), key=lambda path: path.stat().st_mtime)
        os.utime(newest, (1000 + age, 1000 + age))
    size = files(folder)[0].stat().st_size
    monkeypatch.setattr(cache, "_LIMIT", 3 * size)
    cache._prune(folder)
    assert [was_loaded(cache.compile_or_load(text)) for text in texts[2:5]] == [True] * 3
    assert not was_loaded(cache.compile_or_load(texts[0]))


def test_many_threads_write_at_once(folder):
    with ThreadPoolExecutor(8) as pool:
        modules = list(pool.map(lambda _: cache.compile_or_load(TEXT), range(16)))
    assert len({module.object_code for module in modules}) == 1
    assert [path.suffix for path in files(folder)] == [".o"]


PROGRAM = """
import numpy as np, tracker
f = tracker.value_and_grad(tracker.jit(lambda x, k: np.sum(np.tanh(x @ x) * np.float64(2.0)) + k))
x = np.linspace(0.0, 1.0, 1600).reshape(40, 40)
value, gradient = f(x, 1.0)
value, gradient = f(x, 1.0)
print(repr(float(value)), repr(float(np.sum(gradient))))
"""


def test_processes_share_what_they_compile(folder):
    environment = {**os.environ}
    outputs = set()
    counts = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.add(done.stdout)
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
