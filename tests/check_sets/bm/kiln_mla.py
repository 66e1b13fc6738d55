"""Latent-cache attention for the kiln controller's log model.

Only two small things are kept per past token: the compressed latent ``c``
(rank r) and one shared rotary key ``kr`` (rope dims).  The up-projections are
absorbed into the query and the output, so that no full key is ever built.

The rotary part uses adjacent pairs (0,1), (2,3), ...
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RMS(nn.Module):
    def __init__(self, n, eps=1e-6):
        super().__init__()
        self.w = nn.Parameter(torch.ones(n))
        self.eps = eps

    def forward(self, x):
        return self.w * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)


def spin(x, pos, base=10000.0):
    """x [..., T, n], pos [T]; complex rotation of neighbouring pairs."""
    n = x.shape[-1]
    freq = base ** (-torch.arange(0, n, 2, device=x.device, dtype=torch.float32) / n)
    ang = pos.float()[:, None] * freq
    rot = torch.polar(torch.ones_like(ang), ang)
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], n // 2, 2))
    return torch.view_as_real(z * rot).flatten(-2).type_as(x)


class KilnLatentAttention(nn.Module):
    def __init__(self, d=64, heads=4, nope=12, rope=8, rank=16, q_rank=24, v_dim=10):
        super().__init__()
        self.H, self.nope, self.rope, self.rank, self.vd = heads, nope, rope, rank, v_dim
        self.q_down = nn.Linear(d, q_rank, bias=False)
        self.q_norm = RMS(q_rank)
        self.q_up = nn.Linear(q_rank, heads * (nope + rope), bias=False)
        self.kv_down = nn.Linear(d, rank + rope, bias=False)
        self.kv_norm = RMS(rank)
        # per head: first `nope` rows make the key, the other `v_dim` the value
        self.kv_up = nn.Parameter(torch.randn(heads, nope + v_dim, rank) * rank ** -0.5)
        self.out = nn.Linear(heads * v_dim, d, bias=False)
        self.scale = (nope + rope) ** -0.5

    def forward(self, x, cache=None):
        """Causal.  ``x`` are the newest T tokens; ``cache`` what the last call returned.

        Returns (y, cache) with cache = {"c": [B, S, rank], "kr": [B, S, rope]}.
        """
        B, T, _ = x.shape
        past = 0 if cache is None else cache["c"].shape[1]
        pos = torch.arange(past, past + T, device=x.device)

        q = self.q_up(self.q_norm(self.q_down(x))).view(B, T, self.H, -1).transpose(1, 2)
        qn, qr = q.split([self.nope, self.rope], dim=-1)
        qr = spin(qr, pos)

        c, kr = self.kv_down(x).split([self.rank, self.rope], dim=-1)
        c, kr = self.kv_norm(c), spin(kr, pos)
        if cache is not None:
            c = torch.cat([cache["c"], c], dim=1)
            kr = torch.cat([cache["kr"], kr], dim=1)
        cache = {"c": c, "kr": kr}

        w_k, w_v = self.kv_up.split([self.nope, self.vd], dim=1)
        q_lat = torch.einsum("bhtn,hnr->bhtr", qn, w_k)
        s = torch.einsum("bhtr,bsr->bhts", q_lat, c) + torch.einsum("bhtp,bsp->bhts", qr, kr)
        S = c.shape[1]
        late = torch.arange(S, device=x.device)[None, :] > pos[:, None]
        a = F.softmax((s * self.scale).masked_fill(late, -torch.inf), dim=-1, dtype=torch.float32)
        lat = torch.einsum("bhts,bsr->bhtr", a.to(c.dtype), c)
        y = torch.einsum("bhtr,hvr->bthv", lat, w_v)
        return self.out(y.reshape(B, T, -1)), cache


def cache_bytes(cache):
    return sum(t.numel() * t.element_size() for t in cache.values())


if __name__ == "__main__":
    att = KilnLatentAttention()
    y, c = att(torch.randn(1, 6, 64))
    y, c = att(torch.randn(1, 1, 64), c)
    print(y.shape, cache_bytes(c), "bytes")
