"""Multi-head latent attention, decode friendly ("absorbed") form.

Only the latent c (r numbers a token) and one shared rotary key (dr numbers) are cached.
"""
import torch
import torch.nn as nn


def rot(x, pos):
    # x (..., T, dr); neighbours (2i, 2i+1) make a pair
    half = x.shape[-1] // 2
    w = 10000.0 ** (-torch.arange(half, dtype=x.dtype) / half)
    z = torch.view_as_complex(x.unflatten(-1, (half, 2)).contiguous())
    ang = pos[:, None].to(x.dtype) * w
    return torch.view_as_real(z * torch.polar(torch.ones_like(ang), ang)).flatten(-2)


class MLA(nn.Module):
    """x (B, T, D), cache None or (c, kr) of what came before -> (y (B, T, D), cache).

    Causal: a token sees all cached tokens and the new ones up to itself.
    scores = (q_nope . k_nope + q_rope . k_rope) / sqrt(dn + dr)
    """

    def __init__(self, D=40, H=4, dn=8, dr=4, dv=6, r=12):
        super().__init__()
        self.H, self.dn, self.dr, self.dv, self.r = H, dn, dr, dv, r
        self.q = nn.Linear(D, H * (dn + dr), bias=False)
        self.down = nn.Linear(D, r + dr, bias=False)
        self.uk = nn.Parameter(torch.randn(H, dn, r) * r ** -0.5)   # latent -> k_nope
        self.uv = nn.Parameter(torch.randn(H, dv, r) * r ** -0.5)   # latent -> value
        self.o = nn.Linear(H * dv, D, bias=False)

    def forward(self, x, cache=None):
        B, T, _ = x.shape
        c, kr = self.down(x).split([self.r, self.dr], -1)
        past = 0 if cache is None else cache[0].shape[1]
        here = torch.arange(past, past + T)
        kr = rot(kr, here)
        if cache is not None:
            c, kr = torch.cat([cache[0], c], 1), torch.cat([cache[1], kr], 1)

        qn, qr = self.q(x).view(B, T, self.H, -1).transpose(1, 2).split([self.dn, self.dr], -1)
        qr = rot(qr, here)
        ql = torch.einsum("bhtn,hnr->bhtr", qn, self.uk)            # fold W_uk into the query
        s = torch.einsum("bhtr,bsr->bhts", ql, c) + torch.einsum("bhte,bse->bhts", qr, kr)
        s = s / (self.dn + self.dr) ** 0.5
        ok = torch.arange(past + T)[None] <= here[:, None]
        p = s.masked_fill(~ok, -torch.inf).softmax(-1)
        z = torch.einsum("bhts,bsr->bhtr", p, c)                    # attend in the latent space
        y = torch.einsum("bhtr,hvr->bthv", z, self.uv).reshape(B, T, -1)
        return self.o(y), (c, kr)
