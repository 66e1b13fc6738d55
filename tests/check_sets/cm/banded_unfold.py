"""Local causal attention that never forms the L x L matrix (used in our byte-level LM)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class BandedAttention(nn.Module):
    """x: (B, L, dim). Token t attends to the `window` tokens t-window+1 ... t, itself included;
    places before the start of the sequence do not count."""

    def __init__(self, dim=24, heads=3, window=4):
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)

    def _band(self, t):
        # (B, h, L, d) -> (B, h, L, d, window); the last slot is the token itself
        return F.pad(t, (0, 0, self.window - 1, 0)).unfold(2, self.window, 1)

    def forward(self, x):
        B, L, D = x.shape
        d = D // self.heads
        q, k, v = (t.reshape(B, L, self.heads, d).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        kb, vb = self._band(k), self._band(v)
        s = torch.einsum("bhld,bhldw->bhlw", q, kb) / d ** 0.5
        src = torch.arange(L, device=x.device)[:, None] + torch.arange(1 - self.window, 1, device=x.device)
        s = s.masked_fill(src < 0, float("-inf"))
        p = F.softmax(s, dim=-1)
        y = torch.einsum("bhlw,bhldw->bhld", p, vb)
        return self.out(y.transpose(1, 2).flatten(2))
