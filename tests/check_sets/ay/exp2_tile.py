"""Golden model of the attention kernel of our NPU.

Bit-exactness is not the aim, the order of operations is: tiles of TQ x TK, exp2 instead
of exp (the hardware has only exp2), a running maximum and a running sum in float32.
The verification bench compares the RTL simulation with `TiledKernel`.
"""
import math
from dataclasses import dataclass

import torch

LOG2_E = math.log2(math.e)


@dataclass(frozen=True)
class TileShape:
    tq: int = 64
    tk: int = 64


class TiledKernel:
    """O = softmax(Q K^T * scale) V per (batch, head), tile by tile.

    q [B, H, Lq, D], k and v [B, H, Lk, D]. `causal` aligns the last query with the last
    key (decode with a cache). `k_len` [B] int: keys at or behind k_len[b] do not exist;
    the causal alignment is to the full Lk. Rows with no visible key give 0.
    Also returns the natural log-sum-exp [B, H, Lq] (-inf for empty rows) for the backward kernel.
    """

    def __init__(self, shape: TileShape = TileShape(), scale=None, causal=False):
        self.shape = shape
        self.scale = scale
        self.causal = causal
        self.tiles_done = 0
        self.tiles_skipped = 0

    def _visible(self, i0, i1, j0, j1, Lq, Lk, k_len, device):
        """bool, broadcastable to [B, 1, i1-i0, j1-j0]."""
        j = torch.arange(j0, j1, device=device)
        see = torch.ones(1, 1, i1 - i0, j1 - j0, dtype=torch.bool, device=device)
        if self.causal:
            i = torch.arange(i0, i1, device=device)
            see = see & (j[None, :] <= i[:, None] + (Lk - Lq))
        if k_len is not None:
            see = see & (j[None, :] < k_len[:, None])[:, None, None, :]
        return see

    def __call__(self, q, k, v, k_len=None):
        B, H, Lq, D = q.shape
        Lk = k.shape[2]
        if v.shape[2] != Lk:
            raise ValueError("k and v differ in length: %d, %d" % (Lk, v.shape[2]))
        scale = (D ** -0.5 if self.scale is None else self.scale) * LOG2_E
        tq, tk = self.shape.tq, self.shape.tk
        out = torch.zeros(B, H, Lq, v.shape[-1], dtype=torch.float32, device=q.device)
        lse = torch.full((B, H, Lq), float("-inf"), device=q.device)

        for i0 in range(0, Lq, tq):
            i1 = min(i0 + tq, Lq)
            qt = q[:, :, i0:i1].float() * scale
            m = torch.full((B, H, i1 - i0, 1), float("-inf"), device=q.device)
            l = torch.zeros_like(m)
            acc = torch.zeros_like(out[:, :, i0:i1])
            for j0 in range(0, Lk, tk):
                j1 = min(j0 + tk, Lk)
                if self.causal and j0 > i1 - 1 + Lk - Lq:
                    self.tiles_skipped += 1
                    continue
                self.tiles_done += 1
                s = qt @ k[:, :, j0:j1].float().transpose(-1, -2)
                s = s.masked_fill(~self._visible(i0, i1, j0, j1, Lq, Lk, k_len, q.device), float("-inf"))
                m_new = torch.maximum(m, s.amax(-1, keepdim=True))
                base = torch.where(torch.isinf(m_new), torch.zeros_like(m_new), m_new)
                p = torch.exp2(s - base)
                fix = torch.exp2(m - base)
                l = l * fix + p.sum(-1, keepdim=True)
                acc = acc * fix + p @ v[:, :, j0:j1].float()
                m = m_new
            some = l > 0
            out[:, :, i0:i1] = torch.where(some, acc / l.where(some, torch.ones_like(l)), torch.zeros_like(acc))
            lse[:, :, i0:i1] = ((m + torch.log2(l)) / LOG2_E).squeeze(-1)
        return out.to(q.dtype), lse


def cycles(Lq, Lk, D, shape: TileShape, macs=1024, exp_units=64):
    """Rough cycle estimate: matmul and exp2 pipelines overlap, the slower one counts."""
    tiles = math.ceil(Lq / shape.tq) * math.ceil(Lk / shape.tk)
    mm = 2 * shape.tq * shape.tk * D / macs
    ex = shape.tq * shape.tk / exp_units
    return int(tiles * max(mm, ex))


def dump_vectors(path, seed, B=1, H=2, Lq=70, Lk=130, D=32):
    """Stimuli and expected results for the bench."""
    g = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(B, H, n, D, generator=g) for n in (Lq, Lk, Lk))
    o, lse = TiledKernel(causal=True)(q, k, v)
    torch.save({"q": q, "k": k, "v": v, "o": o, "lse": lse}, path)
