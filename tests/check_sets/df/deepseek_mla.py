import torch
import torch.nn as nn
import torch.nn.functional as F


def rope(x, start=0):
    """x (..., T, r): pairs (0,1), (2,3), ... turn together."""
    T, r = x.shape[-2:]
    f = 10000.0 ** (-torch.arange(0, r, 2, device=x.device) / r)
    a = torch.outer(torch.arange(start, start + T, device=x.device), f)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * a.cos() - odd * a.sin(), even * a.sin() + odd * a.cos()], -1).flatten(-2)


class MLA(nn.Module):
    """Multi-head latent attention (DeepSeek-V2). Only the latent c_kv and one rotary key are cached.

    x (B, T, dim), cache None or (c_kv (B, P, kv_rank), k_r (B, P, rope_dim)) -> y (B, T, dim), cache
    """

    def __init__(self, dim=32, heads=4, nope=6, rope_dim=4, v_dim=5, kv_rank=10, q_rank=12):
        super().__init__()
        self.h, self.nope, self.r, self.v_dim = heads, nope, rope_dim, v_dim
        self.q_down, self.q_norm = nn.Linear(dim, q_rank, bias=False), nn.RMSNorm(q_rank)
        self.q_up = nn.Linear(q_rank, heads * (nope + rope_dim), bias=False)
        self.kv_down, self.kv_norm = nn.Linear(dim, kv_rank + rope_dim, bias=False), nn.RMSNorm(kv_rank)
        self.kv_up = nn.Linear(kv_rank, heads * (nope + v_dim), bias=False)
        self.o = nn.Linear(heads * v_dim, dim, bias=False)

    def forward(self, x, cache=None):
        B, T, _ = x.shape
        P = 0 if cache is None else cache[0].size(1)
        q = self.q_up(self.q_norm(self.q_down(x))).view(B, T, self.h, -1).transpose(1, 2)
        q = torch.cat([q[..., :self.nope], rope(q[..., self.nope:], P)], -1)
        down = self.kv_down(x)
        c, k_r = self.kv_norm(down[..., :-self.r]), rope(down[..., -self.r:], P)
        if cache is not None:
            c, k_r = torch.cat([cache[0], c], 1), torch.cat([cache[1], k_r], 1)
        kv = self.kv_up(c).view(B, P + T, self.h, -1).transpose(1, 2)
        k_c, v = kv.split([self.nope, self.v_dim], -1)
        k = torch.cat([k_c, k_r.unsqueeze(1).expand(-1, self.h, -1, -1)], -1)
        seen = torch.ones(T, P + T, dtype=torch.bool, device=x.device).tril(P)
        s = (q @ k.transpose(-1, -2)) * (self.nope + self.r) ** -0.5
        y = F.softmax(s.masked_fill(~seen, float("-inf")), -1) @ v
        return self.o(y.transpose(1, 2).flatten(2)), (c, k_r)
