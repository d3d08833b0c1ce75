"""Run by `mpiexec -n 2`: what `tracker.distributed` gives on MPI's ranks."""

import warnings

import numpy as np
from mpi4py import MPI
from shard_losses import SHARDS, W, assert_same, check_step, infinite_in_one, squares

import tracker
from tracker.distributed import psum, value_and_grad

warnings.simplefilter("error")  # what is not compiled is told by a warning
comm = MPI.COMM_WORLD
rank = comm.rank

# Shards of ranks: unequally many, all, and none on one of them. All ranks have the same bits.
found = []
for cut in (3, 6, 7):
    own = SHARDS[:cut] if rank == 0 else SHARDS[cut:]
    with value_and_grad(squares, own, comm) as step:
        assert step.shards == 7
        found.append(check_step(step))
for other in found[1:] + comm.allgather(found[0]):
    assert_same(other, found[0])

try:  # one rank's error is every rank's
    value_and_grad(infinite_in_one, [rank + 1], comm)(W)
except tracker.NonFiniteError as error:
    assert error.__notes__ == ["in shard 1"]
else:
    raise AssertionError

try:
    value_and_grad(squares, [], comm)
except tracker.UnsupportedError as error:
    assert "no rank has a shard" in str(error)
else:
    raise AssertionError

try:
    value_and_grad(squares, W, comm)
except tracker.UnsupportedError as error:
    assert "shards are a dict" in str(error)
else:
    raise AssertionError

# psum: the sum over all ranks of what they return is differentiated.
data = np.random.default_rng(0).normal(size=7)
tangent = np.arange(7.0)
part = slice(0, 3) if rank == 0 else slice(3, 7)


def share(x):
    mean = psum(np.sum(x), comm) / psum(x.size, comm)
    return np.sum((x - mean) ** 4)


def whole(x):
    return np.sum((x - np.mean(x)) ** 4)


for f in (share, tracker.jit(share)):
    for _ in range(3):
        np.testing.assert_allclose(comm.allreduce(f(data[part])), whole(data), rtol=1e-12)
        gradient = tracker.gradient(f, data[part])[0]
        np.testing.assert_allclose(gradient, tracker.gradient(whole, data)[0][part], rtol=1e-12)
        found = tracker.hvp(f, data[part], tangent[part])
        np.testing.assert_allclose(found, tracker.hvp(whole, data, tangent)[part], rtol=1e-12)


# A rank that traces anew, or whose guard fails behind a sum, enters no sum more than the others.
def branching(x):
    total = psum(np.sum(x), comm)
    if total * x[0] > 6:
        return total * 2 + psum(x[0], comm)
    return total * 3 + 10 * psum(x[0], comm)


compiled = tracker.jit(branching)
for k, first in enumerate((1.0, 2.0, -1.0, 2.0, 5.0)):
    x = np.concatenate([[first * (-1) ** rank], np.full(1 + (k == 3 and rank == 1), 2.0)])
    assert compiled(x) == branching(x)
    assert tracker.gradient(compiled, x)[0].tolist() == tracker.gradient(branching, x)[0].tolist()

for f in (
    tracker.jit(lambda x: np.sum(x) * comm.allreduce(2)),
    tracker.jit(lambda x: np.sum(x) * comm.bcast(rank)),
):
    try:  # no machine code keeps the result of another call of MPI
        f(data)
    except RuntimeWarning as error:
        assert "names comm." in str(error)
    else:
        raise AssertionError
assert tracker.jit(lambda x: x * comm.size + comm.rank)(1.0) == 2.0 + rank

print(f"rank {rank} has seen all", flush=True)
