# coding: utf-8
"""Cross attention of a latent diffusion U-Net on text tokens.

The pipeline turns the tokenizer mask (1 = token, 0 = pad) into an additive bias
once per prompt with `additive_bias`; everything below gets this bias
(0 for tokens, a large negative number for padding), never the 0/1 mask.
"""
import torch
import torch.nn.functional as F
from torch import nn


def additive_bias(mask, dtype=torch.float32):
    """[B, S] 0/1 -> [B, 1, S], 0 or -10000"""
    return ((1 - mask.to(dtype)) * -10000.0).unsqueeze(1)


class GEGLU(nn.Module):
    def __init__(self, d, mult=4):
        super().__init__()
        self.a = nn.Linear(d, d * mult * 2)
        self.b = nn.Linear(d * mult, d)

    def forward(self, x):
        x, g = self.a(x).chunk(2, -1)
        return self.b(x * F.gelu(g))


class CrossAttention(nn.Module):
    def __init__(self, query_dim, context_dim=None, heads=4, dim_head=16):
        super().__init__()
        inner = heads * dim_head
        context_dim = context_dim or query_dim
        self.heads = heads
        self.to_q = nn.Linear(query_dim, inner, bias=False)
        self.to_k = nn.Linear(context_dim, inner, bias=False)
        self.to_v = nn.Linear(context_dim, inner, bias=False)
        self.to_out = nn.Linear(inner, query_dim)

    def split(self, t):
        return t.view(t.shape[0], t.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, hidden, context=None, encoder_bias=None):
        context = hidden if context is None else context
        q, k, v = self.split(self.to_q(hidden)), self.split(self.to_k(context)), self.split(self.to_v(context))
        attn_mask = None
        if encoder_bias is not None:
            attn_mask = encoder_bias[:, None].expand(-1, self.heads, q.shape[2], -1).bool()
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)
        out = out.transpose(1, 2).reshape(hidden.shape[0], hidden.shape[1], -1)
        return self.to_out(out)


class SpatialTransformer(nn.Module):
    def __init__(self, ch, context_dim, groups=8):
        super().__init__()
        self.norm = nn.GroupNorm(groups, ch)
        self.proj_in, self.proj_out = nn.Conv2d(ch, ch, 1), nn.Conv2d(ch, ch, 1)
        self.n1, self.n2, self.n3 = (nn.LayerNorm(ch) for _ in range(3))
        self.attn1 = CrossAttention(ch)
        self.attn2 = CrossAttention(ch, context_dim)
        self.ff = GEGLU(ch)

    def forward(self, x, text, encoder_bias=None):
        b, c, h, w = x.shape
        z = self.proj_in(self.norm(x)).flatten(2).transpose(1, 2)
        z = z + self.attn1(self.n1(z))
        z = z + self.attn2(self.n2(z), text, encoder_bias)
        z = z + self.ff(self.n3(z))
        return x + self.proj_out(z.transpose(1, 2).reshape(b, c, h, w))


class ResBlock(nn.Module):
    def __init__(self, ch, t_dim):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(8, ch), nn.Conv2d(ch, ch, 3, padding=1)
        self.n2, self.c2 = nn.GroupNorm(8, ch), nn.Conv2d(ch, ch, 3, padding=1)
        self.t = nn.Linear(t_dim, ch)

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x))) + self.t(F.silu(t))[..., None, None]
        return x + self.c2(F.silu(self.n2(h)))


class MidBlock(nn.Module):
    def __init__(self, ch=32, t_dim=24, context_dim=20):
        super().__init__()
        self.r1, self.r2 = ResBlock(ch, t_dim), ResBlock(ch, t_dim)
        self.st = SpatialTransformer(ch, context_dim)

    def forward(self, x, t, text, mask):
        return self.r2(self.st(self.r1(x, t), text, additive_bias(mask, x.dtype)), t)
