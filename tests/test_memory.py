"""Memory linear in length, measured in fresh processes as growth of the peak resident set."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MIB = 2**20

MEASURE = """
import json, resource
import numpy as np
import overt

def peak():
    # Kilobytes on Linux.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

rng = np.random.default_rng(0)
q, k, v = (rng.normal(size=({H}, {T}, {D})).astype(np.float32) for _ in range(3))
# What the library loads and the threads it starts are no growth with length.
overt.attend(q[:, :64], k[:, :64], v[:, :64]).top(8)
before = peak()
{call}
print(json.dumps({{"grown": peak() - before, "inputs": q.nbytes + k.nbytes + v.nbytes}}))
"""


def measure(call: str, T: int, H: int = 1, D: int = 64) -> dict[str, int]:
    code = MEASURE.format(call=call, T=T, H=H, D=D)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("T", "options"),
    [
        # Weights of 16384 × 16384 would take 1 GiB.
        (16_384, ""),
        (16_384, "mask=overt.causal(), bias=overt.alibi(overt.positions.alibi_slopes(1))"),
        # Boolean weights of 12288 × 12288 would take 144 MiB, the distances behind them more than 1 GiB.
        (12_288, "mask=overt.where(lambda b, h, t, s: (t - s) % 3 > 0)"),
    ],
)
def test_attend_and_statistics(T: int, options: str) -> None:
    call = f"seen = overt.attend(q, k, v, {options}); seen.received(); seen.entropy(); seen.top(8)"
    outputs = T * 64 * 4 + 4 * T * 4 + T * 8 * 12
    found = measure(call, T)
    assert found["grown"] <= found["inputs"] + outputs + 64 * MIB


def test_sums_of_columns_take_what_a_window_sees() -> None:
    # Sixty-four parts of the rows have sums of their own; of all keys these would take 128 MiB.
    call = "seen = overt.attend(q, k, v, mask=overt.window(63, 0)); seen.received(); seen.entropy(); seen.top(8)"
    outputs = 262_144 * (8 * 4 + 3 * 4 + 8 * 12)
    found = measure(call, 262_144, D=8)
    assert found["grown"] <= outputs + 24 * MIB


def test_a_few_rows_of_the_weights_cost_a_few_rows() -> None:
    # One row of keys is packed for the tile; the tile itself is 10 × 32768.
    call = "seen = overt.attend(q, k, v); before = peak(); seen.weights[0, 31_000:31_010]"
    assert measure(call, 32_768)["grown"] <= 32 * MIB


@pytest.mark.parametrize("what", ["attend(q, k, v, score=s)", "attend(q, k, v, score=s).gradient(v)"])
def test_the_additive_score_is_linear_too(what: str) -> None:
    # The hidden numbers of 8192 × 8192 pairs, 16 each, would take 4 GiB, the scores alone 256 MiB.
    call = f"s = overt.additive(np.ones((16, 64)), np.ones((16, 64)), np.ones(16)); overt.{what}"
    assert measure(call, 8192)["grown"] <= 24 * MIB


def test_dropout_is_linear_too() -> None:
    assert measure("overt.attend(q, k, v, dropout=overt.dropout(0.1, 0)).gradient(v)", 8192)["grown"] <= 24 * MIB


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        # Output and gradients take 8 MiB.
        ("mask=overt.causal()", 24),
        # The gradient of the scores, some rows at a time, and its product with the distances.
        ("mask=overt.causal(), bias=overt.alibi(overt.positions.alibi_slopes(1))", 96),
        ("score=overt.cosine(10), sinks=np.zeros(1, np.float32)", 40),
    ],
)
def test_gradients_are_linear(options: str, limit: int) -> None:
    # One score matrix of 8192 × 8192 would take 256 MiB.
    assert measure(f"overt.attend(q, k, v, {options}).gradient(v)", 8192)["grown"] <= limit * MIB


TENSORS = """
import json, resource
import torch
import overt

def peak():
    # Kilobytes on Linux.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

torch.manual_seed(0)
q, k, v = (torch.randn(1, 8192, 64, requires_grad=True) for _ in range(3))
slopes, table = torch.rand(1, requires_grad=True), torch.randn(32, 1, requires_grad=True)

def run(q, k, v):
    seen = overt.attend(q, k, v, mask=overt.causal(), {options})
    if {statistics}:
        return seen, seen.received(), seen.entropy(), seen.top(8), seen.map(64, 64), seen.weights[0, -5:]
    seen.output.backward(v.detach()[:, : q.shape[1]])
    return seen

# What the library loads and the threads it starts are no growth with length.
run(q[:, :64], k[:, :64], v[:, :64])
q.grad = k.grad = v.grad = None
before = peak()
found = run(q, k, v)
print(json.dumps({{"grown": peak() - before}}))
"""


@pytest.mark.parametrize(
    "options",
    ["", "bias=overt.alibi(slopes)", "bias=overt.relative(table)", "dropout=overt.dropout(0.1, 0)"],
    ids=["plain", "alibi", "T5", "dropout"],
)
@pytest.mark.parametrize("statistics", [True, False], ids=["statistics", "gradients"])
def test_tensors_cost_what_arrays_cost(statistics: bool, options: str) -> None:
    pytest.importorskip("torch")
    code = TENSORS.format(options=options, statistics=statistics)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    # One matrix of 8192 × 8192 would take 256 MiB.
    inputs, outputs = 3 * 8192 * 64 * 4, (8192 * 64 * 4 + 8192 * 8 * 12) if statistics else 4 * 8192 * 64 * 4
    assert json.loads(done.stdout)["grown"] <= inputs + outputs + 64 * MIB


RECORD = """
import json, resource
import torch, overt
from torch import nn

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.project, self.wide, self.back = nn.Linear(128, 384), nn.Linear(128, 512), nn.Linear(512, 128)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (4, 32)).transpose(1, 2) for y in self.project(x).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + y.transpose(1, 2).flatten(2)
        return x + self.back(self.wide(x).relu())

def recorded(x):
    with overt.record(model, keep="statistics", compute="{compute}") as rec:
        model(x)
    return rec.nbytes

model = nn.Sequential(*(Layer() for _ in range(4)))
with torch.no_grad():
    recorded(torch.zeros(1, 64, 128))
    x = torch.randn(1, {T}, 128)
    for _ in range(2):
        model(x)
    before = peak()
    held = recorded(x)
print(json.dumps({{"grown": peak() - before, "held": held}}))
"""


@pytest.mark.parametrize("compute", ["model", "overt"])
def test_a_recording_of_statistics_takes_little_more_than_it_keeps(compute: str) -> None:
    pytest.importorskip("torch")
    # What the allocator keeps for itself changes from run to run.
    own = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"}
    found = {}
    for T in (2048, 8192):
        code = [sys.executable, "-c", RECORD.format(T=T, compute=compute)]
        done = subprocess.run(code, capture_output=True, text=True, check=True, timeout=300, env={**os.environ, **own})
        found[T] = json.loads(done.stdout)
        # The kernels keep a mebibyte for themselves.
        assert found[T]["grown"] <= 2 * found[T]["held"] + MIB
    assert found[8192]["held"] == pytest.approx(4 * found[2048]["held"], rel=0.01)


WRITE = """
import numpy as np

x = np.random.default_rng(0).standard_normal((1, {T}, 64), np.float32)
given = dict(q=x, k=x[:, ::-1], {more})
np.savez("long.npz", **given, **{{"mask.first": np.maximum(np.arange({T}) - 63, 0), "mask.last": np.arange({T}) + 1}})
given |= dict(q=x[:, :64], k=x[:, :64])
np.savez("small.npz", **given)
"""
PAGE = """
import json, resource
from overt.cli import main

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def page(name):
    try:
        main(["show", "page", name + ".npz", "-o", name + ".html"])
    except SystemExit as ended:
        assert not ended.code
    return peak()

print(json.dumps(-page("small") + page("long")))
"""


@pytest.mark.parametrize("more", ["", "additive=np.ones(64, np.float32)"])
def test_a_page_of_a_long_file_is_the_file_and_the_page(tmp_path: Path, more: str) -> None:
    # As many numbers as may lie inside a page, of which float64 copies alone would take 256 MiB.
    T = 262_144
    subprocess.run([sys.executable, "-c", WRITE.format(T=T, more=more)], cwd=tmp_path, check=True, timeout=300)
    done = subprocess.run(
        [sys.executable, "-c", PAGE], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300
    )
    # What is held beside the file's arrays is the lse.
    inputs, outputs = (tmp_path / "long.npz").stat().st_size, (tmp_path / "long.html").stat().st_size + T * 4
    assert json.loads(done.stdout.splitlines()[-1]) <= inputs + outputs + 64 * MIB
