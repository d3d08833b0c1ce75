"""Functions of NumPy and SciPy with arguments of n elements: what `beside_numpy.py` times.

Owns: `FAMILIES`, family -> name -> `Case`. A case makes its arguments for (n, dtype). What reduces
to a number is named in `SMOOTH` if its gradient is timed, too; elementwise functions all are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.special as sc

Make = Callable[[int, Any], tuple[Any, ...]]


class Case(NamedTuple):
    call: Callable[..., Any]
    make: Make
    smooth: bool = False
    largest: int = 1_000_000


def _words(text: str) -> list[str]:
    return text.split()


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def between(*ranges: tuple[float, float]) -> Make:
    """One vector of n numbers for each range."""

    def make(n: int, dtype: Any) -> tuple[Any, ...]:
        rng = _rng()
        return tuple(rng.uniform(low, high, n).astype(dtype) for low, high in ranges)

    return make


def rows(n: int, dtype: Any) -> tuple[Any, ...]:
    """A matrix of n elements, rows of ten or, of many, a hundred."""
    wide = 100 if n >= 1000 else 5
    return (_rng().normal(size=(n // wide, wide)).astype(dtype),)


def two_rows(n: int, dtype: Any) -> tuple[Any, ...]:
    (a,) = rows(n, dtype)
    return a, a[:, ::-1].copy()


def vectors(count: int) -> Make:
    def make(n: int, dtype: Any) -> tuple[Any, ...]:
        rng = _rng()
        return tuple(rng.normal(size=n).astype(dtype) for _ in range(count))

    return make


def square(n: int, dtype: Any) -> tuple[Any, ...]:
    side = max(2, round(n**0.5))
    a = _rng().normal(size=(side, side)).astype(dtype)
    return a, _rng().normal(size=side).astype(dtype)


def definite(n: int, dtype: Any) -> tuple[Any, ...]:
    a, b = square(n, dtype)
    return (a @ a.T + len(a) * np.eye(len(a), dtype=dtype)).astype(dtype), b


def _two_squares(n: int, dtype: Any) -> tuple[Any, ...]:
    (a, _) = square(n, dtype)
    return a, a.T.copy()


def _taken(n: int, dtype: Any) -> tuple[Any, ...]:
    return _rng().normal(size=n).astype(dtype), _rng().integers(0, n, n)


def _masked(n: int, dtype: Any) -> tuple[Any, ...]:
    x = _rng().normal(size=n).astype(dtype)
    return x, x > 0


def _counts(n: int, dtype: Any) -> tuple[Any, ...]:
    return _rng().integers(0, 100, n), _rng().random(n).astype(dtype)


def _sorted(n: int, dtype: Any) -> tuple[Any, ...]:
    return np.sort(_rng().normal(size=n)).astype(dtype), _rng().normal(size=n).astype(dtype)


def _holes(n: int, dtype: Any) -> tuple[Any, ...]:
    x = _rng().normal(size=n)
    return (np.where(_rng().random(n) < 0.1, np.nan, x).astype(dtype),)


def _rounded(n: int, dtype: Any) -> tuple[Any, ...]:
    return (np.round(_rng().normal(size=n), 2).astype(dtype),)


def _whole(n: int, dtype: Any) -> tuple[Any, ...]:
    kind = np.int64 if dtype is np.float64 else np.int32
    return _rng().integers(1, 1000, n).astype(kind), _rng().integers(1, 50, n).astype(kind)


def _put(x: Any, i: Any) -> Any:
    y = np.zeros_like(x)
    y[i] = x
    return y


def _add_at(x: Any, i: Any) -> Any:
    y = np.zeros_like(x)
    np.add.at(y, i, x)
    return y


def _mask_write(x: Any, m: Any) -> Any:
    y = x.copy()
    y[m] = 0.0
    return y


def _slices(x: Any) -> Any:
    y = x.copy()
    y[1:-1] = x[2:] - x[:-2]
    return y


def _threes(x: Any) -> Any:
    return x[: x.size // 3 * 3].reshape(-1, 3)


LINE = between((-2.0, 2.0))
ABOVE = between((0.1, 10.0))
UNIT = between((-0.95, 0.95))
PAIR = between((0.1, 3.0), (-3.0, 3.0))
BOTH = between((-3.0, 3.0), (0.5, 3.0))

_UNARY = {
    LINE: "negative absolute fabs sign floor ceil trunc rint square exp exp2 expm1 tanh sin cos "
    "tan arctan sinh cosh arcsinh sinc cbrt deg2rad rad2deg isnan isfinite signbit spacing i0",
    ABOVE: "sqrt log log2 log10 log1p reciprocal positive",
    UNIT: "arcsin arccos arctanh",
    between((1.1, 9.0)): "arccosh",
}
_STEPS = frozenset(_words("sign floor ceil trunc rint isnan isfinite signbit spacing"))
_BINARY = {
    PAIR: "power float_power",
    BOTH: "add subtract multiply divide arctan2 hypot maximum minimum fmax fmin logaddexp "
    "logaddexp2 floor_divide remainder fmod copysign nextafter heaviside less equal",
}
_FLAT = frozenset(["floor_divide", "nextafter", "heaviside", "less", "equal"])
_SPECIAL = {
    LINE: "erf erfc erfcx expit ndtr log_ndtr log_expit i0 i1 i0e i1e j0 j1 sinpi exprel",
    ABOVE: "gammaln gamma psi k0 k1 y0 y1 entr rgamma xlog1py".replace(" xlog1py", ""),
    UNIT: "erfinv",
    between((0.05, 0.95)): "logit ndtri",
}
_SPECIAL_PAIRS = {
    between((0.5, 5.0), (0.5, 5.0)): "xlogy xlog1py beta betaln gammainc gammaincc kl_div"
}


def _named(table: dict[Make, str], module: Any, flat: frozenset[str]) -> dict[str, Case]:
    return {
        name: Case(getattr(module, name), make, name not in flat)
        for make, names in table.items()
        for name in names.split()
        if hasattr(module, name)
    }


ELEMENTWISE = {
    **_named(_UNARY, np, _STEPS),
    **_named(_BINARY, np, _FLAT),
    "x**2": Case(lambda x: x**2, LINE, True),
    "x**3": Case(lambda x: x**3, LINE, True),
    "x**0.5": Case(lambda x: x**0.5, ABOVE, True),
    "x**-1.5": Case(lambda x: x**-1.5, ABOVE, True),
    "2**x": Case(lambda x: 2.0**x, LINE, True),
    "x*2+1": Case(lambda x: x * 2.0 + 1.0, LINE, True),
    "where": Case(lambda x, y: np.where(x > 0, x, y), BOTH, True),
    "clip": Case(lambda x: np.clip(x, -1.0, 1.0), LINE, True),
    "sin of 100": Case(np.sin, between((-100.0, 100.0)), True),
    "cos of 1e7": Case(np.cos, between((-1e7, 1e7)), True),
    "tan of 1e7": Case(np.tan, between((-1e7, 1e7)), True),
    "power of wide range": Case(np.power, between((1e-5, 1e5), (-7.0, 7.0)), True),
    "log of wide range": Case(np.log, between((1e-30, 1e30)), True),
    "exp of wide range": Case(np.exp, between((-80.0, 80.0)), True),
    "divmod": Case(lambda x, y: np.divmod(x, y)[0], BOTH),
    "modf": Case(lambda x: np.modf(x)[0], LINE),
    "frexp": Case(lambda x: np.frexp(x)[0], LINE),
    "ldexp": Case(lambda x: np.ldexp(x, 3), LINE),
    "nan_to_num": Case(lambda x: np.nan_to_num(x), _holes),
    "astype": Case(lambda x: x.astype(np.float32 if x.dtype == np.float64 else np.float64), LINE),
    "round": Case(lambda x: np.round(x, 2), LINE),
    "isclose": Case(lambda x, y: np.isclose(x, y), BOTH),
    "angle": Case(lambda x, y: np.angle(x + 1j * y), BOTH),
    "complex exp": Case(lambda x, y: np.exp(x + 1j * y), BOTH),
    "complex mul": Case(lambda x, y: (x + 1j * y) * (y - 1j * x), BOTH),
    "complex abs": Case(lambda x, y: np.abs(x + 1j * y), BOTH),
}
INTEGERS = {
    name: Case(getattr(np, name), _whole)
    for name in _words(
        "add multiply floor_divide remainder power bitwise_and left_shift gcd lcm maximum "
        "true_divide float_power fmod"
    )
} | {
    "sum": Case(lambda a, b: np.sum(a), _whole),
    "cumsum": Case(lambda a, b: np.cumsum(a), _whole),
    "sort": Case(lambda a, b: np.sort(a), _whole),
    "unique": Case(lambda a, b: np.unique(b), _whole),
    "bincount": Case(lambda a, b: np.bincount(b), _whole),
    "max": Case(lambda a, b: np.max(a), _whole),
    "astype": Case(lambda a, b: a.astype(np.float64), _whole),
    "mean": Case(lambda a, b: np.mean(a), _whole),
    "prod": Case(lambda a, b: np.prod(b), _whole),
    "isin": Case(lambda a, b: np.isin(a, b[:10]), _whole),
    "where": Case(lambda a, b: np.where(a > b, a, b), _whole),
}
_FOLDS = _words("sum prod mean std var max min argmax argmin any all median ptp count_nonzero")
_SMOOTH = frozenset(["sum", "prod", "mean", "std", "var", "max", "min", "median", "ptp"])
_NAN_FOLDS = _words("nansum nanprod nanmean nanstd nanmax nanmin nanargmax nanmedian")
REDUCTIONS = {
    **{f: Case(getattr(np, f), vectors(1), f in _SMOOTH) for f in _FOLDS},
    **{
        f"{f} of rows": Case(lambda x, f=f: getattr(np, f)(x, axis=1), rows, f in _SMOOTH)
        for f in _FOLDS
    },
    **{
        f"{f} of columns": Case(lambda x, f=f: getattr(np, f)(x, axis=0), rows, f in _SMOOTH)
        for f in _FOLDS
    },
    **{f: Case(getattr(np, f), _holes) for f in _NAN_FOLDS},
    "norm": Case(np.linalg.norm, vectors(1), True),
    "norm 1": Case(lambda x: np.linalg.norm(x, 1), vectors(1), True),
    "norm of rows": Case(lambda x: np.linalg.norm(x, axis=1), rows, True),
    "average": Case(lambda x, w: np.average(x, weights=w * w), vectors(2), True),
    "quantile": Case(lambda x: np.quantile(x, 0.3), vectors(1), True),
    "quantile of rows": Case(lambda x: np.quantile(x, 0.3, axis=1), rows, True),
    "percentiles": Case(lambda x: np.percentile(x, [5, 50, 95]), vectors(1), True),
    "trapezoid": Case(lambda x: np.trapezoid(x), vectors(1), True),
    "cov": Case(lambda x: np.cov(x, rowvar=False), rows, True),
    "corrcoef": Case(lambda x: np.corrcoef(x, rowvar=False), rows, True),
    "logsumexp": Case(lambda x: np.log(np.sum(np.exp(x - np.max(x)))), vectors(1), True),
    "softmax of rows": Case(
        lambda x: (lambda e: e / e.sum(1, keepdims=True))(np.exp(x - x.max(1, keepdims=True))),
        rows,
        True,
    ),
    "allclose": Case(lambda x, y: np.allclose(x, y), vectors(2)),
    "array_equal": Case(lambda x: np.array_equal(x, x + 0.0), vectors(1)),
}
RUNNING = {
    "cumsum": Case(np.cumsum, vectors(1), True),
    "cumprod": Case(np.cumprod, between((0.9, 1.1)), True),
    "cumsum of rows": Case(lambda x: np.cumsum(x, axis=1), rows, True),
    "cumsum of columns": Case(lambda x: np.cumsum(x, axis=0), rows, True),
    "maximum.accumulate": Case(np.maximum.accumulate, vectors(1), True),
    "add.reduceat": Case(lambda x: np.add.reduceat(x, np.arange(0, x.size, 5)), vectors(1), True),
    "diff": Case(np.diff, vectors(1), True),
    "diff of rows": Case(lambda x: np.diff(x, axis=1), rows, True),
    "diff of columns": Case(lambda x: np.diff(x, axis=0), rows, True),
    "ediff1d": Case(np.ediff1d, vectors(1), True),
    "gradient": Case(np.gradient, vectors(1), True),
    "convolve 5": Case(lambda x: np.convolve(x, x[:5]), vectors(1), True),
    "convolve same": Case(lambda x: np.convolve(x, x[:5], "same"), vectors(1), True),
    "correlate": Case(lambda x: np.correlate(x, x[:5], "valid"), vectors(1), True),
    "interp": Case(lambda s, x: np.interp(x, s, s * s), _sorted, True),
    "unwrap": Case(np.unwrap, vectors(1)),
    "polyval": Case(lambda x: np.polyval([1.0, 2.0, 3.0, 4.0], x), vectors(1), True),
    "vander": Case(lambda x: np.vander(x, 4), vectors(1), True, 100_000),
}
SORTING = {
    "sort": Case(np.sort, vectors(1), True),
    "argsort": Case(np.argsort, vectors(1)),
    "sort of sorted": Case(lambda s, x: np.sort(s), _sorted),
    "sort of rows": Case(lambda x: np.sort(x, axis=1), rows, True),
    "argsort of rows": Case(lambda x: np.argsort(x, axis=1), rows),
    "sort of columns": Case(lambda x: np.sort(x, axis=0), rows),
    "partition": Case(lambda x: np.partition(x, x.size // 2), vectors(1)),
    "argpartition": Case(lambda x: np.argpartition(x, x.size // 2), vectors(1)),
    "partition of rows": Case(lambda x: np.partition(x, 3, axis=1), rows),
    "searchsorted": Case(np.searchsorted, _sorted),
    "searchsorted sorted": Case(lambda s, x: np.searchsorted(s, s + 0.1), _sorted),
    "unique": Case(lambda x: np.unique(x), _rounded),
    "unique inverse": Case(lambda x: np.unique(x, return_inverse=True)[1], _rounded),
    "unique of different": Case(lambda x: np.unique(x), vectors(1)),
    "histogram": Case(lambda x: np.histogram(x, 50)[0], vectors(1)),
    "histogram edges": Case(
        lambda x: np.histogram(x, np.array([-3.0, -1.0, 0.0, 0.5, 3.0]))[0], vectors(1)
    ),
    "histogram2d": Case(lambda x, y: np.histogram2d(x, y, 20)[0], vectors(2)),
    "bincount": Case(lambda i, w: np.bincount(i), _counts),
    "bincount weights": Case(lambda i, w: np.bincount(i, w), _counts),
    "digitize": Case(lambda x: np.digitize(x, [-1.0, 0.0, 0.5, 1.0]), vectors(1)),
    "lexsort": Case(lambda x, y: np.lexsort((x, y)), vectors(2)),
    "isin": Case(lambda x: np.isin(x, x[:10]), _rounded),
    "intersect1d": Case(lambda x, y: np.intersect1d(x, y), vectors(2)),
    "nonzero": Case(lambda x: np.nonzero(x > 0)[0], vectors(1)),
    "argwhere": Case(lambda x: np.argwhere(x > 0), vectors(1)),
    "flatnonzero": Case(lambda x: np.flatnonzero(x > 0), vectors(1)),
}
INDEXING = {
    "x[i]": Case(lambda x, i: x[i], _taken, True),
    "take": Case(lambda x, i: np.take(x, i), _taken, True),
    "x[i] = v": Case(_put, _taken, True),
    "add.at": Case(_add_at, _taken, True),
    "x[mask]": Case(lambda x, m: x[m], _masked, True),
    "x[mask] = v": Case(_mask_write, _masked, True),
    "compress": Case(lambda x, m: np.compress(m, x), _masked, True),
    "x[1:-1] = v": Case(_slices, vectors(1), True),
    "x[::2]": Case(lambda x: x[::2] * 1.0, vectors(1), True),
    "x[::-1]": Case(lambda x: x[::-1] * 1.0, vectors(1), True),
    "rows taken": Case(lambda x: x[np.arange(len(x) - 1, -1, -1)], rows, True),
    "columns taken": Case(lambda x: x[:, [3, 1, 0]], rows, True),
    "take_along_axis": Case(
        lambda x: np.take_along_axis(x, np.argsort(x, axis=1), axis=1), rows, True
    ),
    "choose": Case(lambda x, y: np.choose((x > 0).astype(int), [x, y]), vectors(2)),
    "select": Case(lambda x: np.select([x > 1, x > 0], [x, -x], 0.0), vectors(1), True),
    "piecewise": Case(
        lambda x: np.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: v * 2]), vectors(1)
    ),
    "put": Case(lambda x, i: np.put(x.copy(), i, 1.0), _taken),
    "diag": Case(lambda a, b: np.diag(a), square, True),
    "diag of vector": Case(np.diag, vectors(1), True, 1000),
    "triu": Case(lambda a, b: np.triu(a), square, True),
    "tril_indices": Case(lambda a, b: a[np.tril_indices(len(a))], square, True),
    "trim_zeros": Case(lambda x: np.trim_zeros(x), vectors(1)),
    "extract": Case(lambda x, m: np.extract(m, x), _masked, True),
}
SHAPES = {
    "transpose": Case(lambda x: x.T.copy(), rows, True),
    "concatenate": Case(lambda x, y: np.concatenate([x, y]), vectors(2), True),
    "concatenate rows": Case(lambda x, y: np.concatenate([x, y], axis=1), two_rows, True),
    "stack": Case(lambda x, y: np.stack([x, y]), vectors(2), True),
    "stack last": Case(lambda x, y: np.stack([x, y], axis=-1), vectors(2), True),
    "hstack": Case(lambda x, y: np.hstack([x, y]), two_rows, True),
    "column_stack": Case(lambda x, y: np.column_stack([x, y]), vectors(2), True),
    "block": Case(lambda x, y: np.block([[x, y], [y, x]]), two_rows, True),
    "pad": Case(lambda x: np.pad(x, 3), vectors(1), True),
    "pad rows": Case(lambda x: np.pad(x, 1), rows, True),
    "pad edge": Case(lambda x: np.pad(x, 3, mode="edge"), vectors(1), True),
    "pad reflect": Case(lambda x: np.pad(x, 1, mode="reflect"), rows, True),
    "pad wrap": Case(lambda x: np.pad(x, 1, mode="wrap"), rows, True),
    "roll": Case(lambda x: np.roll(x, 3), vectors(1), True),
    "roll rows": Case(lambda x: np.roll(x, 1, axis=1), rows, True),
    "roll columns": Case(lambda x: np.roll(x, 1, axis=0), rows, True),
    "tile": Case(lambda x: np.tile(x, 3), vectors(1), True),
    "tile rows": Case(lambda x: np.tile(x, (2, 2)), rows, True),
    "repeat": Case(lambda x: np.repeat(x, 3), vectors(1), True),
    "repeat rows": Case(lambda x: np.repeat(x, 2, axis=0), rows, True),
    "flip": Case(lambda x: np.flip(x) + 0.0, vectors(1), True),
    "rot90": Case(lambda x: np.rot90(x).copy(), rows, True),
    "broadcast_to": Case(lambda x: np.broadcast_to(x[:, None], (len(x), 8)).copy(), vectors(1)),
    "meshgrid": Case(lambda x: np.meshgrid(x, x)[0], vectors(1), True, 1000),
    "insert": Case(lambda x: np.insert(x, 3, 1.0), vectors(1), True),
    "delete": Case(lambda x: np.delete(x, 3), vectors(1), True),
    "append": Case(lambda x, y: np.append(x, y), vectors(2), True),
    "split": Case(lambda x: np.split(x, 5)[1] * 2.0, vectors(1), True),
    "ravel F": Case(lambda x: x.ravel(order="F"), rows, True),
    "copy": Case(lambda x: x.copy(), vectors(1), True),
    "reshape": Case(lambda x: x.reshape(-1, 5) + 1.0, vectors(1), True),
    "swapaxes": Case(lambda x: np.swapaxes(x.reshape(-1, 5, 2), 0, 1).copy(), vectors(1), True),
    "outer sum": Case(lambda x: x[:, None] + x, vectors(1), True, 1000),
    "zeros_like": Case(lambda x: np.zeros_like(x), vectors(1)),
    "full_like": Case(lambda x: np.full_like(x, 3.0), vectors(1)),
    "linspace": Case(lambda x: np.linspace(x[0], x[1], x.size), vectors(1), True),
    "arange": Case(lambda x: np.arange(x.size) * x[0], vectors(1), True),
}
PRODUCTS = {
    "dot": Case(np.dot, vectors(2), True),
    "vdot": Case(np.vdot, vectors(2), True),
    "A @ x": Case(lambda a, b: a @ b, square, True),
    "A.T @ x": Case(lambda a, b: a.T @ b, square, True),
    "A @ B": Case(lambda a, b: a @ b, _two_squares, True),
    "A.T @ A": Case(lambda a, b: a.T @ a, square, True),
    "rows @ 5": Case(lambda x: x @ x[:5].T, rows, True),
    "outer": Case(np.outer, vectors(2), True, 1000),
    "kron": Case(np.kron, vectors(2), True, 1000),
    "kron of matrices": Case(lambda x: np.kron(x, np.eye(2)), rows, True, 100_000),
    "inner": Case(np.inner, two_rows, True, 100_000),
    "einsum ij,ij->i": Case(lambda x, y: np.einsum("ij,ij->i", x, y), two_rows, True),
    "einsum ij,ij": Case(lambda x, y: np.einsum("ij,ij", x, y), two_rows, True),
    "einsum ij->j": Case(lambda x, y: np.einsum("ij->j", x), two_rows, True),
    "einsum ij,ik->jk": Case(lambda x, y: np.einsum("ij,ik->jk", x, y), two_rows, True),
    "einsum i,j->ij": Case(lambda x, y: np.einsum("i,j->ij", x, y), vectors(2), True, 1000),
    "einsum ii": Case(lambda a, b: np.einsum("ii", a), square, True),
    "tensordot": Case(lambda x, y: np.tensordot(x, y, ((0,), (0,))), two_rows, True),
    "trace": Case(lambda a, b: np.trace(a), square, True),
    "cross": Case(
        lambda x, y: np.cross(
            x[: x.size // 3 * 3].reshape(-1, 3), y[: y.size // 3 * 3].reshape(-1, 3)
        ),
        vectors(2),
        True,
    ),
    "batched 3x3": Case(
        lambda x: (lambda b: b @ b)(x[: x.size // 9 * 9].reshape(-1, 3, 3)), vectors(1), True
    ),
    "matrix_power": Case(lambda a, b: np.linalg.matrix_power(a, 3), square, True),
    "multi_dot": Case(lambda a, b: np.linalg.multi_dot([a, a, b]), square, True),
}
LINALG = {
    "inv": Case(lambda a, b: np.linalg.inv(a), definite, True),
    "solve": Case(np.linalg.solve, definite, True),
    "solve matrix": Case(lambda a, b: np.linalg.solve(a, a.T), definite, True),
    "cholesky": Case(lambda a, b: np.linalg.cholesky(a), definite, True),
    "eigh": Case(lambda a, b: np.linalg.eigh(a), definite),
    "eigvalsh": Case(lambda a, b: np.linalg.eigvalsh(a), definite, True),
    "svd": Case(lambda a, b: np.linalg.svd(a), square),
    "svd values": Case(lambda a, b: np.linalg.svd(a, compute_uv=False), square, True),
    "qr": Case(lambda a, b: np.linalg.qr(a), square),
    "det": Case(lambda a, b: np.linalg.det(a / len(a)), definite, True),
    "slogdet": Case(lambda a, b: np.linalg.slogdet(a)[1], definite, True),
    "lstsq": Case(lambda a, b: np.linalg.lstsq(a, b, rcond=None)[0], square, True),
    "pinv": Case(lambda a, b: np.linalg.pinv(a), square, True),
    "eig": Case(lambda a, b: np.linalg.eig(a)[0], square),
    "norm 2": Case(lambda a, b: np.linalg.norm(a, 2), square, True),
    "matrix_rank": Case(lambda a, b: np.linalg.matrix_rank(a), square),
    "expm1 of inv": Case(lambda a, b: np.expm1(np.linalg.inv(a)), definite, True),
}
FOURIER = {
    "fft": Case(lambda x: np.fft.fft(x), vectors(1)),
    "rfft": Case(lambda x: np.fft.rfft(x), vectors(1)),
    "irfft": Case(lambda x: np.fft.irfft(np.fft.rfft(x)), vectors(1), True),
    "fft2": Case(lambda x: np.fft.fft2(x), rows),
}


def _drawn(n: int, dtype: Any) -> tuple[Any, ...]:
    return _rng(), _rng().normal(size=n).astype(dtype)


def _step(r: Any, x: Any) -> Any:
    """Of a random walk, which the next number takes or leaves."""
    y = x + 0.5 * r.normal(size=x.shape)
    return y if r.random() < 0.5 else x


DRAWS = {
    "normal": Case(lambda r, x: x * r.normal(size=x.shape), _drawn),
    "normal with a mean": Case(lambda r, x: r.normal(x, 2.0), _drawn),
    "uniform number": Case(lambda r, x: x * r.random(), _drawn),
    "step": Case(_step, _drawn),
}


FAMILIES: dict[str, dict[str, Case]] = {
    "elementwise": ELEMENTWISE,
    "special": {
        **_named(_SPECIAL, sc, frozenset()),
        **_named(_SPECIAL_PAIRS, sc, frozenset()),
    },
    "integers": INTEGERS,
    "reductions": REDUCTIONS,
    "running": RUNNING,
    "sorting": SORTING,
    "indexing": INDEXING,
    "shapes": SHAPES,
    "products": PRODUCTS,
    "linalg": LINALG,
    "fourier": FOURIER,
    "draws": DRAWS,
}
