"""PaLM-like parallel layer with one shared key/value head (multi-query).

    y = x + W_a A(n(x)) + W_f (silu(gate) * up)

All input projections are one matrix ``wi``; its output columns are, in order,
    [ q : H*d | k : d | v : d | gate : f | up : f ].
Queries and keys get a LayerNorm over d (no bias) before the product, the
product is divided by sqrt(d).  Position t reads positions <= t only.

``ParLayer(width, H, d, f)``
    x   : (B, T, width) float
    pad : (B, T) bool or None, True = padding.  Padding is on the right, so
          position 0 is always a real token.
returns (B, T, width).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ParLayer(nn.Module):
    def __init__(self, width, H, d, f):
        super().__init__()
        self.H, self.d, self.f = H, d, f
        self.n = nn.LayerNorm(width)
        self.wi = nn.Linear(width, H * d + 2 * d + 2 * f, bias=False)
        self.qn = nn.LayerNorm(d, bias=False)
        self.kn = nn.LayerNorm(d, bias=False)
        self.wa = nn.Linear(H * d, width, bias=False)
        self.wf = nn.Linear(f, width, bias=False)

    def forward(self, x, pad=None):
        B, T, _ = x.shape
        H, d, f = self.H, self.d, self.f
        q, k, v, gate, up = self.wi(self.n(x)).split([H * d, d, d, f, f], dim=-1)
        q = self.qn(q.view(B, T, H, d))
        k = self.kn(k)
        # fold heads into the query rows: (B, T*H, d) against (B, T, d)
        s = torch.bmm(q.reshape(B, T * H, d), k.mT).view(B, T, H, T) * d ** -0.5
        t = torch.arange(T, device=x.device)
        ok = (t[None, :] <= t[:, None])[None]
        if pad is not None:
            ok = ok & ~pad[:, None, :]
        s = s.masked_fill(~ok[:, :, None, :], torch.finfo(s.dtype).min)
        p = s.float().softmax(-1).to(v.dtype)
        o = torch.einsum("bthj,bjd->bthd", p, v).reshape(B, T, H * d)
        return x + self.wa(o) + self.wf(F.silu(gate) * up)
