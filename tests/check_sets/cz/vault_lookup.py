import math
import torch
from torch import nn
import torch.nn.functional as F


def keep_best(s, n):
    """-inf everywhere but at the n largest of the last axis."""
    n = min(n, s.size(-1))
    val, at = s.topk(n, dim=-1)
    return torch.full_like(s, -math.inf).scatter(-1, at, val)


class VaultLookup(nn.Module):
    """Reads the help-centre vault with cosine scores and a learned sharpness.

    text (B, T, D), vault (B, S, D); gone (B, S) bool, True = article withdrawn, never read.
    Each head reads only its `best` articles. At least one article per row is not withdrawn.
    """

    def __init__(self, D=24, heads=3, best=4):
        super().__init__()
        self.heads, self.best = heads, best
        self.f_text, self.f_addr, self.f_body, self.f_out = (nn.Linear(D, D) for _ in range(4))
        self.sharp = nn.Parameter(torch.full((heads, 1, 1), math.log(10.0)))

    def _h(self, x):
        B, L, D = x.shape
        return x.reshape(B, L, self.heads, D // self.heads).permute(0, 2, 1, 3)

    def forward(self, text, vault, gone=None):
        t = F.normalize(self._h(self.f_text(text)), dim=-1)
        a = F.normalize(self._h(self.f_addr(vault)), dim=-1)
        cos = t @ a.transpose(2, 3)
        s = cos * self.sharp.clamp(max=math.log(100.0)).exp()
        if gone is not None:
            s = s.masked_fill(gone[:, None, None, :], -math.inf)
        w = F.softmax(keep_best(s, self.best), dim=-1)
        y = w @ self._h(self.f_body(vault))
        return self.f_out(y.permute(0, 2, 1, 3).flatten(2))
