import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.g = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.g


def rope(x, pos, base=10000.0):
    # x: (B, L, H, D), halves
    d = x.size(-1)
    inv = base ** (-torch.arange(0, d, 2, device=x.device) / d)
    ang = pos[:, None].to(x.dtype) * inv.to(x.dtype)
    c, s = ang.cos()[:, None, :], ang.sin()[:, None, :]
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * c - b * s, b * c + a * s), dim=-1)


class LatentAttention(nn.Module):
    # DeepSeek-V2 style. What is cached: the latent (B, L, r_kv) and one rotated key (B, L, d_rope)
    def __init__(self, dim=64, heads=4, r_q=32, r_kv=24, d_nope=12, d_rope=8, d_v=10):
        super().__init__()
        self.h, self.dn, self.dr, self.dv, self.r = heads, d_nope, d_rope, d_v, r_kv
        self.q_a = nn.Linear(dim, r_q, bias=False)
        self.q_norm = RMSNorm(r_q)
        self.q_b = nn.Linear(r_q, heads * (d_nope + d_rope), bias=False)
        self.kv_a = nn.Linear(dim, r_kv + d_rope, bias=False)
        self.kv_norm = RMSNorm(r_kv)
        self.kv_b = nn.Linear(r_kv, heads * (d_nope + d_v), bias=False)
        self.o = nn.Linear(heads * d_v, dim, bias=False)
        self.scale = (d_nope + d_rope) ** -0.5

    def forward(self, x, cache=None):
        B, L, _ = x.shape
        past = 0 if cache is None else cache[0].size(1)
        pos = torch.arange(past, past + L, device=x.device)

        q = self.q_b(self.q_norm(self.q_a(x))).view(B, L, self.h, -1)
        q_n, q_r = q.split([self.dn, self.dr], dim=-1)
        q_r = rope(q_r, pos)

        c, k_r = self.kv_a(x).split([self.r, self.dr], dim=-1)
        c = self.kv_norm(c)
        k_r = rope(k_r.unsqueeze(2), pos).squeeze(2)
        if cache is not None:
            c = torch.cat((cache[0], c), 1)
            k_r = torch.cat((cache[1], k_r), 1)

        k_n, v = self.kv_b(c).view(B, past + L, self.h, -1).split([self.dn, self.dv], dim=-1)
        s = torch.einsum("bqhd,bkhd->bhqk", q_n, k_n) + torch.einsum("bqhd,bkd->bhqk", q_r, k_r)
        s = s * self.scale
        future = torch.arange(past + L, device=x.device)[None, :] > pos[:, None]
        p = F.softmax(s.masked_fill(future, float("-inf")), dim=-1)
        y = torch.einsum("bhqk,bkhd->bqhd", p, v).flatten(2)
        return self.o(y), (c, k_r)
