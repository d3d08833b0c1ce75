"""Another shape of a compiled function needs no compiling."""

import struct

import numpy as np
import pytest
from compiled import agree

import tracker
from tracker.jit.llvm import engine, object_cache
from tracker.jit.llvm.size_parameters import lift_sizes, sizes_as_parameter

RNG = np.random.default_rng(0)


def smooth(x, w):
    return np.sum(np.tanh(x * w + 0.3) * np.exp(-(x**2)))


def slices(x, w):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - w[:-1]) ** 2)


def near(x, w):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (12.0 - w[:-1]) ** 2)


def average(x, w):
    return np.mean(x * w) + np.sum(x) / len(x) + np.var(w)


def padded(x, w):
    y = np.zeros_like(x)
    y[3:] = x[:-3] * w[3:]
    return np.sum(y * np.roll(x, 5))


def reversed_(x, w):
    return np.sum(np.cos(x[::-1] * w) * np.concatenate([w[200:], w[:200]]))


def far(x, w):
    return np.sum(np.sin(x * 1e6) * w)


@pytest.fixture
def compiled(monkeypatch):
    """The texts that LLVM compiles."""
    texts = []
    original = engine.compile_module

    def noted(text, **options):
        texts.append(text)
        return original(text, **options)

    monkeypatch.setattr(engine, "compile_module", noted)
    monkeypatch.setattr(object_cache, "_recent", {})
    monkeypatch.setenv("TRACKER_CACHE", "0")
    return texts


def check(f, calls, compiled, value=(1e-10, 0.0), slope=(1e-10, 1e-10), free=1, allowed=None):
    """Value and gradient, twice for each shape, within (rtol, atol); after the first `free` shapes
    nothing is compiled but `allowed` texts."""
    fast = tracker.jit(lambda *a: tracker.withgradient(f, *a))
    for at, arguments in enumerate(calls):
        done = len(compiled)
        fast(*arguments)
        for given in (arguments, [a * a.dtype.type(0.5) for a in arguments]):
            got, want = fast(*given), tracker.withgradient(f, *given)
            np.testing.assert_allclose(got.val, want.val, *value)
            for x, y in zip(got.grad, want.grad, strict=True):
                assert x.shape == y.shape and x.dtype == y.dtype
                np.testing.assert_allclose(x, y, *slope)
        assert at < free or all(allowed is not None and allowed(text) for text in compiled[done:])
    return fast


SMALL = (1e-12, 0.0), (1e-11, 1e-13)


def pairs_of(lengths, dtype=np.float64):
    return [RNG.standard_normal((2, n)).astype(dtype) for n in lengths]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "f", [smooth, slices, average, padded, reversed_, far], ids=lambda f: f.__name__
)
def test_vectors_of_another_length(f, dtype, compiled):
    tolerance = 1e-10 if dtype is np.float64 else 5e-4
    fast = check(
        f, pairs_of((3000, 3003, 2500, 6001), dtype), compiled, *[(tolerance, tolerance)] * 2
    )
    assert fast.cache_info().slow == 4


def logistic(x, w):
    z = x @ w
    return np.mean(np.logaddexp(0.0, z) - 0.3 * z)


def centred(x, w):
    y = x * w
    y = y - np.mean(y, axis=0)
    return np.sum(np.sqrt(1.0 + np.cumsum(y, axis=0) ** 2))


def is_of_another_kind(text):
    return "@plan(" not in text and "@k0(" not in text


@pytest.mark.parametrize("f, most", [(logistic, 5000), (centred, 1600)])
def test_the_text_does_not_depend_on_the_kind_of_scratch(f, most, compiled):
    """Scratch is on the stack, from malloc or from the allocator by its size; long calls release
    the GIL, and matrices of medium size are split for BLAS."""
    w = RNG.standard_normal(20)
    calls = [(RNG.standard_normal((rows, 20)), w) for rows in (170, 200, 1000, most, 300)]
    with tracker.config(threads=1):
        check(f, calls, compiled, slope=(1e-9, 1e-12), allowed=is_of_another_kind)


def test_long_calls_release_the_gil():
    """Loops, BLAS, stacks of products, routines, blocks of zeros; no short call."""
    stack = np.ones((200, 30, 30))
    long = [
        (lambda a: np.sum(np.tanh(a)), stack),
        (lambda a: a @ a, stack),
        (lambda a: a @ a, np.ones((90, 90))),
        (np.linalg.cholesky, np.eye(90)),
        (lambda a: tracker.gradient(np.trace, a)[0], np.eye(90)),
    ]
    for f, a in long:
        fast = tracker.jit(f)
        fast(a)
        assert "PyEval_SaveThread" in fast.llvm(a)
    quick = tracker.jit(lambda x: x[0] * np.sin(x[1]))
    quick(np.ones(3))
    assert "PyEval_SaveThread" not in quick.llvm(np.ones(3))


def layer(w, b, x, y):
    z = np.maximum(x @ w + b, 0.0)
    return np.mean((np.sum(z, axis=1) - y) ** 2)


def network(w, b, v, x):
    return np.mean((np.tanh(x @ w + b) @ v) ** 2)


def layers(rows):
    return [RNG.standard_normal(shape) for shape in ((20, 30), (30,), (rows, 20), (rows,))]


def networks(rows, inputs, units):
    """Which extents are equal is no part of the code."""
    shapes = (inputs, units), (units,), (units, 20), (rows, inputs)
    return [RNG.standard_normal(shape) for shape in shapes]


@pytest.mark.parametrize(
    "f, calls",
    [
        (layer, [layers(rows) for rows in (300, 340, 290)]),
        (network, [networks(*sizes) for sizes in ((60, 70, 90), (50, 50, 70), (70, 70, 80))]),
    ],
)
def test_products_of_other_sizes(f, calls, compiled):
    check(f, calls, compiled, (1e-9, 1e-9), (1e-9, 1e-9))


def columns(x, w):
    return np.sum(np.tanh(x * w) * np.exp(-(x**2)))


def rows(x, w):
    return np.sum((x[1:] - x[:-1]) ** 2 * w)


@pytest.mark.parametrize("f", [columns, rows], ids=lambda f: f.__name__)
def test_matrices_of_another_width(f, compiled):
    shapes = (200, 300), (210, 301), (150, 640)  # the parts of threads are small numbers
    check(f, [(RNG.standard_normal(n), RNG.standard_normal(n[1])) for n in shapes], compiled)


def pairs(x, w):
    apart = x[:, None] - x[None, :]
    return np.sum(w[:, None] * w / np.sqrt(apart**2 + 0.1))


@pytest.mark.parametrize("f", [smooth, slices, pairs, average], ids=lambda f: f.__name__)
def test_short_vectors(f, compiled):
    check(f, pairs_of((50, 63, 47, 101)), compiled)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads(threads, compiled):
    with tracker.config(threads=threads):
        check(smooth, pairs_of((300_000, 310_001, 400_007)), compiled, (1e-11, 0.0), (1e-11, 1e-13))


def test_the_first_shape_still_works_after_the_second():
    fast = tracker.jit(lambda x: x * 2.0 + np.mean(x))
    arrays = [RNG.standard_normal(n) for n in (1000, 1001, 1002)]
    for x in arrays + arrays:
        np.testing.assert_allclose(fast(x), x * 2.0 + np.mean(x), rtol=1e-13, atol=1e-15)
    assert fast.cache_info().slow == 3


def test_shapes_share_text_and_object_code():
    fast = tracker.jit(lambda x: x * 2.0 + np.mean(x))
    arrays = [RNG.standard_normal(n) for n in (1000, 1001)]
    for x in arrays + arrays:
        assert len(fast(x)) == len(x)
    one, other = (
        special.compiled.pieces[0]
        for family in fast._jitted.groups.values()
        for special in family.specializations
    )
    assert one.modules[0].text is other.modules[0].text
    assert one.modules[0].object_code is other.modules[0].object_code
    for piece in (one, other):
        assert not {"plan", "stages"} & vars(piece.program).keys()
    assert "kernel" in fast.explain(arrays[0]) and "plan" in vars(one.program)


KERNEL = """\
define internal void @k0(ptr noalias %p0) {
  %acc0 = alloca [500 x i64]
  br label %loop
loop:
  %i = phi i64 [ 200, %pre ], [ %nv1, %latch ]
  %a = mul nsw i64 %i, 1000
  %b = add nsw i64 %a, 1000
  %c = getelementptr inbounds double, ptr %p0, i64 1000
  %d = fmul double %x, 0x3FB999999999999A
  %e = fadd float 0x3FB99999A0000000, 0x4000000000000000
  %nv1 = add nuw nsw i64 %i, 1
  %cv1 = icmp ult i64 %nv1, 300
  br i1 %cv1, label %loop, label %done
}"""


def test_which_numbers_are_lifted():
    text, tables = lift_sizes(KERNEL)
    for line in (
        "%acc0 = alloca [500 x i64]",
        "%size.0 = load i64, ptr getelementptr (i64, ptr @sizes.k0, i64 0)",
        "phi i64 [ %size.0, %pre ]",
        "%size.1.far = add nuw nsw i64 %size.1, 9",
        "%a = mul nsw i64 %i, %size.1.far",
        "%b = add nsw i64 %a, %size.2",
        "ptr %p0, i64 %size.3",
        "%d = fmul double %x, %size.4",
        "%e = fadd float %size.5, 0x4000000000000000",
        "%nv1 = add nuw nsw i64 %i, 1\n",
        "%cv1 = icmp ult i64 %nv1, %size.6",
    ):
        assert line in text
    want = struct.pack("<qqqqdfxxxxq", 200, 991, 1000, 1000, 0.1, np.float32(0.1), 300)
    assert tables == {"sizes.k0": want}
    other, _ = lift_sizes(KERNEL.replace("300", "301").replace("999A", "999B"))
    assert other == text


def test_accesses_of_one_stride_share_its_load():
    line = "  %a = mul nsw i64 %i, 1000\n"
    several = line + line.replace("%a", "%a1") + line.replace("%a", "%a2").replace("1000", "1001")
    text, tables = lift_sizes(KERNEL.replace(line, several))
    assert "%a = mul nsw i64 %i, %size.1.far\n  %a1 = mul nsw i64 %i, %size.1.far\n" in text
    assert "%a2 = mul nsw i64 %i, %size.2.far\n" in text
    assert struct.unpack_from("<3q", tables["sizes.k0"]) == (200, 991, 992)
    bodies, tables = lift_sizes(KERNEL.replace("@k0", "@body0").replace(line, several))
    assert len(tables["sizes.body0"]) == 8 * 9 and bodies.count(".far = ") == 3  # at each use


def test_loops_of_few_iterations_have_another_text():
    texts = {n: lift_sizes(KERNEL.replace("300", str(n)))[0] for n in (9, 10, 1000)}
    assert texts[10] == texts[1000] != texts[9]
    assert "icmp ult i64 %nv1, 9\n" in texts[9]


def test_other_functions_and_long_ones_are_unchanged():
    assert lift_sizes(KERNEL.replace("@k0", "@vm.exp")) == (KERNEL.replace("@k0", "@vm.exp"), {})
    many = KERNEL.replace("  br label %loop\n", "  store i64 1000, ptr %p0\n" * 3000, 1)
    assert lift_sizes(many) == (many, {})


def test_sizes_as_a_parameter():
    driver = "declare void @k0(ptr)\n\ndefine i64 @plan(ptr %slots) {\n"
    driver += "  call void @k0(ptr %slots)\n  call void @other(i64 700)\n  ret i64 0\n}"
    (kernel, plan), table = sizes_as_parameter([KERNEL, driver])
    assert "define internal void @k0(ptr %sizes, ptr noalias %p0) {" in kernel
    assert "  %size.6.at = getelementptr i64, ptr %sizes, i64 6\n" in kernel
    assert "  %size.6 = load i64, ptr %size.6.at, !invariant.load !3\n" in kernel
    assert "external global" not in kernel + plan
    assert "declare void @k0(ptr, ptr)\n" in plan
    assert "define i64 @plan(ptr %sizes, ptr %slots) {" in plan
    assert "call void @k0(ptr %sizes, ptr %slots)" in plan and "@other(i64 %size.0)" in plan
    assert "  %size.0.at = getelementptr i64, ptr %sizes, i64 7\n" in plan  # after the kernel's
    assert struct.unpack("<8q", table)[-2:] == (300, 700)


def softmax_squares(x, w):
    e = np.exp(x - np.max(x))
    return np.sum((e / np.sum(e)) ** 2 * w)


@pytest.mark.parametrize("f", [smooth, softmax_squares], ids=lambda f: f.__name__)
def test_math_of_small_vectors_compiles_once(f, compiled):
    check(f, pairs_of((10, 12, 17, 31)), compiled, *SMALL)


def outer(x, w):
    return np.sum((x[:, None] - w) ** 2) + np.dot(x, w) + np.std(x)


@pytest.mark.parametrize("f", [near, average, outer], ids=lambda f: f.__name__)
def test_small_arrays_are_unrolled_unless_lengths_vary(f, compiled):
    calls = pairs_of((12, 13, 17, 14, 30, 31))
    fast = check(f, calls, compiled, *SMALL, free=2, allowed=lambda text: "@entry(" not in text)
    kernels = [fast.explain(*RNG.standard_normal((2, n))).count("kernel ") for n in (12, 13)]
    assert kernels[0] < kernels[1]


@tracker.custom_gradient(host=True)
def thrice(x):
    return x * 3.0, lambda g: (g * 3.0,)


def test_small_arrays_of_several_lengths_beside_numpy(compiled):
    """Parts of a function between NumPy's calls."""

    def f(x):
        y = thrice(x[1:] - 12.0 * x[:-1])
        return np.sum((y - np.mean(y)) ** 2)

    calls = [RNG.standard_normal((1, n)) for n in (12, 13, 18, 14, 30, 31)]
    fast = check(f, calls, compiled, *SMALL, free=2, allowed=lambda text: "@entry(" not in text)
    assert "host" in fast.explain(*calls[-1])


def test_math_of_small_vectors_beside_unrolled_code():
    """A product of small matrices, writes and single elements in registers; exp in a loop."""

    def f(a, x):
        y = np.exp(a @ x)
        y[2] = x[0] * y[1]
        b = np.reshape(y, (2, 6)) @ np.reshape(x, (6, 2))
        return np.sum(np.linalg.inv(b + 9.0 * np.eye(2)) * b) + np.sum(np.sin(y[::-1]) * x)

    a, x = RNG.standard_normal((12, 12)) * 0.1, RNG.standard_normal(12)
    fast = tracker.jit(lambda *args: tracker.withgradient(f, *args))
    for _ in range(2):
        got, want = fast(a, x), tracker.withgradient(f, a, x)
        np.testing.assert_allclose(got.val, want.val, rtol=1e-11)
        for g, h in zip(got.grad, want.grad, strict=True):
            np.testing.assert_allclose(g, h, rtol=1e-10, atol=1e-12)


MIXED = {
    "row": lambda a, x: a * (x + 1.0) + np.sum(np.sin(np.exp(x))),
    "added": lambda a, x: np.sum(a, axis=0) + np.sin(np.exp(x)),
    "an element": lambda a, x: (np.max(a, axis=0) * x)[2] + np.sum(np.sin(np.exp(x))),
    "where": lambda a, x: np.argmax(a, axis=0)[1] + np.sum(np.sin(np.exp(x))),
    "all": lambda a, x: np.where(np.all(a > 0, axis=0), np.exp(x), np.sin(np.exp(x))),
}


@pytest.mark.parametrize("name", MIXED)
def test_unrolled_rows_beside_a_loop(name):
    f, rows = MIXED[name], 1 if name == "row" else 2
    a, x = RNG.standard_normal((rows, 9)), RNG.standard_normal(9)
    agree(f, a, x, tolerance=1e-13)
