"""Decoder of the handwriting model: rotary attention over image and text tokens."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Rotary(nn.Module):
    def __init__(self, dim, base=10000):
        super().__init__()
        inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, positions):
        freqs = positions.float()[..., None] * self.inv_freq
        emb = freqs.repeat_interleave(2, dim=-1)
        return emb.cos(), emb.sin()


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


def rotate(x, cos, sin):
    return x * cos + rotate_half(x) * sin


class GlyphAttention(nn.Module):
    """Prefix-LM: the first n_prefix tokens (image patches) see one another freely, the
    text after them is causal."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, dim, bias=False)
        self.v_proj = nn.Linear(dim, dim, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)
        self.rotary = Rotary(self.hd)

    def forward(self, x, n_prefix=0):
        b, t, c = x.shape
        q, k, v = [p(x).view(b, t, self.heads, self.hd).transpose(1, 2)
                   for p in (self.q_proj, self.k_proj, self.v_proj)]
        pos = torch.arange(t, device=x.device)
        cos, sin = self.rotary(pos)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        allow = (pos[None, :] <= pos[:, None]) | (pos[None, :] < n_prefix)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allow)
        return self.o_proj(y.transpose(1, 2).reshape(b, t, c))


class GlyphBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.a = nn.LayerNorm(dim)
        self.attn = GlyphAttention(dim, heads)
        self.b = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))

    def forward(self, x, n_prefix):
        x = x + self.attn(self.a(x), n_prefix)
        return x + self.ff(self.b(x))


class ManuscriptReader(nn.Module):
    def __init__(self, vocab, dim=64, heads=4, layers=2, patch=8):
        super().__init__()
        self.patches = nn.Conv2d(1, dim, patch, patch)
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(GlyphBlock(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.lm_head = nn.Linear(dim, vocab, bias=False)

    def forward(self, image, ids):
        img = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([img, self.embed(ids)], dim=1)
        for blk in self.blocks:
            x = blk(x, img.shape[1])
        return self.lm_head(self.norm(x[:, img.shape[1]:]))
