"""Multi-query attention with rotary positions; one shared key/value head."""
import torch
from torch import nn


def rotary(x, pos, base=10000.0):
    # x [B, T, h, d], pos [T]
    half = x.shape[-1] // 2
    freq = base ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    ang = pos[:, None].float() * freq
    c, s = ang.cos()[:, None, :], ang.sin()[:, None, :]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * c - b * s, a * s + b * c], dim=-1)


class MQA(nn.Module):
    def __init__(self, dim=64, heads=4):
        super().__init__()
        self.h, self.d = heads, dim // heads
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.kv_proj = nn.Linear(dim, 2 * self.d, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cache=None):
        """x [B, T, dim] new tokens; cache (k, v) of everything before, each [B, S, d]."""
        B, T, _ = x.shape
        q = self.q_proj(x).view(B, T, self.h, self.d)
        k, v = self.kv_proj(x).split(self.d, dim=-1)
        pos = torch.arange(T, device=x.device)
        q = rotary(q, pos)
        k = rotary(k.unsqueeze(2), pos).squeeze(2)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=1)
            v = torch.cat([cache[1], v], dim=1)
        S = k.shape[1]
        att = torch.einsum("bthd,bsd->bhts", q, k) * self.d ** -0.5
        future = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(S - T + 1)
        att = att.masked_fill(future, float("-inf")).softmax(dim=-1)
        y = torch.einsum("bhts,bsd->bthd", att, v).reshape(B, T, -1)
        return self.o_proj(y), (k, v)
