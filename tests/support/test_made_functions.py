"""Functions that transforms make are pickled by name or made again, and act as functions do."""

import collections
import copy
import dataclasses
import functools
import inspect
import multiprocessing
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import fresh_python
import numpy as np
import pytest

import tracker as tr
from tracker import distributed, implicit, optim, tree
from tracker.support.pickling import MadeFunction

X = np.linspace(-1.0, 1.0, 5)


def loss(w):
    """A loss."""
    return np.sum(np.tanh(w) ** 2)


def rows(w):
    return np.tanh(w) * np.sum(w)


@tr.jit
def jitted(w):
    return np.sum(np.sin(w) ** 2)


def clipped_rule(x):
    return x, lambda dy: (np.clip(dy, -1.0, 1.0),)


class Model:
    def __init__(self, scale):
        self.scale = scale

    @tr.jit
    def loss(self, w):
        return np.sum(np.sin(w)) * self.scale

    def plain(self, w):
        return np.sum(np.cos(w)) * self.scale

    @functools.partial(tr.value_and_grad, argnums=1)
    def both(self, w):
        """Of a method."""
        return np.sum(w**2) * self.scale


@tr.value_and_grad
def decorated(w):
    """Its value and gradient."""
    return np.sum(np.exp(w))


@tr.vmap
@tr.jit
def decorated_twice(x):
    return x * 2.0


@tr.jit
@tr.vmap
def jitted_map(x):
    return x * 3.0


@tr.custom_gradient
def scaled(x):
    return x, lambda dy: (dy * 2.0,)


@tr.non_differentiable
def rank(x):
    return np.argsort(np.argsort(x)) * 1.0


def half(step):
    return 0.5**step


def lookup(x):
    return os.getpid() * x


def parabola(x, a):
    return x**2 - a


def babylonian(a):
    return functools.reduce(lambda x, _: (x + a / x) / 2, range(20), 1.0)


class Point(NamedTuple):
    x: object
    y: object


@dataclasses.dataclass
class Layer:
    w: object
    names: dict


class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b


tree.register(Pair, lambda p: ((p.a, p.b), None), lambda aux, kids: Pair(*kids))

VAG = tr.value_and_grad
BY_NAME = {
    "value_and_grad": (decorated, X),
    "vmap of a jitted function": (decorated_twice, X),
    "jit of a mapped function": (jitted_map, X),
    "custom_gradient": (scaled, X),
    "non_differentiable": (rank, X),
    "jit": (jitted, X),
    "method": (Model.both, Model(2.0), X),
}
MADE = {
    "value_and_grad": (VAG(loss), X),
    "argnums": (VAG(np.dot, (1,), check_finite=False), X, X),
    "has_aux": (VAG(tr.jit(divmod), has_aux=True), 3.5, 2.0),
    "of a jitted function": (VAG(jitted), X),
    "of a function that is not decorated": (VAG(tr.jit(loss, strict=True)), X),
    "of a jitted method": (VAG(Model(3.0).loss), X),
    "of a jitted method of the class": (VAG(Model.loss, 1), Model(3.0), X),
    "of a method": (VAG(Model(3.0).plain), X),
    "of a made function": (VAG(tr.ignore_derivatives(loss)), X),
    "of a decorated one": (tr.vmap(decorated_twice), X[None]),
    "twice": (tr.vmap(VAG(jitted)), np.stack([X, X + 1.0])),
    "twice of a jitted method": (tr.vmap(VAG(Model(3.0).loss)), np.stack([X, X + 1.0])),
    "vmap": (tr.vmap(rows, 1, 1), np.ones((5, 2))),
    "vmap of a jitted function": (tr.vmap(jitted, (0,)), np.stack([X, X])),
    "vmap of a jitted method": (tr.vmap(Model(2.0).loss), np.stack([X, X])),
    "jit": (tr.jit(rows, max_traces=2), X),
    "jit of a made function": (tr.jit(tr.vmap(rows)), np.stack([X, X])),
    "jit with a vouched module": (tr.jit(loss, pure=[os, lookup]), X),
    "custom_gradient": (VAG(tr.custom_gradient(clipped_rule)), 3.0),
    "host rule": (VAG(tr.custom_gradient(clipped_rule, host=True)), 3.0),
    "ignore_derivatives": (tr.ignore_derivatives(loss), X),
    "non_differentiable": (tr.non_differentiable(loss), X),
    "method that was decorated": (Model(2.0).both, X),
    "partial": (functools.partial(VAG(loss), X),),
    "partial of a method": (functools.partial(VAG(Model(3.0).loss), X),),
    "partial of a transform": (functools.partial(tr.hessian, jitted), X),
    "root": (implicit.root(parabola, babylonian, solve="dense"), 2.0),
    "structure": (tree.ravel({"w": X, "b": 3.0, "n": 2})[1], np.arange(6.0)),
}


def bits(x):
    """What a result is, bit by bit."""
    leaves, structure = tree.flatten(x)
    return [(type(y), np.asarray(y).dtype, np.asarray(y).tobytes()) for y in leaves], structure


def pickled(protocol):
    return lambda x: pickle.loads(pickle.dumps(x, protocol))


def cloudpickled(x):
    cloudpickle = pytest.importorskip("cloudpickle")
    return pickle.loads(cloudpickle.dumps(x))


COPIES = {f"protocol {n}": pickled(n) for n in range(2, pickle.HIGHEST_PROTOCOL + 1)} | {
    "cloudpickle": cloudpickled,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("again", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize(("f", "args"), [(f, args) for f, *args in BY_NAME.values()], ids=BY_NAME)
def test_decorated_functions_are_found_by_name(f, args, again):
    assert again(f) is f
    f(*args)


@pytest.mark.parametrize("again", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize(("f", "args"), [(f, args) for f, *args in MADE.values()], ids=MADE)
def test_made_functions_are_made_again(f, args, again):
    made = again(f)
    assert type(made) is type(f)
    for g in (f, made, f, made):
        g(*args)  # compiled code may sum in another order than NumPy
    assert bits(made(*args)) == bits(f(*args))
    assert (
        repr(made).partition(" at 0x")[0].partition(" object")[0]
        == (repr(f).partition(" at 0x")[0].partition(" object")[0])
    )


def test_the_derivative_of_a_jitted_function_is_compiled_where_it_is_loaded():
    for f in (VAG(jitted), VAG(tr.jit(loss)), VAG(Model(3.0).loss), tr.vmap(VAG(jitted))):
        made = pickle.loads(pickle.dumps(f))
        x = X if "vmap" not in repr(f) else np.stack([X, X])
        made(x)
        of_method = isinstance(made, MadeFunction)
        assert (made.func if of_method else made).cache_info().traces >= 1
    assert pickle.loads(pickle.dumps(VAG(jitted))) is VAG(jitted)


@pytest.mark.parametrize(
    ("function", "recreated"),
    [
        ("{decorator}\ndef f(x):\n    return np.sum(x ** 2) * rate", "f"),
        ("f = {decorator}(lambda x: np.sum(x ** 2) * rate)", "f"),
        ("def make(rate):\n    return {decorator}(lambda x: np.sum(x ** 2) * rate)", "make(3.0)"),
    ],
)
@pytest.mark.parametrize("transform", ["jit", "value_and_grad", "vmap", "non_differentiable"])
def test_cloudpickle_takes_functions_of_a_script_by_value(function, recreated, transform, tmp_path):
    """What is in `__main__`, or has no name, reaches a process that has no such module."""
    pytest.importorskip("cloudpickle")
    is_decorator = function.startswith("{")
    decorator = f"@tr.{transform}" if is_decorator else f"tr.{transform}"
    script = (
        "import cloudpickle, numpy as np, sys, tracker as tr\nrate = 3.0\n"
        f"{function.format(decorator=decorator)}\n"
        f"sys.stdout.buffer.write(cloudpickle.dumps({recreated}))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, env=ENV)
    made = pickle.loads(run.stdout)
    plain = lambda x: np.sum(x**2) * 3.0  # noqa: E731
    assert bits(made(X)) == bits(getattr(tr, transform)(plain)(X))


ROOT = Path(__file__).parents[2]
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}


def test_cloudpickle_copies_the_modules_that_it_is_told_to(tmp_path, monkeypatch):
    cloudpickle = pytest.importorskip("cloudpickle")
    (tmp_path / "only_here.py").write_text(
        "import tracker as tr\n@tr.vmap\ndef f(x):\n    return x * 2.0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import only_here

    cloudpickle.register_pickle_by_value(only_here)
    try:
        data = cloudpickle.dumps(only_here.f)
    finally:
        cloudpickle.unregister_pickle_by_value(only_here)
    monkeypatch.delitem(sys.modules, "only_here")
    monkeypatch.undo()
    assert pickle.loads(data)(X).tolist() == (2.0 * X).tolist()


@pytest.mark.parametrize("backend", ["loky", "multiprocessing"])
def test_joblib(backend):
    joblib = pytest.importorskip("joblib")
    fs = [VAG(loss), VAG(jitted), VAG(tr.jit(lambda w: np.sum(w**3))), tr.vmap(lambda x: x * x)]
    if backend == "multiprocessing":  # which pickles functions by name
        fs = fs[:2]
    try:
        with joblib.parallel_config(backend, n_jobs=2):
            found = joblib.Parallel()(joblib.delayed(f)(X) for f in fs)
    finally:
        joblib.externals.loky.get_reusable_executor().shutdown(wait=True)
    assert [*map(bits, found)] == [bits(f(X)) for f in fs]


_SCRIPT = """
import multiprocessing, pickle, sys
import numpy as np
import tracker as tr
from tracker.jit.llvm import engine
from tracker.jit.runtime.compile_queue import drain

@tr.jit
def loss(w):
    return np.sum(np.tanh(w) ** 2)

class Model:
    scale = 3.0

    @tr.jit
    def loss(self, w):
        return np.sum(np.sin(w) * self.scale)

def run(f, x):
    compiled = []
    compile_module = engine.compile_module

    def counted(text, **options):
        compiled.append(text)
        return compile_module(text, **options)

    engine.compile_module = counted
    try:
        for _ in range(2000):  # until it is optimised
            y = f(x)
        drain()
        y = f(x)
        drain()
    finally:
        engine.compile_module = compile_module
    return pickle.dumps(y), len(compiled), getattr(f, "func", f).cache_info().traces

if __name__ == "__main__":
    x = np.linspace(-1.0, 1.0, 50)
    calls = [
        (loss, x), (tr.value_and_grad(loss), x), (tr.value_and_grad(Model().loss), x),
        (tr.vmap(loss), np.stack([x, 2.0 * x])),
    ]
    expected = [run(*call) for call in calls]
    assert all(count >= 1 for _, count, _ in expected), expected
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        found = pool.starmap(run, calls)
    assert [y for y, _, _ in found] == [y for y, _, _ in expected], "other numbers"
    assert [count for _, count, _ in found] == [0] * len(calls), "compiled again"
    assert all(traces >= 1 for _, _, traces in found), "not compiled"
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_worker_loads_what_its_parent_has_compiled(method, tmp_path):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} on this system")
    script = tmp_path / "program.py"
    script.write_text(_SCRIPT)
    cache = {"TRACKER_CACHE": "1", "TRACKER_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, script, method]
    run = subprocess.run(command, env={**ENV, **cache}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(
    "made",
    [
        optim.descent(0.1),
        optim.momentum(half, 0.8, nesterov=True),
        optim.adam(0.1, (0.8, 0.99)),
        optim.adamw(half, decay=0.1),
        optim.rmsprop(0.02, 0.9),
    ],
    ids=["descent", "momentum", "adam", "adamw", "rmsprop"],
)
def test_optimisers_go_on_where_they_were(made):
    params = {"w": X, "layer": Layer(np.ones(2), {"n": 3})}

    def objective(p):
        return np.sum(p["w"] ** 2) + np.prod(p["layer"].w)

    def steps(optimiser, params, state, count):
        for _ in range(count):
            (gradient,) = tr.gradient(objective, params)
            params, state = optimiser.update(params, gradient, state)
        return params, state

    begun = steps(made, params, made.init(params), 3)
    again, (params, state) = pickle.loads(pickle.dumps((made, begun)))
    assert bits(steps(again, params, state, 3)) == bits(steps(made, *begun, 3))
    init, update = pickle.loads(pickle.dumps((made.init, made.update)))
    assert bits(update(begun[0], begun[0], init(begun[0]))) == (
        bits(made.update(begun[0], begun[0], made.init(begun[0])))
    )


def looped(x):
    return tr.scan(lambda carry, x: (carry + np.sin(x), carry * x), x[0], x)


def branched(x):
    return tr.cond(x[0] > 0, lambda x: x * 2.0, lambda x: x[::-1] ** 2, x)


@pytest.mark.parametrize("f", [loss, rows, looped, branched])
def test_traces(f):
    functions = [tr.trace(f, X), tr.jit(f).ir(X)]
    for function in functions:
        for again in COPIES.values():
            made = again(function)
            assert type(made) is type(function)
            assert str(made) == str(function)
            assert made.ops == function.ops


def test_a_trace_is_loaded_before_its_ops_are_declared(tmp_path):
    """SciPy's ops are declared when SciPy is used."""
    special = pytest.importorskip("scipy.special")
    function = tr.trace(lambda x: special.gammaln(x) + special.ndtr(x), np.ones(3))
    (tmp_path / "trace").write_bytes(pickle.dumps(function))
    script = f"import pickle; print(pickle.load(open({str(tmp_path / 'trace')!r}, 'rb')))"
    run = fresh_python.run(script, PYTHONPATH=str(ROOT))
    assert run.stdout.strip() == str(function).strip()


@pytest.mark.parametrize(
    "x", [Point(X, 2.0), Layer(X, {"a": 1.0}), Pair(X, [1.0]), collections.OrderedDict(b=X, a=1)]
)
def test_structures(x):
    leaves, structure = tree.flatten(x)
    for again in COPIES.values():
        made = again(structure)
        assert made == structure and hash(made) == hash(structure)
        assert bits(tree.unflatten(made, leaves, x)) == bits(x)


def test_gradients_of_params():
    w, b = tr.param(X), tr.param(2.0)
    params = tr.Params([w, b])
    gradients = tr.gradient(lambda: np.sum(w**2) * b, params)
    (v, c), made = pickle.loads(pickle.dumps(((w, b), gradients)))
    assert bits((made[v], made[c])) == bits((gradients[w], gradients[b]))


def test_what_is_vouched_for_is_pickled():
    made = pickle.loads(pickle.dumps(tr.jit(rows, pure=[os.path, lookup])))
    pure = made._jitted.options.pure
    assert pure.covers(lookup) and pure.covers(os.path.join) and not pure.covers(rows)
    called = pickle.loads(pickle.dumps(tr.jit(lookup, pure=[os.getpid], strict=True)))
    assert called(2.0) == called(2.0) == 2.0 * os.getpid()


def shadowed(x):
    return x


plain_shadowed, shadowed = shadowed, None


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tr.jit(lambda x: x), r"<jitted function> cannot be pickled: .*<lambda>.*cloudpi"),
        (lambda: VAG(lambda x: x), "value_and_grad of function .* the top level of a module"),
        (lambda: tr.vmap(tr.jit(lambda x: x)), "<jitted function> cannot .* cloudpickle or joblib"),
        (
            lambda: tr.vmap(plain_shadowed),
            "vmap of shadowed .* of the module .* is not there",
        ),
        (lambda: tr.pullback(loss, X)[1], r"pullback of loss .* and call tracker.pullback\(f, x\)"),
        (lambda: tr.pullback(jitted, X)[1], "pullback of jitted .* holds what the function has"),
        (lambda: tr.pushforward(loss, X)[1], r"and call tracker.pushforward\(f, x\)"),
        (lambda: tr.trace(VAG(tr.custom_gradient(clipped_rule, host=True)), 1.0), "Pickle the fun"),
    ],
)
def test_what_cannot_be_pickled_says_what_to_do(make, words):
    for protocol in (2, pickle.HIGHEST_PROTOCOL):
        with pytest.raises(tr.UnsupportedError, match=words):
            pickle.dumps(make(), protocol)


def test_a_sharded_derivative_holds_its_workers():
    words = r"holds its workers\. Send the loss and the shards"
    step = distributed.value_and_grad(lambda w, shard: np.sum(w * shard), [X, X])
    with step, pytest.raises(tr.UnsupportedError, match=words):
        pickle.dumps(step)


def test_linear_maps_are_copied_like_functions():
    _, back = tr.pullback(loss, X)
    assert copy.copy(back) is back is copy.deepcopy({"back": back})["back"]
    model = Model(3.0)
    bound = VAG(model.loss)
    kept = copy.deepcopy({"model": model, "bound": bound})
    kept["model"].scale = 5.0
    assert (kept["bound"](X + 1.0)[1] == 5.0 * np.cos(X + 1.0)).all()
    assert (bound(X + 1.0)[1] == 3.0 * np.cos(X + 1.0)).all()


def test_made_functions_look_like_functions():
    made = tr.vmap(loss)
    assert (made.__name__, made.__qualname__) == ("vmap_of_loss", "vmap of loss")
    assert (made.__doc__, made.__module__, made.__wrapped__) == ("A loss.", __name__, loss)
    assert inspect.signature(made) == inspect.signature(loss)
    assert inspect.unwrap(functools.wraps(made)(lambda w: made(w))) is loss
    assert repr(made).startswith("<function vmap of loss at 0x")
    both = VAG(loss)
    assert both.__name__ == "value_and_grad_of_loss"
    assert list(inspect.signature(both).parameters) == ["args", "kwargs"]
    assert repr(both).startswith("<function value_and_grad of loss at 0x")
    assert (rank.__name__, scaled.__name__, scaled.__qualname__) == ("rank", "scaled", "scaled")
    bound = VAG(Model(3.0).loss)
    assert list(inspect.signature(bound).parameters) == ["w"]
    assert (bound.__name__, repr(bound)[:26]) == ("loss", "<bound method Model.loss o")
    wrapped = functools.wraps(VAG(loss))(tr.vmap(rows))
    assert bits(pickle.loads(pickle.dumps(wrapped))(X)) == bits(tr.vmap(rows)(X))


def test_made_functions_are_methods_in_a_class():
    model = Model(3.0)
    assert Model.both(model, X)[0] == model.both(X)[0] == 3.0 * np.sum(X**2)
    assert inspect.ismethod(model.both) and model.both.__self__ is model
    assert model.both.__name__ == "both"
    assert functools.partial(decorated, X)()[0] == decorated(X)[0]


def test_derivatives_and_traces_go_through_made_functions():
    step = tr.jit(lambda w: w - 0.1 * VAG(loss)(w)[1])
    held = VAG(loss)
    kept = tr.jit(lambda w: w - 0.1 * held(w)[1], strict=True)
    bound = VAG(Model(2.0).loss)
    of_method = tr.jit(lambda w: w - 0.1 * bound(w)[1], strict=True)
    for _ in range(3):
        assert bits(step(X)) == bits(kept(X)) == bits(X - 0.1 * held(X)[1])
        np.testing.assert_allclose(of_method(X), X - 0.2 * np.cos(X), rtol=1e-12)
    call = tr.jit(lambda f, w: f(w))
    model = Model(2.0)
    for _ in range(4):  # made anew, it is the same method
        assert bits(call(VAG(model.loss), X)) == bits(VAG(model.loss)(X))
    info = call.cache_info()
    call(VAG(model.loss), X)
    assert call.cache_info() == info and info.traces == 1
    second = tr.jacobian(lambda w: held(w)[1], X)[0]
    np.testing.assert_allclose(second, tr.hessian(loss, X), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        tr.jacobian(lambda w: bound(w)[1], X)[0], -2.0 * np.diag(np.sin(X)), atol=1e-12
    )
