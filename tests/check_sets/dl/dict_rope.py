"""Self-attention of a small chat model; the session is a plain dict, one entry per layer.

session[layer] = {"k": (B, N, Hkv, d), "v": (B, N, Hkv, d)}, the keys already rotated.  The
rotary embedding (interleaved pairs, base 10000) uses absolute positions: the first token of
the conversation is 0, and tokens that come later count on from there.
"""
import torch
from torch import nn


def rotary(x, start):
    """x (B, T, heads, d); token t gets position start + t."""
    b, t, h, d = x.shape
    theta = 10000.0 ** (-torch.arange(0, d, 2).float() / d)
    ang = torch.arange(start, start + t).float()[:, None] * theta[None, :]
    cos, sin = ang.cos()[None, :, None, :], ang.sin()[None, :, None, :]
    x = x.reshape(b, t, h, d // 2, 2)
    return torch.stack(
        (x[..., 0] * cos - x[..., 1] * sin, x[..., 0] * sin + x[..., 1] * cos), dim=-1
    ).reshape(b, t, h, d)


class ChatAttention(nn.Module):
    def __init__(self, layer, width, heads, kv_heads):
        super().__init__()
        self.layer, self.heads, self.kv_heads = layer, heads, kv_heads
        self.d = width // heads
        self.q = nn.Linear(width, heads * self.d, bias=False)
        self.k = nn.Linear(width, kv_heads * self.d, bias=False)
        self.v = nn.Linear(width, kv_heads * self.d, bias=False)
        self.o = nn.Linear(width, width, bias=False)

    def forward(self, x, session):
        """x (B, T, width): new tokens.  session: dict, updated.  Causal over the whole
        conversation: feeding it in pieces gives what feeding it at once gives.
        Query heads in neighbouring groups of heads // kv_heads share a KV head."""
        b, t, w = x.shape
        q = self.q(x).view(b, t, self.heads, self.d)
        k = self.k(x).view(b, t, self.kv_heads, self.d)
        v = self.v(x).view(b, t, self.kv_heads, self.d)
        old = session.get(self.layer)
        start = old["k"].shape[2] if old else 0
        q, k = rotary(q, start), rotary(k, start)
        if old:
            k = torch.cat((old["k"], k), dim=1)
            v = torch.cat((old["v"], v), dim=1)
        session[self.layer] = {"k": k, "v": v}
        n = k.shape[1]
        g = q.view(b, t, self.kv_heads, -1, self.d)
        s = torch.einsum("btkgd,bnkd->bkgtn", g, k) / self.d ** 0.5
        s = s.masked_fill(torch.ones(t, n).triu(n - t + 1).bool(), float("-inf"))
        y = torch.einsum("bkgtn,bnkd->btkgd", s.softmax(-1), v)
        return self.o(y.reshape(b, t, w))
