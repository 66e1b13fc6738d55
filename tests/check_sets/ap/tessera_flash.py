"""Tessera: attention tile by tile in plain PyTorch, the teaching version of a fused kernel.

For every tile of queries the tiles of keys are visited once; running maximum m, running sum
l and running output acc stand in for the row of probabilities, which is never stored.
Exact: the result equals softmax(q k^T * scale + mask) v.
"""
import math
from typing import Optional

import torch


class TileSpec:
    def __init__(self, rows: int = 32, cols: int = 32):
        self.rows, self.cols = rows, cols

    def spans(self, n, size):
        for lo in range(0, n, size):
            yield lo, min(n, lo + size)

    def count(self, lq, lk):
        return math.ceil(lq / self.rows) * math.ceil(lk / self.cols)


class TesseraAttention(torch.nn.Module):
    """q [B, H, Lq, d], k and v [B, H, Lk, d]; key_keep bool [B, Lk], True = use the key.

    causal: the last query stands at the last key. A query without keys gives zeros.
    """

    def __init__(self, spec: Optional[TileSpec] = None, causal: bool = False):
        super().__init__()
        self.spec, self.causal = spec or TileSpec(), causal

    def forward(self, q, k, v, key_keep=None):
        B, H, Lq, d = q.shape
        Lk = k.size(2)
        shift = Lk - Lq
        scale = 1.0 / math.sqrt(d)
        out = torch.zeros(B, H, Lq, v.size(-1), dtype=q.dtype, device=q.device)
        for r0, r1 in self.spec.spans(Lq, self.spec.rows):
            qi = q[:, :, r0:r1].float() * scale
            m = torch.full((B, H, r1 - r0, 1), -math.inf, device=q.device)
            l = torch.zeros_like(m)
            acc = torch.zeros(B, H, r1 - r0, v.size(-1), device=q.device)
            for c0, c1 in self.spec.spans(Lk, self.spec.cols):
                if self.causal and c0 > r1 - 1 + shift:
                    break
                s = qi @ k[:, :, c0:c1].float().transpose(-1, -2)
                if self.causal:
                    rows = torch.arange(r0, r1, device=q.device)[:, None] + shift
                    cols = torch.arange(c0, c1, device=q.device)[None, :]
                    s = s.masked_fill(cols > rows, -math.inf)
                if key_keep is not None:
                    s = s.masked_fill(~key_keep[:, None, None, c0:c1], -math.inf)
                m_new = torch.maximum(m, s.amax(-1, keepdim=True))
                safe = m_new.masked_fill(m_new == -math.inf, 0.0)
                p = torch.exp(s - safe)
                fade = torch.exp(m - safe)
                l = l * fade + p.sum(-1, keepdim=True)
                acc = acc + p @ v[:, :, c0:c1].float()
                m = m_new
            out[:, :, r0:r1] = (acc / l.masked_fill(l == 0, 1.0)).to(q.dtype)
        return out


class TesseraBlock(torch.nn.Module):
    def __init__(self, dim, heads, causal=True):
        super().__init__()
        self.heads = heads
        self.norm = torch.nn.LayerNorm(dim)
        self.qkv = torch.nn.Linear(dim, 3 * dim)
        self.o = torch.nn.Linear(dim, dim)
        self.core = TesseraAttention(causal=causal)

    def forward(self, x, keep=None):
        B, L, D = x.shape
        q, k, v = self.qkv(self.norm(x)).view(B, L, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = self.core(q, k, v, keep)
        return x + self.o(y.transpose(1, 2).reshape(B, L, D))


def traffic_bytes(lq, lk, d, spec, itemsize=2):
    """Bytes read for K and V, once for every tile of queries."""
    return math.ceil(lq / spec.rows) * lk * d * 2 * itemsize
