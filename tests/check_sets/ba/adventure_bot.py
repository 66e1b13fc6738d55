"""Text adventure bot: the narrator transformer (fork of an older personal LM)."""
import math
from types import SimpleNamespace
import torch
from torch import nn

DEFAULT = SimpleNamespace(width=40, heads=2, rope_base=500.0, ctx=128)


class Rotary:
    """Rotary embedding, half-split layout as in the checkpoint we started from:
    channel i and channel i + d/2 turn together by the angle pos * base^(-2i/d)."""

    def __init__(self, d, base, ctx):
        freq = base ** (-torch.arange(0, d, 2).float() / d)
        ang = torch.arange(ctx).float()[:, None] * freq
        ang = ang.repeat_interleave(2, dim=-1)
        self.cos, self.sin = ang.cos(), ang.sin()

    def __call__(self, x):
        T = x.shape[-2]
        a, b = x.chunk(2, dim=-1)
        turned = torch.cat([-b, a], dim=-1)
        return x * self.cos[:T].to(x) + turned * self.sin[:T].to(x)


class NarratorAttention(nn.Module):
    """Scaled dot-product attention with rope, causal.

    secret [B, T] bool: True marks tokens the player must not know of (hidden
    stage directions); no token may read them except the token itself.
    """

    def __init__(self, cfg=DEFAULT):
        super().__init__()
        self.heads = cfg.heads
        self.d = cfg.width // cfg.heads
        self.rot = Rotary(self.d, cfg.rope_base, cfg.ctx)
        self.inp = nn.Linear(cfg.width, 3 * cfg.width, bias=False)
        self.out = nn.Linear(cfg.width, cfg.width, bias=False)
        self.scale = 1.0 / math.sqrt(self.heads)

    def forward(self, x, secret=None):
        B, T, C = x.shape
        q, k, v = self.inp(x).chunk(3, dim=-1)
        q, k, v = (z.reshape(B, T, self.heads, self.d).transpose(1, 2) for z in (q, k, v))
        q, k = self.rot(q), self.rot(k)
        s = q @ k.transpose(-1, -2) * self.scale
        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        s = s.masked_fill(future, float("-inf"))
        if secret is not None:
            eye = torch.eye(T, dtype=torch.bool, device=x.device)
            s.masked_fill(secret[:, None, None, :] & ~eye, float("-inf"))
        y = s.softmax(dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(B, T, C))


class Narrator(nn.Module):
    def __init__(self, vocab, cfg=DEFAULT):
        super().__init__()
        self.emb = nn.Embedding(vocab, cfg.width)
        self.norm = nn.LayerNorm(cfg.width)
        self.attn = NarratorAttention(cfg)

    def forward(self, ids, secret=None):
        h = self.emb(ids)
        h = h + self.attn(self.norm(h), secret)
        return h @ self.emb.weight.T
