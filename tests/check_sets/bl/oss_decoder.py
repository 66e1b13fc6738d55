"""One attention layer of a gpt-oss-like model, eager version for debugging the kernels."""
import math
from typing import List, Tuple

import torch
from torch import Tensor, nn

KV = Tuple[Tensor, Tensor]


class SinkAttention(nn.Module):
    r"""GQA with a learned sink per head and, in even layers, a sliding window.

    The sink is one more logit in the denominator and has no value:
    :math:`p_{ij} = e^{s_{ij}} / (e^{b_h} + \sum_k e^{s_{ik}})`, so rows sum to less than 1.

    A query at position p of a windowed layer sees the keys p-window+1 .. p.
    ``past`` holds rotated keys and values of *all* earlier tokens, [B, T, Hkv, D].
    """

    def __init__(self, hidden=64, n_q=8, n_kv=2, head_dim=16, window=0, theta=150000.0):
        super().__init__()
        self.n_q, self.n_kv, self.head_dim = n_q, n_kv, head_dim
        self.window = window
        self.theta = theta
        self.sinks = nn.Parameter(torch.randn(n_q))
        self.qkv = nn.Linear(hidden, (n_q + 2 * n_kv) * head_dim)
        self.out = nn.Linear(n_q * head_dim, hidden)

    def _rope(self, x: Tensor, offset: int) -> Tensor:
        half = self.head_dim // 2
        inv = self.theta ** (-torch.arange(half, dtype=torch.float32) / half)
        t = torch.arange(offset, offset + x.shape[1], dtype=torch.float32)
        ang = torch.outer(t, inv)[None, :, None, :].to(x.device)
        cos, sin = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
        x1, x2 = torch.chunk(x, 2, dim=-1)
        return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1)

    def forward(self, x: Tensor, past: KV = None) -> Tuple[Tensor, KV]:
        b, n, _ = x.shape
        offset = 0 if past is None else past[0].shape[1]
        q, k, v = self.qkv(x).split(
            [self.n_q * self.head_dim, self.n_kv * self.head_dim, self.n_kv * self.head_dim], dim=-1
        )
        q = self._rope(q.view(b, n, self.n_q, self.head_dim), offset)
        k = self._rope(k.view(b, n, self.n_kv, self.head_dim), offset)
        v = v.view(b, n, self.n_kv, self.head_dim)
        if past is not None:
            k = torch.cat((past[0], k), 1)
            v = torch.cat((past[1], v), 1)

        # [b, n, kv, group, d]: the group shares a kv head, nothing is copied
        q = q.view(b, n, self.n_kv, self.n_q // self.n_kv, self.head_dim)
        s = torch.einsum("bqhmd,bkhd->bhmqk", q, k) / math.sqrt(self.head_dim)

        pos_q = torch.arange(offset, offset + n, device=x.device)[:, None]
        pos_k = torch.arange(offset + n, device=x.device)[None, :]
        drop = pos_k > pos_q
        if self.window > 0:
            drop |= pos_k <= pos_q - self.window
        s = s.masked_fill(drop, -torch.inf)

        sink = self.sinks.view(1, self.n_kv, -1, 1, 1).expand(b, -1, -1, n, 1)
        p = torch.cat((s, sink), dim=-1).softmax(-1)[..., :-1]
        y = torch.einsum("bhmqk,bkhd->bqhmd", p, v)
        return self.out(y.reshape(b, n, -1)), (k, v)


class Stack(nn.Module):
    def __init__(self, depth=4, hidden=64, window=6):
        super().__init__()
        self.layers = nn.ModuleList(SinkAttention(hidden, window=window if i % 2 == 0 else 0) for i in range(depth))
        self.norms = nn.ModuleList(nn.RMSNorm(hidden, eps=1e-5) for _ in range(depth))

    def forward(self, x: Tensor, past: List[KV] = None):
        new = []
        for i, (layer, norm) in enumerate(zip(self.layers, self.norms)):
            y, kv = layer(norm(x), None if past is None else past[i])
            x = x + y
            new.append(kv)
        return x, new


if __name__ == "__main__":
    torch.manual_seed(0)
    m = Stack()
    x = torch.randn(1, 12, 64)
    whole, _ = m(x)
    a, past = m(x[:, :9])
    b, _ = m(x[:, 9:], past)
    print((torch.cat((a, b), 1) - whole).abs().max().item())
