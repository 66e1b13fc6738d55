"""Multi-head latent attention (DeepSeek-V2), decoding in the absorbed form.

Per token only a latent c (rank r) and one rotated key part kr (dr, common to all heads) are
cached.  With W_uk (H, dn, r) and W_uv (H, dv, r), head h of the model has
    key   = [W_uk[h] c ; kr]   (dn + dr)        value = W_uv[h] c   (dv)
and logits are divided by sqrt(dn + dr).  Instead of expanding keys, W_uk is moved to the
query's side and W_uv behind the weighted sum; the numbers are those of the expanded form.
"""
import torch
from torch import nn


class LatentAttention(nn.Module):
    def __init__(self, dim, heads, dn=16, dr=8, dv=12, rank=10):
        super().__init__()
        self.h, self.dn, self.dr, self.dv, self.r = heads, dn, dr, dv, rank
        self.wq = nn.Linear(dim, heads * (dn + dr), bias=False)   # per head: nope, rope
        self.wdkv = nn.Linear(dim, rank + dr, bias=False)         # latent, rope
        self.wuk = nn.Parameter(torch.randn(heads, dn, rank) * rank ** -0.5)
        self.wuv = nn.Parameter(torch.randn(heads, dv, rank) * rank ** -0.5)
        self.wo = nn.Linear(heads * dv, dim, bias=False)

    def rope(self, x, pos):
        """x (B, T, .., dr); interleaved pairs; pos (T,)."""
        inv = 10000.0 ** (-torch.arange(0, self.dr, 2, dtype=torch.float32) / self.dr)
        ang = pos.float()[:, None] * inv
        ang = ang.view(1, -1, *([1] * (x.dim() - 3)), self.dr // 2).to(x.dtype)
        e, o = x[..., ::2], x[..., 1::2]
        return torch.stack((e * ang.cos() - o * ang.sin(), e * ang.sin() + o * ang.cos()), -1).flatten(-2)

    def forward(self, x, cache=None):
        """x (B, T, dim): the tokens behind the cached ones.  cache: (c (B, P, r), kr (B, P, dr))
        or None.  Causal.  Returns (B, T, dim) and the longer cache."""
        b, t, _ = x.shape
        past = 0 if cache is None else cache[0].shape[1]
        pos = torch.arange(past, past + t)
        qn, qr = self.wq(x).view(b, t, self.h, -1).split([self.dn, self.dr], -1)
        c, kr = self.wdkv(x).split([self.r, self.dr], -1)
        qr, kr = self.rope(qr, pos), self.rope(kr, pos)
        if cache is not None:
            c, kr = torch.cat((cache[0], c), 1), torch.cat((cache[1], kr), 1)
        ql = torch.einsum("bthn,hnr->bthr", qn, self.wuk)
        logits = torch.einsum("bthr,bsr->bhts", ql, c) + torch.einsum("bthr,bsr->bhts", qr, kr)
        logits = logits * (self.dn + self.dr) ** -0.5
        hidden = torch.arange(past + t) > pos[:, None]
        p = logits.masked_fill(hidden, -torch.inf).softmax(-1)
        lat = torch.einsum("bhts,bsr->bthr", p, c)
        y = torch.einsum("bthr,hvr->bthv", lat, self.wuv)
        return self.wo(y.reshape(b, t, -1)), (c, kr)
