"""How does the cost grow with length and with processes?  overt.torch.ring on 1, 2 and 4, beside a simulation of it.

CPU seconds of the busiest process and bytes that it sends, forward, one head, D = 64, float32, one thread a process.
The simulation knows what one process measures, and is asked about more: about these, to be checked, and about 1,000.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

D, BYTES = 64, 4
WINDOW = 4096
PROCESSES = (1, 2, 4)
LENGTHS = {"causal": (8192, 16384, 32768), "window": (8192, 32768, 131072, 524288, 1048576)}

PROGRAM = """
import json, sys, time
import torch
import torch.distributed as dist
import overt
from overt.torch import ring, tour
rank, size, store, asked = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=size)
sent = 0
exchanged = tour.exchanged

def counted(given, *rest):
    global sent
    sent += sum(x.nbytes for x in given)
    return exchanged(given, *rest)

tour.exchanged = counted
torch.manual_seed(rank)
for kind, T, window, D in asked:
    mask = overt.causal() if kind == "causal" else overt.window(window - 1, 0)
    own = len(ring.share(torch.empty(T, 1), 0))
    q, k, v = (torch.randn(1, own, D) for _ in range(3))
    times = []
    for _ in range(2 if T < 100_000 else 1):
        dist.barrier()
        sent, before, wall = 0, time.process_time(), time.perf_counter()
        ring.attention(q, k, v, mask=mask)
        times.append((time.process_time() - before, time.perf_counter() - wall))
    found = [torch.zeros(3, dtype=torch.float64) for _ in range(size)]
    dist.all_gather(found, torch.tensor([*min(times), sent], dtype=torch.float64))
    if rank == 0:
        print(json.dumps([kind, T, *torch.stack(found).max(dim=0).values.tolist()]), flush=True)
dist.destroy_process_group()
"""


@dataclass(frozen=True)
class Machine:
    """What a process computes, in cells of the score matrix of one head a second, and what lies between two of them."""

    cells: float
    block: float  # seconds that each pair of chunks costs, whatever its size
    row: float  # seconds to merge one row of a partial result
    bandwidth: float  # bytes a second
    latency: float = 20e-6


@dataclass(frozen=True)
class Run:
    """What a simulation comes to: seconds of the slowest process, of which it computes, and bytes that it sends."""

    seconds: float
    computing: float
    sent: int
    efficiency: float


@dataclass(frozen=True)
class Met:
    """What chunks of queries and keys (2P, 2P) see of each other: cells, rows that see any, and the keys of these."""

    cells: np.ndarray
    rows: np.ndarray
    first: np.ndarray
    last: np.ndarray


def met(T: int, size: int, window: int | None) -> Met:
    """Between chunks of queries and of keys, causal or with a window."""
    edges = np.arange(2 * size + 1) * T // (2 * size)
    cells, rows, begin, end = (np.zeros((2 * size, 2 * size)) for _ in range(4))
    for i in range(2 * size):
        t = np.arange(edges[i], edges[i + 1])
        first = np.zeros_like(t) if window is None else np.maximum(t - window + 1, 0)
        near = max(0, int(np.searchsorted(edges, first[0], side="right")) - 1)
        if window is None:
            # Whole chunks before, and half of its own.
            cells[i, :i], rows[i, :i] = len(t) * np.diff(edges)[:i], len(t)
            begin[i, :i], end[i, :i] = edges[:i], edges[1 : i + 1]
            near = i
        for j in range(near, i + 1):
            seen = np.clip(np.minimum(t + 1, edges[j + 1]) - np.maximum(first, edges[j]), 0, None)
            cells[i, j], rows[i, j] = seen.sum(), (seen > 0).sum()
            begin[i, j], end[i, j] = max(edges[j], first[0]), min(edges[j + 1], t[-1] + 1)
    return Met(cells, rows, begin, end)


def simulate(T: int, size: int, window: int | None, machine: Machine, *, heads: int = 1, groups: int = 1,
             width: int = D, itemsize: int = BYTES) -> Run:  # fmt: skip
    """Forward around the ring: every process begins a step when its last one is done and its keys have arrived."""
    seen = met(T, size, window)
    needs = seen.cells > 0
    both = np.stack([np.arange(size), 2 * size - 1 - np.arange(size)])
    rank = np.arange(size)
    begun, done, link = (np.zeros(size) for _ in range(3))
    computing, sent = np.zeros(size), np.zeros(size)
    for step in range(size):
        owner = (rank - step) % size
        work = np.zeros(size)
        for own in both:
            for other in both[:, owner]:
                pair = needs[own, other]
                merged = machine.row * seen.rows[own, other] * heads
                work += pair * (heads * seen.cells[own, other] / machine.cells + machine.block + merged)
        arrived = np.zeros(size)
        if step:
            keys = np.zeros(size)
            for other in both[:, owner]:
                # All between the first and the last key that a process's queries see.
                first = np.where(needs[both, other], seen.first[both, other], np.inf).min(axis=0)
                last = np.where(needs[both, other], seen.last[both, other], 0).max(axis=0)
                keys += np.maximum(last - np.where(last > 0, first, 0), 0)
            size_of = keys * 2 * width * groups * itemsize
            sent[owner] += size_of
            # Both sides have begun the step before; and a link carries one thing after the other.
            arrived = np.maximum(np.maximum(begun, begun[owner]), link) + size_of / machine.bandwidth
            link = arrived
            arrived = arrived + (size_of > 0) * machine.latency
        begun = np.maximum(done, arrived)
        done = begun + work
        computing += work
    alone = heads * seen.cells.sum() / machine.cells
    return Run(float(done.max()), float(computing.max()), int(sent.max()), float(alone / size / done.max()))


def measured() -> dict[tuple[str, int, int], tuple[float, float, int]]:
    """CPU and wall seconds of the busiest process, and the most bytes sent, by kind, length and processes."""
    asked = [(kind, T, WINDOW, D) for kind, lengths in LENGTHS.items() for T in lengths]
    found = {}
    for size in PROCESSES:
        with tempfile.TemporaryDirectory() as folder:
            given = [f"{folder}/store", json.dumps(asked)]
            running = [
                subprocess.Popen(
                    [sys.executable, "-c", PROGRAM, str(rank), str(size), *given],
                    stdout=subprocess.PIPE,
                    text=True,
                )
                for rank in range(size)
            ]
            outputs = [process.communicate()[0] for process in running]
            if any(process.returncode for process in running):
                raise AssertionError(f"processes ended with {[process.returncode for process in running]}")
            for line in outputs[0].splitlines():
                kind, T, cpu, wall, sent = json.loads(line)
                found[kind, T, size] = cpu, wall, int(sent)
    return found


def fitted(found: dict[tuple[str, int, int], tuple[float, float, int]]) -> Machine:
    """What one process measures: cells a second of each mask's own, as least squares of all runs alone."""
    rows, seconds = [], []
    for (kind, T, size), (cpu, _, _) in found.items():
        if size == 1:
            seen = met(T, 1, None if kind == "causal" else WINDOW)
            # Each cell, and each merged row, takes its time; every run weighs the same.
            rows.append([seen.cells.sum() / cpu, seen.rows.sum() / cpu])
            seconds.append(1.0)
    (per_cell, per_row), *_ = np.linalg.lstsq(np.array(rows), np.array(seconds), rcond=None)
    return Machine(1 / per_cell, 2e-4, max(per_row, 0.0), 1e9)


def table() -> str:
    """Measured and simulated, and 1,000 machines."""
    found = measured()
    machine = fitted(found)
    lines = [
        f"One process: {machine.cells / 1e6:.0f} million cells a second, {machine.row * 1e9:.0f} ns a merged row.",
        "",
        "| mask | T | processes | CPU seconds | simulated | ratio | bytes sent | simulated |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (kind, T, size), (cpu, _, sent) in found.items():
        run = simulate(T, size, None if kind == "causal" else WINDOW, machine)
        ratio = cpu / run.computing
        lines.append(
            f"| {kind} | {T:,} | {size} | {cpu:.2f} | {run.computing:.2f} | {ratio:.2f} | {sent:,} | {run.sent:,} |"
        )
        if sent != run.sent:
            raise AssertionError(f"the simulation sends {run.sent} bytes, the ring {sent}: {kind}, {T}, {size}")
    lines += ["", *planned()]
    if find_spec("matplotlib"):
        draw(found, machine)
    return "\n".join(lines)


# A GPU of 400 TFLOP/s in bfloat16, 4 · D flops a cell, D = 128, behind a network of 50 GB/s.
FAST = Machine(4e14 / (4 * 128), 2e-5, 1e-9, 5e10, 5e-6)
PLANNED = {"32 heads, 32 of keys": 32, "32 heads, 4 of keys": 4}


def planned() -> list[str]:
    """A plan for up to 1,000 machines."""
    lines = [
        "| T | heads | machines | seconds a layer | efficiency | bytes sent per token and layer |",
        "|---|---|---|---|---|---|",
    ]
    for T in (1 << 20, 1 << 24):
        for name, groups in PLANNED.items():
            for size in (8, 64, 256, 1000):
                run = simulate(T, size, None, FAST, heads=32, groups=groups, width=128, itemsize=2)
                per_token = run.sent * size / T
                lines.append(
                    f"| {T:,} | {name} | {size} | {run.seconds:.3g} | {100 * run.efficiency:.0f} % | {per_token:,.0f} |"
                )
    return lines


def draw(found: dict[tuple[str, int, int], tuple[float, float, int]], machine: Machine) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for kind, marker in (("causal", "o"), ("window", "s")):
        for n, size in enumerate(PROCESSES):
            lengths = LENGTHS[kind]
            color = f"C{n}"
            left.plot(lengths, [found[kind, T, size][0] for T in lengths], marker, color=color, label=f"{kind}, {size}")
            window = None if kind == "causal" else WINDOW
            simulated = [simulate(T, size, window, machine).computing for T in lengths]
            left.plot(lengths, simulated, "-" if kind == "causal" else "--", color=color, linewidth=1)
    left.set(xscale="log", yscale="log", xlabel="T", ylabel="CPU seconds of the busiest process")
    left.legend(frameon=False, fontsize=7, title="measured; lines: simulated", title_fontsize=7)
    sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000]
    for T in (1 << 20, 1 << 24):
        for name, groups in PLANNED.items():
            runs = [simulate(T, n, None, FAST, heads=32, groups=groups, width=128, itemsize=2) for n in sizes]
            right.plot(sizes, [run.efficiency for run in runs], label=f"{T >> 20} Mi positions, {name}")
    right.set(xscale="log", xlabel="machines (simulated)", ylabel="efficiency", ylim=(0, 1.05))
    right.legend(frameon=False, fontsize=7)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(Path(__file__).parents[1] / "docs" / "scale.png", dpi=130)
