import torch
from torch import nn

# Multi-head latent attention, toy re-implementation for a reading group.
# We cache only the compressed latent c (dc) and one shared rope key (dr) per token, and
# absorb W_uk into the query and W_uv into the output.


def rope_complex(x, pos, base=10000.0):
    """x (..., L, d); neighbouring pairs (x0,x1),(x2,x3).. are rotated (GPT-J layout)."""
    d = x.shape[-1]
    inv = base ** (-torch.arange(0, d, 2, dtype=torch.float32, device=x.device) / d)
    ang = pos.float()[:, None] * inv
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], d // 2, 2))
    z = z * torch.polar(torch.ones_like(ang), ang)
    return torch.view_as_real(z).flatten(-2).type_as(x)


class LatentCache:
    def __init__(self):
        self.c = None
        self.kr = None

    def __len__(self):
        return 0 if self.c is None else self.c.shape[1]

    def push(self, c, kr):
        self.c = c if self.c is None else torch.cat((self.c, c), 1)
        self.kr = kr if self.kr is None else torch.cat((self.kr, kr), 1)
        return self.c, self.kr


class LatentAttention(nn.Module):
    """Causal. Tokens given together with a cache continue the cached sequence."""

    def __init__(self, dim=32, heads=4, dn=8, dr=4, dv=6, dc=12):
        super().__init__()
        self.h, self.dn, self.dr, self.dv = heads, dn, dr, dv
        self.wq = nn.Linear(dim, heads * (dn + dr), bias=False)
        self.wkv_a = nn.Linear(dim, dc + dr, bias=False)
        self.w_uk = nn.Parameter(torch.randn(heads, dn, dc) * dc**-0.5)
        self.w_uv = nn.Parameter(torch.randn(heads, dv, dc) * dc**-0.5)
        self.wo = nn.Linear(heads * dv, dim, bias=False)
        self.softmax_scale = (dn + dr) ** -0.5
        self.dc = dc

    def forward(self, x, cache=None):
        B, L, _ = x.shape
        start = len(cache) if cache is not None else 0
        pos = torch.arange(start, start + L, device=x.device)
        q = self.wq(x).view(B, L, self.h, -1).transpose(1, 2)
        qn, qr = q.split([self.dn, self.dr], -1)
        qr = rope_complex(qr, pos)
        c, kr = self.wkv_a(x).split([self.dc, self.dr], -1)
        kr = rope_complex(kr, pos)
        if cache is not None:
            c, kr = cache.push(c, kr)
        ql = torch.einsum("bhld,hdc->bhlc", qn, self.w_uk)
        s = torch.einsum("bhlc,bmc->bhlm", ql, c) + torch.einsum("bhlr,bmr->bhlm", qr, kr)
        s = s * self.softmax_scale
        later = torch.arange(c.shape[1], device=x.device)[None, :] > pos[:, None]
        p = s.masked_fill(later, float("-inf")).softmax(-1)
        o = torch.einsum("bhlm,bmc->bhlc", p, c)
        o = torch.einsum("bhlc,hvc->blhv", o, self.w_uv)
        return self.wo(o.reshape(B, L, -1))
