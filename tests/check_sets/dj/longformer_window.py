"""Longformer (Beltagy, Peters, Cohan 2020) for classification: sliding window plus one
global token.

* token 0 ([CLS]) is global. It reads everybody with its own projections
  (q_g, k_g, v_g);
* any other token i reads the tokens j with |i - j| <= w and, in the same softmax,
  token 0, all with the ordinary projections. Token 0 is counted once, also where it
  lies inside the window.

No L x L matrix is built: keys are unfolded into (L, 2w+1) neighbourhoods.
"""
import torch
from torch import nn
import torch.nn.functional as F


class LongformerSelfAttention(nn.Module):
    """x (B, L, D), keep (B, L) bool: True = token, False = padding (token 0 is always
    a token). Returns (B, L, D); rows of padding are of no meaning."""

    def __init__(self, D=32, heads=4, w=3):
        super().__init__()
        self.h, self.d, self.w = heads, D // heads, w
        self.local = nn.Linear(D, 3 * D)
        self.glob = nn.Linear(D, 3 * D)
        self.out = nn.Linear(D, D)

    def heads_of(self, t):
        return [u.unflatten(-1, (self.h, self.d)).transpose(1, 2) for u in t.chunk(3, -1)]

    def around(self, t, value=0.0):
        """(..., L, c) -> (..., L, 2w+1, c): entry m is the row i - w + m"""
        t = F.pad(t, (0, 0, self.w, self.w), value=value)
        return t.unfold(-2, 2 * self.w + 1, 1).transpose(-1, -2)

    def forward(self, x, keep):
        B, L, D = x.shape
        w = self.w
        q, k, v = self.heads_of(self.local(x))
        q = q * self.d ** -0.5

        near = torch.einsum("bhid,bhimd->bhim", q, self.around(k))
        ok = self.around(keep.float().unsqueeze(-1)).squeeze(-1) > 0.5     # (B, L, 2w+1)
        near = near.masked_fill(~ok[:, None], float("-inf"))

        cls = torch.einsum("bhid,bhd->bhi", q, k[:, :, 0])
        inside = torch.arange(L, device=x.device) <= w      # token 0 already in the window
        cls = cls.masked_fill(inside, float("-inf"))

        p = torch.cat([cls.unsqueeze(-1), near], -1).softmax(-1)
        y = p[..., :1] * v[:, :, :1] + torch.einsum("bhim,bhimd->bhid", p[..., 1:], self.around(v))

        qg, kg, vg = self.heads_of(self.glob(x))
        g = (qg[:, :, :1] * self.d ** -0.5) @ kg.transpose(-1, -2)
        g = g.masked_fill(~keep[:, None, None], float("-inf")).softmax(-1) @ vg
        y = torch.cat([g, y[:, :, 1:]], dim=2)
        return self.out(y.transpose(1, 2).reshape(B, L, D))
