"""MAE encoder (He et al. 2022) for satellite tiles. Encoder only, no decoder.

forward(img, keep=None)
    img   (B, chans, S, S), S = cfg["img"]
    keep  (B, n) int64 indices of the patches that stay visible, or None for all of them
    ->    (B, 1 + n, width), class token first, the rest in the order of `keep`

Plain pre-norm ViT blocks: multi-head softmax attention, every head scaled by the inverse
square root of its own dimension, then a GELU MLP of ratio 4. Fixed sin-cos positions are
replaced by learned ones.
"""
import torch
import torch.nn as nn

cfg = dict(img=32, patch=8, chans=4, width=48, depth=2, heads=4)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.scale = width ** -0.5
        self.qkv = nn.Linear(width, width * 3)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q @ k.transpose(-2, -1)) * self.scale
        attn = attn.softmax(dim=-1)
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj(x)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class MAEEncoder(nn.Module):
    def __init__(self, cfg=cfg):
        super().__init__()
        w, p = cfg["width"], cfg["patch"]
        n = (cfg["img"] // p) ** 2
        self.embed = nn.Conv2d(cfg["chans"], w, p, stride=p)
        self.cls = nn.Parameter(torch.randn(1, 1, w) * 0.02)
        self.pos = nn.Parameter(torch.randn(1, n + 1, w) * 0.02)
        self.blocks = nn.ModuleList([Block(w, cfg["heads"]) for _ in range(cfg["depth"])])
        self.ln = nn.LayerNorm(w)

    def forward(self, img, keep=None):
        x = self.embed(img).flatten(2).transpose(1, 2) + self.pos[:, 1:]
        if keep is not None:
            x = x.gather(1, keep.unsqueeze(-1).expand(-1, -1, x.size(-1)))
        cls = (self.cls + self.pos[:, :1]).expand(x.size(0), -1, -1)
        x = torch.cat([cls, x], dim=1)
        for b in self.blocks:
            x = b(x)
        return self.ln(x)
