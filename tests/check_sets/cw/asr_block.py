import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class AcousticBlock(nn.Module):
    """Pre-norm encoder block for filterbank frames with a bucketed relative bias.

    frames:  (batch, time, width)
    n_valid: (batch,) number of real frames, at least 1; the frames after that are
             padding and are never attended to.
    """

    def __init__(self, width=64, heads=4, buckets=16, reach=64):
        super().__init__()
        self.heads, self.buckets, self.reach = heads, buckets, reach
        self.ln_a = nn.LayerNorm(width)
        self.ln_b = nn.LayerNorm(width)
        self.to_qkv = nn.Linear(width, 3 * width)
        self.back = nn.Linear(width, width)
        self.rel = nn.Embedding(buckets, heads)
        self.ff = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))

    def bucket(self, t, device):
        """Half of the buckets for keys to the right; small offsets exact, large ones logarithmic."""
        p = torch.arange(t, device=device)
        off = p[None, :] - p[:, None]
        half = self.buckets // 2
        base = (off > 0).long() * half
        off = off.abs()
        exact = half // 2
        far = exact + (torch.log(off.clamp(min=1).float() / exact)
                       / math.log(self.reach / exact) * (half - exact)).long()
        far = far.clamp(max=half - 1)
        return base + torch.where(off < exact, off, far)

    def forward(self, frames, n_valid):
        b, t, w = frames.shape
        qkv = self.to_qkv(self.ln_a(frames))
        q, k, v = qkv.view(b, t, 3, self.heads, w // self.heads).unbind(2)
        logits = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(w // self.heads)
        logits = logits + self.rel(self.bucket(t, frames.device)).permute(2, 0, 1)
        pad = torch.arange(t, device=frames.device)[None] >= n_valid[:, None]
        logits = logits.masked_fill(pad[:, None, None, :], float("-inf"))
        y = torch.einsum("bhij,bjhd->bihd", F.softmax(logits, -1), v).reshape(b, t, w)
        frames = frames + self.back(y)
        return frames + self.ff(self.ln_b(frames))
