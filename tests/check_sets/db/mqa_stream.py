import torch
from torch import nn
import torch.nn.functional as F


def _turn(x, pos, base=10000.0):
    # x: (..., T, d); dims (i, i + d/2) form a pair
    half = x.shape[-1] // 2
    freq = base ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    ang = pos.float()[:, None] * freq
    c, s = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1)


class StreamMQA(nn.Module):
    """Causal multi-query attention (one shared key/value head) with rotary positions.

    out, cache = layer(x, cache): x (B, T, dim) are the next T tokens, cache is None or
    the dict of the previous call. Feeding a text whole or in pieces gives the same rows.
    """

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, 2 * self.hd, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cache=None):
        B, T, _ = x.shape
        past = 0 if cache is None else cache["k"].shape[1]
        pos = torch.arange(past, past + T, device=x.device)
        q = _turn(self.q(x).view(B, T, self.heads, self.hd).transpose(1, 2), pos)
        k, v = self.kv(x).split(self.hd, -1)
        k = _turn(k, pos)
        if cache is not None:
            k = torch.cat([cache["k"], k], 1)
            v = torch.cat([cache["v"], v], 1)
        see = torch.arange(past + T, device=x.device)[None, :] <= pos[:, None]
        # heads ride on the query axis so that the one key head is never copied
        big = q.reshape(B, self.heads * T, self.hd)
        y = F.scaled_dot_product_attention(big, k, v, attn_mask=see.repeat(self.heads, 1))
        y = y.view(B, self.heads, T, self.hd).transpose(1, 2).reshape(B, T, -1)
        return self.out(y), {"k": k, "v": v}
