"""Multi-head latent attention (DeepSeek-V2) with the compressed cache, small readable version."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, n, eps=1e-6):
        super().__init__()
        self.g, self.eps = nn.Parameter(torch.ones(n)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.g


def rope(x, pos, base=1e4):
    """Interleaved pairs; x [..., L, d], pos [L]."""
    d = x.shape[-1]
    f = base ** (-torch.arange(0, d, 2, dtype=x.dtype, device=x.device) / d)
    ang = pos.to(x.dtype)[:, None] * f
    z = torch.view_as_complex(x.reshape(*x.shape[:-1], d // 2, 2).contiguous())
    return torch.view_as_real(z * torch.polar(torch.ones_like(ang), ang)).flatten(-2)


class LatentCache:
    def __init__(self):
        self.c = self.kr = None

    def __len__(self):
        return 0 if self.c is None else self.c.shape[1]

    def update(self, c, kr):
        self.c = c if self.c is None else torch.cat([self.c, c], 1)
        self.kr = kr if self.kr is None else torch.cat([self.kr, kr], 2)
        return self.c, self.kr


class MLA(nn.Module):
    """Causal. Cache per token: latent c (kv_rank) and one rotary key shared by all heads."""

    def __init__(self, dim, heads, nope=16, rot=8, vdim=16, q_rank=48, kv_rank=32):
        super().__init__()
        self.h, self.nope, self.rot, self.vdim = heads, nope, rot, vdim
        self.q_down, self.q_norm = nn.Linear(dim, q_rank, bias=False), RMSNorm(q_rank)
        self.q_up = nn.Linear(q_rank, heads * (nope + rot), bias=False)
        self.kv_down, self.kv_norm = nn.Linear(dim, kv_rank + rot, bias=False), RMSNorm(kv_rank)
        self.kv_up = nn.Linear(kv_rank, heads * (nope + vdim), bias=False)
        self.o = nn.Linear(heads * vdim, dim, bias=False)

    def forward(self, x, cache=None):
        B, n, _ = x.shape
        cache = LatentCache() if cache is None else cache
        past = len(cache)
        pos = torch.arange(past, past + n, device=x.device)
        q = self.q_up(self.q_norm(self.q_down(x))).view(B, n, self.h, -1).transpose(1, 2)
        q_n, q_r = q.split([self.nope, self.rot], -1)
        q_r = rope(q_r, pos)
        c, k_r = self.kv_down(x).split([self.kv_norm.g.numel(), self.rot], -1)
        c, k_r = cache.update(self.kv_norm(c), rope(k_r, pos).unsqueeze(1))
        m = c.shape[1]
        # absorb the key up-projection in the query; values are expanded at the end
        up = self.kv_up.weight.view(self.h, self.nope + self.vdim, -1)
        w_k, w_v = up[:, :self.nope], up[:, self.nope:]
        q_c = torch.einsum("bhnd,hdr->bhnr", q_n, w_k)
        s = torch.einsum("bhnr,bmr->bhnm", q_c, c) + q_r @ k_r.transpose(-1, -2)
        s = s / (self.nope + self.rot) ** 0.5
        later = torch.arange(m, device=x.device)[None, :] > pos[:, None]
        p = F.softmax(s.masked_fill(later, float("-inf")), dim=-1, dtype=torch.promote_types(s.dtype, torch.float32))
        lat = torch.einsum("bhnm,bmr->bhnr", p.to(x.dtype), c)
        y = torch.einsum("bhnr,hvr->bnhv", lat, w_v)
        return self.o(y.flatten(2))


class MLABlock(nn.Module):
    def __init__(self, dim, heads, ff):
        super().__init__()
        self.n1, self.n2, self.att = RMSNorm(dim), RMSNorm(dim), MLA(dim, heads)
        self.g, self.u, self.d = nn.Linear(dim, ff, False), nn.Linear(dim, ff, False), nn.Linear(ff, dim, False)

    def forward(self, x, cache=None):
        x = x + self.att(self.n1(x), cache)
        h = self.n2(x)
        return x + self.d(F.silu(self.g(h)) * self.u(h))
