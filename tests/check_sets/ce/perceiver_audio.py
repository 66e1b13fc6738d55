"""Perceiver(Jaegle ら, 2021)の音声分類への応用 — 修士論文の補助コード。

少数の潜在ベクトルが長いメルスペクトログラムをクロスアテンションで読み、
その後、潜在ベクトル同士で自己アテンションを行う。これを depth 回繰り返す
(重みは共有)。アテンションは Vaswani ら (2017) の標準的な
scaled dot-product multi-head attention。
"""
import torch
import torch.nn as nn
from torch import einsum


class PreNorm(nn.Module):
    def __init__(self, dim, fn, context_dim=None):
        super().__init__()
        self.fn = fn
        self.norm = nn.LayerNorm(dim)
        self.norm_context = nn.LayerNorm(context_dim) if context_dim else None

    def forward(self, x, **kw):
        if self.norm_context is not None:
            kw["context"] = self.norm_context(kw["context"])
        return self.fn(self.norm(x), **kw)


class GEGLU(nn.Module):
    def forward(self, x):
        x, gate = x.chunk(2, dim=-1)
        return x * nn.functional.gelu(gate)


class Attention(nn.Module):
    def __init__(self, query_dim, context_dim=None, heads=8, dim_head=64):
        super().__init__()
        inner_dim = heads * dim_head
        context_dim = context_dim or query_dim
        self.heads = heads
        self.scale = inner_dim ** -0.5
        self.to_q = nn.Linear(query_dim, inner_dim, bias=False)
        self.to_kv = nn.Linear(context_dim, inner_dim * 2, bias=False)
        self.to_out = nn.Linear(inner_dim, query_dim)

    def forward(self, x, context=None, mask=None):
        h = self.heads
        context = x if context is None else context
        q = self.to_q(x)
        k, v = self.to_kv(context).chunk(2, dim=-1)
        q, k, v = (t.reshape(*t.shape[:2], h, -1) for t in (q, k, v))
        sim = einsum("b i h d, b j h d -> b h i j", q, k) * self.scale
        if mask is not None:
            # mask: (b, j)、True が有効なフレーム
            sim = sim.masked_fill(~mask[:, None, None], -torch.finfo(sim.dtype).max)
        attn = sim.softmax(dim=-1)
        out = einsum("b h i j, b j h d -> b i h d", attn, v)
        return self.to_out(out.flatten(2))


class AudioPerceiver(nn.Module):
    def __init__(self, n_mels=20, n_latents=8, latent_dim=32, n_classes=5,
                 depth=2, heads=4, dim_head=8):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(n_latents, latent_dim))
        self.depth = depth
        self.cross = PreNorm(latent_dim, Attention(latent_dim, n_mels, heads, dim_head), n_mels)
        self.latent = PreNorm(latent_dim, Attention(latent_dim, None, heads, dim_head))
        self.ff = PreNorm(latent_dim, nn.Sequential(
            nn.Linear(latent_dim, latent_dim * 4), GEGLU(), nn.Linear(latent_dim * 2, latent_dim)))
        self.to_logits = nn.Sequential(nn.LayerNorm(latent_dim), nn.Linear(latent_dim, n_classes))

    def forward(self, mel, mask=None):
        """mel (b, フレーム, n_mels) -> (b, n_classes)"""
        x = self.latents.expand(mel.shape[0], -1, -1)
        for _ in range(self.depth):
            x = x + self.cross(x, context=mel, mask=mask)
            x = x + self.latent(x)
            x = x + self.ff(x)
        return self.to_logits(x.mean(dim=1))
