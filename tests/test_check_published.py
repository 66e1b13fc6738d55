"""What published layers do: caches in comments, keys shared among queries or pooled, blocks that are masked."""

from __future__ import annotations

import pytest

from overt.check.calls import call as calls
from overt.check.report import CallError, UnattendedError
from swapped import Check, right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
import math
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.head = heads, width // heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def split(self, x):
        return x.view(x.shape[0], -1, self.heads, self.head).transpose(1, 2)

    def forward(self, hidden, hides=None, kept=None):
        q, k, v = self.split(self.query(hidden)), self.split(self.key(hidden)), self.split(self.value(hidden))
        if kept is not None:
            # what was seen before stands first, for fast auto-regressive generation
            k, v = torch.cat([kept[0], k], dim=2), torch.cat([kept[1], v], dim=2)
        s = q @ k.transpose(-1, -2) / math.sqrt(self.head)
        if hides is not None:
            s = s + hides
        p = s.softmax(-1)
        return (p @ v).transpose(1, 2).flatten(2)


class Groups(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.scale = width**-0.5
        self.ask, self.own, self.give, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, groups, pixels):
        soft = (self.ask(groups) @ self.own(pixels).transpose(-2, -1) * self.scale).softmax(-2)
        hard = torch.zeros_like(soft).scatter_(-2, soft.argmax(-2, keepdim=True), 1.0)
        shared = hard - soft.detach() + soft
        shared = shared / (shared.sum(-1, keepdim=True) + 1.0)
        return self.out(shared @ self.give(pixels)), soft


class Pools(nn.Module):
    """Keys are pooled by four before they meet the queries of all heads, which then look across the pools."""

    def __init__(self, width=32, size=4):
        super().__init__()
        self.size, self.own = size, nn.Linear(width, width)
        self.gate, self.place = nn.Parameter(torch.randn(width, width) * 0.2), nn.Parameter(torch.zeros(size, width))

    def forward(self, hidden):
        B, T, C = hidden.shape
        keys, gates, fill = self.own(hidden), hidden @ self.gate.T, -T % self.size
        keys, gates = (nn.functional.pad(x, (0, 0, 0, fill)).view(B, -1, self.size, C) for x in (keys, gates))
        real = (torch.arange(T + fill) < T).view(1, -1, self.size, 1)
        return ((gates + self.place).masked_fill(~real, -torch.inf).softmax(2) * keys).sum(2)


class Biased(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.head = heads, width // heads
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x, bias=None):
        B, T, C = x.shape
        q, k, v = (one(x).view(B, T, self.heads, self.head).transpose(1, 2) for one in (self.q, self.k, self.v))
        s = q @ k.transpose(-2, -1) / self.head**0.5
        if bias is None:
            bias = self.made_by_the_first_layer
        return ((s + bias).softmax(-1) @ v).transpose(1, 2).reshape(B, T, C)


def without_kernel(query, key, value):
    """query, key, value (B, H, T, D)"""
    return torch.zeros_like(query)


class Cross(nn.Module):
    """Cross attention: keys and values come from the memory.  x (B, T, C), memory (B, T, C)"""

    def __init__(self, width=32):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x, memory):
        q, k, v = self.q(x), self.k(memory), self.v(memory)
        return (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(-1) @ v


class Blocks(nn.Module):
    """A position sees those of its block.  mask (B, 1, blocks, block, block): True where a key is seen."""

    def __init__(self, width=32, heads=4, block=12):
        super().__init__()
        self.heads, self.head, self.block = heads, width // heads, block
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x, mask=None):
        B, T, C = x.shape
        fill, laid = -T % self.block, (B, -1, self.block, self.heads, self.head)
        q, k, v = (nn.functional.pad(one(x), (0, 0, 0, fill)).view(laid) for one in (self.q, self.k, self.v))
        s = torch.einsum("bnqhd,bnkhd->bhnqk", q, k) * self.head**-0.5
        if mask is not None:
            s = s.masked_fill(~mask, -torch.inf)
        return self.o(torch.einsum("bhnqk,bnkhd->bnqhd", s.softmax(-1), v).reshape(B, -1, C)[:, :T])
'''

LATER = "            s = s + hides\n        # auto-regressive: what comes later is not seen\n"
BOTH = [
    ("Layer", "            s = s + hides\n", LATER, "causal_missing"),
    ("Groups", "        shared = shared / (shared.sum(-1, keepdim=True) + 1.0)\n", "", "softmax_axis_q"),
    ("Cross", "self.v(memory)", "self.v(x)", "unknown"),
    ("Blocks", "x, mask=None):", "x):\n        mask = None", "unknown"),
]  # fmt: skip

test_right, test_wrong = right_and_wrong(SOURCE, BOTH, ["Pools"])


@pytest.mark.parametrize(("asked", "raises"), [("bias is None", False), ("True", True)])
def test_what_an_argument_leads_past(check: Check, monkeypatch: pytest.MonkeyPatch, asked: str, raises: bool) -> None:
    monkeypatch.setattr(calls, "MOST", 10)
    source = SOURCE.replace("bias is None", asked)
    if raises:
        assert [f.id for f in check("Biased", source).findings] == ["raises"]
    else:
        with pytest.raises(CallError):
            check("Biased", source)


def test_zeros_are_linear_in_all_and_attend_to_nothing(check: Check) -> None:
    with pytest.raises(UnattendedError):
        check("without_kernel", SOURCE)
