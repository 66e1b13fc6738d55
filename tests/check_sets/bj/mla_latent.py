"""Multi-head latent attention (DeepSeek-V2) for single-host inference.

The cache stores, per token, one compressed latent c [r] and one rotary key
k_rope [dr] that all heads share.  Two equivalent ways to attend:

  mode="expand"  builds per-head keys and values from the latents,
  mode="absorb"  folds W_uk into the query and W_uv into the output.

Score = (q_nope . k_nope + q_rope . k_rope) / sqrt(dn + dr), causal.
"""
import torch
import torch.nn as nn


def rotate_pairs(x, pos, theta=10000.0):
    """Interleaved layout: (x0, x1), (x2, x3), ... are the pairs."""
    d = x.shape[-1]
    inv = theta ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    ang = (pos.double()[:, None] * inv).to(x.dtype)
    c, s = ang.cos(), ang.sin()
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * c - b * s, a * s + b * c), dim=-1).flatten(-2)


class LatentCache:
    def __init__(self):
        self.c = None
        self.kr = None

    @property
    def length(self):
        return 0 if self.c is None else self.c.shape[1]

    def add(self, c, kr):
        self.c = c if self.c is None else torch.cat([self.c, c], 1)
        self.kr = kr if self.kr is None else torch.cat([self.kr, kr], 1)
        return self.c, self.kr


class MLA(nn.Module):
    def __init__(self, dim=32, heads=4, rank=12, d_nope=8, d_rope=4, d_v=6, mode="expand"):
        super().__init__()
        assert mode in ("expand", "absorb")
        self.h, self.dn, self.dr, self.dv, self.mode = heads, d_nope, d_rope, d_v, mode
        self.wq = nn.Linear(dim, heads * (d_nope + d_rope), bias=False)
        self.wdkv = nn.Linear(dim, rank + d_rope, bias=False)
        self.c_norm = nn.RMSNorm(rank, eps=1e-6)
        self.w_uk = nn.Parameter(torch.randn(heads, d_nope, rank) * rank**-0.5)
        self.w_uv = nn.Parameter(torch.randn(heads, d_v, rank) * rank**-0.5)
        self.wo = nn.Linear(heads * d_v, dim, bias=False)
        self.scale = (d_nope + d_rope) ** -0.5

    def forward(self, x, cache=None):
        """x [B, T, dim]; with a cache the T tokens follow those cached."""
        b, t, _ = x.shape
        cache = LatentCache() if cache is None else cache
        start = cache.length
        pos = torch.arange(start, start + t)
        q = self.wq(x).view(b, t, self.h, self.dn + self.dr).transpose(1, 2)
        qn, qr = q.split([self.dn, self.dr], dim=-1)
        qr = rotate_pairs(qr, pos)
        c, kr = self.wdkv(x).split([self.w_uk.shape[-1], self.dr], dim=-1)
        c, kr = cache.add(self.c_norm(c), rotate_pairs(kr, pos))

        s = torch.einsum("bhtd,bsd->bhts", qr, kr)
        if self.mode == "expand":
            kn = torch.einsum("hdr,bsr->bhsd", self.w_uk, c)
            s = s + qn @ kn.transpose(-1, -2)
        else:
            q_lat = torch.einsum("bhtd,hdr->bhtr", qn, self.w_uk)
            s = s + torch.einsum("bhtr,bsr->bhts", q_lat, c)
        keep = torch.arange(start + t)[None, :] <= pos[:, None]
        s = (s * self.scale).masked_fill(~keep, float("-inf"))
        p = s.float().softmax(-1).to(x.dtype)

        if self.mode == "expand":
            v = torch.einsum("hdr,bsr->bhsd", self.w_uv, c)
            y = p @ v
        else:
            y = torch.einsum("bhts,bsr->bhtr", p, c)
            y = torch.einsum("bhtr,hdr->bhtd", y, self.w_uv)
        return self.wo(y.transpose(1, 2).reshape(b, t, -1))


def cache_floats_per_token(m: MLA) -> int:
    return m.w_uk.shape[-1] + m.dr
