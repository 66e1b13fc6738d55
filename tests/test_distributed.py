"""overt.torch's modules under torch.distributed, in two processes on gloo."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Gradients of both halves of a batch, put together, are those of the whole batch in one process.
PROGRAM = """
import copy, sys, warnings
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from overt import models
from overt.torch import EncoderDecoder
from overt.torch.nn import swap

warnings.simplefilter("error")
warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")
rank = int(sys.argv[1])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
torch.manual_seed(0)
tokens = torch.randint(11, (4, 5)), torch.tensor([5, 3, 4, 2]), torch.randint(13, (4, 4))
x = torch.randn(4, 5, 8)
theirs = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
transformer = models.Transformer(11, 13, width=8, heads=2, inner=16, encoder_layers=2, decoder_layers=1)
cases = [
    (EncoderDecoder(transformer), tokens),
    (EncoderDecoder(models.Recurrent(11, 13, width=4, state=6, inner=5)), tokens),
    (swap(torch.nn.TransformerEncoder(theirs, 2, enable_nested_tensor=False)), (x,)),
]
mesh = init_device_mesh("cpu", (2,))


def gradients(module, inputs, rows=slice(None)):
    module(*(x[rows] for x in inputs)).square().mean().backward()
    return [parameter.grad for parameter in module.parameters()]


half = slice(2 * rank, 2 * rank + 2)
for module, inputs in cases:
    expected = gradients(copy.deepcopy(module), inputs)
    replicated = gradients(DistributedDataParallel(copy.deepcopy(module)), inputs, half)
    sharded = copy.deepcopy(module)
    for part in sharded.modules():
        if isinstance(part, torch.nn.ModuleList):
            for layer in part:
                fully_shard(layer, mesh=mesh)
    sharded = gradients(fully_shard(sharded, mesh=mesh), inputs, half)
    for one, other, third in zip(expected, replicated, sharded, strict=True):
        torch.testing.assert_close(other, one)
        torch.testing.assert_close(third.full_tensor(), one)
dist.destroy_process_group()
"""


def test_replicated_and_sharded_modules_learn_the_same(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    assert torch.distributed.is_available()
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(rank), str(tmp_path / "store")], stderr=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    try:
        errors = [process.communicate(timeout=120)[1] for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0, 0], "\n".join(errors)
