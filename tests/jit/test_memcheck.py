"""The findings of `memcheck.py`, on reports as valgrind writes them."""

from memcheck import findings

ERROR = "<error><kind>{}</kind><what>some text</what><stack>{}</stack></error>"
FRAME = "<frame><ip>0x1</ip><obj>{}</obj><fn>{}</fn></frame>"
GENERATED = "<frame><ip>0x2</ip></frame>"
PYTHON = FRAME.format("/usr/lib/libpython3.11.so.1.0", "_PyEval_EvalFrameDefault")
BLAS = FRAME.format("/site-packages/numpy.libs/libopenblas.so", "dgemm_kernel")


def found(kind, *frames):
    return list(findings(f"<output>{ERROR.format(kind, ''.join(frames))}</output>"))


def test_generated_code_and_its_callees_are_reported():
    for kind in ("UninitCondition", "UninitValue", "InvalidRead"):
        assert found(kind, GENERATED, PYTHON)
        assert found(kind, BLAS, GENERATED, PYTHON)
        assert not found(kind, PYTHON, GENERATED)
        assert not found(kind, BLAS, PYTHON, GENERATED)


def test_invalid_writes_are_reported_everywhere():
    (text,) = found("InvalidWrite", PYTHON)
    assert text.startswith("InvalidWrite: some text") and "libpython" in text
    assert found("InvalidFree", BLAS)


def test_leaks_are_not_reported():
    assert not found("Leak_PossiblyLost", GENERATED, PYTHON)
