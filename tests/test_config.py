"""Settings: read, validated, scoped."""

import pytest

import tracker
from tracker.config import Settings, current, from_environment


def test_environment_is_read():
    read = from_environment({"TRACKER_JIT": "0", "TRACKER_DUMP": "ir, llvm", "OTHER": "x"})
    assert read == Settings(jit=False, dump=frozenset({"ir", "llvm"}))


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({"TRACKER_JIT": "yes"}, "TRACKER_JIT='yes'; valid are 0 and 1"),
        ({"TRACKER_DUMP": "all"}, "no stage 'all'; there are trace, ir, llvm, asm"),
    ],
)
def test_bad_values_list_the_good_ones(environment, text):
    with pytest.raises(ValueError, match=text):
        from_environment(environment)


def test_unknown_setting():
    with (
        pytest.raises(ValueError, match="no setting 'fast'; there are jit, check, dump"),
        tracker.config(fast=True),
    ):
        pass


def test_scope_is_restored_after_an_exception():
    before = current()
    with pytest.raises(RuntimeError), tracker.config(check=True):
        assert current().check
        raise RuntimeError
    assert current() == before
