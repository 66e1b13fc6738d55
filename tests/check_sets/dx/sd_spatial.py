"""SpatialTransformer as in latent diffusion (Rombach et al.), for my pixel-art upscaler.

feat      (B, C, h, w)  feature map of the UNet
ctx       (B, S, ctx_dim) text embeddings
ctx_mask  (B, S) bool, True = a real token, False = padding; None = all real. Every prompt has
          at least one real token.
returns   (B, C, h, w), residual included

Inside: GroupNorm, 1x1 conv in, then x += self_attn(LN x); x += cross_attn(LN x, ctx);
x += GEGLU(LN x); then 1x1 conv out. Attention is per head with 1/sqrt(d_head).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

CONFIG = {
    "channels": 32,
    "ctx_dim": 20,
    "n_heads": 4,
    "d_head": 8,
    "groups": 8,
    "ff_mult": 2,
}


class Attn(nn.Module):
    def __init__(self, dim, ctx_dim, n_heads, d_head):
        super().__init__()
        inner = n_heads * d_head
        self.n_heads = n_heads
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_k = nn.Linear(ctx_dim, inner, bias=False)
        self.to_v = nn.Linear(ctx_dim, inner, bias=False)
        self.to_out = nn.Linear(inner, dim)

    def forward(self, x, ctx=None, mask=None):
        ctx = x if ctx is None else ctx
        q, k, v = self.to_q(x), self.to_k(ctx), self.to_v(ctx)
        q, k, v = (t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for t in (q, k, v))
        if mask is not None:
            mask = mask[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.to_out(y.transpose(1, 2).flatten(-2))


class GEGLU(nn.Module):
    def __init__(self, dim, mult):
        super().__init__()
        self.up = nn.Linear(dim, 2 * mult * dim)
        self.down = nn.Linear(mult * dim, dim)

    def forward(self, x):
        a, gate = self.up(x).chunk(2, dim=-1)
        return self.down(a * F.gelu(gate))


class SpatialTransformer(nn.Module):
    def __init__(self, cfg=CONFIG):
        super().__init__()
        dim = cfg["n_heads"] * cfg["d_head"]
        self.norm = nn.GroupNorm(cfg["groups"], cfg["channels"], eps=1e-6)
        self.proj_in = nn.Conv2d(cfg["channels"], dim, 1)
        self.ln1, self.ln2, self.ln3 = (nn.LayerNorm(dim) for _ in range(3))
        self.self_attn = Attn(dim, dim, cfg["n_heads"], cfg["d_head"])
        self.cross_attn = Attn(dim, cfg["ctx_dim"], cfg["n_heads"], cfg["d_head"])
        self.ff = GEGLU(dim, cfg["ff_mult"])
        self.proj_out = nn.Conv2d(dim, cfg["channels"], 1)

    def forward(self, feat, ctx, ctx_mask=None):
        b, _, h, w = feat.shape
        x = self.proj_in(self.norm(feat)).flatten(2).mT
        x = x + self.self_attn(self.ln1(x))
        x = x + self.cross_attn(self.ln2(x), ctx, ctx_mask)
        x = x + self.ff(self.ln3(x))
        x = x.mT.unflatten(2, (h, w))
        return feat + self.proj_out(x)
