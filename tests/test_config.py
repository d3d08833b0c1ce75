"""Settings: read, validated, scoped."""

import fresh_python
import numpy as np
import pytest

import tracker
from tracker.config import Settings, current, from_environment


def test_environment_is_read():
    read = from_environment({"TRACKER_JIT": "0", "TRACKER_DUMP": "ir, llvm", "OTHER": "x"})
    assert read == Settings(jit=False, dump=frozenset({"ir", "llvm"}))


@pytest.mark.parametrize(("environment", "text"), [
    ({"TRACKER_JIT": "yes"}, "TRACKER_JIT='yes'; valid are 0 and 1"),
    ({"TRACKER_THREADS": "many"}, "TRACKER_THREADS='many'; valid are whole numbers from 0"),
    ({"TRACKER_DUMP": "all"}, "no stage 'all'; there are trace, ir, llvm, asm"),
])  # fmt: skip
def test_bad_values_list_the_good_ones(environment, text):
    with pytest.raises(ValueError, match=text):
        from_environment(environment)


def test_unknown_setting():
    with pytest.raises(ValueError, match="no setting 'fast'; there are jit, check, dump, threads"):
        tracker.config(fast=True)


def test_scope_is_restored_after_an_exception():
    before = current()
    with pytest.raises(RuntimeError), tracker.config(check=True):
        assert current().check
        raise RuntimeError
    assert current() == before


def test_a_statement_changes_what_follows_and_a_scope_restores_it():
    first = current()
    with tracker.config(threads=3):
        tracker.config(threads=1)
        assert current().threads == 1
        with tracker.config(threads=2) as inner:
            assert inner.threads == current().threads == 2
        assert current().threads == 1
    assert current() == first


def test_a_scope_may_be_entered_again():
    scope = tracker.config(check=True)
    for _ in range(2):
        with scope as settings:
            assert settings.check
        assert not current().check


def test_a_decorated_function_alone_sees_the_settings():
    @tracker.config(threads=5)
    def threads(more):
        """How many there are."""
        return current().threads + more

    assert threads.__doc__ == "How many there are."
    assert current().threads != 5
    assert threads(more=1) == 6
    assert current().threads != 5


def test_nothing_is_compiled_without_jit():
    f = tracker.jit(lambda x: x * 2.0)
    with tracker.config(jit=False):
        assert f(3.0) == 6.0
    assert f.cache_info().traces == 0
    assert f(3.0) == 6.0
    assert f.cache_info().traces == 1


@pytest.mark.parametrize(("stage", "text"), [
    ("trace", "sin a"), ("ir", "return ("), ("llvm", "define"), ("asm", ".text"),
])  # fmt: skip
def test_dump_prints_a_stage_of_what_is_compiled(stage, text, capsys):
    with tracker.config(dump=stage, check=True):
        tracker.jit(lambda x: np.sin(x) * 2.0)(np.ones(50))
    shown = capsys.readouterr().err
    assert shown.startswith(f"--- {stage}\n")
    assert text in shown


def test_environment_reaches_the_compiler():
    code = "import numpy as np, tracker; tracker.jit(np.sin)(np.ones(3))"
    assert "--- ir\nfunction sin(" in fresh_python.run(code, TRACKER_DUMP="ir").stderr
