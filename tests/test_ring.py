"""A sequence divided among processes: overt.torch.ring on gloo, 2 and 4 processes of this machine, against one."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import overt
from overt import parts

pytest.importorskip("torch")
from overt.torch import tour

HEADER = """
import sys
import numpy as np
import torch
import torch.distributed as dist
import overt, overt.positions
from overt.torch import ring
rank, size = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + sys.argv[3], rank=rank, world_size=size)
"""

AGREES = (
    HEADER
    + """
def drawn(seed, shape, dtype):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(size=shape)).to(dtype)


AXES = {"lse": -1, "received": -1, "entropy": -1}
CLOSE = {torch.float32: 1e-6, torch.float64: 1e-12, torch.bfloat16: 2e-2}


def asked(attend, q, k, v, options, parameters, dy, dlse):
    # All that there is of an attention, by name.
    seen = attend(q, k, v, **options)
    found = torch.autograd.grad([seen.output, seen.lse], [q, k, v, *parameters], [dy, dlse])
    indices, weights = seen.top(3)
    return {
        "output": seen.output.detach(),
        "lse": torch.where(seen.lse.isfinite(), seen.lse, 0.0).detach(),
        "received": seen.received(),
        "entropy": seen.entropy(),
        "indices": indices,
        "weights": weights,
        **{f"gradient {i}": x for i, x in enumerate(found)},
    }


def check(name, T, S, options, dtype=torch.float32, parameters=(), batch=(2,), G=2, rough=0.0):
    # One process, all together and doubles agree; where float32 itself is rougher, both are as near to doubles.
    shapes = (*batch, 4, T, 8), (*batch, G, S, 8), (*batch, G, S, 6), (*batch, 4, T, 6), (*batch, 4, T)
    q, k, v, dy, dlse = (drawn(i, shape, dtype) for i, shape in enumerate(shapes))
    dlse = dlse.double() if dtype is torch.float64 else dlse.float()
    whole = [x.clone().requires_grad_() for x in (q, k, v)]
    one = asked(overt.torch.attend, *whole, options, parameters, dy, dlse)
    wide = [x.double().requires_grad_() for x in (q, k, v)]
    exact = asked(overt.torch.attend, *wide, options, parameters, dy.double(), dlse.double())
    mine = [ring.share(x).requires_grad_() for x in (q, k, v)]
    found = asked(ring.attend, *mine, options, parameters, ring.share(dy), ring.share(dlse, -1))
    for what, x in found.items():
        if what.startswith("gradient") and int(what[-1]) > 2:
            # Each process has its part of the gradient of what all of them share.
            dist.all_reduce(x)
        else:
            x = ring.gather(x, AXES.get(what, -2))
        y, z = one[what], exact[what]
        assert x.shape == y.shape and x.dtype == y.dtype, (name, what, x.shape, y.shape, x.dtype, y.dtype)
        if not x.numel() or (what == "indices" and rough):
            continue
        # Of the largest number there is; indices are the same.
        close, largest = CLOSE.get(y.dtype, 0), max(1.0, float(z.abs().max()))
        errors = [float((a.double() - b).abs().max()) / largest for a, b in ((x, z), (y, z), (x, y.double()))]
        assert max(errors[:2]) <= max(close, rough), (name, what, errors)
        assert rough or errors[2] <= close, (name, what, errors)


slopes = torch.tensor([0.5, 0.25, 0.1, 0.05], requires_grad=True)
table = drawn(9, (8, 4), torch.float32).requires_grad_()
sinks = drawn(8, (4,), torch.float32).requires_grad_()
weight = (drawn(7, (8, 8), torch.float32) / 8).requires_grad_()
large = drawn(7, (8, 8), torch.float32).requires_grad_()
dense = drawn(6, (4, 1, 37), torch.float32).requires_grad_()
causal = overt.causal()
check("full", 32, 32, {})
check("causal", 32, 32, {"mask": causal})
check("causal, odd lengths", 37, 37, {"mask": causal})
check("causal, one key head", 37, 37, {"mask": causal}, G=1)
check("doubles, more keys", 21, 50, {"mask": causal}, torch.float64)
check("fewer positions than chunks", 3, 5, {"mask": causal})
check("no batch", 19, 19, {"mask": causal}, batch=())
check("window", 40, 40, {"mask": overt.window(3, 1)})
check("padding", 24, 24, {"mask": overt.padding(np.array([0, 11])) & causal})
check("prefix", 24, 24, {"mask": overt.prefix(np.array([3, 11]))})
check("documents", 24, 24, {"mask": overt.documents(np.repeat([5, 3, 4], 8)) & causal})
check("packed", 24, 24, {"mask": overt.packed([0, 7, 24]) & causal})
check("keep", 24, 24, {"mask": torch.from_numpy(np.random.default_rng(1).random((24, 24)) < 0.3)})
check("where", 24, 24, {"mask": overt.where(lambda b, h, t, s: (t * s + h) % 3 != b)})
check("not", 24, 24, {"mask": ~overt.window(2, 2) | overt.window(0, 0)})
check("alibi", 37, 37, {"mask": causal, "bias": overt.alibi(slopes), "softcap": 20.0}, parameters=[slopes])
check("relative", 37, 37, {"bias": overt.relative(table)}, parameters=[table])
check("sinks", 37, 37, {"mask": overt.window(0, 0), "sinks": sinks}, parameters=[sinks])
check("bilinear", 20, 37, {"score": overt.bilinear(weight), "bias": dense}, parameters=[weight, dense])
# Scores up to 40 are rounded by 2.4e-6, and nobody rounds them like anybody else.
check("large", 20, 37, {"score": overt.bilinear(large), "bias": dense}, parameters=[large, dense], rough=5e-6)
check("halves", 33, 33, {"mask": causal}, torch.bfloat16, rough=4e-6)
check("dropout", 37, 37, {"mask": causal, "dropout": overt.dropout(0.3, 7), "sinks": sinks}, parameters=[sinks])
seed = torch.tensor(2**40 + 3)
check("dropout, doubles", 22, 51, {"dropout": overt.dropout(0.5, seed), "bias": dense[..., :1]}, torch.float64)
dist.destroy_process_group()
"""
)


def run(program: str, size: int, folder: Path, *given: str) -> tuple[list[int], list[str]]:
    """Exit codes and what so many processes say on stderr."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(rank), str(size), str(folder / "store"), *given],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        errors = [process.communicate(timeout=200)[1] for process in running]
    finally:
        for process in running:
            process.kill()
    return [process.returncode for process in running], errors


@pytest.mark.parametrize("size", [2, 4])
def test_processes_agree_with_one(size: int, tmp_path: Path) -> None:
    codes, errors = run(AGREES, size, tmp_path)
    assert codes == [0] * size, "\n".join(errors)


REFUSES = (
    HEADER
    + """
from overt.errors import ArgumentError, DtypeError, ProcessError, ShapeError


def refused(kind, text, call):
    try:
        call()
    except kind as error:
        assert type(error) is kind and text in str(error), repr(error)
    else:
        raise AssertionError(text)


x = torch.ones(2, 8, 4)
mine = ring.share(x)
refused(ProcessError, "asks for something else", lambda: ring.attention(mine, mine, mine, softcap=2.0 + rank))
different = overt.dropout(0.5, rank)
refused(ProcessError, "asks for something else", lambda: ring.attention(mine, mine, mine, dropout=different))
other = (DtypeError, "masks are boolean") if rank else (ProcessError, "process 1 cannot take part")
mask = torch.ones(8, 8) if rank else torch.ones(8, 8, dtype=torch.bool)
refused(*other, lambda: ring.attention(mine, mine, mine, mask=mask))
refused(ShapeError, "process 0 has 5 of 8 positions of q", lambda: ring.attention(x[:, : 5 - 2 * rank], mine, mine))
refused(ShapeError, "mask has shape (7, 8)", lambda: ring.attention(mine, mine, mine, mask=torch.ones(7, 8) > 0))
refused(ArgumentError, "top(k)", lambda: ring.attend(mine, mine, mine).top(9))
again = mine.clone().requires_grad_()
squares = ring.attention(again, again, again).square().sum()
refused(ArgumentError, "no derivative beyond", lambda: torch.autograd.grad(squares, again, create_graph=True))
# All of them can still talk to each other.
torch.testing.assert_close(ring.gather(ring.attention(mine, mine, mine)), overt.torch.attention(x, x, x))
dist.destroy_process_group()
"""
)


def test_what_is_wrong_is_said_on_every_process(tmp_path: Path) -> None:
    codes, errors = run(REFUSES, 2, tmp_path)
    assert codes == [0, 0], "\n".join(errors)


DIES = (
    HEADER.replace("world_size=size)", "world_size=size, timeout=timedelta(seconds=8))")
    + """
import os, signal
from overt.torch import tour
pids = [None] * size
dist.all_gather_object(pids, os.getpid())
exchanged, calls = tour.exchanged, 0


def dying(*given):
    global calls
    calls += 1
    if rank == 1 and calls == int(sys.argv[4]):
        os.kill(os.getpid(), getattr(signal, sys.argv[5]))
    return exchanged(*given)


tour.exchanged = dying
x = ring.share(torch.ones(1, 4096, 16)).requires_grad_()
try:
    ring.attention(x, x, x, mask=overt.causal()).sum().backward()
except overt.errors.ProcessError as error:
    assert "another process of the group is gone, or does not answer" in str(error)
    os.kill(pids[1], signal.SIGKILL)
    os._exit(3)
os._exit(0)
"""
).replace("import sys", "import sys\nfrom datetime import timedelta", 1)


# On the way there, and on the way back; one that is there and says nothing is as good as gone.
@pytest.mark.parametrize(("size", "call", "how"), [(2, 1, "SIGKILL"), (4, 5, "SIGKILL"), (2, 2, "SIGSTOP")])
def test_a_killed_process_is_an_error_for_the_others_and_no_number(
    size: int, call: int, how: str, tmp_path: Path
) -> None:
    begun = time.monotonic()
    codes, errors = run(DIES, size, tmp_path, str(call), how)
    assert codes == [3, -9, 3, 3][:size], "\n".join(errors)
    assert time.monotonic() - begun < 100


@pytest.mark.parametrize("size", [1, 2, 4, 7])
def test_causal_work_is_the_same_for_every_process_in_every_step(size: int) -> None:
    chunk = 16
    length = 2 * size * chunk
    hollow = np.broadcast_to(np.empty((), np.float32), (1, 1, length, 4))
    asked = parts.asked(hollow, hollow, hollow, score=overt.scaled_dot(), mask=overt.causal())
    needs = tour.meetings(asked, size, range(2 * size), range(2 * size))
    dense = overt.causal().dense(length, length)[0]
    for step in range(size):
        cells = set()
        for rank in range(size):
            owner = (rank - step) % size
            pairs = [
                (i, j) for i in (rank, 2 * size - 1 - rank) for j in (owner, 2 * size - 1 - owner) if (i, j) in needs
            ]
            blocks = (dense[chunk * i : chunk * i + chunk, chunk * j : chunk * j + chunk] for i, j in pairs)
            cells.add(sum(int(block.sum()) for block in blocks))
        assert len(cells) == 1


def test_what_nobody_sees_does_not_travel() -> None:
    hollow = np.broadcast_to(np.empty((), np.float32), (1, 1, 1024, 4))
    asked = parts.asked(hollow, hollow, hollow, score=overt.scaled_dot(), mask=overt.window(100, 0))
    found = tour.meetings(asked, 4, range(8), range(8))
    # A chunk of 128 sees itself, and its first 100 queries the last 100 keys of the one before.
    assert {pair: (place.t, place.s) for pair, place in found.items()} == {
        **{(i, i): (range(128 * i, 128 * i + 128),) * 2 for i in range(8)},
        **{(i, i - 1): (range(128 * i, 128 * i + 100), range(128 * i - 100, 128 * i)) for i in range(1, 8)},
    }
