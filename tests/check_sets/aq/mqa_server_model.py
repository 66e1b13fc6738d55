"""Code completion model of the internal inference server: multi-query attention with ALiBi."""
import torch
import torch.nn.functional as F
from torch import nn


def head_slopes(n_heads):
    """ALiBi slopes for a power-of-two head count: the geometric sequence that starts at
    2^(-8/n) and has the same value as ratio (n = 8: 1/2, 1/4, ... 1/256)."""
    assert n_heads & (n_heads - 1) == 0, "power of two wanted"
    return 2.0 ** (-8.0 * torch.arange(n_heads) / n_heads)


class MultiQueryALiBi(nn.Module):
    """One key/value head for all query heads. cache: (k, v) [B, past, d] each or None."""

    def __init__(self, width, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.d = width // n_heads
        self.wqkv = nn.Linear(width, width + 2 * self.d, bias=False)
        self.proj = nn.Linear(width, width, bias=False)
        self.register_buffer("slopes", head_slopes(n_heads), persistent=False)

    def forward(self, x, cache=None):
        B, T, W = x.shape
        q, k, v = self.wqkv(x).split([W, self.d, self.d], dim=-1)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=1)
            v = torch.cat([cache[1], v], dim=1)
        S = k.shape[1]
        q = q.view(B, T, self.n_heads, self.d)
        scores = torch.einsum("bthd,bsd->bhts", q, k) * self.d ** -0.5
        i = torch.arange(S - T, S, device=x.device)[:, None]
        j = torch.arange(S, device=x.device)[None, :]
        scores = scores - self.slopes.to(x.dtype)[None, :, None, None] * (i - j)
        scores = scores.masked_fill(j > i, float("-inf"))
        w = F.softmax(scores, dim=-1, dtype=torch.promote_types(x.dtype, torch.float32)).to(x.dtype)
        y = torch.einsum("bhts,bsd->bthd", w, v).reshape(B, T, W)
        return self.proj(y), (k, v)


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.a, self.b = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = MultiQueryALiBi(width, heads)
        self.fc = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, cache=None):
        y, cache = self.attn(self.a(x), cache)
        x = x + y
        return x + self.fc(self.b(x)), cache


@torch.inference_mode()
def complete(embed, layers, head, ids, n_new):
    caches = [None] * len(layers)
    step = ids
    for _ in range(n_new):
        x = embed(step)
        for n, l in enumerate(layers):
            x, caches[n] = l(x, caches[n])
        step = head(x[:, -1]).argmax(-1, keepdim=True)
        ids = torch.cat([ids, step], dim=1)
    return ids
