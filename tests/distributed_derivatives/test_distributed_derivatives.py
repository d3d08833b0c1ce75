"""Sums over shards equal those of one process, for any engine and number of workers."""

import itertools
import mmap
import os
import pickle
import shutil
import signal
import subprocess
import sys
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import shard_losses
from hypothesis import given
from hypothesis import strategies as st
from shard_losses import (
    SHARDS,
    W,
    X,
    Y,
    assert_close,
    assert_same,
    check_step,
    in_python,
    product,
    summed,
)

import tracker
from tracker import distributed
from tracker.distributed import executors, partial_sums, processes, psum, value_and_grad, worker
from tracker.distributed.engines import LostWorkerError
from tracker.jit.discovery import purity_table

HERE = Path(__file__).parent


@pytest.fixture
def threads():
    with ThreadPoolExecutor(3) as pool:
        yield pool


class Inline(Executor):
    """Runs a task when it is submitted."""

    def __init__(self, workers=2):
        self._max_workers = workers

    def submit(self, f, /, *args, **kwargs):
        future = Future()
        try:
            future.set_result(f(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def pids(step):
    return [process.pid for process in step._engine.workers]


# Processes ----------------------------------------------------------------------------------------


def test_lost_process_is_replaced_and_its_shards_are_computed_again():
    with value_and_grad(shard_losses.squares, SHARDS, 2) as step:
        assert_close(step(W), summed(shard_losses.squares))
        first = in_python(step)
        lost, kept = pids(step)
        os.kill(lost, signal.SIGKILL)
        assert_same(in_python(step), first)
        assert kept in pids(step) and lost not in pids(step)
    assert_same(in_python(value_and_grad(shard_losses.squares, SHARDS, Inline())), first)


@pytest.mark.parametrize("count", [1, 2, 7, 21])
def test_number_of_workers_changes_no_bit(count):
    shards = [SHARDS[k % 7] for k in range(count)]
    want = in_python(value_and_grad(shard_losses.squares, shards, Inline(1)))
    for workers in (2, 3, 5, 20):
        assert_same(in_python(value_and_grad(shard_losses.squares, shards, Inline(workers))), want)


def test_error_names_the_shard():
    step = value_and_grad(shard_losses.infinite_in_one, [0, 1, 2], 1)
    with step, pytest.raises(tracker.NonFiniteError, match="loss is infinite") as caught:
        step(W)
    assert caught.value.__notes__ == ["in shard 2"]


def test_after_an_error_or_an_interrupt_the_next_step_is_whole(monkeypatch):
    """The answers of the other processes to the step that ended are not taken for the next."""
    w, seen = np.ones(3), []
    progress = lambda *counts: seen.append(counts)  # noqa: E731
    with value_and_grad(shard_losses.fails_in_one, [1, 2, 3], 3, progress=progress) as step:
        for name, error in ("os", OSError), ("unsendable", RuntimeError):
            with pytest.raises(error, match=r"no file|Unsendable: held") as caught:
                step(w, name)
            assert "fails_in_one" in str(caught.value.__cause__)  # the worker's traceback
            assert_close(step(2.0 * w, ""), (72.0, 24.0 * w))
        kept = pids(step)
        del seen[:]
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(processes.pickle, "loads", interrupt)
            step(w, "")
        assert_close(step(w, ""), (18.0, 12.0 * w))
        assert seen == [(1, 3), (2, 3), (3, 3)] * 2 and pids(step) == kept
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(step._engine.workers[0].connection, "_recv", interrupt)
            step(w, "")
        assert_close(step(w, ""), (18.0, 12.0 * w))
        assert pids(step)[1:] == kept[1:] and pids(step)[0] != kept[0]


def interrupt(*_):
    raise KeyboardInterrupt


def test_forked_process_is_refused(monkeypatch):
    with value_and_grad(shard_losses.fails_in_one, [1], 1) as step, monkeypatch.context() as patch:
        patch.setattr(step._engine, "_owner", 0)
        with pytest.raises(tracker.UnsupportedError, match="forked from"):
            step(W, "")


def test_worker_that_is_always_lost_is_an_error(monkeypatch):
    monkeypatch.setattr(processes, "_MAX_LOSSES", 0)
    step = value_and_grad(shard_losses.fatal, SHARDS, 1)
    with step, pytest.raises(LostWorkerError, match="shards 0 to 6 was lost 1 times"):
        step(W)


def test_executor_that_has_lost_a_worker_is_an_error():
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        step = value_and_grad(shard_losses.fatal, SHARDS, pool)
        for _ in range(2):
            with pytest.raises(LostWorkerError, match="number of processes instead"):
                step(W)


def test_processes_use_their_share_of_the_processors():
    code = """
import ctypes
from tracker.jit import limit_threads
from tracker.jit.runtime import blas
limit_threads(1)
for path in blas._candidate_paths(loaded=True):
    for name in blas._THREAD_SETTERS:
        get = getattr(ctypes.CDLL(path), name.replace("_set_", "_get_"), None)
        assert get is None or get() == 1, path
"""
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


# Any executor -------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [
    shard_losses.squares, shard_losses.jitted_squares, shard_losses.branching,
], ids=lambda loss: loss.__name__)  # fmt: skip
def test_sums_are_those_of_one_process(threads, loss):
    step = value_and_grad(loss, SHARDS, threads)
    for _ in range(2):
        check_step(step, loss)


def test_arguments_structures_and_means(threads):
    line = shard_losses.Line(np.array([0.5, 1.0, -1.0]), 2.0)
    step = value_and_grad(shard_losses.line_squares, SHARDS, threads)
    assert_close(step(line, 3.0), summed(shard_losses.line_squares, line, 3.0))
    assert step(line)[1].name is None
    mean = value_and_grad(shard_losses.squares, tuple(SHARDS), threads, reduce="mean")
    value, gradient = summed(shard_losses.squares)
    assert_close(mean(W), (value / 7, {k: g / 7 for k, g in gradient.items()}))
    assert_close(
        mean.hvp(W, shard_losses.V), {k: h / 7 for k, h in product(shard_losses.squares).items()}
    )


def test_float32_stays_float32(threads):
    step = value_and_grad(lambda w, x: np.sum(w * x) ** 2, [np.float32(1), np.float32(2)], Inline())
    value, gradient = step(np.ones(2, np.float32))
    assert value.dtype == gradient.dtype == np.float32
    assert gradient.tolist() == [20.0, 20.0]


def test_progress_is_told(threads):
    seen = []
    step = value_and_grad(
        shard_losses.squares,
        SHARDS,
        threads,
        progress=lambda done, total: seen.append((done, total)),
    )
    step(W)
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_shards_that_a_worker_has_dropped_are_sent_again(monkeypatch):
    step = value_and_grad(shard_losses.squares, SHARDS, Inline())
    first = in_python(step)
    executors._blocks.clear()
    assert_same(in_python(step), first)
    monkeypatch.setattr(executors, "_MAX_BLOCKS", 1)
    monkeypatch.setattr(worker, "_MAX_COMPILED", 1)
    monkeypatch.setattr(worker, "_compiled", {})
    assert_same(in_python(step), first)
    other = value_and_grad(shard_losses.jitted_squares, SHARDS, Inline())
    assert_close(other(W), first)
    assert_same(in_python(step), first)
    assert len(executors._blocks) == len(worker._compiled) == 1
    step.close()
    assert not executors._blocks


def test_stop_iteration_of_a_loss_ends_no_sum():
    with pytest.raises(StopIteration):
        value_and_grad(shard_losses.exhausted_in_one, [1, 2, 3], Inline())(W)


def test_without_compiler(threads):
    step = value_and_grad(shard_losses.squares, SHARDS, threads)
    with tracker.config(jit=False):
        check_step(step)


def test_minimize_takes_a_step(threads):
    minimize = pytest.importorskip("scipy.optimize").minimize
    step = value_and_grad(lambda w, s: np.sum((s[0] @ w - s[1]) ** 2), SHARDS, Inline())
    found = minimize(step, np.zeros(3), jac=True, tol=1e-10)
    np.testing.assert_allclose(found.x, np.linalg.lstsq(X, Y)[0], rtol=1e-6)


def test_loss_without_a_name_is_sent_by_value():
    pytest.importorskip("cloudpickle")
    power = 3
    packed = pickle.loads(pickle.dumps(worker.pack(lambda w, x: np.sum((w * x) ** power))))
    found = packed.derivatives()["value_and_grad", True](2.0, 1.5)
    assert_close(found, (27.0, 54.0))


def test_loss_that_cannot_be_sent_is_an_error(monkeypatch):
    monkeypatch.setattr(worker.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(tracker.UnsupportedError, match=r"<lambda>.*pip install cloudpickle"):
        value_and_grad(lambda w, x: w * x, SHARDS, 1)


def test_function_that_replaces_one_of_its_name_is_used(monkeypatch):
    for factor in (2.0, 3.0):

        def twice(w, x, factor=factor):
            return factor * w * x

        twice.__module__, twice.__qualname__ = "shard_losses", "twice"
        monkeypatch.setattr(shard_losses, "twice", twice, raising=False)
        assert value_and_grad(twice, [1.0, 2.0], Inline())(1.0) == (3 * factor, 3 * factor)


@pytest.mark.parametrize("run, error, words", [
    (lambda: value_and_grad(shard_losses.squares, [], 1),
     tracker.UnsupportedError, r"list without elements.*array_split"),
    (lambda: value_and_grad(shard_losses.squares, X, 1),
     tracker.UnsupportedError, r"shards are a ndarray.*array_split"),
    (lambda: value_and_grad(shard_losses.squares, SHARDS, "spark"),
     tracker.UnsupportedError, r"no engine 'spark'.*dask.distributed.Client"),
    (lambda: value_and_grad(shard_losses.squares, SHARDS, object()),
     tracker.UnsupportedError, "no engine <object"),
    (lambda: value_and_grad(shard_losses.squares, SHARDS, 0), ValueError, "at least 1"),
    (lambda: value_and_grad(shard_losses.squares, SHARDS, 1, reduce="max"), ValueError, "'mean'"),
    (lambda: psum("x", THREE), tracker.UnsupportedError, "psum got a str"),
    (lambda: psum(1.0, 3), tracker.UnsupportedError, r"psum got a int as the comm.*COMM_WORLD"),
    (lambda: after_close(shard_losses.squares, W), tracker.UnsupportedError, "step is closed"),
])  # fmt: skip
def test_errors(run, error, words):
    with pytest.raises(error, match=words):
        run()


def after_close(loss, w):
    with ThreadPoolExecutor(1) as pool, value_and_grad(loss, SHARDS, pool) as step:
        pass
    return step(w)


def test_engine_without_its_library_says_what_to_install(monkeypatch):
    monkeypatch.setattr(distributed.engines.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"needs ray. pip install 'tracker-grad\[ray\]'"):
        value_and_grad(shard_losses.squares, SHARDS, "ray")


# The order of additions ---------------------------------------------------------------------------


@given(st.data())
def test_order_of_merging_changes_no_bit(data):
    values = data.draw(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
    order = data.draw(st.permutations(range(len(values))))
    cuts = data.draw(st.lists(st.integers(0, len(values)), max_size=4))

    def nodes(numbers):
        found = {}
        for k in numbers:
            found = partial_sums.merge(found, {(0, k): values[k]})
        return found

    ends = [0, *sorted(cuts), len(values)]
    parts = [nodes(order[a:b]) for a, b in itertools.pairwise(ends)]
    merged = {}
    for part in data.draw(st.permutations(parts)):
        merged = partial_sums.merge(merged, part)
    want = nodes(range(len(values)))
    assert partial_sums.total(merged) == partial_sums.total(want)
    np.testing.assert_allclose(partial_sums.total(want), sum(values), rtol=1e-9, atol=1e-6)


# psum ---------------------------------------------------------------------------------------------


class AlikeRanks:
    """A communicator of ranks that all have the same values."""

    def __init__(self, size):
        self.size = size

    def Allreduce(self, given, total):
        EXCHANGED.append(given.shape)
        total[...] = self.size * given


EXCHANGED = []
THREE = AlikeRanks(3)


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "jit"])
def test_psum_has_derivatives_of_any_order(compiled):
    def f(x):
        return np.sum(psum(x**2, THREE) * x)  # 3 x^3; a rank's gradient: 3 (x^2 + 2 x x)

    f = tracker.jit(f) if compiled else f
    x = np.array([1.0, 2.0])
    for _ in range(2):
        assert f(x) == 27.0
        np.testing.assert_allclose(tracker.gradient(f, x)[0], 9 * x**2)
        np.testing.assert_allclose(tracker.hvp(f, x, np.ones(2)), 3 * 3 * 2 * x)
        np.testing.assert_allclose(tracker.jvp(f, (x,), (np.ones(2),))[1], np.sum(9 * x**2))


def test_psum_of_other_things():
    assert psum({"a": [1, 2.5], "b": True}, THREE) == {"a": [3, 7.5], "b": 3}
    z = np.array([1 + 2j])
    found = tracker.gradient(lambda z: np.sum(np.abs(psum(z, THREE)) ** 2), z)[0]
    np.testing.assert_allclose(found, 2 * 3 * 3 * z)


def test_sums_are_exchanged_once_in_each_run():
    def f(x):
        total = psum(x, THREE)
        return total * 2 + psum(2.0, THREE) if total > 4 else psum(total, THREE)

    compiled = tracker.jit(f)
    for x in (1.0, 2.0, 1.0, 2.0, 2.0):
        EXCHANGED.clear()
        assert compiled(x) == (6 * x + 6 if x > 1.5 else 9 * x)
        assert len(EXCHANGED) == 2
    EXCHANGED.clear()
    compiled.ir(np.float32(1.0))  # traces; the next sum is another one
    assert psum(5.0, THREE) == 15.0
    assert psum(np.float32(1.0), THREE) == 3.0


def test_compiled_code_keeps_no_result_of_another_member(monkeypatch):
    """As of a communicator: its C calls are not observed."""
    monkeypatch.setitem(purity_table._CONSTANT_MEMBERS, "mmap.mmap", frozenset({"size"}))
    memory = mmap.mmap(-1, 8)
    compiled = tracker.jit(lambda x: psum(x, THREE) * (memory is not None))
    assert compiled(2.0) == compiled(2.0) == 6.0
    reads = tracker.jit(lambda x: x * memory.tell())
    with pytest.warns(RuntimeWarning, match=r"names memory.tell"):
        assert reads(2.0) == 0.0


# Engines that may be installed --------------------------------------------------------------------


def test_dask():
    pytest.importorskip("dask")
    dask_distributed = pytest.importorskip("distributed")
    import dask.array

    with (
        dask_distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster,
        dask_distributed.Client(cluster) as client,
    ):
        step = value_and_grad(shard_losses.squares, SHARDS, client)
        first = check_step(step)
        x, y = dask.array.from_array(X, chunks=(5, 3)), dask.array.from_array(Y, chunks=5)
        on_partitions = value_and_grad(shard_losses.squares, (x, y), client)
        assert_same(check_step(on_partitions), first)
        on_futures = value_and_grad(shard_losses.squares, client.scatter(SHARDS), client)
        assert_same(in_python(on_futures), first)
        on_delayed = value_and_grad(
            shard_losses.squares, [dask.delayed(shard) for shard in SHARDS], client
        )
        assert_same(in_python(on_delayed), first)
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        assert_same(in_python(step), first)
        assert_same(in_python(on_partitions), first)
        for bad, words in (
            ((x, y.rechunk(35)), "7 and 1 partitions"),
            (x.rechunk((5, 1)), "several axes"),
            ([x, y], "or a tuple of them"),
        ):
            with pytest.raises(tracker.UnsupportedError, match=words):
                value_and_grad(shard_losses.squares, bad, client)
        with pytest.raises(tracker.UnsupportedError, match=r"\(loss, \(x, y\), client\)"):
            value_and_grad(shard_losses.squares, (x, y), 2)


def test_dask_dataframe():
    pytest.importorskip("dask")
    dask_distributed = pytest.importorskip("distributed")
    dataframe = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": X[:, 0], "y": Y})

    def loss(a, part):
        return np.sum((a * part["x"] - part["y"]) ** 2)

    with dask_distributed.Client(processes=False, n_workers=1, dashboard_address=None) as client:
        step = value_and_grad(loss, dataframe.from_pandas(frame, npartitions=3), client)
        assert step.shards == 3
        assert_close(step(2.0), tracker.value_and_grad(loss)(2.0, frame))


def test_ray():
    ray = pytest.importorskip("ray")
    paths = os.pathsep.join([str(HERE), str(HERE.parents[1])])
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": paths}},
    )
    try:
        with value_and_grad(shard_losses.squares, SHARDS, "ray") as step:
            first = check_step(step)
            actor = step._engine._actors[0]
            pid = ray.get(actor.__ray_call__.remote(lambda self: os.getpid()))
            os.kill(pid, signal.SIGKILL)
            assert_same(in_python(step), first)
        references = [ray.put(shard) for shard in SHARDS]
        with value_and_grad(shard_losses.squares, references, "ray") as step:
            assert_same(in_python(step), first)
    finally:
        ray.shutdown()


def test_mpi():
    pytest.importorskip("mpi4py")
    if shutil.which("mpiexec") is None:
        pytest.skip("no mpiexec")
    paths = os.pathsep.join([str(HERE), str(HERE.parents[1])])
    flags = dict.fromkeys(("ALLOW_RUN_AS_ROOT", "ALLOW_RUN_AS_ROOT_CONFIRM"), "1")
    done = subprocess.run(
        ["mpiexec", "-n", "2", sys.executable, "-m", "mpi4py", str(HERE / "mpi_program.py")],
        env={
            **os.environ,
            **{f"OMPI_{name}": value for name, value in flags.items()},
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "PYTHONPATH": paths,
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"rank 0 has seen all", "rank 1 has seen all"} <= set(done.stdout.splitlines())
