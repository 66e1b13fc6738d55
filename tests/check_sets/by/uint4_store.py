"""KV cache with 4-bit codes (KIVI-like, but per token for both keys and values).

Each vector is stored as codes 0..15 together with its own step and minimum:
x ~ code * step + minimum.  At decode time the layer attends over the
de-quantised cache.  Grouped heads: neighbouring query heads share a kv head.
"""
from typing import NamedTuple, Optional

import torch
from torch import Tensor, nn


class Packed(NamedTuple):
    codes: Tensor      # uint8, 0..15
    step: Tensor
    minimum: Tensor

    @classmethod
    def encode(cls, x: Tensor) -> "Packed":
        lo = x.amin(-1, keepdim=True)
        step = ((x.amax(-1, keepdim=True) - lo) / 15).clamp_min(1e-8)
        return cls(((x - lo) / step).round().to(torch.uint8), step, lo)

    def join(self, other: "Packed") -> "Packed":
        return Packed(*(torch.cat(pair, dim=2) for pair in zip(self, other)))


class KiviLikeAttention(nn.Module):
    def __init__(self, dim: int = 64, heads: int = 4, kv_heads: int = 2):
        super().__init__()
        self.heads, self.kv_heads, self.hd = heads, kv_heads, dim // heads
        self.wq = nn.Linear(dim, heads * self.hd, bias=False)
        self.wk = nn.Linear(dim, kv_heads * self.hd, bias=False)
        self.wv = nn.Linear(dim, kv_heads * self.hd, bias=False)
        self.wo = nn.Linear(heads * self.hd, dim, bias=False)
        self.keys: Optional[Packed] = None
        self.vals: Optional[Packed] = None

    def clear(self) -> None:
        self.keys = self.vals = None

    def remember(self, k: Tensor, v: Tensor) -> None:
        pk, pv = Packed.encode(k), Packed.encode(v)
        self.keys = pk if self.keys is None else self.keys.join(pk)
        self.vals = pv if self.vals is None else self.vals.join(pv)

    def recall(self):
        k = self.keys.codes * self.keys.step + self.keys.minimum
        v = self.vals.codes * self.keys.step + self.vals.minimum
        return k, v

    def step(self, x: Tensor) -> Tensor:
        """One token per sequence: [B, dim] -> [B, dim]."""
        b = x.shape[0]
        q = self.wq(x).view(b, self.kv_heads, self.heads // self.kv_heads, self.hd)
        self.remember(
            self.wk(x).view(b, self.kv_heads, 1, self.hd),
            self.wv(x).view(b, self.kv_heads, 1, self.hd),
        )
        k, v = self.recall()
        w = torch.softmax(q @ k.transpose(2, 3) / self.hd**0.5, dim=-1)
        return self.wo((w @ v).reshape(b, -1))

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, dim]; starts with an empty cache."""
        self.clear()
        return torch.stack([self.step(x[:, t]) for t in range(x.shape[1])], dim=1)
