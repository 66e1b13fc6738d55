"""Encoder for quipu: pendant cords hang from a primary cord, knots from the cords.

Cords are read in both directions, so the linear distance penalty (ALiBi) is symmetric
here.  The paper's slopes for a number of heads that is no power of two are followed to
the letter: first the slopes of the next lower power of two, then every second one of
the next higher power.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

KNOT_TYPES = ("single", "long", "figure-eight", "broken", "pad")
PAD = len(KNOT_TYPES) - 1


def slopes(n):
    def pow2(m):
        return [2.0 ** (-8.0 * (i + 1) / m) for i in range(m)]

    if n & (n - 1) == 0:
        return pow2(n)
    low = 1 << (n.bit_length() - 1)
    return pow2(low) + pow2(2 * low)[0::2][: n - low]


class CordAttention(nn.Module):
    """x: [N, cords, dim], missing: [N, cords] bool, True where a cord has been torn off.

    Torn-off cords are never looked at.  If a quipu has lost all its cords the result is
    the output bias only (the attention contributes zeros).
    """

    def __init__(self, dim=36, heads=6):
        super().__init__()
        assert dim % heads == 0
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.register_buffer("slope", torch.tensor(slopes(heads)).view(heads, 1, 1), persistent=False)

    def forward(self, x, missing=None):
        N, L, C = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        at = torch.arange(L, device=x.device)
        far = (at[None, :] - at[:, None]).abs()
        logits = q @ k.mT / math.sqrt(C // self.heads) - self.slope * far
        if missing is not None:
            gone = missing[:, None, None, :]
            logits = logits.masked_fill(gone, torch.finfo(logits.dtype).min)
            p = F.softmax(logits, dim=-1).masked_fill(gone, 0.0)
            v = v.masked_fill(missing[:, None, :, None], 0.0)
        else:
            p = F.softmax(logits, dim=-1)
        y = (p @ v).transpose(1, 2).reshape(N, L, C)
        return self.proj(y)


class QuipuEncoder(nn.Module):
    def __init__(self, dim=36, heads=6, depth=2):
        super().__init__()
        self.knot = nn.Embedding(len(KNOT_TYPES), dim, padding_idx=PAD)
        self.colour = nn.Linear(3, dim)
        self.blocks = nn.ModuleList()
        for _ in range(depth):
            self.blocks.append(nn.ModuleDict({
                "n1": nn.LayerNorm(dim), "att": CordAttention(dim, heads),
                "n2": nn.LayerNorm(dim),
                "ff": nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)),
            }))

    def forward(self, knots, rgb):
        """knots [N, cords, per_cord] long, rgb [N, cords, 3]"""
        missing = (knots == PAD).all(-1)
        x = self.knot(knots).sum(2) + self.colour(rgb)
        for b in self.blocks:
            x = x + b["att"](b["n1"](x), missing)
            x = x + b["ff"](b["n2"](x))
        n = (~missing).sum(1, keepdim=True).clamp(min=1)
        return x.masked_fill(missing[..., None], 0).sum(1) / n


if __name__ == "__main__":
    torch.manual_seed(3)
    knots = torch.randint(0, 4, (2, 9, 5))
    knots[1, 6:] = PAD
    print(QuipuEncoder()(knots, torch.rand(2, 9, 3)).shape)
